//! What a NodePortRange needs: pure.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};
use serde_json::{Value, json};
use service_api::crds::nodeportrange::FINALIZER;
use service_api::crds::{BandFill, Fill, NodePortRange, NodePortRangeStatus, Role};

use crate::ledger::Known;

/// Of so many Services a range says that they hold it.
const NAMED: usize = 3;
/// Why the condition Ready is not true of a range that is deleted.
pub(crate) const TERMINATING: &str = "Terminating";

/// What is to be written of an object, and what is to be told of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RangeDecision {
    /// A merge patch of the object.
    pub(crate) object: Option<Value>,
    /// A merge patch of its status.
    pub(crate) status: Option<Value>,
    /// The reason and message of an Event.
    pub(crate) event: Option<(&'static str, String)>,
    /// What is written, in words, as `add the finalizer`, `Ready is true (InUse), 3 of 2768 ports used`.
    pub(crate) words: Vec<String>,
}

/// Decides for one range.
pub(crate) fn decide(known: &Known, range: &NodePortRange, now: Timestamp) -> RangeDecision {
    let has_finalizer = range.metadata.finalizers.iter().flatten().any(|name| name == FINALIZER);
    let mut decision = RangeDecision::default();
    let going = range.metadata.deletion_timestamp.is_some();
    let blockers = if going { blockers(known, range) } else { Vec::new() };
    if going && blockers.is_empty() {
        decision.object = has_finalizer.then(|| without_finalizer(&range.metadata));
        decision.words.push("take the finalizer off".to_owned());
        return decision;
    }
    if !going && !has_finalizer {
        decision.object = Some(with_finalizer(&range.metadata));
        decision.words.push("add the finalizer".to_owned());
    }
    let said = if going { blocked(&blockers) } else { usable(known, range) };
    let before = range.status.clone().unwrap_or_default();
    if going && !before.conditions.iter().any(|c| c.reason == TERMINATING) {
        let message = format!(
            "The NodePortRange is removed when no port is left that is in no other: {}",
            said.message
        );
        decision.event = Some(("NodePortRangeInUse", message));
    }
    let ports = if going { before.ports } else { fill(known, range) };
    if range.spec.role == Role::Dynamic && !going && is_full(ports) && !is_full(before.ports) {
        decision.event = Some(("PortRangeFull", told_full(range, ports)));
    }
    let in_words = status_in_words(&said, ports);
    let status = NodePortRangeStatus {
        conditions: with_condition(&before.conditions, said, range.metadata.generation, now),
        ports,
    };
    if range.status.as_ref() != Some(&status) {
        decision.status = Some(json!({"status": status}));
        decision.words.push(in_words);
    }
    decision
}

fn status_in_words(said: &Said, ports: Option<BandFill>) -> String {
    let used = ports.map_or_else(String::new, |BandFill { lower, upper }| {
        let used = lower.used.saturating_add(upper.used);
        let all = used.saturating_add(lower.free).saturating_add(upper.free);
        format!(", {used} of {all} ports used")
    });
    format!("{}{used}", said.in_words())
}

fn with_finalizer(meta: &ObjectMeta) -> Value {
    let mut finalizers = meta.finalizers.clone().unwrap_or_default();
    finalizers.push(FINALIZER.to_owned());
    json!({"metadata": {"finalizers": finalizers}})
}

fn without_finalizer(meta: &ObjectMeta) -> Value {
    let left: Vec<&String> = meta.finalizers.iter().flatten().filter(|name| *name != FINALIZER).collect();
    json!({"metadata": {"finalizers": left}})
}

/// What a condition says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) kind: &'static str,
    pub(crate) holds: bool,
    pub(crate) reason: String,
    pub(crate) message: String,
}

impl Said {
    /// The same in words, as `Ready is true (InUse)`.
    pub(crate) fn in_words(&self) -> String {
        format!("{} is {} ({})", self.kind, self.holds, self.reason)
    }
}

