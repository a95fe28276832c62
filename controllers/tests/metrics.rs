//! Every series there is, by name, type and labels: dashboards are written against these.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::time::Duration;

use http::{Method, StatusCode};
use prometheus_client::registry::Registry;
use service_controllers::api::Verb;
use service_controllers::cache::{Hinting, Traffic};
use service_controllers::controller::Controller;
use service_controllers::index::oddities::Oddities;
use service_controllers::index::sizes::{Sizes, Slices};
use service_controllers::leadership::Leadership;
use service_controllers::objects::ObjectKind;
use service_controllers::report::metrics::{Measured, Metrics, Planned, SyncResult, exposition};

/// Name, type and labels, as upstream has them (Kubernetes 1.36) where it has them.
const SERIES: &str = "
ip_address_audit_controller_sync_duration_seconds histogram
node_port_audit_controller_sync_duration_seconds histogram
node_port_range_controller_sync_duration_seconds histogram
service_allocation_controller_sync_duration_seconds histogram
service_pool_controller_sync_duration_seconds histogram
endpoint_slice_mirroring_controller_addresses_skipped_per_sync histogram
endpoint_slice_controller_changes counter operation
endpoint_slice_controller_desired_endpoint_slices gauge
endpoint_slice_controller_endpoints_added_per_sync histogram
endpoint_slice_controller_endpoints_desired gauge
endpoint_slice_controller_endpoints_removed_per_sync histogram
endpoint_slice_controller_endpointslices_changed_per_sync histogram topology,traffic_distribution
endpoint_slice_controller_num_endpoint_slices gauge
endpoint_slice_controller_services_count_by_traffic_distribution gauge traffic_distribution
endpoint_slice_controller_sync_duration_seconds histogram
endpoint_slice_controller_syncs counter result
endpoint_slice_mirroring_controller_changes counter operation
endpoint_slice_mirroring_controller_desired_endpoint_slices gauge
endpoint_slice_mirroring_controller_endpoints_added_per_sync histogram
endpoint_slice_mirroring_controller_endpoints_desired gauge
endpoint_slice_mirroring_controller_endpoints_removed_per_sync histogram
endpoint_slice_mirroring_controller_endpoints_sync_duration histogram
endpoint_slice_mirroring_controller_endpoints_updated_per_sync histogram
endpoint_slice_mirroring_controller_num_endpoint_slices gauge
endpoint_slice_mirroring_controller_syncs counter result
endpoints_controller_changes counter operation
endpoints_controller_sync_duration_seconds histogram
endpoints_controller_syncs counter result
leader_election_master_status gauge name
rest_client_rate_limiter_duration_seconds histogram host,verb
rest_client_request_duration_seconds histogram host,verb
rest_client_request_size_bytes histogram host,verb
rest_client_requests_total counter code,host,method
rest_client_response_size_bytes histogram host,verb
service_cidr_controller_changes counter operation
service_cidr_controller_sync_duration_seconds histogram
service_cidr_controller_syncs counter result
service_controller_cache_nodes gauge
service_controller_cache_pods gauge
service_controller_cache_services gauge
service_controller_cache_strings gauge
service_controller_endpoints_disagreements gauge
service_controller_event_to_slice_seconds histogram
service_controller_pod_change_to_slice_seconds histogram
service_controller_pods_left_out gauge reason
service_controller_slice_writes_per_endpoint_change histogram
service_controller_unreadable_objects_total counter kind
service_controller_watch_errors_total counter kind
service_controller_watch_lists_total counter kind
workqueue_adds_total counter name
workqueue_depth gauge name
workqueue_longest_running_processor_seconds gauge name
workqueue_queue_duration_seconds histogram name
workqueue_retries_total counter name
workqueue_unfinished_work_seconds gauge name
workqueue_work_duration_seconds histogram name
";

struct Fixed;

impl Measured for Fixed {
    fn sizes(&self) -> Sizes {
        Sizes {
            pods: 7,
            by_traffic: [5, 0, 6],
            slices: Slices { slices: 3, desired: 2, endpoints: 201 },
            mirrors: Slices { slices: 4, desired: 1, endpoints: 9 },
            ..Sizes::default()
        }
    }
    fn oddities(&self) -> Oddities {
        Oddities { left_out: [3, 0, 0, 0, 2], disagreements: 6 }
    }
    fn queue(&self, controller: Controller) -> (usize, u64) {
        if controller == Controller::Slices { (4, 9) } else { (0, 0) }
    }
}

/// The families of a scrape: type and labels by name.
fn families(text: &str) -> BTreeMap<String, (String, String)> {
    let mut families: BTreeMap<String, (String, String)> = BTreeMap::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        let first = text
            .lines()
            .find(|line| {
                let rest = line.strip_prefix(name);
                let rest = rest.map(|rest| rest.strip_prefix("_bucket").unwrap_or(rest));
                rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
            })
            .unwrap_or_default();
        let labels =
            first.split_once('{').and_then(|(_, rest)| rest.rsplit_once('}')).map(|(labels, _)| labels);
        let parts = labels.unwrap_or_default().split("\",").filter_map(|label| label.split_once("=\""));
        let mut labels: Vec<&str> = parts.map(|(name, _)| name).filter(|name| *name != "le").collect();
        labels.sort_unstable();
        families.insert(name.to_owned(), (kind.to_owned(), labels.join(",")));
    }
    families
}

