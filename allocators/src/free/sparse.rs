//! A set over up to 2^64 numbers of which few are taken: sorted blocks with running counts.
//!
//! The cost and the memory follow the taken numbers, never the size of the universe.

use super::fenwick::Fenwick;

/// A block that would grow beyond this is split in two.
const BLOCK_MAX: usize = 256;

/// The taken numbers of a large universe.
#[derive(Debug, Clone)]
pub(crate) struct Sparse {
    /// Ascending lists, ascending among themselves, none of them empty.
    blocks: Vec<Vec<u64>>,
    /// The first number of each block.
    firsts: Vec<u64>,
    /// Taken numbers of each block.
    taken: Fenwick,
}

impl Sparse {
    pub(crate) fn new() -> Self {
        Self { blocks: Vec::new(), firsts: Vec::new(), taken: Fenwick::new(std::iter::empty()) }
    }

    pub(crate) fn contains(&self, n: u64) -> bool {
        self.block_of(n).is_some_and(|b| self.blocks[b].binary_search(&n).is_ok())
    }

    pub(crate) fn insert(&mut self, n: u64) -> bool {
        let Some(b) = self.block_of(n) else {
            // Below every other number.
            if self.blocks.is_empty() {
                self.blocks.push(Vec::with_capacity(BLOCK_MAX));
                self.firsts.push(n);
                self.recount();
            }
            self.firsts[0] = n;
            self.put(0, 0, n);
            return true;
        };
        match self.blocks[b].binary_search(&n) {
            Ok(_) => false,
            Err(at) => {
                self.put(b, at, n);
                true
            }
        }
    }

    pub(crate) fn remove(&mut self, n: u64) -> bool {
        let Some(b) = self.block_of(n) else { return false };
        let Ok(at) = self.blocks[b].binary_search(&n) else { return false };
        self.blocks[b].remove(at);
        if let Some(&first) = self.blocks[b].first() {
            self.firsts[b] = first;
            self.taken.decrement(b);
        } else {
            self.blocks.remove(b);
            self.firsts.remove(b);
            self.recount();
        }
        self.join(b);
        true
    }

    /// The number of taken numbers below `n`.
    pub(crate) fn taken_rank(&self, n: u64) -> u64 {
        self.block_of(n).map_or(0, |b| self.taken.sum(b) + self.blocks[b].partition_point(|&x| x < n) as u64)
    }

    /// The `k`-th number that is not taken, counted from 0.
    pub(crate) fn select_free(&self, k: u64) -> u64 {
        // A block is passed when fewer than k + 1 free numbers lie before its first number. The
        // tree is asked about whole blocks, so look at the first number of the one after them.
        let gaps_before = |block: usize, taken: u64| self.firsts[block] - taken;
        if self.firsts.first().is_none_or(|&first| first > k) {
            return k;
        }
        let last = self.firsts.len() - 1;
        let (b, before) = self.taken.descend(|n, sum| n <= last && gaps_before(n, sum) <= k);
        let block = &self.blocks[b];
        let (mut low, mut high) = (0, block.len());
        while low < high {
            let mid = usize::midpoint(low, high);
            if block[mid] - (before + mid as u64) <= k {
                low = mid + 1;
            } else {
                high = mid;
            }
        }
        k + before + low as u64
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.blocks.iter().flatten().copied()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<Vec<u64>>()
            + self.blocks.iter().map(|b| b.capacity() * size_of::<u64>()).sum::<usize>()
            + self.firsts.capacity() * size_of::<u64>()
            + self.taken.heap_bytes()
    }

    /// The block in which `n` is, or would be; `None` when it is below all of them.
    fn block_of(&self, n: u64) -> Option<usize> {
        self.firsts.partition_point(|&first| first <= n).checked_sub(1)
    }

    fn put(&mut self, b: usize, at: usize, n: u64) {
        self.blocks[b].insert(at, n);
        if self.blocks[b].len() <= BLOCK_MAX {
            self.taken.increment(b);
            return;
        }
        let mut right = Vec::with_capacity(BLOCK_MAX + 1);
        right.extend(self.blocks[b].drain(BLOCK_MAX / 2..));
        self.firsts.insert(b + 1, right[0]);
        self.blocks.insert(b + 1, right);
        self.recount();
    }

    /// Joins block `b` with the one after it when both have become small.
    fn join(&mut self, b: usize) {
        if b + 1 >= self.blocks.len() || self.blocks[b].len() + self.blocks[b + 1].len() > BLOCK_MAX / 4 {
            return;
        }
        let right = self.blocks.remove(b + 1);
        self.firsts.remove(b + 1);
        self.blocks[b].extend(right);
        self.recount();
    }

    fn recount(&mut self) {
        self.taken = Fenwick::new(self.blocks.iter().map(|b| b.len() as u64));
    }
}
