//! Running sums over a short array: a Fenwick tree.
//!
//! Owns counts only; what they count is the caller's. Every operation takes log2(length) steps.

use std::hint;

/// Counts with running sums.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fenwick {
    /// `tree[i]` is the sum of the `i & -i` counts that end with number `i` (counted from 1).
    tree: Vec<u64>,
}

impl Fenwick {
    /// A tree over `counts`.
    pub(crate) fn new(counts: impl Iterator<Item = u64>) -> Self {
        let mut tree = vec![0];
        tree.extend(counts);
        for i in 1..tree.len() {
            let parent = i + (i & i.wrapping_neg());
            if parent < tree.len() {
                tree[parent] += tree[i];
            }
        }
        Self { tree }
    }

    /// Adds 1 to the count at `index`.
    pub(crate) fn increment(&mut self, index: usize) {
        let mut i = index + 1;
        while i < self.tree.len() {
            self.tree[i] += 1;
            i += i & i.wrapping_neg();
        }
    }

    /// Takes 1 from the count at `index`, which must not be 0.
    pub(crate) fn decrement(&mut self, index: usize) {
        let mut i = index + 1;
        while i < self.tree.len() {
            self.tree[i] -= 1;
            i += i & i.wrapping_neg();
        }
    }

    /// The sum of the first `n` counts.
    pub(crate) fn sum(&self, n: usize) -> u64 {
        let mut i = n.min(self.tree.len() - 1);
        let mut sum = 0;
        while i > 0 {
            sum += self.tree[i];
            i &= i - 1;
        }
        sum
    }

    /// The largest `n` for which `keep(n, sum of the first n counts)` holds, and that sum.
    ///
    /// `keep` must hold for a leading part of the numbers `1..=length` and for none after it.
    pub(crate) fn descend(&self, keep: impl Fn(usize, u64) -> bool) -> (usize, u64) {
        let (mut n, mut sum) = (0, 0);
        let mut step = self.tree.len().next_power_of_two() / 2;
        while step > 0 {
            let next = n + step;
            if let Some(count) = self.tree.get(next) {
                // Both ways are as likely, so do not let the processor guess.
                let kept = keep(next, sum + count);
                n = hint::select_unpredictable(kept, next, n);
                sum = hint::select_unpredictable(kept, sum + count, sum);
            }
            step /= 2;
        }
        (n, sum)
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.tree.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_plain_sums(counts in prop::collection::vec(0_u64..50, 0..70), k in 0_u64..2000) {
            let tree = Fenwick::new(counts.iter().copied());
            for n in 0..=counts.len() {
                prop_assert_eq!(tree.sum(n), counts[..n].iter().sum::<u64>());
            }
            let expected = (0..=counts.len()).rev().find(|&n| tree.sum(n) <= k).unwrap_or(0);
            prop_assert_eq!(tree.descend(|_, sum| sum <= k), (expected, tree.sum(expected)));
        }

        #[test]
        fn changes_one_count(mut counts in prop::collection::vec(1_u64..50, 1..70), at in any::<prop::sample::Index>()) {
            let mut tree = Fenwick::new(counts.iter().copied());
            let at = at.index(counts.len());
            tree.increment(at);
            tree.increment(at);
            tree.decrement(at);
            counts[at] += 1;
            for n in 0..=counts.len() {
                prop_assert_eq!(tree.sum(n), counts[..n].iter().sum::<u64>());
            }
        }
    }
}
