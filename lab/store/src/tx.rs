//! A transaction under way: reads that see its own writes, and the list of changes it wants. It changes nothing itself.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use bytes::Bytes;
use serde_json::{Map, Value};
use smallvec::SmallVec;

use super::{
    error::ObjectError,
    intern::Interner,
    log::Event,
    pending::Pending,
    state::State,
    table::Table,
    text::KindFirst,
    types::{EventType, Index, ResourceId, Stored},
};

/// Longest namespace or name in bytes: both, and the resource's name, fit into one on-disk key.
const MAX_KEY_PART: usize = 16 << 10;

/// What one writer keeps from transaction to transaction.
#[derive(Default)]
pub(super) struct Workspace {
    pub(super) interner: Interner,
    hasher: RandomState,
    json: Vec<u8>,
}

/// The one transaction under way. Dropped without a commit it leaves no trace.
pub struct Tx<'a, I> {
    state: &'a State<I>,
    workspace: &'a mut Workspace,
    revision: u64,
    pending: Vec<Pending>,
    /// Hash of the key to the changes of it, oldest first.
    by_key: HashMap<u64, SmallVec<[u32; 2]>>,
}

impl<'a, I: Index> Tx<'a, I> {
    pub(super) fn new(state: &'a State<I>, workspace: &'a mut Workspace) -> Self {
        Self { state, workspace, revision: state.revision, pending: Vec::new(), by_key: HashMap::new() }
    }

    pub(super) fn into_pending(self) -> Vec<Pending> {
        self.pending
    }

