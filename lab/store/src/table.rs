//! The live objects of one resource, in the order upstream lists them. No locking, no revisions.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, btree_map},
    ops::Bound,
    slice,
    sync::Arc,
};

use super::types::Stored;

type Names = BTreeMap<Arc<str>, Arc<Stored>>;

/// Objects by namespace and name. An empty namespace has no entry.
#[derive(Default)]
pub(super) struct Table {
    /// Sorted by [`namespace_order`].
    namespaces: Vec<(Arc<str>, Names)>,
    count: usize,
    body_bytes: usize,
}

/// The order of namespaces in a list over all of them: that of etcd's keys `namespace/name`, in which the slash sorts
/// after `-`, so that `kube-system` comes before `kube`.
fn namespace_order(left: &str, right: &str) -> Ordering {
    left.bytes().chain([b'/']).cmp(right.bytes().chain([b'/']))
}

impl Table {
    fn position(&self, namespace: &str) -> Result<usize, usize> {
        self.namespaces.binary_search_by(|(known, _)| namespace_order(known, namespace))
    }

    /// The object of that name.
    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<&Arc<Stored>> {
        self.namespaces[self.position(namespace).ok()?].1.get(name)
    }

    /// How many objects there are; costs nothing.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// How many objects the namespace has.
    pub(super) fn count_in(&self, namespace: &str) -> usize {
        self.position(namespace).map_or(0, |at| self.namespaces[at].1.len())
    }

    /// Bytes of JSON of all objects.
    pub(super) fn body_bytes(&self) -> usize {
        self.body_bytes
    }

    /// Puts a version in the place of the one before.
    pub(super) fn insert(&mut self, stored: Arc<Stored>) {
        let at = match self.position(&stored.namespace) {
            Ok(at) => at,
            Err(at) => {
                self.namespaces.insert(at, (Arc::clone(&stored.namespace), Names::new()));
                at
            }
        };
        self.body_bytes += stored.body.len();
        match self.namespaces[at].1.insert(Arc::clone(&stored.name), stored) {
            Some(old) => self.body_bytes -= old.body.len(),
            None => self.count += 1,
        }
    }

    /// Takes an object out.
    pub(super) fn remove(&mut self, namespace: &str, name: &str) {
        let Ok(at) = self.position(namespace) else { return };
        if let Some(old) = self.namespaces[at].1.remove(name) {
            self.body_bytes -= old.body.len();
            self.count -= 1;
        }
        if self.namespaces[at].1.is_empty() {
            self.namespaces.remove(at);
        }
    }

    /// The objects of one namespace, or of all, that come after the key `after`.
    pub(super) fn list(&self, namespace: Option<&str>, after: Option<(&str, &str)>) -> Objects<'_> {
        let from = after.map_or(0, |(namespace, _)| self.position(namespace).unwrap_or_else(|at| at));
        let range = match namespace.map(|namespace| self.position(namespace)) {
            None => from..self.namespaces.len(),
            Some(Ok(at)) if at >= from => at..at + 1,
            Some(_) => 0..0,
        };
        let mut rest = self.namespaces[range].iter();
        let current = rest.next().map_or_else(Default::default, |(namespace, names)| match after {
            Some((after, name)) if after == &**namespace => {
                names.range::<str, _>((Bound::Excluded(name), Bound::Unbounded))
            }
            _ => names.range::<str, _>(..),
        });
        Objects { current, rest }
    }
}

/// Objects in list order: by `namespace/name` as bytes.
#[derive(Clone, Debug)]
pub(super) struct Objects<'a> {
    current: btree_map::Range<'a, Arc<str>, Arc<Stored>>,
    rest: slice::Iter<'a, (Arc<str>, Names)>,
}

impl<'a> Iterator for Objects<'a> {
    type Item = &'a Arc<Stored>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((_, stored)) = self.current.next() {
                return Some(stored);
            }
            self.current = self.rest.next()?.1.range::<str, _>(..);
        }
    }
}
