//! Each finding once, and none for a cluster in order.

use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::port::NodePortRange;

fn claim(name: &str, spec: Value) -> Claim {
    let mut spec = spec;
    spec["type"] = spec.get("type").cloned().unwrap_or_else(|| json!("ClusterIP"));
    let service = json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec});
    Claim::of(&serde_json::from_value(service).unwrap())
}

fn key(name: &str) -> ServiceKey {
    ServiceKey::new("default", name)
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn holding(address: &str, parent: Option<&str>) -> Holding {
    Holding { address: ip(address), parent: parent.map(key), managed: true }
}

fn limits(port_sharing: PortSharing) -> Limits {
    let ranges = vec!["10.96.0.0/24".parse().unwrap()];
    Limits { ranges, node_ports: PortRanges(vec![NodePortRange::default()]), port_sharing }
}

/// What is found for Services `a`, `b`, ... of these specs.
fn findings(sharing: PortSharing, holdings: &[Holding], specs: &[Value]) -> Vec<Finding> {
    let names = ["a", "b", "c"];
    let claims: Vec<_> = names.iter().zip(specs).map(|(name, spec)| claim(name, spec.clone())).collect();
    audit(&claims, holdings, &limits(sharing))
}

#[test]
fn a_cluster_in_order() {
    let specs = [
        json!({"clusterIPs": ["10.96.0.5"]}),
        json!({"clusterIPs": ["None"]}),
        json!({"type": "ExternalName", "ports": [{"port": 80, "nodePort": 80}]}),
    ];
    // An address outside of every range that is no Service's is nobody's fault.
    let holdings = [holding("10.96.0.5", Some("a")), holding("192.0.2.1", None)];
    assert_eq!(findings(PortSharing::WithinService, &holdings, &specs), []);
}

#[rstest]
#[case::missing(&[], "10.96.0.5", Finding::AddressNotAllocated { service: key("a"), address: ip("10.96.0.5") })]
#[case::anothers(
    &[holding("10.96.0.5", Some("z"))],
    "10.96.0.5",
    Finding::AddressOfAnother { service: key("a"), address: ip("10.96.0.5"), holder: Some(key("z")) }
)]
#[case::something_elses(
    &[holding("10.96.0.5", None)],
    "10.96.0.5",
    Finding::AddressOfAnother { service: key("a"), address: ip("10.96.0.5"), holder: None }
)]
#[case::out_of_range(
    &[holding("10.97.0.5", Some("a"))],
    "10.97.0.5",
    Finding::AddressOutOfRange { service: key("a"), address: ip("10.97.0.5"), edge_of: None }
)]
#[case::network_address(
    &[holding("10.96.0.0", Some("a"))],
    "10.96.0.0",
    Finding::AddressOutOfRange { service: key("a"), address: ip("10.96.0.0"), edge_of: "10.96.0.0/24".parse().ok() }
)]
#[case::broadcast_address(
    &[holding("10.96.0.255", Some("a"))],
    "10.96.0.255",
    Finding::AddressOutOfRange { service: key("a"), address: ip("10.96.0.255"), edge_of: "10.96.0.0/24".parse().ok() }
)]
#[case::no_address(&[], "ten", Finding::AddressNotValid { service: key("a"), text: "ten".into() })]
fn an_address_at_fault(#[case] holdings: &[Holding], #[case] own: &str, #[case] finding: Finding) {
    let found = findings(PortSharing::WithinService, holdings, &[json!({"clusterIPs": [own]})]);
    assert_eq!(found[0], finding);
}

#[test]
fn leaked_addresses_come_last_and_a_users_own_does_not_leak() {
    let by_a_user = Holding { managed: false, ..holding("10.96.0.8", Some("gone")) };
    let holdings = [
        holding("10.96.0.9", Some("gone")),
        holding("10.96.0.5", Some("a")),
        by_a_user,
        holding("10.96.0.7", Some("a")),
    ];
    let specs = [json!({"clusterIPs": ["10.96.0.5"]}), json!({"clusterIPs": ["10.96.0.6"]})];
    assert_eq!(
        findings(PortSharing::WithinService, &holdings, &specs),
        [
            Finding::AddressNotAllocated { service: key("b"), address: ip("10.96.0.6") },
            Finding::AddressLeaked { address: ip("10.96.0.7"), parent: key("a") },
            Finding::AddressLeaked { address: ip("10.96.0.9"), parent: key("gone") },
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
    let fault = Finding::PortOfAnother { service: key("b"), port: 30053, holder: key("a") };
    let expected = if at_fault { vec![fault] } else { Vec::new() };
    assert_eq!(findings(sharing, &[], &[spec(&[first]), spec(&[second])]), expected);
}

#[test]
fn a_port_of_another_range() {
    let spec = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 20000}]});
    let ranges = PortRanges(vec![NodePortRange::default()]);
    assert_eq!(
        findings(PortSharing::WithinService, &[], &[spec]),
        [Finding::PortOutOfRange { service: key("a"), port: 20000, ranges }]
    );
}

#[test]
fn an_event_names_the_reason_and_what_to_do() {
    let finding = Finding::PortOfAnother { service: key("b"), port: 30053, holder: key("a") };
    assert_eq!((finding.reason(), finding.service()), ("PortAlreadyAllocated", Some(&key("b"))));
    assert_eq!(
        finding.to_string(),
        "Port 30053 was assigned to multiple services, default/a had it first; please recreate service"
    );
}

/// Whoever reads it at night learns who else has the value, or which ranges there are.
#[test]
fn an_event_names_who_and_what_is_in_the_way() {
    let (service, address) = (|| key("b"), ip("10.96.0.5"));
    let ranges = PortRanges(vec![NodePortRange::default()]);
    for (finding, words) in [
        (
            Finding::AddressOfAnother { service: service(), address, holder: Some(key("a")) },
            "Service default/a",
        ),
        (
            Finding::AddressOfAnother { service: service(), address, holder: None },
            "spec.parentRef of the IPAddress",
        ),
        (
            Finding::AddressOutOfRange { service: service(), address, edge_of: "10.96.0.5/24".parse().ok() },
            "create a ServiceCIDR",
        ),
        (
            Finding::AddressOutOfRange { service: service(), address, edge_of: "10.96.0.0/24".parse().ok() },
            "network or broadcast address of 10.96.0.0/24",
        ),
        (Finding::PortOutOfRange { service: service(), port: 7, ranges }, "there are 30000-32767"),
    ] {
        assert!(finding.to_string().contains(words) && finding.remedy().is_none(), "{finding}");
    }
    let missing = Finding::AddressNotAllocated { service: service(), address };
    assert_eq!(
        (missing.to_string().as_str(), missing.remedy()),
        ("Cluster IP 10.96.0.5 is not allocated", Some("repairing"))
    );
}
