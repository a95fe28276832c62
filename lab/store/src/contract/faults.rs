//! A disk that refuses a transaction.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures::poll;

use super::*;
use crate::{backend::Backend, pending::Pending, state::State, tx::Workspace};

/// What the test and its disk share.
#[derive(Default)]
struct Mood {
    full: AtomicBool,
    /// While it is held, no write is taken.
    busy: parking_lot::Mutex<()>,
    /// How many writes have come.
    asked: AtomicUsize,
    /// Every object that was on the disk when it was mended last.
    mended: parking_lot::Mutex<Vec<String>>,
}

struct Moody(Arc<Mood>);

impl Backend for Moody {
    fn commit(&mut self, changes: &[Pending], _revision: u64) -> Result<(), StoreError> {
        assert!(!changes.is_empty());
        self.0.asked.fetch_add(1, Ordering::SeqCst);
        drop(self.0.busy.lock());
        self.room()
    }

    fn mend(&mut self, objects: &[Arc<Stored>], revision: u64) -> Result<(), StoreError> {
        self.room()?;
        *self.0.mended.lock() = names(objects);
        assert!(objects.iter().all(|object| object.revision <= revision));
        Ok(())
    }

    fn close(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Moody {
    fn room(&self) -> Result<(), StoreError> {
        if self.0.full.load(Ordering::SeqCst) {
            return Err(StoreError::Full {
                path: "d".into(),
                source: std::io::ErrorKind::StorageFull.into(),
            });
        }
        Ok(())
    }
}

fn store_on(mood: &Arc<Mood>) -> Store<Revisions> {
    let state = State::new(2, 1, History::default(), Revisions::default());
    let backend = Box::new(Moody(Arc::clone(mood)));
    Store::with_backend(state, Workspace::default(), Some(backend), Arc::default()).unwrap()
}

/// Writes wait for a disk that takes its time, up to a bound; reads do not, and it is told.
#[test]
fn a_slow_disk_holds_up_no_reader() {
    let mood = Arc::new(Mood::default());
    let store = store_on(&mood);
    store.write(|tx| tx.put(PODS, pod("d", "p", 1))).unwrap();
    let before = see(&store);
    let busy = mood.busy.lock();
    let waiting = std::thread::spawn({
        let store = store.clone();
        move || store.write(|tx| tx.put(PODS, pod("d", "q", 1))).is_ok()
    });
    while mood.asked.load(Ordering::SeqCst) < 2 {
        std::thread::yield_now();
    }
    let another = store.write(|tx| tx.put(PODS, pod("d", "r", 1)));
    assert!(matches!(another, Err(WriteError::Storage(StoreError::Slow))));
    assert_eq!(see(&store), before, "reads go on, and nothing has happened yet");
    assert!(store.trouble().unwrap().contains("not taken a write"), "{:?}", store.trouble());
    drop(busy);
    assert!(waiting.join().unwrap());
    assert_eq!(store.trouble(), None);
}

#[tokio::test]
async fn what_the_disk_refuses_did_not_happen() {
    let mood = Arc::new(Mood::default());
    let store = store_on(&mood);
    let mut trouble = store.watch_trouble();
    store.write(|tx| tx.put(PODS, pod("d", "p", 1))).unwrap();
    let before = see(&store);
    let mut watch = store.watch(PODS, 2).unwrap();
    let mut waiting = Box::pin(watch.next_batch());
    assert!(poll!(&mut waiting).is_pending());

    mood.full.store(true, Ordering::SeqCst);
    let refused = store.write(|tx| {
        tx.put(PODS, pod("d", "q", 1))?;
        tx.delete(PODS, "d", "p", pod("d", "p", 1))
    });
    assert!(matches!(refused, Err(WriteError::Storage(StoreError::Full { .. }))));
    assert_eq!(see(&store), before);
    assert!(poll!(&mut waiting).is_pending());

    // Refused at once as long as it lasts, and everyone is told; reads go on.
    assert!(store.trouble().unwrap().contains("no space left"), "{:?}", store.trouble());
    let again = store.write(|tx| tx.put(PODS, pod("d", "q", 1)));
    assert!(matches!(again, Err(WriteError::Storage(_))));
    assert_eq!(see(&store), before);

    // It is noticed by itself that there is room again, and the disk then holds what was answered.
    mood.full.store(false, Ordering::SeqCst);
    trouble.wait_for(Option::is_none).await.unwrap();
    assert_eq!(store.trouble(), None);
    assert_eq!(*mood.mended.lock(), ["d/p"]);
    store.write(|tx| tx.put(PODS, pod("d", "q", 1))).unwrap();
    assert_eq!(waiting.await.unwrap()[0].revision, 3);
}
