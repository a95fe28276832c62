//! What the audits say: in Events, in gauges, or not at all, as `--repair` has it; and of what a change of ranges made wrong.

#![allow(clippy::default_trait_access, reason = "the registry's crate is none of this one's dependencies")]

use std::collections::BTreeSet;

use k8s_openapi::api::networking::v1::ServiceCIDR;
use service_controllers::report::metrics::exposition;

use super::*;

const PAGE: &str = include_str!("../../../docs/allocation.md");

fn node_port(ip: &str, port: u16) -> Value {
    json!({"type": "NodePort", "clusterIP": ip, "ports": [{"port": 80, "nodePort": port}]})
}

/// The number behind a series in a text of metrics.
fn value(text: &str, series: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.map(|value| value.parse().unwrap())
}

#[tokio::test]
async fn who_repairs_nothing_counts_and_neither_tells_nor_writes() {
    let mut registry = Default::default();
    let gauges = Gauges::register(&mut registry);
    let controllers = [Controller::Addresses, Controller::NodePorts];
    let cluster = started(reached, &controllers, (Repair::Off, false), gauges);
    cluster.create("a", node_port("10.96.0.5", 31000)).await;
    cluster.create("b", node_port("10.96.0.6", 30005)).await;
    let counted = async |_: &Client| {
        let of = |reason: &str| {
            value(&exposition(&registry).unwrap(), &format!("service_ledger_findings{{reason=\"{reason}\"}}"))
        };
        (of("ClusterIPNotAllocated") >= Some(2) && of("PortOutOfRange") == Some(1)).then_some(())
    };
    cluster.until("the counts", counted).await;
    assert_eq!(cluster.names::<IPAddress>().await, [] as [&str; 0]);
    assert_eq!(cluster.names::<NodePort>().await, [] as [&str; 0]);
    assert_eq!(cluster.events().await, []);
    let ports = |state: &str| {
        value(
            &exposition(&registry).unwrap(),
            &format!("service_ledger_node_ports{{range=\"kubernetes\",state=\"{state}\"}}"),
        )
    };
    assert_eq!((ports("used"), ports("free")), (Some(1), Some(19)));
    let addresses = |state: &str| {
        value(
            &exposition(&registry).unwrap(),
            &format!("service_ledger_addresses{{range=\"10.96.0.0/24\",state=\"{state}\"}}"),
        )
    };
    assert_eq!(addresses("used").unwrap() + addresses("free").unwrap(), 254);
    assert_eq!(value(&exposition(&registry).unwrap(), "service_ledger_services_without_values"), Some(0));
    // What is mended is a finding no more.
    cluster.services.delete("a", &DeleteParams::default()).await.unwrap();
    let mended = async |_: &Client| {
        value(&exposition(&registry).unwrap(), "service_ledger_findings{reason=\"PortOutOfRange\"}")
            .is_none()
            .then_some(())
    };
    cluster.until("that it is over", mended).await;
}

#[tokio::test]
async fn every_series_of_the_page_is_shown() {
    let mut registry = Default::default();
    let cluster =
        started(reached, &[Controller::Pools], (Repair::Safe, false), Gauges::register(&mut registry));
    let of_page: BTreeSet<&str> = PAGE
        .split(|c: char| !(c.is_ascii_lowercase() || c == '_'))
        .filter(|word| word.starts_with("service_ledger_") || word.starts_with("service_pool_"))
        .collect();
    assert!(of_page.len() >= 7, "{of_page:?}");
    let shown = async |_: &Client| {
        let text = exposition(&registry).unwrap();
        of_page.iter().all(|name| text.contains(&format!("# HELP {name} "))).then_some(())
    };
    cluster.until("all of them", shown).await;
}

/// A Service in order comes to be in the wrong when its range goes, whoever took the finalizer off.
#[tokio::test]
async fn a_range_that_goes_leaves_services_that_are_told_of() {
    let controllers = [Controller::Addresses, Controller::NodePorts];
    let cluster = started(reached, &controllers, (Repair::Safe, false), Gauges::default());
    let ranges: Api<NodePortRange> = Api::all(cluster.client.clone());
    let range = json!({"metadata": {"name": "more"}, "spec": {"firstPort": 31000, "lastPort": 31009}});
    ranges.create(&PostParams::default(), &serde_json::from_value(range).unwrap()).await.unwrap();
    let cidrs: Api<ServiceCIDR> = Api::all(cluster.client.clone());
    let cidr = json!({"metadata": {"name": "more"}, "spec": {"cidrs": ["10.97.0.0/24"]}});
    cidrs.create(&PostParams::default(), &serde_json::from_value(cidr).unwrap()).await.unwrap();
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    cidrs.patch_status("more", &PatchParams::default(), &Patch::Merge(ready)).await.unwrap();
    cluster.create("a", node_port("10.97.0.5", 31004)).await;
    let entry = async |_: &Client| (cluster.names::<NodePort>().await == ["31004"]).then_some(());
    cluster.until("the entry", entry).await;
    let in_order =
        async |_: &Client| Api::<IPAddress>::all(cluster.client.clone()).get_opt("10.97.0.5").await.unwrap();
    cluster.until("the other entry", in_order).await;
    ranges.delete("more", &DeleteParams::default()).await.unwrap();
    cidrs.delete("more", &DeleteParams::default()).await.unwrap();
    let told = async |_: &Client| {
        let events = cluster.events().await;
        let of = |reason: &str| events.contains(&(reason.to_owned(), "a".to_owned()));
        (of("PortOutOfRange") && of("ClusterIPOutOfRange")).then_some(())
    };
    cluster.until("the Events", told).await;
    let message = message(&cluster, "PortOutOfRange", "a").await;
    assert!(
        message.contains("Port 31004 is not within the port range") && message.contains("30000-30019"),
        "{message}"
    );
}

/// service-allocation-controller finds the same at once, and leaves it to the audit, which looks again before it tells.
#[tokio::test]
async fn what_two_controllers_find_is_told_once() {
    let controllers = [Controller::Allocation, Controller::Addresses];
    let cluster = started(reached, &controllers, (Repair::Safe, false), Gauges::default());
    cluster.create("a", address("10.97.0.5")).await;
    let told = async |_: &Client| {
        let events = cluster.events().await;
        events.contains(&("ClusterIPNotAllocated".to_owned(), "a".to_owned())).then_some(())
    };
    cluster.until("the Event", told).await;
    message(&cluster, "ClusterIPOutOfRange", "a").await;
    let events = cluster.events().await;
    let of_range = events.iter().filter(|(reason, _)| reason == "ClusterIPOutOfRange").count();
    assert_eq!(of_range, 1, "{events:?}");
}
