//! Events of the lab's own components, on the objects that a person would look at.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::local::{EVENTS, Local};
use crate::registry::object::meta;

/// What an Event is about and who says it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About<'a> {
    /// The object.
    pub(crate) object: &'a Value,
    /// The component, such as `kubelet`.
    pub(crate) component: &'a str,
    /// Its host; may be empty.
    pub(crate) host: &'a str,
}

/// What can happen again and is then counted in the same Event.
#[derive(Clone, Debug)]
pub(crate) struct Repeated<'a> {
    /// Where in the object, for `fieldPath`; null: the object as a whole.
    pub(crate) path: Value,
    /// What tells it from the object's other Events: part of the Event's name.
    pub(crate) key: &'a str,
    /// How often it happened so far.
    pub(crate) count: i64,
}

/// Writes an Event of that type and reason; what is `repeated` is counted up in the Event that is there instead of
/// written anew. An Event that can not be written is told in the log only.
pub(crate) fn tell(
    local: &Local,
    about: &About<'_>,
    (kind, reason): (&str, &str),
    message: &str,
    repeated: Option<Repeated<'_>>,
) {
    let object = about.object;
    let namespace = match meta(object, "namespace") {
        "" => "default",
        namespace => namespace,
    };
    let now = Timestamp::now();
    let time = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let uid = meta(object, "uid");
    // The name of a repeated Event says what happened and to which object; that of another one has the time in it.
    let suffix = repeated.as_ref().map_or_else(
        || format!("{:x}", now.as_nanosecond()),
        |repeated| format!("{}.{}", uid.split('-').next().unwrap_or_default(), repeated.key),
    );
    let (path, count) = repeated.map_or((Value::Null, 1), |repeated| (repeated.path, repeated.count));
    let name = format!("{}.{suffix}", meta(object, "name"));
    if count > 1 {
        let repeated = local.update(EVENTS, (namespace, &name), |event| {
            event["count"] = json!(count);
            event["lastTimestamp"] = json!(time);
        });
        match repeated {
            Err(error) if error.code() == 404 => {}
            _ => return,
        }
    }
    let mut involved = json!({
        "kind": object["kind"], "apiVersion": object["apiVersion"], "namespace": namespace,
        "name": meta(object, "name"), "uid": uid, "resourceVersion": meta(object, "resourceVersion"),
    });
    if !path.is_null() {
        involved["fieldPath"] = path;
    }
    let event = json!({
        "metadata": {"name": name, "namespace": namespace}, "involvedObject": involved, "type": kind, "reason": reason,
        "message": message, "count": count, "firstTimestamp": time, "lastTimestamp": time,
        "source": {"component": about.component, "host": about.host},
        "reportingComponent": about.component, "reportingInstance": about.host,
    });
    if let Err(error) = local.create(EVENTS, namespace, &event) {
        tracing::debug!(%error, reason, "an Event was refused");
    }
}
