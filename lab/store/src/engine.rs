//! The store itself: one writer at a time, any number of readers, and the order of a commit.
//!
//! A transaction runs with the writer's mutex; readers go on. Its batch goes to the disk with no other lock held. Then,
//! under the state's write lock, it becomes visible and joins the event log, and the watches are woken.

use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

use super::{
    backend::Backend,
    disk::Disk,
    error::{Gone, StoreError, WriteError},
    log::Event,
    options::StoreOptions,
    state::{State, View},
    tx::{Pending, Tx, Workspace},
    types::{Index, ResourceId, Stored},
    watch::Watch,
};

/// The revision of a store in which nothing was ever written. Not 0, which in the API means "any".
const FIRST_REVISION: u64 = 1;

/// Objects, their history and the state derived from them. Clones are the same store.
pub struct Store<I> {
    shared: Arc<Shared<I>>,
}

impl<I> Clone for Store<I> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

/// What all handles and watches of a store share.
pub(super) struct Shared<I> {
    state: RwLock<State<I>>,
    writer: Mutex<Writer>,
    /// One per resource; carries the revision of its last change.
    wake: Vec<watch::Sender<u64>>,
}

/// What only the one writer touches.
struct Writer {
    workspace: Workspace,
    /// `None` in memory.
    backend: Option<Box<dyn Backend>>,
    closed: bool,
}

impl<I: Index> Shared<I> {
    pub(super) fn subscribe(&self, resource: ResourceId) -> watch::Receiver<u64> {
        match self.wake.get(usize::from(resource.0)) {
            Some(sender) => sender.subscribe(),
            None => watch::Sender::new(0).subscribe(),
        }
    }

    pub(super) fn events_after(
        &self,
        resource: ResourceId,
        revision: u64,
        limit: usize,
    ) -> Result<Vec<Arc<Event>>, Gone> {
        let state = self.state.read();
        state.logs.get(usize::from(resource.0)).map_or(Ok(Vec::new()), |log| log.after(revision, limit))
    }

    /// The store's revision if the resource has no event after `revision`.
    pub(super) fn drained_at(&self, resource: ResourceId, revision: u64) -> Option<u64> {
        let state = self.state.read();
        state.logs.get(usize::from(resource.0))?.drained(revision).then_some(state.revision)
    }
}

impl<I: Index> Store<I> {
    /// Opens the store; `index` comes empty and is told of every object that is already there. Whatever is wrong with the
    /// data directory is an error, and leaves it as it was found.
    pub fn open(options: &StoreOptions, index: I) -> Result<Self, StoreError> {
        let resources = options.resource_names.len();
        if resources > usize::from(u16::MAX) {
            return Err(StoreError::Options(format!("{resources} resources are too many")));
        }
        let mut workspace = Workspace::default();
        let mut state = State::new(resources, FIRST_REVISION, options.history, index);
        let mut backend: Option<Box<dyn Backend>> = None;
        if let Some(path) = &options.data_dir {
            let mut take = |loaded| state.load(loaded, &mut workspace.interner);
            let opened = Disk::open(path, &options.resource_names, options.sync, FIRST_REVISION, &mut take)?;
            state.start_at(opened.revision, options.history);
            backend = Some(Box::new(opened.disk));
        }
        Ok(Self::with_backend(state, workspace, backend))
    }

    pub(super) fn with_backend(
        state: State<I>,
        workspace: Workspace,
        backend: Option<Box<dyn Backend>>,
    ) -> Self {
        let wake = state.logs.iter().map(|_| watch::Sender::new(state.revision)).collect();
        let writer = Writer { workspace, backend, closed: false };
        Self { shared: Arc::new(Shared { wake, state: RwLock::new(state), writer: Mutex::new(writer) }) }
    }

    /// Ends the store: what is on disk is proof against power loss when it returns, and every later transaction is
    /// refused. Reads go on.
    pub fn close(&self) -> Result<(), StoreError> {
        let mut writer = self.shared.writer.lock();
        writer.closed = true;
        writer.backend.take().map_or(Ok(()), |mut backend| backend.close())
    }

