//! What reconciles changed, in words: pure.

use std::time::Duration;

use super::metrics::Planned;
use super::written::Written;
use crate::api::Verb;

/// So many objects are named; of more there is a number.
const NAMED: usize = 3;

/// The first of some texts, and how many more there are.
#[must_use]
pub(crate) fn few(texts: impl ExactSizeIterator<Item = String>) -> String {
    let more = texts.len().saturating_sub(NAMED);
    let named: Vec<String> = texts.take(NAMED).collect();
    let named = named.join(", ");
    if more == 0 { named } else { format!("{named} and {more} more") }
}

/// The versions of what was written, before and after: `new` before there was one, `gone` after its end.
#[must_use]
pub(super) fn versions(written: &Written) -> String {
    let version = |version: Option<u64>, otherwise: &str| {
        version.map_or_else(|| otherwise.to_owned(), |version| version.to_string())
    };
    let (before, after) = match written.verb {
        Verb::Create => ("new", "?"),
        Verb::Delete => ("?", "gone"),
        Verb::Update | Verb::Merge => ("?", "?"),
    };
    format!("{}->{}", version(written.before, before), version(written.after, after))
}

/// What became of endpoints and slices, as `+2 endpoints, 1 no longer ready; 1 slice updated, 99/100 full`.
#[must_use]
pub(super) fn of_slices(planned: &Planned, written: &[Written], max: usize) -> String {
    let moved = moved(planned);
    let slices = slices(written);
    let fills: Vec<&Written> = written.iter().filter(|written| written.endpoints.is_some()).collect();
    let fills = few(fills.iter().map(|written| format!("{}/{max}", written.endpoints.unwrap_or_default())));
    let parts = [moved, if fills.is_empty() { slices } else { format!("{slices}, {fills} full") }];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("; ")
}

/// What became of endpoints.
fn moved(planned: &Planned) -> String {
    let &Planned { added, updated, removed, readied, unready, .. } = planned;
    let changed = updated.saturating_sub(readied + unready);
    let parts = [
        (added, "+", ""),
        (removed, "-", ""),
        (unready, "", " no longer ready"),
        (readied, "", " now ready"),
        (changed, "", " changed otherwise"),
    ];
    let parts = parts.into_iter().filter(|(count, ..)| *count > 0).enumerate();
    let parts: Vec<String> = parts
        .map(|(position, (count, sign, became))| match (position, count) {
            (0, 1) => format!("{sign}1 endpoint{became}"),
            (0, count) => format!("{sign}{count} endpoints{became}"),
            (_, count) => format!("{sign}{count}{became}"),
        })
        .collect();
    parts.join(", ")
}

/// What became of slices, as `1 slice updated, 2 created`.
fn slices(written: &[Written]) -> String {
    let verbs = [Verb::Update, Verb::Create, Verb::Delete];
    let counted = verbs.map(|verb| (written.iter().filter(|written| written.verb == verb).count(), verb));
    let parts = counted.into_iter().filter(|(count, _)| *count > 0).enumerate();
    let parts: Vec<String> = parts
        .map(|(position, (count, verb))| match (position, count) {
            (0, 1) => format!("1 slice {}", past(verb)),
            (0, count) => format!("{count} slices {}", past(verb)),
            (_, count) => format!("{count} {}", past(verb)),
        })
        .collect();
    parts.join(", ")
}

/// What became of an `Endpoints` object, as `updated: 3 addresses, 1 not ready`.
#[must_use]
pub(super) fn of_addresses(written: &[Written], ready: usize, not_ready: usize) -> String {
    let verb = written.first().map_or("not written", |written| past(written.verb));
    if written.first().is_some_and(|written| written.verb == Verb::Delete) {
        return verb.to_owned();
    }
    let all = match ready + not_ready {
        0 => "no addresses".to_owned(),
        1 => "1 address".to_owned(),
        all => format!("{all} addresses"),
    };
    if not_ready == 0 { format!("{verb}: {all}") } else { format!("{verb}: {all}, {not_ready} not ready") }
}

