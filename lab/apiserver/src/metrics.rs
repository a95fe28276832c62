//! What `/metrics` says of address ranges and node ports: how full they are, and how often they were asked.
//!
//! Nothing is kept for the gauges: each scrape reads the counters of the ledger, so they are right from the first scrape on,
//! and a range that is gone has no series. The names and labels are upstream's.

use std::collections::BTreeSet;
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
    let usage = store.read(|view| {
        view.index().services.attempts.show(&mut metrics);
        view.index().services.usage()
    });
    metrics.register_collector(Box::new(Allocations(usage)));
    let mut text = String::new();
    prometheus_client::encoding::text::encode_registry(&mut text, &metrics)?;
    Ok(text)
}

/// The same as Prometheus' text format has it, in which a counter's family is called as its series are.
pub fn plain(open: &str) -> String {
    const END: &str = "_total";
    let mut text = String::with_capacity(open.len());
    let counters: BTreeSet<&str> = open
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .filter(|name| !name.ends_with(END))
        .collect();
    for line in open.lines() {
        let about = ["# HELP ", "# TYPE "].iter().find_map(|start| line.strip_prefix(start));
        match about.and_then(|about| about.split_once(' ')) {
            Some((name, rest)) if counters.contains(name) => {
                let start = &line[..line.len() - name.len() - 1 - rest.len()];
                text.extend([start, name, END, " ", rest, "\n"]);
            }
            _ if line == "# EOF" || line.starts_with("# UNIT ") => {}
            _ => text.extend([line, "\n"]),
        }
    }
    text
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
        let text = render(&lab.store).unwrap();
        let gauges: Vec<&str> =
            series(&text).into_iter().filter(|line| !line.contains("_allocation_")).collect();
        assert_eq!(
            gauges,
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
        let text = render(&lab.store).unwrap();
        assert!(!text.contains("allocated_ips{cidr=\"10.99.0.0/28\"}"), "{text}");
    }

    #[test]
    fn a_counter_is_called_as_its_series_are() {
        let open = "# HELP hits Hits.\n# TYPE hits counter\n# UNIT hits seconds\nhits_total 3\n# HELP fill Fill.\n# TYPE fill gauge\nfill 1\n# EOF\n";
        let expected = "# HELP hits_total Hits.\n# TYPE hits_total counter\nhits_total 3\n# HELP fill Fill.\n# TYPE fill gauge\nfill 1\n";
        assert_eq!(plain(open), expected);
    }
}
