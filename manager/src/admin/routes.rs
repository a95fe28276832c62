//! What the port serves, and what it asks `access` before.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{Path, RawQuery, Request, State},
    http::StatusCode,
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{any, get, put},
};
use parking_lot::RwLock;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use service_controllers::{
    readiness::Readiness,
    report::metrics::{CONTENT_TYPE, exposition},
};

use tower::ServiceExt as _;

use super::access::Access;
use crate::levels::{Levels, controller};
use crate::trace::{Verbosity, VerbosityError};

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
        .route("/debug/levels", get(levels))
        .route("/debug/levels/{controller}", put(own_level).delete(no_own_level))
        .layer(middleware::from_fn_with_state(Arc::clone(&shown.access), guard))
        .with_state(shown);
    let Some(page) = page else { return guarded };
    let answer = any(move |request: Request| page.oneshot(request));
    let paths = ["/page", "/page/", "/page/{*rest}"];
    paths.into_iter().fold(guarded, |all, path| all.route(path, answer.clone()))
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

type Said = (StatusCode, String);

/// The level that a body says, or what is wrong with it.
fn level(body: &str) -> Result<u8, Said> {
    let wrong =
        |_| (StatusCode::BAD_REQUEST, format!("{:?} is no level: a number is asked for\n", body.trim()));
    body.trim().parse().map_err(wrong)
}

#[allow(clippy::needless_pass_by_value)] // as `map_err` gives it
fn failed(error: VerbosityError) -> Said {
    (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n"))
}

/// Changes how much is logged, as the components of Kubernetes let it be changed.
async fn verbosity(State(shown): State<Shown>, body: String) -> Result<String, Said> {
    let level = level(&body)?;
    shown.verbosity.set(level).map_err(failed)?;
    tracing::info!(level, "verbosity changed");
    Ok(format!("successfully set klog.logging.verbosity to {level}\n"))
}

/// The level of all, and those of controllers that have one of their own.
async fn levels(State(shown): State<Shown>) -> Json<Value> {
    let Levels { all, of } = shown.verbosity.levels();
    let of: Value =
        of.into_iter().map(|(controller, level)| (controller.name(), Value::from(level))).collect();
    Json(json!({"v": all, "controllers": of}))
}

/// Gives a controller a level of its own.
async fn own_level(
    State(shown): State<Shown>,
    Path(name): Path<String>,
    body: String,
) -> Result<String, Said> {
    let level = level(&body)?;
    set_own(&shown, &name, Some(level))?;
    Ok(format!("{name} logs at {level}\n"))
}

/// Takes it back: from now on the level of all is that of the controller.
async fn no_own_level(State(shown): State<Shown>, Path(name): Path<String>) -> Result<String, Said> {
    set_own(&shown, &name, None)?;
    Ok(format!("{name} logs as all others\n"))
}

fn set_own(shown: &Shown, name: &str, level: Option<u8>) -> Result<(), Said> {
    let controller = controller(name).map_err(|error| (StatusCode::NOT_FOUND, format!("{error}\n")))?;
    shown.verbosity.set_for(controller, level).map_err(failed)?;
    tracing::info!(level, controller = controller.name(), "verbosity changed");
    Ok(())
}
