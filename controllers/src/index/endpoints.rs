//! `Endpoints` objects as events and our own writes tell of them.
//!
//! Owns how much is kept of one and which of two versions is the later; what a change calls for is said by the
//! controllers.

use std::sync::Arc;

use super::Index;
use crate::cache::{Interners, Owner, UNKNOWN_VERSION, version};
use crate::keys;
use crate::objects::{EndpointsWire, MetaWire};
use crate::subsets::{Subset, digest};
use crate::text::{Labels, Text, Uid};

/// An `Endpoints` object as far as it is kept: its addresses only where they may have to be mirrored.
#[derive(Clone, Debug)]
pub struct EndpointsObject {
    /// Uid.
    pub uid: Uid,
    /// Version of the object.
    pub version: u64,
    /// Labels.
    pub labels: Labels,
    /// Annotations.
    pub annotations: Labels,
    /// Owners.
    pub owners: Arc<[Owner]>,
    /// Finalizers.
    pub finalizers: Arc<[Text]>,
    /// Whether deletion has been asked for.
    pub deleting: bool,
    /// Stands for the addresses; none if they have not been read.
    pub digest: Option<u64>,
    /// How many addresses are ready, if they have been read.
    pub ready: usize,
    /// The addresses; none where this was written by the Endpoints controller, or they have not been read.
    pub subsets: Option<Arc<Vec<Subset>>>,
}

impl EndpointsObject {
    /// Reads an object; the addresses of those that the Endpoints controller wrote are not kept.
    fn read(wire: EndpointsWire, shared: &mut Interners) -> Self {
        let namespace = &wire.metadata.namespace;
        let subsets: Vec<Subset> =
            wire.subsets.into_iter().map(|s| Subset::read(s, namespace, shared)).collect();
        let object = Self::read_metadata(&wire.metadata, shared);
        let ours = object.is_managed();
        let ready = subsets.iter().map(|subset| subset.ready.len()).sum();
        Self { digest: Some(digest(&subsets)), ready, subsets: (!ours).then(|| Arc::new(subsets)), ..object }
    }

    fn read_metadata(meta: &MetaWire, shared: &mut Interners) -> Self {
        Self {
            uid: meta.uid.as_str().into(),
            version: version(meta),
            labels: shared.texts.labels(&meta.labels.0),
            annotations: shared.texts.labels(&meta.annotations.0),
            owners: meta.owner_references.iter().map(|o| Owner::read(o, shared)).collect(),
            finalizers: meta.finalizers.iter().map(|f| shared.texts.text(f)).collect(),
            deleting: meta.deletion_timestamp.is_some(),
            digest: None,
            ready: 0,
            subsets: None,
        }
    }

    fn is_managed(&self) -> bool {
        let manager = self.labels.get(keys::ENDPOINTS_MANAGED_BY);
        manager.is_some_and(|manager| &**manager == keys::ENDPOINTS_MANAGER)
    }

    /// Whether the Endpoints controller wrote it, and nobody has asked for its deletion.
    #[must_use]
    pub fn is_made_here(&self) -> bool {
        self.is_managed() && !self.deleting
    }

    /// Whether it is the lock of a leader election.
    #[must_use]
    pub fn is_lock(&self) -> bool {
        self.annotations.get(keys::LEADER).is_some()
    }
}

/// What an event of an `Endpoints` object changed.
#[derive(Debug)]
pub struct EndpointsChange {
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// Whether there was none before.
    pub first: bool,
    /// Whether its addresses or labels changed, as far as is known.
    pub edited: bool,
    /// Whether it is gone.
    pub gone: bool,
}

impl Index {
    /// An object.
    #[must_use]
    pub fn endpoints(&self, namespace: &str, name: &str) -> Option<&EndpointsObject> {
        self.namespaces.get(namespace)?.endpoints.get(name)
    }

    /// An object as it is now; nothing if that is known.
    pub fn apply_endpoints(&mut self, wire: EndpointsWire) -> Option<EndpointsChange> {
        if self.knows_endpoints(&wire.metadata, true) {
            return None;
        }
        let (namespace, name) = self.names(&wire.metadata.namespace, &wire.metadata.name);
        let object = EndpointsObject::read(wire, &mut self.shared);
        Some(self.put_endpoints(namespace, name, object))
    }

