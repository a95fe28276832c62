//! A Service and its allocation in one transaction.

use rstest::rstest;
use serde_json::{Value, json};

use crate::registry::ledger_index::Usage;
use crate::registry::strategy::Subresource;
use crate::registry::testing::{Lab, lab};

const NET: &str = "networking.k8s.io";

fn service(name: &str, spec: Value) -> Value {
    let mut spec = spec;
    if spec.get("ports").is_none() {
        spec["ports"] = json!([{"port": 80}]);
    }
    json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec})
}

fn usage(lab: &Lab) -> Usage {
    lab.store.read(|view| view.index().services.usage())
}

fn key(name: &str) -> (&str, &str, &str, &str) {
    ("", "services", "default", name)
}

#[test]
fn an_address_comes_and_goes_with_its_service() {
    let lab = lab(&["10.96.0.0/12"]);
    let made = lab.create("", "services", service("a", json!({"clusterIP": "10.96.0.10"}))).unwrap();
    assert_eq!(made["spec"]["clusterIPs"], json!(["10.96.0.10"]));
    assert_eq!(made["status"], json!({"loadBalancer": {}}));
    let held = lab.get(NET, "ipaddresses", "", "10.96.0.10").unwrap();
    assert_eq!(
        held["spec"]["parentRef"],
        json!({"resource": "services", "namespace": "default", "name": "a"})
    );
    assert_eq!(usage(&lab).ranges[0].allocated, 2);
    lab.delete(key("a"));
    assert_eq!(lab.get(NET, "ipaddresses", "", "10.96.0.10"), None);
    assert_eq!(usage(&lab).ranges[0].allocated, 1);
}

#[test]
fn a_users_own_address_blocks_and_stays() {
    let lab = lab(&["10.96.0.0/12"]);
    let gateway = json!({"metadata": {"name": "10.96.0.50"}, "spec": {"parentRef":
        {"group": "example.com", "resource": "gateways", "namespace": "default", "name": "gw"}}});
    lab.create(NET, "ipaddresses", gateway).unwrap();
    let refused = lab.create("", "services", service("a", json!({"clusterIP": "10.96.0.50"}))).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "Service \"a\" is invalid: spec.clusterIPs: Invalid value: [\"10.96.0.50\"]: failed to allocate IP 10.96.0.50: \
         provided IP is already allocated"
    );
    lab.delete((NET, "ipaddresses", "", "10.96.0.50"));
    lab.create("", "services", service("a", json!({"clusterIP": "10.96.0.50"}))).unwrap();
}

#[test]
fn deleting_a_service_spares_an_address_that_is_no_longer_its_own() {
    let lab = lab(&["10.96.0.0/12"]);
    lab.create("", "services", service("a", json!({"clusterIP": "10.96.0.60"}))).unwrap();
    let other = json!({"resource": "gateways", "group": "example.com", "name": "g"});
    let address = json!({"metadata": {"name": "10.96.0.60"}, "spec": {"parentRef": other}});
    lab.put_unchecked(NET, "ipaddresses", &address);
    lab.delete(key("a"));
    assert_eq!(
        lab.get(NET, "ipaddresses", "", "10.96.0.60").unwrap()["spec"]["parentRef"]["name"],
        json!("g")
    );
}

/// The address of a living Service can not be had, whatever becomes of its IPAddress.
#[test]
fn an_address_in_use_is_never_free() {
    let lab = lab(&["10.96.0.0/12"]);
    let asked = || service("b", json!({"clusterIP": "10.96.0.60"}));
    lab.create("", "services", service("a", json!({"clusterIP": "10.96.0.60"}))).unwrap();
    let before = lab.get(NET, "ipaddresses", "", "10.96.0.60").unwrap();
    lab.delete((NET, "ipaddresses", "", "10.96.0.60"));
    let after = lab.get(NET, "ipaddresses", "", "10.96.0.60").unwrap();
    assert_eq!(after["spec"], before["spec"]);
    assert_ne!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(lab.create("", "services", asked()).unwrap_err().code(), 422);
    lab.remove_unchecked(NET, "ipaddresses", "", "10.96.0.60");
    assert_eq!(lab.create("", "services", asked()).unwrap_err().code(), 422);
    lab.delete(key("a"));
    lab.create("", "services", asked()).unwrap();
}

