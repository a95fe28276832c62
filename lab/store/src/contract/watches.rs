//! Watches: in order, without a gap, and an honest `Gone`.

use std::{collections::BTreeMap, task::Poll, thread};

use futures::poll;
use rstest::rstest;

use super::*;

#[rstest]
#[tokio::test]
async fn a_watch_sees_what_follows_its_list(#[values(Backing::Memory, Backing::Disk)] backing: Backing) {
    let fixture = Fixture::new(backing);
    fixture.put(PODS, pod("d", "one", 1));
    let (objects, revision, mut watch) = fixture.store.list_and_watch(PODS, None);
    assert_eq!((names(&objects), revision), (vec!["d/one".to_owned()], 2));
    fixture
        .store
        .write(|tx| {
            tx.put(PODS, pod("d", "two", 1))?;
            tx.put(PODS, pod("d", "one", 2))?;
            tx.delete(PODS, "d", "two", pod("d", "two", 1))
        })
        .unwrap();
    let events = watch.next_batch().await.unwrap();
    let seen: Vec<_> = events.iter().map(|event| (event.ty, event.revision, &*event.object.name)).collect();
    assert_eq!(
        seen,
        [(EventType::Added, 3, "two"), (EventType::Modified, 4, "one"), (EventType::Deleted, 5, "two")]
    );
    assert!(events[0].previous.is_none());
    assert_eq!(events[1].previous.as_ref().unwrap().revision, 2);
    let last: Value = serde_json::from_slice(&events[2].object.body).unwrap();
    assert_eq!(last["metadata"]["resourceVersion"], "5");
}

#[tokio::test]
async fn progress_follows_the_store_once_all_is_handed_out() {
    let fixture = Fixture::new(Backing::Memory);
    let mut watch = fixture.store.watch(PODS, 1).unwrap();
    fixture.put(NODES, node("n"));
    assert_eq!(watch.progress(), 2);
    fixture.put(PODS, pod("d", "p", 1));
    fixture.put(NODES, node("m"));
    assert_eq!(watch.progress(), 2);
    assert_eq!(watch.next_batch().await.unwrap()[0].revision, 3);
    assert_eq!(watch.progress(), 4);
}

#[tokio::test]
async fn a_dropped_wait_loses_nothing_and_other_resources_do_not_wake() {
    let fixture = Fixture::new(Backing::Memory);
    let mut watch = fixture.store.watch(PODS, 1).unwrap();
    {
        let mut waiting = Box::pin(watch.next_batch());
        assert!(poll!(&mut waiting).is_pending());
        fixture.put(NODES, node("n"));
        assert!(poll!(&mut waiting).is_pending());
        fixture.put(PODS, pod("d", "p", 1));
    }
    let Poll::Ready(Ok(events)) = poll!(Box::pin(watch.next_batch())) else { panic!("the event is there") };
    assert_eq!(events[0].revision, 3);
}

#[tokio::test]
async fn a_follower_that_fell_behind_lists_again_and_goes_on() {
    let history = History { max_events: 4, max_bytes: usize::MAX, min_events: 0 };
    let fixture = Fixture::with_history(Backing::Memory, history);
    let revision =
        |view: &View<'_, Revisions>| view.list(PODS, None, None).next().map(|stored| stored.revision);
    let mut follower = ListWatch::new(&fixture.store, PODS, revision);
    assert!(matches!(follower.next().await, Update::Listed(None)));
    fixture.put(PODS, pod("d", "p", 0));
    assert!(matches!(follower.next().await, Update::Events(events) if events[0].revision == 2));
    for n in 1..9 {
        fixture.put(PODS, pod("d", "p", n));
    }
    assert!(matches!(follower.next().await, Update::Listed(Some(10))));
    assert!(poll!(Box::pin(follower.next())).is_pending(), "what the list has shown is no event");
    fixture.put(PODS, pod("d", "p", 9));
    assert!(matches!(follower.next().await, Update::Events(events) if events.len() == 1));
}

