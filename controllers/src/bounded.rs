//! A client whose requests end: a server that falls silent holds up nobody for ever.
//!
//! Owns the time limits of requests that are made through kube's `Api`. It tries nothing again.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use kube::client::Body;
use tokio::time::timeout;
use tower::{BoxError, service_fn};

/// A request that takes longer has failed.
const REQUEST: Duration = Duration::from_secs(30);

/// The server did not answer in time. Whether it did what it was asked for is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no answer of the API server within {0:?}")]
struct Overdue(Duration);

/// The same client, in which a request has 30 s to be answered whole. It is not for watches: [`Guard`](crate::watch::guard::Guard) ends those.
#[must_use]
pub(crate) fn bounded(client: &kube::Client) -> kube::Client {
    let inner = client.clone();
    let service = service_fn(move |request: Request<Body>| {
        let inner = inner.clone();
        async move {
            let exchange = async {
                let (parts, body) = inner.send(request).await?.into_parts();
                let body: Bytes = body.collect().await?.to_bytes();
                Ok::<_, BoxError>(Response::from_parts(parts, Full::new(body)))
            };
            timeout(REQUEST, exchange).await.map_err(|_| Overdue(REQUEST))?
        }
    });
    kube::Client::new(service, client.default_namespace())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::stream;
    use http_body::Frame;
    use http_body_util::StreamBody;
    use k8s_openapi::api::core::v1::Service;
    use kube::Api;
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
    }
}
