//! The table of kinds and the verbs that work on all of them.
//!
//! Owns what a request means for stored objects: which steps a create, update, patch or delete takes, in which order,
//! inside which transaction. It never sees a header, a media type or a connection, and knows no kind by name but through
//! its [`resource_info::ResourceInfo`] (kinds are in [`kinds`]).

pub(crate) mod attempts;
pub mod error;
pub mod kinds;
pub mod ledger_index;
pub mod object;
pub mod options;
pub mod owner_index;
pub mod resource_info;
pub mod selectors;
pub mod strategy;
pub mod table;
pub mod target;
#[cfg(test)]
pub(crate) mod testing;
pub mod verbs;

use std::collections::HashMap;

use crate::schema::{self, KindSchema};
use crate::store::ResourceId;
use resource_info::ResourceInfo;

pub use ledger_index::{Allocation, LabIndex};
pub use target::Target;

/// A write transaction of the lab's store: `get`, `put`, `delete`, `index`.
pub type Tx<'a> = crate::store::Tx<'a, LabIndex>;

/// A look at the lab's store.
pub type View<'a> = crate::store::View<'a, LabIndex>;

/// The lab's store.
pub type Store = crate::store::Store<LabIndex>;

/// All kinds. A kind's position is its [`ResourceId`].
pub struct Registry {
    entries: Vec<ResourceInfo>,
    derived: Vec<Derived>,
    by_path: HashMap<(&'static str, &'static str), ResourceId>,
}

/// What is derived from an info once.
struct Derived {
    schema: &'static KindSchema,
    /// What each stored body starts with.
    prefix: String,
    /// Where its objects are: its own place, or that of the resource it is a view of.
    stored: ResourceId,
}

impl Registry {
    /// A table of these kinds. A kind without a schema can not be read and is left out.
    pub fn new(entries: Vec<ResourceInfo>) -> Self {
        let mut out = Self { entries: Vec::new(), derived: Vec::new(), by_path: HashMap::new() };
        let known = entries.into_iter().filter_map(|info| {
            let schema = schema::find(info.group, info.version, info.kind)?;
            Some((info, schema))
        });
        for (at, (info, schema)) in (0..).zip(known) {
            let prefix = format!("{{\"kind\":\"{}\",\"apiVersion\":\"{}\",", info.kind, info.api_version());
            out.by_path.insert((info.group, info.resource), ResourceId(at));
            out.entries.push(info);
            out.derived.push(Derived { schema, prefix, stored: ResourceId(at) });
        }
        for at in 0..out.entries.len() {
            let original = out.entries[at].view_of.and_then(|(group, resource, _)| out.id(group, resource));
            if let Some(original) = original {
                out.derived[at].stored = original;
            }
        }
        out
    }

    /// All kinds, in table order.
    pub fn entries(&self) -> &[ResourceInfo] {
        &self.entries
    }

    /// All kinds with their places.
    pub fn ids(&self) -> impl Iterator<Item = (ResourceId, &ResourceInfo)> {
        (0..).map(ResourceId).zip(&self.entries)
    }

    /// The kind at that position, which must come from this table.
    pub fn info(&self, id: ResourceId) -> &ResourceInfo {
        &self.entries[usize::from(id.0)]
    }

    /// The schema of that kind.
    pub fn schema(&self, id: ResourceId) -> &'static KindSchema {
        self.derived[usize::from(id.0)].schema
    }

    /// Where the objects of a resource are; another place for a view of another resource.
    pub fn stored(&self, id: ResourceId) -> ResourceId {
        self.derived[usize::from(id.0)].stored
    }

    /// What each stored body of that kind starts with: `kind` and `apiVersion`, up to the comma before the rest.
    pub fn prefix(&self, id: ResourceId) -> &str {
        &self.derived[usize::from(id.0)].prefix
    }

    /// Where the resource of that group and plural is.
    pub fn id(&self, group: &str, resource: &str) -> Option<ResourceId> {
        self.by_path.get(&(group, resource)).copied()
    }

    /// Where the kind of that `apiVersion` is, whatever its version.
    pub fn id_of_kind(&self, api_version: &str, kind: &str) -> Option<ResourceId> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        self.ids().find(|(_, info)| info.group == group && info.kind == kind).map(|(id, _)| id)
    }

    /// Names of the resources on disk, by place.
    pub fn storage_names(&self) -> Vec<String> {
        self.entries.iter().map(ResourceInfo::qualified_resource).collect()
    }
}
