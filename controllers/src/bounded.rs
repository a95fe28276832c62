//! A client whose requests end: a server that falls silent holds up nobody for ever.
//!
//! Owns the time limits of requests that are made through kube's `Api`. It tries nothing again.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::client::Body;
use tokio::time::{sleep, timeout};
use tower::{BoxError, service_fn};

use crate::watch::guard::{OVERDUE, PAGE, WATCH};

/// A request that reads or writes one object and takes longer has failed.
pub(crate) const REQUEST: Duration = Duration::from_secs(30);

/// The server did not answer in time. Whether it did what it was asked for is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no answer of the API server within {0:?}")]
struct Overdue(Duration);

/// The same client, in which a request has 30 s to be answered whole; a page of a list and the opening of a watch have a
/// minute. A watch ends a little after the time at which the server should have ended it.
#[must_use]
pub(crate) fn bounded(client: &kube::Client) -> kube::Client {
    let inner = client.clone();
    let service = service_fn(move |request: Request<Body>| {
        let inner = inner.clone();
        async move { send(&inner, request).await }
    });
    kube::Client::new(service, client.default_namespace())
}

/// What kube's client is given.
type Answer = UnsyncBoxBody<Bytes, BoxError>;

async fn send(client: &kube::Client, request: Request<Body>) -> Result<Response<Answer>, BoxError> {
    let query = request.uri().query().unwrap_or_default();
    let has = |wanted: &str| query.split('&').any(|part| part.starts_with(wanted));
    if has("watch=") {
        let opened = timeout(PAGE, client.send(request)).await.map_err(|_| Overdue(PAGE))??;
        let (parts, body) = opened.into_parts();
        let frames = body.into_data_stream().take_until(Box::pin(sleep(WATCH + OVERDUE)));
        let body = StreamBody::new(frames.map(|data| data.map(Frame::data).map_err(BoxError::from)));
        return Ok(Response::from_parts(parts, Answer::new(body)));
    }
    let limit = if has("limit=") { PAGE } else { REQUEST };
    let exchange = async {
        let (parts, body) = client.send(request).await?.into_parts();
        let body: Bytes = body.collect().await?.to_bytes();
        Ok(Response::from_parts(parts, Answer::new(Full::new(body).map_err(|never| match never {}))))
    };
    timeout(limit, exchange).await.map_err(|_| Overdue(limit))?
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::stream;
    use k8s_openapi::api::core::v1::Service;
    use kube::Api;
    use kube::api::{ListParams, WatchParams};
    use tokio::time::Instant;

    use super::*;

    /// A server that answers nothing, or begins to answer and falls silent.
    fn silent(begins: bool) -> Api<Service> {
        let service = service_fn(move |_: Request<Body>| async move {
            if !begins {
                std::future::pending::<()>().await;
            }
            let frames = stream::pending::<Result<Frame<Bytes>, Infallible>>();
            Ok::<_, Infallible>(Response::new(StreamBody::new(frames)))
        });
        Api::namespaced(bounded(&kube::Client::new(service, "default")), "default")
    }

    #[rstest::rstest]
    #[case::no_answer(false)]
    #[case::half_an_answer(true)]
    #[tokio::test(start_paused = true)]
    async fn a_silent_server_is_given_up(#[case] begins: bool) {
        let (api, begun) = (silent(begins), Instant::now());
        let failed = api.get("web").await.unwrap_err();
        assert_eq!(begun.elapsed(), REQUEST);
        assert!(crate::client::request_error_of(&failed).is_uncertain(), "{failed}");
        api.list(&ListParams::default().limit(500)).await.unwrap_err();
        assert_eq!(begun.elapsed(), REQUEST + PAGE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_may_be_silent_until_the_server_should_have_ended_it() {
        let begun = Instant::now();
        let api = silent(true);
        let events = api.watch(&WatchParams::default(), "1").await.unwrap();
        assert_eq!(events.count().await, 0);
        assert_eq!(begun.elapsed(), WATCH + OVERDUE);
        let opened = Instant::now();
        assert!(silent(false).watch(&WatchParams::default(), "1").await.is_err());
        assert_eq!(opened.elapsed(), PAGE);
    }
}
