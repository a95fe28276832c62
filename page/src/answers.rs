//! What who may look gets to see: all rows, news as it comes, one Service, one object, and why.

use std::{convert::Infallible, time::Duration};

use axum::{
    Json,
    extract::{Path, Query, State},
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures::{Stream, stream};
use http::{StatusCode, header};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt as _,
    api::{ApiResource, DynamicObject, ListParams},
};
use serde::Deserialize;
use tokio::{
    sync::broadcast::{Receiver, error::RecvError},
    time::sleep,
};

use crate::{
    Shared,
    kinds::{self, Kind, SERVICE_LABEL},
    live::Look,
    reconciles::{self, Line},
    refusal::refuse,
    run::Push,
    view,
};

const JSON: &str = "application/json";
/// Lines of the log are gathered for so long before a browser gets them.
const GATHER: Duration = Duration::from_millis(100);
/// And so many at once.
const MOST_LINES: usize = 256;

/// All rows.
pub(crate) async fn data(State(shared): State<Shared>) -> Response {
    let answer = shared.live.glance().all(&shared.about);
    ([(header::CONTENT_TYPE, JSON)], answer).into_response()
}

/// Which lines are asked for.
#[derive(Debug, Deserialize)]
pub(crate) struct After {
    #[serde(default)]
    after: u64,
}

/// The last lines of the log.
pub(crate) async fn reconciles(State(shared): State<Shared>, Query(asked): Query<After>) -> Response {
    ([(header::CONTENT_TYPE, JSON)], shared.reconciles.since(asked.after)).into_response()
}

/// News, as it comes: `changes` of rows, `anew` when all have to be read anew, and lines of the log as `reconciles`.
pub(crate) async fn events(State(shared): State<Shared>) -> Response {
    let Some(look) = shared.live.look() else {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "too many look at once: close the page elsewhere");
    };
    let news =
        News { pushes: look.run.follow(), lines: shared.reconciles.follow(), _look: look, begun: false };
    let end = shared.shutdown.clone();
    let stream = stream::unfold(Some(news), move |news| {
        let end = end.clone();
        async move {
            let mut news = news?;
            let event = tokio::select! {
                event = news.next() => event?,
                () = end.cancelled() => return None,
            };
            Some((Ok::<_, Infallible>(event), Some(news)))
        }
    });
    sse(stream)
}

fn sse(stream: impl Stream<Item = Result<Event, Infallible>> + Send + 'static) -> Response {
    Sse::new(stream).keep_alive(KeepAlive::default()).into_response()
}

/// What one viewer waits for.
struct News {
    pushes: Receiver<Push>,
    lines: Receiver<Line>,
    begun: bool,
    _look: Look,
}

impl News {
    /// The next event; none if what runs has ended.
    async fn next(&mut self) -> Option<Event> {
        if !std::mem::replace(&mut self.begun, true) {
            // From here on nothing is missed: what is read after this is made up to date by what follows.
            return Some(Event::default().event("anew").data("begin"));
        }
        tokio::select! {
            push = self.pushes.recv() => match push {
                Ok(Push::Changes(text)) => Some(Event::default().event("changes").data(&*text)),
                Ok(Push::AllAnew) => Some(Event::default().event("anew").data("much has changed")),
                Err(RecvError::Lagged(_)) => {
                    // What still waits is old, too.
                    self.pushes = self.pushes.resubscribe();
                    Some(Event::default().event("anew").data("this browser fell behind"))
                }
                Err(RecvError::Closed) => None,
            },
            line = self.lines.recv() => {
                let mut lines: Vec<Line> = line.into_iter().collect();
                sleep(GATHER).await;
                while lines.len() < MOST_LINES && let Ok(line) = self.lines.try_recv() {
                    lines.push(line);
                }
                Some(Event::default().event("reconciles").data(reconciles::list(&lines)))
            }
        }
    }
}