    /// The revision of the last change, those of this transaction included.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The derived state as the last transaction left it: it does not contain this transaction's own changes.
    pub fn index(&self) -> &'a I {
        &self.state.index
    }

    /// The object of that name, this transaction's own changes included.
    pub fn get(&self, resource: ResourceId, namespace: &str, name: &str) -> Option<&Arc<Stored>> {
        match self.pending_for(self.hash(resource, namespace, name), resource, namespace, name) {
            Some(at) => {
                let event = &self.pending[at].event;
                (event.ty != EventType::Deleted).then_some(&event.object)
            }
            None => self.state.table(resource)?.get(namespace, name),
        }
    }

    /// The objects of one namespace (or of all) in list order, this transaction's own changes included.
    pub fn list(&self, resource: ResourceId, namespace: Option<&str>) -> Vec<Arc<Stored>> {
        let Some(table) = self.state.table(resource) else { return Vec::new() };
        let touched = |event: &Event| {
            event.object.resource == resource
                && namespace.is_none_or(|wanted| *wanted == *event.object.namespace)
        };
        if !self.pending.iter().any(|pending| touched(&pending.event)) {
            return table.list(namespace, None).cloned().collect();
        }
        let mut merged = Table::default();
        for stored in table.list(namespace, None) {
            merged.insert(Arc::clone(stored));
        }
        for Pending { event, .. } in self.pending.iter().filter(|pending| touched(&pending.event)) {
            match event.ty {
                EventType::Deleted => merged.remove(&event.object.namespace, &event.object.name),
                EventType::Added | EventType::Modified => merged.insert(Arc::clone(&event.object)),
            }
        }
        merged.list(None, None).cloned().collect()
    }

    /// Creates or replaces the object that `metadata` names, under the next revision, which is written into
    /// `metadata.resourceVersion`. Returns the new version.
    pub fn put(&mut self, resource: ResourceId, object: Value) -> Result<Arc<Stored>, ObjectError> {
        let (namespace, name) = key_of(&object)?;
        let hash = self.hash(resource, &namespace, &name);
        let old = self.get(resource, &namespace, &name).cloned();
        let ty = if old.is_some() { EventType::Modified } else { EventType::Added };
        self.record(hash, ty, resource, old, (&namespace, &name), object)
    }

    /// Removes the object. `last` is the state that watches are shown; it is stamped with the delete's revision and
    /// returned.
    pub fn delete(
        &mut self,
        resource: ResourceId,
        namespace: &str,
        name: &str,
        last: Value,
    ) -> Result<Arc<Stored>, ObjectError> {
        let hash = self.hash(resource, namespace, name);
        let Some(old) = self.get(resource, namespace, name).cloned() else {
            return Err(ObjectError::NotFound { namespace: namespace.into(), name: name.into() });
        };
        self.record(hash, EventType::Deleted, resource, Some(old), (namespace, name), last)
    }

    fn record(
        &mut self,
        hash: u64,
        ty: EventType,
        resource: ResourceId,
        old: Option<Arc<Stored>>,
        (namespace, name): (&str, &str),
        mut object: Value,
    ) -> Result<Arc<Stored>, ObjectError> {
        if self.state.table(resource).is_none() {
            return Err(ObjectError::UnknownResource(resource.0));
        }
        let revision = self.revision + 1;
        let metadata = metadata_mut(&mut object).ok_or(ObjectError::NoMetadata)?;
        metadata.insert("resourceVersion".to_owned(), Value::String(revision.to_string()));
        let interner = &mut self.workspace.interner;
        let labels = interner.labels(metadata.get("labels"));
        let namespace = interner.string(namespace);
        self.workspace.json.clear();
        serde_json::to_writer(&mut self.workspace.json, &KindFirst(&object))
            .map_err(|error| ObjectError::Json(error.to_string()))?;
        let stored = Arc::new(Stored {
            resource,
            namespace,
            name: old.as_ref().map_or_else(|| name.into(), |old| Arc::clone(&old.name)),
            revision,
            created_revision: old.as_ref().map_or(revision, |old| old.created_revision),
            labels,
            body: Bytes::copy_from_slice(&self.workspace.json),
        });
        if let Some(at) = self.pending_for(hash, resource, &stored.namespace, name) {
            self.pending[at].superseded = true;
        }
        let at = u32::try_from(self.pending.len()).map_err(|error| ObjectError::Json(error.to_string()))?;
        self.by_key.entry(hash).or_default().push(at);
        self.pending.push(Pending {
            event: Event { ty, revision, object: Arc::clone(&stored), previous: old },
            value: (ty != EventType::Deleted).then_some(object),
            superseded: false,
        });
        self.revision = revision;
        Ok(stored)
    }

    fn hash(&self, resource: ResourceId, namespace: &str, name: &str) -> u64 {
        self.workspace.hasher.hash_one((resource, namespace, name))
    }

    /// The last change of that object in this transaction.
    fn pending_for(&self, hash: u64, resource: ResourceId, namespace: &str, name: &str) -> Option<usize> {
        self.by_key.get(&hash)?.iter().rev().map(|at| *at as usize).find(|at| {
            let object = &self.pending[*at].event.object;
            object.resource == resource && *object.namespace == *namespace && *object.name == *name
        })
    }
}

fn metadata_mut(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object.as_object_mut()?.get_mut("metadata")?.as_object_mut()
}

fn key_of(object: &Value) -> Result<(String, String), ObjectError> {
    let metadata = object.get("metadata").and_then(Value::as_object).ok_or(ObjectError::NoMetadata)?;
    let text = |field| metadata.get(field).and_then(Value::as_str).unwrap_or_default();
    let (namespace, name) = (text("namespace"), text("name"));
    if name.is_empty() {
        return Err(ObjectError::NoName);
    }
    for (field, part) in [("namespace", namespace), ("name", name)] {
        if part.contains('\0') {
            return Err(ObjectError::BadKey { field, reason: "it contains a NUL byte" });
        }
        if part.len() > MAX_KEY_PART {
            return Err(ObjectError::BadKey { field, reason: "it is longer than 16384 bytes" });
        }
    }
    Ok((namespace.to_owned(), name.to_owned()))
}