/// Objects of older servers may have one address twice: a third Service does not get it, and when one of the two goes
/// it is the other's.
#[test]
fn an_address_of_two_services_stays_taken() {
    let lab = lab(&["10.96.0.0/12"]);
    lab.create("", "services", service("a", json!({"clusterIP": "10.96.0.60"}))).unwrap();
    let mut twin = lab.get("", "services", "default", "a").unwrap();
    twin["metadata"]["name"] = json!("b");
    lab.put_unchecked("", "services", &twin);
    let asked = || service("c", json!({"clusterIP": "10.96.0.60"}));
    assert_eq!(lab.create("", "services", asked()).unwrap_err().code(), 422);
    lab.delete(key("a"));
    let held = lab.get(NET, "ipaddresses", "", "10.96.0.60").unwrap();
    assert_eq!(held["spec"]["parentRef"]["name"], json!("b"));
    assert_eq!(lab.create("", "services", asked()).unwrap_err().code(), 422);
    lab.delete(key("b"));
    assert_eq!(lab.get(NET, "ipaddresses", "", "10.96.0.60"), None);
    lab.create("", "services", asked()).unwrap();
}

#[test]
fn a_refused_dual_stack_service_takes_nothing() {
    let lab = lab(&["10.97.0.0/28", "fd00:97::/112"]);
    let ask = |second: &str| {
        service(
            "resolver",
            json!({"clusterIP": "10.97.0.11", "clusterIPs": ["10.97.0.11", second], "ipFamilies": ["IPv4", "IPv6"],
                "ipFamilyPolicy": "RequireDualStack"}),
        )
    };
    let before = lab.revision();
    for _ in 0..3 {
        let refused = lab.create("", "services", ask("fd00::b")).unwrap_err();
        assert_eq!(refused.code(), 422);
        assert!(refused.to_string().contains("failed to allocate IP fd00::b"), "{refused}");
    }
    assert_eq!(lab.revision(), before);
    lab.create("", "services", ask("fd00:97::b")).unwrap();
    assert_eq!(lab.names(NET, "ipaddresses").len(), 3);
}

#[rstest]
#[case::out_of_range("10.97.0.11", "fd00::b", "fd00::b")]
#[case::taken("10.97.0.11", "fd00:97::aa", "fd00:97::aa")]
#[case::v6_first("fd00:97::b", "10.98.0.11", "10.98.0.11")]
fn a_bad_second_address_is_blamed_and_the_first_is_free(
    #[case] good: &str,
    #[case] bad: &str,
    #[case] blamed: &str,
) {
    let lab = lab(&["10.97.0.0/28", "fd00:97::/112"]);
    let holder = json!({"clusterIP": "fd00:97::aa", "ipFamilies": ["IPv6"]});
    lab.create("", "services", service("holder", holder)).unwrap();
    let before = lab.revision();
    let ask = json!({"clusterIP": good, "clusterIPs": [good, bad], "ipFamilyPolicy": "RequireDualStack"});
    let refused = lab.create("", "services", service("a", ask)).unwrap_err();
    assert!(refused.to_string().contains(&format!("failed to allocate IP {blamed}")), "{refused}");
    assert_eq!(lab.revision(), before);
    lab.create("", "services", service("a", json!({"clusterIP": good, "ipFamilies": [family_of(good)]})))
        .unwrap();
}

fn family_of(address: &str) -> &str {
    if address.contains(':') { "IPv6" } else { "IPv4" }
}

#[test]
fn an_upgrade_with_a_bad_second_address_changes_nothing() {
    let lab = lab(&["10.97.0.0/28", "fd00:97::/112"]);
    lab.create("", "services", service("a", json!({"clusterIP": "10.97.0.11"}))).unwrap();
    let before = lab.revision();
    let refused = lab.update(key("a"), Subresource::None, |new| {
        new["spec"]["clusterIPs"] = json!(["10.97.0.11", "fd00::b"]);
        new["spec"]["ipFamilies"] = json!(["IPv4", "IPv6"]);
        new["spec"]["ipFamilyPolicy"] = json!("RequireDualStack");
    });
    assert!(refused.unwrap_err().to_string().contains("failed to allocate IP fd00::b"));
    assert_eq!(lab.revision(), before);
    assert!(lab.get(NET, "ipaddresses", "", "10.97.0.11").is_some());
}

#[test]
fn a_service_that_would_become_headless_in_two_families_is_refused_on_one_stack_too() {
    let lab = lab(&["10.96.0.0/12"]);
    lab.create("", "services", service("a", json!({"clusterIP": "10.96.0.10"}))).unwrap();
    let refused = lab.update(key("a"), Subresource::None, |new| {
        new["spec"]["clusterIP"] = json!("None");
        new["spec"]["clusterIPs"] = json!(["None"]);
        new["spec"]["ipFamilyPolicy"] = json!("PreferDualStack");
    });
    assert_eq!(
        refused.unwrap_err().to_string(),
        "Service \"a\" is invalid: spec.clusterIPs[0]: Invalid value: [\"None\"]: may not change once set"
    );
}

