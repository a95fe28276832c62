//! What a simulation would write, as it is printed in JSON and YAML.
//!
//! Owns the shape and the names only.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::explain::report::Unknown;

/// What the controllers would write, step by step.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Simulation {
    /// The version of the schema: `explain.service-control-plane.io/v1`.
    pub api_version: &'static str,
    /// `Simulation`.
    pub kind: &'static str,
    /// The steps: the objects as they are, then one for each part of an edit.
    pub steps: Vec<Step>,
    /// What cannot be known.
    pub unknown: Vec<Unknown>,
}

/// A change, and what the controllers would write after it.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// What was changed.
    pub name: String,
    /// The writes, in a fixed order.
    pub writes: Vec<Write>,
    /// What they cost.
    pub totals: Totals,
    /// What else is worth knowing.
    pub notes: Vec<String>,
}

/// A write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Write {
    /// `Create`, `Update` or `Delete`.
    pub verb: &'static str,
    /// The kind of the object.
    pub kind: &'static str,
    /// Its namespace; empty for a cluster-wide one.
    pub namespace: String,
    /// Its name; of one that is made, a made-up one.
    pub name: String,
    /// The Service that it is written for, as `namespace/name`.
    pub service: String,
    /// What changes, in words.
    pub message: String,
    /// What changes, endpoint by endpoint: `+`, `-` or `~` before each.
    pub lines: Vec<String>,
    /// The size of the request's body.
    pub bytes: usize,
    /// The size of the object as the watches are told of it.
    pub event_bytes: usize,
    /// How many nodes are told of it, by the watch of their proxy.
    pub nodes: usize,
}

/// What writes cost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// How many there are.
    pub writes: usize,
    /// How many of each kind of object.
    pub by_kind: BTreeMap<&'static str, usize>,
    /// Bytes that are sent to the API server.
    pub bytes: usize,
    /// Events that the API server sends to nodes.
    pub events_to_nodes: usize,
    /// Bytes of those events.
    pub bytes_to_nodes: usize,
}

impl Totals {
    /// What these writes cost.
    #[must_use]
    pub fn of(writes: &[Write]) -> Self {
        let mut totals = Self { writes: writes.len(), ..Self::default() };
        for write in writes {
            *totals.by_kind.entry(write.kind).or_default() += 1;
            totals.bytes += write.bytes;
            totals.events_to_nodes += write.nodes;
            totals.bytes_to_nodes += write.event_bytes * write.nodes;
        }
        totals
    }
}
