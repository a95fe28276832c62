//! Random transactions, aborts and restarts against a plain map.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Put { resource: u16, namespace: u8, name: u8, size: usize },
    Delete { resource: u16, namespace: u8, name: u8 },
}

#[derive(Clone, Debug)]
enum Action {
    Transaction { steps: Vec<Step>, abort: bool },
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..2_u16, 0..3_u8, 0..5_u8, 0..300_usize)
            .prop_map(|(resource, namespace, name, size)| Step::Put { resource, namespace, name, size }),
        1 => (0..2_u16, 0..3_u8, 0..5_u8)
            .prop_map(|(resource, namespace, name)| Step::Delete { resource, namespace, name }),
    ]
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        9 => (prop::collection::vec(step(), 0..6), prop::bool::weighted(0.2))
            .prop_map(|(steps, abort)| Action::Transaction { steps, abort }),
        1 => Just(Action::Restart),
    ]
}

/// Key to (revision, created revision, size).
type Model = BTreeMap<(u16, String, String), (u64, u64, usize)>;

fn apply(step: &Step, model: &mut Model, revision: &mut u64, tx: &mut Tx<'_, Revisions>) {
    let (Step::Put { resource, namespace, name, .. } | Step::Delete { resource, namespace, name }) = step;
    let key = (*resource, format!("n{namespace}"), format!("p{name}"));
    match step {
        Step::Put { size, .. } => {
            *revision += 1;
            let created = model.get(&key).map_or(*revision, |(_, created, _)| *created);
            let mut object = pod(&key.1, &key.2, 0);
            object["pad"] = "x".repeat(*size).into();
            let stored = tx.put(ResourceId(*resource), object).unwrap();
            assert_eq!((stored.revision, stored.created_revision), (*revision, created));
            model.insert(key, (*revision, created, *size));
        }
        Step::Delete { .. } => {
            let deleted = tx.delete(ResourceId(*resource), &key.1, &key.2, pod(&key.1, &key.2, 0));
            assert_eq!(deleted.is_ok(), model.remove(&key).is_some());
            *revision += u64::from(deleted.is_ok());
        }
    }
}

fn check(fixture: &Fixture, model: &Model, revision: u64) {
    let seen = see(&fixture.store);
    assert_eq!(seen.revision, revision);
    let there: Model = fixture.store.read(|view| {
        [PODS, NODES]
            .into_iter()
            .flat_map(|resource| view.list(resource, None, None))
            .map(|stored| {
                let body: Value = serde_json::from_slice(&stored.body).unwrap();
                assert_eq!(text(&body, "resourceVersion"), stored.revision.to_string());
                let key = (stored.resource.0, stored.namespace.to_string(), stored.name.to_string());
                let size = body["pad"].as_str().unwrap().len();
                (key, (stored.revision, stored.created_revision, size))
            })
            .collect()
    });
    assert_eq!(&there, model);
    let told: BTreeMap<_, _> = model.iter().map(|(key, (revision, ..))| (key.clone(), *revision)).collect();
    assert_eq!(seen.told, told);
    for resource in [PODS, NODES] {
        let expected = model.keys().filter(|(of, ..)| *of == resource.0).count();
        assert_eq!(seen.stats[usize::from(resource.0)].objects, expected);
    }
}

fn run(backing: Backing, actions: &[Action]) {
    let mut fixture = Fixture::new(backing);
    let (mut model, mut revision) = (Model::new(), 1);
    for action in actions {
        match action {
            Action::Restart => fixture.restart(),
            Action::Transaction { steps, abort } => {
                let (mut next, mut reached) = (model.clone(), revision);
                let answer = fixture.store.write(|tx| {
                    for step in steps {
                        apply(step, &mut next, &mut reached, tx);
                    }
                    if *abort { Err(()) } else { Ok(()) }
                });
                assert_eq!(answer.is_err(), *abort);
                if !abort {
                    (model, revision) = (next, reached);
                }
            }
        }
        check(&fixture, &model, revision);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn memory_agrees_with_a_map(actions in prop::collection::vec(action(), 1..40)) {
        run(Backing::Memory, &actions);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 200, ..ProptestConfig::with_cases(8) })]
    #[test]
    fn disk_agrees_with_a_map_across_restarts(actions in prop::collection::vec(action(), 1..40)) {
        run(Backing::Disk, &actions);
    }
}
