//! Whether `clusterIP`, `clusterIPs`, `ipFamilies` and `ipFamilyPolicy` agree with each other.
//!
//! Owns the checks that need no cluster; `service-api` runs them on the finished object too.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::ServiceSpec;

use super::{NONE, PREFER, REQUIRE, SINGLE};
use crate::field::{FieldError, duplicate, invalid, not_supported, required};
use crate::prefix::Family;
use crate::spec;

const IPS: &str = "spec.clusterIPs";

pub(super) fn check(new: &ServiceSpec, old: Option<&ServiceSpec>) -> Vec<FieldError> {
    let ips = spec::cluster_ips(new);
    let mut errors = Vec::new();
    errors.extend(first_matches(new.cluster_ip.as_deref().unwrap_or_default(), ips));
    errors.extend(known_families(spec::families(new)));
    let supported = [PREFER, REQUIRE, SINGLE];
    if let Some(policy) = new.ip_family_policy.as_deref().filter(|p| !supported.contains(p)) {
        errors.push(not_supported("spec.ipFamilyPolicy", policy, &supported));
    }
    let malformed = malformed(ips, old.map(spec::cluster_ips).unwrap_or_default());
    let stop = !malformed.is_empty();
    errors.extend(malformed);
    if ips.len() > 2 {
        errors.push(invalid(IPS, ips, "may only hold up to 2 values"));
    }
    if !stop {
        errors.extend(one_of_each_family(ips));
        errors.extend(families_of_ips(ips, spec::families(new)));
    }
    errors
}

fn first_matches(first: &str, ips: &[String]) -> Option<FieldError> {
    match ips.first() {
        None if first.is_empty() => None,
        None => Some(required(IPS, "")),
        Some(_) if first.is_empty() => {
            Some(invalid(IPS, ips, "must be empty when `clusterIP` is not specified"))
        }
        Some(ip) if ip != first => Some(invalid(IPS, ips, "first value must match `clusterIP`")),
        Some(_) => None,
    }
}

fn known_families(families: &[String]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (i, name) in families.iter().enumerate() {
        let field = format!("spec.ipFamilies[{i}]");
        if Family::from_name(name).is_none() {
            errors.push(not_supported(field.clone(), name.as_str(), &["IPv4", "IPv6"]));
        }
        if families[..i].contains(name) {
            errors.push(duplicate(field, name.as_str()));
        }
    }
    errors
}

fn malformed(ips: &[String], old: &[String]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (i, ip) in ips.iter().enumerate() {
        if i == 0 && ip == NONE {
            if ips.len() > 1 {
                errors.push(invalid(IPS, ips, "'None' must be the first and only value"));
            }
        } else if !old.contains(ip)
            && let Some(fault) = fault_of(ip)
        {
            errors.push(invalid(format!("{IPS}[{i}]"), ip.as_str(), fault));
        }
    }
    errors
}

fn fault_of(ip: &str) -> Option<&'static str> {
    match ip.parse::<IpAddr>() {
        Ok(IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_some() => {
            Some("must not be an IPv4-mapped IPv6 address")
        }
        Ok(_) => None,
        Err(_) if has_leading_zeros(ip) => Some("must not have leading 0s"),
        Err(_) => Some("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
    }
}

fn has_leading_zeros(ip: &str) -> bool {
    let parts: Vec<_> = ip.split('.').collect();
    let stripped: Vec<_> = parts
        .iter()
        .map(|part| match part.trim_start_matches('0') {
            "" if !part.is_empty() => "0",
            rest => rest,
        })
        .collect();
    parts.len() == 4 && stripped.join(".").parse::<IpAddr>().is_ok()
}

fn one_of_each_family(ips: &[String]) -> Option<FieldError> {
    let family = |ip: &String| ip.parse().ok().map(Family::of);
    let twice =
        ips.iter().enumerate().any(|(i, ip)| ips[..i].iter().any(|other| family(other) == family(ip)));
    twice.then(|| invalid(IPS, ips, "may specify no more than one IP for each IP family"))
}

fn families_of_ips(ips: &[String], families: &[String]) -> Vec<FieldError> {
    let pairs = ips.iter().zip(families).enumerate();
    let wrong = pairs.filter_map(|(i, (ip, name))| {
        let family = Family::from_name(name)?;
        let is = Family::of(ip.parse().ok()?);
        (is != family).then(|| {
            let detail = format!("expected an {family} value as indicated by `ipFamilies[{i}]`");
            invalid(format!("{IPS}[{i}]"), ip.as_str(), detail)
        })
    });
    wrong.collect()
}
