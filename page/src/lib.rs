//! The page to look at: ranges of addresses and node ports as maps, Services with their slices and endpoints, and what
//! the controllers do.
//!
//! ```text
//!   kube client --- watches ---> follow -> tables (rows, pure) -> live -> routes ---> browser
//!                                 kinds (objects to rows, pure)            ^  static/: page, style, scripts
//!   log ----------------------------------------> reconciles --------------+  access: links, sessions, requests (pure)
//! ```
//!
//! Owns what is served below `/page/` and who may look. It only reads: it knows no controller and no server, writes no
//! object, and watches nothing while nobody looks.

mod access;
mod answers;
mod assets;
mod follow;
mod kinds;
mod live;
mod reconciles;
mod refusal;
mod routes;
mod run;
mod tables;
mod view;

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::Router;
use http::StatusCode;
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};
use service_allocators::{NodePortRange, bands::port_band};
use tokio_util::sync::CancellationToken;

pub use self::reconciles::Reconciles;
use self::{access::Sessions, live::Live};

/// Something that is on its way.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Why somebody does not get what they ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The status code of the answer.
    pub status: StatusCode,
    /// What is said.
    pub message: String,
}

/// Who may look.
pub trait Authority: Send + Sync + 'static {
    /// Whether whoever holds the token may look; without a token, whether everybody may.
    fn may_look<'a>(&'a self, token: Option<&'a str>) -> Later<'a, Result<(), Refused>>;
}

/// What says why an object is as it is.
pub trait Explainer: Send + Sync + 'static {
    /// Explains an object of a kind, such as `service`; the namespace is empty for one that has none.
    fn explain<'a>(
        &'a self,
        kind: &'a str,
        namespace: &'a str,
        name: &'a str,
    ) -> Later<'a, Result<Value, Refused>>;
}

/// What a page is to be.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What it is a page of, for its title.
    pub title: String,
    /// The range of node ports of a cluster that has no NodePortRange objects.
    pub node_ports: NodePortRange,
    /// The names of hosts, beside `localhost`, by which it is reached; an address always does.
    pub hosts: Vec<String>,
    /// How long the watches go on after the last viewer has gone.
    pub linger: Duration,
    /// Ends what runs.
    pub shutdown: CancellationToken,
}

/// The page.
#[derive(Clone)]
pub struct Page {
    shared: Shared,
}

/// What all requests share.
#[derive(Clone)]
struct Shared(Arc<Inner>);

struct Inner {
    client: Client,
    authority: Arc<dyn Authority>,
    explainer: Option<Arc<dyn Explainer>>,
    reconciles: Reconciles,
    sessions: Mutex<Sessions>,
    live: Arc<Live>,
    /// What the browser is told of the page, as members of a JSON object.
    about: String,
    hosts: Vec<String>,
    shutdown: CancellationToken,
}

impl std::ops::Deref for Shared {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl fmt::Debug for Page {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Page").field("about", &self.shared.about).finish_non_exhaustive()
    }
}

impl Inner {
    fn link(&self, url: &str, token: &str) -> String {
        let key = self.sessions.lock().link(token, Instant::now());
        format!("{url}/page/#key={key}")
    }
}

impl Page {
    /// A page that reads by `client`, is shown to whom `authority` lets look, and shows the lines of `reconciles`.
    pub fn new(
        client: Client,
        authority: Arc<dyn Authority>,
        explainer: Option<Arc<dyn Explainer>>,
        reconciles: Reconciles,
        settings: Settings,
    ) -> Self {
        let live = Live::new(client.clone(), settings.linger, settings.shutdown.clone());
        let sessions = Mutex::default();
        let about = about(&settings, explainer.is_some());
        let Settings { hosts, shutdown, .. } = settings;
        let inner =
            Inner { client, authority, explainer, reconciles, sessions, live, about, hosts, shutdown };
        Self { shared: Shared(Arc::new(inner)) }
    }

    /// A link for whoever holds the token, below the URL of the server; it works once. The token is not in it.
    pub fn link(&self, url: &str, token: &str) -> String {
        self.shared.link(url, token)
    }

    /// What answers requests for `/page` and all below it.
    pub fn router(&self) -> Router {
        routes::router(self.shared.clone())
    }
}

/// What the browser is told of the page, as members of a JSON object.
fn about(settings: &Settings, explains: bool) -> String {
    let ports = settings.node_ports;
    let ports = json!({"first": ports.first(), "last": ports.last(), "band": port_band(ports.size())});
    let title = Value::from(settings.title.as_str());
    let started = jiff::Timestamp::now().as_millisecond();
    format!("\"title\":{title},\"started\":{started},\"explains\":{explains},\"nodePorts\":{ports}")
}

#[cfg(test)]
mod tests;
