//! Reads, order and atomicity.

use rstest::rstest;

use super::*;

#[rstest]
fn lists_in_key_order_and_pages(
    #[values(Backing::Memory, Backing::Disk)] backing: Backing,
    #[values(false, true)] again: bool,
) {
    let mut fixture = Fixture::new(backing);
    for (namespace, name) in [("kube", "b"), ("kube-system", "a"), ("a", "z"), ("kube", "a"), ("kube", "a-b")]
    {
        fixture.put(PODS, pod(namespace, name, 0));
    }
    if again {
        fixture.restart();
    }
    let all = ["a/z", "kube-system/a", "kube/a", "kube/a-b", "kube/b"];
    let list = |namespace: Option<&str>, after: Option<(&str, &str)>| {
        fixture.store.read(|view| names(&view.list(PODS, namespace, after).cloned().collect::<Vec<_>>()))
    };
    assert_eq!(list(None, None), all);
    for (at, key) in all.iter().enumerate() {
        assert_eq!(list(None, key.split_once('/')), all[at + 1..]);
    }
    assert_eq!(list(None, Some(("b", "x"))), all[1..]);
    assert_eq!(list(Some("kube"), None), all[2..]);
    assert_eq!(list(Some("kube"), Some(("kube", "a"))), all[3..]);
    assert_eq!(list(Some("kube"), Some(("kube", "aa"))), all[4..]);
    assert_eq!(list(Some("kube"), Some(("a", "a"))), all[2..]);
    assert_eq!(list(Some("a"), Some(("kube", "a"))), [""; 0]);
    assert_eq!(list(Some("none"), None), [""; 0]);
    let counts =
        fixture.store.read(|view| (view.count(PODS), view.count_in(PODS, "kube"), view.count(NODES)));
    assert_eq!(counts, (5, 3, 0));
}

#[rstest]
fn a_put_stamps_and_a_version_keeps_its_birth(#[values(Backing::Memory, Backing::Disk)] backing: Backing) {
    let mut fixture = Fixture::new(backing);
    assert_eq!(fixture.store.revision(), 1);
    let created = fixture.put(PODS, pod("d", "p", 1));
    let updated = fixture.put(PODS, pod("d", "p", 2));
    assert_eq!((created.revision, created.created_revision), (2, 2));
    assert_eq!((updated.revision, updated.created_revision), (3, 2));
    assert!(Arc::ptr_eq(&created.name, &updated.name));
    assert!(Arc::ptr_eq(&created.labels, &updated.labels));
    let body: Value = serde_json::from_slice(&updated.body).unwrap();
    assert_eq!(body["metadata"]["resourceVersion"], "3");
    let before = see(&fixture.store).objects;
    fixture.restart();
    assert_eq!(see(&fixture.store).objects, before);
    let stored = fixture.store.read(|view| view.get(PODS, "d", "p").cloned()).unwrap();
    assert_eq!(*stored.labels, [("app".into(), "a".into())]);
}

#[rstest]
#[case(pod("d", "p", 1), true)]
#[case(pod("d", "p", 2), false)]
#[case(json!({"kind": "Pod", "metadata": {"namespace": "d", "name": "p"}}), false)]
#[case(json!({"metadata": 1}), false)]
#[case(json!(null), false)]
fn a_put_that_changes_nothing_is_told_apart(#[case] mut candidate: Value, #[case] same: bool) {
    let stored = Fixture::new(Backing::Memory).put(PODS, pod("d", "p", 1));
    assert_eq!(stored.is_same_but_version(&mut candidate), same);
    let mut parsed = stored.parse().unwrap();
    parsed["metadata"]["resourceVersion"] = "7".into();
    assert!(stored.is_same_but_version(&mut parsed));
    parsed["zz"] = json!({});
    assert!(!stored.is_same_but_version(&mut parsed));
}

#[rstest]
fn a_transaction_sees_its_own_changes(#[values(Backing::Memory, Backing::Disk)] backing: Backing) {
    let mut fixture = Fixture::new(backing);
    fixture.put(PODS, pod("d", "old", 1));
    fixture.put(PODS, pod("e", "other", 1));
    fixture
        .store
        .write(|tx| {
            tx.put(PODS, pod("d", "new", 1))?;
            tx.delete(PODS, "d", "old", pod("d", "old", 1))?;
            assert!(tx.get(PODS, "d", "old").is_none());
            assert_eq!(names(&tx.list(PODS, Some("d"))), ["d/new"]);
            assert_eq!(names(&tx.list(PODS, None)), ["d/new", "e/other"]);
            assert_eq!(names(&tx.list(PODS, Some("e"))), ["e/other"]);
            let again = tx.put(PODS, pod("d", "old", 2))?;
            assert_eq!((again.revision, again.created_revision), (6, 6));
            assert_eq!(tx.index().objects.len(), 2);
            tx.put(PODS, pod("d", "new", 2))?;
            assert_eq!((tx.get(PODS, "d", "new").unwrap().revision, tx.revision()), (7, 7));
            tx.put(PODS, pod("d", "brief", 1))?;
            tx.delete(PODS, "d", "brief", pod("d", "brief", 1))?;
            Ok::<_, ObjectError>(())
        })
        .unwrap();
    let seen = see(&fixture.store);
    let versions: Vec<_> = seen.objects.iter().map(|(_, key, revision, ..)| (&**key, *revision)).collect();
    assert_eq!(versions, [("d/new", 7), ("d/old", 6), ("e/other", 3)]);
    assert_eq!(seen.revision, 9);
    let events = fixture.store.watch(PODS, 3).unwrap().poll().unwrap();
    let revisions: Vec<_> = events.iter().map(|event| event.revision).collect();
    assert_eq!(revisions, [4, 5, 6, 7, 8, 9]);
    fixture.restart();
    assert_eq!(see(&fixture.store).objects, seen.objects);
}

