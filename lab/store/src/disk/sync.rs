//! The thread that makes writes proof against power loss, about once a second, without holding anyone up; and the memory
//! of a disk that failed.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use parking_lot::{Condvar, Mutex};

use super::{found::journals, head::HeadFile};
use crate::{error::StoreError, trouble::Trouble};

const INTERVAL: Duration = Duration::from_secs(1);

/// The thread, and what it shares with the writer.
pub(super) struct Syncer {
    shared: Arc<SyncState>,
    thread: Option<JoinHandle<()>>,
}

struct SyncState {
    objects: PathBuf,
    state: Mutex<State>,
    wake: Condvar,
    trouble: Arc<Trouble>,
}

#[derive(Default)]
struct State {
    stopping: bool,
    /// The first thing that went wrong: after it nothing can be promised, so nothing is taken.
    failure: Option<String>,
}

impl Syncer {
    /// Starts the thread for the database in `objects`.
    pub(super) fn start(
        objects: PathBuf,
        head: Arc<Mutex<HeadFile>>,
        trouble: Arc<Trouble>,
    ) -> Result<Self, StoreError> {
        let shared = Arc::new(SyncState { objects, state: Mutex::default(), wake: Condvar::new(), trouble });
        let thread = thread::Builder::new()
            .name("store-sync".to_owned())
            .spawn({
                let shared = Arc::clone(&shared);
                move || run(&shared, &head)
            })
            .map_err(|error| StoreError::io(&shared.objects, "sync", error))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Remembers a failure of the disk and returns it.
    pub(super) fn fail(&self, what: &'static str, error: fjall::Error) -> StoreError {
        let error = StoreError::database(&self.shared.objects, what, error);
        self.shared.remember(&error);
        error
    }

    /// The failure since which nothing is taken, if there was one.
    pub(super) fn failure(&self) -> Option<StoreError> {
        let state = self.shared.state.lock();
        let cause = state.failure.clone()?;
        Some(StoreError::Failed { cause })
    }

    /// Ends the thread and waits for it.
    pub(super) fn stop(&mut self) {
        self.shared.state.lock().stopping = true;
        self.shared.wake.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the store's sync thread had panicked");
        }
    }
}

impl SyncState {
    fn remember(&self, error: &StoreError) {
        self.state.lock().failure.get_or_insert_with(|| error.to_string());
        self.trouble.begin(&error.to_string());
    }
}

fn run(shared: &SyncState, head: &Mutex<HeadFile>) {
    loop {
        {
            let mut state = shared.state.lock();
            if !state.stopping && state.failure.is_none() {
                shared.wake.wait_for(&mut state, INTERVAL);
            }
            if state.stopping || state.failure.is_some() {
                return;
            }
        }
        if let Err(error) = sync_once(&shared.objects, head) {
            shared.remember(&error);
        }
    }
}

/// Syncs what was committed before now, and says so in the head.
fn sync_once(objects: &Path, head: &Mutex<HeadFile>) -> Result<(), StoreError> {
    let (target, handle) = {
        let head = head.lock();
        if head.head.committed == head.head.synced {
            return Ok(());
        }
        (head.head.committed, head.handle()?)
    };
    sync_journals(objects).map_err(|error| StoreError::io(objects, "sync", error))?;
    {
        let mut head = head.lock();
        head.head.synced = head.head.synced.max(target);
        head.write()?;
    }
    handle.sync_data().map_err(|error| StoreError::io(objects, "sync", error))
}

/// Syncs the journal files through handles of our own: the database would hold up every writer meanwhile. One that is gone
/// has been flushed to tables, which are synced before a journal is removed.
fn sync_journals(objects: &Path) -> io::Result<()> {
    for path in journals(objects)? {
        match File::open(&path) {
            Ok(file) => file.sync_data()?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
