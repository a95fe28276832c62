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
    let users = |kind| known.largest_users(name, kind, USERS).map(user).collect::<Vec<User>>();
    let filling = filling(usage.as_ref(), level_of(&before));
    let generation = pool.metadata.generation;
    let is_news = filling.level > level_of(&before);
    let event = is_news.then(|| (filling.level.reason(), told(&filling.text, &users(filling.kind))));
    let said = Said {
        kind: FILLING,
        holds: filling.level != Level::Normal,
        reason: filling.level.reason().to_owned(),
        message: filling.text,
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
        largest_users: users(None),
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

/// How full the fullest kind of a pool is.
#[derive(Debug, Default)]
struct Filling {
    level: Level,
    kind: Option<Kind>,
    text: String,
}

/// What is said of the fullest kind, whose level was `before`.
fn filling(usage: Option<&PoolUsage>, before: Level) -> Filling {
    let kinds = usage.into_iter().flat_map(|usage| usage.kinds.keys().map(move |kind| (usage, *kind)));
    let levels = kinds.filter_map(|(usage, kind)| {
        let (used, free) = usage.total(kind)?;
        (used + free > 0).then(|| Filling {
            level: before.next(used, free),
            kind: Some(kind),
            text: format!("{used} of {} {} are used", used + free, kind.name()),
        })
    });
    levels.max_by_key(|filling| filling.level).unwrap_or_default()
}

fn told(fill: &str, users: &[User]) -> String {
    let users: Vec<String> =
        users.iter().map(|user| format!("{} ({})", user.namespace, user.values)).collect();
    if users.is_empty() { fill.to_owned() } else { format!("{fill}; most by {}", users.join(", ")) }
}

fn user((namespace, values): (&str, u64)) -> User {
    User { namespace: namespace.to_owned(), values: i64::try_from(values).unwrap_or(i64::MAX) }
}

#[cfg(test)]
mod tests {
    use service_allocators::PortSharing;

    use super::*;
    use crate::ledger::{Changes, Ledger};

    /// Of a pool whose ports run out those are named who have ports, not who has most values of any kind.
    #[test]
    fn who_fills_a_pool_is_told_of_what_is_full() {
        let ledger = Ledger::new("30000-30099".parse().unwrap(), PortSharing::WithinService, |_: Changes| {});
        let pool = json!({"metadata": {"name": "gold"}, "spec": {"addresses": ["10.96.0.16/28"],
            "nodePorts": [{"firstPort": 30000, "lastPort": 30004}]}});
        let pool: ServicePool = serde_json::from_value(pool).unwrap();
        let service = |namespace: &str, number: i32| {
            let name = format!("s{number}");
            let (ip, version) = (format!("10.96.0.{}", 16 + number), number.to_string());
            let (kind, port) =
                if number < 8 { ("ClusterIP", None) } else { ("NodePort", Some(29992 + number)) };
            let object = json!({"metadata": {"name": name, "namespace": namespace, "uid": name, "resourceVersion": version},
                "spec": {"type": kind, "clusterIP": ip, "clusterIPs": [ip], "ports": [{"port": 80, "nodePort": port}]}});
            serde_json::from_value(object).unwrap()
        };
        let event = ledger.with(|known| {
            let cidr = json!({"metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["10.96.0.0/24"]}});
            known.set_cidr(&serde_json::from_value(cidr).unwrap());
            known.set_pool(pool.clone());
            for number in 0..12 {
                let namespace = if number < 8 { "addresses" } else { "ports" };
                known.set_service(&service(namespace, number), 0);
            }
            known.count_users();
            let decision = decide(known, &pool, Timestamp::UNIX_EPOCH);
            let status = decision.status.unwrap();
            let largest = &status["status"]["largestUsers"];
            assert_eq!(largest[0], json!({"namespace": "addresses", "values": 8}), "{status}");
            decision.event
        });
        let text = "4 of 5 nodePorts are used; most by ports (4)".to_owned();
        assert_eq!(event, Some(("EightyPercentUsed", text)));
    }
}
