//! Questions about callers: whose token is this, who am I, who may do what (`kubectl auth whoami`, `kubectl auth can-i`).
//!
//! Pure: an answer follows from the question, the caller and the rules of [`super::authorize`]; nothing is stored. Source:
//! the API references of `authentication.k8s.io/v1` and `authorization.k8s.io/v1`.

use jiff::Timestamp;
use k8s_openapi::api::authorization::v1::{NonResourceAttributes, ResourceAttributes};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize as _;
use serde_json::{Map, Value, json};
use service_api::errors::{self, BadValue, FieldErrors, Path};
use service_api::{names, status};

use crate::registry::error::ApiError;
use crate::registry::object::{meta, time_text};
use crate::registry::resource_info::Review;

use super::auth::Token;
use super::authorize::{self, Action};
use super::caller::Caller;

/// What the answers depend on beside the question.
pub(crate) struct Asked<'a> {
    /// Who asks.
    pub(crate) caller: &'a Caller,
    /// The token that is known.
    pub(crate) token: &'a Token,
    /// When.
    pub(crate) now: Timestamp,
}

/// Answers a decoded question: it comes back with its `status`.
///
/// # Errors
/// 400 for a question without its subject, 422 for faults in it.
pub(crate) fn answer(review: Review, question: Value, asked: &Asked<'_>) -> Result<Value, ApiError> {
    match review {
        Review::Token => review_token(question, asked.token),
        Review::SelfSubject => {
            let mut answer = bare(&question);
            answer["metadata"] = json!({ "creationTimestamp": time_text(asked.now) });
            answer["status"] = json!({ "userInfo": asked.caller.user_info() });
            Ok(answer)
        }
        Review::SelfSubjectRules => {
            if text(&question, "/spec/namespace").is_empty() {
                return Err(ApiError::bad_request("no namespace on request"));
            }
            let mut answer = bare(&question);
            answer["spec"] = json!({});
            answer["status"] = authorize::rules(asked.caller);
            Ok(answer)
        }
        Review::SelfSubjectAccess => {
            review_access(question, |_| asked.caller.clone(), |question| spec_faults(question, false))
        }
        Review::SubjectAccess => review_access(question, subject, |question| spec_faults(question, true)),
        Review::LocalSubjectAccess => review_access(question, subject, |question| {
            let mut faults = spec_faults(question, true);
            faults.extend(local_faults(question));
            faults
        }),
    }
}

/// `kind` and `apiVersion` alone: the answers that upstream makes anew.
fn bare(question: &Value) -> Value {
    json!({ "kind": question["kind"], "apiVersion": question["apiVersion"], "metadata": {} })
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn review_token(mut question: Value, known: &Token) -> Result<Value, ApiError> {
    let token = text(&question, "/spec/token");
    if token.is_empty() {
        return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
    }
    let audiences = question.pointer("/spec/audiences").cloned();
    question["status"] = if known.admits(token) {
        let mut status = json!({ "authenticated": true, "user": Caller::admin().user_info() });
        // The token is good for every audience.
        if let Some(audiences) = audiences.filter(|list| list.as_array().is_some_and(|list| !list.is_empty()))
        {
            status["audiences"] = audiences;
        }
        status
    } else {
        json!({ "user": {}, "error": "invalid bearer token" })
    };
    Ok(question)
}

fn review_access(
    mut question: Value,
    who: impl FnOnce(&Value) -> Caller,
    faults: impl FnOnce(&Value) -> FieldErrors,
) -> Result<Value, ApiError> {
    let faults = faults(&question);
    if !faults.is_empty() {
        return Err(status::invalid("authorization.k8s.io", "", "", faults).into());
    }
    let decision = authorize::decide(&who(&question), &action(&question));
    let mut answer = json!({ "allowed": decision.is_some() });
    if let Some(reason) = decision.as_ref().map(authorize::Grant::reason).filter(|reason| !reason.is_empty())
    {
        answer["reason"] = json!(reason);
    }
    question["status"] = answer;
    Ok(question)
}

/// The user that a question is about.
fn subject(question: &Value) -> Caller {
    let list = |value: Option<&Value>| -> Vec<String> {
        let items = value.and_then(Value::as_array).into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let extra = question.pointer("/spec/extra").and_then(Value::as_object);
    Caller {
        username: text(question, "/spec/user").to_owned(),
        uid: text(question, "/spec/uid").to_owned(),
        groups: list(question.pointer("/spec/groups")),
        extra: extra.into_iter().flatten().map(|(key, values)| (key.clone(), list(Some(values)))).collect(),
    }
}

/// What a question is about.
fn action(question: &Value) -> Action {
    let part = |field: &str| text(question, &format!("/spec/resourceAttributes/{field}")).to_owned();
    if given(question, "resourceAttributes").is_some() {
        Action::Resource {
            verb: part("verb"),
            group: part("group"),
            resource: part("resource"),
            subresource: part("subresource"),
            namespace: part("namespace"),
            name: part("name"),
        }
    } else {
        Action::Path {
            verb: text(question, "/spec/nonResourceAttributes/verb").to_owned(),
            path: text(question, "/spec/nonResourceAttributes/path").to_owned(),
        }
    }
}

fn given<'a>(question: &'a Value, field: &str) -> Option<&'a Value> {
    question.get("spec")?.get(field).filter(|value| !value.is_null())
}

