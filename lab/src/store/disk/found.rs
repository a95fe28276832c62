//! Copies of the journals as they were found. Opening the database cuts a journal off where it can not read on; when that
//! turns out to have lost an answered write, the journals go back as they were and the directory is left untouched.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

/// Journals of one database, set aside.
pub(super) struct FoundJournals {
    objects: PathBuf,
    copies: PathBuf,
    names: Vec<PathBuf>,
}

const CHUNK: usize = 1 << 20;

impl FoundJournals {
    /// Copies the journals of `objects` to `copies`, in the place of what is there from a start that did not end.
    pub(super) fn set_aside(objects: &Path, copies: &Path) -> io::Result<Self> {
        remove(copies)?;
        fs::create_dir(copies)?;
        let mut names = Vec::new();
        for path in journals(objects)? {
            if let Some(name) = path.file_name() {
                copy_without_tail(&path, &copies.join(name))?;
                names.push(name.into());
            }
        }
        Ok(Self { objects: objects.to_owned(), copies: copies.to_owned(), names })
    }

    /// Puts the journals back as they were.
    pub(super) fn put_back(&self) -> io::Result<()> {
        for name in &self.names {
            fs::copy(self.copies.join(name), self.objects.join(name))?;
        }
        remove(&self.copies)
    }

    /// Lets go of the copies.
    pub(super) fn discard(&self) -> io::Result<()> {
        remove(&self.copies)
    }
}

/// The journal files of a database, oldest first or not.
pub(super) fn journals(objects: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(objects)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "jnl") {
            found.push(path);
        }
    }
    Ok(found)
}

fn remove(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Copies a file but for the zeros at its end: a new journal is 64 MiB of them.
fn copy_without_tail(from: &Path, to: &Path) -> io::Result<()> {
    let (mut source, mut target) = (File::open(from)?, File::create(to)?);
    let mut buffer = vec![0; CHUNK];
    let mut zeros = 0_u64;
    loop {
        let count = source.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        if buffer[..count].iter().all(|byte| *byte == 0) {
            zeros += count as u64;
            continue;
        }
        io::copy(&mut io::repeat(0).take(zeros), &mut target)?;
        zeros = 0;
        target.write_all(&buffer[..count])?;
    }
}
