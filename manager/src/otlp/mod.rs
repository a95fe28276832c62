//! Traces over OTLP: spans that have ended go to a collector, in batches, by gRPC.
//!
//! Owns the way to the collector; what a span says is decided where it is made. Sending never holds anybody up: what a
//! collector does not take in time is dropped, counted and told.

mod config;
mod reconciles;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use opentelemetry::KeyValue;
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::{
    Resource,
    trace::{SpanData, SpanExporter as _},
};
use parking_lot::Mutex;
use tokio::{sync::mpsc, task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;

pub use config::{TracingConfig, TracingConfigError};
pub use reconciles::Reconciles;

/// So many spans may wait; more are dropped.
const WAITING: usize = 4096;
/// So many go in one request at most.
const BATCH: usize = 512;
/// Spans are gathered for so long.
const GATHER: Duration = Duration::from_secs(1);
/// A request that takes longer has failed.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The way to a collector that cannot be set up.
#[derive(Debug, thiserror::Error)]
#[error("traces cannot be sent to {endpoint}: {why}")]
pub struct OtlpError {
    endpoint: String,
    why: String,
}

/// Traces that cannot be sent as they are configured.
#[derive(Debug, thiserror::Error)]
pub enum TracingError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}; --tracing-config-file names it", .file.display())]
    File {
        /// Which.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file says what cannot be done.
    #[error("{}: {source}", .file.display())]
    Config {
        /// Which.
        file: PathBuf,
        /// What.
        source: TracingConfigError,
    },
    /// There is no way to the collector.
    #[error(transparent)]
    Otlp(#[from] OtlpError),
}

/// Begins to send traces of reconciles as a file says. Has to be called on the runtime.
///
/// # Errors
/// If the file cannot be read, or what it says cannot be done.
pub fn start_by(file: &Path) -> Result<(Reconciles, Sending), TracingError> {
    let text = std::fs::read_to_string(file)
        .map_err(|source| TracingError::File { file: file.to_owned(), source })?;
    let config = TracingConfig::parse(&text)
        .map_err(|source| TracingError::Config { file: file.to_owned(), source })?;
    let (spans, sending) = start(&config)?;
    Ok((Reconciles::new(config, spans), sending))
}

/// Where spans are put.
#[derive(Debug, Clone)]
pub struct Spans {
    sender: mpsc::Sender<SpanData>,
    lost: Arc<Mutex<u64>>,
}

impl Spans {
    /// Sends a span, soon; without waiting, and without a promise.
    pub fn send(&self, span: SpanData) {
        if self.sender.try_send(span).is_err() {
            *self.lost.lock() += 1;
        }
    }
}

/// The task that sends.
#[derive(Debug)]
pub struct Sending {
    task: JoinHandle<()>,
    stop: CancellationToken,
}

impl Sending {
    /// Sends what waits, and ends; waits for a collector no longer than a request may take.
    pub async fn finish(self) {
        self.stop.cancel();
        let _ = timeout(TIMEOUT, self.task).await;
    }
}

/// Begins to send spans where `config` says. Has to be called on the runtime.
///
/// # Errors
/// If the endpoint is none.
pub fn start(config: &TracingConfig) -> Result<(Spans, Sending), OtlpError> {
    let built =
        SpanExporter::builder().with_tonic().with_endpoint(&config.endpoint).with_timeout(TIMEOUT).build();
    let mut exporter =
        built.map_err(|error| OtlpError { endpoint: config.endpoint.clone(), why: error.to_string() })?;
    let attributes = [KeyValue::new("service.version", env!("CARGO_PKG_VERSION"))];
    exporter.set_resource(
        &Resource::builder()
            .with_service_name("service-controller-manager")
            .with_attributes(attributes)
            .build(),
    );
    let (sender, receiver) = mpsc::channel(WAITING);
    let (lost, stop) = (Arc::new(Mutex::new(0)), CancellationToken::new());
    let sending = send_all(exporter, receiver, Arc::clone(&lost), stop.clone(), config.endpoint.clone());
    Ok((Spans { sender, lost }, Sending { task: tokio::spawn(sending), stop }))
}

async fn send_all(
    exporter: SpanExporter,
    mut waiting: mpsc::Receiver<SpanData>,
    lost: Arc<Mutex<u64>>,
    stop: CancellationToken,
    endpoint: String,
) {
    let mut fails = false;
    while let Some(batch) = gather(&mut waiting, &stop).await {
        let spans = batch.len() as u64;
        match exporter.export(batch).await {
            Ok(()) => {
                let lost = std::mem::take(&mut *lost.lock());
                if lost > 0 {
                    tracing::warn!(
                        endpoint,
                        lost,
                        "spans are lost: the collector took too long, or too many came"
                    );
                }
                if std::mem::take(&mut fails) {
                    tracing::info!(endpoint, "spans can be sent again");
                }
            }
            Err(error) => {
                *lost.lock() += spans;
                if !std::mem::replace(&mut fails, true) {
                    tracing::warn!(endpoint, why = %error, "spans cannot be sent; they are dropped until that works");
                }
            }
        }
    }
}

/// The next batch: as many as there are after a while, or at once when it is to end. None at the end.
async fn gather(waiting: &mut mpsc::Receiver<SpanData>, stop: &CancellationToken) -> Option<Vec<SpanData>> {
    let mut batch = Vec::new();
    let first = tokio::select! {
        biased;
        received = waiting.recv_many(&mut batch, BATCH) => received,
        () = stop.cancelled() => 0,
    };
    if first == 0 {
        return None;
    }
    let more = async {
        let mut room = BATCH - batch.len();
        while room > 0 {
            match waiting.recv_many(&mut batch, room).await {
                0 => return,
                received => room -= received,
            }
        }
    };
    tokio::select! {
        () = more => {}
        () = tokio::time::sleep(GATHER) => {}
        () = stop.cancelled() => {}
    }
    while batch.len() < BATCH
        && let Ok(span) = waiting.try_recv()
    {
        batch.push(span);
    }
    Some(batch)
}

#[cfg(test)]
mod tests;
