//! Starts the watches: what each kind's events are for the feed.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures::channel::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Set;
use crate::api::RequestError;
use crate::bounded::bounded;
use crate::client::request_error_of;
use crate::controller::Controller;
use crate::feed::Feed;
use crate::index::events::{EndpointsEvent, SliceEvent};
use crate::objects::{
    EndpointsWire, IdentityWire, IpAddressWire, Lenient, NodeWire, ObjectKind, PodWire, Read, ServiceWire,
    SliceWire, Watched,
};
use crate::servicecidr;
use crate::watch::guard::{Guard, Observer};
use crate::watch::stream::{WatchEvent, follow};

/// What the feed is told of an object that is there, and of one that is gone.
struct Handlers<K> {
    seen: fn(&Feed, Box<K>),
    gone: fn(&Feed, IdentityWire),
    /// Of an object of which only the metadata came.
    changed: fn(&Feed, Box<crate::objects::MetaWire>),
}

impl Set {
    /// Follows every kind that some controller needs; returns when all first lists are complete. Pods come last, when
    /// nodes and Services are known: each of those would have to be looked for among all pods.
    pub(super) async fn watch(
        self: &Arc<Self>,
        client: &kube::Client,
        called: mpsc::Receiver<()>,
        tasks: &mut JoinSet<()>,
    ) {
        let on = |controller| self.settings.controllers.contains(&controller);
        let (with_slices, with_endpoints, with_mirrors) =
            (on(Controller::Slices), on(Controller::Endpoints), on(Controller::Mirrors));
        let mut first = Vec::new();
        let pods_pending = (with_slices || with_endpoints)
            .then(|| self.settings.readiness.wait_for(ObjectKind::Pods.resource()));
        if with_slices || with_endpoints || with_mirrors {
            first.push(self.follow(client, services(), false, tasks));
        }
        if with_slices || with_endpoints {
            first.push(self.follow(client, nodes(), false, tasks));
        }
        if with_slices || with_mirrors {
            first.push(self.follow(client, slices(), true, tasks));
        }
        if with_endpoints || with_mirrors {
            first.push(self.follow(client, endpoints(), true, tasks));
        }
        if on(Controller::Cidrs) {
            first.push(self.follow(client, addresses(), false, tasks));
            first.push(self.run_cidrs(client, called, tasks));
        }
        for listed in first {
            listed.cancelled().await;
        }
        if with_slices || with_endpoints {
            self.follow(client, pods(), false, tasks).cancelled().await;
        }
        drop(pods_pending);
    }

    /// Readiness waits for the first list of a kind. The token is cancelled when it is complete.
    fn await_list(&self, kind: ObjectKind, tasks: &mut JoinSet<()>) -> CancellationToken {
        let (listed, pending) = (CancellationToken::new(), self.settings.readiness.wait_for(kind.resource()));
        let complete = listed.clone();
        tasks.spawn(async move {
            complete.cancelled().await;
            drop(pending);
        });
        listed
    }

    /// Asks a server that answers nobody whether it does again. Never ends.
    pub(super) async fn probe(self: Arc<Self>, client: kube::Client) {
        // Any answer will do.
        let ask = || async {
            let asked = client.apiserver_version().await;
            !asked.is_err_and(|error| matches!(request_error_of(&error), RequestError::Unreachable(_)))
        };
        self.outage.probe(ask, || self.server_answered()).await;
    }

    /// Ends the waits for credentials when there are new ones. Never ends.
    pub(super) async fn take_up_credentials(self: Arc<Self>) {
        loop {
            self.settings.renewed.notified().await;
            self.outage.renewed();
            self.queues.iter().for_each(|queue| queue.answered());
        }
    }

    fn guard(self: &Arc<Self>, kind: ObjectKind, partial: Option<Arc<AtomicBool>>) -> Arc<Guard> {
        let observer: Arc<dyn Observer> = self.clone();
        Guard::new(kind, observer, partial)
    }