/// What was done, when it has been done.
const fn past(verb: Verb) -> &'static str {
    match verb {
        Verb::Create => "created",
        Verb::Update => "updated",
        Verb::Merge => "patched",
        Verb::Delete => "deleted",
    }
}

/// A time as people read it: microseconds below a millisecond, three digits or so above.
#[must_use]
pub(super) fn short(time: Duration) -> Duration {
    let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let step = match micros {
        0..1_000 => 1,
        1_000..10_000 => 10,
        10_000..100_000 => 100,
        100_000..1_000_000 => 1_000,
        _ => 10_000,
    };
    Duration::from_micros(micros / step * step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Resource;

    fn written(verb: Verb, endpoints: Option<usize>) -> Written {
        let (sent, took, resource) = (Duration::ZERO, Duration::ZERO, Resource::Slices);
        Written {
            verb,
            resource,
            name: "web-1".into(),
            before: None,
            after: None,
            endpoints,
            place: 0,
            sent,
            took,
        }
    }

    #[test]
    fn what_became_of_endpoints_is_put_into_words() {
        let none = Planned::default();
        let one = [written(Verb::Update, Some(99))];
        for (planned, expected) in [
            (none, "1 slice updated, 99/100 full"),
            (Planned { added: 1, ..none }, "+1 endpoint; 1 slice updated, 99/100 full"),
            (Planned { removed: 2, ..none }, "-2 endpoints; 1 slice updated, 99/100 full"),
            (
                Planned { added: 2, updated: 1, unready: 1, ..none },
                "+2 endpoints, 1 no longer ready; 1 slice updated, 99/100 full",
            ),
            (
                Planned { updated: 1, unready: 1, ..none },
                "1 endpoint no longer ready; 1 slice updated, 99/100 full",
            ),
            (
                Planned { added: 1, removed: 1, updated: 4, readied: 3, ..none },
                "+1 endpoint, -1, 3 now ready, 1 changed otherwise; 1 slice updated, 99/100 full",
            ),
        ] {
            assert_eq!(of_slices(&planned, &one, 100), expected);
        }
    }

    #[test]
    fn what_became_of_many_slices_is_short() {
        let mut all = vec![written(Verb::Delete, None)];
        all.extend((0..5).map(|_| written(Verb::Create, Some(100))));
        let planned = Planned { added: 500, removed: 3, ..Planned::default() };
        assert_eq!(
            of_slices(&planned, &all, 100),
            "+500 endpoints, -3; 5 slices created, 1 deleted, 100/100, 100/100, 100/100 and 2 more full"
        );
        assert_eq!(
            of_slices(&Planned { removed: 3, ..Planned::default() }, &all[..1], 100),
            "-3 endpoints; 1 slice deleted"
        );
        assert_eq!(few(["a", "b", "c", "d"].into_iter().map(String::from)), "a, b, c and 1 more");
    }

    #[test]
    fn versions_say_what_is_new_and_what_is_gone() {
        let of = |verb, before, after| versions(&Written { before, after, ..written(verb, None) });
        assert_eq!(of(Verb::Update, Some(7), Some(9)), "7->9");
        assert_eq!(of(Verb::Create, None, Some(9)), "new->9");
        assert_eq!(of(Verb::Delete, Some(7), None), "7->gone");
        assert_eq!(of(Verb::Merge, Some(7), None), "7->?");
    }

    #[test]
    fn what_became_of_addresses_is_put_into_words() {
        let of = |verb, ready, not_ready| of_addresses(&[written(verb, None)], ready, not_ready);
        assert_eq!(of(Verb::Create, 0, 0), "created: no addresses");
        assert_eq!(of(Verb::Update, 2, 1), "updated: 3 addresses, 1 not ready");
        assert_eq!(of(Verb::Update, 1, 0), "updated: 1 address");
        assert_eq!(of(Verb::Delete, 0, 0), "deleted");
    }

    #[test]
    fn times_are_short() {
        let said = |micros| format!("{:?}", short(Duration::from_micros(micros)));
        assert_eq!(said(87), "87µs");
        assert_eq!(said(1_234), "1.23ms");
        assert_eq!(said(49_137), "49.1ms");
        assert_eq!(said(15_427_508), "15.42s");
    }
}
