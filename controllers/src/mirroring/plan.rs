//! From an `Endpoints` object to its mirror: pure functions.

use std::collections::VecDeque;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};

use crate::cache::{AddressType, Endpoint, Owner, Ports, Slice, Target};
use crate::index::endpoints::EndpointsObject;
use crate::keys;
use crate::requests::slices::SliceWrite;
use crate::subsets::{Repacker, Subset, SubsetAddress};
use crate::text::{Address, Labels, Text, Uid};

/// What to write for an `Endpoints` object, and what is worth telling.
#[derive(Clone, Debug, Default)]
pub(crate) struct MirrorPlan {
    /// The writes.
    pub writes: Vec<SliceWrite>,
    /// Addresses left out because a subset has too many.
    pub skipped: usize,
    /// Addresses left out because they are none.
    pub invalid: usize,
    /// Endpoints that are new in their slices.
    pub added: usize,
    /// Endpoints that stay, and change.
    pub updated: usize,
    /// Endpoints that leave their slices.
    pub removed: usize,
}

/// Whether an `Endpoints` object is mirrored at all: not the lock of a leader election, not marked.
#[must_use]
pub(crate) fn is_mirrored(object: &EndpointsObject) -> bool {
    object.labels.get(keys::SKIP_MIRROR).is_none_or(|v| &**v != "true")
        && object.annotations.get(keys::LEADER).is_none()
}

/// The endpoints of one slice: the addresses of one family at one set of ports.
struct MirroredSlice {
    family: AddressType,
    ports: Ports,
    endpoints: Vec<Endpoint>,
    places: HashMap<Identity, usize>,
}

/// What an endpoint is there once for: address, host name, namespace and name of the object.
type Identity = (Address, Option<Text>, Option<Text>, Option<Text>);

impl MirroredSlice {
    fn new(family: AddressType, ports: Ports, endpoint: Endpoint) -> Self {
        let mut wanted = Self { family, ports, endpoints: Vec::new(), places: HashMap::default() };
        wanted.add(endpoint);
        wanted
    }

    /// Adds an endpoint, in place of the one that stands for the same thing: one address may be
    /// spelt in several ways.
    fn add(&mut self, endpoint: Endpoint) {
        let place = *self.places.entry(identity(&endpoint)).or_insert(self.endpoints.len());
        match self.endpoints.get_mut(place) {
            Some(known) => *known = endpoint,
            None => self.endpoints.push(endpoint),
        }
    }
}

fn identity(endpoint: &Endpoint) -> Identity {
    let address = endpoint.addresses.first().cloned().unwrap_or(Address::Text("".into()));
    let (namespace, name) = match &endpoint.target {
        Some(Target::Other(other)) => {
            (other.namespace.as_deref().map(Text::from), other.name.as_deref().map(Text::from))
        }
        _ => (None, endpoint.pod().cloned()),
    };
    (address, endpoint.hostname.clone(), namespace, name)
}

/// Plans the mirror of `object`: one slice for each family and set of ports, cut to `max`
/// addresses of each subset.
#[must_use]
pub(crate) fn plan(
    name: &Text,
    object: &EndpointsObject,
    subsets: &[Subset],
    slices: &[Arc<Slice>],
    max: usize,
) -> MirrorPlan {
    let mut out = MirrorPlan::default();
    let mirrored = mirrored(subsets, max, &mut out);
    let mut left: Vec<&Arc<Slice>> = slices.iter().filter(|s| !s.deleting).collect();
    let mut creates = VecDeque::new();
    let annotations = object.annotations.without(|k| k == keys::TRIGGER_TIME || k == keys::LAST_APPLIED);
    for wanted in mirrored {
        let place = left.iter().position(|s| s.family == wanted.family && s.ports == wanted.ports);
        let Some(old) = place.map(|place| left.remove(place)) else {
            out.added += wanted.endpoints.len();
            creates.push_back(wanted);
            continue;
        };
        let kept = old.endpoints.iter().filter(|e| wanted.places.contains_key(&identity(e))).count();
        out.added += wanted.endpoints.len() - kept.min(wanted.endpoints.len());
        out.removed += old.endpoints.len() - kept;
        let changed = |e: &&Endpoint| {
            let now = wanted.places.get(&identity(e)).and_then(|place| wanted.endpoints.get(*place));
            now.is_some_and(|now| !now.equals_beside_hints(e))
        };
        out.updated += old.endpoints.iter().filter(changed).count();
        let own = |key: &str| key == keys::MANAGED_BY || key == keys::SERVICE_NAME;
        let right = !is_of_a_former(name, object, old)
            && same_endpoints(&old.endpoints, &wanted.endpoints)
            && old.labels.equal_without(&object.labels, own)
            && old.annotations == annotations;
        if !right {
            let new = Slice { generate_name: None, ..slice(name, object, &annotations, wanted) };
            out.writes.push(rewrite(old, new));
        }
    }
    for old in left {
        out.removed += old.endpoints.len();
        let place = creates.iter().position(|wanted| wanted.family == old.family);
        let Some(wanted) = place.and_then(|place| creates.remove(place)) else {
            out.writes.push(SliceWrite::Delete(Arc::clone(old)));
            continue;
        };
        out.writes.push(rewrite(old, slice(name, object, &annotations, wanted)));
    }
    if !object.deleting {
        out.writes.extend(
            creates.into_iter().map(|wanted| SliceWrite::Create(slice(name, object, &annotations, wanted))),
        );
    }
    out
}

