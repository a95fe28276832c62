//! Looks for allocations that contradict the Services: what an IPAddress object says against what a Service says.
//!
//! The lab's own requests can not bring that about; users who edit IPAddress objects by hand, and data directories of
//! older servers, can. What contradicts what is decided by [`service_allocators::audit()`]; [`apply`] puts right what
//! has one right answer and tells the rest in Events.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use service_allocators::{Claim, Finding, Holding, Limits, ServiceKey, audit};
use service_api::address::Family;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::registry::error::ApiError;
use crate::registry::kinds::ipaddress;
use crate::registry::verbs::Api;
use crate::registry::{Allocation, LabIndex, Registry, Tx};
use crate::store::{Event, EventType, ListWatch, ResourceId, Store, Stored, Update, View, WriteError};

/// How often the allocations are looked at, as upstream.
const INTERVAL: Duration = Duration::from_mins(3);
/// How long an address without a Service may stay, as upstream.
const GRACE: Duration = Duration::from_mins(1);

/// Repairs at once and every few minutes, until `closing`. When somebody deletes the IPAddress of a Service that still
/// has the address, at once: until it is back another Service could take it. When somebody makes one for a Service that
/// does not have it, after a minute, as upstream. Where a controller allocates, that is its business and nothing is done.
pub async fn run(api: Arc<Api>, closing: CancellationToken) {
    if api.store.read(|view| view.index().services.allocation) == Allocation::Reconcile {
        return;
    }
    let ids = (api.registry.id(ipaddress::GROUP, ipaddress::RESOURCE), api.registry.id("", "services"));
    let (Some(addresses), Some(services)) = ids else { return };
    let mut follower = ListWatch::new(&api.store, addresses, |_: &View<'_, LabIndex>| ());
    let mut ticks = tokio::time::interval_at(Instant::now() + INTERVAL, INTERVAL);
    let mut leak = None;
    loop {
        tokio::select! {
            () = closing.cancelled() => return,
            _ = ticks.tick() => {}
            () = tokio::time::sleep_until(leak.unwrap_or_else(Instant::now)), if leak.is_some() => {}
            update = follower.next() => match update {
                Update::Listed(()) => {}
                Update::Events(events) => {
                    let seen = events.iter().map(|event| Call::of(&api.store, services, event)).max();
                    match seen.unwrap_or(Call::None) {
                        Call::None => continue,
                        Call::Later => {
                            leak.get_or_insert_with(|| Instant::now() + GRACE);
                            continue;
                        }
                        Call::Now => {}
                    }
                }
            },
        }
        leak = leak.filter(|due| *due > Instant::now());
        let pass = Arc::clone(&api);
        let done =
            tokio::task::spawn_blocking(move || apply(&pass.store, &pass.registry, Timestamp::now())).await;
        match done {
            Ok(Ok(findings)) => {
                for finding in findings {
                    tracing::warn!(?finding, "an allocation contradicted the Services");
                }
            }
            Ok(Err(error)) => tracing::error!(%error, "allocations could not be repaired"),
            Err(error) => tracing::error!(%error, "the repair pass ended early"),
        }
    }
}

/// What an event of an IPAddress calls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Call {
    None,
    /// The allocator's address of a Service that does not have it.
    Later,
    /// The address of a Service that has it is gone.
    Now,
}

impl Call {
    fn of(store: &Store<LabIndex>, services: ResourceId, event: &Event) -> Self {
        let Some(holding) = holding(&event.object.name, &parse(&event.object)) else { return Self::None };
        let Some(parent) = holding.parent else { return Self::None };
        let address = Value::from(&*event.object.name).to_string();
        let (is_there, has_it) = store.read(|view| {
            let service = view.get(services, parent.namespace(), parent.name());
            let names = |service: &Stored| {
                service.body.windows(address.len()).any(|window| window == address.as_bytes())
            };
            let is_there = view.get(event.object.resource, "", &event.object.name).is_some();
            (is_there, service.is_some_and(|service| names(service)))
        });
        match (is_there, has_it) {
            (false, true) if event.ty == EventType::Deleted => Self::Now,
            (true, false) if holding.managed => Self::Later,
            _ => Self::None,
        }
    }
}

