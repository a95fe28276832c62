//! What becomes of families and policy, row by row.
#![allow(clippy::needless_pass_by_value, reason = "JSON literals read best as plain arguments")]

use rstest::rstest;
use serde_json::{Value, json};
use service_api::errors::aggregate;

use super::*;

const V4: ClusterFamilies = ClusterFamilies { primary: Family::V4, dual: false };
const V6: ClusterFamilies = ClusterFamilies { primary: Family::V6, dual: false };
const V46: ClusterFamilies = ClusterFamilies { primary: Family::V4, dual: true };
const V64: ClusterFamilies = ClusterFamilies { primary: Family::V6, dual: true };

const NOT_DUAL: &str = "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": \
                        this cluster is not configured for dual-stack services";
const TWO_FAMILIES: &str = "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": \
    must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified";
const TWO_IPS: &str = "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": \
    must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified";

fn spec(mut value: Value) -> ServiceSpec {
    if value["clusterIP"].is_null() && value["clusterIPs"].is_array() {
        value["clusterIP"] = value["clusterIPs"][0].clone();
    }
    if value["clusterIPs"].is_null() && value["clusterIP"].is_string() {
        value["clusterIPs"] = json!([value["clusterIP"]]);
    }
    serde_json::from_value(value).unwrap()
}

/// `policy families addresses` of what comes out, or the errors.
fn outcome(new: Value, old: Option<Value>, cluster: ClusterFamilies) -> String {
    let mut new = spec(new);
    match settle(&mut new, old.map(spec).as_ref(), cluster) {
        Ok(()) => {
            let families = families(&new).join(",");
            let ips = cluster_ips(&new).join(",");
            format!("{} {families} {ips}", new.ip_family_policy.as_deref().unwrap_or("-"))
                .trim_end()
                .to_owned()
        }
        Err(errors) => aggregate(&errors),
    }
}

#[rstest]
#[case(json!({}), "SingleStack IPv4")]
#[case(json!({"ipFamilies": []}), "SingleStack IPv4")]
#[case(json!({"ipFamilies": ["IPv6"]}), "SingleStack IPv6")]
#[case(json!({"ipFamilies": ["IPv6", "IPv4"]}), TWO_FAMILIES)]
#[case(json!({"ipFamilyPolicy": "PreferDualStack"}), "PreferDualStack IPv4,IPv6")]
#[case(json!({"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6"]}), "RequireDualStack IPv6,IPv4")]
#[case(json!({"clusterIP": "fd00::1"}), "SingleStack IPv6 fd00::1")]
#[case(json!({"clusterIP": "fd00::1", "ipFamilyPolicy": "PreferDualStack"}), "PreferDualStack IPv6,IPv4 fd00::1")]
#[case(json!({"clusterIPs": ["10.0.0.1", "fd00::1"]}), TWO_IPS)]
#[case(
    json!({"clusterIPs": ["fd00::1", "10.0.0.1"], "ipFamilyPolicy": "RequireDualStack"}),
    "RequireDualStack IPv6,IPv4 fd00::1,10.0.0.1"
)]
#[case(
    json!({"clusterIP": "10.0.0.1", "ipFamilies": ["IPv6"]}),
    "spec.clusterIPs[0]: Invalid value: \"10.0.0.1\": expected an IPv6 value as indicated by `ipFamilies[0]`"
)]
#[case(json!({"clusterIP": "None", "selector": {"a": "b"}}), "SingleStack IPv4 None")]
#[case(
    json!({"clusterIP": "None", "selector": {"a": "b"}, "ipFamilyPolicy": "PreferDualStack"}),
    "PreferDualStack IPv4,IPv6 None"
)]
#[case(json!({"clusterIP": "None"}), "RequireDualStack IPv4,IPv6 None")]
#[case(json!({"clusterIP": "None", "selector": {}}), "RequireDualStack IPv4,IPv6 None")]
#[case(json!({"clusterIP": "None", "ipFamilyPolicy": "SingleStack"}), "SingleStack IPv4 None")]
#[case(json!({"type": "ExternalName", "externalName": "x.y"}), "-")]
#[case(
    json!({"ipFamilies": ["IPv5"]}),
    "spec.ipFamilies[0]: Unsupported value: \"IPv5\": supported values: \"IPv4\", \"IPv6\""
)]
#[case(json!({"ipFamilies": ["IPv4", "IPv4"]}), "spec.ipFamilies[1]: Duplicate value: \"IPv4\"")]
#[case(
    json!({"ipFamilyPolicy": "DualStack"}),
    "spec.ipFamilyPolicy: Unsupported value: \"DualStack\": \
     supported values: \"PreferDualStack\", \"RequireDualStack\", \"SingleStack\""
)]
fn create_on_a_dual_stack_cluster(#[case] new: Value, #[case] expected: &str) {
    assert_eq!(outcome(new, None, V46), expected);
}

