//! Data directories that are locked, foreign, damaged or from another time. Every refusal says why and changes nothing.

use std::{
    cell::Cell,
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;
use tempfile::TempDir;

use super::head::{FORMAT, Head, HeadFile, Phase, boot_id};
use crate::{Index, ObjectChange, ObjectError, ResourceId, Store, StoreError, StoreOptions};

const PODS: ResourceId = ResourceId(0);

struct Nothing;

impl Index for Nothing {
    fn apply(&mut self, _change: &ObjectChange<'_>) {}
}

fn open(path: &Path) -> Result<Store<Nothing>, StoreError> {
    Store::open(&StoreOptions::in_memory(["pods"]).with_data_dir(path), Nothing)
}

fn refusal(path: &Path) -> StoreError {
    open(path).err().unwrap()
}

fn put(store: &Store<Nothing>, name: &str, pad: usize) {
    let object = json!({"metadata": {"name": name}, "pad": "x".repeat(pad)});
    store.write(|tx| tx.put(PODS, object)).unwrap();
}

fn contents(store: &Store<Nothing>) -> BTreeMap<String, Vec<u8>> {
    store.read(|view| {
        let objects = view.list(PODS, None, None);
        objects.map(|stored| (stored.name.to_string(), stored.body.to_vec())).collect()
    })
}

/// Every file below `root`.
fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// The bytes of every file of the database and of the head.
fn listing(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = files(root);
    files.retain(|path| !path.ends_with("lock"));
    files.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

fn copy(from: &Path, to: &Path) {
    for path in files(from) {
        let target = to.join(path.strip_prefix(from).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        // Without the zeros a journal is preallocated with: nothing is read from there.
        let mut bytes = fs::read(&path).unwrap();
        if path.extension().is_some_and(|extension| extension == "jnl") {
            bytes.truncate(bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
        }
        fs::write(target, bytes).unwrap();
    }
}

fn journal(path: &Path) -> PathBuf {
    files(path)
        .into_iter()
        .rfind(|path| path.extension().is_some_and(|extension| extension == "jnl"))
        .unwrap()
}

/// What a `kill -9` leaves: everything that is in the hands of the system, nothing closed.
fn killed(objects: usize) -> TempDir {
    let (alive, dead) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let store = open(alive.path()).unwrap();
    for n in 0..objects {
        put(&store, &format!("p{n}"), 100);
    }
    copy(alive.path(), dead.path());
    dead
}

fn edit_head(path: &Path, edit: impl FnOnce(&mut Head)) {
    let mut file = HeadFile::open(&path.join("head")).unwrap().unwrap();
    edit(&mut file.head);
    file.write().unwrap();
}

#[test]
fn a_killed_store_has_everything_that_was_answered() {
    let directory = killed(50);
    let store = open(directory.path()).unwrap();
    assert_eq!((contents(&store).len(), store.revision()), (50, 51));
}

#[test]
fn the_last_handle_closes() {
    let directory = TempDir::new().unwrap();
    drop(open(directory.path()).unwrap());
    assert_eq!(HeadFile::open(&directory.path().join("head")).unwrap().unwrap().head.phase, Phase::Closed);
    drop(open(directory.path()).unwrap());
}

#[test]
fn a_second_process_is_told_who_has_it() {
    let directory = TempDir::new().unwrap();
    let _first = open(directory.path()).unwrap();
    let error = refusal(directory.path());
    assert!(matches!(error, StoreError::Locked { owner: Some(pid), .. } if pid == std::process::id()));
    assert!(error.to_string().contains("is in use by process"), "{error}");
}

#[test]
fn what_is_not_a_data_directory_is_left_alone() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("letter");
    fs::write(&file, "dear").unwrap();
    assert!(matches!(refusal(&file), StoreError::NotADirectory { .. }));
    assert!(matches!(refusal(&file.join("below")), StoreError::NotADirectory { .. }));
    assert!(matches!(refusal(directory.path()), StoreError::NotAStore { found, .. } if found == "letter"));
    assert_eq!(files(directory.path()), [file]);
    let fresh = directory.path().join("a/b/c");
    put(&open(&fresh).unwrap(), "p", 1);
}

#[rstest]
#[case(std::io::ErrorKind::PermissionDenied, "must be writable")]
#[case(std::io::ErrorKind::ReadOnlyFilesystem, "must be writable")]
#[case(std::io::ErrorKind::StorageFull, "no space left")]
#[case(std::io::ErrorKind::Other, "can not open")]
fn what_the_system_refuses_is_said_in_words(#[case] kind: std::io::ErrorKind, #[case] words: &str) {
    let direct = StoreError::io(Path::new("/d"), "open", kind.into());
    let nested = fjall::Error::Storage(fjall::LsmError::Io(kind.into()));
    for error in [direct, StoreError::database(Path::new("/d"), "open", nested)] {
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn an_unfinished_creation_is_begun_again() {
    let directory = TempDir::new().unwrap();
    drop(open(directory.path()).unwrap());
    edit_head(directory.path(), |head| head.phase = Phase::Creating);
    fs::remove_file(directory.path().join("objects/version")).unwrap();
    put(&open(directory.path()).unwrap(), "p", 1);
    assert_eq!(contents(&open(directory.path()).unwrap()).len(), 1);
}

#[test]
fn a_newer_format_is_not_touched() {
    let directory = killed(1);
    let path = directory.path().join("head");
    let mut bytes = fs::read(&path).unwrap();
    bytes[8..12].copy_from_slice(&(FORMAT + 1).to_le_bytes());
    bytes.extend_from_slice(b"more than we know");
    fs::write(&path, &bytes).unwrap();
    assert!(matches!(refusal(directory.path()), StoreError::NewerFormat { found: 2, known: 1, .. }));
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[test]
fn objects_of_a_resource_that_is_not_served_are_kept() {
    let directory = killed(3);
    let fewer = StoreOptions::in_memory(["services"]).with_data_dir(directory.path());
    let error = Store::open(&fewer, Nothing).err().unwrap();
    assert!(matches!(error, StoreError::UnknownResource { resource, .. } if resource == "pods"));
    assert_eq!(contents(&open(directory.path()).unwrap()).len(), 3);
    let more = StoreOptions::in_memory(["services", "pods"]).with_data_dir(directory.path());
    assert_eq!(Store::open(&more, Nothing).unwrap().read(|view| view.count(ResourceId(1))), 3);
}

#[rstest]
#[case(&["pods", "pods"])]
#[case(&[""])]
#[case(&["a\0b"])]
fn resource_names_must_be_names(#[case] names: &[&str]) {
    let directory = TempDir::new().unwrap();
    let options = StoreOptions::in_memory(names.iter().copied()).with_data_dir(directory.path());
    assert!(matches!(Store::open(&options, Nothing).err(), Some(StoreError::Options(_))));
}

#[test]
fn a_missing_or_damaged_head_is_noticed() {
    let directory = killed(1);
    let path = directory.path().join("head");
    let whole = fs::read(&path).unwrap();
    for (length, flip) in [(whole.len(), 5), (whole.len(), 14), (whole.len(), 40), (63, 0), (10, 0), (0, 0)] {
        let mut bytes = whole[..length].to_vec();
        if let Some(byte) = bytes.get_mut(flip) {
            *byte ^= 4;
        }
        fs::write(&path, bytes).unwrap();
        let error = refusal(directory.path());
        assert!(matches!(&error, StoreError::Corrupted { path: at, .. } if *at == path), "{error}");
    }
    fs::remove_file(&path).unwrap();
    assert!(matches!(refusal(directory.path()), StoreError::Corrupted { .. }));
    fs::write(&path, whole).unwrap();
    assert_eq!(contents(&open(directory.path()).unwrap()).len(), 1);
}

#[test]
fn a_journal_without_its_tail_is_refused_and_left_as_it_was() {
    let directory = killed(20);
    let path = journal(directory.path());
    let whole = fs::read(&path).unwrap();
    for cut in [whole.len() - 1, whole.len() * 2 / 3, 1, 0] {
        fs::write(&path, &whole[..cut]).unwrap();
        let error = refusal(directory.path());
        assert!(matches!(error, StoreError::LostWrites { answered: 21, .. }), "{error}");
        assert_eq!(fs::read(&path).unwrap(), whole[..cut]);
    }
    fs::write(&path, whole).unwrap();
    assert_eq!(contents(&open(directory.path()).unwrap()).len(), 20);
}

#[test]
fn an_older_copy_of_the_objects_is_refused() {
    let (directory, older) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    put(&open(directory.path()).unwrap(), "p", 1);
    copy(directory.path(), older.path());
    put(&open(directory.path()).unwrap(), "q", 1);
    fs::remove_dir_all(directory.path().join("objects")).unwrap();
    copy(&older.path().join("objects"), &directory.path().join("objects"));
    assert!(matches!(refusal(directory.path()), StoreError::LostWrites { found: 2, answered: 3, .. }));
}

/// The machine went down: what was not synced may be gone, what was synced may not, and no revision comes twice.
#[test]
fn after_a_power_cut_only_unsynced_writes_may_be_missing() {
    let directory = killed(5);
    edit_head(directory.path(), |head| {
        head.boot = Some([7; 16]);
        head.committed = 9;
        head.synced = 7;
    });
    assert!(matches!(refusal(directory.path()), StoreError::LostWrites { found: 6, answered: 9, .. }));
    edit_head(directory.path(), |head| head.synced = 4);
    let store = open(directory.path()).unwrap();
    assert_eq!((contents(&store).len(), store.revision()), (5, 1_000_009));
    put(&store, "q", 1);
    drop(store);
    assert_eq!(open(directory.path()).unwrap().revision(), 1_000_010);
}

#[test]
fn the_same_boot_may_not_have_lost_anything() {
    let directory = killed(5);
    edit_head(directory.path(), |head| {
        assert_eq!(head.boot, boot_id());
        head.committed = 7;
    });
    assert!(matches!(refusal(directory.path()), StoreError::LostWrites { found: 6, answered: 7, .. }));
}

/// A directory with tables, sealed and active journals.
fn grown() -> TempDir {
    let (alive, dead) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let store = open(alive.path()).unwrap();
    for n in 0..1200_u32 {
        put(&store, &format!("p{}", n % 300), 16_000);
    }
    let removed = store.write(|tx| tx.delete(PODS, "", "p7", json!({"metadata": {"name": "p7"}})));
    removed.map_err(|error: crate::WriteError<ObjectError>| error).unwrap();
    store.close().unwrap();
    copy(alive.path(), dead.path());
    assert!(files(dead.path()).iter().any(|path| path.parent().unwrap().ends_with("tables")));
    dead
}

/// What becomes of a file.
#[derive(Clone, Copy, Debug)]
enum Damage {
    /// A byte is another one.
    Flipped(u8),
    /// The rest is gone.
    Cut,
    /// As much is zero as a disk writes at a time, or less.
    Zeroed(usize),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        (1..=255_u8).prop_map(Damage::Flipped),
        Just(Damage::Cut),
        prop_oneof![Just(64), Just(512), Just(4096)].prop_map(Damage::Zeroed),
    ]
}

/// Damage anywhere: the store says so, or has lost nothing; it never panics.
#[test]
fn no_damage_goes_unnoticed() {
    let pristine = grown();
    let before = contents(&open(pristine.path()).unwrap());
    assert_eq!(before.len(), 299);
    let noticed = Cell::new(0);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(24)
    });
    let anywhere = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), damage());
    let outcome = runner.run(&anywhere, |(file, at, damage)| {
        let directory = TempDir::new().unwrap();
        copy(pristine.path(), directory.path());
        let all = files(directory.path());
        let path = file.get(&all);
        let mut bytes = fs::read(path).unwrap();
        if bytes.is_empty() || path.ends_with("lock") {
            return Ok(());
        }
        let at = at.index(bytes.len());
        match damage {
            Damage::Flipped(bits) => bytes[at] ^= bits,
            Damage::Cut => bytes.truncate(at),
            Damage::Zeroed(length) => {
                let end = (at + length).min(bytes.len());
                bytes[at..end].fill(0);
            }
        }
        fs::write(path, bytes).unwrap();
        let damaged = listing(directory.path());
        match open(directory.path()) {
            Err(
                StoreError::Corrupted { .. } | StoreError::LostWrites { .. } | StoreError::NewerFormat { .. },
            ) => {
                noticed.set(noticed.get() + 1);
                prop_assert!(listing(directory.path()) == damaged, "{path:?} at {at} was not left as it was");
            }
            Err(other) => prop_assert!(false, "{path:?} at {at}: {other}"),
            Ok(store) => prop_assert_eq!(&contents(&store), &before, "{:?} at {}", path, at),
        }
        Ok(())
    });
    outcome.unwrap();
    assert!(noticed.get() > 0);
}
