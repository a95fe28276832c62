//! Counts and times of the webhook.
//!
//! Owns the series. Label values come from enums.

use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::review::Verdict;

/// Which of the two webhooks is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum Stage {
    /// The mutating one.
    Mutate,
    /// The validating one.
    Validate,
}

/// What was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
enum AnswerKind {
    LeftAlone,
    Steered,
    Refused,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    webhook: Stage,
    outcome: AnswerKind,
}

/// The series, registered once.
#[derive(Debug, Clone)]
pub struct WebhookMetrics {
    requests: Family<Labels, Counter>,
    seconds: Histogram,
}

impl WebhookMetrics {
    /// Adds the series to a registry.
    pub fn register(registry: &mut Registry) -> Self {
        let buckets = [0.000_1, 0.000_2, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.05, 0.1];
        let metrics = Self { requests: Family::default(), seconds: Histogram::new(buckets) };
        registry.register(
            "service_webhook_requests",
            "Questions of the API server, by answer",
            metrics.requests.clone(),
        );
        registry.register(
            "service_webhook_decision_duration_seconds",
            "Time from the body of a question to the body of its answer",
            metrics.seconds.clone(),
        );
        metrics
    }

    pub(super) fn count(&self, webhook: Stage, verdict: &Verdict, took: Duration) {
        let outcome = match verdict {
            Verdict::LeaveAlone => AnswerKind::LeftAlone,
            Verdict::Set(_) => AnswerKind::Steered,
            Verdict::Refuse(_) => AnswerKind::Refused,
        };
        self.requests.get_or_create(&Labels { webhook, outcome }).inc();
        self.seconds.observe(took.as_secs_f64());
    }
}