/// The conditions with one of them saying this; when it came to is kept while it does not change.
pub(crate) fn with_condition(
    before: &[Condition],
    said: Said,
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    let mut conditions = before.to_vec();
    let status = if said.holds { "True" } else { "False" };
    let at = conditions.iter().position(|condition| condition.type_ == said.kind);
    let since = at.map(|at| &conditions[at]).filter(|old| old.status == status);
    let since = since.map_or_else(
        || Time(Timestamp::from_second(now.as_second()).unwrap_or(now)),
        |old| old.last_transition_time.clone(),
    );
    let condition = Condition {
        type_: said.kind.to_owned(),
        status: status.to_owned(),
        reason: said.reason,
        message: said.message,
        last_transition_time: since,
        observed_generation: generation,
    };
    match at {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
    conditions
}

fn span(range: &NodePortRange) -> std::ops::RangeInclusive<i32> {
    range.spec.first_port..=range.spec.last_port
}

/// Of two ranges that overlap the one counts whose role is stronger.
fn strength(role: Role) -> u8 {
    match role {
        Role::Dynamic => 0,
        Role::StaticOnly => 1,
        Role::Excluded => 2,
    }
}

fn usable(known: &Known, range: &NodePortRange) -> Said {
    let name = range.metadata.name.as_deref().unwrap_or_default();
    let overlaps = known.port_ranges().iter().filter(|(other, object)| {
        *other != name
            && span(object).start() <= span(range).end()
            && span(range).start() <= span(object).end()
    });
    let counts_more = |other: Role| strength(other) > strength(range.spec.role);
    let overlaps: Vec<String> = overlaps
        .map(|(other, object)| match object.spec.role {
            role if counts_more(role) => format!("{other} ({role:?}), which counts there"),
            _ => other.clone(),
        })
        .collect();
    let mut message = match range.spec.role {
        Role::Dynamic => "ports are given from this range".to_owned(),
        Role::StaticOnly => "ports of this range are given to who asks for them".to_owned(),
        Role::Excluded => "ports of this range are given to nobody".to_owned(),
    };
    if !overlaps.is_empty() {
        message = format!("{message}; it overlaps {}", overlaps.join(", "));
    }
    if range.spec.first_port > range.spec.last_port {
        let message = "the last port comes before the first".to_owned();
        return Said { kind: "Ready", holds: false, reason: "NoPorts".to_owned(), message };
    }
    Said { kind: "Ready", holds: true, reason: "InUse".to_owned(), message }
}

/// The ports of a range that are held and in no other range, with whose they are.
fn blockers(known: &Known, range: &NodePortRange) -> Vec<(u16, String)> {
    if range.spec.role == Role::Excluded {
        return Vec::new();
    }
    let name = range.metadata.name.as_deref().unwrap_or_default();
    let elsewhere = |port: u16| {
        known.port_ranges().iter().any(|(other, object)| {
            other != name
                && object.metadata.deletion_timestamp.is_none()
                && object.spec.role != Role::Excluded
                && span(object).contains(&i32::from(port))
        })
    };
    let held = known.live.ledger.ports.held();
    let inside = held.filter(|(port, _)| span(range).contains(&i32::from(*port)) && !elsewhere(*port));
    inside.filter_map(|(port, holders)| Some((port, holders.first()?.owner.to_string()))).collect()
}

fn blocked(blockers: &[(u16, String)]) -> Said {
    let owners: BTreeSet<&str> = blockers.iter().map(|(_, owner)| owner.as_str()).collect();
    let named: Vec<&str> = owners.iter().copied().take(NAMED).collect();
    let more = match owners.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let first = blockers.first().map(|(port, _)| *port).unwrap_or_default();
    let (are, ports) = if blockers.len() == 1 { ("is", "node port") } else { ("are", "node ports") };
    let message = format!(
        "There {are} still {} {ports} in the range, the first is {first}, of {}{more}; please remove what has them or create \
         another range with them",
        blockers.len(),
        named.join(", ")
    );
    Said { kind: "Ready", holds: false, reason: TERMINATING.to_owned(), message }
}

fn is_full(ports: Option<BandFill>) -> bool {
    ports.is_some_and(|ports| ports.upper.free == 0 && ports.lower.free == 0)
}

fn told_full(range: &NodePortRange, ports: Option<BandFill>) -> String {
    let used = ports.map(|ports| ports.upper.used.saturating_add(ports.lower.used)).unwrap_or_default();
    format!(
        "Port range {}-{} is full: all of its {used} ports are taken; create another NodePortRange to create new Services (a \
         kube-apiserver that gives ports itself goes by its --service-node-port-range)",
        range.spec.first_port, range.spec.last_port
    )
}

fn fill(known: &Known, range: &NodePortRange) -> Option<BandFill> {
    let [lower, upper] = known.live.ledger.ports.fill(range.metadata.name.as_deref()?)?;
    Some(BandFill { lower: Fill::of(lower.0, lower.1), upper: Fill::of(upper.0, upper.1) })
}
