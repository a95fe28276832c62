//! The set against a plain `BTreeSet`, in both of its forms.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Take(u64),
    Free(u64),
    /// Takes a stretch of neighbours.
    Fill(u64, u16),
    /// Frees a stretch of neighbours.
    Clear(u64, u16),
    /// Takes the free number at this fraction (of 2^32) of all free ones.
    TakeNth(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        any::<u64>().prop_map(Step::Take),
        any::<u64>().prop_map(Step::Free),
        (any::<u64>(), 0_u16..3000).prop_map(|(n, len)| Step::Fill(n, len)),
        (any::<u64>(), 0_u16..3000).prop_map(|(n, len)| Step::Clear(n, len)),
        any::<u32>().prop_map(Step::TakeNth),
    ];
    prop::collection::vec(step, 0..30)
}

fn universes() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0_u64),
        1_u64..40,
        1_u64..5000,
        Just(65_536_u64),
        65_000_u64..200_000,
        Just(DENSE_MAX),
        Just(DENSE_MAX + 1),
        Just(u64::MAX - 256),
        Just(u64::MAX),
    ]
}

/// Every number that the model can be asked about without walking the universe.
fn landmarks(model: &BTreeSet<u64>, universe: u64) -> BTreeSet<u64> {
    let near = model.iter().flat_map(|&n| [n.saturating_sub(1), n, n.saturating_add(1)]);
    near.step_by(7)
        .chain([0, 1, universe / 2, universe.saturating_sub(1)])
        .filter(|&n| n < universe)
        .collect()
}

fn check(set: &FreeSet, model: &BTreeSet<u64>) -> Result<(), TestCaseError> {
    prop_assert_eq!(set.taken(), model.len() as u64);
    prop_assert!(set.iter().eq(model.iter().copied()));
    let taken: Vec<u64> = model.iter().copied().collect();
    for n in landmarks(model, set.universe()) {
        let below = taken.partition_point(|&x| x < n) as u64;
        prop_assert_eq!(set.contains(n), model.contains(&n));
        prop_assert_eq!(set.taken_rank(n), below);
        prop_assert_eq!(set.free_rank(n), n - below);
        if !model.contains(&n) {
            prop_assert_eq!(set.select_free(n - below), Some(n));
        }
    }
    prop_assert_eq!(set.select_free(set.free()), None);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_a_plain_set(universe in universes(), steps in steps()) {
        let mut set = FreeSet::new(universe);
        let mut model = BTreeSet::new();
        for step in steps {
            match step {
                _ if universe == 0 => prop_assert!(!set.insert(0)),
                Step::Take(n) => prop_assert_eq!(set.insert(n % universe), model.insert(n % universe)),
                Step::Free(n) => prop_assert_eq!(set.remove(n % universe), model.remove(&(n % universe))),
                Step::Fill(n, len) => {
                    for n in (n % universe..universe).take(usize::from(len)) {
                        prop_assert_eq!(set.insert(n), model.insert(n));
                    }
                }
                Step::Clear(n, len) => {
                    for n in (n % universe..universe).take(usize::from(len)) {
                        prop_assert_eq!(set.remove(n), model.remove(&n));
                    }
                }
                Step::TakeNth(part) => {
                    let k = u64::try_from((u128::from(set.free()) * u128::from(part)) >> 32).unwrap();
                    if let Some(n) = set.select_free(k) {
                        prop_assert!(model.insert(n), "{n} was not free");
                        prop_assert!(set.insert(n));
                    }
                }
            }
        }
        check(&set, &model)?;
        for n in model.clone() {
            prop_assert!(set.remove(n));
        }
        check(&set, &BTreeSet::new())?;
    }
}

#[test]
fn the_last_free_number_of_a_large_universe() {
    let mut set = FreeSet::new(u64::MAX);
    for n in 0..1000 {
        set.insert(n);
        set.insert(u64::MAX - 1 - n);
    }
    assert_eq!(set.select_free(0), Some(1000));
    assert_eq!(set.select_free(set.free() - 1), Some(u64::MAX - 1001));
    assert_eq!(set.free_rank(u64::MAX), set.free());
}

/// A set that is nearly full or full is as cheap in memory as one that is nearly empty.
#[test]
fn memory_follows_the_smaller_side() {
    let mut set = FreeSet::new(1 << 20);
    let empty = set.heap_bytes();
    for n in 0..1 << 20 {
        set.insert(n);
    }
    assert_eq!(set.free(), 0);
    assert!(set.heap_bytes() < empty + 8192, "{} bytes", set.heap_bytes());
    for n in (0..1 << 20).step_by(1 << 12) {
        set.remove(n);
    }
    assert!(set.heap_bytes() < empty + 8192, "{} bytes", set.heap_bytes());
}
