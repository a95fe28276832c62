//! What an Event must be: little through core/v1, all of its fields through events.k8s.io/v1. Pure.
//!
//! Events come in their stored form, that of core/v1, whose fields the faults name, as upstream's do. Source: answers of
//! Kubernetes 1.36.2 and the API reference of `events.k8s.io/v1`.

use serde::Serialize;
use serde_json::Value;
use service_api::errors::{self, BadValue, FieldErrors};
use service_api::meta::IMMUTABLE;
use service_api::names;

use super::fields::{is_unset, text};

/// Bytes of a reason, an action, the name of an instance.
const SHORT: usize = 128;
/// Bytes of a message.
const LONG: usize = 1024;

/// Faults of an Event of either API; `component` is what the API calls who reports.
pub(super) fn faults(event: &Value, component: &str) -> FieldErrors {
    let mut faults = FieldErrors::new();
    let (own, involved) = (text(event, "/metadata/namespace"), text(event, "/involvedObject/namespace"));
    let mut misplaced = || {
        faults.push(errors::invalid("involvedObject.namespace", involved, "does not match event.namespace"));
    };
    if is_unset(event.get("eventTime")) {
        // Events of objects outside of namespaces are in this one.
        let home = if involved.is_empty() { "default" } else { involved };
        if own != home {
            misplaced();
        }
        return faults;
    }
    if involved.is_empty() && !matches!(own, "default" | "kube-system") {
        misplaced();
    }
    let required = |faults: &mut FieldErrors, field: &str, value: &str| {
        if value.is_empty() {
            faults.push(errors::required(field, ""));
        }
    };
    let limited = |faults: &mut FieldErrors, field: &str, value: &str, most: usize| {
        if value.len() > most {
            faults.push(errors::invalid(field, "", format!("can have at most {most} characters")));
        }
    };
    let reporter = text(event, "/reportingComponent");
    required(&mut faults, component, reporter);
    for fault in names::qualified_name(reporter) {
        faults.push(errors::invalid(component, reporter, fault));
    }
    for field in ["reportingInstance", "action", "reason"] {
        let value = text(event, &format!("/{field}"));
        required(&mut faults, field, value);
        limited(&mut faults, field, value, SHORT);
    }
    limited(&mut faults, "message", text(event, "/message"), LONG);
    faults
}

/// Faults of a new Event of events.k8s.io/v1, but for those of its metadata.
pub(super) fn create_faults(event: &Value) -> FieldErrors {
    let mut faults = faults(event, "reportingController");
    faults.extend(series_faults(event));
    if is_unset(event.get("eventTime")) {
        faults.push(errors::required("eventTime", ""));
    }
    let kind = text(event, "/type");
    if !matches!(kind, "Normal" | "Warning") {
        faults.push(errors::invalid("type", "", format!("has invalid value: {kind}")));
    }
    // What only the older API has.
    for field in ["firstTimestamp", "lastTimestamp", "count", "source"] {
        if !is_empty(event.get(field)) {
            faults.push(errors::invalid(field, "", "needs to be unset"));
        }
    }
    faults
}

/// Faults of a changed Event of events.k8s.io/v1, but for those of its metadata: only its series may change.
pub(super) fn update_faults(new: &Value, old: &Value) -> FieldErrors {
    // Upstream looks at the reason twice.
    const FIXED: [&str; 14] = [
        "involvedObject",
        "reason",
        "message",
        "source",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        "reason",
        "type",
        "eventTime",
        "action",
        "related",
        "reportingComponent",
        "reportingInstance",
    ];
    let mut faults = faults(new, "reportingController");
    if new.get("series") != old.get("series") {
        faults.extend(series_faults(new));
    }
    for field in FIXED {
        let (new, old) = (new.get(field), old.get(field));
        if new == old || is_empty(new) && is_empty(old) {
            continue;
        }
        let named = if field == "reportingComponent" { "reportingController" } else { field };
        faults.push(errors::invalid(named, printed(field, new.unwrap_or(&Value::Null)), IMMUTABLE));
    }
    faults
}

/// An event that came again was seen twice at least, the last time at some time.
fn series_faults(event: &Value) -> FieldErrors {
    let mut faults = FieldErrors::new();
    let Some(series) = event.get("series").filter(|series| !series.is_null()) else { return faults };
    if series["count"].as_i64().unwrap_or_default() < 2 {
        faults.push(errors::invalid("series.count", "", "should be at least 2"));
    }
    if is_unset(series.get("lastObservedTime")) {
        faults.push(errors::required("series.lastObservedTime", ""));
    }
    faults
}

/// Is it what a Go program that knows nothing of the field sends?
fn is_empty(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Number(number)) => number.as_i64() == Some(0),
        Some(Value::Object(members)) => members.values().all(|member| is_empty(Some(member))),
        Some(_) => false,
    }
}

