//! What a pod's change means to a Service that selects it.
//!
//! Pure: two states of a pod in, the effect on its endpoint out.

use std::sync::Arc;

use super::pods::PodChange;
use crate::cache::Pod;

/// What a pod's change means to a Service that selects it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    None,
    /// Only the times of its readiness changed.
    Times,
    /// No endpoint changes, but the Service is looked at: that takes note of times.
    Look,
    /// Its endpoint comes, becomes ready, or changes otherwise.
    In,
    /// An endpoint that could be used goes, is not ready any more, or terminates.
    Out,
}

impl Effect {
    /// The effect on a Service that selects the pod as before.
    #[must_use]
    pub fn of(change: &PodChange) -> Self {
        match (&change.old, &change.new) {
            (None, None) => Self::None,
            (Some(old), Some(new)) if old == new && !change.services.iter().any(|(_, moved)| *moved) => {
                Self::None
            }
            (Some(old), Some(new)) => Self::between(old, new),
            (Some(old), None) => Self::of_leaving(old),
            (None, Some(new)) => Self::of_joining(new),
        }
    }

    /// The effect on a Service that the pod joined or left.
    #[must_use]
    pub fn of_moving(change: &PodChange, selects_now: bool) -> Self {
        match (&change.old, &change.new) {
            (_, Some(new)) if selects_now => Self::of_joining(new),
            (Some(old), _) => Self::of_leaving(old),
            (None, Some(new)) => Self::of_leaving(new),
            (None, None) => Self::None,
        }
    }

    fn of_joining(pod: &Arc<Pod>) -> Self {
        if pod.is_listed() { Self::In } else { Self::Look }
    }

    fn of_leaving(pod: &Arc<Pod>) -> Self {
        match (pod.is_listed(), pod.ready) {
            (false, _) => Self::Look,
            (true, true) => Self::Out,
            // Nobody sends anything there: it can go with the next write.
            (true, false) => Self::In,
        }
    }

    fn between(old: &Pod, new: &Pod) -> Self {
        let moved = old.terminating != new.terminating || old.ips != new.ips;
        // Whatever is written of a terminating pod counts as a change of it.
        let times = if new.terminating { Self::Look } else { Self::Times };
        if !old.is_listed() && !new.is_listed() {
            return if moved || old.ready != new.ready { Self::Look } else { times };
        }
        let times_only = Pod { ready_since: old.ready_since, ..new.clone() } == *old;
        if times_only {
            return times;
        }
        let was_used = old.is_listed() && old.ready;
        let stays = new.is_listed() && new.ready && new.ips == old.ips;
        let ends = !stays || (new.terminating && !old.terminating);
        if was_used && ends { Self::Out } else { Self::In }
    }
}

#[cfg(test)]
mod tests {
    use smallvec::SmallVec;

    use super::*;

    fn pod(ready: bool, listed: bool) -> Pod {
        let ips = if listed {
            [crate::text::Address::from("10.0.0.1")].into_iter().collect()
        } else {
            SmallVec::new()
        };
        Pod {
            name: "p".into(),
            uid: crate::text::Uid::Absent,
            node: None,
            ips,
            hostname: None,
            subdomain: None,
            named_ports: Arc::new([]),
            ready_since: None,
            ready,
            terminating: false,
            finished: false,
        }
    }

    fn effect(old: Option<Pod>, new: Option<Pod>) -> Effect {
        Effect::of(&PodChange { old: old.map(Arc::new), new: new.map(Arc::new), services: SmallVec::new() })
    }

    #[test]
    fn what_takes_an_endpoint_out_is_told_from_what_brings_one_in() {
        let (ready, unready, unlisted) = (pod(true, true), pod(false, true), pod(false, false));
        let terminating = Pod { terminating: true, ..ready.clone() };
        let unready_terminating = Pod { terminating: true, ..unready.clone() };
        let finished = Pod { finished: true, ..ready.clone() };
        let moved =
            Pod { ips: [crate::text::Address::from("10.0.0.2")].into_iter().collect(), ..ready.clone() };
        for (old, new, expected) in [
            (None, Some(&ready), Effect::In),
            (None, Some(&unready), Effect::In),
            (None, Some(&unlisted), Effect::Look),
            (Some(&unlisted), Some(&unready), Effect::In),
            (Some(&unready), Some(&ready), Effect::In),
            (Some(&ready), Some(&unready), Effect::Out),
            (Some(&ready), Some(&terminating), Effect::Out),
            (Some(&terminating), Some(&unready_terminating), Effect::Out),
            (Some(&unready), Some(&unready_terminating), Effect::In),
            (Some(&ready), Some(&finished), Effect::Out),
            (Some(&ready), Some(&moved), Effect::Out),
            (Some(&terminating), None, Effect::Out),
            (Some(&unready_terminating), None, Effect::In),
            (Some(&ready), Some(&ready), Effect::None),
        ] {
            assert_eq!(effect(old.cloned(), new.cloned()), expected, "{old:?} to {new:?}");
        }
    }
}
