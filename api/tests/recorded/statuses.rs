//! Builds every recorded Status anew from its parts and compares the whole body.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use serde_json::Value;
use service_api::status;

use crate::cases;

fn after<'a>(text: &'a str, mark: &str) -> &'a str {
    text.split_once(mark).map_or(text, |(_, rest)| rest)
}

fn list(text: &str) -> Vec<&str> {
    text.split(", ").collect()
}

/// The same Status by our constructors, or `None` where the errors themselves are the content.
fn rebuilt(body: &Value) -> Option<Status> {
    let message = body["message"].as_str().unwrap_or_default();
    let details = &body["details"];
    let part = |key: &str| details[key].as_str().unwrap_or_default();
    let (group, kind, name) = (part("group"), part("kind"), part("name"));
    Some(match body["reason"].as_str() {
        None if body["status"] == "Success" => {
            status::success(status::removed(group, kind, name, part("uid")))
        }
        None => status::plain_500(message),
        Some("NotFound") if kind.is_empty() => status::no_such_resource(),
        Some("NotFound") => status::not_found(group, kind, name),
        Some("AlreadyExists") => status::already_exists(group, kind, name),
        Some("BadRequest") => status::bad_request(message),
        Some("MethodNotAllowed") => status::method_not_allowed(),
        Some("NotAcceptable") => status::not_acceptable(&list(after(message, "representations: "))),
        Some("UnsupportedMediaType") if message.starts_with("415") => status::unsupported_patch_type(),
        Some("UnsupportedMediaType") => status::unsupported_media_type(&list(after(message, "include: "))),
        Some("InternalError") => status::internal_error(after(message, "occurred: ")),
        Some("Invalid") if details["causes"].is_null() => status::rejected_request(),
        Some("Invalid") => return None,
        Some("Conflict") if kind.is_empty() => {
            let conflicts: Vec<_> = details["causes"]
                .as_array()
                .unwrap()
                .iter()
                .map(|c| {
                    let manager = after(c["message"].as_str().unwrap(), "conflict with ");
                    (manager.to_owned(), c["field"].as_str().unwrap().to_owned())
                })
                .collect();
            status::apply_conflict(&conflicts)
        }
        Some("Conflict") => status::conflict(group, kind, name, after(message, "\": ")),
        Some(other) => panic!("no constructor for {other}"),
    })
}

#[test]
fn every_recorded_status_can_be_built() {
    let mut count = 0;
    for (name, case) in cases() {
        for step in case["steps"].as_array().unwrap() {
            let body = &step["expect"]["body"];
            if body["kind"] != "Status" {
                continue;
            }
            if let Some(ours) = rebuilt(body) {
                count += 1;
                assert_eq!(&serde_json::to_value(ours).unwrap(), body, "{name}");
            }
        }
    }
    assert!(count > 50, "only {count} answers found");
}
