//! The parts of all pools of one kind, side by side.
//!
//! Owns which values of each part automatic choice can not have, and how the stretches that are open to choice are cut
//! where a part begins or ends. It does not know why a value is unavailable.

use super::define::Stretch;
use super::{Key, Kind, Open as _, PoolId, Share};
use crate::free::FreeSet;
use crate::pick::Piece;
use crate::plan::Ledger;

#[derive(Debug, Clone)]
struct Part {
    pool: PoolId,
    first: Key,
    end: Key,
    upper: Key,
    unavailable: FreeSet,
}

/// Ascending and disjoint.
#[derive(Debug, Clone, Default)]
pub(super) struct Parts(Vec<Part>);

impl Share {
    /// Shares are dealt of a band as the pool has it, whatever of it is open: replicas that do not know the same ranges
    /// yet have the same shares.
    fn of_band(self, part: &Part, upper: bool) -> (Key, Key) {
        let (from, to) = part.band(upper);
        self.of_stretch(from, to)
    }
}

impl Part {
    fn band(&self, upper: bool) -> (Key, Key) {
        if upper { (self.upper, self.end) } else { (self.first, self.upper) }
    }
}

impl Parts {
    /// Adds a stretch of a pool. Returns the pool that has a part of it already; nothing is added then.
    pub(super) fn add(&mut self, pool: PoolId, stretch: &Stretch) -> Option<PoolId> {
        let at = self.0.partition_point(|part| part.end <= stretch.first);
        if let Some(next) = self.0.get(at).filter(|part| part.first < stretch.end) {
            return Some(next.pool);
        }
        let size = u64::try_from(stretch.end - stretch.first).unwrap_or(u64::MAX);
        self.0.insert(
            at,
            Part {
                pool,
                first: stretch.first,
                end: stretch.first + Key::from(size),
                upper: stretch.upper,
                unavailable: FreeSet::new(size),
            },
        );
        None
    }

    fn find(&self, key: Key) -> Option<usize> {
        let i = self.0.partition_point(|part| part.first <= key).checked_sub(1)?;
        (key < self.0[i].end).then_some(i)
    }

    /// The pool that has this value.
    pub(super) fn pool_of(&self, key: Key) -> Option<PoolId> {
        self.find(key).map(|i| self.0[i].pool)
    }

    /// Whether a value of a part is in the share.
    pub(super) fn is_in_share(&self, key: Key, share: Share) -> bool {
        self.find(key).is_some_and(|i| {
            let (from, to) = share.of_band(&self.0[i], key >= self.0[i].upper);
            (from..to).contains(&key)
        })
    }

    /// Says whether automatic choice can have the value.
    pub(super) fn set(&mut self, key: Key, unavailable: bool) {
        let Some(i) = self.find(key) else { return };
        let part = &mut self.0[i];
        let Ok(place) = u64::try_from(key - part.first) else { return };
        if unavailable {
            part.unavailable.insert(place);
        } else {
            part.unavailable.remove(place);
        }
    }

    /// What of the open stretches belongs to `pool`: of its upper bands, or of its lower ones.
    pub(super) fn own(
        &self,
        pool: PoolId,
        open: &[(Key, Key, &FreeSet)],
        upper: bool,
        share: Share,
    ) -> Vec<Piece<'_>> {
        let mut pieces = Vec::new();
        for part in self.0.iter().filter(|part| part.pool == pool) {
            let (from, to) = share.of_band(part, upper);
            for (start, end, _) in open {
                let (from, to) = (from.max(*start), to.min(*end));
                if from < to {
                    pieces.push(Piece::new(&part.unavailable, part.first, from, to));
                }
            }
        }
        pieces
    }

    /// What of the open stretches a Service without a pool may have: what no pool has, and the parts of pools for which
    /// `is_open`.
    pub(super) fn others<'a>(
        &'a self,
        open: &[(Key, Key, &'a FreeSet)],
        is_open: impl Fn(PoolId) -> bool,
        share: Share,
    ) -> Vec<Piece<'a>> {
        let mut pieces = Vec::new();
        for (start, end, set) in open {
            let mut add = |set: &'a FreeSet, first: Key, from: Key, to: Key| {
                if from < to {
                    pieces.push(Piece::new(set, first, from, to));
                }
            };
            let own = share.of_stretch(*start, *end);
            let mut at = *start;
            let begin = self.0.partition_point(|part| part.end <= *start);
            for part in self.0[begin..].iter().take_while(|part| part.first < *end) {
                add(set, *start, at.max(own.0), part.first.min(own.1));
                for band in [false, true].into_iter().filter(|_| is_open(part.pool)) {
                    let (from, to) = share.of_band(part, band);
                    add(&part.unavailable, part.first, from.max(*start), to.min(*end));
                }
                at = part.end;
            }
            add(set, *start, at.max(own.0), own.1);
        }
        pieces
    }

    /// Used and free values of the lower and the upper bands of a pool: what it has of all open stretches. `None` when
    /// the pool has no part here.
    pub(super) fn fill(&self, pool: PoolId, kind: Kind, ledger: &Ledger) -> Option<[(u64, u64); 2]> {
        self.0.iter().any(|part| part.pool == pool).then_some(())?;
        let open = |upper: bool| match kind {
            Kind::V4 | Kind::V6 => ledger.addresses.open(kind, upper),
            Kind::Port => ledger.ports.open(kind, upper),
        };
        let stretches: Vec<_> = open(true).into_iter().chain(open(false)).collect();
        let count = |upper: bool| {
            let mut sum = (0_u64, 0_u64);
            for part in self.0.iter().filter(|part| part.pool == pool) {
                let (from, to) = part.band(upper);
                for (start, end, set) in &stretches {
                    let (from, to) = (from.max(*start), to.min(*end));
                    if from < to {
                        let piece = Piece::new(set, *start, from, to);
                        sum = (sum.0.saturating_add(piece.taken()), sum.1.saturating_add(piece.free()));
                    }
                }
            }
            sum
        };
        Some([count(false), count(true)])
    }
}
