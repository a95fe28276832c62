//! Opening the database, and letting go of it, when it may be broken: it asserts its own invariants, and a panic of it
//! must end in an error.

use std::{
    cell::RefCell,
    panic,
    path::Path,
    sync::{
        Once,
        mpsc::{Sender, channel},
    },
    thread,
    time::Duration,
};

use fjall::{Database, Keyspace};

use super::open_database;
use crate::error::StoreError;

/// How long the database may take to end its threads.
const LETTING_GO: Duration = Duration::from_secs(10);

type Opened = fjall::Result<(Database, Keyspace)>;

thread_local! {
    /// Where a panic of this thread is told of, in place of unwinding.
    static TOLD: RefCell<Option<Sender<Result<Opened, String>>>> = const { RefCell::new(None) };
}

/// Opens a database.
///
/// # Errors
/// What the database says, or what it panics with. It panics holding locks that its destructors need, so that unwinding
/// would end the process: the thread that opens it is stopped where it is instead, and stays so.
pub(super) fn open(path: &Path) -> Result<(Database, Keyspace), StoreError> {
    static HOOK: Once = Once::new();
    HOOK.call_once(stop_in_place_of_unwinding);
    let (sender, answer) = channel();
    let database = path.to_owned();
    thread::Builder::new()
        .name("store-open".to_owned())
        .spawn(move || {
            TOLD.with_borrow_mut(|told| *told = Some(sender.clone()));
            // Nobody waits any more if this fails.
            let _ = sender.send(Ok(open_database(&database)));
        })
        .map_err(|error| StoreError::io(path, "open", error))?;
    let corrupted = |what: String| StoreError::Corrupted { path: path.to_owned(), what };
    match answer.recv() {
        Ok(Ok(opened)) => opened.map_err(|error| StoreError::database(path, "open", error)),
        Ok(Err(panicked)) => Err(corrupted(panicked)),
        Err(_) => Err(corrupted("the database could not be opened".to_owned())),
    }
}

fn stop_in_place_of_unwinding() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let Some(told) = TOLD.with_borrow_mut(Option::take) else { return before(info) };
        let text = info.payload_as_str().unwrap_or("the database gave up");
        let _ = told.send(Err(text.to_owned()));
        loop {
            thread::park();
        }
    }));
}

/// Closes a database that failed. Whether it can end its threads is not certain; nobody waits for ever.
pub(super) fn let_go(database: (Database, Keyspace)) {
    let (ended, end) = channel();
    let dropping = thread::Builder::new().name("store-drop".to_owned()).spawn(move || {
        drop(database);
        let _ = ended.send(());
    });
    if dropping.is_ok() && end.recv_timeout(LETTING_GO).is_err() {
        tracing::warn!("the database that failed does not end; its files stay open");
    }
}
