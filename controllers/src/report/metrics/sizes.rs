//! Sizes that are read from the caches when somebody scrapes.

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};

use super::Measured;
use super::labels::{LeaseLabel, QueueLabel, ReasonLabel, TrafficLabel, Word};
use crate::cache::Traffic;
use crate::controller::Controller;
use crate::index::oddities::Oddities;
use crate::index::sizes::{Sizes, Slices};
use crate::leadership::Leadership;
use crate::verdict::LeftOut;

/// What is measured, once it is there.
#[derive(Clone, Default)]
pub(super) struct Source {
    measured: Arc<OnceLock<Weak<dyn Measured>>>,
    lease: Arc<OnceLock<(String, Leadership)>>,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Source")
    }
}

impl Source {
    pub(super) fn attach(&self, measured: Weak<dyn Measured>) {
        let _ = self.measured.set(measured);
    }

    pub(super) fn elect(&self, lease: &str, leadership: Leadership) {
        let _ = self.lease.set((lease.to_owned(), leadership));
    }
}

impl Collector for Source {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        if let Some((lease, leadership)) = self.lease.get() {
            let leads: Family<LeaseLabel, Gauge> = Family::default();
            leads.get_or_create(&LeaseLabel { name: lease.clone() }).set(leadership.check().is_ok().into());
            leads.encode(encoder.encode_descriptor(
                "leader_election_master_status",
                "Whether this process holds the lease of that name",
                None,
                leads.metric_type(),
            )?)?;
        }
        let Some(measured) = self.measured.get().and_then(Weak::upgrade) else { return Ok(()) };
        let sizes = measured.sizes();
        caches(&mut encoder, &sizes)?;
        slices(&mut encoder, "endpoint_slice_controller", sizes.slices)?;
        slices(&mut encoder, "endpoint_slice_mirroring_controller", sizes.mirrors)?;
        oddities(&mut encoder, &measured.oddities())?;
        queues(&mut encoder, &*measured)
    }
}

#[allow(clippy::cast_possible_wrap)] // sizes of caches
fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: usize) -> fmt::Result {
    let gauge = ConstGauge::new(value as i64);
    gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
}

fn slices(encoder: &mut DescriptorEncoder<'_>, prefix: &str, slices: Slices) -> fmt::Result {
    for (name, help, value) in [
        ("endpoints_desired", "Endpoints in its slices", slices.endpoints),
        ("num_endpoint_slices", "Its slices", slices.slices),
        ("desired_endpoint_slices", "Slices that would do for their endpoints", slices.desired),
    ] {
        gauge(encoder, &format!("{prefix}_{name}"), help, value)?;
    }
    Ok(())
}

#[allow(clippy::cast_possible_wrap)] // sizes of caches
fn caches(encoder: &mut DescriptorEncoder<'_>, sizes: &Sizes) -> fmt::Result {
    for (name, help, value) in [
        ("service_controller_cache_pods", "Pods in the cache", sizes.pods),
        ("service_controller_cache_services", "Services in the cache", sizes.services),
        ("service_controller_cache_nodes", "Nodes in the cache", sizes.nodes),
        ("service_controller_cache_strings", "Distinct strings in the cache", sizes.strings),
    ] {
        gauge(encoder, name, help, value)?;
    }
    let by_traffic: Family<TrafficLabel, Gauge> = Family::default();
    for (traffic, services) in Traffic::ALL.into_iter().zip(sizes.by_traffic) {
        let label = TrafficLabel { traffic_distribution: Word(traffic.name()) };
        by_traffic.get_or_create(&label).set(services as i64);
    }
    by_traffic.encode(encoder.encode_descriptor(
        "endpoint_slice_controller_services_count_by_traffic_distribution",
        "Services whose hints come from their field trafficDistribution, by its value",
        None,
        by_traffic.metric_type(),
    )?)
}

#[allow(clippy::cast_possible_wrap)] // sizes of caches
fn oddities(encoder: &mut DescriptorEncoder<'_>, found: &Oddities) -> fmt::Result {
    let by_reason: Family<ReasonLabel, Gauge> = Family::default();
    for (reason, pods) in LeftOut::OF_SLICES.into_iter().zip(found.left_out) {
        by_reason.get_or_create(&ReasonLabel { reason: Word(reason.name()) }).set(pods as i64);
    }
    by_reason.encode(encoder.encode_descriptor(
        "service_controller_pods_left_out",
        "Pods that a Service selects and that are none of its endpoints, by reason",
        None,
        by_reason.metric_type(),
    )?)?;
    gauge(
        encoder,
        "service_controller_endpoints_disagreements",
        "Services whose Endpoints and slices do not have the same number of ready addresses",
        found.disagreements,
    )
}

#[allow(clippy::cast_possible_wrap)] // sizes of queues
fn queues(encoder: &mut DescriptorEncoder<'_>, measured: &dyn Measured) -> fmt::Result {
    let depth: Family<QueueLabel, Gauge> = Family::default();
    let adds: Family<QueueLabel, Counter> = Family::default();
    for controller in Controller::ALL {
        let (waiting, added) = measured.queue(controller);
        let label = QueueLabel::of(controller);
        depth.get_or_create(&label).set(waiting as i64);
        adds.get_or_create(&label).inc_by(added);
    }
    depth.encode(encoder.encode_descriptor(
        "workqueue_depth",
        "Keys that wait",
        None,
        depth.metric_type(),
    )?)?;
    adds.encode(encoder.encode_descriptor("workqueue_adds", "Keys added", None, adds.metric_type())?)
}
