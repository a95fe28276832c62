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

use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
    unistd::{chroot, sethostname},
};

use crate::{leftovers::MARKS, nslookup, wget};

const LONGEST_HOST_NAME: usize = 63;
const RESOLVER: &str = "/etc/resolv.conf";
const AGNHOST: &str = "agnhost";
const BUSYBOX: &str = "busybox";
/// Where in such a root there are more programs.
const MORE: &str = "lab-programs";
/// Its mounts lead back to what is being put together.
const RUN: &str = "run";

/// The name of an image, without where it comes from and which version it is.
pub(crate) fn name_of_image(image: &str) -> &str {
    let name = image.rsplit('/').next().unwrap_or_default();
    name.split([':', '@']).next().unwrap_or_default()
}

/// The calling thread, and what it starts, sees the machine as a pod with this host name, resolver and image does. What its programs are looked
/// up in.
pub(crate) fn take(host: &str, resolver: Option<&str>, image: &str) -> io::Result<OsString> {
    unshare(CloneFlags::CLONE_NEWUTS | CloneFlags::CLONE_NEWNS)?;
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_SLAVE, None::<&str>)?;
    sethostname(&host[..host.len().min(LONGEST_HOST_NAME)])?;
    fs::create_dir_all(MARKS)?;
    let own = Path::new(MARKS);
    mount(Some("tmpfs"), own, Some("tmpfs"), MsFlags::empty(), None::<&str>)?;
    if let Some(text) = resolver
        && fs::exists(RESOLVER)?
    {
        let file = own.join("resolv.conf");
        fs::write(&file, text)?;
        bind(&file, Path::new(RESOLVER), MsFlags::empty())?;
    }
    let program = std::env::current_exe()?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let machine = std::env::split_paths(&path);
    let directories: Vec<PathBuf> = match name_of_image(image) {
        AGNHOST => {
            let directory = root(&own.join("root"), &program)?;
            machine.chain([directory]).collect()
        }
        name => {
            let directories = [own.join("applets"), own.join("ours")];
            directories.iter().try_for_each(fs::create_dir)?;
            let [first, last] = directories;
            if name == BUSYBOX {
                symlink(&program, first.join(wget::NAME))?;
                applets(&first)?;
            }
            symlink(program, last.join(nslookup::NAME))?;
            std::iter::once(first).chain(machine).chain([last]).collect()
        }
    };
    std::env::join_paths(directories).map_err(io::Error::other)
}

fn bind(from: &Path, to: &Path, more: MsFlags) -> io::Result<()> {
    Ok(mount(Some(from), to, None::<&str>, MsFlags::MS_BIND | more, None::<&str>)?)
}

/// Fills a directory with the applets of the machine's busybox, if it has one.
fn applets(directory: &Path) -> io::Result<()> {
    static KNOWN: OnceLock<Option<(PathBuf, Vec<String>)>> = OnceLock::new();
    let Some((program, names)) = KNOWN.get_or_init(busybox) else { return Ok(()) };
    let missing = names.iter().filter(|name| !directory.join(name).exists());
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

/// Goes over to a root directory that has what the machine's has, and this program as `/agnhost`; where in it there are programs that the
/// machine may not have.
fn root(root: &Path, program: &Path) -> io::Result<PathBuf> {
    fs::create_dir(root)?;
    for entry in fs::read_dir("/")?.flatten() {
        let (kind, place) = (entry.file_type()?, root.join(entry.file_name()));
        if kind.is_symlink() {
            symlink(fs::read_link(entry.path())?, place)?;
        } else if kind.is_dir() {
            fs::create_dir(&place)?;
            let whole = if entry.file_name() == RUN { MsFlags::empty() } else { MsFlags::MS_REC };
            bind(&entry.path(), &place, whole)?;
        }
    }
    let own = root.join(AGNHOST);
    fs::write(&own, "")?;
    bind(program, &own, MsFlags::empty())?;
    let more = root.join(MORE);
    fs::create_dir(&more)?;
    applets(&more)?;
    if !more.join(nslookup::NAME).exists() {
        symlink(Path::new("/").join(AGNHOST), more.join(nslookup::NAME))?;
    }
    chroot(root)?;
    std::env::set_current_dir("/")?;
    Ok(Path::new("/").join(MORE))
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
