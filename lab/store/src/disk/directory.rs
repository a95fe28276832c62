//! The data directory as a directory: whether it is one, may be used, and is nobody else's.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Read, Seek, SeekFrom, Write},
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
        private_directory(path).map_err(|error| StoreError::io(path, "create", error))?;
        let lock_path = path.join("lock");
        if !lock_path.exists() {
            refuse_foreign(path)?;
        }
        let mut lock = private_file()
            .read(true)
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

    /// A database that is to take the place of one that failed.
    pub(super) fn fresh(&self) -> PathBuf {
        self.path.join("objects.fresh")
    }

    /// A database that failed, until the one in its place is there.
    pub(super) fn failed(&self) -> PathBuf {
        self.path.join("objects.failed")
    }

    /// Ends an exchange of databases that a death of the process broke off.
    pub(super) fn settle(&self) -> Result<(), StoreError> {
        let (objects, failed) = (self.objects(), self.failed());
        if failed.exists() && !objects.exists() {
            fs::rename(&failed, &objects).map_err(|error| StoreError::io(&failed, "rename", error))?;
        }
        for leftover in [failed, self.fresh()] {
            remove(&leftover).map_err(|error| StoreError::io(&leftover, "remove", error))?;
        }
        Ok(())
    }

    /// The database's files as they were found, while it is being opened.
    pub(super) fn found(&self) -> PathBuf {
        self.path.join("found")
    }
}

/// Removes a directory, if it is there.
pub(super) fn remove(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A directory that nobody else can look into, whatever the umask. One that is there already is closed to others.
pub(super) fn private_directory(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
        builder.mode(0o700).create(path)?;
        let mode = fs::metadata(path)?.permissions().mode();
        if mode & 0o077 != 0 {
            fs::set_permissions(path, fs::Permissions::from_mode(mode & !0o077 | 0o700))?;
        }
        Ok(())
    }
    #[cfg(not(unix))]
    builder.create(path)
}

/// How to open a file for writing that nobody else can read, if it is made.
pub(super) fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options
}

/// Takes the rights of others from all files below a directory: the database makes its own as the umask has it.
pub(super) fn close_to_others(directory: &Path) -> io::Result<()> {
    #[cfg(unix)]
    for entry in fs::read_dir(directory)? {
        use std::os::unix::fs::PermissionsExt as _;
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            private_directory(&entry.path())?;
            close_to_others(&entry.path())?;
        } else if entry.metadata()?.permissions().mode() & 0o077 != 0 {
            fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o600))?;
        }
    }
    Ok(())
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
