//! The store itself: one writer at a time, any number of readers, and the order of a commit.
//!
//! A transaction runs with the writer's mutex; readers go on. Its batch goes to the disk with no other lock held. Then,
//! under the state's write lock, it becomes visible and joins the event log, and the watches are woken.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard, RwLock};
use tokio::{runtime::RuntimeFlavor, sync::watch};

use super::{
    backend::Backend,
    disk::Disk,
    error::{Gone, StoreError, WriteError},
    inner::{StoreInner, Writer},
    options::StoreOptions,
    pending::Pending,
    state::{State, View},
    trouble::Trouble,
    tx::{Tx, Workspace},
    types::{Index, ResourceId, Stored},
    watch::Watch,
};

/// The revision of a store in which nothing was ever written. Not 0, which in the API means "any".
const FIRST_REVISION: u64 = 1;

/// How long a failed disk is left alone before it is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// How long a transaction waits on the thread it came on, before the other work of that thread is given to another one.
const SHORT: Duration = Duration::from_millis(1);

/// How long a transaction waits for the ones before it. They take milliseconds, unless the disk does not answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Objects, their history and the state derived from them. Clones are the same store.
pub struct Store<I> {
    inner: Arc<StoreInner<I>>,
}

impl<I> Clone for Store<I> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
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
        let trouble = Arc::new(Trouble::default());
        if let Some(path) = &options.data_dir {
            let mut take = |loaded| state.load(loaded, &mut workspace.interner);
            let opened =
                Disk::open(path, &options.resource_names, options.sync, FIRST_REVISION, &trouble, &mut take)?;
            state.start_at(opened.revision, options.history);
            backend = Some(Box::new(opened.disk));
        }
        Self::with_backend(state, workspace, backend, trouble)
    }

    pub(super) fn with_backend(
        state: State<I>,
        workspace: Workspace,
        backend: Option<Box<dyn Backend>>,
        trouble: Arc<Trouble>,
    ) -> Result<Self, StoreError> {
        let wake = state.logs.iter().map(|_| watch::Sender::new(state.revision)).collect();
        let durable = backend.is_some();
        let writer = Writer { workspace, backend, mending: false, closed: false };
        let slow = AtomicBool::new(false);
        let (state, writer) = (RwLock::new(state), Mutex::new(writer));
        let inner = Arc::new(StoreInner { state, writer, wake, trouble, slow });
        if durable {
            let (weak, trouble) = (Arc::downgrade(&inner), Arc::clone(&inner.trouble));
            thread::Builder::new()
                .name("store-mend".to_owned())
                .spawn(move || mend(&weak, &trouble))
                .map_err(|error| StoreError::Options(format!("no thread can be started: {error}")))?;
        }
        Ok(Self { inner })
    }

    /// What keeps the store from being written, if anything does. Reads and watches go on, and the store tries by itself
    /// to go on with writes.
    pub fn trouble(&self) -> Option<String> {
        let slow = || "the disk has not taken a write for seconds".to_owned();
        self.inner.trouble.cause().or_else(|| self.inner.slow.load(Ordering::Relaxed).then(slow))
    }

    /// Follows what keeps the store from being written, but for a disk that is only slow.
    pub fn watch_trouble(&self) -> watch::Receiver<Option<String>> {
        self.inner.trouble.watch()
    }

    /// The writer's lock, or `None` after [`PATIENCE`]. On a thread that has other things to do these are done by another
    /// one meanwhile: a disk that does not answer must not keep anyone from reading.
    fn writer(&self) -> Option<MutexGuard<'_, Writer>> {
        let writer = &self.inner.writer;
        if let Some(free) = writer.try_lock_for(SHORT) {
            return Some(free);
        }
        let wait = || writer.try_lock_for(PATIENCE);
        let flavor = tokio::runtime::Handle::try_current().map(|handle| handle.runtime_flavor());
        if matches!(flavor, Ok(RuntimeFlavor::MultiThread)) {
            tokio::task::block_in_place(wait)
        } else {
            wait()
        }
    }

    /// Ends the store: what is on disk is proof against power loss when it returns, and every later transaction is
    /// refused. Reads go on.
    pub fn close(&self) -> Result<(), StoreError> {
        let mut writer = self.inner.writer.lock();
        writer.closed = true;
        self.inner.trouble.close();
        writer.backend.take().map_or(Ok(()), |mut backend| backend.close())
    }

    /// Looks at the store between two transactions. Keep it short: clone what you need and format it outside. The store
    /// must not be used again inside, that could wait for itself.
    pub fn read<T>(&self, look: impl FnOnce(&View<'_, I>) -> T) -> T {
        look(&View { state: &self.inner.state.read() })
    }

    /// The revision of the last committed change, of any resource.
    pub fn revision(&self) -> u64 {
        self.inner.state.read().revision
    }

    /// Runs a transaction. All its changes happen, on disk first, or none does: after an error, from `work` or from the
    /// disk, the store is byte for byte what it was, its revision included. The store must not be used again inside.
    pub fn write<T, E>(&self, work: impl FnOnce(&mut Tx<'_, I>) -> Result<T, E>) -> Result<T, WriteError<E>> {
        let Some(mut writer) = self.writer() else {
            self.inner.slow.store(true, Ordering::Relaxed);
            return Err(WriteError::Storage(StoreError::Slow));
        };
        let (answer, pending, revision) = {
            let state = self.inner.state.read();
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
        if writer.mending {
            return Err(WriteError::Storage(StoreError::Failed {
                cause: self.inner.trouble.cause().unwrap_or_default(),
            }));
        }
        if let Some(backend) = &mut writer.backend {
            let committed = backend.commit(&pending, revision);
            self.inner.slow.store(false, Ordering::Relaxed);
            committed.map_err(|error| {
                self.inner.trouble.begin(&error.to_string());
                WriteError::Storage(error)
            })?;
        }
        self.publish(pending);
        Ok(answer)
    }

    /// Runs a transaction for its answer alone: nothing of it is kept.
    pub fn dry_run<T>(&self, work: impl FnOnce(&mut Tx<'_, I>) -> T) -> T {
        let mut writer = self.inner.writer.lock();
        let state = self.inner.state.read();
        work(&mut Tx::new(&state, &mut writer.workspace))
    }

    /// Everything that happens to the resource after `revision`. A revision the store has not reached yet is the
    /// caller's to refuse, see [`View::revision`].
    pub fn watch(&self, resource: ResourceId, revision: u64) -> Result<Watch<I>, Gone> {
        let watch = Watch::new(Arc::clone(&self.inner), resource, revision);
        self.inner.events_after(resource, revision, 0)?;
        Ok(watch)
    }

    /// A look at the store, and a watch of what happens to the resource after exactly that look.
    pub fn read_and_watch<T>(
        &self,
        resource: ResourceId,
        look: impl FnOnce(&View<'_, I>) -> T,
    ) -> (T, Watch<I>) {
        let state = self.inner.state.read();
        let answer = look(&View { state: &state });
        let watch = Watch::new(Arc::clone(&self.inner), resource, state.revision);
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
        let mut touched = vec![0_u64; self.inner.wake.len()];
        let mut state = self.inner.state.write();
        let mut values = Vec::with_capacity(pending.len());
        for change in pending {
            touched[usize::from(change.event.object.resource.0)] = change.event.revision;
            values.push(state.apply(change));
        }
        for (sender, revision) in self.inner.wake.iter().zip(touched) {
            if revision > 0 {
                sender.send_replace(revision);
            }
        }
        drop(state);
        // The parsed objects are dropped when nobody waits any more.
        drop(values);
    }
}

/// Puts a store right again whose disk failed. Nothing can be written meanwhile, so what is in memory is exactly what was
/// answered.
fn mend<I: Index>(inner: &Weak<StoreInner<I>>, trouble: &Trouble) {
    while trouble.wait() {
        let Some(inner) = inner.upgrade() else { return };
        let taken = {
            let mut writer = inner.writer.lock();
            writer.mending = writer.backend.is_some();
            writer.backend.take()
        };
        let Some(mut backend) = taken else { return };
        let (objects, revision) = {
            let state = inner.state.read();
            let objects = state.tables.iter().flat_map(|table| table.list(None, None)).cloned();
            (objects.collect::<Vec<_>>(), state.revision)
        };
        let mended = backend.mend(&objects, revision);
        {
            let mut writer = inner.writer.lock();
            writer.mending = false;
            if !writer.closed {
                writer.backend = Some(backend);
            }
            if mended.is_ok() {
                trouble.end();
            }
        }
        drop(inner);
        if let Err(error) = mended {
            tracing::debug!(%error, "the store cannot be written yet");
            if !trouble.pause(RETRY) {
                return;
            }
        }
    }
}
