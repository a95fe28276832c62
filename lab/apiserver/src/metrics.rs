//! The gauges of `/metrics`: how full the address ranges and the node ports are.
//!
//! Nothing is kept for them: each scrape reads the counters of the ledger, so they are right from the first scrape on,
//! and a range that is gone has no series. The names and labels are upstream's.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry as Metrics;

use crate::registry::LabIndex;
use crate::registry::ledger_index::Usage;
use crate::store::Store;

/// All series of the lab in the OpenMetrics text format.
pub fn render(store: &Store<LabIndex>) -> Result<String, fmt::Error> {
    let mut metrics = Metrics::default();
    metrics.register_collector(Box::new(Allocations(store.read(|view| view.index().services.usage()))));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &metrics)?;
    Ok(text)
}

/// A moment's fill of all ranges.
#[derive(Debug)]
struct Allocations(Usage);

impl Collector for Allocations {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let Usage { ranges, allocated_ports, available_ports } = &self.0;
        let ready = || ranges.iter().filter(|range| range.ready);
        let mut ips = |name: &str, help: &str, count: fn(&service_allocators::RangeUsage) -> u64| {
            let mut family =
                encoder.encode_descriptor(name, help, None, ConstGauge::new(0_i64).metric_type())?;
            for range in ready() {
                let gauge = ConstGauge::new(i64::try_from(count(range)).unwrap_or(i64::MAX));
                gauge.encode(family.encode_family(&[("cidr", range.prefix.to_string())])?)?;
            }
            Ok::<(), fmt::Error>(())
        };
        ips(
            "kube_apiserver_clusterip_allocator_allocated_ips",
            "Gauge measuring the number of allocated IPs for Services",
            |range| range.allocated,
        )?;
        ips(
            "kube_apiserver_clusterip_allocator_available_ips",
            "Gauge measuring the number of available IPs for Services",
            |range| range.available,
        )?;
        let mut ports = |name: &str, help: &str, count: u64| {
            let gauge = ConstGauge::new(i64::try_from(count).unwrap_or(i64::MAX));
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
        };
        ports(
            "kube_apiserver_nodeport_allocator_allocated_ports",
            "Gauge measuring the number of allocated NodePorts for Services",
            *allocated_ports,
        )?;
        ports(
            "kube_apiserver_nodeport_allocator_available_ports",
            "Gauge measuring the number of available NodePorts for Services",
            *available_ports,
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::registry::testing::lab;

    fn series(text: &str) -> Vec<&str> {
        text.lines().filter(|line| !line.starts_with('#')).collect()
    }

    #[test]
    fn gauges_follow_at_once_and_go_with_their_range() {
        let lab = lab(&["10.96.0.0/16"]);
        assert_eq!(
            series(&render(&lab.store).unwrap()),
            [
                "kube_apiserver_clusterip_allocator_allocated_ips{cidr=\"10.96.0.0/16\"} 1",
                "kube_apiserver_clusterip_allocator_available_ips{cidr=\"10.96.0.0/16\"} 65533",
                "kube_apiserver_nodeport_allocator_allocated_ports 0",
                "kube_apiserver_nodeport_allocator_available_ports 2768",
            ]
        );
        let extra = json!({"metadata": {"name": "extra"}, "spec": {"cidrs": ["10.99.0.0/28"]}});
        lab.create("networking.k8s.io", "servicecidrs", extra).unwrap();
        for spec in [
            json!({"clusterIP": "10.99.0.5", "ports": [{"port": 80}]}),
            json!({"type": "NodePort", "ports": [{"port": 80}]}),
        ] {
            let name = spec["type"].as_str().unwrap_or("plain").to_lowercase();
            lab.create(
                "",
                "services",
                json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec}),
            )
            .unwrap();
        }
        let text = render(&lab.store).unwrap();
        assert!(text.contains("allocated_ips{cidr=\"10.99.0.0/28\"} 1"), "{text}");
        assert!(text.contains("available_ips{cidr=\"10.99.0.0/28\"} 13"), "{text}");
        assert!(text.contains("allocated_ports 1\n") && text.contains("available_ports 2767\n"), "{text}");
        lab.delete(("networking.k8s.io", "servicecidrs", "", "extra"));
        assert!(!render(&lab.store).unwrap().contains("10.99.0.0/28"));
    }
}
