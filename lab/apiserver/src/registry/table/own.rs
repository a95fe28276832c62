//! Rows of our own kinds: the columns that their CustomResourceDefinitions have on a real server.

use std::sync::LazyLock;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Column, Row, Table, age, list, name, number, or_none, text};

pub(super) static NODE_PORT: Table = Table { columns: || &NODE_PORT_COLUMNS, row: node_port };
pub(super) static NODE_PORT_RANGE: Table =
    Table { columns: || &NODE_PORT_RANGE_COLUMNS, row: node_port_range };
pub(super) static SERVICE_POOL: Table = Table { columns: || &SERVICE_POOL_COLUMNS, row: service_pool };

static NODE_PORT_COLUMNS: LazyLock<Vec<Column>> = LazyLock::new(|| {
    vec![
        Column::name(),
        Column::text("Namespace", "The namespace of the object that holds the port."),
        Column::text("Parent", "The object that holds the port."),
        Column::text("Protocols", "The protocols that it is held for."),
        Column::text("Purpose", "What it is held for."),
        Column::text("Ports", "The names of the Service's ports that have it.").wide(),
        Column::age(),
    ]
});

fn node_port(object: &Value, now: Timestamp) -> Row {
    Row::of(vec![
        name(object),
        json!(text(object, "/spec/parentRef/namespace")),
        json!(text(object, "/spec/parentRef/name")),
        joined(object, "/spec/protocols"),
        json!(text(object, "/spec/purpose")),
        joined(object, "/spec/portNames"),
        age(object, now),
    ])
}

static NODE_PORT_RANGE_COLUMNS: LazyLock<Vec<Column>> = LazyLock::new(|| {
    vec![
        Column::name(),
        Column::text("First", "The first port.").integer(),
        Column::text("Last", "The last port.").integer(),
        Column::text("Role", "What the ports are for."),
        Column::text("Ready", "Whether the range is in use."),
        Column::age(),
    ]
});

fn node_port_range(object: &Value, now: Timestamp) -> Row {
    Row::of(vec![
        name(object),
        json!(number(object, "/spec/firstPort")),
        json!(number(object, "/spec/lastPort")),
        json!(text(object, "/spec/role")),
        json!(condition(object, "Ready", "/status")),
        age(object, now),
    ])
}

static SERVICE_POOL_COLUMNS: LazyLock<Vec<Column>> = LazyLock::new(|| {
    vec![
        Column::name(),
        Column::text("Addresses", "The parts of ServiceCIDRs."),
        Column::text("Priority", "Which of several pools counts.").integer(),
        Column::text("Ready", "Whether the pool is in use."),
        Column::text("Fill", "How full it is."),
        Column::age(),
    ]
});

fn service_pool(object: &Value, now: Timestamp) -> Row {
    Row::of(vec![
        name(object),
        joined(object, "/spec/addresses"),
        json!(number(object, "/spec/priority")),
        json!(condition(object, "Ready", "/status")),
        json!(condition(object, "Filling", "/reason")),
        age(object, now),
    ])
}

fn joined(object: &Value, pointer: &str) -> Value {
    let texts: Vec<&str> = list(object, pointer).iter().filter_map(Value::as_str).collect();
    or_none(&texts.join(","))
}

fn condition<'a>(object: &'a Value, kind: &str, field: &str) -> &'a str {
    let all = list(object, "/status/conditions");
    all.iter().find(|c| text(c, "/type") == kind).map_or("", |c| text(c, field))
}
