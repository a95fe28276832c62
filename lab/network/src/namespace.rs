//! Network namespaces with a name, as `ip netns` knows them.

use std::{
    fs::{self, File},
    io,
    os::fd::{AsFd as _, AsRawFd as _, RawFd},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, setns, unshare},
};

use crate::error::NetworkError;

/// Where namespaces are named.
const NAMES: &str = "/run/netns";

/// A network namespace. It is removed by [`Namespace::remove`], not by being dropped.
#[derive(Debug, Clone)]
pub struct Namespace {
    name: Arc<str>,
    file: Arc<File>,
}

impl Namespace {
    /// Makes one with its loopback down.
    pub(crate) fn make(name: &str) -> Result<Self, NetworkError> {
        let failed = |source| NetworkError::Namespace { name: name.to_owned(), source };
        let path = path_of(name);
        fs::create_dir_all(NAMES).map_err(failed)?;
        File::create_new(&path).map_err(failed)?;
        // On a thread of its own: the others stay where they are.
        let made = thread::scope(|scope| {
            let path = path.as_path();
            join(scope.spawn(move || -> io::Result<()> {
                unshare(CloneFlags::CLONE_NEWNET)?;
                let own = Some("/proc/thread-self/ns/net");
                mount(own, path, None::<&str>, MsFlags::MS_BIND, None::<&str>)?;
                Ok(())
            }))
        });
        let opened = made.and_then(|()| File::open(&path));
        match opened {
            Ok(file) => Ok(Self { name: name.into(), file: Arc::new(file) }),
            Err(source) => {
                let _ = remove(&path);
                Err(failed(source))
            }
        }
    }

    /// Its name, for `ip netns exec`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The descriptor that stands for it.
    pub(crate) fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Moves the calling thread into it, for good: for threads that do nothing else.
    pub fn enter(&self) -> io::Result<()> {
        Ok(setns(self.file.as_fd(), CloneFlags::CLONE_NEWNET)?)
    }

    /// Does something on a thread that is in it, and waits for that.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        thread::scope(|scope| {
            join(scope.spawn(|| {
                self.enter()?;
                work()
            }))
        })
    }

    /// Removes its name; it is gone with the last that uses it.
    pub(crate) fn remove(&self) -> Result<(), NetworkError> {
        remove(&path_of(&self.name))
            .map_err(|source| NetworkError::Namespace { name: self.name.to_string(), source })
    }
}

fn join<T>(thread: thread::ScopedJoinHandle<'_, io::Result<T>>) -> io::Result<T> {
    thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread for it ended")))
}

fn path_of(name: &str) -> PathBuf {
    Path::new(NAMES).join(name)
}

fn remove(path: &Path) -> io::Result<()> {
    // What is no mount is a name that was left in the middle.
    let _ = umount2(path, MntFlags::MNT_DETACH);
    fs::remove_file(path)
}

/// Removes all whose name begins so; how many.
pub(crate) fn remove_all(prefix: &str) -> usize {
    let entries = fs::read_dir(NAMES).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    named.filter(|entry| remove(&entry.path()).is_ok()).count()
}
