//! What vanished while a watch was down: a list that starts anew ends in explicit deletions.
//!
//! Owns the names seen in the list under way; never the objects.

use std::sync::Arc;

use foldhash::HashSet;

use super::Index;
use crate::cache::UNKNOWN_VERSION;
use crate::objects::ObjectKind;
use crate::text::{Text, Uid};

/// The list of one kind that is under way, if one is.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    seen: Option<HashSet<(Text, Text)>>,
}

impl Listing {
    /// A list begins.
    pub(crate) fn begin(&mut self) {
        self.seen = Some(HashSet::default());
    }

    /// An object is in the list, or was written by us while it was read.
    pub(crate) fn see(&mut self, namespace: &str, name: &Text) {
        if let Some(seen) = &mut self.seen {
            seen.insert((namespace.into(), Arc::clone(name)));
        }
    }

    /// Whether a list is being read.
    #[must_use]
    pub(crate) fn is_open(&self) -> bool {
        self.seen.is_some()
    }

    /// The list ends; gives which of the known objects it did not have.
    fn missing(&mut self, known: impl Iterator<Item = (Text, Text)>) -> Vec<(Text, Text)> {
        let Some(seen) = self.seen.take() else { return Vec::new() };
        known.filter(|key| !seen.contains(key)).collect()
    }
}

/// The lists of all kinds.
#[derive(Debug, Default)]
pub(crate) struct Listings {
    /// Nodes.
    pub nodes: Listing,
    /// Services.
    pub services: Listing,
    /// Pods.
    pub pods: Listing,
    /// Slices.
    pub slices: Listing,
    /// Endpoints.
    pub endpoints: Listing,
    /// IPAddresses.
    pub addresses: Listing,
    /// Slices that were deleted before the list of slices began: it can not have them.
    pub(crate) tombstones_before: HashSet<Uid>,
    /// The list of Endpoints is the first of a server that was put back to an earlier state.
    endpoints_restored: bool,
}

impl Listings {
    /// The list of a kind.
    fn of(&mut self, kind: ObjectKind) -> &mut Listing {
        match kind {
            ObjectKind::Nodes => &mut self.nodes,
            ObjectKind::Services => &mut self.services,
            ObjectKind::Pods => &mut self.pods,
            ObjectKind::Slices => &mut self.slices,
            ObjectKind::Endpoints => &mut self.endpoints,
            // Those that are no addresses are not in the index.
            _ => &mut self.addresses,
        }
    }
}

/// What a list did not have: namespace and name.
pub(crate) type Missing = Vec<(Text, Text)>;

impl Index {
    /// A list of this kind begins.
    pub fn list_begins(&mut self, kind: ObjectKind) {
        self.listings.of(kind).begin();
        if kind == ObjectKind::Slices {
            self.listings.tombstones_before = self.tombstones.clone();
        }
    }

    /// An object is there, though it could not be read: the list under way does not count it as deleted.
    pub fn is_there(&mut self, kind: ObjectKind, namespace: &str, name: &str) {
        let name = self.shared.texts.text(name);
        self.listings.of(kind).see(namespace, &name);
    }

    /// The server was put back to an earlier state: no version that is known says anything about those
    /// to come, and what was deleted may be there again.
    pub fn restored(&mut self, kind: ObjectKind) {
        match kind {
            ObjectKind::Slices => {
                self.tombstones.clear();
                self.listings.tombstones_before.clear();
                for space in self.namespaces.values_mut() {
                    for set in space.slices.values_mut().chain(space.mirrors.values_mut()) {
                        set.forget_versions();
                    }
                }
            }
            ObjectKind::Endpoints => {
                self.listings.endpoints_restored = true;
                for space in self.namespaces.values_mut() {
                    for object in space.endpoints.values_mut() {
                        object.version = UNKNOWN_VERSION;
                    }
                }
            }
            _ => {}
        }
    }

    /// The list of this kind is complete; gives the known objects that it did not have, which are gone.
    #[must_use = "what is missing is gone"]
    pub fn list_ends(&mut self, kind: ObjectKind) -> Missing {
        let spaces = &self.namespaces;
        let listing = match kind {
            ObjectKind::Nodes => &mut self.listings.nodes,
            ObjectKind::Services => &mut self.listings.services,
            ObjectKind::Pods => &mut self.listings.pods,
            ObjectKind::Slices => &mut self.listings.slices,
            ObjectKind::Endpoints => &mut self.listings.endpoints,
            _ => &mut self.listings.addresses,
        };
        let missing = match kind {
            ObjectKind::Nodes => listing.missing(self.nodes.keys().map(|name| ("".into(), Arc::clone(name)))),
            ObjectKind::Services => {
                listing.missing(spaces.iter().flat_map(|(ns, s)| pairs(ns, s.services.keys())))
            }
            ObjectKind::Pods => listing.missing(spaces.iter().flat_map(|(ns, s)| pairs(ns, s.pods.names()))),
            ObjectKind::Slices => {
                listing.missing(spaces.iter().flat_map(|(ns, s)| pairs(ns, s.homes.keys())))
            }
            ObjectKind::Endpoints => {
                listing.missing(spaces.iter().flat_map(|(ns, s)| pairs(ns, s.endpoints.keys())))
            }
            _ => listing.missing(self.addresses.keys().map(|ip| ("".into(), ip.to_string().into()))),
        };
        if kind == ObjectKind::Slices {
            let before = std::mem::take(&mut self.listings.tombstones_before);
            self.tombstones.retain(|uid| !before.contains(uid));
        }
        missing
    }

    /// Whether the list of `Endpoints` that just ended was the first of a server that was put back.
    pub fn take_endpoints_restored(&mut self) -> bool {
        std::mem::take(&mut self.listings.endpoints_restored)
    }
}

fn pairs<'a>(
    namespace: &'a Text,
    names: impl Iterator<Item = &'a Text> + 'a,
) -> impl Iterator<Item = (Text, Text)> + 'a {
    names.map(|name| (Arc::clone(namespace), Arc::clone(name)))
}
