//! Watches that make the ledger know a cluster.
//!
//! Owns one watch per kind and what its events mean: what a list does not have is gone, what cannot be read stays as it was
//! known, and after the return of a server to an earlier state younger versions say nothing any more. A kind that the server
//! does not have is said once and waited for; everything else works without it. How a watch is kept alive is `watch`'s.

use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::networking::v1::{IPAddress, ServiceCIDR};
use kube::{Client, ResourceExt as _};
use service_allocators::ServiceKey;
use service_api::crds::{NodePort, NodePortRange, ServicePool};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::Ledger;
use super::entry::{EntryKind, version_in};
use super::known::Known;
use super::lean::Lean;
use crate::api::{RequestError, WatchError};
use crate::client::request_error_of;
use crate::objects::{IdentityWire, Lenient, ObjectKind, Read, Watched};
use crate::report::cause::Cause;
use crate::report::failures::Subject;
use crate::report::log::{About, Failure, FailureLog};
use crate::report::metrics::WatchMetrics;
use crate::watch::guard::{Guard, Observer};
use crate::watch::outage::Outage;
use crate::watch::stream::{WatchEvent, follow};

/// The namespace and name of an object; no namespace for one of the cluster.
type Name = (String, String);

/// How an object of a kind becomes known, and how one is forgotten.
struct Handlers<K> {
    /// Those that are known.
    names: fn(&Known) -> HashSet<Name>,
    set: fn(&mut Known, K),
    /// The version is that at which it was seen to go.
    remove: fn(&mut Known, &Name, Option<u64>),
    /// Versions that are known say nothing about those to come.
    doubt: fn(&mut Known),
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

/// Keeps `ledger` knowing what the server says until `shutdown`; lists, failures and what cannot be read are counted in
/// `metrics`, and `failures` tells of those. The future is the work; what it gives with is `Fed`.
pub fn feed(
    client: &Client,
    ledger: &Ledger,
    wanted: Wanted,
    metrics: WatchMetrics,
    failures: Arc<FailureLog>,
    shutdown: CancellationToken,
) -> (Fed, impl Future<Output = ()> + use<>) {
    let complete = CancellationToken::new();
    let source = Arc::new(Source {
        // The guards of the watches end what takes too long.
        client: client.clone(),
        ledger: ledger.clone(),
        complete: complete.clone(),
        failures,
        metrics,
        outage: Outage::default(),
    });
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
    let work = async move {
        // Each in a task of its own; they end with this one.
        let mut watches: JoinSet<()> = all.into_iter().collect();
        // A server that stops with us ends its watches, which is nothing to warn of.
        tokio::select! {
            biased;
            () = shutdown.cancelled() => {}
            ended = watches.join_next() => raise(ended),
            () = source.probe() => {}
        }
    };
    (Fed { complete }, work)
}

/// A watch ends by a panic alone, which ends the work.
fn raise(ended: Option<Result<(), JoinError>>) {
    if let Some(Err(error)) = ended
        && let Ok(panic) = error.try_into_panic()
    {
        std::panic::resume_unwind(panic);
    }
}

fn now() -> i64 {
    Timestamp::now().as_second()
}

fn of_cluster<'a>(names: impl Iterator<Item = &'a str>) -> HashSet<Name> {
    names.map(|name| (String::new(), name.to_owned())).collect()
}

fn services() -> Handlers<Lean<Service>> {
    Handlers {
        names: |known| {
            known.services().map(|(key, _)| (key.namespace().to_owned(), key.name().to_owned())).collect()
        },
        set: |known, Lean(service)| known.set_service(&service, now()),
        remove: |known, (namespace, name), version| {
            known.service_gone(&ServiceKey::new(namespace.as_str(), name.as_str()), version, now());
        },
        doubt: Known::doubt_services,
    }
}

fn namespaces() -> Handlers<Namespace> {
    Handlers {
        names: |known| of_cluster(known.namespaces()),
        set: |known, namespace| {
            known.set_namespace(namespace.name_any(), namespace.metadata.labels.unwrap_or_default());
        },
        remove: |known, (_, name), _| known.remove_namespace(name),
        doubt: |_| {},
    }
}

fn addresses() -> Handlers<Lean<IPAddress>> {
    Handlers {
        names: |known| of_cluster(known.names_of(EntryKind::Address)),
        set: |known, Lean(address)| known.set_address(&address, now()),
        remove: |known, (_, name), version| known.entry_gone(EntryKind::Address, name, version, now()),
        doubt: |known| known.doubt_entries(EntryKind::Address),
    }
}

fn cidrs() -> Handlers<ServiceCIDR> {
    Handlers {
        names: |known| of_cluster(known.cidrs().keys().map(String::as_str)),
        set: |known, cidr| known.set_cidr(&cidr),
        remove: |known, (_, name), _| known.remove_cidr(name),
        doubt: |_| {},
    }
}

