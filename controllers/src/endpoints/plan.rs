//! From a Service's pods to its `Endpoints` object: pure functions.

use crate::endpointslice::plan::ports;
use crate::keys;
use crate::subsets::{Repacker, Subset, SubsetAddress};
use crate::text::Labels;
use crate::watch::cache::{AddressType, Pod, Port, Service, Target};

/// An `Endpoints` object holds no more addresses than this.
pub const CAPACITY: usize = 1000;

/// What a Service's `Endpoints` should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Desired {
    /// The subsets.
    pub subsets: Vec<Subset>,
    /// Whether addresses had to be left out.
    pub truncated: bool,
    /// Labels.
    pub labels: Labels,
}

/// The `Endpoints` that a Service with these pods should have. Terminating pods are left out unless
/// the Service publishes pods whatever they say, and so are pods that are bound to no node; only its
/// first family counts.
#[must_use]
pub fn desired<'a>(service: &Service, pods: impl Iterator<Item = &'a Pod>) -> Desired {
    let mut packer = Repacker::default();
    let mut last: Option<(&Pod, Vec<Port>)> = None;
    for pod in pods {
        let out_of_service = pod.terminating || pod.node.is_none();
        if !pod.is_listed() || (out_of_service && !service.publish_not_ready) {
            continue;
        }
        let Some(address) = address(service, pod) else { continue };
        let known = last.take_if(|(other, _)| std::sync::Arc::ptr_eq(&other.named_ports, &pod.named_ports));
        let resolved =
            known.map_or_else(|| ports::resolve(service, pod).iter().cloned().collect(), |(_, ports)| ports);
        if !resolved.is_empty() || (service.ports.is_empty() && service.headless) {
            packer.add(address, service.publish_not_ready || pod.ready, &resolved);
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
    let family = service.families.first().copied().unwrap_or(AddressType::IPv4);
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
pub fn labels(service: &Service) -> Labels {
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