#[test]
fn a_duplicate_costs_nothing_even_in_a_full_range() {
    let lab = lab(&["10.97.0.0/29"]);
    lab.create("", "services", service("a1", json!({}))).unwrap();
    for name in ["f1", "f2", "f3", "f4"] {
        lab.create("", "services", service(name, json!({}))).unwrap();
    }
    let before = lab.revision();
    let full = lab.create("", "services", service("f5", json!({}))).unwrap_err();
    assert_eq!(full.code(), 500);
    assert_eq!(
        full.to_string(),
        "Internal error occurred: failed to allocate a serviceIP for Service \"f5\": range is full: 10.97.0.0/29 \
         (ServiceCIDR kubernetes) has 6 of 6 addresses taken; a further ServiceCIDR adds addresses"
    );
    for spec in [json!({}), json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30123}]})] {
        let duplicate = lab.create("", "services", service("a1", spec)).unwrap_err();
        assert_eq!((duplicate.code(), duplicate.reason()), (409, "AlreadyExists"));
    }
    assert_eq!(lab.revision(), before);
    assert_eq!(usage(&lab).allocated_ports, 0);
}

#[test]
fn a_dry_run_takes_nothing() {
    let lab = lab(&["10.96.0.0/12"]);
    let spec = json!({"type": "NodePort"});
    let before = lab.revision();
    let shown = lab.dry_run("", "services", service("a", spec)).unwrap();
    assert_eq!(lab.revision(), before);
    assert_eq!(usage(&lab).allocated_ports, 0);
    assert_eq!(lab.names(NET, "ipaddresses"), ["10.96.0.1"]);
    // What it shows could really be had.
    let (address, port) = (&shown["spec"]["clusterIP"], &shown["spec"]["ports"][0]["nodePort"]);
    let asked = json!({"type": "NodePort", "clusterIP": address, "ports": [{"port": 80, "nodePort": port}]});
    lab.create("", "services", service("a", asked)).unwrap();
}

/// A dry run is refused as the request itself would be.
#[test]
fn a_dry_run_tells_the_truth() {
    let lab = lab(&["10.97.0.0/29"]);
    lab.create("", "services", service("a", json!({"clusterIP": "10.97.0.3"}))).unwrap();
    let both = |spec: Value| {
        let dry = lab.dry_run("", "services", service("b", spec.clone())).unwrap_err();
        let real = lab.create("", "services", service("b", spec)).unwrap_err();
        assert_eq!((dry.code(), dry.to_string()), (real.code(), real.to_string()));
        dry
    };
    for address in ["10.97.0.3", "10.97.0.1", "192.0.2.1", "10.97.0.7"] {
        assert_eq!(both(json!({"clusterIP": address})).code(), 422, "{address}");
    }
    for name in ["c", "d", "e", "f"] {
        lab.create("", "services", service(name, json!({}))).unwrap();
    }
    assert_eq!(both(json!({})).code(), 500);
}

#[rstest]
#[case::to_external_name(&json!({"type": "ExternalName", "externalName": "x.example"}))]
fn a_type_change_gives_back(#[case] change: &Value) {
    let lab = lab(&["10.96.0.0/12"]);
    lab.create("", "services", service("a", json!({"type": "NodePort", "clusterIP": "10.96.0.10"}))).unwrap();
    assert_eq!(usage(&lab).allocated_ports, 1);
    let after = lab
        .update(key("a"), Subresource::None, |new| {
            for (field, value) in change.as_object().unwrap() {
                new["spec"][field] = value.clone();
            }
        })
        .unwrap();
    assert_eq!(after["spec"].get("clusterIP"), None);
    assert_eq!((usage(&lab).allocated_ports, usage(&lab).ranges[0].allocated), (0, 1));
    assert_eq!(lab.get(NET, "ipaddresses", "", "10.96.0.10"), None);
}

#[test]
fn endpoints_go_with_their_service_and_slices_stay() {
    let lab = lab(&["10.96.0.0/12"]);
    lab.create("", "services", service("a", json!({}))).unwrap();
    lab.create("", "endpoints", json!({"metadata": {"name": "a", "namespace": "default"}})).unwrap();
    let slice = json!({"metadata": {"name": "a-1", "namespace": "default"}, "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.1.2.3"]}]});
    lab.create("discovery.k8s.io", "endpointslices", slice).unwrap();
    lab.delete(key("a"));
    assert_eq!(lab.get("", "endpoints", "default", "a"), None);
    assert!(lab.get("discovery.k8s.io", "endpointslices", "default", "a-1").is_some());
}

#[test]
fn a_condition_may_lack_its_time() {
    let lab = lab(&["10.96.0.0/12"]);
    let timeless = json!({"conditions": [{"type": "A", "status": "True", "lastTransitionTime": null, "reason": "", "message": ""}]});
    let mut new = service("a", json!({}));
    new["status"] = timeless.clone();
    let made = lab.create("", "services", new).unwrap();
    assert_eq!(made["status"], json!({"loadBalancer": {}}));
    let after = lab.update(key("a"), Subresource::Status, |new| new["status"] = timeless.clone()).unwrap();
    assert_eq!(after["status"]["conditions"], timeless["conditions"]);
}

