//! Every series there is, by name: dashboards are written against these.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use service_controllers::api::Verb;
use service_controllers::cache::{Hinting, Traffic};
use service_controllers::controller::Controller;
use service_controllers::index::sizes::Sizes;
use service_controllers::objects::ObjectKind;
use service_controllers::report::metrics::{Measured, Metrics, SyncResult};

struct Fixed;

impl Measured for Fixed {
    fn sizes(&self) -> Sizes {
        Sizes {
            pods: 7,
            by_traffic: [5, 0, 6],
            slices: 3,
            desired_slices: 2,
            endpoints: 201,
            ..Sizes::default()
        }
    }
    fn queue(&self, controller: Controller) -> (usize, u64) {
        if controller == Controller::Slices { (4, 9) } else { (0, 0) }
    }
}

#[test]
fn every_series_is_listed() {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let fixed: std::sync::Arc<dyn Measured> = std::sync::Arc::new(Fixed);
    metrics.attach(std::sync::Arc::downgrade(&fixed));
    for controller in Controller::ALL {
        metrics.synced(controller, SyncResult::Success, 0.01);
        metrics.planned(controller, (3, 1), 2, Hinting::Off);
        metrics.wrote(controller, Verb::Update);
    }
    metrics.planned(Controller::Slices, (0, 0), 4, Hinting::TopologyMode);
    metrics.planned(Controller::Slices, (0, 0), 8, Hinting::Field(Traffic::SameZone));
    metrics.wrote_for(8, 2);
    metrics.listed(ObjectKind::Pods);
    metrics.watch_failed(ObjectKind::Pods);
    metrics.unreadable(ObjectKind::Pods);
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();

    for line in [
        "endpoint_slice_controller_changes{operation=\"update\"} 1",
        "endpoint_slice_controller_syncs{result=\"success\"} 1",
        "endpoint_slice_controller_endpoints_added_per_sync_sum 3.0",
        "endpoint_slice_controller_endpoints_removed_per_sync_sum 1.0",
        "endpoint_slice_controller_endpointslices_changed_per_sync_sum{topology=\"Disabled\",traffic_distribution=\"\"} 2.0",
        "endpoint_slice_controller_endpointslices_changed_per_sync_sum{topology=\"Auto\",traffic_distribution=\"\"} 4.0",
        "endpoint_slice_controller_endpointslices_changed_per_sync_sum{topology=\"Disabled\",traffic_distribution=\"PreferSameZone\"} 8.0",
        "endpoints_controller_endpointslices_changed_per_sync_sum 2.0",
        "endpoint_slice_controller_services_count_by_traffic_distribution{traffic_distribution=\"PreferClose\"} 5",
        "endpoint_slice_controller_services_count_by_traffic_distribution{traffic_distribution=\"PreferSameNode\"} 6",
        "endpoint_slice_controller_num_endpoint_slices 3",
        "endpoint_slice_controller_desired_endpoint_slices 2",
        "endpoint_slice_controller_endpoints_desired 201",
        "service_controller_cache_pods 7",
        "service_controller_slice_writes_per_endpoint_change_sum 0.25",
        "service_controller_watch_lists_total{kind=\"pods\"} 1",
        "service_controller_watch_errors_total{kind=\"pods\"} 1",
        "service_controller_unreadable_objects_total{kind=\"pods\"} 1",
        "workqueue_depth{name=\"endpointslice-controller\"} 4",
        "workqueue_adds_total{name=\"endpointslice-controller\"} 9",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
    }

    let names: BTreeSet<&str> =
        text.lines().filter_map(|l| l.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let per_controller = [
        "changes",
        "endpoints_added_per_sync",
        "endpoints_removed_per_sync",
        "endpointslices_changed_per_sync",
        "sync_duration_seconds",
        "syncs",
    ];
    let prefixes = [
        "endpoint_slice_controller",
        "endpoints_controller",
        "endpoint_slice_mirroring_controller",
        "service_cidr_controller",
    ];
    let mut expected: BTreeSet<String> =
        prefixes.iter().flat_map(|p| per_controller.iter().map(move |m| format!("{p}_{m}"))).collect();
    expected.extend(
        [
            "endpoint_slice_controller_desired_endpoint_slices",
            "endpoint_slice_controller_endpoints_desired",
            "endpoint_slice_controller_num_endpoint_slices",
            "endpoint_slice_controller_services_count_by_traffic_distribution",
            "service_controller_cache_nodes",
            "service_controller_cache_pods",
            "service_controller_cache_services",
            "service_controller_cache_strings",
            "service_controller_slice_writes_per_endpoint_change",
            "service_controller_unreadable_objects",
            "service_controller_watch_errors",
            "service_controller_watch_lists",
            "workqueue_adds_total",
            "workqueue_depth",
        ]
        .map(str::to_owned),
    );
    assert_eq!(names.into_iter().map(str::to_owned).collect::<BTreeSet<_>>(), expected);
}
