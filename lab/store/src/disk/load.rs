//! Reading everything back at start, and the proof that it is everything.

use std::{
    panic::{self, AssertUnwindSafe},
    path::Path,
    sync::mpsc::{SyncSender, sync_channel},
    thread,
};

use fjall::{Database, Keyspace};

use super::{
    head::{self, Head, Phase},
    opening,
    record::{self, Summary},
};
use crate::{backend::Loaded, error::StoreError, types::ResourceId};

/// Records are handed from the thread that reads to the one that parses in chunks of this many.
const CHUNK: usize = 256;

/// A database that is open and known to be whole.
pub(super) struct Contents {
    pub(super) database: Database,
    pub(super) objects: Keyspace,
    pub(super) summary: Summary,
}

/// Opens the database, hands every object to `take`, and checks the whole against the summary and the head.
pub(super) fn load(
    path: &Path,
    names: &[String],
    head: Head,
    take: &mut dyn FnMut(Loaded) -> Result<(), String>,
) -> Result<Contents, StoreError> {
    let (database, objects) = opening::open(path)?;
    let (said, counted) = read_all(path, &objects, names, take)?;
    let summary = match said {
        Some(summary) => summary,
        None if counted.count == 0 => Summary::default(),
        None => return Err(corrupted(path, "the summary record is missing".to_owned())),
    };
    if (summary.count, summary.digest) != (counted.count, counted.digest) {
        let what = format!(
            "{} objects are there whose checksums do not add up; at revision {} there were {}",
            counted.count, summary.revision, summary.count
        );
        return Err(corrupted(path, what));
    }
    check_head(path, head, summary)?;
    Ok(Contents { database, objects, summary })
}

/// The summary that is written, and that of what is there.
fn read_all(
    path: &Path,
    objects: &Keyspace,
    names: &[String],
    take: &mut dyn FnMut(Loaded) -> Result<(), String>,
) -> Result<(Option<Summary>, Summary), StoreError> {
    let mut counted = Summary::default();
    thread::scope(|scope| {
        let (sender, chunks) = sync_channel(8);
        let counted = &mut counted;
        let reader = scope.spawn(move || {
            panic::catch_unwind(AssertUnwindSafe(|| read_records(path, objects, names, counted, &sender)))
                .unwrap_or_else(|cause| Err(corrupted(path, panic_text(&*cause))))
        });
        for loaded in chunks.into_iter().flatten() {
            let named = [&names[usize::from(loaded.resource.0)], &*loaded.namespace, &*loaded.name].join("/");
            take(loaded).map_err(|what| corrupted(path, format!("record {named}: {what}")))?;
        }
        reader.join().unwrap_or_else(|cause| Err(corrupted(path, panic_text(&*cause))))
    })
    .map(|said| (said, counted))
}

fn read_records(
    path: &Path,
    objects: &Keyspace,
    names: &[String],
    counted: &mut Summary,
    sender: &SyncSender<Vec<Loaded>>,
) -> Result<Option<Summary>, StoreError> {
    let mut said = None;
    let mut chunk = Vec::with_capacity(CHUNK);
    for guard in objects.iter() {
        let (key, value) = guard.into_inner().map_err(|error| StoreError::database(path, "read", error))?;
        if &*key == record::SUMMARY_KEY {
            let summary = Summary::decode(&value).map_err(|what| corrupted(path, what.to_owned()))?;
            said = Some(summary);
            continue;
        }
        let record = record::decode(&key, &value)
            .map_err(|what| corrupted(path, format!("record {}: {what}", key.escape_ascii())))?;
        counted.add(record.checksum);
        let (resource, namespace, name) = record::split_key(&key)
            .ok_or_else(|| corrupted(path, format!("record {}: not an object's key", key.escape_ascii())))?;
        let unknown = || StoreError::UnknownResource { path: path.to_owned(), resource: resource.to_owned() };
        let at = names.iter().position(|known| known == resource).ok_or_else(unknown)?;
        chunk.push(Loaded {
            resource: u16::try_from(at).map(ResourceId).map_err(|_| unknown())?,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            revision: record.revision,
            created_revision: record.created_revision,
            body: record.body,
        });
        if chunk.len() == CHUNK && sender.send(std::mem::take(&mut chunk)).is_err() {
            // The other side has found something wrong and says so itself.
            return Ok(said);
        }
    }
    // As above.
    sender.send(chunk).ok();
    Ok(said)
}

/// Whether anything that was answered is missing. Only a machine that went down may have lost writes, and only those
/// after the last sync.
fn check_head(path: &Path, head: Head, summary: Summary) -> Result<(), StoreError> {
    if head.phase == Phase::Creating || summary.revision > head.committed {
        return Ok(());
    }
    if summary.revision == head.committed {
        if summary.digest == head.digest {
            return Ok(());
        }
        let what = format!("the objects at revision {} are not those that were written", head.committed);
        return Err(corrupted(path, what));
    }
    let same_boot = head.boot.is_some() && head.boot == head::boot_id();
    if head.phase == Phase::Closed || same_boot || summary.revision < head.synced {
        return Err(StoreError::LostWrites {
            path: path.to_owned(),
            found: summary.revision,
            answered: head.committed,
        });
    }
    tracing::warn!(
        found = summary.revision,
        answered = head.committed,
        "the machine went down before the last writes were synced; they are lost"
    );
    Ok(())
}

fn corrupted(path: &Path, what: String) -> StoreError {
    StoreError::Corrupted { path: path.to_owned(), what }
}

fn panic_text(cause: &(dyn std::any::Any + Send)) -> String {
    let text = cause.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| cause.downcast_ref::<String>().cloned());
    format!("the database gave up: {}", text.unwrap_or_default())
}