#[test]
fn a_status_update_leaves_the_spec_alone() {
    let lab = lab(&["10.96.0.0/12"]);
    lab.create("", "services", service("a", json!({"type": "LoadBalancer"}))).unwrap();
    let after = lab
        .update(key("a"), Subresource::Status, |new| {
            new["spec"]["selector"] = json!({"a": "b"});
            new["status"] = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}});
        })
        .unwrap();
    assert_eq!(after["spec"].get("selector"), None);
    assert_eq!(after["status"]["loadBalancer"]["ingress"], json!([{"ip": "192.0.2.1", "ipMode": "VIP"}]));
    assert_eq!(usage(&lab).allocated_ports, 1);
}

#[test]
fn an_added_range_is_used_and_a_removed_one_is_not() {
    let lab = lab(&["10.96.0.0/12"]);
    let ask =
        |name: &str, address: &str| lab.create("", "services", service(name, json!({"clusterIP": address})));
    assert_eq!(ask("a", "10.200.0.5").unwrap_err().code(), 422);
    lab.create(
        NET,
        "servicecidrs",
        json!({"metadata": {"name": "extra"}, "spec": {"cidrs": ["10.200.0.0/24"]}}),
    )
    .unwrap();
    ask("a", "10.200.0.5").unwrap();
    let gauge = |lab: &Lab| {
        usage(lab).ranges.iter().map(|range| (range.prefix.to_string(), range.allocated)).collect::<Vec<_>>()
    };
    assert_eq!(gauge(&lab), [("10.96.0.0/12".to_owned(), 1), ("10.200.0.0/24".to_owned(), 1)]);
    lab.delete((NET, "servicecidrs", "", "extra"));
    assert_eq!(ask("b", "10.200.0.6").unwrap_err().code(), 422);
    lab.update(key("a"), Subresource::None, |new| new["spec"]["selector"] = json!({"x": "y"})).unwrap();
    assert!(lab.get(NET, "ipaddresses", "", "10.200.0.5").is_some());
    assert_eq!(gauge(&lab), [("10.96.0.0/12".to_owned(), 1)]);
    lab.delete(key("a"));
    assert_eq!(lab.get(NET, "ipaddresses", "", "10.200.0.5"), None);
}

#[test]
fn a_service_without_a_name_is_told_so() {
    let lab = lab(&["10.96.0.0/12"]);
    let refused = lab.create("", "services", service("", json!({"clusterIP": "10.96.0.10"}))).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "Service \"\" is invalid: metadata.name: Required value: name or generateName is required"
    );
    assert_eq!(lab.get(NET, "ipaddresses", "", "10.96.0.10"), None);
}

#[test]
fn an_update_may_not_change_the_health_check_port() {
    let lab = lab(&["10.96.0.0/12"]);
    lab.create(
        "",
        "services",
        service("a", json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"})),
    )
    .unwrap();
    let refused = lab
        .update(key("a"), Subresource::None, |new| new["spec"]["healthCheckNodePort"] = json!(30012))
        .unwrap_err();
    assert_eq!(refused.code(), 422);
    assert!(
        refused.to_string().contains("spec.healthCheckNodePort: Forbidden: field is immutable"),
        "{refused}"
    );
}

#[test]
fn an_external_name_service_has_no_internal_policy() {
    let lab = lab(&["10.96.0.0/12"]);
    lab.create("", "services", service("a", json!({}))).unwrap();
    let after = lab
        .update(key("a"), Subresource::None, |new| {
            new["spec"]["type"] = json!("ExternalName");
            new["spec"]["externalName"] = json!("x.example");
        })
        .unwrap();
    assert_eq!(after["spec"].get("internalTrafficPolicy"), None);
}

#[test]
fn the_ledger_is_the_same_after_a_reload() {
    let lab = lab(&["10.96.0.0/12", "fd00:10:96::/112"]);
    lab.create(
        "",
        "services",
        service("a", json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"})),
    )
    .unwrap();
    lab.create(
        "",
        "services",
        service("b", json!({"type": "NodePort", "ipFamilyPolicy": "PreferDualStack"})),
    )
    .unwrap();
    lab.create("", "services", service("c", json!({"type": "NodePort"}))).unwrap();
    lab.delete(key("c"));
    let again = crate::registry::testing::reload(&lab, &["10.96.0.0/12", "fd00:10:96::/112"]);
    assert_eq!(again, usage(&lab));
    assert_eq!(again.allocated_ports, 3);
}
