//! What a ServicePool says of itself: pure.

use jiff::Timestamp;
use serde_json::json;
use service_allocators::pools::{Kind, Level, PoolUsage};
use service_api::crds::servicepool::{MAX_COOLING, User};
use service_api::crds::{BandFill, Fill, ServicePool, ServicePoolStatus};

use super::plan::{RangeDecision, Said, with_condition};
use crate::ledger::Known;
use crate::report::words::few;

/// So many of the largest users are named.
const USERS: usize = 5;
/// The condition that says how full a pool is.
const FILLING: &str = "Filling";

/// Decides for one pool.
pub(crate) fn decide(known: &Known, pool: &ServicePool, now: Timestamp) -> RangeDecision {
    let name = pool.metadata.name.as_deref().unwrap_or_default();
    let usage = known.live.pools.usage_of(name, &known.live.ledger);
    let before = pool.status.clone().unwrap_or_default();
    let faults: Vec<&str> = known
        .live
        .pools
        .faults()
        .iter()
        .filter(|fault| fault.pool == name)
        .map(|fault| fault.text.as_str())
        .collect();
    let outside = outside(known, name);
    let ready = match &usage {
        Some(usage) if faults.is_empty() && usage.kinds.values().any(|bands| has_values(*bands)) => Said {
            kind: "Ready",
            holds: true,
            reason: "InUse".to_owned(),
            message: format!("values are given from this pool{outside}"),
        },
        Some(_) if faults.is_empty() => Said {
            kind: "Ready",
            holds: false,
            reason: "OutsideOfRanges".to_owned(),
            message: format!("no part of the pool lies in a ServiceCIDR or NodePortRange{outside}"),
        },
        _ => Said { kind: "Ready", holds: false, reason: "Faulty".to_owned(), message: faults.join("; ") },
    };
    let users: Vec<User> = known.largest_users(name, USERS).map(user).collect();
    let filling = filling(usage.as_ref(), level_of(&before));
    let generation = pool.metadata.generation;
    let event = (filling.0 > level_of(&before)).then(|| (filling.0.reason(), told(&filling.1, &users)));
    let said = Said {
        kind: FILLING,
        holds: filling.0 != Level::Normal,
        reason: filling.0.reason().to_owned(),
        message: filling.1,
    };
    let used = if said.message.is_empty() { String::new() } else { format!(", {}", said.message) };
    let in_words = format!("{}{used}", ready.in_words());
    let conditions = with_condition(&before.conditions, ready, generation, now);
    let fill = |kind| usage.as_ref().and_then(|usage| band_fill(usage, kind));
    let mut status = ServicePoolStatus {
        observed_generation: generation,
        conditions: with_condition(&conditions, said, generation, now),
        v4: fill(Kind::V4),
        v6: fill(Kind::V6),
        node_ports: fill(Kind::Port),
        largest_users: users,
        cooling_down: Vec::new(),
    };
    let cooling = known.live.pools.cooling_down(name, now.as_second(), MAX_COOLING);
    // That something has cooled down is no reason to write: its time says so.
    let is_new = cooling.iter().any(|value| !before.cooling_down.contains(value));
    status.cooling_down.clone_from(if is_new { &cooling } else { &before.cooling_down });
    let differs = pool.status.as_ref() != Some(&status);
    status.cooling_down = cooling;
    let words = if differs { vec![in_words] } else { Vec::new() };
    RangeDecision { object: None, status: differs.then(|| replacing(&status)), event, words }
}

/// Which parts of a pool lie in no range, to be said behind how it is.
fn outside(known: &Known, name: &str) -> String {
    let all = known.live.pools.outside(&known.live.ledger);
    let own: Vec<String> =
        all.into_iter().filter(|fault| fault.pool == name).map(|fault| fault.text).collect();
    if own.is_empty() { String::new() } else { format!("; {}", few(own.into_iter())) }
}

/// The merge patch that makes a status this one: what it leaves out goes.
fn replacing(status: &ServicePoolStatus) -> serde_json::Value {
    let mut patch = json!({"status": status});
    for field in ["ipv4", "ipv6", "nodePorts", "largestUsers", "coolingDown"] {
        patch["status"][field].is_null().then(|| patch["status"][field] = serde_json::Value::Null);
    }
    patch
}

fn has_values([lower, upper]: [(u64, u64); 2]) -> bool {
    lower.0 + lower.1 + upper.0 + upper.1 > 0
}

fn band_fill(usage: &PoolUsage, kind: Kind) -> Option<BandFill> {
    let [lower, upper] = usage.kinds.get(&kind)?;
    Some(BandFill { lower: Fill::of(lower.0, lower.1), upper: Fill::of(upper.0, upper.1) })
}

/// The level that a status says.
fn level_of(status: &ServicePoolStatus) -> Level {
    let said = status.conditions.iter().find(|condition| condition.type_ == FILLING);
    let levels = [Level::Eighty, Level::Ninety, Level::Full];
    said.and_then(|said| levels.into_iter().find(|level| level.reason() == said.reason)).unwrap_or_default()
}

/// The level of the fullest kind after `before`, and what is said of it.
fn filling(usage: Option<&PoolUsage>, before: Level) -> (Level, String) {
    let kinds = usage.into_iter().flat_map(|usage| usage.kinds.keys().map(move |kind| (usage, *kind)));
    let levels = kinds.filter_map(|(usage, kind)| {
        let (used, free) = usage.total(kind)?;
        (used + free > 0)
            .then(|| (before.next(used, free), format!("{used} of {} {} are used", used + free, kind.name())))
    });
    levels.max_by_key(|(level, _)| *level).unwrap_or_default()
}

fn told(fill: &str, users: &[User]) -> String {
    let users: Vec<String> =
        users.iter().map(|user| format!("{} ({})", user.namespace, user.values)).collect();
    if users.is_empty() { fill.to_owned() } else { format!("{fill}; most by {}", users.join(", ")) }
}

fn user((namespace, values): (&str, u64)) -> User {
    User { namespace: namespace.to_owned(), values: i64::try_from(values).unwrap_or(i64::MAX) }
}