#[rstest]
#[tokio::test]
async fn what_fell_off_the_log_is_gone(#[values(Backing::Memory, Backing::Disk)] backing: Backing) {
    let history = History { max_events: 4, max_bytes: usize::MAX, min_events: 0 };
    let mut fixture = Fixture::with_history(backing, history);
    let mut slow = fixture.store.watch(PODS, 1).unwrap();
    fixture.put(NODES, node("n"));
    for n in 0..6 {
        fixture.put(PODS, pod("d", "p", n));
    }
    let gone = Gone { requested: 1, oldest: 4 };
    assert_eq!(slow.next_batch().await.unwrap_err(), gone);
    assert_eq!(gone.to_string(), "too old resource version: 1 (4)");
    assert_eq!(fixture.store.watch(PODS, 3).err(), Some(Gone { requested: 3, oldest: 4 }));
    assert_eq!(fixture.store.watch(PODS, 4).unwrap().poll().unwrap().len(), 4);
    // What happened to another resource does not age this one.
    assert_eq!(fixture.store.watch(NODES, 1).unwrap().poll().unwrap().len(), 1);
    fixture.restart();
    if backing == Backing::Disk {
        assert_eq!(fixture.store.watch(NODES, 7).err(), Some(Gone { requested: 7, oldest: 8 }));
        assert!(fixture.store.watch(NODES, 8).unwrap().poll().unwrap().is_empty());
    }
}

#[test]
fn the_log_is_bounded_in_bytes() {
    let history = History { max_events: usize::MAX, max_bytes: 20_000, min_events: 2 };
    let fixture = Fixture::with_history(Backing::Memory, history);
    let fat = |n: u64| json!({"metadata": {"name": "p"}, "pad": "x".repeat(5000), "n": n});
    for n in 0..50 {
        fixture.put(PODS, fat(n));
        let stats = fixture.store.read(|view| view.stats(PODS));
        assert!(stats.event_bytes <= 20_000 || stats.events <= 2, "{stats:?}");
    }
    let stats = fixture.store.read(|view| view.stats(PODS));
    assert_eq!((stats.events, stats.objects), (3, 1));
    assert_eq!(fixture.store.read(|view| view.oldest_revision(PODS)), 48);
}

/// Writers create, update and delete at once; every watcher, wherever it starts, ends with exactly what is there.
#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_writers_leave_no_gap(#[values(Backing::Memory, Backing::Disk)] backing: Backing) {
    const WRITERS: u64 = 4;
    const ROUNDS: u64 = 400;
    let history = History { max_events: usize::MAX, max_bytes: usize::MAX, min_events: 0 };
    let fixture = Fixture::with_history(backing, history);
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let store = fixture.store.clone();
            thread::spawn(move || {
                for round in 0..ROUNDS {
                    let name = format!("p{}", round % 17);
                    let namespace = format!("n{}", (writer + round) % 3);
                    store
                        .write(|tx| {
                            if round % 5 == 4 && tx.get(PODS, &namespace, &name).is_some() {
                                tx.delete(PODS, &namespace, &name, pod(&namespace, &name, round))?;
                            } else {
                                tx.put(PODS, pod(&namespace, &name, round))?;
                            }
                            tx.put(NODES, node("busy"))
                        })
                        .unwrap();
                }
            })
        })
        .collect();
    let watchers: Vec<_> = (0..5)
        .map(|_| {
            let (objects, from, mut watch) = fixture.store.list_and_watch(PODS, None);
            let mut known: BTreeMap<_, _> =
                objects.iter().map(|stored| (names(&[Arc::clone(stored)]), stored.revision)).collect();
            tokio::spawn(async move {
                let (mut last, mut seen) = (from, 0);
                while last < 1 + 2 * WRITERS * ROUNDS - 1 {
                    for event in watch.next_batch().await.unwrap() {
                        assert!(event.revision > last);
                        last = event.revision;
                        seen += 1;
                        let key = names(&[Arc::clone(&event.object)]);
                        let before = match event.ty {
                            EventType::Deleted => known.remove(&key),
                            EventType::Added | EventType::Modified => known.insert(key, event.revision),
                        };
                        assert_eq!(before, event.previous.as_ref().map(|previous| previous.revision));
                    }
                }
                (from, seen, known)
            })
        })
        .collect();
    for writer in writers {
        writer.join().unwrap();
    }
    let (objects, revision, _) = fixture.store.list_and_watch(PODS, None);
    assert_eq!(revision, 1 + 2 * WRITERS * ROUNDS);
    let there: BTreeMap<_, _> =
        objects.iter().map(|stored| (names(&[Arc::clone(stored)]), stored.revision)).collect();
    for watcher in watchers {
        let (from, seen, known) = watcher.await.unwrap();
        assert_eq!(known, there);
        assert_eq!(seen, (revision - from) / 2);
    }
}