/// Whether a slice is owned by an `Endpoints` object of this name that is gone: the garbage collector
/// would take it away.
fn is_of_a_former(name: &Text, object: &EndpointsObject, slice: &Slice) -> bool {
    slice.owners.iter().any(|o| &*o.kind == "Endpoints" && o.name == *name && o.uid != object.uid)
}

/// The writes that take a mirror away.
#[must_use]
pub(crate) fn remove(slices: &[Arc<Slice>]) -> Vec<SliceWrite> {
    slices.iter().filter(|s| !s.deleting).map(|s| SliceWrite::Delete(Arc::clone(s))).collect()
}

fn mirrored(subsets: &[Subset], max: usize, out: &mut MirrorPlan) -> Vec<MirroredSlice> {
    let mut packer = Repacker::default();
    for subset in subsets {
        for (ready, addresses) in [(true, &subset.ready), (false, &subset.not_ready)] {
            for address in addresses {
                packer.add(address.clone(), ready, &subset.ports);
            }
        }
    }
    let mut mirrored: Vec<MirroredSlice> = Vec::new();
    for subset in packer.finish() {
        let ports: Ports = subset.ports.iter().cloned().collect();
        let mut room = max;
        for (ready, addresses) in [(true, &subset.ready), (false, &subset.not_ready)] {
            for address in addresses {
                let family = match address.ip.is_ipv6() {
                    None => {
                        out.invalid += 1;
                        continue;
                    }
                    Some(_) if room == 0 => {
                        out.skipped += 1;
                        continue;
                    }
                    Some(true) => AddressType::IPv6,
                    Some(false) => AddressType::IPv4,
                };
                room -= 1;
                let endpoint = endpoint(address, ready);
                match mirrored.iter_mut().find(|p| p.family == family && p.ports == ports) {
                    Some(wanted) => wanted.add(endpoint),
                    None => mirrored.push(MirroredSlice::new(family, ports.clone(), endpoint)),
                }
            }
        }
    }
    mirrored
}

fn endpoint(address: &SubsetAddress, ready: bool) -> Endpoint {
    Endpoint {
        addresses: [address.ip.clone().canonical()].into_iter().collect(),
        ready: Some(ready),
        serving: None,
        terminating: None,
        hostname: address.hostname.clone(),
        target: address.target.clone(),
        node: address.node.clone(),
        zone: None,
        hints: None,
    }
}

/// Whether both lists hold the same endpoints, in whatever order.
fn same_endpoints(old: &[Endpoint], new: &[Endpoint]) -> bool {
    if old.len() != new.len() {
        return false;
    }
    let mut by_address: HashMap<_, Vec<&Endpoint>> = HashMap::with_capacity(old.len());
    for endpoint in old {
        by_address.entry(&endpoint.addresses).or_default().push(endpoint);
    }
    new.iter().all(|wanted| {
        let found = by_address.get_mut(&wanted.addresses);
        found.is_some_and(|list| {
            list.iter()
                .position(|e| e.equals_beside_hints(wanted))
                .map(|place| list.swap_remove(place))
                .is_some()
        })
    })
}

/// The update that makes `new` of a slice.
fn rewrite(old: &Arc<Slice>, new: Slice) -> SliceWrite {
    let new = Slice {
        name: Arc::clone(&old.name),
        uid: old.uid.clone(),
        version: old.version,
        finalizers: Arc::clone(&old.finalizers),
        ..new
    };
    SliceWrite::Update { old: Arc::clone(old), new }
}

fn slice(name: &Text, object: &EndpointsObject, annotations: &Labels, wanted: MirroredSlice) -> Slice {
    Slice {
        name: Text::default(),
        uid: Uid::Absent,
        version: 0,
        generation: 0,
        generate_name: Some(format!("{name}-").into()),
        labels: object.labels.with(keys::MANAGED_BY, keys::MIRROR_MANAGER).with(keys::SERVICE_NAME, name),
        annotations: annotations.clone(),
        owners: Arc::new([Owner::controller("Endpoints", name, &object.uid)]),
        finalizers: Arc::default(),
        deleting: false,
        family: wanted.family,
        ports: wanted.ports,
        endpoints: Arc::new(wanted.endpoints),
    }
}