/// Looks once, puts right what can be, and writes an Event about everything that concerns a Service; all in one
/// transaction. Returns what was found. Looking alone holds nobody up.
///
/// # Errors
/// When the store does not take the writes; nothing was changed then.
pub fn apply(
    store: &Store<LabIndex>,
    registry: &Registry,
    now: Timestamp,
) -> Result<Vec<Finding>, WriteError<ApiError>> {
    let (stored, limits) = store.read(|view| {
        let all = |group: &str, resource: &str| -> Vec<Arc<Stored>> {
            registry
                .id(group, resource)
                .into_iter()
                .flat_map(|id| view.list(id, None, None).cloned())
                .collect()
        };
        let objects =
            Objects { services: all("", "services"), addresses: all(ipaddress::GROUP, ipaddress::RESOURCE) };
        (objects, Limits::of(&view.index().services.live.ledger))
    });
    if stored.look(&limits).is_empty() {
        return Ok(Vec::new());
    }
    store.write(|tx| {
        let all = |group: &str, resource: &str| {
            registry.id(group, resource).map_or_else(Vec::new, |id| tx.list(id, None))
        };
        let stored =
            Objects { services: all("", "services"), addresses: all(ipaddress::GROUP, ipaddress::RESOURCE) };
        let findings = stored.look(&Limits::of(&tx.index().services.live.ledger));
        for finding in &findings {
            repair(tx, registry, finding, now)?;
            if let Some(service) = finding.service() {
                tell(tx, registry, service, (finding.reason(), &finding.told_repairing()), now)?;
            }
        }
        Ok(findings)
    })
}

/// What is compared, as it is stored.
struct Objects {
    services: Vec<Arc<Stored>>,
    addresses: Vec<Arc<Stored>>,
}

impl Objects {
    /// Each object is read, reduced to what is compared, and dropped: tens of thousands must not be there at once.
    fn look(&self, limits: &Limits) -> Vec<Finding> {
        let claim = |stored: &Arc<Stored>| Some(Claim::of(&serde_json::from_slice(&stored.body).ok()?));
        let claims: Vec<Claim> = self.services.iter().filter_map(claim).collect();
        let holdings: Vec<Holding> =
            self.addresses.iter().filter_map(|stored| holding(&stored.name, &parse(stored))).collect();
        audit(&claims, &holdings, limits)
    }
}

/// What an IPAddress object of that name says; `None` when the name is no address.
fn holding(name: &str, object: &Value) -> Option<Holding> {
    let parent = |field: &str| {
        object.pointer(&format!("/spec/parentRef/{field}")).and_then(Value::as_str).unwrap_or_default()
    };
    let of_a_service = ipaddress::is_of_a_service(object);
    Some(Holding {
        address: name.parse().ok()?,
        parent: of_a_service.then(|| ServiceKey::new(parent("namespace"), parent("name"))),
        managed: ipaddress::is_managed(object),
    })
}

fn parse(stored: &Stored) -> Value {
    serde_json::from_slice(&stored.body).unwrap_or_default()
}

