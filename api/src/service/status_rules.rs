//! Rules of a Service's status.

use k8s_openapi::api::core::v1::{LoadBalancerIngress, LoadBalancerStatus, Service};

use super::fields::{LOAD_BALANCER, spec_of, text, type_of};
use crate::address::{ip_warnings, parse_lenient, validate_ip};
use crate::errors::{BadValue, FieldErrors, Path, forbidden, invalid, not_supported, required};
use crate::meta;
use crate::names;

const IP_MODES: [&str; 2] = ["Proxy", "VIP"];

/// Errors of an update of the status subresource.
pub fn validate_status_update(new: &Service, old: &Service) -> FieldErrors {
    let mut errors = meta::validate_object_meta_update(&new.metadata, &old.metadata);
    if let Some(status) = new.status.as_ref().and_then(|s| s.load_balancer.as_ref()) {
        let path = Path::root("status").child("loadBalancer");
        let is_load_balancer = type_of(spec_of(new)) == LOAD_BALANCER;
        errors.extend(validate_load_balancer_status(status, is_load_balancer, &path));
    }
    errors
}

/// Errors of the addresses of a load balancer.
pub fn validate_load_balancer_status(
    status: &LoadBalancerStatus,
    is_load_balancer: bool,
    path: &Path,
) -> FieldErrors {
    let path = path.child("ingress");
    let ingress = status.ingress.as_deref().unwrap_or_default();
    if !is_load_balancer && !ingress.is_empty() {
        return vec![forbidden(&path, "may only be used when `spec.type` is 'LoadBalancer'")].into();
    }
    ingress.iter().enumerate().flat_map(|(i, entry)| validate_ingress(entry, &path.index(i))).collect()
}

fn validate_ingress(entry: &LoadBalancerIngress, path: &Path) -> FieldErrors {
    let ip = text(entry.ip.as_ref());
    let mut errors = FieldErrors::new();
    if !ip.is_empty() {
        errors.extend(validate_ip(&path.child("ip"), ip));
    }
    let field = path.child("ipMode");
    match entry.ip_mode.as_deref() {
        None if !ip.is_empty() => {
            errors.push(required(&field, "must be specified when `ip` is set"));
        }
        Some(_) if ip.is_empty() => {
            errors.push(forbidden(&field, "may not be specified when `ip` is not set"));
        }
        Some(mode) if !IP_MODES.contains(&mode) => {
            errors.push(not_supported(&field, BadValue::named(mode), &IP_MODES));
        }
        _ => {}
    }
    let hostname = text(entry.hostname.as_ref());
    if !hostname.is_empty() {
        let field = path.child("hostname");
        for fault in names::dns_subdomain(hostname) {
            errors.push(invalid(&field, hostname, fault));
        }
        if parse_lenient(hostname).is_some() {
            errors.push(invalid(&field, hostname, "must be a DNS name, not an IP address"));
        }
    }
    errors
}

/// Warnings of an update of the status subresource.
pub fn status_warnings(new: &Service) -> Vec<String> {
    let path = Path::root("status").child("loadBalancer").child("ingress");
    new.status
        .iter()
        .filter_map(|s| s.load_balancer.as_ref())
        .flat_map(|lb| lb.ingress.iter().flatten())
        .enumerate()
        .filter(|(_, entry)| entry.ip.is_some())
        .flat_map(|(i, entry)| ip_warnings(&path.index(i), text(entry.ip.as_ref())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    #[rstest]
    #[case(json!({"ip": "192.0.2.1", "ipMode": "VIP"}), &[])]
    #[case(json!({"ip": "192.0.2.1"}), &["i[0].ipMode: Required value: must be specified when `ip` is set"])]
    #[case(json!({"hostname": "a.b"}), &[])]
    #[case(json!({"hostname": "a.b", "ipMode": "VIP"}), &["i[0].ipMode: Forbidden: may not be specified when `ip` is not set"])]
    #[case(json!({"ip": "x", "ipMode": "Odd"}), &[
        "i[0].ip: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        "i[0].ipMode: Unsupported value: \"Odd\": supported values: \"Proxy\", \"VIP\"",
    ])]
    #[case(json!({}), &[])]
    fn entries(#[case] entry: Value, #[case] expected: &[&str]) {
        let status: LoadBalancerStatus = serde_json::from_value(json!({"ingress": [entry]})).unwrap();
        let errors = validate_load_balancer_status(&status, true, &Path::root("x"));
        let found: Vec<_> = errors.iter().map(|e| e.to_string().replacen("x.ingress", "i", 1)).collect();
        assert_eq!(found, expected);
    }
}
