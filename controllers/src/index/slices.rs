//! Slices as events and our own writes tell of them.
//!
//! Owns which slice is kept by whom and for which Service, and which of two versions is the later; what a change calls
//! for is said by the controllers.

use std::sync::Arc;

use super::{Home, Index};
use crate::cache::{self, Slice, SliceKeeper};
use crate::keys;
use crate::objects::{MetaWire, SliceWire};
use crate::text::{Text, Uid};

/// A slice that is no longer kept for a Service, though it is still there.
#[derive(Debug)]
pub struct SliceLeft {
    /// Who kept it, and for which Service.
    pub home: Home,
    /// What it was.
    pub old: Option<Arc<Slice>>,
    /// Whether the same controller is still named as its keeper.
    pub still_kept: bool,
}

/// A slice that is kept for a Service and is not what it was.
#[derive(Debug)]
pub struct SliceKept {
    /// Who keeps it, and for which Service.
    pub home: Home,
    /// Its name.
    pub name: Text,
    /// What it was, if it is the same object.
    pub old: Option<Arc<Slice>>,
    /// What it is; none if only its metadata came, so that the rest has to be read.
    pub new: Option<Arc<Slice>>,
}

/// What an event of a slice changed.
#[derive(Debug, Default)]
pub struct SliceChange {
    /// Whose it was.
    pub left: Option<SliceLeft>,
    /// Whose it is.
    pub kept: Option<SliceKept>,
}

/// Who keeps a slice with this metadata, and for which Service.
fn home(meta: &MetaWire) -> Option<(SliceKeeper, &str)> {
    let service = cache::label(meta, keys::SERVICE_NAME).filter(|s| !s.is_empty())?;
    Some((cache::keeper(meta)?, service))
}

impl Index {
    /// Whose a slice with this metadata was and is: a controller with a write of it under way gets the answer first. The
    /// slice is marked as seen, so that the list under way does not count it as deleted.
    pub fn slice_homes(&mut self, meta: &MetaWire) -> [Option<Home>; 2] {
        let now = home(meta);
        let before = self.home_of(&meta.namespace, &meta.name);
        if before.is_none() && now.is_none() {
            return [None, None];
        }
        let (namespace, name) = self.names(&meta.namespace, &meta.name);
        self.listings.slices.see(&namespace, &name);
        let now = now.map(|(keeper, service)| (keeper, self.shared.texts.text(service)));
        let moved = now != before;
        [before, now.filter(|_| moved)]
    }

    /// Who keeps the slice of this name, and for which Service.
    #[must_use]
    pub fn home_of(&self, namespace: &str, name: &str) -> Option<Home> {
        self.namespaces.get(namespace)?.homes.get(name).cloned()
    }

    /// Whether the slice is known in this version or a later one: mostly the echo of our own write.
    #[must_use]
    pub fn knows_slice(&self, meta: &MetaWire) -> bool {
        let Some(space) = self.namespaces.get(meta.namespace.as_str()) else { return false };
        let Some((keeper, service)) = space.homes.get(meta.name.as_str()) else { return false };
        let known = space.slices_of(*keeper, service).iter().find(|s| *s.name == *meta.name);
        known.is_some_and(|k| k.uid == Uid::from(meta.uid.as_str()) && k.version >= cache::version(meta))
    }

    /// A slice as it is now.
    pub fn apply_slice(&mut self, wire: SliceWire) -> SliceChange {
        let Some((left, now)) = self.slice_moves(&wire.metadata) else { return SliceChange::default() };
        let kept = now.and_then(|home| self.put_slice(home, wire));
        SliceChange { left, kept }
    }

    /// The metadata of a slice as it is now; the rest is not known.
    pub fn apply_slice_metadata(&mut self, meta: &MetaWire) -> SliceChange {
        if self.knows_slice(meta) {
            return SliceChange::default();
        }
        let Some((left, now)) = self.slice_moves(meta) else { return SliceChange::default() };
        let name = self.shared.texts.text(&meta.name);
        SliceChange { left, kept: now.map(|home| SliceKept { home, name, old: None, new: None }) }
    }

    /// Takes the slice out of its old home if that has changed; gives both. Nothing if the slice is nobody's here.
    fn slice_moves(&mut self, meta: &MetaWire) -> Option<(Option<SliceLeft>, Option<Home>)> {
        let before = self.home_of(&meta.namespace, &meta.name);
        let now = home(meta);
        if before.is_none() && now.is_none() {
            return None;
        }
        let (namespace, name) = self.names(&meta.namespace, &meta.name);
        self.listings.slices.see(&namespace, &name);
        let uid = Uid::from(meta.uid.as_str());
        // A list that began after the deletion and has it says that the deletion did not last.
        if self.listings.slices.is_open() && self.listings.tombstones_before.remove(&uid) {
            self.tombstones.remove(&uid);
        }
        if self.tombstones.contains(&uid) {
            return None;
        }
        let now = now.map(|(keeper, service)| (keeper, self.shared.texts.text(service)));
        let left = before.filter(|before| now.as_ref() != Some(before)).map(|home| {
            // Another Service's now, or nobody's, but still this controller's: nobody asked it to stop.
            let still_kept = cache::keeper(meta) == Some(home.0);
            let old = self.forget_slice(&namespace, &name, &home);
            SliceLeft { home, old, still_kept }
        });
        Some((left, now))
    }

