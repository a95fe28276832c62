//! A user changes a Service while its values are given to it: whatever comes first, what it does not have is free at once.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Frame;
use k8s_openapi::api::core::v1::Service;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::{Api, Client};
use rstest::rstest;
use serde_json::json;
use service_lab_apiserver::server::Portless;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tower::{BoxError, ServiceExt as _};

use crate::stored::{Stored, settled};
use crate::{lab, lead, service};

/// Where the leader is held up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    /// Before the NodePort is made.
    BeforeEntry,
    /// Between that and its answer.
    EntryAnswer,
    /// Before the Service gets its values.
    BeforePatch,
    /// Between that and its answer.
    PatchAnswer,
}

impl Held {
    fn is_about(self, request: &Request<Body>) -> bool {
        let (method, part) = match self {
            Self::BeforeEntry | Self::EntryAnswer => (Method::POST, "/nodeports"),
            Self::BeforePatch | Self::PatchAnswer => (Method::PATCH, "/services/web"),
        };
        *request.method() == method && request.uri().path().ends_with(part)
    }

    fn is_before(self) -> bool {
        matches!(self, Self::BeforeEntry | Self::BeforePatch)
    }
}

/// What the user does meanwhile.
#[derive(Debug, Clone, Copy)]
enum Change {
    Type,
    Deletion,
    /// And another one of that name is made.
    Replacement,
}

/// Stands between the leader and the lab.
struct Gate {
    held: Held,
    used: AtomicBool,
    /// The leader is held up.
    reached: CancellationToken,
    /// It is let go.
    open: CancellationToken,
    /// Watches tell it of what happened since it was held up.
    told: CancellationToken,
}

impl Gate {
    fn client(self: &Arc<Self>, lab: &Portless) -> Client {
        let (gate, router) = (Arc::clone(self), lab.trusting());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (gate, router) = (Arc::clone(&gate), router.clone());
            async move {
                let holds = gate.held.is_about(&request) && !gate.used.swap(true, Ordering::SeqCst);
                let watches = request.uri().query().is_some_and(|query| query.contains("watch=true"));
                if holds && gate.held.is_before() {
                    gate.hold().await;
                }
                let answer = router.oneshot(request).await.map_err(BoxError::from)?;
                if holds && !gate.held.is_before() {
                    gate.hold().await;
                }
                let answer = answer.map(|body| body.map_err(BoxError::from).boxed_unsync());
                let late = |body| Late {
                    body,
                    reached: gate.reached.clone(),
                    told: Box::pin(gate.told.clone().cancelled_owned()),
                };
                Ok::<Response<UnsyncBoxBody<Bytes, BoxError>>, BoxError>(if watches {
                    answer.map(|body| late(body).boxed_unsync())
                } else {
                    answer
                })
            }
        });
        Client::new(service, "default")
    }

    async fn hold(&self) {
        self.reached.cancel();
        self.open.cancelled().await;
    }
}

/// The body of a watch that says nothing between two moments.
struct Late {
    body: UnsyncBoxBody<Bytes, BoxError>,
    reached: CancellationToken,
    told: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl hyper::body::Body for Late {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.reached.is_cancelled() {
            ready!(self.told.as_mut().poll(context));
        }
        Pin::new(&mut self.body).poll_frame(context)
    }
}

async fn change(services: &Api<Service>, change: Change) {
    match change {
        Change::Type => {
            let patch = Patch::Merge(json!({"spec": {"type": "ClusterIP"}}));
            services.patch("web", &PatchParams::default(), &patch).await.unwrap();
        }
        Change::Deletion => drop(services.delete("web", &DeleteParams::default()).await.unwrap()),
        Change::Replacement => {
            services.delete("web", &DeleteParams::default()).await.unwrap();
            let plain = service("web", &json!({"ports": [{"port": 80}]}));
            services.create(&PostParams::default(), &plain).await.unwrap();
        }
    }
}

/// Time for all that can happen: the clock goes on when nothing else does.
async fn all_quiet() {
    tokio::time::sleep(Duration::from_millis(100)).await;
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn what_a_service_does_not_have_is_free_at_once(
    #[values(Held::BeforeEntry, Held::EntryAnswer, Held::BeforePatch, Held::PatchAnswer)] held: Held,
    #[values(Change::Type, Change::Deletion, Change::Replacement)] by_user: Change,
    #[values(false, true)] watch_is_first: bool,
) {
    let lab = lab(&["10.96.0.0/28"], "30000-30009");
    let client = Client::new(lab.trusting(), "default");
    let services: Api<Service> = Api::namespaced(client.clone(), "default");
    let gate = Arc::new(Gate {
        held,
        used: AtomicBool::new(false),
        reached: CancellationToken::new(),
        open: CancellationToken::new(),
        told: CancellationToken::new(),
    });
    let leader = lead(gate.client(&lab));
    let web = service("web", &json!({"type": "NodePort", "ports": [{"port": 80}]}));
    services.create(&PostParams::default(), &web).await.unwrap();
    gate.reached.cancelled().await;
    change(&services, by_user).await;
    for moment in if watch_is_first { [&gate.told, &gate.open] } else { [&gate.open, &gate.told] } {
        moment.cancel();
        all_quiet().await;
    }
    let begun = Instant::now();
    let stored: Stored = settled(&client).await;
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    assert_eq!(stored.ports.len(), 0);
    // What the leader believes is what there is: nothing of it comes back.
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(Stored::read(&client).await.complaints(), [] as [&str; 0]);
    leader.abort();
}