#[tokio::test]
async fn every_series_is_listed() {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let fixed: std::sync::Arc<dyn Measured> = std::sync::Arc::new(Fixed);
    metrics.attach(std::sync::Arc::downgrade(&fixed));
    metrics.elect("lock", Leadership::follower());
    let planned = Planned { added: 3, removed: 1, updated: 2, skipped: 5, ..Planned::default() };
    for controller in Controller::ALL {
        drop(metrics.begin(controller, Some(Duration::from_millis(2))));
        metrics.synced(controller, SyncResult::Success, 0.01);
        metrics.planned(controller, &planned, 2);
        metrics.wrote(controller, Verb::Update);
    }
    let hinted = |hinting| Planned { hinting, ..Planned::default() };
    metrics.planned(Controller::Slices, &hinted(Hinting::TopologyMode), 4);
    metrics.planned(Controller::Slices, &hinted(Hinting::Field(Traffic::SameZone)), 8);
    metrics.wrote_for(8, 2);
    metrics.in_slices(Duration::from_millis(30), Some(Duration::from_secs(1)));
    metrics.retried(Controller::Cidrs);
    metrics.watches().listed(ObjectKind::Pods);
    metrics.watches().failed(ObjectKind::Pods);
    metrics.watches().unreadable(ObjectKind::Pods);
    let requests = metrics.requests();
    requests.name_host("10.96.0.1:443");
    requests.sent(&Method::PUT, 1000);
    requests.answered(&Method::PUT, Some(StatusCode::CONFLICT), Duration::from_millis(3));
    requests.answered(&Method::GET, None, Duration::from_millis(3));
    requests.received(&Method::PUT, 100);
    requests.limited(&Method::PUT, Duration::ZERO);
    let _working = metrics.begin(Controller::Mirrors, None);
    let text = exposition(&registry).unwrap();

    for line in [
        "endpoint_slice_controller_changes{operation=\"update\"} 1",
        "endpoint_slice_controller_syncs{result=\"success\"} 1",
        "endpoint_slice_controller_endpoints_added_per_sync_sum 3.0",
        "endpoint_slice_controller_endpoints_removed_per_sync_sum 1.0",
        "endpoint_slice_controller_endpointslices_changed_per_sync_sum{topology=\"Disabled\",traffic_distribution=\"\"} 2.0",
        "endpoint_slice_controller_endpointslices_changed_per_sync_sum{topology=\"Auto\",traffic_distribution=\"\"} 4.0",
        "endpoint_slice_controller_endpointslices_changed_per_sync_sum{topology=\"Disabled\",traffic_distribution=\"PreferSameZone\"} 8.0",
        "endpoint_slice_controller_services_count_by_traffic_distribution{traffic_distribution=\"PreferClose\"} 5",
        "endpoint_slice_controller_services_count_by_traffic_distribution{traffic_distribution=\"PreferSameNode\"} 6",
        "endpoint_slice_controller_num_endpoint_slices 3",
        "endpoint_slice_controller_desired_endpoint_slices 2",
        "endpoint_slice_controller_endpoints_desired 201",
        "endpoint_slice_mirroring_controller_num_endpoint_slices 4",
        "endpoint_slice_mirroring_controller_addresses_skipped_per_sync_sum 5.0",
        "endpoint_slice_mirroring_controller_endpoints_updated_per_sync_sum 2.0",
        "leader_election_master_status{name=\"lock\"} 0",
        "rest_client_requests_total{code=\"409\",method=\"PUT\",host=\"10.96.0.1:443\"} 1",
        "rest_client_requests_total{code=\"<error>\",method=\"GET\",host=\"10.96.0.1:443\"} 1",
        "service_controller_cache_pods 7",
        "service_controller_slice_writes_per_endpoint_change_sum 0.25",
        "service_controller_watch_lists_total{kind=\"pods\"} 1",
        "service_controller_pods_left_out{reason=\"TerminalPhase\"} 3",
        "service_controller_pods_left_out{reason=\"NodeUnknown\"} 2",
        "service_controller_endpoints_disagreements 6",
        "service_controller_event_to_slice_seconds_sum 0.03",
        "service_controller_pod_change_to_slice_seconds_sum 1.0",
        "workqueue_depth{name=\"endpoint_slice\"} 4",
        "workqueue_adds_total{name=\"endpoint_slice\"} 9",
        "workqueue_retries_total{name=\"ipaddresses\"} 1",
        "workqueue_queue_duration_seconds_count{name=\"endpoint\"} 1",
        "workqueue_work_duration_seconds_count{name=\"endpoint_slice_mirroring\"} 1",
        "workqueue_unfinished_work_seconds{name=\"endpoint\"} 0.0",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
    }
    let longest = "workqueue_longest_running_processor_seconds{name=\"endpoint_slice_mirroring\"} ";
    let longest = text.lines().find_map(|line| line.strip_prefix(longest)).unwrap();
    assert!(longest.parse::<f64>().unwrap() > 0.0, "a look is under way");

    let expected: Vec<(String, (String, String))> = SERIES
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let labels = words.get(2).copied().unwrap_or_default();
            (words[0].to_owned(), (words[1].to_owned(), labels.to_owned()))
        })
        .collect();
    let expected: BTreeMap<_, _> = expected.into_iter().collect();
    assert_eq!(families(&text), expected, "{text}");
}
