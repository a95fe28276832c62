//! Requests to the API server, under client-go's names.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::{Method, StatusCode};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    code: String,
    method: String,
    host: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Asked {
    verb: String,
    host: Arc<str>,
}

type ByVerb = Family<Asked, Histogram, fn() -> Histogram>;

/// Seconds of a request.
fn seconds() -> Histogram {
    Histogram::new([0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0])
}

/// Bytes, from 64 to 16 MiB.
fn bytes() -> Histogram {
    Histogram::new([
        64.0,
        256.0,
        512.0,
        1024.0,
        4096.0,
        16384.0,
        65536.0,
        262_144.0,
        1_048_576.0,
        4_194_304.0,
        16_777_216.0,
    ])
}

/// What is counted of requests.
#[derive(Clone, Debug)]
pub struct RequestMetrics {
    host: Arc<OnceLock<Arc<str>>>,
    answers: Family<Answered, Counter>,
    duration: ByVerb,
    sent: ByVerb,
    received: ByVerb,
    limited: ByVerb,
}

impl Default for RequestMetrics {
    /// Counts that nobody sees.
    fn default() -> Self {
        Self::register(&mut Registry::default())
    }
}

impl RequestMetrics {
    /// Registers them.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let new = Self {
            host: Arc::default(),
            answers: Family::default(),
            duration: Family::new_with_constructor(seconds),
            sent: Family::new_with_constructor(bytes),
            received: Family::new_with_constructor(bytes),
            limited: Family::new_with_constructor(seconds),
        };
        registry.register("rest_client_requests", "Requests to the API server", new.answers.clone());
        for (name, help, family) in [
            ("request_duration_seconds", "From a request to the head of its answer", &new.duration),
            ("request_size_bytes", "Bodies of requests", &new.sent),
            ("response_size_bytes", "Bodies of answers, but for those of watches", &new.received),
            ("rate_limiter_duration_seconds", "Waits for --kube-api-qps", &new.limited),
        ] {
            registry.register(format!("rest_client_{name}"), help, family.clone());
        }
        new
    }

    /// Names the API server that the requests go to. The first name stays.
    pub fn name_host(&self, host: &str) {
        let _ = self.host.set(host.into());
    }

    fn host(&self) -> Arc<str> {
        self.host.get().cloned().unwrap_or_else(|| "".into())
    }

    fn asked(&self, method: &Method) -> Asked {
        Asked { verb: method.as_str().to_owned(), host: self.host() }
    }

    /// A request was sent, with so many bytes.
    #[allow(clippy::cast_precision_loss)] // sizes of bodies
    pub fn sent(&self, method: &Method, size: u64) {
        self.sent.get_or_create(&self.asked(method)).observe(size as f64);
    }

    /// Its answer began after so long; no code if there was none.
    pub fn answered(&self, method: &Method, code: Option<StatusCode>, took: Duration) {
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.as_str().to_owned());
        let label = Answered { code, method: method.as_str().to_owned(), host: self.host() };
        self.answers.get_or_create(&label).inc();
        self.duration.get_or_create(&self.asked(method)).observe(took.as_secs_f64());
    }

    /// The body of an answer had so many bytes.
    #[allow(clippy::cast_precision_loss)] // sizes of bodies
    pub fn received(&self, method: &Method, size: u64) {
        self.received.get_or_create(&self.asked(method)).observe(size as f64);
    }

    /// The rate limit held a request up for so long.
    pub fn limited(&self, method: &Method, waited: Duration) {
        self.limited.get_or_create(&self.asked(method)).observe(waited.as_secs_f64());
    }
}