/// Faults that all questions about access can have; `named`: it must name whom it is about.
fn spec_faults(question: &Value, named: bool) -> FieldErrors {
    let path = Path::root("spec");
    let (resource, other) = (given(question, "resourceAttributes"), given(question, "nonResourceAttributes"));
    let mut faults = FieldErrors::new();
    match (resource, other) {
        (Some(_), Some(other)) => {
            let why = "cannot be specified in combination with resourceAttributes";
            faults.push(errors::invalid(path.child("nonResourceAttributes"), internal_form(other), why));
        }
        (None, None) => {
            let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            faults.push(errors::invalid(path.child("resourceAttributes"), BadValue::Null, why));
        }
        _ => {}
    }
    let groups = question.pointer("/spec/groups").and_then(Value::as_array);
    if named && text(question, "/spec/user").is_empty() && groups.is_none_or(Vec::is_empty) {
        faults.push(errors::invalid(
            path.child("user"),
            "",
            "at least one of user or group must be specified",
        ));
    }
    if let Some(attributes) = resource.and_then(|value| ResourceAttributes::deserialize(value).ok()) {
        faults.extend(selector_faults(&attributes, &path.child("resourceAttributes")));
    }
    let kept: &[&str] = if question["kind"] == "LocalSubjectAccessReview" { &["namespace"] } else { &[] };
    let rest = metadata_but(question, kept);
    if !rest.is_empty() {
        let why = if kept.is_empty() { "must be empty" } else { "must be empty except for namespace" };
        let shown = ObjectMeta::deserialize(&question["metadata"]).map(|metadata| BadValue::json(&metadata));
        faults.push(errors::invalid("metadata", shown.unwrap_or(BadValue::Null), why));
    }
    faults
}

/// The attributes as upstream prints them: its type for them has no JSON names.
fn internal_form(value: &Value) -> BadValue {
    let NonResourceAttributes { path, verb } = NonResourceAttributes::deserialize(value).unwrap_or_default();
    let quoted = |text: Option<String>| Value::String(text.unwrap_or_default()).to_string();
    BadValue::Json(format!("{{\"Path\":{},\"Verb\":{}}}", quoted(path), quoted(verb)))
}

/// Members of the metadata but those that the server sets and those that are allowed.
fn metadata_but(question: &Value, kept: &[&str]) -> Map<String, Value> {
    let mut rest = question["metadata"].as_object().cloned().unwrap_or_default();
    rest.retain(|name, value| name != "managedFields" && !kept.contains(&name.as_str()) && !is_empty(value));
    rest
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

/// A question about one namespace is about that one and about resources.
fn local_faults(question: &Value) -> FieldErrors {
    let mut faults = FieldErrors::new();
    let namespace = text(question, "/spec/resourceAttributes/namespace");
    if given(question, "resourceAttributes").is_some() && namespace != meta(question, "namespace") {
        let why = "must match metadata.namespace";
        faults.push(errors::invalid("spec.resourceAttributes.namespace", namespace, why));
    }
    if let Some(other) = given(question, "nonResourceAttributes") {
        let why = "disallowed on this kind of request";
        faults.push(errors::invalid("spec.nonResourceAttributes", internal_form(other), why));
    }
    faults
}

/// Faults of the selectors by which a question may be narrowed.
fn selector_faults(attributes: &ResourceAttributes, path: &Path) -> FieldErrors {
    let mut faults = FieldErrors::new();
    if let Some(selector) = &attributes.field_selector {
        let path = path.child("fieldSelector");
        let list = selector.requirements.as_deref().unwrap_or_default();
        faults.extend(either(selector.raw_selector.as_deref(), list.len(), &path));
        for (at, one) in list.iter().enumerate() {
            let path = path.child("requirements").index(at);
            if one.key.is_empty() {
                faults.push(errors::required(path.child("key"), "must be specified"));
            }
            faults.extend(value_faults(&one.operator, one.values.as_deref(), &path));
        }
    }
    if let Some(selector) = &attributes.label_selector {
        let path = path.child("labelSelector");
        let list = selector.requirements.as_deref().unwrap_or_default();
        faults.extend(either(selector.raw_selector.as_deref(), list.len(), &path));
        for (at, one) in list.iter().enumerate() {
            let path = path.child("requirements").index(at);
            faults.extend(value_faults(&one.operator, one.values.as_deref(), &path));
            let key = names::qualified_name(&one.key).into_iter();
            faults.extend(key.map(|why| errors::invalid(path.child("key"), one.key.as_str(), why)));
            for (at, value) in one.values.iter().flatten().enumerate() {
                let path = path.child("values").index(at);
                let wrong = names::label_value(value).into_iter();
                faults.extend(wrong.map(|why| errors::invalid(&path, value.as_str(), why)));
            }
        }
    }
    faults
}

/// A selector is a text or a list, not both and not neither.
fn either(raw: Option<&str>, requirements: usize, path: &Path) -> FieldErrors {
    match (raw.filter(|text| !text.is_empty()), requirements) {
        (Some(text), 1..) => {
            let why = "may not specified at the same time as requirements";
            errors::invalid(path.child("rawSelector"), text, why).into()
        }
        (None, 0) => {
            let why = format!("when {path} is specified, requirements or rawSelector is required");
            errors::required(path.child("requirements"), why).into()
        }
        _ => FieldErrors::new(),
    }
}

fn value_faults(operator: &str, values: Option<&[String]>, path: &Path) -> FieldErrors {
    let path = path.child("values");
    match (operator, values.unwrap_or_default().is_empty()) {
        ("In" | "NotIn", true) => {
            errors::required(path, "must be specified when `operator` is 'In' or 'NotIn'").into()
        }
        ("Exists" | "DoesNotExist", false) => {
            errors::forbidden(path, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
                .into()
        }
        _ => FieldErrors::new(),
    }
}
