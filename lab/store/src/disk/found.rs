//! The database's files as they were found. Opening the database cuts a journal off where it can not read on, and removes
//! what it takes for leftovers; when that turns out to have lost an answered write, the files go back as they were.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use super::directory::{private_directory, private_file, remove};

/// The files of one database, set aside: its journals, which are written in place, as copies, and everything else, which is
/// written once, as second names.
pub(super) struct Found {
    objects: PathBuf,
    aside: PathBuf,
}

const CHUNK: usize = 1 << 20;

impl Found {
    /// Sets the files of `objects` aside, in the place of what is there from a start that did not end.
    pub(super) fn set_aside(objects: &Path, aside: &Path) -> io::Result<Self> {
        remove(aside)?;
        set_aside(objects, aside)?;
        Ok(Self { objects: objects.to_owned(), aside: aside.to_owned() })
    }

    /// Puts the files back as they were.
    pub(super) fn put_back(&self) -> io::Result<()> {
        let spoilt = self.aside.with_extension("spoilt");
        remove(&spoilt)?;
        fs::rename(&self.objects, &spoilt)?;
        fs::rename(&self.aside, &self.objects)?;
        remove(&spoilt)
    }

    /// Lets go of what was set aside.
    pub(super) fn discard(&self) -> io::Result<()> {
        remove(&self.aside)
    }
}

/// The journal files of a database.
pub(super) fn journals(objects: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(objects)? {
        let path = entry?.path();
        if is_journal(&path) {
            found.push(path);
        }
    }
    Ok(found)
}

fn is_journal(path: &Path) -> bool {
    path.extension() == Some(OsStr::new("jnl"))
}

fn set_aside(from: &Path, to: &Path) -> io::Result<()> {
    private_directory(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            set_aside(&path, &target)?;
        } else if is_journal(&path) {
            copy_without_tail(&path, &target)?;
        } else if fs::hard_link(&path, &target).is_err() {
            // Not every file system has second names.
            fs::copy(&path, &target)?;
        }
    }
    Ok(())
}

/// Copies a file, with a hole for the zeros at its end: a new journal is 64 MiB of them.
fn copy_without_tail(from: &Path, to: &Path) -> io::Result<()> {
    let mut source = File::open(from)?;
    let mut target = private_file().create(true).truncate(true).open(to)?;
    let mut buffer = vec![0; CHUNK];
    let (mut length, mut zeros) = (0, 0_u64);
    loop {
        let count = source.read(&mut buffer)?;
        if count == 0 {
            return target.set_len(length);
        }
        length += count as u64;
        let used = buffer[..count].iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        if used == 0 {
            zeros += count as u64;
            continue;
        }
        io::copy(&mut io::repeat(0).take(zeros), &mut target)?;
        target.write_all(&buffer[..used])?;
        zeros = (count - used) as u64;
    }
}
