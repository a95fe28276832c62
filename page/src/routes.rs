//! What is served under which path, to whom, and with which headers.
//!
//! The files of the page are open to all and hold nothing; what they read is shown to who may look. Everything is a GET.

use std::time::Instant;

use axum::{
    Router,
    extract::{Path, Request, State},
    middleware::{self, Next},
    response::{IntoResponse, Redirect, Response},
    routing::get,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};

use crate::{
    Shared,
    access::request::{self, Improper, KEY_HEADER},
    answers, assets,
    refusal::refuse,
};

/// Scripts and styles come from here alone, nothing is sent elsewhere, nobody frames the page, and no text becomes markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";
const HEADERS: &[(&str, &str)] = &[
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
];

pub(crate) fn router(shared: Shared) -> Router {
    let looked_at = Router::new()
        .route("/page/data", get(answers::data))
        .route("/page/events", get(answers::events))
        .route("/page/reconciles", get(answers::reconciles))
        .route("/page/service/{namespace}/{name}", get(answers::service))
        .route("/page/object/{resource}/{*name}", get(answers::object))
        .route("/page/explain/{kind}/{*name}", get(answers::explain))
        .route("/page/link", get(link))
        .route_layer(middleware::from_fn_with_state(shared.clone(), guard));
    Router::new()
        .route("/page", get(|| async { Redirect::permanent("/page/") }))
        .route("/page/", get(|headers: HeaderMap| async move { file("", &headers) }))
        .route(
            "/page/{file}",
            get(|Path(name): Path<String>, headers: HeaderMap| async move { file(&name, &headers) }),
        )
        .route("/page/session", get(session))
        .route("/page/session/end", get(end))
        .merge(looked_at)
        .fallback(|| async { refuse(StatusCode::NOT_FOUND, "there is nothing at this path") })
        .layer(middleware::from_fn_with_state(shared.clone(), proper))
        .with_state(shared)
}

/// Answers proper requests only, and gives every answer its headers.
async fn proper(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let (method, uri, headers) = (request.method(), request.uri(), request.headers());
    let mut response = match request::check_target(method, uri, headers, &shared.hosts) {
        Ok(()) => next.run(request).await,
        Err(improper) => {
            let mut response = refuse(improper.status(), &improper.to_string());
            if improper == Improper::Method {
                response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            }
            response
        }
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Lets nobody look who may not.
async fn guard(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    if let Err(improper) = request::check_origin(request.headers()) {
        return refuse(improper.status(), &improper.to_string());
    }
    let token = token(&shared, request.uri(), request.headers());
    match shared.authority.may_look(token.as_deref()).await {
        Ok(()) => next.run(request).await,
        Err(refused) => refuse(refused.status, &refused.message),
    }
}

/// The token that a request shows, or that its session stands for.
fn token(shared: &Shared, uri: &Uri, headers: &HeaderMap) -> Option<String> {
    if let Some(token) = request::bearer(headers) {
        return Some(token.to_owned());
    }
    let session = request::session(request::host(uri, headers)?, headers)?;
    shared.sessions.lock().token(session, Instant::now()).map(|token| token.to_string())
}

/// Begins a session for who shows the key of a link, or a token with which they may look.
async fn session(State(shared): State<Shared>, uri: Uri, headers: HeaderMap) -> Response {
    if let Err(improper) = request::check_origin(&headers) {
        return refuse(improper.status(), &improper.to_string());
    }
    let key = headers.get(KEY_HEADER).and_then(|key| key.to_str().ok());
    let session = match (key, request::bearer(&headers)) {
        (Some(key), _) => match shared.sessions.lock().redeem(key, Instant::now()) {
            Some(session) => session,
            None => {
                return refuse(
                    StatusCode::UNAUTHORIZED,
                    "this link was followed before, or is too old: ask for a new one",
                );
            }
        },
        (None, Some(token)) => {
            if let Err(refused) = shared.authority.may_look(Some(token)).await {
                return refuse(refused.status, &refused.message);
            }
            shared.sessions.lock().begin(token, Instant::now())
        }
        (None, None) => {
            return refuse(StatusCode::UNAUTHORIZED, "neither the key of a link nor a token is shown");
        }
    };
    cookie(&uri, &headers, Some(&session))
}

/// Ends the session of who asks.
async fn end(State(shared): State<Shared>, uri: Uri, headers: HeaderMap) -> Response {
    if let Err(improper) = request::check_origin(&headers) {
        return refuse(improper.status(), &improper.to_string());
    }
    if let Some(session) = request::host(&uri, &headers).and_then(|host| request::session(host, &headers)) {
        shared.sessions.lock().end(session);
    }
    cookie(&uri, &headers, None)
}

fn cookie(uri: &Uri, headers: &HeaderMap, session: Option<&str>) -> Response {
    let host = request::host(uri, headers).unwrap_or_default();
    match HeaderValue::from_str(&request::set_cookie(host, session)) {
        Ok(cookie) => (StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response(),
        Err(error) => refuse(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// A link for who may look already: to open the page in a browser that has no session.
async fn link(State(shared): State<Shared>, uri: Uri, headers: HeaderMap) -> Response {
    let (Some(token), Some(host)) = (token(&shared, &uri, &headers), request::host(&uri, &headers)) else {
        return refuse(StatusCode::BAD_REQUEST, "a link stands for a token, and none is shown");
    };
    format!("{}\n", shared.link(&format!("https://{host}"), &token)).into_response()
}

fn file(name: &str, headers: &HeaderMap) -> Response {
    let Some(asset) = assets::find(name).filter(|asset| asset.name == name) else {
        return refuse(StatusCode::NOT_FOUND, "there is nothing at this path");
    };
    let tag = asset.tag();
    let known = headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let about = [(header::ETAG, tag), (header::CACHE_CONTROL, "no-cache".to_owned())];
    if known {
        return (StatusCode::NOT_MODIFIED, about).into_response();
    }
    (about, [(header::CONTENT_TYPE, asset.media_type)], asset.text).into_response()
}
