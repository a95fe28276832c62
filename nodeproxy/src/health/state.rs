//! Whether the proxy works: it does unless changes have been waiting for too long.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Serialize;

#[derive(Debug)]
struct Inner {
    late: Duration,
    /// Since when changes have been waiting.
    waiting: Option<Instant>,
    updated: Option<Timestamp>,
    eligible: bool,
}

/// The state, shared by who changes it and who shows it.
#[derive(Debug, Clone)]
pub struct Health(Arc<Mutex<Inner>>);

/// What is shown on `/healthz` and `/livez`, as kube-proxy does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    /// When the rules were last as they should be, or now if they are.
    pub last_updated: String,
    /// Now.
    pub current_time: String,
    /// Whether load balancers should send traffic to this node; only on `/healthz`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_eligible: Option<bool>,
    /// Whether the answer is a yes.
    #[serde(skip)]
    pub healthy: bool,
}

impl Health {
    /// Nothing is waiting; changes are late after this long.
    pub fn new(late: Duration) -> Self {
        Self(Arc::new(Mutex::new(Inner { late, waiting: None, updated: None, eligible: true })))
    }

    /// Changes are waiting.
    pub fn queued(&self, now: Instant) {
        self.0.lock().waiting.get_or_insert(now);
    }

    /// The rules are as they should be.
    pub fn updated(&self) {
        let mut inner = self.0.lock();
        inner.waiting = None;
        inner.updated = Some(Timestamp::now());
    }

    /// Whether the node should get traffic.
    pub fn set_eligible(&self, eligible: bool) {
        self.0.lock().eligible = eligible;
    }

    /// Whether changes are not late.
    pub fn is_healthy(&self, now: Instant) -> bool {
        let inner = self.0.lock();
        inner.waiting.is_none_or(|since| now.saturating_duration_since(since) < inner.late)
    }

    /// The answer, with or without the node's part in it.
    pub fn show(&self, node_too: bool) -> Shown {
        let works = self.is_healthy(Instant::now());
        let (updated, eligible) = {
            let inner = self.0.lock();
            (inner.updated, inner.eligible)
        };
        let healthy = works && (!node_too || eligible);
        let now = Timestamp::now();
        let at = if healthy { Some(now) } else { updated };
        Shown {
            last_updated: at.map_or_else(String::new, |at| at.to_string()),
            current_time: now.to_string(),
            node_eligible: node_too.then_some(eligible),
            healthy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_that_wait_too_long_are_unhealthy_until_they_are_done() {
        let health = Health::new(Duration::from_mins(1));
        let start = Instant::now();
        health.queued(start);
        health.queued(start + Duration::from_secs(50));
        assert!(health.is_healthy(start + Duration::from_secs(59)));
        assert!(!health.is_healthy(start + Duration::from_mins(1)));
        health.updated();
        assert!(health.is_healthy(start + Duration::from_hours(1)));
    }

    #[test]
    fn a_node_that_leaves_is_live_and_gets_no_traffic() {
        let health = Health::new(Duration::from_mins(1));
        health.set_eligible(false);
        assert!(!health.show(true).healthy);
        assert!(health.show(false).healthy);
        assert!(serde_json::to_string(&health.show(true)).unwrap().contains("\"nodeEligible\":false"));
    }
}
