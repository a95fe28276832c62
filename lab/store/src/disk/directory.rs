//! The data directory as a directory: whether it is one, may be used, and is nobody else's.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use crate::error::StoreError;

/// A data directory that this process holds the lock of.
pub(super) struct Directory {
    pub(super) path: PathBuf,
    /// Held, not used: the lock goes with it, also when the process is killed.
    _lock: File,
}

impl Directory {
    /// Makes the directory if need be, and locks it.
    pub(super) fn claim(path: &Path) -> Result<Self, StoreError> {
        if path.exists() && !path.is_dir() {
            return Err(StoreError::NotADirectory { path: path.to_owned() });
        }
        fs::create_dir_all(path).map_err(|error| StoreError::io(path, "create", error))?;
        let lock_path = path.join("lock");
        if !lock_path.exists() {
            refuse_foreign(path)?;
        }
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&lock_path)
            .map_err(|error| StoreError::io(&lock_path, "open", error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut owner = String::new();
                lock.read_to_string(&mut owner).map_err(|error| StoreError::io(&lock_path, "read", error))?;
                return Err(StoreError::Locked { path: path.to_owned(), owner: owner.trim().parse().ok() });
            }
            Err(TryLockError::Error(error)) => return Err(StoreError::io(&lock_path, "lock", error)),
        }
        lock.set_len(0)
            .and_then(|()| lock.seek(SeekFrom::Start(0)))
            .and_then(|_| writeln!(lock, "{}", std::process::id()))
            .map_err(|error| StoreError::io(&lock_path, "write", error))?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// The witness of how far the store had come.
    pub(super) fn head(&self) -> PathBuf {
        self.path.join("head")
    }

    /// The database.
    pub(super) fn objects(&self) -> PathBuf {
        self.path.join("objects")
    }

    /// The database's files as they were found, while it is being opened.
    pub(super) fn found(&self) -> PathBuf {
        self.path.join("found")
    }
}

/// A directory with anything in it that was not made by this store is somebody else's.
fn refuse_foreign(path: &Path) -> Result<(), StoreError> {
    let entries = fs::read_dir(path).map_err(|error| StoreError::io(path, "read", error))?;
    for entry in entries {
        let entry = entry.map_err(|error| StoreError::io(path, "read", error))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name != "lost+found" {
            return Err(StoreError::NotAStore { path: path.to_owned(), found: name });
        }
    }
    Ok(())
}
