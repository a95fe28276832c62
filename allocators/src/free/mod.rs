//! A compressed set of taken numbers that also finds the k-th free one.
//!
//! Owns which of `0..universe` are taken. It never chooses: a uniform choice among the free
//! numbers is a random `k` and one [`FreeSet::select_free`], whose cost does not depend on how
//! full the set is. Nothing probes.

mod bitmap;
mod blocks;
mod chunk;
mod dense;
mod fenwick;
mod search;
mod sparse;

use dense::Dense;
use sparse::Sparse;

/// Universes up to this size have a directory of chunks; larger ones only hold what is taken.
const DENSE_MAX: u64 = 1 << 24;

/// The numbers `0..universe`, each taken or free.
#[derive(Debug, Clone)]
pub struct FreeSet {
    universe: u64,
    taken: u64,
    form: Representation,
}

#[derive(Debug, Clone)]
enum Representation {
    Dense(Dense),
    Sparse(Sparse),
}

impl FreeSet {
    /// A set in which all of `0..universe` are free.
    pub fn new(universe: u64) -> Self {
        let form = if universe <= DENSE_MAX {
            Representation::Dense(Dense::new(universe))
        } else {
            Representation::Sparse(Sparse::new(universe))
        };
        Self { universe, taken: 0, form }
    }

    /// How many numbers there are.
    pub fn universe(&self) -> u64 {
        self.universe
    }

    /// How many numbers are taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// How many numbers are free.
    pub fn free(&self) -> u64 {
        self.universe - self.taken
    }

    /// Whether `n` is taken; numbers outside of the universe never are.
    pub fn contains(&self, n: u64) -> bool {
        n < self.universe
            && match &self.form {
                Representation::Dense(set) => set.contains(n),
                Representation::Sparse(set) => set.contains(n),
            }
    }

    /// Takes `n`; says whether it was free. Numbers outside of the universe are left alone.
    pub fn insert(&mut self, n: u64) -> bool {
        let changed = n < self.universe
            && match &mut self.form {
                Representation::Dense(set) => set.insert(n),
                Representation::Sparse(set) => set.insert(n),
            };
        self.taken += u64::from(changed);
        changed
    }

    /// Frees `n`; says whether it was taken.
    pub fn remove(&mut self, n: u64) -> bool {
        let changed = n < self.universe
            && match &mut self.form {
                Representation::Dense(set) => set.remove(n),
                Representation::Sparse(set) => set.remove(n),
            };
        self.taken -= u64::from(changed);
        changed
    }

    /// The number of free numbers below `n`.
    pub fn free_rank(&self, n: u64) -> u64 {
        if n >= self.universe {
            return self.free();
        }
        match &self.form {
            Representation::Dense(set) => set.free_rank(n),
            Representation::Sparse(set) => n - set.taken_rank(n),
        }
    }

    /// The number of taken numbers below `n`.
    pub fn taken_rank(&self, n: u64) -> u64 {
        n.min(self.universe) - self.free_rank(n)
    }

    /// The `k`-th free number, counted from 0.
    pub fn select_free(&self, k: u64) -> Option<u64> {
        (k < self.free()).then(|| match &self.form {
            Representation::Dense(set) => set.select_free(k),
            Representation::Sparse(set) => set.select_free(k),
        })
    }

    /// The taken numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        let (dense, sparse) = match &self.form {
            Representation::Dense(set) => (Some(set.iter()), None),
            Representation::Sparse(set) => (None, Some(set.iter())),
        };
        dense.into_iter().flatten().chain(sparse.into_iter().flatten())
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        match &self.form {
            Representation::Dense(set) => set.heap_bytes(),
            Representation::Sparse(set) => set.heap_bytes(),
        }
    }
}

#[cfg(test)]
mod tests;
