//! The default ServiceCIDR: made at the first start, and followed from then on. A server that is started with other ranges
//! uses the stored ones, and says so in a condition, an Event, its readiness and a warning for each new Service.

use serde_json::{Value, json};

use super::{DEFAULT_CIDR, NETWORKING, Notice, RangeOrigin, Settings, born, put, time, track};
use crate::registry::Tx;
use crate::registry::error::ApiError;
use crate::registry::ledger_index::CONSISTENT;
use crate::registry::strategy::Context;

/// Upstream's reason for ranges that differ.
const REASON: &str = "KubernetesDefaultServiceCIDRInconsistent";

/// Makes the default ServiceCIDR or puts it right; says whether its ranges are others than those of this start.
pub(super) fn publish(
    tx: &mut Tx<'_>,
    ctx: &Context<'_>,
    settings: &Settings,
) -> Result<Option<Notice>, ApiError> {
    let Some(id) = ctx.registry.id(NETWORKING, "servicecidrs") else { return Ok(None) };
    let wanted: Vec<String> = settings.service_cidrs.iter().map(ToString::to_string).collect();
    let Some(stored) = tx.get(id, "", DEFAULT_CIDR) else {
        let mut object = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
            "metadata": born(DEFAULT_CIDR, "", ctx.now),
            "spec": {"cidrs": wanted},
        });
        track(ctx, id, None, &mut object, None);
        let made = object.clone();
        object["status"] = json!({"conditions": [ready(ctx)]});
        track(ctx, id, Some(&made), &mut object, Some("status"));
        tx.put(id, object).map_err(ApiError::from)?;
        return Ok(None);
    };
    let before: Value = serde_json::from_slice(&stored.body).unwrap_or_default();
    let mut object = before.clone();
    let listed = object.pointer("/spec/cidrs").and_then(Value::as_array).into_iter().flatten();
    let ranges: Vec<String> = listed.filter_map(|cidr| cidr.as_str().map(str::to_owned)).collect();
    // A cluster may become dual-stack by its flag; nothing else of the stored ranges ever changes.
    if wanted.len() == 2 && ranges.len() == 1 && wanted[0] == ranges[0] {
        object["spec"]["cidrs"] = json!(wanted);
        track(ctx, id, Some(&before), &mut object, None);
    }
    let differs =
        (object["spec"]["cidrs"] != json!(wanted)).then(|| difference(&ranges, &wanted, settings.origin));
    if object.pointer("/metadata/deletionTimestamp").is_none() {
        let spec = object.clone();
        set_conditions(&mut object, differs.as_deref(), ctx);
        track(ctx, id, Some(&spec), &mut object, Some("status"));
    }
    if object != before {
        tx.put(id, object).map_err(ApiError::from)?;
    }
    let Some(message) = differs else { return Ok(None) };
    tell(tx, ctx, &before, &message)?;
    Ok(Some(Notice::RangeDiffers(message)))
}

/// What is said of ranges that differ.
fn difference(stored: &[String], wanted: &[String], origin: RangeOrigin) -> String {
    let other = match origin {
        RangeOrigin::Flag => format!("--service-cluster-ip-range of this start, {}", wanted.join(",")),
        RangeOrigin::Default => {
            format!("{}, which this server takes where no range is given at its start", wanted.join(","))
        }
    };
    format!(
        "The default ServiceCIDR has {}, not {other}: the stored range stays in use, and Services get their addresses from it",
        stored.join(",")
    )
}

/// Ready, where nothing is said yet; and whether this start asked for the same, where it did not.
fn set_conditions(object: &mut Value, differs: Option<&str>, ctx: &Context<'_>) {
    let stored = object.pointer("/status/conditions").and_then(Value::as_array).cloned();
    let mut conditions = stored.clone().unwrap_or_default();
    if conditions.is_empty() && differs.is_none() {
        conditions.push(ready(ctx));
    }
    let at = conditions.iter().position(|condition| condition["type"] == CONSISTENT);
    match (differs, at) {
        (None, Some(at)) => {
            conditions.remove(at);
        }
        (Some(message), Some(at)) if conditions[at]["message"] == message => {}
        (Some(message), at) => {
            let told = json!({
                "type": CONSISTENT, "status": "False", "reason": REASON, "message": message,
                "lastTransitionTime": time(ctx.now),
            });
            match at {
                Some(at) => conditions[at] = told,
                None => conditions.push(told),
            }
        }
        (None, None) => {}
    }
    if stored.as_deref() != Some(conditions.as_slice()) && !(stored.is_none() && conditions.is_empty()) {
        object["status"]["conditions"] = Value::Array(conditions);
    }
}

/// One Event on the default ServiceCIDR for each difference, with upstream's reason.
fn tell(tx: &mut Tx<'_>, ctx: &Context<'_>, range: &Value, message: &str) -> Result<(), ApiError> {
    let Some(events) = ctx.registry.id("", "events") else { return Ok(()) };
    let name = format!("{DEFAULT_CIDR}.{}", REASON.to_lowercase());
    let now = time(ctx.now);
    if let Some(before) = tx.get(events, "default", &name).and_then(|stored| stored.parse().ok()) {
        if before["message"] != message {
            let mut known = before.clone();
            known["count"] = json!(known["count"].as_i64().unwrap_or_default() + 1);
            (known["message"], known["lastTimestamp"]) = (json!(message), json!(now));
            put(tx, ctx, events, Some(&before), known)?;
        }
        return Ok(());
    }
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": born(&name, "default", ctx.now),
        "involvedObject": {
            "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "namespace": "default", "name": DEFAULT_CIDR,
            "uid": range["metadata"]["uid"],
        },
        "type": "Warning", "reason": REASON, "message": message, "count": 1,
        "firstTimestamp": now, "lastTimestamp": now, "eventTime": null,
        "source": {"component": "kubernetes-service-cidr-controller"},
        "reportingComponent": "kubernetes-service-cidr-controller", "reportingInstance": "",
    });
    put(tx, ctx, events, None, event)
}

fn ready(ctx: &Context<'_>) -> Value {
    json!({
        "type": "Ready", "status": "True", "reason": "", "message": "Kubernetes default Service CIDR is ready",
        "lastTransitionTime": time(ctx.now),
    })
}