/// The value as upstream prints it: the structs by the names of their fields in Go.
fn printed(field: &str, value: &Value) -> BadValue {
    let part = |name: &str| text(value, &format!("/{name}")).to_owned();
    match (field, value) {
        ("involvedObject" | "related", _) => BadValue::json(&Reference {
            kind: part("kind"),
            namespace: part("namespace"),
            name: part("name"),
            uid: part("uid"),
            api_version: part("apiVersion"),
            resource_version: part("resourceVersion"),
            field_path: part("fieldPath"),
        }),
        ("source", _) => BadValue::json(&Source { component: part("component"), host: part("host") }),
        (_, Value::String(text)) => BadValue::from(text.as_str()),
        (_, value) => BadValue::json(value),
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Reference {
    kind: String,
    namespace: String,
    name: String,
    #[serde(rename = "UID")]
    uid: String,
    #[serde(rename = "APIVersion")]
    api_version: String,
    resource_version: String,
    field_path: String,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Source {
    component: String,
    host: String,
}

/// The expected texts are answers of Kubernetes 1.36.2.
#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn event() -> Value {
        json!({
            "metadata": {"name": "e", "namespace": "default"}, "eventTime": "2026-01-01T00:00:00.000000Z",
            "type": "Normal", "reason": "R", "action": "A", "reportingComponent": "a.b/c", "reportingInstance": "x",
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"}, "source": {},
            "firstTimestamp": null, "lastTimestamp": null,
        })
    }

    fn with(field: &str, value: &Value) -> Value {
        let mut event = event();
        event[field] = value.clone();
        event
    }

    fn told(faults: &FieldErrors) -> Vec<String> {
        faults.iter().map(ToString::to_string).collect()
    }

    #[rstest]
    #[case("reason", json!(""), &["reason: Required value"])]
    #[case("action", json!(""), &["action: Required value"])]
    #[case("type", json!("Foo"), &[r#"type: Invalid value: "": has invalid value: Foo"#])]
    #[case("eventTime", Value::Null, &["eventTime: Required value"])]
    #[case("reportingInstance", json!(""), &["reportingInstance: Required value"])]
    #[case("message", json!("n".repeat(1025)), &[r#"message: Invalid value: "": can have at most 1024 characters"#])]
    #[case("reason", json!("n".repeat(129)), &[r#"reason: Invalid value: "": can have at most 128 characters"#])]
    #[case("count", json!(3), &[r#"count: Invalid value: "": needs to be unset"#])]
    #[case("source", json!({"component": "x"}), &[r#"source: Invalid value: "": needs to be unset"#])]
    #[case("series", json!({"count": 2}), &["series.lastObservedTime: Required value"])]
    #[case(
        "series", json!({"count": 1, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}),
        &[r#"series.count: Invalid value: "": should be at least 2"#]
    )]
    #[case("involvedObject", json!({"kind": "Node", "name": "n"}), &[])]
    fn what_a_new_event_must_have(#[case] field: &str, #[case] value: Value, #[case] expected: &[&str]) {
        assert_eq!(told(&create_faults(&with(field, &value))), expected);
    }

    #[rstest]
    #[case("type", json!("Warning"), r#"type: Invalid value: "Warning": field is immutable"#)]
    #[case("message", json!("new"), r#"message: Invalid value: "new": field is immutable"#)]
    #[case("reportingComponent", json!("x/y"), r#"reportingController: Invalid value: "x/y": field is immutable"#)]
    #[case("count", json!(3), "count: Invalid value: 3: field is immutable")]
    #[case(
        "source", json!({"component": "x"}), r#"source: Invalid value: {"Component":"x","Host":""}: field is immutable"#
    )]
    #[case(
        "related", json!({"kind": "x", "name": "y"}),
        r#"related: Invalid value: {"Kind":"x","Namespace":"","Name":"y","UID":"","APIVersion":"","ResourceVersion":"","FieldPath":""}: field is immutable"#
    )]
    fn what_no_update_changes(#[case] field: &str, #[case] value: Value, #[case] expected: &str) {
        assert_eq!(told(&update_faults(&with(field, &value), &event())), [expected]);
    }

    #[test]
    fn an_event_may_come_again() {
        let again = json!({"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z"});
        assert_eq!(told(&update_faults(&with("series", &again), &event())), [""; 0]);
    }

    #[rstest]
    #[case("shop", "shop", true)]
    #[case("default", "", true)]
    #[case("shop", "", false)]
    #[case("shop", "other", false)]
    fn an_event_stays_with_its_object(#[case] own: &str, #[case] involved: &str, #[case] fits: bool) {
        let event = json!({"metadata": {"namespace": own}, "involvedObject": {"namespace": involved}});
        assert_eq!(faults(&event, "reportingComponent").is_empty(), fits);
    }
}
