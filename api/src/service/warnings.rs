//! Warnings about a Service that is accepted and probably not what its author meant.

use k8s_openapi::api::core::v1::{Service, ServiceSpec};

use super::fields::{
    CLUSTER_IP_NONE, EXTERNAL_NAME, cluster_ip, cluster_ips, is_headless, spec_of, text, type_of,
};
use super::status_rules::status_warnings;
use super::validate::TOPOLOGY_HINTS;
use crate::address::{cidr_warnings, ip_warnings};
use crate::errors::Path;

/// Warnings of a create or an update, in upstream's order. `old` is the stored Service of an
/// update.
///
/// An update that changes nothing but the status can only be one of the status subresource, and
/// there only the status is looked at.
pub fn warnings(new: &Service, old: Option<&Service>) -> Vec<String> {
    if let Some(old) = old
        && old.spec == new.spec
        && old.status != new.status
    {
        return status_warnings(new);
    }
    let spec = spec_of(new);
    let path = Path::root("spec");
    let mut out = Vec::new();
    let annotations = new.metadata.annotations.as_ref();
    if annotations.is_some_and(|a| a.contains_key(TOPOLOGY_HINTS)) {
        out.push(format!(
            "annotation {TOPOLOGY_HINTS} is deprecated, please use service.kubernetes.io/topology-mode instead"
        ));
    }
    out.extend(cluster_ip_warnings(spec, &path));
    if is_headless(spec) {
        out.extend(headless_warnings(spec));
    }
    out.extend(spelling_warnings(spec, &path));
    out.extend(type_warnings(spec));
    if text(spec.traffic_distribution.as_ref()) == "PreferClose" {
        out.push(
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"".to_owned(),
        );
    }
    out
}

fn external_ips(spec: &ServiceSpec) -> &[String] {
    spec.external_ips.as_deref().unwrap_or_default()
}

fn cluster_ip_warnings(spec: &ServiceSpec, path: &Path) -> Vec<String> {
    let ip = cluster_ip(spec);
    if ip.is_empty() || ip == CLUSTER_IP_NONE {
        return Vec::new();
    }
    let path = path.child("clusterIPs");
    cluster_ips(spec).iter().enumerate().flat_map(|(i, ip)| ip_warnings(&path.index(i), ip)).collect()
}

fn headless_warnings(spec: &ServiceSpec) -> Vec<String> {
    let affinity = text(spec.session_affinity.as_ref());
    [
        ("spec.loadBalancerIP", !text(spec.load_balancer_ip.as_ref()).is_empty()),
        ("spec.externalIPs", !external_ips(spec).is_empty()),
        ("spec.SessionAffinity", affinity != "None"),
    ]
    .into_iter()
    .filter(|(_, ignored)| *ignored)
    .map(|(field, _)| format!("{field} is ignored for headless services"))
    .collect()
}

fn spelling_warnings(spec: &ServiceSpec, path: &Path) -> Vec<String> {
    let mut out = Vec::new();
    let field = path.child("externalIPs");
    for (i, ip) in external_ips(spec).iter().enumerate() {
        out.extend(ip_warnings(&field.index(i), ip));
    }
    let ip = text(spec.load_balancer_ip.as_ref());
    if !ip.is_empty() {
        out.extend(ip_warnings(&path.child("loadBalancerIP"), ip));
    }
    let field = path.child("loadBalancerSourceRanges");
    for (i, range) in spec.load_balancer_source_ranges.iter().flatten().enumerate() {
        out.extend(cidr_warnings(&field.index(i), range));
    }
    out
}

fn type_warnings(spec: &ServiceSpec) -> Vec<String> {
    let mut out = Vec::new();
    let is_external_name = type_of(spec) == EXTERNAL_NAME;
    if !external_ips(spec).is_empty() {
        if is_external_name {
            out.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
        } else if !is_headless(spec) {
            out.push(
                "spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned(),
            );
        }
    }
    if !is_external_name && !text(spec.external_name.as_ref()).is_empty() {
        out.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_plain_service_has_none() {
        let mut service: Service =
            serde_json::from_value(json!({"spec": {"ports": [{"port": 80}]}})).unwrap();
        super::super::default(&mut service);
        assert!(warnings(&service, None).is_empty());
    }

    #[test]
    fn an_update_of_the_status_is_not_blamed_for_the_spec() {
        let mut old: Service = serde_json::from_value(json!({
            "spec": {"type": "LoadBalancer", "externalIPs": ["203.0.113.1"], "ports": [{"port": 80}]},
        }))
        .unwrap();
        super::super::default(&mut old);
        assert_eq!(warnings(&old, Some(&old)).len(), 1);
        let mut new = old.clone();
        new.status =
            serde_json::from_value(json!({"loadBalancer": {"ingress": [{"ip": "2001:DB8::1"}]}})).unwrap();
        assert_eq!(
            warnings(&new, Some(&old)),
            [
                "status.loadBalancer.ingress[0]: IPv6 address \"2001:DB8::1\" should be in RFC 5952 canonical format (\"2001:db8::1\")"
            ]
        );
    }
}