    /// Looks at the store between two transactions. Keep it short: clone what you need and format it outside. The store
    /// must not be used again inside, that could wait for itself.
    pub fn read<T>(&self, look: impl FnOnce(&View<'_, I>) -> T) -> T {
        look(&View { state: &self.shared.state.read() })
    }

    /// The revision of the last committed change, of any resource.
    pub fn revision(&self) -> u64 {
        self.shared.state.read().revision
    }

    /// Runs a transaction. All its changes happen, on disk first, or none does: after an error, from `work` or from the
    /// disk, the store is byte for byte what it was, its revision included. The store must not be used again inside.
    pub fn write<T, E>(&self, work: impl FnOnce(&mut Tx<'_, I>) -> Result<T, E>) -> Result<T, WriteError<E>> {
        let mut writer = self.shared.writer.lock();
        let (answer, pending, revision) = {
            let state = self.shared.state.read();
            let mut tx = Tx::new(&state, &mut writer.workspace);
            let answer = work(&mut tx).map_err(WriteError::Aborted)?;
            let revision = tx.revision();
            (answer, tx.into_pending(), revision)
        };
        if pending.is_empty() {
            return Ok(answer);
        }
        if writer.closed {
            return Err(WriteError::Storage(StoreError::Closed));
        }
        if let Some(backend) = &mut writer.backend {
            backend.commit(&pending, revision).map_err(WriteError::Storage)?;
        }
        self.publish(pending);
        Ok(answer)
    }

    /// Runs a transaction for its answer alone: nothing of it is kept.
    pub fn dry_run<T>(&self, work: impl FnOnce(&mut Tx<'_, I>) -> T) -> T {
        let mut writer = self.shared.writer.lock();
        let state = self.shared.state.read();
        work(&mut Tx::new(&state, &mut writer.workspace))
    }

    /// Everything that happens to the resource after `revision`. A revision the store has not reached yet is the
    /// caller's to refuse, see [`View::revision`].
    pub fn watch(&self, resource: ResourceId, revision: u64) -> Result<Watch<I>, Gone> {
        let watch = Watch::new(Arc::clone(&self.shared), resource, revision);
        self.shared.events_after(resource, revision, 0)?;
        Ok(watch)
    }

    /// A look at the store, and a watch of what happens to the resource after exactly that look.
    pub fn read_and_watch<T>(
        &self,
        resource: ResourceId,
        look: impl FnOnce(&View<'_, I>) -> T,
    ) -> (T, Watch<I>) {
        let state = self.shared.state.read();
        let answer = look(&View { state: &state });
        let watch = Watch::new(Arc::clone(&self.shared), resource, state.revision);
        (answer, watch)
    }

    /// The objects of a namespace (or of all), the revision they are of, and a watch from there.
    pub fn list_and_watch(
        &self,
        resource: ResourceId,
        namespace: Option<&str>,
    ) -> (Vec<Arc<Stored>>, u64, Watch<I>) {
        let ((objects, revision), watch) = self.read_and_watch(resource, |view| {
            (view.list(resource, namespace, None).cloned().collect::<Vec<_>>(), view.revision())
        });
        (objects, revision, watch)
    }

    /// Makes a transaction visible and wakes the watches, in one critical section.
    fn publish(&self, pending: Vec<Pending>) {
        let mut touched = vec![0_u64; self.shared.wake.len()];
        let mut state = self.shared.state.write();
        let mut values = Vec::with_capacity(pending.len());
        for change in pending {
            touched[usize::from(change.event.object.resource.0)] = change.event.revision;
            values.push(state.apply(change));
        }
        for (sender, revision) in self.shared.wake.iter().zip(touched) {
            if revision > 0 {
                sender.send_replace(revision);
            }
        }
        drop(state);
        // The parsed objects are dropped when nobody waits any more.
        drop(values);
    }
}
