//! Counters of requests under upstream's names, and the text of `/metrics`.

use std::fmt;
use std::time::Duration;

use http::StatusCode;
use http::request::Parts;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry as Metrics;

use crate::registry::{Registry, Store};

use super::resources::RequestInfo;

/// Upper bounds of the buckets of request durations, in seconds.
const BUCKETS: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 60.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    code: u16,
    component: &'static str,
    dry_run: &'static str,
    group: &'static str,
    resource: &'static str,
    scope: &'static str,
    subresource: &'static str,
    verb: &'static str,
    version: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DurationLabels {
    group: &'static str,
    resource: &'static str,
    subresource: &'static str,
    verb: &'static str,
    version: &'static str,
}

/// What was asked, how often and for how long.
pub struct RequestMetrics {
    registry: Metrics,
    requests: Family<Labels, Counter>,
    durations: Family<DurationLabels, Histogram>,
}

impl Default for RequestMetrics {
    fn default() -> Self {
        let requests = Family::<Labels, Counter>::default();
        let durations = Family::<DurationLabels, Histogram>::new_with_constructor(|| Histogram::new(BUCKETS));
        let mut registry = Metrics::default();
        registry.register("apiserver_request", "Counter of apiserver requests", requests.clone());
        registry.register(
            "apiserver_request_duration_seconds",
            "Response latency distribution in seconds, watches left out",
            durations.clone(),
        );
        Self { registry, requests, durations }
    }
}

impl RequestMetrics {
    /// Counts an answered request.
    pub fn observe(
        &self,
        registry: &Registry,
        parts: &Parts,
        kind: RequestInfo,
        code: StatusCode,
        took: Duration,
    ) {
        let Some(info) = kind.resource.map(|id| registry.info(id)) else { return };
        let verb = match kind.verb {
            "create" => "POST",
            "update" => "PUT",
            "patch" => "PATCH",
            "delete" => "DELETE",
            "deletecollection" => "DELETECOLLECTION",
            "get" => "GET",
            "list" => "LIST",
            "watch" => "WATCH",
            other => other,
        };
        let dry = parts.uri.query().is_some_and(|query| query.contains("dryRun=All"));
        let scope = match verb {
            "LIST" | "WATCH" | "DELETECOLLECTION" if parts.uri.path().contains("/namespaces/") => "namespace",
            "LIST" | "WATCH" | "DELETECOLLECTION" => "cluster",
            _ => "resource",
        };
        let labels = Labels {
            code: code.as_u16(),
            component: "apiserver",
            dry_run: if dry { "All" } else { "" },
            group: info.group,
            resource: info.resource,
            scope,
            subresource: kind.subresource,
            verb,
            version: info.version,
        };
        self.requests.get_or_create(&labels).inc();
        if verb != "WATCH" {
            let labels = DurationLabels {
                group: info.group,
                resource: info.resource,
                subresource: kind.subresource,
                verb,
                version: info.version,
            };
            self.durations.get_or_create(&labels).observe(took.as_secs_f64());
        }
    }

    /// All series in Prometheus' text format; gauges are read from the store at this moment.
    pub fn render(&self, store: &Store) -> Result<String, fmt::Error> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode_registry(&mut text, &self.registry)?;
        text.push_str(&crate::metrics::render(store)?);
        Ok(crate::metrics::plain(&text))
    }
}
