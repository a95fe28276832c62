//! Validation of `clusterIPs`, `ipFamilies` and `ipFamilyPolicy` as far as it does not depend on
//! the cluster's own families (KEP-563).

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Service, ServiceSpec};

use super::fields::{
    CLUSTER_IP_NONE, EXTERNAL_NAME, cluster_ip, cluster_ips, families, is_headless, policy, spec_of, type_of,
};
use crate::address::{Family, ip_faults, parse_lenient};
use crate::errors::{BadValue, FieldErrors, Path, duplicate, invalid, not_supported, required};

const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];
const POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", "SingleStack"];

/// Errors of the linked fields of cluster IPs and families.
///
/// Called before addresses are chosen (the create or update stops there if there are errors) and
/// again by [`super::validate_create`].
pub fn validate_cluster_ips(service: &Service) -> FieldErrors {
    let spec = spec_of(service);
    if type_of(spec) == EXTERNAL_NAME {
        return FieldErrors::new();
    }
    let path = Path::root("spec");
    let list = path.child("clusterIPs");
    let mut errors = validate_singular(spec, &list);
    errors.extend(validate_families(spec, &path.child("ipFamilies")));
    if spec.ip_family_policy.is_some() && !POLICIES.contains(&policy(spec)) {
        errors.push(not_supported(path.child("ipFamilyPolicy"), BadValue::named(policy(spec)), &POLICIES));
    }
    let (bad_ips, ip_errors) = validate_each(spec, &list);
    errors.extend(ip_errors);
    if cluster_ips(spec).len() > 2 {
        errors.push(invalid(&list, cluster_ips(spec), "may only hold up to 2 values"));
    }
    if bad_ips {
        return errors;
    }
    if cluster_ips(spec).len() > 1 && !is_dual_stack(cluster_ips(spec)) {
        errors.push(invalid(&list, cluster_ips(spec), "may specify no more than one IP for each IP family"));
    }
    errors.extend(validate_match(spec, &list));
    errors
}

fn validate_singular(spec: &ServiceSpec, list: &Path) -> FieldErrors {
    let detail = match (cluster_ip(spec), cluster_ips(spec)) {
        ("", []) => return FieldErrors::new(),
        ("", _) => "must be empty when `clusterIP` is not specified",
        (_, []) => return vec![required(list, "")].into(),
        (ip, [first, ..]) if ip == first => return FieldErrors::new(),
        _ => "first value must match `clusterIP`",
    };
    vec![invalid(list, cluster_ips(spec), detail)].into()
}

fn validate_families(spec: &ServiceSpec, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let mut seen = BTreeSet::new();
    for (i, family) in families(spec).iter().enumerate() {
        if !FAMILIES.contains(&family.as_str()) {
            errors.push(not_supported(path.index(i), BadValue::named(family), &FAMILIES));
        }
        if !seen.insert(family) {
            errors.push(duplicate(path.index(i), BadValue::named(family)));
        }
    }
    errors
}

/// Checks each address on its own; the flag says that further checks make no sense.
fn validate_each(spec: &ServiceSpec, list: &Path) -> (bool, FieldErrors) {
    let ips = cluster_ips(spec);
    let mut bad = false;
    let mut errors = FieldErrors::new();
    for (i, ip) in ips.iter().enumerate() {
        if i == 0 && ip == CLUSTER_IP_NONE {
            if ips.len() > 1 {
                bad = true;
                errors.push(invalid(list, ips, "'None' must be the first and only value"));
            }
            continue;
        }
        for fault in ip_faults(ip) {
            bad = true;
            errors.push(invalid(list.index(i), ip, fault));
        }
    }
    (bad, errors)
}

fn family_of(ip: &str) -> Option<Family> {
    parse_lenient(ip).map(Family::of)
}

/// Whether both families are among the addresses.
fn is_dual_stack(ips: &[String]) -> bool {
    let families: BTreeSet<_> = ips.iter().filter_map(|ip| family_of(ip)).collect();
    families.len() == 2
}

fn validate_match(spec: &ServiceSpec, list: &Path) -> FieldErrors {
    if is_headless(spec) {
        return FieldErrors::new();
    }
    let pairs = cluster_ips(spec).iter().zip(families(spec));
    pairs
        .enumerate()
        .filter_map(|(i, (ip, family))| {
            let wanted = Family::parse(family)?;
            (family_of(ip) != Some(wanted)).then(|| {
                invalid(
                    list.index(i),
                    ip,
                    format!("expected an {wanted} value as indicated by `ipFamilies[{i}]`"),
                )
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    #[rstest]
    #[case(json!({"clusterIP": "10.0.0.1"}), &["spec.clusterIPs: Required value"])]
    #[case(json!({"clusterIP": "None", "clusterIPs": ["None", "10.0.0.1"]}), &["spec.clusterIPs: Invalid value: [\"None\",\"10.0.0.1\"]: 'None' must be the first and only value"])]
    #[case(json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "10.0.0.2"]}), &["spec.clusterIPs: Invalid value: [\"10.0.0.1\",\"10.0.0.2\"]: may specify no more than one IP for each IP family"])]
    #[case(json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd00::1", "fd00::2"]}), &[
        "spec.clusterIPs: Invalid value: [\"10.0.0.1\",\"fd00::1\",\"fd00::2\"]: may only hold up to 2 values",
    ])]
    #[case(json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "None"]}), &["spec.clusterIPs[1]: Invalid value: \"None\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"])]
    #[case(json!({"type": "ExternalName", "clusterIPs": ["x"]}), &[])]
    #[case(json!({"clusterIP": "None", "clusterIPs": ["None"], "ipFamilies": ["IPv4", "IPv6"]}), &[])]
    fn linked_fields(#[case] spec: Value, #[case] expected: &[&str]) {
        let service: Service = serde_json::from_value(json!({"spec": spec})).unwrap();
        let found: Vec<_> = validate_cluster_ips(&service).iter().map(ToString::to_string).collect();
        assert_eq!(found, expected);
    }
}
