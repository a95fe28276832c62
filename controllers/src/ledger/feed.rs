//! Watches that make the ledger know a cluster.
//!
//! Owns one watch per kind and what a list means: what is not in it any more is gone. A kind that the server does not
//! have is said once and waited for; everything else works without it.

use std::collections::HashSet;
use std::fmt::Debug;
use std::future::Future;

use futures::{StreamExt as _, future};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::networking::v1::{IPAddress, ServiceCIDR};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use service_allocators::ServiceKey;
use service_api::crds::{NodePort, NodePortRange, ServicePool};
use tokio_util::sync::CancellationToken;

use super::Ledger;
use super::entry::{Kind as EntryKind, version_of};
use super::known::Known;
use super::lean::Lean;
use crate::bounded::bounded;

/// The namespace and name of an object; no namespace for one of the cluster.
type Name = (String, String);

/// A kind: how an object of it becomes known, and how one is forgotten; the object is there when it was seen to go.
struct Kind<K> {
    name: &'static str,
    /// Those that are known.
    names: fn(&Known) -> HashSet<Name>,
    set: fn(&mut Known, K),
    remove: fn(&mut Known, &Name, Option<&K>),
}

/// What [`feed`] starts.
#[derive(Debug)]
pub struct Fed {
    /// Cancelled when every kind was listed once, or is known not to be there.
    pub complete: CancellationToken,
}

/// Which kinds are watched beside Services, IPAddresses, NodePorts and the ranges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// ServicePools, and the namespaces that they select.
    pub pools: bool,
}

/// Keeps `ledger` knowing what the server says until `shutdown`. The future is the work; what it gives with is `Fed`.
pub fn feed(
    client: &Client,
    ledger: &Ledger,
    wanted: Wanted,
    shutdown: CancellationToken,
) -> (Fed, impl Future<Output = ()> + use<>) {
    let complete = CancellationToken::new();
    let source = Source { client: bounded(client), ledger: ledger.clone(), complete: complete.clone() };
    let mut all = vec![
        source.follow(services()),
        source.follow(addresses()),
        source.follow(cidrs()),
        source.follow(ports()),
        source.follow(port_ranges()),
    ];
    if wanted.pools {
        all.extend([source.follow(namespaces()), source.follow(pools())]);
    }
    let work = future::join_all(all);
    let work = async move {
        tokio::select! {
            _ = work => {}
            () = shutdown.cancelled() => {}
        }
    };
    (Fed { complete }, work)
}

fn now() -> i64 {
    Timestamp::now().as_second()
}

fn of_cluster<'a>(names: impl Iterator<Item = &'a str>) -> HashSet<Name> {
    names.map(|name| (String::new(), name.to_owned())).collect()
}

fn services() -> Kind<Lean<Service>> {
    Kind {
        name: "services",
        names: |known| {
            known.services().map(|(key, _)| (key.namespace().to_owned(), key.name().to_owned())).collect()
        },
        set: |known, Lean(service)| known.set_service(&service, now()),
        remove: |known, (namespace, name), gone| {
            let version = gone.map(|Lean(gone)| version_of(&gone.metadata));
            known.service_gone(&ServiceKey::new(namespace.as_str(), name.as_str()), version, now());
        },
    }
}

fn namespaces() -> Kind<Namespace> {
    Kind {
        name: "namespaces",
        names: |known| of_cluster(known.namespaces()),
        set: |known, namespace| {
            known.set_namespace(namespace.name_any(), namespace.metadata.labels.unwrap_or_default());
        },
        remove: |known, (_, name), _| known.remove_namespace(name),
    }
}

fn addresses() -> Kind<Lean<IPAddress>> {
    Kind {
        name: "ipaddresses",
        names: |known| of_cluster(known.names_of(EntryKind::Address)),
        set: |known, Lean(address)| known.set_address(&address, now()),
        remove: |known, (_, name), gone| {
            let version = gone.map(|Lean(gone)| version_of(&gone.metadata));
            known.entry_gone(EntryKind::Address, name, version, now());
        },
    }
}

fn cidrs() -> Kind<ServiceCIDR> {
    Kind {
        name: "servicecidrs",
        names: |known| of_cluster(known.cidrs().keys().map(String::as_str)),
        set: |known, cidr| known.set_cidr(&cidr),
        remove: |known, (_, name), _| known.remove_cidr(name),
    }
}

fn ports() -> Kind<NodePort> {
    Kind {
        name: "nodeports",
        names: |known| of_cluster(known.names_of(EntryKind::Port)),
        set: |known, port| known.set_port(&port, now()),
        remove: |known, (_, name), gone| {
            let version = gone.map(|gone| version_of(&gone.metadata));
            known.entry_gone(EntryKind::Port, name, version, now());
        },
    }
}

fn port_ranges() -> Kind<NodePortRange> {
    Kind {
        name: "nodeportranges",
        names: |known| of_cluster(known.port_ranges().keys().map(String::as_str)),
        set: |known, range| known.set_port_range(&range),
        remove: |known, (_, name), _| known.remove_port_range(name),
    }
}

fn pools() -> Kind<ServicePool> {
    Kind {
        name: "servicepools",
        names: |known| of_cluster(known.pools().keys().map(String::as_str)),
        set: Known::set_pool,
        remove: |known, (_, name), _| known.remove_pool(name),
    }
}

#[derive(Clone)]
struct Source {
    client: Client,
    ledger: Ledger,
    complete: CancellationToken,
}

