//! What the proxy says: one log line per outage, Events where a person would look, metrics.

use std::{collections::BTreeSet, io, net::SocketAddr};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client,
    runtime::{
        events::{Event, EventType, Recorder, Reporter as Source},
        watcher,
    },
};
use service_api::address::Family;

use crate::{endpoint::ServiceKey, metrics::Metrics, nft::run::RunError, sync::Report, track::NodeInfo};

/// After so many looks in a row that found foreign edits somebody else is at work.
const RIVAL: usize = 3;

/// Says what happens.
pub(super) struct Reporter {
    recorder: Recorder,
    metrics: Metrics,
    failing: BTreeSet<&'static str>,
    stopped: bool,
    refused: BTreeSet<ServiceKey>,
    without: BTreeSet<Family>,
    edits: usize,
}

impl Reporter {
    pub(super) fn new(client: Client, node: String, metrics: Metrics) -> Self {
        let source = Source { controller: "kube-proxy".to_owned(), instance: Some(node) };
        Self {
            recorder: Recorder::new(client, source),
            metrics,
            failing: BTreeSet::new(),
            stopped: false,
            refused: BTreeSet::new(),
            without: BTreeSet::new(),
            edits: 0,
        }
    }

    pub(super) fn watch_failed(&mut self, kind: &'static str, error: &watcher::Error) {
        if self.failing.insert(kind) {
            tracing::warn!(kind, %error, "a watch fails; the rules stay as they are and it is tried again");
        }
        self.count_watches();
    }

    pub(super) fn watch_works(&mut self, kind: &'static str) {
        self.failing.remove(kind);
        tracing::info!(kind, "the watch works again");
        self.count_watches();
    }

    fn count_watches(&self) {
        self.metrics.watches_failing.set(i64::try_from(self.failing.len()).unwrap_or(0));
    }

    /// A node without an address takes no node port traffic.
    pub(super) fn node(&mut self, node: &NodeInfo, families: &[Family]) {
        // Of two families one is enough.
        let lacks = families.iter().all(|family| node.primary(*family).is_none());
        for family in families {
            if !lacks {
                self.without.remove(family);
            } else if self.without.insert(*family) {
                tracing::warn!(%family, "the Node has no address; node ports do not answer until it has one");
            }
        }
    }

    /// Says what a sync did. `refused` are the Services that the kernel refuses now.
    pub(super) fn synced(&mut self, report: &Report, refused: &BTreeSet<ServiceKey>) {
        self.refused.retain(|key| refused.contains(key));
        self.metrics.refused.set(i64::try_from(refused.len()).unwrap_or(0));
        let steps = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        self.metrics.transactions.inc_by(steps(report.transactions));
        self.metrics.steps.inc_by(steps(report.steps));
        self.metrics.put_right.inc_by(steps(report.put_right));
        self.edited(report.put_right);
        match &report.stopped {
            Some(error) => {
                self.metrics.failed(error.category());
                if !std::mem::replace(&mut self.stopped, true) {
                    tracing::warn!(%error, "rules are not as they should be; it is tried again");
                }
            }
            None if report.transactions > 0 && std::mem::take(&mut self.stopped) => {
                tracing::info!("the rules are as they should be again");
            }
            None => {}
        }
        for (key, error) in &report.refused {
            self.metrics.failed(error.category());
            self.refused(key, error);
        }
    }

    fn edited(&mut self, count: usize) {
        if count == 0 {
            return;
        }
        self.edits += 1;
        if self.edits < RIVAL {
            tracing::info!(count, "put right what differed in the table kube-proxy");
        } else if self.edits == RIVAL {
            tracing::warn!(
                count,
                "the table kube-proxy is changed by somebody else over and over; is another kube-proxy at work?"
            );
        }
    }

    fn refused(&mut self, key: &ServiceKey, error: &RunError) {
        if self.refused.insert(key.clone()) {
            tracing::warn!(service = %key, %error, "the kernel refuses a Service's rules; its former ones stay");
            self.event(key, "FailedToProgramService", "Sync", error.to_string());
        }
    }

    pub(super) fn health_port_failed(&self, key: &ServiceKey, address: SocketAddr, error: &io::Error) {
        tracing::warn!(service = %key, %address, %error, "a health check port cannot be had; it is tried again");
        let note = format!("health check port {address} cannot be had: {error}");
        self.event(key, "FailedToStartServiceHealthcheck", "Listen", note);
    }

    /// Tells of a Service, without waiting for it to be told.
    fn event(&self, key: &ServiceKey, reason: &str, action: &str, note: String) {
        let about = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Service".to_owned()),
            namespace: Some(key.namespace().to_owned()),
            name: Some(key.name().to_owned()),
            ..ObjectReference::default()
        };
        let event = Event {
            type_: EventType::Warning,
            reason: reason.to_owned(),
            note: Some(note),
            action: action.to_owned(),
            secondary: None,
        };
        let recorder = self.recorder.clone();
        tokio::spawn(async move {
            if let Err(error) = recorder.publish(&event, &about).await {
                tracing::debug!(%error, "an Event is not told");
            }
        });
    }
}
