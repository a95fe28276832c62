//! A crowd of numbers in a large universe: sorted blocks with running counts.
//!
//! Slower than a directory, and whatever the numbers are just as slow: it has no bad case.

use super::fenwick::Fenwick;
use super::search::partition_point;

/// A block that would grow beyond this is split in two.
const BLOCK_MAX: usize = 128;

/// Ascending numbers.
#[derive(Debug, Clone)]
pub(crate) struct Blocks {
    /// Ascending lists, ascending among themselves, none of them empty.
    lists: Vec<Vec<u64>>,
    /// The first number of each block.
    firsts: Vec<u64>,
    /// Taken numbers of each block.
    taken: Fenwick,
}

impl Blocks {
    /// Of these numbers, which must be ascending.
    pub(crate) fn new(numbers: &[u64]) -> Self {
        let lists: Vec<Vec<u64>> = numbers.chunks(BLOCK_MAX / 2).map(<[u64]>::to_vec).collect();
        let firsts = numbers.iter().copied().step_by(BLOCK_MAX / 2).collect();
        let mut set = Self { lists, firsts, taken: Fenwick::default() };
        set.recount();
        set
    }

    pub(crate) fn len(&self) -> u64 {
        self.taken.sum(self.lists.len())
    }

    pub(crate) fn contains(&self, n: u64) -> bool {
        self.block_of(n).is_some_and(|b| self.lists[b].binary_search(&n).is_ok())
    }

    pub(crate) fn insert(&mut self, n: u64) -> bool {
        let Some(b) = self.block_of(n) else {
            // Below every other number.
            if self.lists.is_empty() {
                self.lists.push(Vec::with_capacity(BLOCK_MAX));
                self.firsts.push(n);
                self.recount();
            }
            self.firsts[0] = n;
            self.put(0, 0, n);
            return true;
        };
        match self.lists[b].binary_search(&n) {
            Ok(_) => false,
            Err(at) => {
                self.put(b, at, n);
                true
            }
        }
    }

    pub(crate) fn remove(&mut self, n: u64) -> bool {
        let Some(b) = self.block_of(n) else { return false };
        let Ok(at) = self.lists[b].binary_search(&n) else { return false };
        self.lists[b].remove(at);
        if let Some(&first) = self.lists[b].first() {
            self.firsts[b] = first;
            self.taken.decrement(b);
        } else {
            self.lists.remove(b);
            self.firsts.remove(b);
            self.recount();
        }
        self.join(b);
        true
    }

    /// The number of taken numbers below `n`.
    pub(crate) fn taken_rank(&self, n: u64) -> u64 {
        self.block_of(n).map_or(0, |b| self.taken.sum(b) + self.lists[b].partition_point(|&x| x < n) as u64)
    }

    /// The `k`-th number from `start` on that is not one of these, counted from 0. None of these
    /// may be below `start`.
    pub(crate) fn select_free(&self, start: u64, k: u64) -> u64 {
        // Free numbers between the start and a block, or a number of a block.
        let gaps = |n: u64, taken: u64| n - start - taken;
        if self.firsts.first().is_none_or(|&first| gaps(first, 0) > k) {
            return start + k;
        }
        // The tree counts whole blocks, so look at the first number of the one after them.
        let (b, before) =
            self.taken.descend(|n, taken| self.firsts.get(n).is_some_and(|&first| gaps(first, taken) <= k));
        let block = &self.lists[b];
        let passed = partition_point(block.len(), |i| gaps(block[i], before + i as u64) <= k);
        start + k + before + passed as u64
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.lists.iter().flatten().copied()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.lists.capacity() * size_of::<Vec<u64>>()
            + self.lists.iter().map(|b| b.capacity() * size_of::<u64>()).sum::<usize>()
            + self.firsts.capacity() * size_of::<u64>()
            + self.taken.heap_bytes()
    }

    /// The block in which `n` is, or would be; `None` when it is below all of them.
    fn block_of(&self, n: u64) -> Option<usize> {
        self.firsts.partition_point(|&first| first <= n).checked_sub(1)
    }

    fn put(&mut self, b: usize, at: usize, n: u64) {
        self.lists[b].insert(at, n);
        if self.lists[b].len() <= BLOCK_MAX {
            self.taken.increment(b);
            return;
        }
        let mut right = Vec::with_capacity(BLOCK_MAX + 1);
        right.extend(self.lists[b].drain(BLOCK_MAX / 2..));
        self.firsts.insert(b + 1, right[0]);
        self.lists.insert(b + 1, right);
        self.recount();
    }

    /// Joins block `b` with the one after it when both have become small.
    fn join(&mut self, b: usize) {
        if b + 1 >= self.lists.len() || self.lists[b].len() + self.lists[b + 1].len() > BLOCK_MAX / 4 {
            return;
        }
        let right = self.lists.remove(b + 1);
        self.firsts.remove(b + 1);
        self.lists[b].extend(right);
        self.recount();
    }

    fn recount(&mut self) {
        self.taken = Fenwick::new(self.lists.iter().map(|b| b.len() as u64));
    }
}