/// One Service with its slices.
pub(crate) async fn service(
    State(shared): State<Shared>,
    Path((namespace, name)): Path<(String, String)>,
) -> Response {
    if !is_name(&namespace) || !is_name(&name) {
        return refuse(StatusCode::BAD_REQUEST, "this is no name of an object");
    }
    let objects: Api<DynamicObject> =
        Api::namespaced_with(shared.client.clone(), &namespace, &Kind::Services.resource());
    let slices: Api<kinds::Slice> =
        Api::namespaced_with(shared.client.clone(), &namespace, &Kind::Slices.resource());
    let of_service = ListParams::default().labels(&format!("{SERVICE_LABEL}={name}"));
    let read = futures::try_join!(objects.get_opt(&name), slices.list(&of_service));
    match read {
        Ok((object, slices)) => {
            let object = object.and_then(|object| serde_json::to_value(object).ok());
            Json(view::service(object, slices.items)).into_response()
        }
        Err(error) => failed(&error),
    }
}

/// One object as it is.
pub(crate) async fn object(
    State(shared): State<Shared>,
    Path((resource, name)): Path<(String, String)>,
) -> Response {
    let Some(resource) = resource_of(&resource) else {
        return refuse(StatusCode::NOT_FOUND, "the page shows no objects of this kind");
    };
    let (namespace, name) = name.split_once('/').unwrap_or(("", &name));
    if !is_name(name) || !(namespace.is_empty() || is_name(namespace)) {
        return refuse(StatusCode::BAD_REQUEST, "this is no name of an object");
    }
    let client = shared.client.clone();
    let objects: Api<DynamicObject> = if namespace.is_empty() {
        Api::all_with(client, &resource)
    } else {
        Api::namespaced_with(client, namespace, &resource)
    };
    match objects.get_opt(name).await {
        Ok(Some(mut object)) => {
            object.managed_fields_mut().clear();
            Json(view::bare(serde_json::to_value(object).unwrap_or_default())).into_response()
        }
        Ok(None) => refuse(StatusCode::NOT_FOUND, "there is no such object"),
        Err(error) => failed(&error),
    }
}

/// Why an object is as it is, if there is something that can say so.
pub(crate) async fn explain(
    State(shared): State<Shared>,
    Path((kind, name)): Path<(String, String)>,
) -> Response {
    let Some(explainer) = &shared.explainer else {
        return refuse(StatusCode::NOT_FOUND, "there is nothing here that explains objects");
    };
    if !kind.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-') || !name.split('/').all(is_name) {
        return refuse(StatusCode::BAD_REQUEST, "this is no name of an object");
    }
    let (namespace, name) = name.split_once('/').unwrap_or(("", &name));
    match explainer.explain(&kind, namespace, name).await {
        Ok(explained) => Json(explained).into_response(),
        Err(refused) => refuse(refused.status, &refused.message),
    }
}

/// The resource of a path, if its objects are shown.
fn resource_of(name: &str) -> Option<ApiResource> {
    if name == "pods" {
        return Some(ApiResource::erase::<Pod>(&()));
    }
    Kind::ALL.into_iter().find(|kind| kind.name() == name).map(Kind::resource)
}

/// Whether a text can be the name of an object that is shown: nothing in it means anything in a path.
fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 253
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b':'))
        && !text.starts_with('.')
}

/// An answer for a request that the API server did not answer as hoped.
fn failed(error: &kube::Error) -> Response {
    match error {
        kube::Error::Api(status) => {
            let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::BAD_GATEWAY);
            refuse(code, &status.message)
        }
        error => refuse(StatusCode::BAD_GATEWAY, &format!("the API server did not answer: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("hello", true)]
    #[case("10.96.0.1", true)]
    #[case("fd00::1", true)]
    #[case("", false)]
    #[case("..", false)]
    #[case("a/b", false)]
    #[case("a?b", false)]
    #[case("a%2fb", false)]
    fn names(#[case] text: &str, #[case] expected: bool) {
        assert_eq!(is_name(text), expected);
    }

    #[test]
    fn only_kinds_that_are_shown_are_read() {
        assert!(resource_of("secrets").is_none());
        assert_eq!(resource_of("nodeports").unwrap().plural, "nodeports");
    }
}