#[rstest]
fn a_refused_transaction_leaves_everything_as_it_was(
    #[values(Backing::Memory, Backing::Disk)] backing: Backing,
) {
    let mut fixture = Fixture::new(backing);
    fixture.put(PODS, pod("d", "p", 1));
    fixture.put(NODES, node("n"));
    let before = see(&fixture.store);
    let refused = fixture.store.write(|tx| {
        tx.put(PODS, pod("d", "p", 2)).unwrap();
        tx.put(PODS, pod("d", "q", 1)).unwrap();
        tx.delete(NODES, "", "n", node("n")).unwrap();
        Err::<(), _>("no")
    });
    assert!(matches!(refused, Err(WriteError::Aborted("no"))));
    assert_eq!(see(&fixture.store), before);
    assert_eq!(fixture.store.dry_run(|tx| tx.put(PODS, pod("d", "r", 1)).unwrap().revision), 4);
    fixture.store.write(|_| Ok::<_, ObjectError>(())).unwrap();
    assert_eq!(see(&fixture.store), before);
    fixture.restart();
    assert_eq!(see(&fixture.store).objects, before.objects);
    assert_eq!(fixture.put(PODS, pod("d", "q", 1)).revision, 4);
}

#[rstest]
fn a_panic_in_a_transaction_changes_nothing(#[values(Backing::Memory, Backing::Disk)] backing: Backing) {
    let fixture = Fixture::new(backing);
    let before = see(&fixture.store);
    let store = fixture.store.clone();
    let thread = std::thread::spawn(move || {
        store.write(|tx| -> Result<(), ObjectError> {
            tx.put(PODS, pod("d", "p", 1))?;
            panic!("a bug in a handler")
        })
    });
    assert!(thread.join().is_err());
    assert_eq!(see(&fixture.store), before);
    assert_eq!(fixture.put(PODS, pod("d", "p", 1)).revision, 2);
}

#[rstest]
#[case(json!([]), ObjectError::NoMetadata)]
#[case(json!({"metadata": "x"}), ObjectError::NoMetadata)]
#[case(json!({"metadata": {}}), ObjectError::NoName)]
#[case(json!({"metadata": {"name": 7}}), ObjectError::NoName)]
#[case(json!({"metadata": {"name": ""}}), ObjectError::NoName)]
#[case(json!({"metadata": {"name": "a\0b"}}), ObjectError::BadKey { field: "name", reason: "it contains a NUL byte" })]
#[case(
    json!({"metadata": {"name": "a", "namespace": "n".repeat(16385)}}),
    ObjectError::BadKey { field: "namespace", reason: "it is longer than 16384 bytes" }
)]
fn what_can_not_be_a_key_is_refused(#[case] object: Value, #[case] expected: ObjectError) {
    let fixture = Fixture::new(Backing::Memory);
    let refused = fixture.store.write(|tx| tx.put(PODS, object));
    assert!(matches!(refused, Err(WriteError::Aborted(error)) if error == expected));
    assert_eq!(fixture.store.revision(), 1);
}

#[rstest]
fn odd_names_come_back(#[values(Backing::Memory, Backing::Disk)] backing: Backing) {
    let mut fixture = Fixture::new(backing);
    for name in ["a/b", "..", "ü", "\u{1}", &"n".repeat(16384)] {
        fixture.put(PODS, pod("d/e", name, 1));
    }
    let before = see(&fixture.store).objects;
    fixture.restart();
    assert_eq!(see(&fixture.store).objects, before);
}

#[test]
fn unknown_resources_and_absent_objects_are_refused() {
    let fixture = Fixture::new(Backing::Memory);
    let refused = fixture.store.write(|tx| {
        assert_eq!(tx.put(ResourceId(2), node("n")).unwrap_err(), ObjectError::UnknownResource(2));
        tx.delete(PODS, "d", "p", pod("d", "p", 1))
    });
    let expected = ObjectError::NotFound { namespace: "d".into(), name: "p".into() };
    assert!(matches!(refused, Err(WriteError::Aborted(error)) if error == expected));
    assert_eq!(fixture.store.read(|view| view.list(ResourceId(9), None, None).count()), 0);
}

#[rstest]
fn a_closed_store_reads_and_does_not_write(#[values(Backing::Memory, Backing::Disk)] backing: Backing) {
    let mut fixture = Fixture::new(backing);
    fixture.put(PODS, pod("d", "p", 1));
    fixture.store.close().unwrap();
    fixture.store.close().unwrap();
    let before = see(&fixture.store);
    let refused = fixture.store.write(|tx| tx.put(PODS, pod("d", "q", 1)));
    assert!(matches!(refused, Err(WriteError::Storage(StoreError::Closed))));
    assert_eq!(see(&fixture.store), before);
    fixture.restart();
    assert_eq!(see(&fixture.store).objects, before.objects);
}
