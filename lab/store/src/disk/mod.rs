//! The store on disk: a log-structured database (fjall) for the objects, and a witness beside it that notices what the
//! database would lose without a word.
//!
//! ```text
//! DIR/lock      held while a process uses the directory; says which
//! DIR/head      how far the store had come, and what all objects together come to (see `head`)
//! DIR/objects/  the database: one record per object and one summary, written in one atomic batch per transaction
//! DIR/found/    the database as it was found, only while it is being opened
//! DIR/objects.fresh/, DIR/objects.failed/   only while a database that failed is exchanged (see `mend`)
//! ```
//!
//! Every transaction is in the hands of the system before it is answered, so the death of the process loses nothing. A
//! background thread makes it proof against power loss about once a second.

mod directory;
mod found;
mod head;
mod load;
mod mend;
mod opening;
mod record;
mod sync;

#[cfg(test)]
mod tests;

use std::{path::Path, sync::Arc};

use fjall::{
    Database, Keyspace, KeyspaceCreateOptions, PersistMode,
    config::{CompressionPolicy, FilterPolicy, FilterPolicyEntry},
};
use parking_lot::Mutex;

use self::{
    directory::{Directory, close_to_others},
    found::Found,
    head::{Head, HeadFile, Phase},
    load::Contents,
    record::Summary,
    sync::Syncer,
};
use super::{
    backend::{Backend, Loaded},
    error::StoreError,
    options::Sync,
    pending::Pending,
    trouble::Trouble,
    types::{EventType, Stored},
};

/// Revisions that are skipped after a power loss, so that none that was answered and lost is used again.
const LOST_REVISIONS: u64 = 1_000_000;

/// The database's cache. Blocks are read once, at load.
const CACHE_BYTES: u64 = 1 << 20;

/// The database's write buffer; up to four are held while the disk is slow.
const MEMTABLE_BYTES: u64 = 8 << 20;

/// The smallest limit of all journals together that the database takes.
const JOURNAL_BYTES: u64 = 64 << 20;

/// The open data directory.
pub(super) struct Disk {
    names: Arc<[String]>,
    /// `None` once closed.
    database: Option<(Database, Keyspace)>,
    summary: Summary,
    head: Arc<Mutex<HeadFile>>,
    sync: Sync,
    syncer: Syncer,
    trouble: Arc<Trouble>,
    /// Declared last: the lock goes when everything else is closed.
    directory: Directory,
}

/// Where a load got to.
pub(super) struct Opened {
    pub(super) disk: Disk,
    /// The revision to go on from.
    pub(super) revision: u64,
}

impl Disk {
    /// Opens `path` and hands every object to `take`, which may say what is wrong with it. `first` is the revision of a
    /// new store.
    pub(super) fn open(
        path: &Path,
        names: &[String],
        sync: Sync,
        first: u64,
        trouble: &Arc<Trouble>,
        take: &mut dyn FnMut(Loaded) -> Result<(), String>,
    ) -> Result<Opened, StoreError> {
        check_names(names)?;
        let directory = Directory::claim(path)?;
        directory.settle()?;
        let head = match HeadFile::open(&directory.head())? {
            Some(head) if head.head.phase != Phase::Creating => head,
            unfinished => create(&directory, unfinished.is_some())?,
        };
        let names: Arc<[String]> = names.into();
        let found = Found::set_aside(&directory.objects(), &directory.found())
            .map_err(|error| StoreError::io(&directory.found(), "write", error))?;
        let contents = match load::load(&directory.objects(), &names, head.head, take) {
            Ok(contents) => contents,
            Err(error) => {
                found.put_back().map_err(|error| StoreError::io(&directory.objects(), "restore", error))?;
                return Err(error);
            }
        };
        found.discard().map_err(|error| StoreError::io(&directory.found(), "remove", error))?;
        let (head, summary) = go_on(&directory, &contents, head, first)?;
        let head = Arc::new(Mutex::new(head));
        close_to_others(path).map_err(|error| StoreError::io(path, "close to others", error))?;
        let syncer = Syncer::start(directory.objects(), Arc::clone(&head), Arc::clone(trouble))?;
        let Contents { database, objects, .. } = contents;
        let database = Some((database, objects));
        let trouble = Arc::clone(trouble);
        let disk = Self { names, database, summary, head, sync, syncer, trouble, directory };
        Ok(Opened { revision: summary.revision, disk })
    }
}

/// Everything is loaded and sound: settles the revision to go on from, and says on disk that the store is open.
fn go_on(
    directory: &Directory,
    contents: &Contents,
    mut head: HeadFile,
    first: u64,
) -> Result<(HeadFile, Summary), StoreError> {
    let boot = head::boot_id();
    let power_lost = head.head.phase == Phase::Open && (boot.is_none() || boot != head.head.boot);
    let mut summary = contents.summary;
    summary.revision = match (summary.revision.max(head.head.committed), power_lost) {
        (0, _) => first,
        (reached, true) => reached + LOST_REVISIONS,
        (reached, false) => reached,
    };
    let mut batch = contents.database.batch().durability(Some(PersistMode::SyncAll));
    batch.insert(&contents.objects, record::SUMMARY_KEY, summary.encode());
    batch.commit().map_err(|error| StoreError::database(&directory.objects(), "write", error))?;
    head.head = Head {
        phase: Phase::Open,
        boot,
        committed: summary.revision,
        synced: summary.revision,
        digest: summary.digest,
    };
    head.write()?;
    head.sync()?;
    Ok((head, summary))
}

