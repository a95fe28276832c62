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

/// How often a number is drawn again that is not to be had, before those that are not are counted one by one.
const DRAWS: usize = 32;
/// So few are counted at once.
const FEW: usize = 8;

/// One of the free numbers of `pieces`, each as likely as any other, and none of `except`, which is ascending. The pieces
/// do not overlap.
///
/// Whoever takes many numbers leaves more and more out: counting them each time would cost the square of their number.
pub(crate) fn uniform<N: Copy + Ord + Into<u128>>(
    pieces: &[Piece<'_>],
    except: &[N],
    rng: &mut impl Rng,
) -> Option<u128> {
    if except.len() > FEW {
        let total: u128 = pieces.iter().map(|piece| u128::from(piece.free())).sum();
        for _ in 0..DRAWS {
            if total == 0 {
                return None;
            }
            let number = nth(pieces, below(total, rng))?;
            if except.binary_search_by(|other| (*other).into().cmp(&number)).is_err() {
                return Some(number);
            }
        }
    }
    counted(pieces, except, rng)
}

/// A number below `total`, which is none of 0.
fn below(total: u128, rng: &mut impl Rng) -> u128 {
    match u64::try_from(total) {
        Ok(total) => u128::from(rng.random_range(0..total)),
        // More than 2^64 free addresses take several IPv6 ranges of the largest size.
        Err(_) => rng.random_range(0..total),
    }
}

/// The free number of that rank.
fn nth(pieces: &[Piece<'_>], mut rank: u128) -> Option<u128> {
    for piece in pieces {
        let free = u128::from(piece.free());
        if rank < free {
            return piece.select(u64::try_from(rank).ok()?);
        }
        rank -= free;
    }
    None
}

/// The same choice, in one draw.
fn counted<N: Copy + Into<u128>>(pieces: &[Piece<'_>], except: &[N], rng: &mut impl Rng) -> Option<u128> {
    let mut skipped: SmallVec<[u128; 8]> = SmallVec::new();
    let mut total = 0_u128;
    for piece in pieces {
        let ranks = except.iter().filter_map(|number| piece.rank((*number).into()));
        skipped.extend(ranks.map(|rank| total + u128::from(rank)));
        total += u128::from(piece.free());
    }
    skipped.sort_unstable();
    skipped.dedup();
    let choices = total - skipped.len() as u128;
    if choices == 0 {
        return None;
    }
    let mut k = below(choices, rng);
    for rank in skipped {
        k += u128::from(rank <= k);
    }
    nth(pieces, k)
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
        let except = [105_u128, 106, 130, 500];
        let mut rng = StdRng::seed_from_u64(1);
        let seen: BTreeSet<u128> = (0..2000).map(|_| uniform(&pieces, &except, &mut rng).unwrap()).collect();
        let expected = (100..110).chain(120..140).filter(|n| ![103, 104, 121, 105, 106, 130].contains(n));
        assert_eq!(seen, expected.collect());
        assert_eq!(pieces.iter().map(Piece::free).sum::<u64>(), 8 + 19);
        assert_eq!(pieces.iter().map(Piece::taken).sum::<u64>(), 3);
    }

    /// With a few left out, with many, and with all but one or two.
    #[test]
    fn what_is_left_out_makes_no_number_likelier() {
        let set = FreeSet::new(1000);
        let pieces = [Piece::new(&set, 0, 0, 400), Piece::new(&set, 0, 500, 1000)];
        let mut rng = StdRng::seed_from_u64(1);
        for step in [1, 2, 50, 449] {
            let all: Vec<u16> = (0..400).chain(500..1000).collect();
            let (left, except): (Vec<u16>, Vec<u16>) = all.into_iter().partition(|number| number % step == 0);
            let draws = 40 * left.len();
            let mut times = std::collections::BTreeMap::new();
            for _ in 0..draws {
                *times.entry(uniform(&pieces, &except, &mut rng).unwrap()).or_insert(0) += 1;
            }
            assert_eq!(
                times.keys().copied().collect::<Vec<_>>(),
                left.iter().map(|n| u128::from(*n)).collect::<Vec<_>>()
            );
            assert!(times.values().all(|times| (10..90).contains(times)), "{step}: {times:?}");
        }
    }

    #[test]
    fn nothing_is_chosen_from_nothing() {
        let set = FreeSet::new(20);
        let mut rng = StdRng::seed_from_u64(1);
        let none: [u128; 0] = [];
        assert_eq!(uniform(&[Piece::new(&set, 0, 0, 2)], &[0_u128, 1], &mut rng), None);
        let all: Vec<u16> = (0..20).collect();
        assert_eq!(uniform(&[Piece::new(&set, 0, 0, 20)], &all, &mut rng), None);
        assert_eq!(uniform(&[Piece::new(&set, 5, 0, 4)], &none, &mut rng), None);
        assert_eq!(uniform(&[], &none, &mut rng), None);
    }
}
