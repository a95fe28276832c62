//! A uniform choice among the free numbers of several stretches.
//!
//! Owns the choice by rank: no stretch is searched and nothing is tried twice, so the cost does not depend on how full
//! they are. It never takes what it chooses.

use rand::{Rng, RngExt};
use smallvec::SmallVec;

use crate::free::FreeSet;

/// The free numbers of one stretch of a set; a number is `first` and its place in the set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece<'a> {
    set: &'a FreeSet,
    first: u128,
    from: u64,
    to: u64,
}

impl<'a> Piece<'a> {
    /// The stretch from `from` to `to` (not included) of `set`, whose place 0 is the number `first`. What lies outside of
    /// the set is left out.
    pub(crate) fn new(set: &'a FreeSet, first: u128, from: u128, to: u128) -> Self {
        let place = |number: u128| {
            u64::try_from(number.saturating_sub(first)).unwrap_or(u64::MAX).min(set.universe())
        };
        let (from, to) = (place(from), place(to));
        Self { set, first, from: from.min(to), to }
    }

    /// How many of its numbers are free.
    pub(crate) fn free(&self) -> u64 {
        self.set.free_rank(self.to) - self.set.free_rank(self.from)
    }

    /// How many are not.
    pub(crate) fn taken(&self) -> u64 {
        (self.to - self.from) - self.free()
    }

    fn select(&self, k: u64) -> Option<u128> {
        self.set.select_free(self.set.free_rank(self.from) + k).map(|place| self.first + u128::from(place))
    }

    /// The rank of `number` among the free ones, if it is one of them.
    fn rank(&self, number: u128) -> Option<u64> {
        let place = u64::try_from(number.checked_sub(self.first)?).ok()?;
        let inside = (self.from..self.to).contains(&place) && !self.set.contains(place);
        inside.then(|| self.set.free_rank(place) - self.set.free_rank(self.from))
    }
}

/// One of the free numbers of `pieces`, each as likely as any other, and none of `except`. The pieces do not overlap.
pub(crate) fn uniform(pieces: &[Piece<'_>], except: &[u128], rng: &mut impl Rng) -> Option<u128> {
    let mut skipped: SmallVec<[u128; 8]> = SmallVec::new();
    let mut total = 0_u128;
    for piece in pieces {
        skipped.extend(except.iter().filter_map(|n| piece.rank(*n)).map(|rank| total + u128::from(rank)));
        total += u128::from(piece.free());
    }
    skipped.sort_unstable();
    skipped.dedup();
    let mut k = match u64::try_from(total - skipped.len() as u128) {
        Ok(0) => return None,
        Ok(choices) => u128::from(rng.random_range(0..choices)),
        // More than 2^64 free addresses take several IPv6 ranges of the largest size.
        Err(_) => rng.random_range(0..total - skipped.len() as u128),
    };
    for rank in skipped {
        k += u128::from(rank <= k);
    }
    for piece in pieces {
        let free = u128::from(piece.free());
        if k < free {
            return piece.select(u64::try_from(k).ok()?);
        }
        k -= free;
    }
    None
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::{SeedableRng as _, rngs::StdRng};

    use super::*;

    #[test]
    fn every_free_number_is_chosen_and_no_other() {
        let mut set = FreeSet::new(40);
        for n in [3, 4, 21] {
            set.insert(n);
        }
        let pieces = [Piece::new(&set, 100, 100, 110), Piece::new(&set, 100, 120, 1000)];
        let except = [105, 106, 130, 500];
        let mut rng = StdRng::seed_from_u64(1);
        let seen: BTreeSet<u128> = (0..2000).map(|_| uniform(&pieces, &except, &mut rng).unwrap()).collect();
        let expected = (100..110).chain(120..140).filter(|n| ![103, 104, 121, 105, 106, 130].contains(n));
        assert_eq!(seen, expected.collect());
        assert_eq!(pieces.iter().map(Piece::free).sum::<u64>(), 8 + 19);
        assert_eq!(pieces.iter().map(Piece::taken).sum::<u64>(), 3);
    }

    #[test]
    fn nothing_is_chosen_from_nothing() {
        let set = FreeSet::new(2);
        let mut rng = StdRng::seed_from_u64(1);
        assert_eq!(uniform(&[Piece::new(&set, 0, 0, 2)], &[0, 1], &mut rng), None);
        assert_eq!(uniform(&[Piece::new(&set, 5, 0, 4)], &[], &mut rng), None);
        assert_eq!(uniform(&[], &[], &mut rng), None);
    }
}
