//! Event: one stored object, two APIs that show it (`v1` and `events.k8s.io/v1`).
//!
//! It is stored as core/v1. The newer API renames fields; what only the older one has is `deprecated…` there.

use serde_json::{Map, Value};
use service_api::errors::FieldErrors;
use service_api::meta::Naming;

use super::{event_rules, meta};
use crate::registry::strategy::{Strategy, Subresource};

/// Field of core/v1, field of events.k8s.io/v1.
const RENAMED: [(&str, &str); 8] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
    ("reportingInstance", "reportingInstance"),
];

const CORE: &str = "v1";
const EVENTS: &str = "events.k8s.io/v1";

/// The rules of Event in both APIs; bodies come in their stored form.
#[derive(Clone, Copy, Debug, Default)]
pub struct Event;

impl Strategy for Event {
    fn validate_create(&self, obj: &Value) -> FieldErrors {
        let mut faults = meta::faults(obj, Naming::SUBDOMAIN);
        faults.extend(event_rules::faults(obj, "reportingComponent"));
        faults
    }

    fn validate_update(&self, new: &Value, old: &Value, _sub: Subresource) -> FieldErrors {
        let mut faults = meta::common_update_faults(new, old);
        faults.extend(event_rules::faults(new, "reportingComponent"));
        faults
    }

    fn view_faults(&self, obj: &Value, live: Option<&Value>) -> FieldErrors {
        match live {
            None => event_rules::create_faults(obj),
            Some(live) => event_rules::update_faults(obj, live),
        }
    }

    fn create_on_update(&self) -> bool {
        true
    }
}

/// The event as events.k8s.io/v1 shows it.
pub fn to_events_v1(core: Value) -> Value {
    renamed(core, EVENTS, |field| RENAMED.iter().find(|(core, _)| *core == field).map(|(_, events)| *events))
}

/// The stored form of an event of events.k8s.io/v1.
pub fn from_events_v1(event: Value) -> Value {
    renamed(event, CORE, |field| RENAMED.iter().find(|(_, events)| *events == field).map(|(core, _)| *core))
}

fn renamed(event: Value, version: &str, name_of: impl Fn(&str) -> Option<&'static str>) -> Value {
    let Value::Object(fields) = event else { return event };
    let mut out = Map::new();
    for (field, value) in fields {
        let name = name_of(&field).map_or(field, str::to_owned);
        out.insert(name, value);
    }
    out.insert("apiVersion".to_owned(), Value::String(version.to_owned()));
    Value::Object(out)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_views_show_the_same_event() {
        let core = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"},
            "involvedObject": {"kind": "Service", "namespace": "default"}, "message": "m", "reason": "R", "type": "Normal",
            "reportingComponent": "c", "reportingInstance": "i", "source": {"component": "c"}, "count": 2,
            "firstTimestamp": null, "lastTimestamp": null, "eventTime": "2026-01-01T00:00:00.000000Z"
        });
        let events = to_events_v1(core.clone());
        assert_eq!(events["regarding"]["kind"], json!("Service"));
        assert_eq!(events["note"], json!("m"));
        assert_eq!(events["reportingController"], json!("c"));
        assert_eq!(events["apiVersion"], json!("events.k8s.io/v1"));
        assert_eq!(from_events_v1(events), core);
    }
}
