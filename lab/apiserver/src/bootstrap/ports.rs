//! The default NodePortRange, made where none is stored, and the NodePorts of Services that a server without them left.

use serde_json::{Value, json};
use service_allocators::port::DEFAULT_RANGE;
use service_api::crds;

use super::{Notice, Settings, born, time};
use crate::registry::error::ApiError;
use crate::registry::strategy::Context;
use crate::registry::{Tx, kinds};

/// The range of node ports that the flag names, where none of that name is stored.
pub(super) fn publish(
    tx: &mut Tx<'_>,
    ctx: &Context<'_>,
    settings: &Settings,
) -> Result<Option<Notice>, ApiError> {
    let Some(id) = ctx.registry.id(crds::GROUP, "nodeportranges") else { return Ok(None) };
    let (first, last) = (settings.node_ports.first(), settings.node_ports.last());
    if let Some(stored) = tx.get(id, "", DEFAULT_RANGE) {
        let object: Value = serde_json::from_slice(&stored.body).unwrap_or_default();
        let of = |field: &str| object.pointer(field).and_then(Value::as_u64).unwrap_or_default();
        let (from, to) = (of("/spec/firstPort"), of("/spec/lastPort"));
        let differs = (from, to) != (u64::from(first), u64::from(last));
        let flag = settings.node_ports.to_string();
        return Ok(differs.then(|| Notice::PortsDiffer { stored: format!("{from}-{to}"), flag }));
    }
    let object = json!({
        "apiVersion": format!("{}/{}", crds::GROUP, crds::VERSION), "kind": "NodePortRange",
        "metadata": born(DEFAULT_RANGE, "", ctx.now),
        "spec": {"firstPort": first, "lastPort": last, "role": "Dynamic"},
        "status": {"conditions": [{
            "type": "Ready", "status": "True", "reason": "InUse", "message": "ports are given from this range",
            "lastTransitionTime": time(ctx.now),
        }]},
    });
    tx.put(id, object).map_err(ApiError::from)?;
    Ok(None)
}

/// Services that were stored by a server without NodePorts get theirs.
pub(super) fn adopt(tx: &mut Tx<'_>, ctx: &Context<'_>) -> Result<(), ApiError> {
    let Some(id) = ctx.registry.id("", "services") else { return Ok(()) };
    for stored in tx.list(id, None) {
        let object: Value = serde_json::from_slice(&stored.body).unwrap_or_default();
        if matches!(object.pointer("/spec/type").and_then(Value::as_str), Some("NodePort" | "LoadBalancer")) {
            kinds::service::adopt_ports(&object, tx, ctx)?;
        }
    }
    Ok(())
}