fn repair(tx: &mut Tx<'_>, registry: &Registry, finding: &Finding, now: Timestamp) -> Result<(), ApiError> {
    let Some(id) = registry.id(ipaddress::GROUP, ipaddress::RESOURCE) else { return Ok(()) };
    match finding {
        Finding::AddressNotAllocated { service, address } => {
            let name = address.to_string();
            if tx.get(id, "", &name).is_none() {
                let object = ipaddress::object(
                    *address,
                    Family::of(*address),
                    service.namespace(),
                    service.name(),
                    now,
                );
                tx.put(id, object).map_err(ApiError::from)?;
            }
        }
        Finding::AddressLeaked { address, .. } => {
            let name = address.to_string();
            if let Some(stored) = tx.get(id, "", &name).cloned() {
                tracing::info!(%address, "an address was taken for a Service that does not use it; freed");
                tx.delete(id, "", &name, parse(&stored)).map_err(ApiError::from)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// One Event a Service and reason; what is seen again is counted.
fn tell(
    tx: &mut Tx<'_>,
    registry: &Registry,
    service: &ServiceKey,
    (reason, text): (&str, &str),
    now: Timestamp,
) -> Result<(), ApiError> {
    let (Some(events), Some(services)) = (registry.id("", "events"), registry.id("", "services")) else {
        return Ok(());
    };
    let time = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let name = format!("{}.{}", service.name(), reason.to_lowercase());
    if let Some(known) = tx.get(events, service.namespace(), &name) {
        let mut event = parse(known);
        let count = event.get("count").and_then(Value::as_i64).unwrap_or_default();
        event["count"] = json!(count + 1);
        event["lastTimestamp"] = json!(time);
        event["message"] = json!(text);
        tx.put(events, event).map_err(ApiError::from)?;
        return Ok(());
    }
    let uid = tx
        .get(services, service.namespace(), service.name())
        .map(|stored| parse(stored).pointer("/metadata/uid").cloned().unwrap_or_default());
    let component = if reason.starts_with("Port") {
        "portallocator-repair-controller"
    } else {
        "ipallocator-repair-controller"
    };
    let event = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {
            "name": name, "namespace": service.namespace(), "uid": uuid::Uuid::new_v4().to_string(),
            "creationTimestamp": time,
        },
        "involvedObject": {
            "apiVersion": "v1", "kind": "Service", "namespace": service.namespace(), "name": service.name(), "uid": uid,
        },
        "type": "Warning", "reason": reason, "message": text, "count": 1,
        "firstTimestamp": time, "lastTimestamp": time, "eventTime": null,
        "source": {"component": component}, "reportingComponent": component, "reportingInstance": "",
    });
    tx.put(events, event).map_err(ApiError::from)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::testing::{Lab, lab};

    fn pass(lab: &Lab) -> Vec<Finding> {
        apply(&lab.store, &lab.registry, Timestamp::UNIX_EPOCH).unwrap()
    }

    fn create(lab: &Lab, name: &str, spec: &Value) {
        lab.create("", "services", json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec}))
            .unwrap();
    }

    const ADDRESSES: (&str, &str) = ("networking.k8s.io", "ipaddresses");

    #[test]
    fn nothing_is_found_when_all_is_right() {
        let lab = lab(&["10.96.0.0/12", "fd00:10:96::/112"]);
        create(&lab, "a", &json!({"ports": [{"port": 80}], "ipFamilyPolicy": "PreferDualStack"}));
        create(&lab, "h", &json!({"ports": [{"port": 80}], "clusterIP": "None"}));
        create(
            &lab,
            "d",
            &json!({"type": "NodePort", "ports": [
                {"name": "t", "port": 53, "nodePort": 30053},
                {"name": "u", "port": 53, "protocol": "UDP", "nodePort": 30053}
            ]}),
        );
        create(
            &lab,
            "lb",
            &json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 80}]}),
        );
        let before = lab.revision();
        for _ in 0..2 {
            assert_eq!(pass(&lab), []);
        }
        assert_eq!(lab.revision(), before);
    }

    #[test]
    fn a_deleted_address_comes_back() {
        let lab = lab(&["10.96.0.0/12"]);
        create(&lab, "a", &json!({"ports": [{"port": 80}], "clusterIP": "10.96.0.60"}));
        lab.remove_unchecked(ADDRESSES.0, ADDRESSES.1, "", "10.96.0.60");
        assert!(matches!(&pass(&lab)[..], [Finding::AddressNotAllocated { .. }]));
        assert_eq!(
            lab.get(ADDRESSES.0, ADDRESSES.1, "", "10.96.0.60").unwrap()["spec"]["parentRef"]["name"],
            json!("a")
        );
        assert_eq!(lab.names("", "events"), ["a.clusteripnotallocated"]);
        assert_eq!(pass(&lab), []);
    }

    #[test]
    fn only_what_contradicts_a_service_calls_for_a_pass() {
        let lab = lab(&["10.96.0.0/12"]);
        let id = |group: &str, resource: &str| lab.registry.id(group, resource).unwrap();
        let mut watch = lab.store.read_and_watch(id(ADDRESSES.0, ADDRESSES.1), |_| ()).1;
        let mut calls = || -> Vec<Call> {
            let events = watch.poll().unwrap();
            events.iter().map(|event| Call::of(&lab.store, id("", "services"), event)).collect()
        };
        let spec = json!({"ports": [{"port": 80}], "clusterIP": "10.96.0.60"});
        create(&lab, "a", &spec);
        lab.delete(("", "services", "default", "a"));
        assert_eq!(calls(), [Call::None; 2], "both at once come and go");
        create(&lab, "a", &spec);
        lab.remove_unchecked(ADDRESSES.0, ADDRESSES.1, "", "10.96.0.60");
        assert_eq!(calls(), [Call::None, Call::Now]);
        let parent = json!({"resource": "services", "namespace": "default", "name": "a"});
        let managed = json!({"ipaddress.kubernetes.io/managed-by": ipaddress::MANAGER});
        for (name, labels) in [("10.96.0.70", &managed), ("10.96.0.71", &json!({}))] {
            let object = json!({"metadata": {"name": name, "labels": labels}, "spec": {"parentRef": parent}});
            lab.create(ADDRESSES.0, ADDRESSES.1, object).unwrap();
        }
        assert_eq!(calls(), [Call::Later, Call::None]);
    }

    #[test]
    fn only_what_the_allocator_leaked_is_freed() {
        let lab = lab(&["10.96.0.0/12"]);
        let labels = json!({"ipaddress.kubernetes.io/managed-by": ipaddress::MANAGER});
        let parent = json!({"resource": "services", "namespace": "default", "name": "gone"});
        for (name, labels) in [("10.96.0.70", labels), ("10.96.0.71", json!({}))] {
            let object = json!({"metadata": {"name": name, "labels": labels}, "spec": {"parentRef": parent}});
            lab.create(ADDRESSES.0, ADDRESSES.1, object).unwrap();
        }
        assert_eq!(
            pass(&lab),
            [Finding::AddressLeaked {
                address: "10.96.0.70".parse().unwrap(),
                parent: ServiceKey::new("default", "gone")
            }]
        );
        assert_eq!(lab.names(ADDRESSES.0, ADDRESSES.1), ["10.96.0.1", "10.96.0.71"]);
    }

    #[test]
    fn what_has_two_answers_is_only_told() {
        let lab = lab(&["10.96.0.0/12"]);
        create(&lab, "a", &json!({"ports": [{"port": 80}], "clusterIP": "10.96.0.60"}));
        lab.remove_unchecked(ADDRESSES.0, ADDRESSES.1, "", "10.96.0.60");
        let parent = json!({"resource": "services", "namespace": "default", "name": "b"});
        let address = json!({"metadata": {"name": "10.96.0.60"}, "spec": {"parentRef": parent}});
        lab.put_unchecked(ADDRESSES.0, ADDRESSES.1, &address);
        for _ in 0..2 {
            let found = pass(&lab);
            assert!(
                matches!(&found[..], [Finding::AddressOfAnother { service, .. }] if service.name() == "a"),
                "{found:?}"
            );
        }
        assert_eq!(
            lab.get("", "events", "default", "a.clusteripalreadyallocated").unwrap()["count"],
            json!(2)
        );
    }
}
