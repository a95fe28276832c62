//! How long changes of pods take to be in a slice.

use std::time::Duration;

use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// Both ways to count it: exact, from when the event came; and from the change itself, which is in whole seconds.
#[derive(Clone, Debug)]
pub(super) struct Latency {
    since_event: Histogram,
    since_change: Histogram,
}

/// From a millisecond to half a minute.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 16))
}

impl Latency {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let new = Self { since_event: seconds(), since_change: seconds() };
        registry.register(
            "service_controller_event_to_slice_seconds",
            "From the first event of a change of endpoints to the answer of its last write",
            new.since_event.clone(),
        );
        registry.register(
            "service_controller_pod_change_to_slice_seconds",
            "From the time in a pod's condition Ready, in whole seconds, to the answer of the last write",
            new.since_change.clone(),
        );
        new
    }

    pub(super) fn observe(&self, since_event: Duration, since_change: Option<Duration>) {
        self.since_event.observe(since_event.as_secs_f64());
        if let Some(since_change) = since_change {
            self.since_change.observe(since_change.as_secs_f64());
        }
    }
}