impl Source {
    /// The work of one kind.
    fn follow<K>(&self, kind: Kind<K>) -> future::BoxFuture<'static, ()>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        self.ledger.with(|known| known.awaits(kind.name));
        Box::pin(self.clone().run(kind))
    }

    async fn run<K>(self, kind: Kind<K>)
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let events =
            watcher(Api::<K>::all(self.client.clone()), watcher::Config::default()).default_backoff();
        let mut events = std::pin::pin!(events);
        // What was known when a list began and has not come in it yet.
        let mut missing: HashSet<Name> = HashSet::new();
        let mut told = false;
        while let Some(event) = events.next().await {
            match event {
                Ok(watcher::Event::Init) => missing = self.ledger.with(|known| (kind.names)(known)),
                Ok(watcher::Event::InitApply(object)) => {
                    if !missing.is_empty() {
                        missing.remove(&name_of(&object));
                    }
                    self.ledger.with(|known| (kind.set)(known, object));
                }
                Ok(watcher::Event::InitDone) => {
                    self.ledger.with(|known| {
                        for name in std::mem::take(&mut missing) {
                            (kind.remove)(known, &name, None);
                        }
                    });
                    told = false;
                    self.settle(kind.name, Known::has);
                }
                Ok(watcher::Event::Apply(object)) => {
                    self.ledger.with(|known| (kind.set)(known, object));
                }
                Ok(watcher::Event::Delete(object)) => {
                    let name = name_of(&object);
                    self.ledger.with(|known| (kind.remove)(known, &name, Some(&object)));
                }
                Err(error) => {
                    if !std::mem::replace(&mut told, true) {
                        tracing::warn!(
                            kind = kind.name,
                            error = crate::error::with_causes(&error),
                            "a kind can not be watched; tried again until it can"
                        );
                    }
                    if is_unknown(&error) {
                        self.settle(kind.name, Known::lacks);
                    }
                }
            }
        }
    }

    fn settle(&self, kind: &'static str, said: fn(&mut Known, &'static str)) {
        let complete = self.ledger.with(|known| {
            said(known, kind);
            known.is_complete()
        });
        if complete {
            self.complete.cancel();
        }
    }
}

fn name_of<K: Resource<DynamicType = ()>>(object: &K) -> Name {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// Whether the server does not have the kind.
fn is_unknown(error: &watcher::Error) -> bool {
    let (watcher::Error::InitialListFailed(source)
    | watcher::Error::WatchStartFailed(source)
    | watcher::Error::WatchFailed(source)) = error
    else {
        return false;
    };
    matches!(source, kube::Error::Api(status) if status.code == 404)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bytes::Bytes;
    use http_body_util::Full;
    use kube::client::Body;
    use serde_json::{Value, json};
    use service_allocators::PortSharing;

    use super::*;
    use crate::ledger::Changes;

    /// A server whose versions are forgotten at once, so that everything is listed again and again: two Services the first
    /// time, then one of them, and an address of each.
    fn forgetful() -> (Client, Arc<AtomicUsize>) {
        let lists = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&lists);
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let path = request.uri().path().to_owned();
            let watches = request.uri().query().unwrap_or_default().contains("watch=true");
            let counted = Arc::clone(&counted);
            async move {
                let (code, body) = match path.rsplit('/').next() {
                    _ if watches => (
                        200,
                        json!({"type": "ERROR", "object": {"kind": "Status",
                        "status": "Failure", "message": "too old", "reason": "Expired", "code": 410}}),
                    ),
                    Some("services") => {
                        let all = ["a", "b"].map(|name| {
                            json!({"metadata": {"name": name, "namespace": "shop",
                            "uid": name, "resourceVersion": "7"}, "spec": {"clusterIP": "None"}})
                        });
                        let first = counted.fetch_add(1, Ordering::SeqCst) == 0;
                        (200, list(&all[usize::from(!first)..]))
                    }
                    Some("ipaddresses") => (
                        200,
                        list(&[json!({"metadata": {"name": "10.96.0.5", "resourceVersion": "8"},
                        "spec": {"parentRef": {"resource": "services", "namespace": "shop", "name": "b"}}})]),
                    ),
                    _ => (
                        404,
                        json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}),
                    ),
                };
                let body = Full::new(Bytes::from(format!("{body}\n")));
                Ok::<_, Infallible>(http::Response::builder().status(code).body(body).unwrap())
            }
        });
        (Client::new(service, "default"), lists)
    }

    fn list(items: &[Value]) -> Value {
        json!({"metadata": {"resourceVersion": "9"}, "items": items})
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_later_list_does_not_have_is_gone() {
        let (client, lists) = forgetful();
        let ledger = Ledger::new("30000-30009".parse().unwrap(), PortSharing::WithinService, |_: Changes| {});
        let shutdown = CancellationToken::new();
        let (fed, work) = feed(&client, &ledger, Wanted { pools: false }, shutdown.clone());
        let work = tokio::spawn(work);
        fed.complete.cancelled().await;
        let names = |ledger: &Ledger| -> Vec<String> {
            let mut names: Vec<String> =
                ledger.with(|known| known.services().map(|(key, _)| key.to_string()).collect());
            names.sort();
            names
        };
        assert_eq!(names(&ledger), ["shop/a", "shop/b"]);
        while lists.load(Ordering::SeqCst) < 3 {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        assert_eq!(names(&ledger), ["shop/b"]);
        assert!(ledger.with(|known| known.entry(EntryKind::Address, "10.96.0.5").is_some()));
        shutdown.cancel();
        work.await.unwrap();
    }
}