#[rstest]
#[case(json!({}), "SingleStack IPv4")]
#[case(json!({"ipFamilyPolicy": "PreferDualStack"}), "PreferDualStack IPv4")]
#[case(json!({"ipFamilyPolicy": "RequireDualStack"}), NOT_DUAL)]
#[case(json!({"ipFamilies": ["IPv6"]}), "spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster")]
#[case(json!({"ipFamilies": ["IPv4", "IPv6"]}), TWO_FAMILIES)]
#[case(
    json!({"ipFamilies": ["IPv6", "IPv4"], "ipFamilyPolicy": "PreferDualStack"}),
    "spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster"
)]
#[case(
    json!({"clusterIP": "fd00::1"}),
    "spec.clusterIPs[0]: Invalid value: [\"fd00::1\"]: IPv6 is not configured on this cluster"
)]
#[case(
    json!({"clusterIP": "fd00::1", "ipFamilies": ["IPv6"]}),
    "spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster"
)]
#[case(json!({"clusterIP": "None"}), "RequireDualStack IPv4,IPv6 None")]
#[case(json!({"clusterIP": "None", "ipFamilies": ["IPv6"]}), "RequireDualStack IPv6,IPv4 None")]
#[case(
    json!({"clusterIP": "None", "ipFamilies": ["IPv6"], "ipFamilyPolicy": "SingleStack"}),
    "SingleStack IPv6 None"
)]
#[case(json!({"clusterIP": "None", "selector": {"a": "b"}, "ipFamilyPolicy": "RequireDualStack"}), NOT_DUAL)]
fn create_on_a_single_stack_cluster(#[case] new: Value, #[case] expected: &str) {
    assert_eq!(outcome(new, None, V4), expected);
}

#[rstest]
#[case(
    json!({"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4"]}),
    V6,
    format!("[{NOT_DUAL}, spec.ipFamilies[0]: Invalid value: \"IPv4\": not configured on this cluster]")
)]
#[case(
    json!({"clusterIPs": ["fd00::1", "10.0.0.1"]}),
    V4,
    format!("[{TWO_IPS}, spec.clusterIPs[0]: Invalid value: [\"fd00::1\",\"10.0.0.1\"]: IPv6 is not configured on this cluster]")
)]
#[case(
    json!({"clusterIPs": ["10.0.0.1", "fd00::1"], "ipFamilies": ["IPv4", "IPv6"]}),
    V46,
    format!("[{TWO_IPS}, {TWO_FAMILIES}]")
)]
fn several_errors_keep_their_order(
    #[case] new: Value,
    #[case] cluster: ClusterFamilies,
    #[case] expected: String,
) {
    assert_eq!(outcome(new, None, cluster), expected);
}

#[rstest]
#[case(json!({}), "SingleStack IPv6")]
#[case(json!({"ipFamilyPolicy": "PreferDualStack"}), "PreferDualStack IPv6,IPv4")]
#[case(json!({"clusterIP": "None"}), "RequireDualStack IPv6,IPv4 None")]
fn the_first_configured_range_is_the_primary_family(#[case] new: Value, #[case] expected: &str) {
    assert_eq!(outcome(new, None, V64), expected);
}

fn single() -> Value {
    json!({"type": "ClusterIP", "clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"})
}

fn dual(policy: &str) -> Value {
    json!({
        "type": "ClusterIP", "clusterIPs": ["10.0.0.1", "fd00::1"],
        "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": policy,
    })
}

/// `base` with some fields replaced; `null` removes one.
fn with(mut base: Value, change: Value) -> Value {
    for (field, value) in change.as_object().unwrap() {
        base[field] = value.clone();
    }
    base
}

