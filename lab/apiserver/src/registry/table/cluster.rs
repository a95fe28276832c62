//! Rows of Node, Namespace, Event, ConfigMap, ServiceAccount, Lease and of kinds without a printer.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::api::core::v1::{ConfigMap, Event, NodeStatus, NodeSystemInfo, ObjectReference, Secret};
use serde_json::{Value, json};

use super::{Column, Row, Table, age, list, name, number, or_none, since, text};

pub(super) static NODE: Table = Table { columns: || &NODE_COLUMNS, row: node };
pub(super) static NAMESPACE: Table = Table { columns: || &NAMESPACE_COLUMNS, row: namespace };
pub(super) static EVENT: Table = Table { columns: || &EVENT_COLUMNS, row: event };
pub(super) static CONFIG_MAP: Table = Table { columns: || &CONFIG_MAP_COLUMNS, row: config_map };
pub(super) static SECRET: Table = Table { columns: || &SECRET_COLUMNS, row: secret };
pub(super) static SERVICE_ACCOUNT: Table =
    Table { columns: || &SERVICE_ACCOUNT_COLUMNS, row: service_account };
pub(super) static LEASE: Table = Table { columns: || &LEASE_COLUMNS, row: lease };
pub(super) static OTHER: Table = Table { columns: || &OTHER_COLUMNS, row: other };

static NODE_COLUMNS: LazyLock<Vec<Column>> = LazyLock::new(|| {
    vec![
        Column::name(),
        Column::text("Status", "The status of the node"),
        Column::text("Roles", "The roles of the node"),
        Column::age(),
        Column::field::<NodeSystemInfo>("Version", "kubeletVersion"),
        Column::field::<NodeStatus>("Internal-IP", "addresses").wide(),
        Column::field::<NodeStatus>("External-IP", "addresses").wide(),
        Column::field::<NodeSystemInfo>("OS-Image", "osImage").wide(),
        Column::field::<NodeSystemInfo>("Kernel-Version", "kernelVersion").wide(),
        Column::field::<NodeSystemInfo>("Container-Runtime", "containerRuntimeVersion").wide(),
    ]
});

fn node(object: &Value, now: Timestamp) -> Row {
    let info = |field: &str| match text(object, &format!("/status/nodeInfo/{field}")) {
        "" => json!("<unknown>"),
        known => json!(known),
    };
    Row::of(vec![
        name(object),
        json!(node_status(object)),
        or_none(&node_roles(object)),
        age(object, now),
        json!(text(object, "/status/nodeInfo/kubeletVersion")),
        or_none(node_address(object, "InternalIP")),
        or_none(node_address(object, "ExternalIP")),
        info("osImage"),
        info("kernelVersion"),
        info("containerRuntimeVersion"),
    ])
}

fn node_status(object: &Value) -> String {
    let ready =
        list(object, "/status/conditions").iter().find(|condition| text(condition, "/type") == "Ready");
    let status = match ready {
        Some(condition) if text(condition, "/status") == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let cordoned = object.pointer("/spec/unschedulable").and_then(Value::as_bool).unwrap_or_default();
    if cordoned { format!("{status},SchedulingDisabled") } else { status.to_owned() }
}

fn node_roles(object: &Value) -> String {
    let Some(labels) = object.pointer("/metadata/labels").and_then(Value::as_object) else {
        return String::new();
    };
    let roles: BTreeSet<&str> = labels
        .iter()
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if key == "kubernetes.io/role" => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.into_iter().collect::<Vec<_>>().join(",")
}

fn node_address<'a>(object: &'a Value, kind: &str) -> &'a str {
    list(object, "/status/addresses")
        .iter()
        .find(|address| text(address, "/type") == kind)
        .map_or("", |address| text(address, "/address"))
}

static NAMESPACE_COLUMNS: LazyLock<Vec<Column>> = LazyLock::new(|| {
    vec![Column::name(), Column::text("Status", "The status of the namespace"), Column::age()]
});

fn namespace(object: &Value, now: Timestamp) -> Row {
    Row::of(vec![name(object), json!(text(object, "/status/phase")), age(object, now)])
}

static EVENT_COLUMNS: LazyLock<Vec<Column>> = LazyLock::new(|| {
    vec![
        Column::field::<Event>("Last Seen", "lastTimestamp"),
        Column::field::<Event>("Type", "type"),
        Column::field::<Event>("Reason", "reason"),
        Column::field::<Event>("Object", "involvedObject"),
        Column::field::<ObjectReference>("Subobject", "fieldPath").wide(),
        Column::field::<Event>("Source", "source").wide(),
        Column::field::<Event>("Message", "message"),
        Column::field::<Event>("First Seen", "firstTimestamp").wide(),
        Column::field::<Event>("Count", "count").wide(),
        Column { format: "name", ..Column::name() }.wide(),
    ]
});

/// The object is in its core/v1 form; the events.k8s.io view is turned back before it is printed.
fn event(object: &Value, now: Timestamp) -> Row {
    let at = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let first = since(at("/firstTimestamp").or_else(|| at("/eventTime")), now);
    let (last, count) = if let Some(series) = object.get("series").filter(|series| !series.is_null()) {
        (since(series.pointer("/lastObservedTime").and_then(Value::as_str), now), number(series, "/count"))
    } else {
        let last = at("/lastTimestamp").map_or_else(|| first.clone(), |last| since(Some(last), now));
        (last, number(object, "/count").max(1))
    };
    let kind = text(object, "/involvedObject/kind").to_lowercase();
    let target = match text(object, "/involvedObject/name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    Row::of(vec![
        json!(last),
        json!(text(object, "/type")),
        json!(text(object, "/reason")),
        json!(target),
        json!(text(object, "/involvedObject/fieldPath")),
        json!(event_source(object)),
        json!(text(object, "/message").trim()),
        json!(first),
        json!(count),
        name(object),
    ])
}