    /// The metadata of an object as it is now; the addresses are not known any more.
    pub fn apply_endpoints_metadata(&mut self, meta: &MetaWire) -> Option<EndpointsChange> {
        if self.knows_endpoints(meta, false) {
            return None;
        }
        let (namespace, name) = self.names(&meta.namespace, &meta.name);
        let object = EndpointsObject::read_metadata(meta, &mut self.shared);
        Some(self.put_endpoints(namespace, name, object))
    }

    /// Whether the object is known in this version or a later one: mostly the echo of our own write. In any case it is
    /// marked as seen, so that the list under way does not count it as deleted.
    fn knows_endpoints(&mut self, meta: &MetaWire, whole: bool) -> bool {
        let (namespace, name) = self.names(&meta.namespace, &meta.name);
        self.listings.endpoints.see(&namespace, &name);
        let known = self.endpoints(&namespace, &name).filter(|k| k.uid == Uid::from(meta.uid.as_str()));
        known.is_some_and(|k| k.version >= version(meta) && !(whole && k.digest.is_none()))
    }

    fn put_endpoints(&mut self, namespace: Text, name: Text, object: EndpointsObject) -> EndpointsChange {
        let (_, space) = self.open_namespace(&namespace);
        let (uid, digest, labels) = (object.uid.clone(), object.digest, object.labels.clone());
        let known = space.endpoints.insert(Arc::clone(&name), object);
        let same = known.as_ref().filter(|known| known.uid == uid);
        let edited = same.is_some_and(|k| digest.is_none() || k.digest != digest || k.labels != labels);
        EndpointsChange { namespace, name, first: known.is_none(), edited, gone: false }
    }

    /// Whether an object with this metadata was made again since, and the answer to that was faster.
    #[must_use]
    pub fn is_overtaken(&self, meta: &MetaWire) -> bool {
        let known = self.endpoints(&meta.namespace, &meta.name);
        known.is_some_and(|known| known.uid != Uid::from(meta.uid.as_str()) && known.version > version(meta))
    }

    /// An object that is gone; nothing if it was not known.
    pub fn endpoints_gone(&mut self, namespace: &str, name: &str) -> Option<EndpointsChange> {
        let (namespace, space) = self.open_namespace(namespace);
        let (name, _) = space.endpoints.remove_entry(name)?;
        Some(EndpointsChange { namespace, name, first: false, edited: true, gone: true })
    }

    /// Enters what the server has taken of a write.
    pub fn endpoints_written(&mut self, namespace: &Text, name: &Text, object: EndpointsObject) {
        self.listings.endpoints.see(namespace, name);
        let (_, space) = self.open_namespace(namespace);
        space.endpoints.insert(Arc::clone(name), object);
    }

    /// Enters that the server has taken a deletion, or that there was nothing to delete.
    pub fn endpoints_deleted(&mut self, namespace: &Text, name: &Text) {
        if let Some(space) = self.namespaces.get_mut(namespace) {
            space.endpoints.remove(name);
        }
    }

    /// What is found by a read counts, whatever version was known before.
    pub fn endpoints_found(&mut self, found: &EndpointsWire) {
        let space = self.namespaces.get_mut(found.metadata.namespace.as_str());
        let known = space.and_then(|space| space.endpoints.get_mut(found.metadata.name.as_str()));
        if let Some(known) = known.filter(|known| known.version > version(&found.metadata)) {
            known.version = UNKNOWN_VERSION;
        }
    }

    /// Enters the addresses of an object, which are wanted for mirroring. If the object came, went or was made anew
    /// since they were asked for, nothing is entered: the watch shows that.
    pub fn addresses_found(&mut self, namespace: &Text, name: &Text, mut wire: EndpointsWire) {
        let subsets = std::mem::take(&mut wire.subsets);
        let subsets: Vec<Subset> =
            subsets.into_iter().map(|s| Subset::read(s, namespace, &mut self.shared)).collect();
        let object = EndpointsObject {
            digest: Some(digest(&subsets)),
            ready: subsets.iter().map(|subset| subset.ready.len()).sum(),
            subsets: Some(Arc::new(subsets)),
            ..EndpointsObject::read_metadata(&wire.metadata, &mut self.shared)
        };
        let known = self.namespaces.get_mut(namespace).and_then(|space| space.endpoints.get_mut(name));
        if let Some(known) = known.filter(|k| k.uid == object.uid && k.version <= object.version) {
            *known = object;
        }
    }
}
