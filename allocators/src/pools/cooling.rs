//! Values of one pool that were given back and are kept from others for a while.
//!
//! Owns their order in time. It never forgets one by itself before there are too many: a value that has cooled down
//! stays the better choice the longer it lies there.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Key, Kind, Seconds};
use crate::service_key::ServiceKey;

/// The most values that a pool remembers; beyond that the oldest is like one that was never used.
const MOST: usize = 65_536;

/// Who gave a value back, and when.
#[derive(Debug, Clone)]
pub(super) struct Freed {
    pub(super) owner: Option<ServiceKey>,
    pub(super) at: Seconds,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Cooling {
    cool_down: Seconds,
    entries: BTreeMap<(Kind, Key), Freed>,
    oldest: BTreeSet<(Seconds, Kind, Key)>,
    of: HashMap<ServiceKey, BTreeSet<(Seconds, Kind, Key)>>,
}

impl Cooling {
    pub(super) fn new(cool_down: Seconds) -> Self {
        Self { cool_down, ..Self::default() }
    }

    /// Adds a value. Returns the one that is forgotten for it, if there are too many.
    pub(super) fn insert(&mut self, kind: Kind, key: Key, freed: Freed) -> Option<(Kind, Key)> {
        self.remove(kind, key);
        self.oldest.insert((freed.at, kind, key));
        if let Some(owner) = &freed.owner {
            self.of.entry(owner.clone()).or_default().insert((freed.at, kind, key));
        }
        self.entries.insert((kind, key), freed);
        if self.entries.len() <= MOST {
            return None;
        }
        let (_, kind, key) = *self.oldest.first()?;
        self.remove(kind, key);
        Some((kind, key))
    }

    pub(super) fn remove(&mut self, kind: Kind, key: Key) {
        let Some(freed) = self.entries.remove(&(kind, key)) else { return };
        self.oldest.remove(&(freed.at, kind, key));
        if let Some(owner) = freed.owner
            && let Some(own) = self.of.get_mut(&owner)
        {
            own.remove(&(freed.at, kind, key));
            if own.is_empty() {
                self.of.remove(&owner);
            }
        }
    }

    pub(super) fn contains(&self, kind: Kind, key: Key) -> bool {
        self.entries.contains_key(&(kind, key))
    }

    /// When the value was given back, if it is remembered.
    pub(super) fn since(&self, kind: Kind, key: Key) -> Option<Seconds> {
        self.entries.get(&(kind, key)).map(|freed| freed.at)
    }

    /// The values that are kept from others at `now`, the one that was given back last first, at most `most` of them.
    pub(super) fn last(&self, now: Seconds, most: usize) -> impl Iterator<Item = (Kind, Key, &Freed)> {
        let warm = move |at: Seconds| at.saturating_add(self.cool_down) > now;
        let last = self.oldest.iter().rev().take_while(move |(at, _, _)| warm(*at)).take(most);
        last.filter_map(|(_, kind, key)| Some((*kind, *key, self.entries.get(&(*kind, *key))?)))
    }

    /// All values, in no order that means anything.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Kind, Key, &Freed)> {
        self.entries.iter().map(|((kind, key), freed)| (*kind, *key, freed))
    }

    /// The values of a kind that `owner` gave back, the last one first.
    pub(super) fn of(&self, owner: &ServiceKey, kind: Kind) -> impl Iterator<Item = Key> {
        let own = self.of.get(owner).into_iter().flatten().rev();
        own.filter(move |(_, k, _)| *k == kind).map(|(_, _, key)| *key)
    }

    /// The values of a kind that anybody may have at `now`, the oldest first.
    pub(super) fn cooled(&self, kind: Kind, now: Seconds) -> impl Iterator<Item = (Seconds, Key)> {
        let last = now.saturating_sub(self.cool_down);
        let cooled = self.oldest.iter().take_while(move |(at, _, _)| *at <= last);
        cooled.filter(move |(_, k, _)| *k == kind).map(|(at, _, key)| (*at, *key))
    }

    /// How long the value is kept from `owner` still, and who gave it back; `None` when it may be had.
    pub(super) fn keeps(
        &self,
        kind: Kind,
        key: Key,
        owner: &ServiceKey,
        now: Seconds,
    ) -> Option<(Seconds, Option<&ServiceKey>)> {
        let freed = self.entries.get(&(kind, key)).filter(|freed| freed.owner.as_ref() != Some(owner))?;
        let left = freed.at.saturating_add(self.cool_down) - now;
        (left > 0).then_some((left, freed.owner.as_ref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn freed(name: &str, at: Seconds) -> Freed {
        Freed { owner: Some(ServiceKey::new("a", name)), at }
    }

    #[test]
    fn the_oldest_comes_first_and_only_when_it_has_cooled_down() {
        let mut cooling = Cooling::new(60);
        for (key, at) in [(7, 30), (8, 10), (9, 20)] {
            cooling.insert(Kind::V4, key, freed("web", at));
        }
        let cooled = |now| cooling.cooled(Kind::V4, now).map(|(_, key)| key).collect::<Vec<_>>();
        assert_eq!(cooled(69), [] as [Key; 0]);
        assert_eq!(cooled(80), [8, 9]);
        assert_eq!(cooled(90), [8, 9, 7]);
        assert_eq!(cooling.cooled(Kind::Port, 90).count(), 0);
    }

    #[test]
    fn its_last_owner_is_kept_from_nothing() {
        let mut cooling = Cooling::new(60);
        cooling.insert(Kind::V4, 7, freed("web", 10));
        let web = ServiceKey::new("a", "web");
        assert_eq!(cooling.keeps(Kind::V4, 7, &web, 20), None);
        assert_eq!(cooling.keeps(Kind::V4, 7, &ServiceKey::new("a", "api"), 20), Some((50, Some(&web))));
        assert_eq!(cooling.keeps(Kind::V4, 7, &ServiceKey::new("a", "api"), 70), None);
        assert_eq!(cooling.of(&web, Kind::V4).collect::<Vec<_>>(), [7]);
        cooling.remove(Kind::V4, 7);
        assert_eq!(cooling.of(&web, Kind::V4).count(), 0);
    }
}