#[rstest]
#[case(json!({"ipFamilyPolicy": "PreferDualStack"}), V46, "PreferDualStack IPv4,IPv6 10.0.0.1")]
#[case(json!({"ipFamilyPolicy": "PreferDualStack"}), V4, "PreferDualStack IPv4 10.0.0.1")]
#[case(json!({"ipFamilyPolicy": "RequireDualStack"}), V4, NOT_DUAL)]
#[case(json!({"ipFamilyPolicy": null, "ipFamilies": null}), V46, "SingleStack IPv4 10.0.0.1")]
#[case(json!({"ipFamilies": ["IPv4", "IPv6"]}), V46, TWO_FAMILIES)]
#[case(json!({"clusterIPs": ["10.0.0.1", "fd00::9"]}), V46, TWO_IPS)]
#[case(
    json!({"clusterIPs": ["10.0.0.1", "fd00::9"], "ipFamilyPolicy": "RequireDualStack", "ipFamilies": null}),
    V46,
    "RequireDualStack IPv4,IPv6 10.0.0.1,fd00::9"
)]
#[case(
    json!({"ipFamilies": ["IPv6"]}),
    V46,
    "spec.clusterIPs[0]: Invalid value: \"10.0.0.1\": expected an IPv6 value as indicated by `ipFamilies[0]`"
)]
fn upgrades(#[case] change: Value, #[case] cluster: ClusterFamilies, #[case] expected: &str) {
    assert_eq!(outcome(with(single(), change), Some(single()), cluster), expected);
}

const KEEPS_IP: &str = "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": \
                        must be 'SingleStack' to release the secondary cluster IP";
const KEEPS_FAMILY: &str = "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": \
                            must be 'SingleStack' to release the secondary IP family";

#[rstest]
#[case(json!({"ipFamilyPolicy": "SingleStack"}), "SingleStack IPv4 10.0.0.1")]
#[case(json!({"ipFamilyPolicy": "SingleStack", "ipFamilies": null}), "SingleStack IPv4 10.0.0.1")]
#[case(json!({"ipFamilyPolicy": "SingleStack", "clusterIPs": ["10.0.0.1"]}), "SingleStack IPv4 10.0.0.1")]
#[case(json!({"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv4"]}), "SingleStack IPv4 10.0.0.1")]
#[case(json!({"clusterIPs": ["10.0.0.1"]}), KEEPS_IP)]
#[case(json!({"ipFamilies": ["IPv4"], "ipFamilyPolicy": null}), KEEPS_FAMILY)]
#[case(json!({"ipFamilyPolicy": "PreferDualStack"}), "PreferDualStack IPv4,IPv6 10.0.0.1,fd00::1")]
fn downgrades(#[case] change: Value, #[case] expected: &str) {
    let old = dual("RequireDualStack");
    assert_eq!(outcome(with(old.clone(), change), Some(old), V46), expected);
}

#[test]
fn releasing_both_at_once_is_told_twice() {
    let old = dual("RequireDualStack");
    let new = with(old.clone(), json!({"clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"]}));
    assert_eq!(outcome(new, Some(old), V46), format!("[{KEEPS_IP}, {KEEPS_FAMILY}]"));
}

/// A cluster that becomes dual-stack does not move Services that merely prefer it.
#[test]
fn a_preference_stays_as_it_is() {
    let old = with(single(), json!({"ipFamilyPolicy": "PreferDualStack"}));
    assert_eq!(outcome(old.clone(), Some(old.clone()), V46), "PreferDualStack IPv4 10.0.0.1");
    let dual = dual("PreferDualStack");
    assert_eq!(outcome(dual.clone(), Some(dual), V4), "PreferDualStack IPv4,IPv6 10.0.0.1,fd00::1");
    let other_type = with(old.clone(), json!({"type": "NodePort"}));
    assert_eq!(outcome(other_type, Some(old), V46), "PreferDualStack IPv4,IPv6 10.0.0.1");
}

#[rstest]
#[case(json!({"clusterIP": "None", "selector": {"a": "b"}}), "SingleStack IPv4 None")]
#[case(json!({"clusterIP": "None"}), "RequireDualStack IPv4,IPv6 None")]
#[case(json!({}), "SingleStack IPv4")]
fn from_external_name(#[case] new: Value, #[case] expected: &str) {
    let old = json!({"type": "ExternalName", "externalName": "x.y"});
    assert_eq!(outcome(new, Some(old), V46), expected);
}

#[test]
fn a_headless_service_may_change_its_family() {
    let old = json!({
        "type": "ClusterIP", "clusterIP": "None", "selector": {"a": "b"},
        "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
    });
    let new = with(old.clone(), json!({"ipFamilies": ["IPv6"]}));
    assert_eq!(outcome(new, Some(old), V46), "SingleStack IPv6 None");
}
