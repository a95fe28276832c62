//! The head: one small file, written in place after every commit, that says how far the store had come. It is the witness
//! against which the journal is checked: a journal that lost its tail looks like a shorter journal, and nothing in it tells.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use xxhash_rust::xxh3::xxh3_64;

use super::directory::private_file;
use crate::error::StoreError;

/// The format of everything in the data directory. Raised when an older program could not read it.
pub(super) const FORMAT: u32 = 1;

const MAGIC: &[u8; 8] = b"SCMSTORE";
const LENGTH: usize = 64;

/// Which boot of the machine this is. `None` where the system does not say.
pub(super) type BootId = Option<[u8; 16]>;

/// Where a data directory is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Being created: nothing was ever answered from it.
    Creating,
    /// In use, or its process was killed.
    Open,
    /// Closed in order: all of it is synced.
    Closed,
}

/// What the head file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) phase: Phase,
    pub(super) boot: BootId,
    /// The last revision that may have been answered.
    pub(super) committed: u64,
    /// The last revision that is known to be proof against power loss.
    pub(super) synced: u64,
    /// [`super::record::Summary::digest`] at `committed`.
    pub(super) digest: u64,
}

impl Head {
    fn encode(&self) -> [u8; LENGTH] {
        let phase: u32 = match self.phase {
            Phase::Creating => 0,
            Phase::Open => 1,
            Phase::Closed => 2,
        };
        let mut bytes = [0; LENGTH];
        let parts: [&[u8]; 7] = [
            MAGIC,
            &FORMAT.to_le_bytes(),
            &phase.to_le_bytes(),
            &self.boot.unwrap_or_default(),
            &self.committed.to_le_bytes(),
            &self.synced.to_le_bytes(),
            &self.digest.to_le_bytes(),
        ];
        let mut at = 0;
        for part in parts {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        let checksum = xxh3_64(&bytes[..at]).to_le_bytes();
        bytes[at..].copy_from_slice(&checksum);
        bytes
    }

    fn decode(path: &Path, bytes: &[u8]) -> Result<Self, StoreError> {
        let corrupted = |what: &str| StoreError::Corrupted { path: path.to_owned(), what: what.to_owned() };
        let word = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
        if bytes.get(..8) != Some(MAGIC) {
            return Err(corrupted("this is not the head file of a data directory"));
        }
        let format = word(8).ok_or_else(|| corrupted("the file is too short"))?;
        if format > FORMAT {
            return Err(StoreError::NewerFormat { path: path.to_owned(), found: format, known: FORMAT });
        }
        let Ok(bytes) = <&[u8; LENGTH]>::try_from(bytes) else {
            return Err(corrupted("the file has the wrong length"));
        };
        let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|n| bytes[at + n]));
        if long(56) != xxh3_64(&bytes[..56]) {
            return Err(corrupted("the checksum does not match"));
        }
        let phase = match word(12) {
            Some(0) => Phase::Creating,
            Some(1) => Phase::Open,
            Some(2) => Phase::Closed,
            _ => return Err(corrupted("the phase is unknown")),
        };
        let boot: [u8; 16] = std::array::from_fn(|n| bytes[16 + n]);
        let boot = (boot != [0; 16]).then_some(boot);
        Ok(Self { phase, boot, committed: long(32), synced: long(40), digest: long(48) })
    }
}

/// The open head file.
pub(super) struct HeadFile {
    path: PathBuf,
    file: File,
    pub(super) head: Head,
}

impl HeadFile {
    /// Opens the head of a directory; `None` if there is none.
    pub(super) fn open(path: &Path) -> Result<Option<Self>, StoreError> {
        let mut file = match OpenOptions::new().read(true).write(true).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(StoreError::io(path, "open", error)),
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|error| StoreError::io(path, "read", error))?;
        let head = Head::decode(path, &bytes)?;
        Ok(Some(Self { path: path.to_owned(), file, head }))
    }

    /// Makes a head whole or not at all, and proof against power loss.
    pub(super) fn create(path: &Path, head: Head) -> Result<Self, StoreError> {
        let failed = |error| StoreError::io(path, "create", error);
        let draft = path.with_extension("new");
        let mut file = private_file().create(true).truncate(true).open(&draft).map_err(failed)?;
        file.write_all(&head.encode()).and_then(|()| file.sync_all()).map_err(failed)?;
        fs::rename(&draft, path).map_err(failed)?;
        Ok(Self { path: path.to_owned(), file, head })
    }

    /// Writes `self.head` in place; in the hands of the system when it returns.
    pub(super) fn write(&mut self) -> Result<(), StoreError> {
        self.file
            .seek(SeekFrom::Start(0))
            .and_then(|_| self.file.write_all(&self.head.encode()))
            .map_err(|error| StoreError::io(&self.path, "write", error))
    }

    /// Makes what was written proof against power loss.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        self.file.sync_data().map_err(|error| StoreError::io(&self.path, "sync", error))
    }

    /// A second handle for [`File::sync_data`] outside of any lock.
    pub(super) fn handle(&self) -> Result<File, StoreError> {
        self.file.try_clone().map_err(|error| StoreError::io(&self.path, "open", error))
    }
}

/// Asks the system which boot this is (Linux; `None` elsewhere).
pub(super) fn boot_id() -> BootId {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    uuid::Uuid::try_parse(text.trim()).ok().map(uuid::Uuid::into_bytes)
}
