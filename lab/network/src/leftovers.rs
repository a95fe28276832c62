//! The marks of running labs, and what those that were killed have left.
//!
//! A lab holds a lock on a file that is named by its id. One that nobody holds belongs to a lab that is gone: its namespaces and its
//! bridge go, and the file.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use crate::{error::NetworkError, layout, links::Links, namespace};

/// Where labs leave their marks.
pub(crate) const MARKS: &str = "/run/service-controller-manager-lab";

/// The mark of this lab; it is gone when this is dropped.
#[derive(Debug)]
pub(crate) struct Mark {
    path: PathBuf,
    _locked: File,
}

impl Mark {
    /// Marks the lab of this id as running.
    pub(crate) fn set(id: &str) -> Result<Self, NetworkError> {
        let path = Path::new(MARKS).join(id);
        let locked = || -> io::Result<File> {
            fs::create_dir_all(MARKS)?;
            let file = File::create(&path)?;
            file.lock()?;
            Ok(file)
        };
        match locked() {
            Ok(locked) => Ok(Self { path, _locked: locked }),
            Err(source) => Err(NetworkError::Mark { path, source }),
        }
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes what labs have left that did not end by themselves.
pub(crate) async fn remove(links: &Links) {
    for entry in fs::read_dir(MARKS).into_iter().flatten().flatten() {
        let id = entry.file_name().to_string_lossy().into_owned();
        let free = File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok());
        if !free {
            continue;
        }
        let namespaces = namespace::remove_all(&layout::prefix(&id));
        let bridge = links.delete(&layout::bridge(&id)).await.is_ok();
        let _ = fs::remove_file(entry.path());
        if namespaces > 0 || bridge {
            tracing::warn!(lab = id, namespaces, "removed the network of a lab that did not end by itself");
        }
    }
}