    fn put_slice(&mut self, home: Home, wire: SliceWire) -> Option<SliceKept> {
        let uid = Uid::from(wire.metadata.uid.as_str());
        let (namespace, space) = self.open_namespace(&wire.metadata.namespace);
        let (keeper, service) = &home;
        let known = space.set(*keeper, service).get(&wire.metadata.name).filter(|k| k.uid == uid);
        if known.is_some_and(|k| k.version >= cache::version(&wire.metadata)) {
            return None;
        }
        let slice = Arc::new(Slice::read(wire, &mut self.shared));
        let space = self.namespaces.get_mut(&namespace)?;
        space.homes.insert(Arc::clone(&slice.name), home.clone());
        let old = space.set(*keeper, service).put(Arc::clone(&slice)).filter(|o| o.uid == slice.uid);
        Some(SliceKept { home, name: Arc::clone(&slice.name), old, new: Some(slice) })
    }

    fn forget_slice(&mut self, namespace: &str, name: &str, home: &Home) -> Option<Arc<Slice>> {
        let space = self.namespaces.get_mut(namespace)?;
        space.homes.remove(name);
        space.set(home.0, &home.1).remove(name)
    }

    /// Takes out a slice that is gone; gives whose it was and what it was.
    pub fn slice_gone(&mut self, namespace: &str, name: &str) -> Option<(Home, Option<Arc<Slice>>)> {
        let home = self.home_of(namespace, name)?;
        let old = self.forget_slice(namespace, name, &home);
        Some((home, old))
    }

    /// Whether the end of this slice is that of one that we deleted, which is known.
    pub fn take_tombstone(&mut self, uid: &Uid) -> bool {
        self.tombstones.remove(uid)
    }

    /// Enters what the server has taken of a write: `new` under the name, uid and version of the answer.
    pub fn slice_written(&mut self, namespace: &Text, home: &Home, new: Slice) {
        let slice = Slice {
            labels: self.shared.texts.share(new.labels.clone()),
            annotations: self.shared.texts.share(new.annotations.clone()),
            ..new
        };
        self.listings.slices.see(namespace, &slice.name);
        let (_, space) = self.open_namespace(namespace);
        space.homes.insert(Arc::clone(&slice.name), home.clone());
        space.set(home.0, &home.1).put(Arc::new(slice));
    }

    /// Enters that the server has taken a deletion, or that there was nothing to delete.
    pub fn slice_deleted(&mut self, namespace: &Text, home: &Home, old: &Slice) {
        self.forget_slice(namespace, &old.name, home);
        if old.finalizers.is_empty() {
            self.tombstones.insert(old.uid.clone());
        }
    }

    /// Enters that a slice that was to be written is not there.
    pub fn slice_missing(&mut self, namespace: &Text, home: &Home, old: &Slice) {
        self.forget_slice(namespace, &old.name, home);
    }

    /// What is found by a read counts, whatever version was known before: nothing was written since it began, and
    /// events that came meanwhile wait.
    pub fn slices_found(&mut self, namespace: &Text, home: &Home, found: &[SliceWire]) {
        for wire in found {
            self.tombstones.remove(&Uid::from(wire.metadata.uid.as_str()));
        }
        if let Some(space) = self.namespaces.get_mut(namespace) {
            let set = space.set(home.0, &home.1);
            for wire in found {
                set.forget_version_after(wire);
            }
        }
    }

    /// The names of the slices that are known of a Service and were not found by a read of all of them.
    #[must_use]
    pub fn slices_beside(&self, namespace: &str, home: &Home, found: &[SliceWire]) -> Vec<Text> {
        let Some(space) = self.namespaces.get(namespace) else { return Vec::new() };
        let is_found = |slice: &Slice| found.iter().any(|wire| *wire.metadata.name == *slice.name);
        let known = space.slices_of(home.0, &home.1).iter();
        known.filter(|slice| !is_found(slice)).map(|slice| Arc::clone(&slice.name)).collect()
    }

    /// Whether a slice found by a read for a Service is or was that Service's: of others the watch knows better.
    #[must_use]
    pub fn concerns_home(&self, namespace: &str, wire: &SliceWire, home: &Home) -> bool {
        let before = self.home_of(namespace, &wire.metadata.name);
        before.as_ref() == Some(home) || cache::keeper(&wire.metadata) == Some(home.0)
    }
}