fn event_source(object: &Value) -> String {
    let either = |a: &str, b: &str| match text(object, a) {
        "" => text(object, b).to_owned(),
        known => known.to_owned(),
    };
    let component = either("/source/component", "/reportingComponent");
    match either("/source/host", "/reportingInstance") {
        host if host.is_empty() => component,
        host => format!("{component}, {host}"),
    }
}

static CONFIG_MAP_COLUMNS: LazyLock<Vec<Column>> =
    LazyLock::new(|| vec![Column::name(), Column::field::<ConfigMap>("Data", "data"), Column::age()]);

fn config_map(object: &Value, now: Timestamp) -> Row {
    let entries: usize = ["data", "binaryData"]
        .iter()
        .filter_map(|field| object.get(field)?.as_object())
        .map(serde_json::Map::len)
        .sum();
    Row::of(vec![name(object), json!(entries), age(object, now)])
}

static SECRET_COLUMNS: LazyLock<Vec<Column>> = LazyLock::new(|| {
    vec![
        Column::name(),
        Column::field::<Secret>("Type", "type"),
        Column::field::<Secret>("Data", "data"),
        Column::age(),
    ]
});

fn secret(object: &Value, now: Timestamp) -> Row {
    let entries = object.get("data").and_then(Value::as_object).map_or(0, serde_json::Map::len);
    Row::of(vec![name(object), json!(text(object, "/type")), json!(entries), age(object, now)])
}

static SERVICE_ACCOUNT_COLUMNS: LazyLock<Vec<Column>> = LazyLock::new(|| vec![Column::name(), Column::age()]);

fn service_account(object: &Value, now: Timestamp) -> Row {
    Row::of(vec![name(object), age(object, now)])
}

static LEASE_COLUMNS: LazyLock<Vec<Column>> = LazyLock::new(|| {
    vec![Column::name(), Column::field::<LeaseSpec>("Holder", "holderIdentity"), Column::age()]
});

fn lease(object: &Value, now: Timestamp) -> Row {
    Row::of(vec![name(object), json!(text(object, "/spec/holderIdentity")), age(object, now)])
}

static OTHER_COLUMNS: LazyLock<Vec<Column>> =
    LazyLock::new(|| vec![Column::name(), Column { name: "Created At", kind: "date", ..Column::age() }]);

fn other(object: &Value, _now: Timestamp) -> Row {
    Row::of(vec![name(object), json!(text(object, "/metadata/creationTimestamp"))])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    #[test]
    fn a_cordoned_node_with_roles() {
        let object = json!({
            "metadata": {"name": "n1", "labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "edge"}},
            "spec": {"unschedulable": true},
            "status": {
                "conditions": [{"type": "Ready", "status": "False"}],
                "addresses": [{"type": "Hostname", "address": "n1"}, {"type": "InternalIP", "address": "192.168.10.20"}],
                "nodeInfo": {"kubeletVersion": "v1.36.2"}
            }
        });
        let cells = node(&object, now()).cells;
        assert_eq!(cells[1..3], [json!("NotReady,SchedulingDisabled"), json!("edge,worker")]);
        assert_eq!(
            cells[4..8],
            [json!("v1.36.2"), json!("192.168.10.20"), json!("<none>"), json!("<unknown>")]
        );
    }

    #[test]
    fn an_event_of_the_old_and_of_the_new_kind() {
        let old = json!({
            "firstTimestamp": "1969-12-31T23:58:20Z", "lastTimestamp": "1969-12-31T23:59:50Z", "count": 7,
            "type": "Warning", "reason": "Unhealthy", "message": " probe failed\n",
            "involvedObject": {"kind": "Pod", "name": "p1", "fieldPath": "spec.containers{c}"},
            "source": {"component": "kubelet", "host": "n1"}, "metadata": {"name": "p1.1"}
        });
        assert_eq!(
            event(&old, now()).cells,
            [
                json!("10s"),
                json!("Warning"),
                json!("Unhealthy"),
                json!("pod/p1"),
                json!("spec.containers{c}"),
                json!("kubelet, n1"),
                json!("probe failed"),
                json!("100s"),
                json!(7),
                json!("p1.1")
            ]
        );
        let new = json!({
            "eventTime": "1969-12-31T23:59:00.000000Z",
            "series": {"count": 3, "lastObservedTime": "1969-12-31T23:59:59.000000Z"},
            "involvedObject": {"kind": "Node"}, "reportingComponent": "c", "metadata": {"name": "e"}
        });
        let cells = event(&new, now()).cells;
        assert_eq!(
            (&cells[0], &cells[3], &cells[5], &cells[7], &cells[8]),
            (&json!("1s"), &json!("node"), &json!("c"), &json!("60s"), &json!(3))
        );
    }

    #[test]
    fn a_config_map_counts_both_kinds_of_data() {
        let object =
            json!({"metadata": {"name": "c"}, "data": {"a": "1", "b": "2"}, "binaryData": {"c": "Mw=="}});
        assert_eq!(config_map(&object, now()).cells[1], json!(3));
    }
}
