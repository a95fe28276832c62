//! From a Service's pods to its `Endpoints` object: pure functions.

use std::sync::Arc;

use crate::cache::{Pod, Port, Seconds, Service, Target, rfc3339};
use crate::index::endpoints::EndpointsObject;
use crate::keys;
use crate::subsets::{Repacker, Subset, SubsetAddress, digest};
use crate::target_ports;
use crate::text::{Labels, Text, Uid};
use crate::verdict;

/// An `Endpoints` object holds no more addresses than this.
pub(crate) const CAPACITY: usize = 1000;

/// What a Service's `Endpoints` should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Desired {
    /// The subsets.
    pub subsets: Vec<Subset>,
    /// Whether addresses had to be left out.
    pub truncated: bool,
    /// Labels.
    pub labels: Labels,
}

impl Desired {
    /// How many addresses it has that are ready, and how many that are not.
    #[must_use]
    pub(crate) fn addresses(&self) -> (usize, usize) {
        let counts = self.subsets.iter().map(|subset| (subset.ready.len(), subset.not_ready.len()));
        counts.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
    }
}

/// The `Endpoints` that a Service with these pods should have. Terminating pods are left out unless
/// the Service publishes pods whatever they say, and so are pods that are bound to no node or to one that does not
/// exist; only its first family counts.
#[must_use]
pub(crate) fn desired<'a>(
    service: &Service,
    pods: impl Iterator<Item = &'a Pod>,
    node_exists: impl Fn(&Text) -> bool,
) -> Desired {
    let mut packer = Repacker::default();
    let mut last: Option<(&Pod, Vec<Port>)> = None;
    for pod in pods {
        let known = last.take_if(|(other, _)| Arc::ptr_eq(&other.named_ports, &pod.named_ports));
        let resolved = known.map_or_else(
            || target_ports::resolve(service, pod).iter().cloned().collect(),
            |(_, ports)| ports,
        );
        let has_node = pod.node.as_ref().is_some_and(&node_exists);
        if let Ok(ready) = verdict::in_endpoints(service, pod, has_node, !resolved.is_empty())
            && let Some(address) = address(service, pod)
        {
            packer.add(address, ready, &resolved);
        }
        last = Some((pod, resolved));
    }
    let mut subsets = packer.finish();
    let truncated = truncate(&mut subsets);
    // The API refuses a subset without addresses, and with it the whole object.
    subsets.retain(|subset| !subset.is_empty());
    Desired { subsets, truncated, labels: labels(service) }
}

fn address(service: &Service, pod: &Pod) -> Option<SubsetAddress> {
    let family = verdict::endpoints_family(service);
    let ip = pod.ips.iter().find(|ip| family.holds(ip))?;
    Some(SubsetAddress {
        ip: ip.clone(),
        hostname: pod.hostname.clone().filter(|_| pod.subdomain.as_ref() == Some(&service.name)),
        node: pod.node.clone(),
        target: Some(Target::Pod { name: pod.name.clone(), uid: pod.uid.clone() }),
    })
}

/// The labels of a Service's `Endpoints`.
#[must_use]
pub(crate) fn labels(service: &Service) -> Labels {
    let labels = service.labels.without(|key| key == keys::HEADLESS);
    let labels = if service.headless { labels.with(keys::HEADLESS, "") } else { labels };
    labels.with(keys::ENDPOINTS_MANAGED_BY, keys::ENDPOINTS_MANAGER)
}

/// Cuts the addresses to [`CAPACITY`], ready ones before the others, each subset in proportion.
fn truncate(subsets: &mut [Subset]) -> bool {
    let ready: usize = subsets.iter().map(|s| s.ready.len()).sum();
    let others: usize = subsets.iter().map(|s| s.not_ready.len()).sum();
    if ready + others <= CAPACITY {
        return false;
    }
    let cut_ready = ready > CAPACITY;
    let (total, room) = if cut_ready { (ready, CAPACITY) } else { (others, CAPACITY - ready) };
    let mut left = room;
    for subset in subsets {
        let list = if cut_ready { &mut subset.ready } else { &mut subset.not_ready };
        let share = (list.len() * room).div_ceil(total).min(left);
        list.truncate(share);
        left -= list.len();
        if cut_ready {
            subset.not_ready.clear();
        }
    }
    true
}

/// What the annotation of an object says that has more addresses than it lists.
const TRUNCATED: &str = "truncated";

/// The object as it has to be written, with the time of the change behind that; none if it is right as it is.
#[must_use]
pub(crate) fn after(
    known: Option<&EndpointsObject>,
    desired: &Desired,
    trigger: Option<Seconds>,
) -> Option<EndpointsObject> {
    let digest = Some(digest(&desired.subsets));
    if let Some(known) = known {
        let headless = |key: &str| key == keys::HEADLESS;
        let mark = known.annotations.get(keys::OVER_CAPACITY).map(|value| &**value);
        if known.digest == digest
            && known.labels.equal_without(&desired.labels, headless)
            && mark == desired.truncated.then_some(TRUNCATED)
        {
            return None;
        }
    }
    let before = known.map(|k| k.annotations.clone()).unwrap_or_default();
    let mut annotations = before.without(|key| key == keys::TRIGGER_TIME || key == keys::OVER_CAPACITY);
    if let Some(time) = trigger {
        annotations = annotations.with(keys::TRIGGER_TIME, &rfc3339(time));
    }
    if desired.truncated {
        annotations = annotations.with(keys::OVER_CAPACITY, TRUNCATED);
    }
    Some(EndpointsObject {
        uid: Uid::Absent,
        version: 0,
        labels: desired.labels.clone(),
        annotations,
        owners: known.map(|k| Arc::clone(&k.owners)).unwrap_or_default(),
        finalizers: known.map(|k| Arc::clone(&k.finalizers)).unwrap_or_default(),
        deleting: false,
        digest,
        ready: desired.addresses().0,
        subsets: None,
    })
}
