//! Each finding once, and none for a cluster in order.

use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::families::ClusterFamilies;
use crate::ip::RangeState;
use crate::prefix::Family;

fn service(name: &str, spec: Value) -> Service {
    let mut spec = spec;
    spec["type"] = spec.get("type").cloned().unwrap_or_else(|| json!("ClusterIP"));
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec})).unwrap()
}

fn key(name: &str) -> ServiceKey {
    ServiceKey::new("default", name)
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn ledger(sharing: PortSharing) -> Ledger {
    let ports = PortLedger::new(NodePortRange::default(), sharing);
    let mut ledger = Ledger::new(ClusterFamilies::single(Family::V4), ports);
    ledger.addresses.set_range("r", &["10.96.0.0/24".parse().unwrap()], RangeState::NotReady).unwrap();
    ledger
}

/// Reasons and texts for Services `a`, `b`, ... of these specs.
fn findings(
    sharing: PortSharing,
    addresses: &[(&str, Option<&str>)],
    specs: &[Value],
) -> Vec<(&'static str, String)> {
    let names = ["a", "b", "c"];
    let services: Vec<_> = names.iter().zip(specs).map(|(name, spec)| service(name, spec.clone())).collect();
    let addresses = addresses.iter().map(|(address, parent)| (ip(address), parent.map(key)));
    let found = audit(&ledger(sharing), addresses, &services);
    found.iter().map(|f| (f.reason(), f.to_string())).collect()
}

#[test]
fn a_cluster_in_order() {
    let specs = [
        json!({"clusterIPs": ["10.96.0.5"]}),
        json!({"clusterIPs": ["None"]}),
        json!({"type": "ExternalName", "ports": [{"port": 80, "nodePort": 80}]}),
    ];
    // An address outside of every range that is no Service's is nobody's fault.
    let addresses = [("10.96.0.5", Some("a")), ("192.0.2.1", None)];
    assert_eq!(findings(PortSharing::WithinService, &addresses, &specs), []);
}

#[rstest]
#[case::missing(
    &[], "10.96.0.5", "ClusterIPNotAllocated", "cluster IP 10.96.0.5 of Service default/a has no IPAddress"
)]
#[case::anothers(
    &[("10.96.0.5", Some("z"))],
    "10.96.0.5",
    "ClusterIPAlreadyAllocated",
    "cluster IP 10.96.0.5 of Service default/a belongs to Service default/z; recreate one of them"
)]
#[case::something_elses(
    &[("10.96.0.5", None)],
    "10.96.0.5",
    "ClusterIPAlreadyAllocated",
    "cluster IP 10.96.0.5 of Service default/a belongs to something else; recreate the Service"
)]
#[case::out_of_range(
    &[("10.97.0.5", Some("a"))],
    "10.97.0.5",
    "ClusterIPOutOfRange",
    "cluster IP 10.97.0.5 of Service default/a is in no ServiceCIDR; recreate the Service"
)]
#[case::no_address(
    &[], "ten", "ClusterIPNotValid", "cluster IP \"ten\" of Service default/a is no IP address; recreate the Service"
)]
fn an_address_at_fault(
    #[case] addresses: &[(&str, Option<&str>)],
    #[case] own: &str,
    #[case] reason: &'static str,
    #[case] text: &str,
) {
    let found = findings(PortSharing::WithinService, addresses, &[json!({"clusterIPs": [own]})]);
    assert_eq!(found[0], (reason, text.to_owned()));
}

#[test]
fn leaked_addresses_come_last() {
    let addresses = [("10.96.0.9", Some("gone")), ("10.96.0.5", Some("a")), ("10.96.0.7", Some("a"))];
    let specs = [json!({"clusterIPs": ["10.96.0.5"]}), json!({"clusterIPs": ["10.96.0.6"]})];
    let found = findings(PortSharing::WithinService, &addresses, &specs);
    let texts: Vec<_> = found.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(
        texts,
        [
            "cluster IP 10.96.0.6 of Service default/b has no IPAddress",
            "IPAddress 10.96.0.7 names Service default/a, which does not have it",
            "IPAddress 10.96.0.9 names Service default/gone, which does not have it",
        ]
    );
}

/// Report P05: the same number for two protocols of one Service is in order.
#[rstest]
#[case(PortSharing::WithinService, "TCP", "UDP", true)]
#[case(PortSharing::PerProtocol, "TCP", "UDP", false)]
#[case(PortSharing::PerProtocol, "TCP", "TCP", true)]
fn a_port_of_two_services(
    #[case] sharing: PortSharing,
    #[case] first: &str,
    #[case] second: &str,
    #[case] at_fault: bool,
) {
    let spec = |protocols: &[&str]| {
        let ports: Vec<_> =
            protocols.iter().map(|p| json!({"port": 53, "protocol": p, "nodePort": 30053})).collect();
        json!({"type": "NodePort", "ports": ports})
    };
    assert_eq!(findings(sharing, &[], &[spec(&["TCP", "UDP"])]), []);
    let found = findings(sharing, &[], &[spec(&[first]), spec(&[second])]);
    assert_eq!(found.len(), usize::from(at_fault));
    if let Some((reason, text)) = found.first() {
        assert_eq!(*reason, "PortAlreadyAllocated");
        assert_eq!(
            text,
            "node port 30053 of Service default/b is held by Service default/a; recreate one of them"
        );
    }
}

#[test]
fn a_port_of_another_range() {
    let spec = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 20000}]});
    assert_eq!(
        findings(PortSharing::WithinService, &[], &[spec]),
        [(
            "PortOutOfRange",
            "node port 20000 of Service default/a is outside of 30000-32767; recreate the Service".to_owned()
        )]
    );
}