impl Backend for Disk {
    fn commit(&mut self, changes: &[Pending], revision: u64) -> Result<(), StoreError> {
        if let Some(failure) = self.syncer.failure() {
            return Err(failure);
        }
        let Some((database, objects)) = &self.database else {
            return Err(StoreError::Failed { cause: self.trouble.cause().unwrap_or_default() });
        };
        let mut summary = self.summary;
        summary.revision = revision;
        let mut batch = database.batch();
        if self.sync == Sync::Always {
            batch = batch.durability(Some(PersistMode::SyncData));
        }
        for Pending { event, superseded, .. } in changes {
            let object = &event.object;
            let name = &self.names[usize::from(object.resource.0)];
            let key = record::key(name, &object.namespace, &object.name);
            if let Some(previous) = &event.previous {
                summary.remove(record::checksum_of(&key, previous));
            }
            let deleted = event.ty == EventType::Deleted;
            let checksum = if deleted { 0 } else { record::checksum_of(&key, object) };
            if !deleted {
                summary.add(checksum);
            }
            match (superseded, deleted) {
                (true, _) => {}
                (false, true) => batch.remove(objects, key),
                (false, false) => batch.insert(objects, key, record::encode(object, checksum)),
            }
        }
        batch.insert(objects, record::SUMMARY_KEY, summary.encode());
        batch.commit().map_err(|error| self.syncer.fail("write", error))?;
        self.summary = summary;
        self.witness();
        Ok(())
    }

    fn mend(&mut self, objects: &[Arc<Stored>], revision: u64) -> Result<(), StoreError> {
        self.exchange(objects, revision)
    }

    fn close(&mut self) -> Result<(), StoreError> {
        self.syncer.stop();
        let Some(database) = self.database.take() else { return Ok(()) };
        if let Some(failure) = self.syncer.failure() {
            // What a failed write left in the database's buffer must not reach the disk after all.
            std::mem::forget(database);
            return Err(failure);
        }
        database.0.persist(PersistMode::SyncAll).map_err(|error| self.syncer.fail("sync", error))?;
        drop(database);
        let mut head = self.head.lock();
        head.head.phase = Phase::Closed;
        head.head.synced = head.head.committed;
        head.write()?;
        head.sync()
    }
}

impl Disk {
    /// Notes in the head how far the store has come. The transaction is on disk already: that the head can not be written
    /// must not undo it, so it is only said.
    fn witness(&mut self) {
        let mut head = self.head.lock();
        head.head.committed = self.summary.revision;
        head.head.digest = self.summary.digest;
        if self.sync == Sync::Always {
            head.head.synced = self.summary.revision;
        }
        if let Err(error) = head.write() {
            tracing::error!(%error, "the head file is behind: a loss of later writes would not be noticed");
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::error!(%error, "the data directory was not closed in order");
        }
    }
}

/// Begins a data directory, from nothing or from a start that did not end.
fn create(directory: &Directory, unfinished: bool) -> Result<HeadFile, StoreError> {
    let objects = directory.objects();
    if objects.exists() {
        if !unfinished {
            return Err(StoreError::Corrupted {
                path: directory.head(),
                what: "the file is missing, but there are objects".to_owned(),
            });
        }
        std::fs::remove_dir_all(&objects).map_err(|error| StoreError::io(&objects, "remove", error))?;
    }
    let head = Head { phase: Phase::Creating, boot: head::boot_id(), committed: 0, synced: 0, digest: 0 };
    let head = HeadFile::create(&directory.head(), head)?;
    directory::private_directory(&objects).map_err(|error| StoreError::io(&objects, "create", error))?;
    Ok(head)
}

fn check_names(names: &[String]) -> Result<(), StoreError> {
    for (at, name) in names.iter().enumerate() {
        if name.is_empty() || name.contains('\0') || name.len() > 255 || names[..at].contains(name) {
            return Err(StoreError::Options(format!("bad or repeated resource name {name:?}")));
        }
    }
    Ok(())
}

/// Opens the database with small buffers: it is written all the time and read once.
fn open_database(path: &Path) -> fjall::Result<(Database, Keyspace)> {
    let database = Database::builder(path)
        .cache_size(CACHE_BYTES)
        .max_journaling_size(JOURNAL_BYTES)
        .max_cached_files(Some(64))
        .worker_threads(1)
        .open()?;
    let objects = database.keyspace("objects", || {
        KeyspaceCreateOptions::default()
            .max_memtable_size(MEMTABLE_BYTES)
            .filter_policy(FilterPolicy::all(FilterPolicyEntry::None))
            .data_block_compression_policy(CompressionPolicy::all(fjall::CompressionType::Lz4))
    })?;
    Ok((database, objects))
}
