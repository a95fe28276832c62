//! Every `metav1.Status` the API answers with, in upstream's words.
//!
//! Owns messages, reasons, details and codes; it never decides *when* to refuse something.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ListMeta, Status, StatusCause, StatusDetails};

use crate::bad_value::go_quote;
use crate::cut::{cut, cut_to};
use crate::errors::{self, FieldError, FieldErrors};

/// Most bytes of a message.
pub const MAX_MESSAGE: usize = 32 << 10;

/// A failure. A message that repeats too much of what was sent is cut.
fn failure(
    code: i32,
    reason: Option<&str>,
    message: impl Into<String>,
    details: Option<StatusDetails>,
) -> Status {
    let message = message.into();
    let message =
        if message.len() > MAX_MESSAGE { cut_to(&message, MAX_MESSAGE).into_owned() } else { message };
    Status {
        code: Some(code),
        details,
        message: Some(message),
        metadata: ListMeta::default(),
        reason: reason.map(str::to_owned),
        status: Some("Failure".to_owned()),
    }
}

/// `resource.group`, or the resource alone in the core group.
pub fn qualified(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

fn details(group: &str, kind: &str, name: &str) -> StatusDetails {
    StatusDetails {
        group: non_empty(group),
        kind: non_empty(kind),
        name: non_empty(name),
        ..StatusDetails::default()
    }
}

fn non_empty(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn cause(error: FieldError) -> StatusCause {
    StatusCause {
        message: Some(error.body()),
        reason: Some(error.kind.reason().to_owned()),
        field: Some(error.field).filter(|f| !f.is_empty()),
    }
}

/// 422: the object `name` of `kind` breaks the rules that `errors` name.
pub fn invalid(group: &str, kind: &str, name: &str, errors: impl Into<FieldErrors>) -> Status {
    let errors = errors.into();
    let subject = format!("{} {}", qualified(group, kind), go_quote(&cut(name)));
    let message = if errors.is_empty() {
        format!("{subject} is invalid")
    } else {
        format!("{subject} is invalid: {}", errors::aggregate(&errors))
    };
    let notice = errors
        .is_cut()
        .then(|| StatusCause { message: Some(errors::cut_notice()), ..StatusCause::default() });
    let listed = errors.into_iter().take(errors::MAX_ERRORS).map(cause);
    let causes: Vec<_> = listed.chain(notice).collect();
    let details =
        StatusDetails { causes: (!causes.is_empty()).then_some(causes), ..details(group, kind, name) };
    failure(422, Some("Invalid"), message, Some(details))
}

/// 404: there is no object of that name.
pub fn not_found(group: &str, resource: &str, name: &str) -> Status {
    let message = format!("{} {} not found", qualified(group, resource), go_quote(name));
    failure(404, Some("NotFound"), message, Some(details(group, resource, name)))
}

/// 404: the path names nothing this server serves.
pub fn no_such_resource() -> Status {
    failure(
        404,
        Some("NotFound"),
        "the server could not find the requested resource",
        Some(StatusDetails::default()),
    )
}

/// 409: an object of that name exists.
pub fn already_exists(group: &str, resource: &str, name: &str) -> Status {
    let message = format!("{} {} already exists", qualified(group, resource), go_quote(name));
    failure(409, Some("AlreadyExists"), message, Some(details(group, resource, name)))
}

/// 409: the write is based on a state that is gone; `message` says which condition failed.
pub fn conflict(group: &str, resource: &str, name: &str, message: &str) -> Status {
    let message = format!(
        "Operation cannot be fulfilled on {} {}: {message}",
        qualified(group, resource),
        go_quote(name)
    );
    failure(409, Some("Conflict"), message, Some(details(group, resource, name)))
}

/// The words of a conflict over the resource version.
pub const STALE: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// 409: an apply would take fields which other managers own.
/// `conflicts` are `(manager, field)` pairs such as `("\"tool-a\"", ".spec.selector")`; the
/// manager is printed as given, those of one manager stand together. Of many the first are listed.
pub fn apply_conflict(conflicts: &[(String, String)]) -> Status {
    let notice = (conflicts.len() > errors::MAX_ERRORS).then(|| StatusCause {
        message: Some(format!(
            "there are more conflicts, of which only the first {} are listed",
            errors::MAX_ERRORS
        )),
        ..StatusCause::default()
    });
    let causes: Vec<StatusCause> = conflicts
        .iter()
        .take(errors::MAX_ERRORS)
        .map(|(manager, field)| StatusCause {
            field: Some(field.clone()),
            message: Some(format!("conflict with {manager}")),
            reason: Some("FieldManagerConflict".to_owned()),
        })
        .chain(notice)
        .collect();
    failure(
        409,
        Some("Conflict"),
        apply_conflict_message(conflicts),
        Some(StatusDetails { causes: Some(causes), ..StatusDetails::default() }),
    )
}

fn apply_conflict_message(conflicts: &[(String, String)]) -> String {
    if let [(manager, field)] = conflicts {
        return format!("Apply failed with 1 conflict: conflict with {manager}: {field}");
    }
    let mut by_manager: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (manager, field) in conflicts.iter().take(errors::MAX_ERRORS) {
        by_manager.entry(manager).or_default().push(field);
    }
    let mut lines = Vec::new();
    for (manager, fields) in by_manager {
        lines.push(format!("conflicts with {manager}:"));
        lines.extend(fields.into_iter().map(|f| format!("- {f}")));
    }
    if conflicts.len() > errors::MAX_ERRORS {
        lines.push(format!("of which the first {} are listed", errors::MAX_ERRORS));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}

/// 400: the request makes no sense; `message` says why.
pub fn bad_request(message: impl Into<String>) -> Status {
    failure(400, Some("BadRequest"), message, None)
}

/// 401: the request carries no valid credentials.
pub fn unauthorized() -> Status {
    failure(401, Some("Unauthorized"), "Unauthorized", None)
}

/// 403: the action on that object is not allowed; `message` says why.
pub fn forbidden(group: &str, resource: &str, name: &str, message: &str) -> Status {
    let what = qualified(group, resource);
    let message = match (what.is_empty(), name.is_empty()) {
        (true, _) => format!("forbidden: {message}"),
        (false, true) => format!("{what} is forbidden: {message}"),
        (false, false) => format!("{what} {} is forbidden: {message}", go_quote(name)),
    };
    failure(403, Some("Forbidden"), message, Some(details(group, resource, name)))
}

/// 501: this server does not do that to the object; `message` says why.
pub fn not_implemented(resource: &str, name: &str, message: &str) -> Status {
    let message = format!("{resource} {}: {message}", go_quote(name));
    failure(501, Some("NotImplemented"), message, Some(details("", resource, name)))
}

/// 405: the resource does not know this verb.
pub fn method_not_allowed() -> Status {
    failure(
        405,
        Some("MethodNotAllowed"),
        "the server does not allow this method on the requested resource",
        Some(StatusDetails::default()),
    )
}

/// 406: none of the media types that the client accepts can be written.
pub fn not_acceptable(available: &[&str]) -> Status {
    let message = if available.is_empty() {
        "406: Not Acceptable".to_owned()
    } else {
        format!("406: Not Acceptable\n\nAvailable representations: {}", available.join(", "))
    };
    failure(406, Some("NotAcceptable"), message, Some(StatusDetails::default()))
}

/// 406: the shape that the client wants is not one of what it gets; upstream names its Go type.
pub fn other_shape(wanted: &str, group: &str, kind: &str) -> Status {
    let package = group.split('.').next().filter(|group| !group.is_empty()).unwrap_or("core");
    failure(406, Some("NotAcceptable"), format!("you requested {wanted} (*{package}.{kind})"), None)
}

/// 415: the body of a write has a media type the server can not read.
pub fn unsupported_media_type(accepted: &[&str]) -> Status {
    failure(
        415,
        Some("UnsupportedMediaType"),
        format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        ),
        None,
    )
}

/// 415: the patch has a media type that is no kind of patch.
pub fn unsupported_patch_type() -> Status {
    failure(415, Some("UnsupportedMediaType"), "415: Unsupported Media Type", Some(StatusDetails::default()))
}

/// 422: the request is well-formed and can not be carried out, for instance a JSON patch whose
/// test fails.
pub fn rejected_request() -> Status {
    failure(
        422,
        Some("Invalid"),
        "the server rejected our request due to an error in our request",
        Some(StatusDetails::default()),
    )
}

/// 413: the body is larger than `limit` bytes.
pub fn request_entity_too_large(limit: usize) -> Status {
    failure(413, Some("RequestEntityTooLarge"), format!("Request entity too large: limit is {limit}"), None)
}

/// 410: the asked resource version or continue token is too old.
pub fn gone(message: impl Into<String>) -> Status {
    failure(410, Some("Expired"), message, None)
}

/// 504: the resource version asked for has not been reached yet.
pub fn too_large_resource_version(asked: u64, current: u64) -> Status {
    let cause = StatusCause {
        message: Some("Too large resource version".to_owned()),
        reason: Some("ResourceVersionTooLarge".to_owned()),
        field: None,
    };
    failure(
        504,
        Some("Timeout"),
        format!("Timeout: Too large resource version: {asked}, current: {current}"),
        Some(StatusDetails {
            causes: Some(vec![cause]),
            retry_after_seconds: Some(1),
            ..StatusDetails::default()
        }),
    )
}

/// 503: nothing can be written at the moment; `cause` says why. Reads go on.
pub fn store_unavailable(cause: &str) -> Status {
    failure(
        503,
        Some("ServiceUnavailable"),
        format!("the store cannot be written: {cause}"),
        Some(StatusDetails { retry_after_seconds: Some(1), ..StatusDetails::default() }),
    )
}

/// 500: a fault of the server, with its cause.
pub fn internal_error(cause: &str) -> Status {
    failure(
        500,
        Some("InternalError"),
        format!("Internal error occurred: {cause}"),
        Some(StatusDetails {
            causes: Some(vec![StatusCause { message: Some(cause.to_owned()), ..StatusCause::default() }]),
            ..StatusDetails::default()
        }),
    )
}

/// 500 without a reason: what upstream answers when a plain error reaches the client.
pub fn plain_500(message: impl Into<String>) -> Status {
    failure(500, None, message, None)
}

/// 200: the action was carried out; `details` name the object.
pub fn success(details: StatusDetails) -> Status {
    Status { details: Some(details), status: Some("Success".to_owned()), ..Status::default() }
}

/// The details of a [`success`] for a removed object.
pub fn removed(group: &str, resource: &str, name: &str, uid: &str) -> StatusDetails {
    StatusDetails { uid: non_empty(uid), ..details(group, resource, name) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errors::required;

    fn message(status: &Status) -> &str {
        status.message.as_deref().unwrap_or_default()
    }

    #[test]
    fn the_group_stands_behind_the_kind() {
        let status = invalid("discovery.k8s.io", "EndpointSlice", "a", required("x", ""));
        assert_eq!(message(&status), "EndpointSlice.discovery.k8s.io \"a\" is invalid: x: Required value");
        let causes = status.details.and_then(|d| d.causes).unwrap();
        assert_eq!(causes.len(), 1);
        assert_eq!(causes[0].reason.as_deref(), Some("FieldValueRequired"));
    }

    #[test]
    fn several_apply_conflicts_are_listed_by_manager() {
        let of = |m: &str, f: &str| (format!("\"{m}\""), f.to_owned());
        let one = apply_conflict(&[of("a", ".spec.x")]);
        assert_eq!(message(&one), "Apply failed with 1 conflict: conflict with \"a\": .spec.x");
        let two = apply_conflict(&[of("a", ".spec.x"), of("a", ".spec.y")]);
        assert_eq!(
            message(&two),
            "Apply failed with 2 conflicts: conflicts with \"a\":\n- .spec.x\n- .spec.y"
        );
    }

    #[test]
    fn another_shape_is_told_by_its_type_in_go() {
        let told = |group| message(&other_shape("A, but this is a list", group, "XList")).to_owned();
        assert_eq!(told(""), "you requested A, but this is a list (*core.XList)");
        assert_eq!(told("discovery.k8s.io"), "you requested A, but this is a list (*discovery.XList)");
    }

    #[test]
    fn an_internal_error_repeats_its_cause() {
        let status = internal_error("range is full");
        assert_eq!(message(&status), "Internal error occurred: range is full");
        assert_eq!(status.code, Some(500));
    }
}
