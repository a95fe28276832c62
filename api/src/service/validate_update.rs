//! Which fields an update of a Service may change.

use k8s_openapi::api::core::v1::{Service, ServiceSpec};

use super::fields::{
    EXTERNAL_NAME, SINGLE_STACK, cluster_ips, families, health_check_port, is_headless, needs_health_check,
    policy, spec_of, type_of,
};
use super::validate::{ONCE_SET, validate_content, validate_load_balancer_class};
use crate::errors::{BadValue, FieldErrors, Path, forbidden, invalid};
use crate::meta;

/// Errors of an update of the main resource: `new` defaulted, prepared, and with its addresses
/// and ports chosen; `old` as stored.
pub fn validate_update(new: &Service, old: &Service) -> FieldErrors {
    let mut errors = meta::validate_object_meta_update(&new.metadata, &old.metadata);
    let (spec, old_spec) = (spec_of(new), spec_of(old));
    errors.extend(validate_cluster_ip_change(spec, old_spec));
    errors.extend(validate_family_change(spec, old_spec));
    errors.extend(validate_load_balancer_class(spec, Some(old_spec)));
    errors.extend(validate_health_check_port_change(spec, old_spec));
    errors.extend(validate_content(new));
    errors
}

/// A Service that needed a health check node port, and still does, keeps it.
fn validate_health_check_port_change(new: &ServiceSpec, old: &ServiceSpec) -> FieldErrors {
    let changed = health_check_port(new) != health_check_port(old);
    if changed && needs_health_check(new) && needs_health_check(old) {
        let path = Path::root("spec").child("healthCheckNodePort");
        vec![forbidden(path, meta::IMMUTABLE)].into()
    } else {
        FieldErrors::new()
    }
}

fn ip_list(spec: &ServiceSpec) -> BadValue {
    spec.cluster_ips.as_ref().map_or(BadValue::Null, BadValue::json)
}

fn family_list(spec: &ServiceSpec) -> BadValue {
    spec.ip_families.as_ref().map_or(BadValue::Null, BadValue::json)
}

fn external_name_involved(new: &ServiceSpec, old: &ServiceSpec) -> bool {
    type_of(new) == EXTERNAL_NAME || type_of(old) == EXTERNAL_NAME
}

fn must_be_single_stack(spec: &ServiceSpec, what: &str) -> FieldErrors {
    if policy(spec) == SINGLE_STACK {
        return FieldErrors::new();
    }
    vec![invalid(
        Path::root("spec").child("ipFamilyPolicy"),
        spec.ip_family_policy.as_deref().map(BadValue::named),
        format!("must be set to 'SingleStack' when releasing the secondary {what}"),
    )]
    .into()
}

fn validate_cluster_ip_change(new: &ServiceSpec, old: &ServiceSpec) -> FieldErrors {
    if external_name_involved(new, old) || (is_headless(new) && is_headless(old)) {
        return FieldErrors::new();
    }
    let path = Path::root("spec").child("clusterIPs");
    let (ips, old_ips) = (cluster_ips(new), cluster_ips(old));
    let mut errors = FieldErrors::new();
    if ips.len() == old_ips.len() {
        for (i, _) in ips.iter().zip(old_ips).enumerate().filter(|(_, (a, b))| a != b) {
            errors.push(invalid(path.index(i), ip_list(new), ONCE_SET));
        }
        return errors;
    }
    if ips.is_empty() {
        errors.push(invalid(path.index(0), ip_list(new), "primary clusterIP can not be unset"));
    }
    if let (Some(ip), Some(old_ip)) = (ips.first(), old_ips.first())
        && ip != old_ip
    {
        errors.push(invalid(path.index(0), ip_list(new), ONCE_SET));
    }
    if old_ips.len() > ips.len() && ips.len() == 1 {
        errors.extend(must_be_single_stack(new, "clusterIP"));
    }
    errors
}

