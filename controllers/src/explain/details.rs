//! What is kept of objects for people alone.
//!
//! Owns the small structs and how they are made of what is on the wire.

use super::report::{Change, EventFacts};
use super::wire::{EventWire, HistoryWire, PodDetailWire};
use crate::cache::label;
use crate::keys;
use crate::objects::SliceWire;

/// Why a pod is not ready, as far as it says so itself.
#[derive(Debug, Default)]
pub(super) struct PodDetail {
    pub phase: String,
    /// Why the pod is as it is as a whole, such as `NodeLost` or `Evicted`.
    pub reason: String,
    /// Conditions that are not True.
    pub not_true: Vec<PodCondition>,
    /// Readiness gates without a condition that is True.
    pub gates: Vec<String>,
    /// Whether there is a condition Ready at all.
    pub has_ready: bool,
}

/// A condition of a pod that is not True.
#[derive(Debug)]
pub(super) struct PodCondition {
    pub name: String,
    pub status: String,
    pub why: String,
}

impl From<PodDetailWire> for PodDetail {
    fn from(wire: PodDetailWire) -> Self {
        let conditions = &wire.status.conditions;
        let is_true = |name: &str| conditions.iter().any(|c| c.r#type == name && c.status == "True");
        let gates = wire.spec.readiness_gates.into_iter().map(|gate| gate.condition_type);
        Self {
            gates: gates.filter(|gate| !is_true(gate)).collect(),
            has_ready: conditions.iter().any(|c| c.r#type == "Ready"),
            phase: wire.status.phase,
            reason: wire.status.reason,
            not_true: wire
                .status
                .conditions
                .into_iter()
                .filter(|condition| condition.status != "True")
                .map(|condition| PodCondition {
                    name: condition.r#type,
                    status: condition.status,
                    why: said(condition.reason, condition.message),
                })
                .collect(),
        }
    }
}

fn said(reason: Option<String>, message: Option<String>) -> String {
    let parts: Vec<String> =
        [reason, message].into_iter().flatten().filter(|text| !text.is_empty()).collect();
    parts.join(": ")
}

/// A slice that no controller of ours keeps.
#[derive(Debug)]
pub(super) struct ForeignSlice {
    pub service: String,
    pub managed_by: Option<String>,
    pub family: String,
    pub ports: Vec<String>,
    pub endpoints: usize,
    pub ready: usize,
}

impl ForeignSlice {
    pub(super) fn new(wire: &SliceWire) -> Self {
        let port = |port: &crate::objects::PortWire| {
            let number = port.port.map_or("*".to_owned(), |number| number.to_string());
            let name = port.name.as_deref().unwrap_or_default();
            let protocol = port.protocol.as_deref().unwrap_or("TCP");
            spelt(name, &number, protocol)
        };
        Self {
            service: label(&wire.metadata, keys::SERVICE_NAME).unwrap_or_default().to_owned(),
            managed_by: label(&wire.metadata, keys::MANAGED_BY).map(ToOwned::to_owned),
            family: wire.address_type.clone(),
            ports: wire.ports.iter().map(port).collect(),
            endpoints: wire.endpoints.len(),
            ready: wire.endpoints.iter().filter(|e| e.conditions.ready != Some(false)).count(),
        }
    }
}

/// A port as `name:number/protocol`.
pub(super) fn spelt(name: &str, number: &str, protocol: &str) -> String {
    if name.is_empty() { format!("{number}/{protocol}") } else { format!("{name}:{number}/{protocol}") }
}

/// Who changed an object.
#[derive(Debug, Default)]
pub(super) struct History {
    pub created: Option<String>,
    /// Whether the object says who changed it: what kubectl prints often does not.
    pub has_managers: bool,
    managers: Vec<(String, String, String)>,
}

impl From<HistoryWire> for History {
    fn from(wire: HistoryWire) -> Self {
        Self {
            created: wire.creation_timestamp,
            has_managers: !wire.managed_fields.is_empty(),
            managers: wire
                .managed_fields
                .into_iter()
                .filter_map(|entry| {
                    let part = match entry.subresource.as_str() {
                        "" => entry.operation,
                        part => format!("{}/{part}", entry.operation),
                    };
                    Some((entry.time?, entry.manager, part))
                })
                .collect(),
        }
    }
}

impl History {
    /// The changes of the object, in no order.
    pub(super) fn changes<'a>(&'a self, object: &'a str) -> impl Iterator<Item = Change> + 'a {
        let made = self.created.iter().map(move |time| Change {
            time: time.clone(),
            object: object.to_owned(),
            manager: String::new(),
            operation: "Create".to_owned(),
        });
        let written = self.managers.iter().map(move |(time, manager, operation)| Change {
            time: time.clone(),
            object: object.to_owned(),
            manager: manager.clone(),
            operation: operation.clone(),
        });
        made.chain(written)
    }
}

/// An Event about what is asked.
#[derive(Debug)]
pub(super) struct EventSeen(pub EventFacts);

impl From<EventWire> for EventSeen {
    fn from(wire: EventWire) -> Self {
        let (count, observed) = wire.series.map_or((None, None), |s| (s.count, s.last_observed_time));
        let times = [observed, wire.last_timestamp, wire.event_time, wire.first_timestamp];
        Self(EventFacts {
            time: times.into_iter().flatten().find(|time| !time.is_empty()).unwrap_or_default(),
            r#type: wire.r#type,
            reason: wire.reason,
            message: wire.message,
            count: count.or(wire.count).unwrap_or(1),
        })
    }
}
