//! What a command in a pod sees of the machine: its files, but the pod's host name, its resolver, and the programs that its image has.
//!
//! All of it is in a mount namespace of the calling thread, so nothing is left on the machine. Images are not unpacked: one named `busybox`
//! finds our `wget` and the applets of the machine's busybox first, one named `agnhost` has this program as `/agnhost` and the applets last. A
//! machine without `nslookup` gets ours.

use std::{
    ffi::OsString,
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use bytes::Bytes;
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
    unistd::{chroot, sethostname},
};

use crate::{leftovers::MARKS, nslookup, place::Place, wget};

const LONGEST_HOST_NAME: usize = 63;
const RESOLVER: &str = "/etc/resolv.conf";
const AGNHOST: &str = "agnhost";
const BUSYBOX: &str = "busybox";
/// Where in such a root there are more programs.
const MORE: &str = "lab-programs";
/// Its mounts lead back to what is being put together.
const RUN: &str = "run";
const TMP: &str = "tmp";
const UPLOADS: &str = "uploads";
/// What is the kernel's is no file of the machine.
const KERNELS: [&str; 3] = ["dev", "proc", "sys"];
/// How much can be written there; it is memory.
const ROOM: &str = "size=256m";

/// The name of an image, without where it comes from and which version it is.
pub(crate) fn name_of_image(image: &str) -> &str {
    let name = image.rsplit('/').next().unwrap_or_default();
    name.split([':', '@']).next().unwrap_or_default()
}

/// The calling thread, and what it starts, sees the machine as a pod does. `apart`: its files can be read, not changed, and the first program
/// that it starts ends all others with it. What its programs are looked up in.
pub(crate) fn take(place: &Place, apart: bool) -> io::Result<OsString> {
    unshare(CloneFlags::CLONE_NEWUTS | CloneFlags::CLONE_NEWNS)?;
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_SLAVE, None::<&str>)?;
    sethostname(&place.host[..place.host.len().min(LONGEST_HOST_NAME)])?;
    fs::create_dir_all(MARKS)?;
    let own = Path::new(MARKS);
    mount(Some("tmpfs"), own, Some("tmpfs"), MsFlags::empty(), Some(ROOM))?;
    if let Some(text) = &place.resolver
        && fs::exists(RESOLVER)?
    {
        let file = own.join("resolv.conf");
        fs::write(&file, text)?;
        bind(&file, Path::new(RESOLVER), MsFlags::empty())?;
    }
    let program = std::env::current_exe()?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let machine = std::env::split_paths(&path);
    let image = name_of_image(&place.image);
    let directories: Vec<PathBuf> = if image == AGNHOST || apart {
        let (more, busybox) = (Path::new("/").join(MORE), image == BUSYBOX);
        root(&own.join("root"), &program, &Root { apart, busybox, uploads: place.uploads.all() })?;
        let (first, last) = if busybox { (Some(more), None) } else { (None, Some(more)) };
        first.into_iter().chain(machine).chain(last).collect()
    } else {
        let directories = [own.join("applets"), own.join("ours")];
        directories.iter().try_for_each(fs::create_dir)?;
        let [first, last] = directories;
        if image == BUSYBOX {
            symlink(&program, first.join(wget::NAME))?;
            applets(&first)?;
        }
        symlink(program, last.join(nslookup::NAME))?;
        std::iter::once(first).chain(machine).chain([last]).collect()
    };
    if apart {
        // Only now: what was asked of programs above would have been the first.
        unshare(CloneFlags::CLONE_NEWPID)?;
    }
    std::env::join_paths(directories).map_err(io::Error::other)
}

/// Whether something has this name, be it a link that leads nowhere yet.
fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

fn bind(from: &Path, to: &Path, more: MsFlags) -> io::Result<()> {
    Ok(mount(Some(from), to, None::<&str>, MsFlags::MS_BIND | more, None::<&str>)?)
}

/// Fills a directory with the applets of the machine's busybox, if it has one.
fn applets(directory: &Path) -> io::Result<()> {
    static KNOWN: OnceLock<Option<(PathBuf, Vec<String>)>> = OnceLock::new();
    let Some((program, names)) = KNOWN.get_or_init(busybox) else { return Ok(()) };
    let missing = names.iter().filter(|name| !is_there(&directory.join(name)));
    missing.into_iter().try_for_each(|name| symlink(program, directory.join(name)))
}

fn busybox() -> Option<(PathBuf, Vec<String>)> {
    let path = std::env::var_os("PATH")?;
    let program =
        std::env::split_paths(&path).map(|of| of.join(BUSYBOX)).find(|program| program.is_file())?;
    let listed = std::process::Command::new(&program).arg("--list").output().ok()?;
    let names = String::from_utf8_lossy(&listed.stdout).lines().map(str::to_owned).collect();
    Some((program, names))
}

/// A root directory that is put together.
struct Root {
    /// What is the machine's cannot be changed there.
    apart: bool,
    /// Programs are named as busybox has them.
    busybox: bool,
    /// Files of `/uploads`.
    uploads: Vec<(String, Bytes)>,
}

/// Goes over to a root directory that has what the machine's has, this program as `/agnhost`, and in [`MORE`] programs that the machine may not
/// have.
fn root(root: &Path, program: &Path, of: &Root) -> io::Result<()> {
    fs::create_dir(root)?;
    for entry in fs::read_dir("/")?.flatten() {
        let (kind, name) = (entry.file_type()?, entry.file_name());
        let place = root.join(&name);
        if kind.is_symlink() {
            symlink(fs::read_link(entry.path())?, place)?;
        } else if kind.is_dir() {
            fs::create_dir(&place)?;
            if of.apart && name == TMP {
                continue;
            }
            let whole = if name == RUN { MsFlags::empty() } else { MsFlags::MS_REC };
            bind(&entry.path(), &place, whole)?;
            if of.apart && !KERNELS.iter().any(|own| name == *own) {
                let flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
                mount(None::<&str>, &place, None::<&str>, flags, None::<&str>)?;
            }
        }
    }
    let own = root.join(AGNHOST);
    fs::write(&own, "")?;
    bind(program, &own, MsFlags::empty())?;
    let more = root.join(MORE);
    fs::create_dir(&more)?;
    let ours = |name: &str| symlink(Path::new("/").join(AGNHOST), more.join(name));
    if of.busybox {
        ours(wget::NAME)?;
    }
    applets(&more)?;
    if !is_there(&more.join(nslookup::NAME)) {
        ours(nslookup::NAME)?;
    }
    if !of.uploads.is_empty() {
        let uploads = root.join(UPLOADS);
        fs::create_dir_all(&uploads)?;
        of.uploads.iter().try_for_each(|(name, file)| fs::write(uploads.join(name), file))?;
    }
    chroot(root)?;
    std::env::set_current_dir("/")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("busybox", "busybox")]
    #[case("busybox:1.37", "busybox")]
    #[case("r.example:5000/e2e/agnhost:2.53", "agnhost")]
    #[case("agnhost@sha256:00", "agnhost")]
    #[case("", "")]
    fn images(#[case] image: &str, #[case] name: &str) {
        assert_eq!(name_of_image(image), name);
    }
}
