//! Paths that address no resource: versions, health, discovery, OpenAPI, metrics.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::Body;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, LOCATION, USER_AGENT};
use http::request::Parts;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use crate::discovery;
use crate::openapi;
use crate::registry::Registry;
use crate::registry::error::ApiError;

use super::negotiate::{Offer, Rendering, negotiate, wants_aggregated};
use super::params::Query;
use super::resources::header;
use super::{respond, unserved};

/// The version of Kubernetes whose API this is.
const MINOR: &str = "36";
const VERSION: &str = "v1.36.2+service-lab";

/// Is the server ready, and are its parts alive?
#[derive(Clone, Debug, Default)]
pub struct Health(Arc<AtomicBool>);

impl Health {
    /// From now on the server is ready, or it no longer is.
    pub fn set_ready(&self, ready: bool) {
        self.0.store(ready, Ordering::Release);
    }

    /// A store that cannot be written is no reason to restart the server: it goes on by itself, and reads go on meanwhile.
    fn checks(&self, endpoint: &str, writable: bool) -> Vec<(&'static str, bool)> {
        let mut checks = vec![("ping", true), ("log", true), ("store", writable || endpoint == "livez")];
        if endpoint == "readyz" {
            checks.push((RANGES, true));
            checks.push(("bootstrap", self.0.load(Ordering::Acquire)));
        }
        checks
    }
}

/// The check of the ranges of Services.
const RANGES: &str = "service-ranges";

/// What checks say beside yes and no.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// What keeps the store from being written.
    pub(crate) trouble: Option<String>,
    /// In what the stored ranges of Services differ from those of this start; the server works nevertheless.
    pub(crate) ranges: Option<String>,
}

/// `GET /livez`, `/readyz`, `/healthz` and the single checks below them.
pub(crate) fn health(health: &Health, known: &Known, path: &str, query: &Query<'_>) -> Response<Body> {
    let trouble = known.trouble.as_deref();
    let path = path.trim_matches('/');
    let (endpoint, single) =
        path.split_once('/').map_or((path, None), |(endpoint, check)| (endpoint, Some(check)));
    let excluded = query.all("exclude");
    let checks = health.checks(endpoint, trouble.is_none());
    if let Some(single) = single {
        let found = checks.iter().find(|(name, _)| *name == single);
        return match found {
            Some((_, true)) => plain(StatusCode::OK, "ok"),
            Some((name, false)) => {
                let why = trouble.filter(|_| *name == "store").unwrap_or("not yet");
                plain(StatusCode::INTERNAL_SERVER_ERROR, format!("{name}: {why}\n"))
            }
            None => plain(StatusCode::NOT_FOUND, "404 page not found\n"),
        };
    }
    let counted = |name: &str| !excluded.iter().any(|excluded| excluded == name);
    let good = checks.iter().all(|(name, good)| *good || !counted(name));
    if good && query.get("verbose").is_none() {
        return plain(StatusCode::OK, "ok");
    }
    let mut text = String::new();
    for (name, good) in &checks {
        let _ = match (counted(name), good, trouble) {
            (false, ..) => writeln!(text, "[+]{name} excluded: ok"),
            (true, true, _) => match known.ranges.as_ref().filter(|_| *name == RANGES) {
                Some(note) => writeln!(text, "[+]{name} ok: {note}"),
                None => writeln!(text, "[+]{name} ok"),
            },
            (true, false, Some(why)) if *name == "store" => writeln!(text, "[-]{name} failed: {why}"),
            (true, false, _) => writeln!(text, "[-]{name} failed: reason withheld"),
        };
    }
    let (code, word) =
        if good { (StatusCode::OK, "passed") } else { (StatusCode::INTERNAL_SERVER_ERROR, "failed") };
    plain(code, format!("{text}{endpoint} check {word}\n"))
}

fn plain(code: StatusCode, body: impl Into<Body>) -> Response<Body> {
    let mut response = respond::text(code, "text/plain; charset=utf-8", body);
    response.headers_mut().insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}

