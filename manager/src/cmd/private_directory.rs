//! A temporary directory for what gives access, and the end of those that a killed process left behind.
//!
//! A directory is in use while its lock is held, which ends with the process however it ends.

use std::{
    fs::{DirBuilder, File, TryLockError},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

const PREFIX: &str = "service-lab-";
const LOCK: &str = "lock";

/// A directory that only this user can enter; removed when dropped.
#[derive(Debug)]
pub(super) struct PrivateDirectory {
    path: PathBuf,
    _lock: File,
}

impl PrivateDirectory {
    /// A new one. It has its name only when it is locked, so that nobody takes it for an abandoned one.
    pub(super) fn new(within: &Path) -> io::Result<Self> {
        let name = uuid::Uuid::new_v4();
        let (unlocked, path) =
            (within.join(format!(".{PREFIX}{name}")), within.join(format!("{PREFIX}{name}")));
        DirBuilder::new().mode(0o700).create(&unlocked)?;
        let lock = File::create_new(unlocked.join(LOCK))?;
        lock.lock()?;
        std::fs::rename(&unlocked, &path)?;
        Ok(Self { path, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            tracing::debug!(%error, dir = %self.path.display(), "temporary directory stays");
        }
    }
}

/// Removes the directories whose process is gone. Those of other users stay, and what cannot be removed.
pub(super) fn remove_abandoned(within: &Path) {
    let Ok(entries) = std::fs::read_dir(within) else { return };
    for entry in entries.filter_map(Result::ok) {
        let path = entry.path();
        let ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if !ours || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        // Without a lock file it is something else.
        let Ok(lock) = File::open(path.join(LOCK)) else { continue };
        match lock.try_lock() {
            Ok(()) => {
                let removed = std::fs::remove_dir_all(&path);
                tracing::debug!(?removed, dir = %path.display(), "left behind by a process that was killed");
            }
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_a_killed_process_left_goes_and_what_is_in_use_stays() {
        let within = tempfile::tempdir().unwrap();
        let used = PrivateDirectory::new(within.path()).unwrap();
        let mode = std::fs::metadata(used.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        // As after SIGKILL: the lock is gone, the files are there.
        let abandoned = within.path().join("service-lab-abandoned");
        std::fs::create_dir(&abandoned).unwrap();
        std::fs::write(abandoned.join(LOCK), "").unwrap();
        std::fs::write(abandoned.join("kubeconfig"), "secret").unwrap();
        let others = within.path().join("service-lab-of-somebody");
        std::fs::create_dir(&others).unwrap();
        remove_abandoned(within.path());
        assert!(!abandoned.exists() && used.path().exists() && others.exists());
        let path = used.path().to_owned();
        drop(used);
        assert!(!path.exists());
    }
}
