//! Table columns: what `kubectl get` and `-o wide` show of each kind.
//!
//! Owns the columns and how a row is computed from an object. It never wraps rows into a `Table` answer (the HTTP
//! encoder does) and never reads anything but the object and the time.

mod cluster;
mod columns;
mod duration;
mod network;
mod own;
mod text;
mod workload;

use jiff::Timestamp;
use serde_json::{Value, json};

pub use columns::Column;
pub use duration::{human, since};
pub use text::text as text_table;
pub use workload::selector;

/// One object in a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// As many as there are columns (IPAddress has one more, as upstream).
    pub cells: Vec<Value>,
    /// Row conditions, for completed pods; left out of the answer when empty.
    pub conditions: Vec<Value>,
}

impl Row {
    fn of(cells: Vec<Value>) -> Self {
        Self { cells, conditions: Vec::new() }
    }
}

/// The printer of one kind.
pub struct Table {
    /// The columns, in order.
    pub columns: fn() -> &'static [Column],
    /// The row of one object at a time.
    pub row: fn(&Value, Timestamp) -> Row,
}

/// The printer of a kind by its `kind` name; kinds without one show name and creation time.
pub fn table_of(kind: &str) -> &'static Table {
    match kind {
        "Service" => &network::SERVICE,
        "Endpoints" => &network::ENDPOINTS,
        "EndpointSlice" => &network::ENDPOINT_SLICE,
        "ServiceCIDR" => &network::SERVICE_CIDR,
        "IPAddress" => &network::IP_ADDRESS,
        "Pod" => &workload::POD,
        "Deployment" => &workload::DEPLOYMENT,
        "ReplicaSet" => &workload::REPLICA_SET,
        "Node" => &cluster::NODE,
        "Namespace" => &cluster::NAMESPACE,
        "Event" => &cluster::EVENT,
        "ConfigMap" => &cluster::CONFIG_MAP,
        "Secret" => &cluster::SECRET,
        "ServiceAccount" => &cluster::SERVICE_ACCOUNT,
        "Lease" => &cluster::LEASE,
        "NodePort" => &own::NODE_PORT,
        "NodePortRange" => &own::NODE_PORT_RANGE,
        "ServicePool" => &own::SERVICE_POOL,
        _ => &cluster::OTHER,
    }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn or_none(text: &str) -> Value {
    json!(if text.is_empty() { "<none>" } else { text })
}

fn name(object: &Value) -> Value {
    json!(text(object, "/metadata/name"))
}

fn age(object: &Value, now: Timestamp) -> Value {
    json!(since(object.pointer("/metadata/creationTimestamp").and_then(Value::as_str), now))
}

/// A map of labels as `a=b,c=d`, sorted; `<none>` when empty.
fn labels(object: &Value, pointer: &str) -> String {
    let Some(map) = object.pointer(pointer).and_then(Value::as_object) else { return "<none>".into() };
    let mut pairs: Vec<String> =
        map.iter().map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default())).collect();
    pairs.sort_unstable();
    if pairs.is_empty() { "<none>".into() } else { pairs.join(",") }
}

/// The first three of many, and how many more there are.
fn first_three(items: &[String]) -> String {
    let shown = items.iter().take(3).map(String::as_str).collect::<Vec<_>>().join(",");
    if items.len() > 3 { format!("{shown} + {} more...", items.len() - 3) } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All but IPAddress, whose rows have one cell more than columns, as upstream's.
    const KINDS: [&str; 17] = [
        "Service",
        "Endpoints",
        "EndpointSlice",
        "ServiceCIDR",
        "Pod",
        "Deployment",
        "ReplicaSet",
        "Node",
        "Namespace",
        "Event",
        "ConfigMap",
        "Secret",
        "ServiceAccount",
        "Lease",
        "NodePort",
        "NodePortRange",
        "ServicePool",
    ];

    #[test]
    fn every_kind_has_as_many_cells_as_columns() {
        for kind in KINDS.into_iter().chain(["Other"]) {
            let table = table_of(kind);
            let row = (table.row)(&json!({"metadata": {"name": "a"}}), Timestamp::UNIX_EPOCH);
            assert_eq!(row.cells.len(), (table.columns)().len(), "{kind}");
        }
    }

    #[test]
    fn every_column_says_what_it_shows() {
        for kind in KINDS.into_iter().chain(["IPAddress"]) {
            for column in (table_of(kind).columns)() {
                assert!(!column.description.is_empty(), "{kind} {}", column.name);
            }
        }
    }

    #[test]
    fn lists_are_cut_after_three() {
        let items: Vec<String> = (0..5).map(|i| i.to_string()).collect();
        assert_eq!(first_three(&items), "0,1,2 + 2 more...");
        assert_eq!(first_three(&items[..3]), "0,1,2");
        assert_eq!(first_three(&[]), "");
    }
}