    /// Follows one kind; the token is cancelled when its first list is complete. Of a kind that is mostly our own echoes,
    /// the leader's events come as metadata alone.
    fn follow<K: Watched>(
        self: &Arc<Self>,
        client: &kube::Client,
        handlers: Handlers<K>,
        echoes: bool,
        tasks: &mut JoinSet<()>,
    ) -> CancellationToken {
        let listed = self.await_list(K::KIND, tasks);
        let (set, done) = (Arc::clone(self), listed.clone());
        let guard = self.guard(K::KIND, echoes.then(|| Arc::clone(&self.leads)));
        if echoes {
            self.echoes.lock().push(Arc::clone(&guard));
        }
        let (client, shutdown) = (client.clone(), self.shutdown.clone());
        tasks.spawn(async move {
            let take = |event| set.take(event, &handlers, &done);
            // A server that stops with us ends its watches, which is nothing to warn of.
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {}
                () = follow(&client, &guard, &set.outage, take) => {}
            }
        });
        listed
    }

    fn take<K: Watched>(
        &self,
        event: WatchEvent<Lenient<K>>,
        handlers: &Handlers<K>,
        listed: &CancellationToken,
    ) {
        match event {
            WatchEvent::ListBegins => self.feed.list_begins(K::KIND),
            WatchEvent::Restored => self.feed.restored(K::KIND),
            WatchEvent::ListEnds => {
                self.feed.list_ends(K::KIND);
                listed.cancel();
            }
            WatchEvent::Seen(object) => match object.read {
                Read::Whole(whole) => (handlers.seen)(&self.feed, whole),
                Read::Partial(meta) => (handlers.changed)(&self.feed, meta),
                Read::Unreadable(unreadable) => {
                    let (identity, error) = *unreadable;
                    self.pass_over(K::KIND, &identity, &error);
                }
            },
            WatchEvent::Gone(object) => {
                let identity = Lenient::identity(&object);
                (handlers.gone)(&self.feed, identity);
            }
        }
    }

    /// Counts and names an object that cannot be read; the index keeps what it had of it.
    fn pass_over(&self, kind: ObjectKind, identity: &IdentityWire, error: &str) {
        self.settings.metrics.watches().unreadable(kind);
        self.feed.is_there(kind, &identity.namespace, &identity.name);
        let IdentityWire { name, namespace, .. } = identity;
        let object = if namespace.is_empty() { name.clone() } else { format!("{namespace}/{name}") };
        tracing::error!(kind = kind.resource(), object, error, "an object cannot be read and is passed over");
    }

    /// Runs the ServiceCIDR controller, which has a watch of its own; the token is cancelled when its first list is complete.
    fn run_cidrs(
        self: &Arc<Self>,
        client: &kube::Client,
        called: mpsc::Receiver<()>,
        tasks: &mut JoinSet<()>,
    ) -> CancellationToken {
        let listed = self.await_list(ObjectKind::Cidrs, tasks);
        let context = Arc::new(servicecidr::reconcile::Context {
            api: kube::Api::all(self.leadership.fence(&bounded(client))),
            index: Arc::clone(&self.index),
            leads: Arc::clone(&self.leads),
            failures: Arc::clone(&self.failures),
            reporter: self.reporter.clone(),
            metrics: self.settings.metrics.clone(),
            grace: self.settings.service_cidr_grace,
            recheck: self.recheck.clone(),
            state: Arc::clone(&self.cidrs),
            told: self.settings.told.clone(),
        });
        let guard = self.guard(ObjectKind::Cidrs, None);
        let (set, client, done) = (Arc::clone(self), client.clone(), listed.clone());
        tasks.spawn(async move {
            let shutdown = set.shutdown.clone();
            servicecidr::run::run(context, &client, &guard, &set.outage, called, done, shutdown).await;
        });
        listed
    }
}

/// Only slices and Endpoints come as metadata alone.
fn never<F>(_: &Feed, _: F) {}

fn nodes() -> Handlers<NodeWire> {
    Handlers {
        seen: |feed, node| feed.node(&node),
        gone: |feed, id| feed.node_deleted(&id.name),
        changed: never,
    }
}

fn services() -> Handlers<ServiceWire> {
    Handlers {
        seen: |feed, service| feed.service(&service),
        gone: |feed, id| feed.service_deleted(&id.namespace, &id.name),
        changed: never,
    }
}

fn pods() -> Handlers<PodWire> {
    Handlers {
        seen: |feed, pod| feed.pod(&pod),
        gone: |feed, id| feed.pod_deleted(&id.namespace, &id.name),
        changed: never,
    }
}

fn slices() -> Handlers<SliceWire> {
    Handlers {
        seen: |feed, slice| feed.slice(SliceEvent::Seen(slice)),
        gone: |feed, id| feed.slice(SliceEvent::Deleted(Box::new(id.into()))),
        changed: |feed, meta| feed.slice(SliceEvent::Changed(meta)),
    }
}

fn endpoints() -> Handlers<EndpointsWire> {
    Handlers {
        seen: |feed, endpoints| feed.endpoints(EndpointsEvent::Seen(endpoints)),
        gone: |feed, id| feed.endpoints(EndpointsEvent::Deleted(Box::new(id.into()))),
        changed: |feed, meta| feed.endpoints(EndpointsEvent::Changed(meta)),
    }
}

fn addresses() -> Handlers<IpAddressWire> {
    Handlers {
        seen: |feed, address| feed.address(&address),
        gone: |feed, id| feed.address_deleted(&id.name),
        changed: never,
    }
}