fn ports() -> Handlers<NodePort> {
    Handlers {
        names: |known| of_cluster(known.names_of(EntryKind::Port)),
        set: |known, port| known.set_port(&port, now()),
        remove: |known, (_, name), version| known.entry_gone(EntryKind::Port, name, version, now()),
        doubt: |known| known.doubt_entries(EntryKind::Port),
    }
}

fn port_ranges() -> Handlers<NodePortRange> {
    Handlers {
        names: |known| of_cluster(known.port_ranges().keys().map(String::as_str)),
        set: |known, range| known.set_port_range(&range),
        remove: |known, (_, name), _| known.remove_port_range(name),
        doubt: |_| {},
    }
}

fn pools() -> Handlers<ServicePool> {
    Handlers {
        names: |known| of_cluster(known.pools().keys().map(String::as_str)),
        set: Known::set_pool,
        remove: |known, (_, name), _| known.remove_pool(name),
        doubt: |_| {},
    }
}

/// What the watches share.
struct Source {
    client: Client,
    ledger: Ledger,
    complete: CancellationToken,
    failures: Arc<FailureLog>,
    metrics: WatchMetrics,
    outage: Outage,
}

impl Source {
    /// The work of one kind.
    fn follow<K: Watched>(self: &Arc<Self>, handlers: Handlers<K>) -> BoxFuture<'static, ()> {
        self.ledger.with(|known| known.awaits(K::KIND.resource()));
        let source = Arc::clone(self);
        Box::pin(async move {
            let observer: Arc<dyn Observer> = source.clone();
            let guard = Guard::new(K::KIND, observer, None);
            // What was known when a list began and has not come in it yet.
            let mut missing = HashSet::new();
            let take = |event| source.take(&handlers, event, &mut missing);
            follow(&source.client, &guard, &source.outage, take).await;
        })
    }

    fn take<K: Watched>(
        &self,
        handlers: &Handlers<K>,
        event: WatchEvent<Lenient<K>>,
        missing: &mut HashSet<Name>,
    ) {
        match event {
            WatchEvent::ListBegins => *missing = self.ledger.with(|known| (handlers.names)(known)),
            WatchEvent::Restored => self.ledger.with(|known| (handlers.doubt)(known)),
            WatchEvent::ListEnds => {
                self.ledger.with(|known| {
                    for name in std::mem::take(missing) {
                        (handlers.remove)(known, &name, None);
                    }
                });
                self.settle(K::KIND, Known::has);
            }
            WatchEvent::Seen(object) => {
                if !missing.is_empty() {
                    missing.remove(&name_of(object.identity()));
                }
                match object.read {
                    Read::Whole(whole) => self.ledger.with(|known| (handlers.set)(known, *whole)),
                    Read::Unreadable(unreadable) => self.pass_over(K::KIND, &unreadable.0, &unreadable.1),
                    // Nobody asks for metadata alone.
                    Read::Partial(_) => {}
                }
            }
            WatchEvent::Gone(object) => {
                let version = version_in(object.version());
                let name = name_of(object.identity());
                self.ledger.with(|known| (handlers.remove)(known, &name, Some(version)));
            }
        }
    }

    /// Counts and names an object that cannot be read; what was known of it stays.
    fn pass_over(&self, kind: ObjectKind, identity: &IdentityWire, error: &str) {
        self.metrics.unreadable(kind);
        let IdentityWire { name, namespace, .. } = identity;
        let object = if namespace.is_empty() { name.clone() } else { format!("{namespace}/{name}") };
        tracing::error!(kind = kind.resource(), object, error, "an object cannot be read and is passed over");
    }

    fn settle(&self, kind: ObjectKind, said: fn(&mut Known, &'static str)) {
        let complete = self.ledger.with(|known| {
            said(known, kind.resource());
            known.is_complete()
        });
        if complete {
            self.complete.cancel();
        }
    }

    fn server_answered(&self) {
        self.failures.answered();
        self.outage.answered();
    }

    /// Asks a server that answers nobody whether it does again. Never ends.
    async fn probe(&self) {
        // Any answer will do.
        let ask = || async {
            let asked = self.client.apiserver_version().await;
            !asked.is_err_and(|error| matches!(request_error_of(&error), RequestError::Unreachable(_)))
        };
        self.outage.probe(ask, || self.server_answered()).await;
    }
}

impl Observer for Source {
    fn answered(&self, _: ObjectKind) {
        self.server_answered();
    }

    fn listed(&self, kind: ObjectKind) {
        self.metrics.listed(kind);
    }

    fn works(&self, kind: ObjectKind) {
        self.failures.works(&Subject::LedgerWatch(kind));
    }

    fn failed(&self, kind: ObjectKind, error: &WatchError, again: Duration) {
        self.metrics.failed(kind);
        let failure = Failure { about: About::default(), cause: &Cause::of_watch(error), why: error };
        self.failures.failed(&Subject::LedgerWatch(kind), &[failure], Some(again));
        if matches!(error, WatchError::Refused(RequestError::NotFound(_))) {
            self.settle(kind, Known::lacks);
        }
    }
}

fn name_of(identity: IdentityWire) -> Name {
    (identity.namespace, identity.name)
}
