//! Going on after the disk failed: a database with what is in memory takes the place of the one that failed.
//!
//! What a failed database holds, and what of a refused transaction reaches the disk after all, nobody can say; what was
//! answered is known, for it is in memory. So nothing of the old one is used.

use std::{fs, path::Path, sync::Arc};

use fjall::PersistMode;

use super::{
    Disk,
    directory::{close_to_others, private_directory, remove},
    opening,
    record::{self, Summary},
    sync::Syncer,
};
use crate::{error::StoreError, types::Stored};

/// Objects are written in batches of about this many bytes.
const BATCH_BYTES: usize = 4 << 20;

impl Disk {
    /// Exchanges the database for one with exactly these objects. After an error it can be tried again.
    pub(super) fn exchange(&mut self, objects: &[Arc<Stored>], revision: u64) -> Result<(), StoreError> {
        self.syncer.stop();
        if let Some(database) = self.database.take() {
            opening::let_go(database);
        }
        let fresh = self.directory.fresh();
        let summary = match write_fresh(&fresh, &self.names, objects, revision) {
            Ok(summary) => summary,
            Err(error) => {
                // What was written takes the room that is lacking.
                let _ = remove(&fresh);
                return Err(error);
            }
        };
        self.swap(&fresh)?;
        let path = self.directory.objects();
        let database = opening::open(&path)?;
        {
            let mut head = self.head.lock();
            head.head.committed = revision;
            head.head.synced = revision;
            head.head.digest = summary.digest;
            head.write()?;
            head.sync()?;
        }
        self.summary = summary;
        self.syncer = Syncer::start(path, Arc::clone(&self.head), Arc::clone(&self.trouble))?;
        self.database = Some(database);
        Ok(())
    }

    /// Puts the fresh database in the place of the failed one. Wherever the process dies meanwhile, the next start finds
    /// one of the two.
    fn swap(&self, fresh: &Path) -> Result<(), StoreError> {
        let (path, failed) = (self.directory.objects(), self.directory.failed());
        let io = |action| {
            let path = path.clone();
            move |error| StoreError::io(&path, action, error)
        };
        if path.exists() {
            remove(&failed).map_err(io("remove what failed beside"))?;
            fs::rename(&path, &failed).map_err(io("set aside"))?;
        }
        fs::rename(fresh, &path).map_err(io("exchange"))?;
        remove(&failed).map_err(io("remove what failed beside"))
    }
}

/// Writes a database with these objects, proof against power loss, and closes it.
fn write_fresh(
    path: &Path,
    names: &[String],
    objects: &[Arc<Stored>],
    revision: u64,
) -> Result<Summary, StoreError> {
    let io = |error| StoreError::io(path, "write", error);
    remove(path).map_err(io)?;
    private_directory(path).map_err(io)?;
    let (database, keyspace) = opening::open(path)?;
    let written = (|| {
        let mut summary = Summary { revision, ..Summary::default() };
        let (mut batch, mut bytes) = (database.batch(), 0);
        for object in objects {
            let name = &names[usize::from(object.resource.0)];
            let key = record::key(name, &object.namespace, &object.name);
            let checksum = record::checksum_of(&key, object);
            summary.add(checksum);
            bytes += object.body.len();
            batch.insert(&keyspace, key, record::encode(object, checksum));
            if bytes > BATCH_BYTES {
                std::mem::replace(&mut batch, database.batch()).commit()?;
                bytes = 0;
            }
        }
        batch.insert(&keyspace, record::SUMMARY_KEY, summary.encode());
        batch.commit()?;
        database.persist(PersistMode::SyncAll)?;
        Ok(summary)
    })();
    opening::let_go((database, keyspace));
    let summary = written.map_err(|error| StoreError::database(path, "write", error))?;
    close_to_others(path).map_err(io)?;
    Ok(summary)
}
