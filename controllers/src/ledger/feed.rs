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

/// The namespace and name of an object; no namespace for one of the cluster.
type Name = (String, String);

/// A kind: how an object of it becomes known, and how one is forgotten; the object is there when it was seen to go.
struct Kind<K> {
    name: &'static str,
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
    client: Client,
    ledger: &Ledger,
    wanted: Wanted,
    shutdown: CancellationToken,
) -> (Fed, impl Future<Output = ()> + use<>) {
    let complete = CancellationToken::new();
    let source = Source { client, ledger: ledger.clone(), complete: complete.clone() };
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

fn services() -> Kind<Service> {
    Kind {
        name: "services",
        set: |known, service| known.set_service(&service, now()),
        remove: |known, (namespace, name), gone| {
            let version = gone.map(|gone| version_of(&gone.metadata));
            known.service_gone(&ServiceKey::new(namespace.as_str(), name.as_str()), version, now());
        },
    }
}

fn namespaces() -> Kind<Namespace> {
    Kind {
        name: "namespaces",
        set: |known, namespace| {
            known.set_namespace(namespace.name_any(), namespace.metadata.labels.unwrap_or_default());
        },
        remove: |known, (_, name), _| known.remove_namespace(name),
    }
}

fn addresses() -> Kind<IPAddress> {
    Kind {
        name: "ipaddresses",
        set: |known, address| known.set_address(&address, now()),
        remove: |known, (_, name), gone| {
            let version = gone.map(|gone| version_of(&gone.metadata));
            known.entry_gone(EntryKind::Address, name, version, now());
        },
    }
}

fn cidrs() -> Kind<ServiceCIDR> {
    Kind {
        name: "servicecidrs",
        set: |known, cidr| known.set_cidr(&cidr),
        remove: |known, (_, name), _| known.remove_cidr(name),
    }
}

fn ports() -> Kind<NodePort> {
    Kind {
        name: "nodeports",
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
        set: |known, range| known.set_port_range(&range),
        remove: |known, (_, name), _| known.remove_port_range(name),
    }
}

fn pools() -> Kind<ServicePool> {
    Kind { name: "servicepools", set: Known::set_pool, remove: |known, (_, name), _| known.remove_pool(name) }
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
        let mut there: HashSet<Name> = HashSet::new();
        let mut listed: HashSet<Name> = HashSet::new();
        let mut told = false;
        while let Some(event) = events.next().await {
            match event {
                Ok(watcher::Event::Init) => listed.clear(),
                Ok(watcher::Event::InitApply(object)) => {
                    listed.insert(name_of(&object));
                    self.ledger.with(|known| (kind.set)(known, object));
                }
                Ok(watcher::Event::InitDone) => {
                    self.ledger.with(|known| {
                        for name in there.difference(&listed) {
                            (kind.remove)(known, name, None);
                        }
                    });
                    there = std::mem::take(&mut listed);
                    told = false;
                    self.settle(kind.name, Known::has);
                }
                Ok(watcher::Event::Apply(object)) => {
                    there.insert(name_of(&object));
                    self.ledger.with(|known| (kind.set)(known, object));
                }
                Ok(watcher::Event::Delete(object)) => {
                    let name = name_of(&object);
                    there.remove(&name);
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
