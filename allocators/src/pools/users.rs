//! Who fills the pools: how many values of each the Services of each namespace have.
//!
//! Owns the counts. They follow each value that comes and goes, so that the largest are known without going through all
//! Services. It does not know which pool a value is part of.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::value::Kind;

/// The counts of all pools, by their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolUsers(HashMap<Box<str>, OfPool>);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct OfPool {
    all: Counts,
    kinds: BTreeMap<Kind, Counts>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Counts {
    of: HashMap<Box<str>, u64>,
    /// The same, the largest first, and then by name.
    largest: BTreeSet<(Reverse<u64>, Box<str>)>,
}

impl PoolUsers {
    /// A Service of the namespace came to have a value of the pool.
    pub fn add(&mut self, pool: &str, kind: Kind, namespace: &str) {
        if !self.0.contains_key(pool) {
            self.0.insert(pool.into(), OfPool::default());
        }
        if let Some(OfPool { all, kinds }) = self.0.get_mut(pool) {
            all.move_by(namespace, 1);
            kinds.entry(kind).or_default().move_by(namespace, 1);
        }
    }

    /// A Service of the namespace has a value of the pool no more.
    pub fn remove(&mut self, pool: &str, kind: Kind, namespace: &str) {
        let Some(OfPool { all, kinds }) = self.0.get_mut(pool) else { return };
        all.move_by(namespace, -1);
        kinds.entry(kind).or_default().move_by(namespace, -1);
        if all.of.is_empty() {
            self.0.remove(pool);
        }
    }

    /// The namespaces that have most of the pool, of all kinds of values or of one, with how many, the largest first and at
    /// most `most` of them.
    pub fn largest(&self, pool: &str, kind: Option<Kind>, most: usize) -> impl Iterator<Item = (&str, u64)> {
        let counts = self.0.get(pool).and_then(|of| kind.map_or(Some(&of.all), |kind| of.kinds.get(&kind)));
        let all = counts.into_iter().flat_map(|counts| &counts.largest);
        all.take(most).map(|(Reverse(count), namespace)| (&**namespace, *count))
    }
}

impl Counts {
    fn move_by(&mut self, namespace: &str, by: i64) {
        let before = self.of.get(namespace).copied().unwrap_or_default();
        let after = before.saturating_add_signed(by);
        self.largest.remove(&(Reverse(before), namespace.into()));
        if after == 0 {
            self.of.remove(namespace);
        } else {
            self.of.insert(namespace.into(), after);
            self.largest.insert((Reverse(after), namespace.into()));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_largest_come_first_and_those_with_nothing_not_at_all() {
        let mut users = PoolUsers::default();
        for namespace in ["b", "a", "c", "c", "a", "c", "d"] {
            users.add("gold", Kind::V4, namespace);
        }
        users.add("gold", Kind::Port, "b");
        users.add("other", Kind::V4, "b");
        users.remove("gold", Kind::V4, "d");
        assert_eq!(users.largest("gold", Some(Kind::V4), 2).collect::<Vec<_>>(), [("c", 3), ("a", 2)]);
        assert_eq!(users.largest("gold", None, 9).collect::<Vec<_>>(), [("c", 3), ("a", 2), ("b", 2)]);
        assert_eq!(users.largest("gold", Some(Kind::Port), 9).collect::<Vec<_>>(), [("b", 1)]);
        users.remove("other", Kind::V4, "b");
        users.remove("other", Kind::V4, "b");
        assert_eq!(
            (users.largest("other", None, 9).count(), users.0.len()),
            (0, 1),
            "nothing is kept of who has nothing"
        );
    }

    proptest! {
        #[test]
        fn counts_are_those_of_a_recount(moves in prop::collection::vec((0..3_u8, 0..4_u8, any::<bool>()), 0..200)) {
            let (mut users, mut model) = (PoolUsers::default(), BTreeMap::<(u8, u8), u64>::new());
            for (pool, namespace, comes) in moves {
                let count = model.entry((pool, namespace)).or_default();
                let (pool, namespace) = (format!("p{pool}"), format!("n{namespace}"));
                if comes {
                    *count += 1;
                    users.add(&pool, Kind::V6, &namespace);
                } else {
                    *count = count.saturating_sub(1);
                    users.remove(&pool, Kind::V6, &namespace);
                }
            }
            for pool in 0..3 {
                let mut expected: Vec<(u64, String)> = model
                    .iter()
                    .filter(|((of, _), count)| *of == pool && **count > 0)
                    .map(|((_, namespace), count)| (*count, format!("n{namespace}")))
                    .collect();
                expected.sort_by(|(x, a), (y, b)| y.cmp(x).then_with(|| a.cmp(b)));
                let name = format!("p{pool}");
                let found: Vec<(u64, String)> =
                    users.largest(&name, None, 9).map(|(namespace, count)| (count, namespace.to_owned())).collect();
                prop_assert_eq!(found, expected);
            }
        }
    }
}
