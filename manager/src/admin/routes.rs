//! What the port serves, and what it asks `access` before.

use std::sync::Arc;

use axum::{
    Router,
    extract::{RawQuery, Request, State},
    http::StatusCode,
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, put},
};
use parking_lot::RwLock;
use prometheus_client::registry::Registry;
use service_controllers::{
    readiness::Readiness,
    report::metrics::{CONTENT_TYPE, exposition},
};

use super::access::Access;
use crate::trace::Verbosity;

/// What the port shows, and to whom.
#[derive(Debug, Clone)]
pub struct Shown {
    /// Whether the process is ready.
    pub readiness: Readiness,
    /// Its metrics.
    pub metrics: Arc<RwLock<Registry>>,
    /// How much it logs.
    pub verbosity: Verbosity,
    /// Who may ask.
    pub access: Arc<Access>,
    /// What is served beside these paths and asks by itself who may look, if anything.
    pub page: Option<Router>,
}

pub(super) fn router(mut shown: Shown) -> Router {
    let page = shown.page.take();
    let guarded = Router::new()
        .route("/livez", get(|| async { "ok" }))
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/debug/flags/v", put(verbosity))
        .layer(middleware::from_fn_with_state(Arc::clone(&shown.access), guard))
        .with_state(shown);
    let Some(page) = page else { return guarded };
    ["/page", "/page/", "/page/{*rest}"]
        .into_iter()
        .fold(guarded, |all, path| all.route_service(path, page.clone()))
}

/// Lets a request through, or says why not.
async fn guard(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    match access.check(request.method(), request.uri().path(), request.headers()).await {
        Ok(()) => next.run(request).await,
        Err(denied) => (denied.status(), format!("{denied}\n")).into_response(),
    }
}

/// Short, or with a line for each check if the query asks for it (`?verbose`), as Kubernetes' components answer.
async fn readyz(State(shown): State<Shown>, RawQuery(query): RawQuery) -> (StatusCode, String) {
    let pending = shown.readiness.pending();
    let mut asked = query.iter().flat_map(|query| query.split('&'));
    let verbose = asked.any(|part| part.split('=').next() == Some("verbose"));
    let (code, said) = if pending.is_empty() {
        (StatusCode::OK, if verbose { "readyz check passed\n" } else { "ok" }.to_owned())
    } else if verbose {
        (StatusCode::SERVICE_UNAVAILABLE, "readyz check failed\n".to_owned())
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, format!("waiting for {}\n", pending.join(", ")))
    };
    (code, if verbose { shown.readiness.verbose() + &said } else { said })
}

async fn metrics(State(shown): State<Shown>) -> Response {
    match exposition(&shown.metrics.read()) {
        Ok(text) => ([("content-type", CONTENT_TYPE)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// Changes how much is logged, as the components of Kubernetes let it be changed.
async fn verbosity(State(shown): State<Shown>, body: String) -> (StatusCode, String) {
    let Ok(level) = body.trim().parse::<u8>() else {
        return (StatusCode::BAD_REQUEST, format!("{:?} is no level: a number is asked for\n", body.trim()));
    };
    match shown.verbosity.set(level) {
        Ok(()) => {
            tracing::info!(level, "verbosity changed");
            (StatusCode::OK, format!("successfully set klog.logging.verbosity to {level}\n"))
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}
