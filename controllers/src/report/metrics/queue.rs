//! How long keys wait and how long the looks at them take, under the names of client-go's work queues.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use super::labels::QueueLabel;
use crate::controller::Controller;

type Floats = Gauge<f64, std::sync::atomic::AtomicU64>;

/// client-go's buckets: from ten nanoseconds to ten seconds.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(1e-8, 10.0, 10))
}

/// What is under way: when it began, by a number of its own.
#[derive(Debug, Default)]
struct UnderWay {
    next: u64,
    begun: BTreeMap<u64, Instant>,
}

/// The metrics of all queues.
#[derive(Clone, Debug)]
pub(super) struct QueueMetrics {
    waited: Family<QueueLabel, Histogram, fn() -> Histogram>,
    worked: Family<QueueLabel, Histogram, fn() -> Histogram>,
    retries: Family<QueueLabel, Counter>,
    under_way: [Arc<Mutex<UnderWay>>; Controller::COUNT],
}

/// A look at a key, which lasts until this is dropped.
#[derive(Debug)]
#[must_use = "it ends when it is dropped"]
pub struct Working {
    under_way: Arc<Mutex<UnderWay>>,
    number: u64,
    worked: Family<QueueLabel, Histogram, fn() -> Histogram>,
    label: QueueLabel,
}

impl Drop for Working {
    fn drop(&mut self) {
        if let Some(begun) = self.under_way.lock().begun.remove(&self.number) {
            self.worked.get_or_create(&self.label).observe(begun.elapsed().as_secs_f64());
        }
    }
}

impl QueueMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let new = Self {
            waited: Family::new_with_constructor(seconds),
            worked: Family::new_with_constructor(seconds),
            retries: Family::default(),
            under_way: Default::default(),
        };
        registry.register(
            "workqueue_queue_duration_seconds",
            "From when a key is due to when it is taken, in seconds",
            new.waited.clone(),
        );
        registry.register(
            "workqueue_work_duration_seconds",
            "How long a look at a key takes, in seconds",
            new.worked.clone(),
        );
        // Every queue has the series from the start, as upstream's, so that the first retry is an increase.
        for controller in Controller::ALL {
            drop(new.retries.get_or_create(&QueueLabel::of(controller)));
        }
        registry.register("workqueue_retries", "Looks that failed and are taken again", new.retries.clone());
        registry.register_collector(Box::new(new.clone()));
        new
    }

    pub(super) fn retried(&self, controller: Controller) {
        self.retries.get_or_create(&QueueLabel::of(controller)).inc();
    }

    pub(super) fn begin(&self, controller: Controller, waited: Option<Duration>) -> Working {
        let label = QueueLabel::of(controller);
        if let Some(waited) = waited {
            self.waited.get_or_create(&label).observe(waited.as_secs_f64());
        }
        let under_way = Arc::clone(&self.under_way[controller as usize]);
        let number = {
            let mut all = under_way.lock();
            all.next += 1;
            let number = all.next;
            all.begun.insert(number, Instant::now());
            number
        };
        Working { under_way, number, worked: self.worked.clone(), label }
    }
}

impl Collector for QueueMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (unfinished, longest): (Family<QueueLabel, Floats>, Family<QueueLabel, Floats>) =
            Default::default();
        for controller in Controller::ALL {
            let times: Vec<f64> = {
                let all = self.under_way[controller as usize].lock();
                all.begun.values().map(|begun| begun.elapsed().as_secs_f64()).collect()
            };
            let label = QueueLabel::of(controller);
            unfinished.get_or_create(&label).set(times.iter().fold(0.0, |all, time| all + time));
            longest.get_or_create(&label).set(times.into_iter().fold(0.0, f64::max));
        }
        let help = "How long the looks that are under way have lasted together, in seconds";
        unfinished.encode(encoder.encode_descriptor(
            "workqueue_unfinished_work_seconds",
            help,
            None,
            unfinished.metric_type(),
        )?)?;
        let help = "How long the longest look that is under way has lasted, in seconds";
        longest.encode(encoder.encode_descriptor(
            "workqueue_longest_running_processor_seconds",
            help,
            None,
            longest.metric_type(),
        )?)
    }
}
