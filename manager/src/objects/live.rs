//! Objects of an API server, as they come in: no answer is in memory as a whole.
//!
//! Owns what is asked for and how a refusal is told from a failure. Only reads.

use http::{Request, header};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use service_controllers::error::with_causes;
use service_controllers::explain::Kind;

use super::json::JsonSplitter;
use super::{Sink, SplitError};

/// A request for objects of one kind.
#[derive(Debug, Clone)]
pub(crate) struct Want {
    /// The kind.
    pub(crate) kind: Kind,
    path: String,
    one: bool,
    /// Whether the metadata is enough.
    metadata: bool,
}

impl Want {
    /// All objects of a kind, in a namespace or in all.
    pub(crate) fn all(kind: Kind, namespace: Option<&str>) -> Self {
        Self { kind, path: kind.path(namespace), one: false, metadata: false }
    }

    /// One object.
    pub(crate) fn one(kind: Kind, namespace: Option<&str>, name: &str) -> Self {
        Self { kind, path: format!("{}/{name}", kind.path(namespace)), one: true, metadata: false }
    }

    /// Whether one object is asked for.
    pub(crate) fn is_one(&self) -> bool {
        self.one
    }

    /// Only those that a selector selects, by labels or by fields.
    pub(crate) fn selected(self, by: &str, selector: &str) -> Self {
        let selector: String = percent_encode(selector);
        let sign = if self.path.contains('?') { '&' } else { '?' };
        Self { path: format!("{}{sign}{by}={selector}", self.path), ..self }
    }

    /// Only their metadata.
    pub(crate) fn metadata(self) -> Self {
        Self { metadata: true, ..self }
    }

    /// At most so many, and only their metadata.
    pub(crate) fn names(self, limit: usize) -> Self {
        let sign = if self.path.contains('?') { '&' } else { '?' };
        Self { path: format!("{}{sign}limit={limit}", self.path), metadata: true, ..self }
    }
}

fn percent_encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let spelt = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(spelt).collect()
}

/// What became of a request.
#[derive(Debug)]
pub(crate) enum Fetched {
    /// All that was wanted was handed on.
    Whole,
    /// There is no such object, or no such kind.
    NotFound,
    /// Not allowed: what the server says.
    Refused(String),
}

/// A server that cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// No answer.
    #[error("get {path}: {}", with_causes(source.as_ref()))]
    Request {
        /// Of what.
        path: String,
        /// Why not.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An error for an answer.
    #[error("get {path}: {code}: {message}")]
    Status {
        /// Of what.
        path: String,
        /// The status code.
        code: u16,
        /// What the server says.
        message: String,
    },
    /// An answer that cannot be read.
    #[error("get {path}: {reason}")]
    Answer {
        /// Of what.
        path: String,
        /// What is wrong.
        reason: String,
    },
}

/// Asks for objects and hands them on.
pub(crate) async fn fetch(client: &Client, want: &Want, sink: &mut Sink<'_>) -> Result<Fetched, FetchError> {
    let failed = |source: Box<dyn std::error::Error + Send + Sync>| FetchError::Request {
        path: want.path.clone(),
        source,
    };
    let accept = if want.metadata {
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
    } else {
        "application/json"
    };
    let request = Request::get(&want.path).header(header::ACCEPT, accept).body(Body::empty());
    let response = client.send(request.map_err(|error| failed(error.into()))?).await;
    let response = response.map_err(|error| failed(error.into()))?;
    let code = response.status().as_u16();
    let mut body = response.into_body();
    if code != 200 {
        let text = body.collect().await.map_err(|error| failed(error.into()))?.to_bytes();
        let status: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
        let message = status["message"].as_str().unwrap_or("no reason is given").to_owned();
        return match code {
            404 => Ok(Fetched::NotFound),
            401 | 403 => Ok(Fetched::Refused(message)),
            _ => Err(FetchError::Status { path: want.path.clone(), code, message }),
        };
    }
    let wrong = |error: SplitError| FetchError::Answer { path: want.path.clone(), reason: error.to_string() };
    let mut splitter = JsonSplitter::default();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| failed(error.into()))?;
        if let Ok(piece) = frame.into_data() {
            splitter.push(&piece, sink).map_err(wrong)?;
        }
    }
    splitter.finish().map_err(wrong)?;
    Ok(Fetched::Whole)
}
