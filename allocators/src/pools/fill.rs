//! How full a pool is.
//!
//! Owns the three levels at which somebody is told. It tells nobody.

use std::collections::BTreeMap;

use super::Kind;

/// How far below a threshold the fill must come before that threshold is told of again, in per cent.
const SLACK: u128 = 5;

/// How full something is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Less than 80 per cent.
    #[default]
    Normal,
    /// 80 per cent or more.
    Eighty,
    /// 90 per cent or more.
    Ninety,
    /// Nothing is left.
    Full,
}

impl Level {
    /// The level of `used` values of `used + free`; an empty range is full.
    pub fn of(used: u64, free: u64) -> Self {
        let (used, total) = (u128::from(used), u128::from(used) + u128::from(free));
        match used * 100 {
            _ if free == 0 => Self::Full,
            used if used >= total * 90 => Self::Ninety,
            used if used >= total * 80 => Self::Eighty,
            _ => Self::Normal,
        }
    }

    /// The level after `self`: it rises at once, and falls when the fill is 5 per cent below the threshold, so that one
    /// Service that comes and goes is not told of each time.
    #[must_use]
    pub fn next(self, used: u64, free: u64) -> Self {
        let now = Self::of(used, free);
        if now >= self {
            return now;
        }
        let total = u128::from(used) + u128::from(free);
        let keeps = |threshold: u128| u128::from(used) * 100 > total * (threshold - SLACK);
        match self {
            Self::Full if keeps(100) => Self::Full,
            Self::Full | Self::Ninety if keeps(90) => Self::Ninety.max(now),
            Self::Full | Self::Ninety | Self::Eighty if keeps(80) => Self::Eighty.max(now),
            _ => now,
        }
    }

    /// The reason of its condition and Event.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Normal => "EnoughLeft",
            Self::Eighty => "EightyPercentUsed",
            Self::Ninety => "NinetyPercentUsed",
            Self::Full => "Full",
        }
    }
}

/// How full one pool is: used and free values of the lower and of the upper band, of each kind that it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolUsage {
    /// The pool's name.
    pub pool: String,
    /// The counts.
    pub kinds: BTreeMap<Kind, [(u64, u64); 2]>,
}

impl PoolUsage {
    /// Used and free values of one kind, both bands together.
    pub fn total(&self, kind: Kind) -> Option<(u64, u64)> {
        let [lower, upper] = self.kinds.get(&kind)?;
        Some((lower.0.saturating_add(upper.0), lower.1.saturating_add(upper.1)))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(79, 21, Level::Normal)]
    #[case(80, 20, Level::Eighty)]
    #[case(89, 11, Level::Eighty)]
    #[case(90, 10, Level::Ninety)]
    #[case(99, 1, Level::Ninety)]
    #[case(100, 0, Level::Full)]
    #[case(0, 0, Level::Full)]
    #[case(u64::MAX, u64::MAX, Level::Normal)]
    #[case(0, u64::MAX, Level::Normal)]
    fn levels(#[case] used: u64, #[case] free: u64, #[case] level: Level) {
        assert_eq!(Level::of(used, free), level);
    }

    #[rstest]
    #[case(Level::Normal, 80, Level::Eighty)]
    #[case(Level::Eighty, 79, Level::Eighty)]
    #[case(Level::Eighty, 76, Level::Eighty)]
    #[case(Level::Eighty, 75, Level::Normal)]
    #[case(Level::Ninety, 89, Level::Ninety)]
    #[case(Level::Ninety, 85, Level::Eighty)]
    #[case(Level::Ninety, 10, Level::Normal)]
    #[case(Level::Full, 99, Level::Full)]
    #[case(Level::Full, 95, Level::Ninety)]
    #[case(Level::Full, 0, Level::Normal)]
    fn a_level_falls_later_than_it_rises(#[case] before: Level, #[case] used: u64, #[case] after: Level) {
        assert_eq!(before.next(used, 100 - used), after);
    }
}