fn validate_family_change(new: &ServiceSpec, old: &ServiceSpec) -> FieldErrors {
    if external_name_involved(new, old) || is_headless(new) || is_headless(old) {
        return FieldErrors::new();
    }
    let first = Path::root("spec").child("ipFamilies").index(0);
    let (list, old_list) = (families(new), families(old));
    let mut errors = FieldErrors::new();
    if list.len() == old_list.len() {
        for _ in list.iter().zip(old_list).filter(|(a, b)| a != b) {
            errors.push(invalid(&first, family_list(new), ONCE_SET));
        }
        return errors;
    }
    let released = old_list.len() > list.len();
    if released && cluster_ips(new).is_empty() {
        errors.push(invalid(&first, family_list(new), "primary ipFamily can not be unset"));
    }
    if let (Some(family), Some(old_family)) = (list.first(), old_list.first())
        && family != old_family
    {
        errors.push(invalid(&first, ip_list(new), ONCE_SET));
    }
    if released && list.len() == 1 {
        errors.extend(must_be_single_stack(new, "ipFamily"));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    fn spec(value: Value) -> ServiceSpec {
        serde_json::from_value(value).unwrap()
    }

    fn fields(errors: &FieldErrors) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[rstest]
    #[case::unset(json!({}), &["spec.clusterIPs[0]: Invalid value: null: primary clusterIP can not be unset"])]
    #[case::released(json!({"clusterIPs": ["10.0.0.1"], "ipFamilyPolicy": "PreferDualStack"}), &["spec.ipFamilyPolicy: Invalid value: \"PreferDualStack\": must be set to 'SingleStack' when releasing the secondary clusterIP"])]
    #[case::released_single(json!({"clusterIPs": ["10.0.0.1"], "ipFamilyPolicy": "SingleStack"}), &[])]
    #[case::external_name(json!({"type": "ExternalName"}), &[])]
    fn releasing_addresses(#[case] new: Value, #[case] expected: &[&str]) {
        let old = spec(json!({"clusterIPs": ["10.0.0.1", "fd00::1"], "ipFamilies": ["IPv4", "IPv6"]}));
        assert_eq!(fields(&validate_cluster_ip_change(&spec(new), &old)), expected);
    }

    #[test]
    fn a_second_family_may_be_added_to_the_first() {
        let old = spec(json!({"clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"]}));
        let new = spec(json!({"clusterIPs": ["10.0.0.1", "fd00::1"], "ipFamilies": ["IPv4", "IPv6"]}));
        assert_eq!(validate_cluster_ip_change(&new, &old), vec![]);
        assert_eq!(validate_family_change(&new, &old), vec![]);
        let other = spec(json!({"clusterIPs": ["10.0.0.1", "fd00::1"], "ipFamilies": ["IPv6", "IPv4"]}));
        assert_eq!(validate_family_change(&other, &old).len(), 1);
    }

    fn service(metadata: &Value, spec: &Value) -> Service {
        let mut service: Service =
            serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
        super::super::default(&mut service);
        service.metadata.namespace = Some("default".to_owned());
        service.metadata.resource_version = Some("1".to_owned());
        service
    }

    #[test]
    fn the_health_check_port_stays_and_other_faults_are_told_too() {
        let of = |port: i32, name: &str| {
            let spec = json!({
                "type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": port,
                "ports": [{"name": name, "port": 80}],
            });
            service(&json!({"name": "a"}), &spec)
        };
        let found = fields(&validate_update(&of(30002, "A"), &of(30001, "a")));
        assert_eq!(found[0], "spec.healthCheckNodePort: Forbidden: field is immutable");
        assert!(found[1].starts_with("spec.ports[0].name: "), "{found:?}");
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn the_metadata_of_an_update_is_judged_as_that_of_any_kind() {
        let spec = json!({"ports": [{"port": 80}]});
        let old = service(&json!({"name": "Old_Name"}), &spec);
        assert_eq!(validate_update(&old, &old), vec![]);
        let new = service(&json!({"name": "Old_Name", "labels": {"k": "-"}}), &spec);
        let of_any_kind = meta::validate_object_meta_update(&new.metadata, &old.metadata);
        assert_eq!(validate_update(&new, &old), of_any_kind);
    }

    #[rstest]
    #[case(Some("a/b"), Some("a/b"), 0)]
    #[case(Some("a/c"), Some("a/b"), 1)]
    #[case(None, Some("a/b"), 1)]
    #[case(Some("a/b"), None, 1)]
    fn the_class_stays(#[case] new: Option<&str>, #[case] old: Option<&str>, #[case] count: usize) {
        let of = |class| spec(json!({"type": "LoadBalancer", "loadBalancerClass": class}));
        let errors = validate_load_balancer_class(&of(new), Some(&of(old)));
        assert_eq!(errors.len(), count, "{errors:?}");
    }
}