/// `GET /version`.
pub fn version() -> Value {
    json!({
        "major": "1", "minor": MINOR, "emulationMajor": "1", "emulationMinor": MINOR,
        "minCompatibilityMajor": "1", "minCompatibilityMinor": "35",
        "gitVersion": VERSION, "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "", "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

/// The documents of discovery, made once.
pub struct Discovery {
    core: Value,
    groups: Value,
    aggregated_core: Bytes,
    aggregated: Bytes,
}

impl Discovery {
    /// Those of a table of kinds, for clients that reach the server at that address.
    pub fn new(registry: &Registry, address: &str) -> Self {
        let bytes = |value: &Value| Bytes::from(serde_json::to_vec(value).unwrap_or_default());
        Self {
            core: discovery::core_versions(address),
            groups: discovery::groups(registry),
            aggregated_core: bytes(&discovery::aggregated(registry, true)),
            aggregated: bytes(&discovery::aggregated(registry, false)),
        }
    }

    /// `GET /api` (`core`) or `GET /apis`.
    pub fn roots(&self, parts: &Parts, core: bool) -> Result<Response<Body>, ApiError> {
        if wants_aggregated(header(&parts.headers, ACCEPT)) {
            let body = if core { &self.aggregated_core } else { &self.aggregated };
            return Ok(respond::text(StatusCode::OK, discovery::AGGREGATED, body.clone()));
        }
        let value = if core { &self.core } else { &self.groups };
        Ok(respond::document(value, rendering(parts)?))
    }
}

/// `GET /apis/{group}`, `/api/v1` and `/apis/{group}/{version}`; `None` for what is not there.
pub fn discover(registry: &Registry, parts: &Parts) -> Option<Result<Response<Body>, ApiError>> {
    let segments: Vec<_> = parts.uri.path().trim_matches('/').split('/').collect();
    let value = match segments.as_slice() {
        ["api", version] => discovery::resources(registry, "", version),
        ["apis", group] => discovery::group(registry, group),
        ["apis", group, version] => discovery::resources(registry, group, version),
        _ => None,
    }?;
    Some(rendering(parts).map(|rendering| respond::document(&value, rendering)))
}

/// Is there, at or below that path, an API of Kubernetes? Elsewhere nothing answers in objects.
pub(crate) fn is_below_api(registry: &Registry, uri_path: &str) -> bool {
    match uri_path.trim_matches('/').split('/').collect::<Vec<_>>().as_slice() {
        ["api", _, ..] => true,
        ["apis", group, ..] => unserved::is_known(registry, group),
        _ => false,
    }
}

/// 404 as text, for paths at which there is nothing.
pub(crate) fn no_such_page() -> Response<Body> {
    plain(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// How a document is shown.
pub(crate) fn rendering(parts: &Parts) -> Result<Rendering, ApiError> {
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    negotiate(
        header(&parts.headers, ACCEPT),
        query.flag("pretty"),
        header(&parts.headers, USER_AGENT).unwrap_or_default(),
        Offer::Plain,
    )
}

/// `GET /openapi/v2`, `/openapi/v3` and the documents below it; `None` for what is not there.
pub fn open_api(parts: &Parts) -> Option<Response<Body>> {
    let path = parts.uri.path().strip_prefix('/')?;
    let document = match path {
        "openapi/v2" if header(&parts.headers, ACCEPT).is_some_and(|a| a.contains(openapi::V2_PROTOBUF)) => {
            openapi::v2_protobuf()
        }
        "openapi/v2" => openapi::v2(),
        "openapi/v3" => openapi::v3_index(),
        _ => openapi::v3(path.strip_prefix("openapi/v3/")?)?,
    };
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    if let Some(asked) = query.get("hash").filter(|asked| *asked != document.hash) {
        let _ = asked;
        let mut response = respond::text(StatusCode::MOVED_PERMANENTLY, "text/plain", Body::empty());
        let location = format!("{}?hash={}", parts.uri.path(), document.hash);
        if let Ok(location) = HeaderValue::from_str(&location) {
            response.headers_mut().insert(LOCATION, location);
        }
        return Some(response);
    }
    let tag = HeaderValue::from_str(&format!("\"{}\"", document.hash)).ok();
    let known = parts.headers.get(IF_NONE_MATCH).is_some_and(|given| Some(given) == tag.as_ref());
    let mut response = if known {
        respond::text(StatusCode::NOT_MODIFIED, document.media, Body::empty())
    } else {
        respond::text(StatusCode::OK, document.media, document.body)
    };
    if known {
        response.headers_mut().remove(CONTENT_TYPE);
    }
    if let Some(tag) = tag {
        response.headers_mut().insert(ETAG, tag);
    }
    Some(response)
}

/// `GET /`: what else there is.
pub fn paths(registry: &Registry) -> Value {
    let mut paths = vec![
        "/api".to_owned(),
        "/api/v1".to_owned(),
        "/apis".to_owned(),
        "/healthz".to_owned(),
        "/livez".to_owned(),
        "/metrics".to_owned(),
        "/openapi/v2".to_owned(),
        "/openapi/v3".to_owned(),
        "/readyz".to_owned(),
        "/version".to_owned(),
    ];
    for info in registry.entries().iter().filter(|info| !info.group.is_empty()) {
        paths.push(format!("/apis/{}", info.group));
        paths.push(format!("/apis/{}/{}", info.group, info.version));
    }
    paths.sort();
    paths.dedup();
    json!({ "paths": paths })
}
