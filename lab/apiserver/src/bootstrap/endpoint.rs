//! The endpoint behind `default/kubernetes`: its Endpoints and its EndpointSlice, made and put right.
//!
//! Upstream's reconciler does the same for each of its servers. Labels and annotations that people add stay; addresses,
//! ports, and the labels that give the objects their meaning are the server's.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::{Occasion, born, put};
use crate::registry::Tx;
use crate::registry::error::ApiError;
use crate::registry::strategy::Context;

/// Makes both objects, and puts them right unless another server may have written them.
pub(super) fn publish(
    tx: &mut Tx<'_>,
    ctx: &Context<'_>,
    at: SocketAddr,
    occasion: Occasion,
) -> Result<(), ApiError> {
    for (group, resource, wanted) in
        [("", "endpoints", endpoints(ctx, at)), ("discovery.k8s.io", "endpointslices", slice(ctx, at))]
    {
        let Some(id) = ctx.registry.id(group, resource) else { continue };
        let stored = tx.get(id, "default", "kubernetes").and_then(|stored| stored.parse().ok());
        let Some(stored): Option<Value> = stored else {
            put(tx, ctx, id, None, wanted)?;
            continue;
        };
        if occasion == Occasion::Beside {
            continue;
        }
        if stored.get("addressType") != wanted.get("addressType") {
            // The type of a slice can not be changed.
            tx.delete(id, "default", "kubernetes", stored).map_err(ApiError::from)?;
            put(tx, ctx, id, None, wanted)?;
        } else if let Some(right) = corrected(&stored, &wanted) {
            put(tx, ctx, id, Some(&stored), right)?;
        }
    }
    Ok(())
}

/// The stored object put right; `None` when it is.
fn corrected(stored: &Value, wanted: &Value) -> Option<Value> {
    let mut right = stored.clone();
    for field in ["subsets", "endpoints", "ports"] {
        if let Some(value) = wanted.get(field) {
            right[field] = value.clone();
        }
    }
    let labels = wanted.pointer("/metadata/labels").and_then(Value::as_object);
    for (label, value) in labels.into_iter().flatten() {
        right["metadata"]["labels"][label] = value.clone();
    }
    if right == *stored {
        return None;
    }
    let edited = ["endpoints", "ports"].iter().any(|field| right.get(*field) != stored.get(*field));
    if let Some(generation) = stored.pointer("/metadata/generation").and_then(Value::as_i64)
        && edited
    {
        right["metadata"]["generation"] = json!(generation + 1);
    }
    Some(right)
}

fn endpoints(ctx: &Context<'_>, at: SocketAddr) -> Value {
    let mut metadata = born("kubernetes", "default", ctx.now);
    metadata["labels"] = json!({"endpointslice.kubernetes.io/skip-mirror": "true"});
    json!({
        "apiVersion": "v1", "kind": "Endpoints", "metadata": metadata,
        "subsets": [{"addresses": [{"ip": at.ip()}], "ports": ports(at)}],
    })
}

fn slice(ctx: &Context<'_>, at: SocketAddr) -> Value {
    let mut metadata = born("kubernetes", "default", ctx.now);
    metadata["labels"] = json!({"kubernetes.io/service-name": "kubernetes"});
    metadata["generation"] = json!(1);
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata,
        "addressType": if at.is_ipv4() { "IPv4" } else { "IPv6" },
        "endpoints": [{"addresses": [at.ip()], "conditions": {"ready": true}}],
        "ports": ports(at),
    })
}

fn ports(at: SocketAddr) -> Value {
    json!([{"name": "https", "port": at.port(), "protocol": "TCP"}])
}
