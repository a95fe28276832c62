//! A disk that refuses a transaction.

use std::sync::atomic::{AtomicBool, Ordering};

use futures::poll;

use super::*;
use crate::{
    backend::Backend,
    state::State,
    tx::{Pending, Workspace},
};

struct Moody(Arc<AtomicBool>);

impl Backend for Moody {
    fn commit(&mut self, changes: &[Pending], _revision: u64) -> Result<(), StoreError> {
        assert!(!changes.is_empty());
        if self.0.load(Ordering::SeqCst) {
            return Err(StoreError::Full {
                path: "d".into(),
                source: std::io::ErrorKind::StorageFull.into(),
            });
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}

#[tokio::test]
async fn what_the_disk_refuses_did_not_happen() {
    let full = Arc::new(AtomicBool::new(false));
    let state = State::new(2, 1, History::default(), Told::default());
    let store = Store::with_backend(state, Workspace::default(), Some(Box::new(Moody(Arc::clone(&full)))));
    store.write(|tx| tx.put(PODS, pod("d", "p", 1))).unwrap();
    let before = see(&store);
    let mut watch = store.watch(PODS, 2).unwrap();
    let mut waiting = Box::pin(watch.next_batch());
    assert!(poll!(&mut waiting).is_pending());

    full.store(true, Ordering::SeqCst);
    let refused = store.write(|tx| {
        tx.put(PODS, pod("d", "q", 1))?;
        tx.delete(PODS, "d", "p", pod("d", "p", 1))
    });
    assert!(matches!(refused, Err(WriteError::Storage(StoreError::Full { .. }))));
    assert_eq!(see(&store), before);
    assert!(poll!(&mut waiting).is_pending());

    full.store(false, Ordering::SeqCst);
    store.write(|tx| tx.put(PODS, pod("d", "q", 1))).unwrap();
    assert_eq!(waiting.await.unwrap()[0].revision, 3);
}
