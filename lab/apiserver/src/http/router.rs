//! The whole surface on one page: which paths there are, who may ask, and what is counted.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, get};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, HeaderValue};
use http::request::Parts;
use http::{Method, StatusCode};
use service_api::status;
use tower::ServiceExt as _;

use crate::registry::error::ApiError;

use super::auth::{Known, Token, authenticate};
use super::authorize::{Action, authorize};
use super::caller::Caller;
use super::documents::{self, Discovery, Health};
use super::heavy::{Heavy, LIGHT};
use super::metrics::RequestMetrics;
use super::negotiate::Rendering;
use super::params::Query;
use super::pods::{PodRequest, PodServer, Whose};
use super::resources::{self, RequestInfo, ServerState};
use super::{body, errors, respond, warning, weight};

/// What one server is made of.
pub struct App {
    /// Kinds, objects, and the end of the server.
    pub shared: ServerState,
    /// Readiness.
    pub health: Health,
    /// Discovery.
    pub discovery: Discovery,
    /// What was asked, how often and for how long.
    pub metrics: RequestMetrics,
    /// Where requests that take long are worked on.
    pub heavy: Heavy,
    /// What answers for the pods themselves, if they run.
    pub pods: OnceLock<Arc<dyn PodServer>>,
    /// What is served beside the API.
    pub beside: OnceLock<Beside>,
}

/// A router beside the API: for a path and all below it, and by its own rules of who may ask.
#[derive(Debug)]
pub struct Beside {
    /// The path, without a slash at the end.
    pub root: &'static str,
    /// What answers there.
    pub router: Router,
}

