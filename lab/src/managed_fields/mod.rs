//! Who set which field: `metadata.managedFields` of every write, as upstream keeps it.

use jiff::Timestamp;
use serde_json::Value;

use crate::schema::KindSchema;

/// Who writes, and through what.
#[derive(Clone, Copy, Debug)]
pub struct UpdateContext<'a> {
    /// The manager, see [`manager_name`].
    pub manager: &'a str,
    /// The subresource the request addresses (`"status"`), if any.
    pub subresource: Option<&'a str>,
    /// The time that a changed entry gets.
    pub now: Timestamp,
}

/// Computes `new`'s `managedFields` after a create (`old` is `None`), update or patch.
///
/// To be called on the decoded and defaulted object before allocation, as upstream does: what the server itself fills in
/// afterwards has no owner.
pub fn track_update(
    kind: &'static KindSchema,
    old: Option<&Value>,
    new: &mut Value,
    ctx: &UpdateContext<'_>,
) {
    let _ = (kind, old, new, ctx);
}

/// Puts the old `managedFields` back when their times are all that a write would change, so that it is no write.
pub fn settle_times(old: &Value, new: &mut Value) {
    let _ = (old, new);
}

/// The manager of a write: the query parameter `fieldManager`, or what stands before the first `/` of the User-Agent
/// (printable characters only, at most 128 bytes).
pub fn manager_name(field_manager: &str, user_agent: &str) -> String {
    if field_manager.is_empty() {
        user_agent.split('/').next().unwrap_or_default().to_owned()
    } else {
        field_manager.to_owned()
    }
}
