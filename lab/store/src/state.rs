//! What is true after the last transaction, and the read access to it. It never takes a lock and never waits.

use std::sync::Arc;

use serde_json::Value;

use super::{
    backend::Loaded,
    intern::Interner,
    log::Log,
    options::History,
    partial::without_managed_fields,
    pending::Pending,
    table::Table,
    types::{EventType, Index, ObjectChange, ResourceId, Stored},
};

/// Everything that a transaction changes at once.
pub(super) struct State<I> {
    pub(super) revision: u64,
    pub(super) tables: Vec<Table>,
    pub(super) logs: Vec<Log>,
    pub(super) index: I,
}

impl<I: Index> State<I> {
    /// No objects, at `revision`.
    pub(super) fn new(resources: usize, revision: u64, history: History, index: I) -> Self {
        Self {
            revision,
            tables: (0..resources).map(|_| Table::default()).collect(),
            logs: (0..resources).map(|_| Log::new(history, revision)).collect(),
            index,
        }
    }

    /// Takes in an object that was found on disk, or says what is wrong with it.
    pub(super) fn load(&mut self, loaded: Loaded, interner: &mut Interner) -> Result<(), String> {
        let object = without_managed_fields(&loaded.body).map_err(|error| error.to_string())?;
        let metadata = object.get("metadata").and_then(Value::as_object).ok_or("it has no metadata")?;
        let text = |field| metadata.get(field).and_then(Value::as_str).unwrap_or_default();
        if (text("namespace"), text("name")) != (&*loaded.namespace, &*loaded.name) {
            return Err(format!("it is named {}/{}", text("namespace"), text("name")));
        }
        let stored = Stored {
            resource: loaded.resource,
            namespace: interner.string(&loaded.namespace),
            name: loaded.name.into(),
            revision: loaded.revision,
            created_revision: loaded.created_revision,
            labels: interner.labels(metadata.get("labels")),
            body: loaded.body,
        };
        self.index.apply(&ObjectChange { resource: loaded.resource, old: None, new: Some(&object) });
        self.tables[usize::from(loaded.resource.0)].insert(Arc::new(stored));
        Ok(())
    }

    /// Goes on from `revision`, with no history.
    pub(super) fn start_at(&mut self, revision: u64, history: History) {
        self.revision = revision;
        self.logs = self.tables.iter().map(|_| Log::new(history, revision)).collect();
    }

    /// The table of a resource, if the store has it.
    pub(super) fn table(&self, resource: ResourceId) -> Option<&Table> {
        self.tables.get(usize::from(resource.0))
    }

    /// Takes over one change of a committed transaction, and gives back its parsed object to be dropped at leisure. The
    /// resource is known to exist.
    pub(super) fn apply(&mut self, pending: Pending) -> Option<Value> {
        self.index.apply(&pending.change());
        let event = pending.event;
        let at = usize::from(event.object.resource.0);
        if event.ty == EventType::Deleted {
            self.tables[at].remove(&event.object.namespace, &event.object.name);
        } else {
            self.tables[at].insert(Arc::clone(&event.object));
        }
        self.revision = event.revision;
        self.logs[at].push(Arc::new(event));
        pending.value
    }
}

/// A consistent look at the store while [`super::Store::read`] runs. Take what you need and leave: a transaction waits
/// meanwhile. Never call the store again from inside.
pub struct View<'a, I> {
    pub(super) state: &'a State<I>,
}

impl<'a, I: Index> View<'a, I> {
    /// The revision of the last committed change, of any resource.
    pub fn revision(&self) -> u64 {
        self.state.revision
    }

    /// The derived state.
    pub fn index(&self) -> &'a I {
        &self.state.index
    }

    /// The object of that name; `namespace` is empty for cluster-scoped resources.
    pub fn get(&self, resource: ResourceId, namespace: &str, name: &str) -> Option<&'a Arc<Stored>> {
        self.state.table(resource)?.get(namespace, name)
    }

    /// The objects of one namespace (or of all) in list order, from just after the key `after` = (namespace, name),
    /// which need not exist any more. An unknown resource has none.
    pub fn list(
        &self,
        resource: ResourceId,
        namespace: Option<&str>,
        after: Option<(&str, &str)>,
    ) -> impl Iterator<Item = &'a Arc<Stored>> + use<'a, I> {
        self.state.table(resource).map(|table| table.list(namespace, after)).into_iter().flatten()
    }

    /// How many objects the resource has, without counting.
    pub fn count(&self, resource: ResourceId) -> usize {
        self.state.table(resource).map_or(0, Table::count)
    }

    /// How many objects the resource has in one namespace, without counting.
    pub fn count_in(&self, resource: ResourceId, namespace: &str) -> usize {
        self.state.table(resource).map_or(0, |table| table.count_in(namespace))
    }

    /// The oldest revision a watch of the resource can start from.
    pub fn oldest_revision(&self, resource: ResourceId) -> u64 {
        self.state.logs.get(usize::from(resource.0)).map_or(self.state.revision, Log::oldest)
    }

    /// Sizes for metrics, without counting.
    pub fn stats(&self, resource: ResourceId) -> ResourceStats {
        let (events, event_bytes) = self.state.logs.get(usize::from(resource.0)).map_or((0, 0), Log::size);
        let table = self.state.table(resource);
        ResourceStats {
            objects: table.map_or(0, Table::count),
            object_bytes: table.map_or(0, Table::body_bytes),
            events,
            event_bytes,
        }
    }
}

/// The sizes of one resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceStats {
    /// Live objects.
    pub objects: usize,
    /// Bytes of their JSON.
    pub object_bytes: usize,
    /// Events in the log.
    pub events: usize,
    /// Bytes of object versions that only the log keeps.
    pub event_bytes: usize,
}