impl Beside {
    fn takes(&self, path: &str) -> bool {
        path.strip_prefix(self.root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// The server as a tower service that wants the token, as connections do.
pub fn router(app: Arc<App>) -> Router {
    trusting(Arc::clone(&app)).layer(axum::middleware::from_fn_with_state(app, guard))
}

/// The server inside the token check: for clients in this process.
pub fn trusting(app: Arc<App>) -> Router {
    Router::new()
        .route("/", get(root))
        .route("/version", get(version))
        // The OpenAPI documents of Kubernetes write these three with a slash, and so do the clients made from them.
        .route("/version/", get(version))
        .route("/api/", get(core))
        .route("/apis/", get(groups))
        .route("/metrics", get(metrics))
        .route("/livez", get(health))
        .route("/livez/{check}", get(health))
        .route("/readyz", get(health))
        .route("/readyz/{check}", get(health))
        .route("/healthz", get(health))
        .route("/healthz/{check}", get(health))
        .route("/openapi/{*document}", any(open_api))
        .route("/api", get(core))
        .route("/apis", get(groups))
        .fallback(resource)
        .method_not_allowed_fallback(not_allowed)
        .with_state(app)
}

type Shares = State<Arc<App>>;

/// Lets nobody in who may not do what they ask for, and marks every answer as not to be cached. What is served beside the
/// API sees to both itself.
async fn guard(State(app): Shares, mut request: Request, next: axum::middleware::Next) -> Response {
    if let Some(beside) = app.beside.get().filter(|beside| beside.takes(request.uri().path())) {
        return beside.router.clone().oneshot(request).await.into_response();
    }
    let asked = tracing::enabled!(tracing::Level::TRACE)
        .then(|| (request.method().clone(), request.uri().clone(), std::time::Instant::now()));
    let mut response = match admit(&app.shared.token, &mut request) {
        Ok(()) => next.run(request).await,
        Err(error) => errors::respond(&error, Rendering::default()),
    };
    if let Some((method, uri, begun)) = asked {
        tracing::trace!(%method, %uri, code = response.status().as_u16(), took = ?begun.elapsed(), "request");
    }
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// Finds out who asks, or for whom, and whether they may. Whoever is not the holder of the token is noted in the request.
fn admit(token: &Token, request: &mut Request) -> Result<(), ApiError> {
    let known = authenticate(token, request.headers(), request.uri().path())?;
    let wanted = Caller::impersonated(request.headers())?;
    if known == Known::Holder && wanted.is_none() {
        return Ok(());
    }
    let asks = if known == Known::Holder { Caller::admin() } else { Caller::anonymous() };
    let caller = match wanted {
        Some(wanted) => {
            authorize(&asks, &Action::impersonate(&wanted.username))?;
            wanted
        }
        None => asks,
    };
    let watches = Query::parse(request.uri().query().unwrap_or_default()).flag("watch").unwrap_or(false);
    authorize(&caller, &Action::of(request.method(), request.uri().path(), watches))?;
    request.extensions_mut().insert(Arc::new(caller));
    Ok(())
}

/// A response for a result; errors take the form the client asked for where that is known.
fn settle(parts: &Parts, result: Result<Response, ApiError>) -> Response {
    result.unwrap_or_else(|error| {
        let rendering = documents::rendering(parts).unwrap_or_default();
        errors::respond(&error, rendering)
    })
}

async fn root(State(app): Shares, request: Request) -> Response {
    let parts = request.into_parts().0;
    let paths = documents::paths(&app.shared.api.registry);
    let result = documents::rendering(&parts).map(|rendering| respond::document(&paths, rendering));
    settle(&parts, result)
}

async fn version(request: Request) -> Response {
    let parts = request.into_parts().0;
    let result = documents::rendering(&parts);
    settle(&parts, result.map(|rendering| respond::document(&documents::version(), rendering)))
}

async fn health(State(app): Shares, request: Request) -> Response {
    let query = Query::parse(request.uri().query().unwrap_or_default());
    let store = &app.shared.api.store;
    let known = documents::Known {
        trouble: store.trouble(),
        ranges: store.read(|view| view.index().services.difference().map(str::to_owned)),
    };
    documents::health(&app.health, &known, request.uri().path(), &query)
}

async fn metrics(State(app): Shares) -> Response {
    match app.metrics.render(&app.shared.api.store) {
        Ok(text) => respond::text(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text),
        Err(error) => errors::respond(&ApiError::internal(&error.to_string()), Rendering::default()),
    }
}

async fn open_api(request: Request) -> Response {
    let parts = request.into_parts().0;
    if parts.method != Method::GET {
        return settle(&parts, Err(status::method_not_allowed().into()));
    }
    documents::open_api(&parts).unwrap_or_else(documents::no_such_page)
}

async fn core(State(app): Shares, request: Request) -> Response {
    let parts = request.into_parts().0;
    settle(&parts, app.discovery.roots(&parts, true))
}

async fn groups(State(app): Shares, request: Request) -> Response {
    let parts = request.into_parts().0;
    settle(&parts, app.discovery.roots(&parts, false))
}

async fn not_allowed(request: Request) -> Response {
    let parts = request.into_parts().0;
    settle(&parts, Err(status::method_not_allowed().into()))
}

async fn resource(State(app): Shares, request: Request) -> Response {
    let begun = Instant::now();
    let path = request.uri().path().to_owned();
    if let Some(server) = app.pods.get()
        && let Some(asked) = PodRequest::of(&path)
    {
        return ask_pod(&app, server.as_ref(), asked, request).await;
    }
    let (parts, body) = request.into_parts();
    if parts.method == Method::GET
        && let Some(found) = documents::discover(&app.shared.api.registry, &parts)
    {
        return settle(&parts, found);
    }
    if !documents::is_below_api(&app.shared.api.registry, parts.uri.path()) {
        return documents::no_such_page();
    }
    // Read before anything is refused: a connection with an unread body could not be used again.
    let body = if parts.method == Method::GET { Ok(Bytes::new()) } else { body::read(body).await };
    let weight = weight::of(&app.shared.api, &parts, body.as_ref().unwrap_or(&Bytes::new()));
    if weight <= LIGHT {
        return serve(&app, &parts, body, begun);
    }
    let done = app.heavy.run(weight, {
        let app = Arc::clone(&app);
        move || serve(&app, &parts, body, begun)
    });
    done.await.unwrap_or_else(|error| errors::respond(&error, Rendering::default()))
}

/// Hands a request to what runs the pods, if the pod or the Service is there.
async fn ask_pod(app: &App, server: &dyn PodServer, asked: PodRequest<'_>, request: Request) -> Response {
    let api = &app.shared.api;
    let resource = match asked.whose {
        Whose::Pod => "pods",
        Whose::Service => "services",
    };
    let there = api
        .registry
        .id("", resource)
        .is_some_and(|id| api.store.read(|view| view.get(id, asked.namespace, asked.name).is_some()));
    if there {
        return server.answer(asked, request).await;
    }
    errors::respond(&status::not_found("", resource, asked.name).into(), Rendering::default())
}

/// Answers a request for a resource, and counts it.
fn serve(app: &App, parts: &Parts, body: Result<Bytes, ApiError>, begun: Instant) -> Response {
    let mut kind = RequestInfo::default();
    let result = resources::serve(&app.shared, parts, body, &mut kind);
    let mut response = settle(parts, result);
    let info = kind.resource.map(|id| app.shared.api.registry.info(id));
    if let Some(text) = info.and_then(|info| info.strategy.deprecation()) {
        warning::prepend(response.headers_mut(), text);
    }
    app.metrics.observe(&app.shared.api.registry, parts, kind, response.status(), begun.elapsed());
    response
}
