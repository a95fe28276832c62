//! The query of a request: percent-decoding, and the options of each verb with upstream's checks and error texts.
//!
//! Rules: the `ListOptions`, `CreateOptions`, `UpdateOptions`, `PatchOptions` and `DeleteOptions` of
//! <https://kubernetes.io/docs/reference/kubernetes-api/common-parameters/common-parameters/>.

use std::borrow::Cow;

use service_api::errors::{self, BadValue, FieldError, FieldErrors};
use service_api::meta::validate_field_manager;

use crate::decode::FieldValidation;
use crate::managed_fields::manager_name;
use crate::registry::error::ApiError;
use crate::registry::options::{Propagation, WriteOptions};
use crate::registry::selectors::Selection;

/// The decoded pairs of a query string, in order.
#[derive(Debug, Default)]
pub(crate) struct Query<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Query<'a> {
    /// Splits and decodes; what is badly encoded is taken as it stands.
    pub(crate) fn parse(query: &'a str) -> Self {
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| {
                    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (decode(key, true), decode(value, true))
                })
                .collect(),
        )
    }

    /// The first value of that name.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_ref())
    }

    /// The first value of that name, empty if there is none.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    /// All values of that name.
    pub(crate) fn all(&self, name: &str) -> Vec<String> {
        self.0.iter().filter(|(key, _)| key == name).map(|(_, value)| value.to_string()).collect()
    }

    /// A flag as Kubernetes reads it: given and neither `0` nor `false`.
    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        self.get(name).map(|value| !(value == "0" || value.eq_ignore_ascii_case("false")))
    }

    /// A whole number; 400 in Go's words if it is none.
    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, ApiError> {
        match self.get(name) {
            None => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| ApiError::bad_request(go_int_fault(text))),
        }
    }
}

fn go_int_fault(text: &str) -> String {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let numeric = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let why = if numeric { "value out of range" } else { "invalid syntax" };
    format!("strconv.ParseInt: parsing {text:?}: {why}")
}

/// Percent-decodes; `plus` also turns `+` into a space, as in a query. Bytes that are no UTF-8 are replaced.
pub(crate) fn decode(text: &str, plus: bool) -> Cow<'_, str> {
    if !text.bytes().any(|b| b == b'%' || (plus && b == b'+')) {
        return Cow::Borrowed(text);
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let hex = |i: usize| bytes.get(at + i).and_then(|b| (*b as char).to_digit(16));
        match (byte, hex(1), hex(2)) {
            (b'%', Some(high), Some(low)) => {
                out.push(u8::try_from(high * 16 + low).unwrap_or(b'?'));
                at += 3;
                continue;
            }
            (b'+', _, _) if plus => out.push(b' '),
            _ => out.push(byte),
        }
        at += 1;
    }
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}

/// Options of get, list and watch.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListOptions {
    /// `labelSelector`.
    pub(crate) label_selector: String,
    /// `fieldSelector`.
    pub(crate) field_selector: String,
    /// `allowWatchBookmarks`.
    pub(crate) bookmarks: bool,
    /// `sendInitialEvents`.
    pub(crate) send_initial_events: Option<bool>,
    /// `resourceVersion`, unparsed.
    pub(crate) resource_version: String,
    /// `resourceVersionMatch`, unparsed.
    pub(crate) resource_version_match: String,
    /// `timeoutSeconds`.
    pub(crate) timeout_seconds: Option<i64>,
    /// `limit`; 0 is none.
    pub(crate) limit: usize,
    /// `continue`.
    pub(crate) continue_token: String,
}

impl ListOptions {
    /// Reads and checks them, for a watch or a list.
    pub(crate) fn parse(query: &Query<'_>, watch: bool) -> Result<Self, ApiError> {
        let limit = query.number("limit")?.unwrap_or(0);
        let mut out = Self {
            label_selector: query.text("labelSelector").to_owned(),
            field_selector: query.text("fieldSelector").to_owned(),
            bookmarks: query.flag("allowWatchBookmarks").unwrap_or(false),
            send_initial_events: query.flag("sendInitialEvents"),
            resource_version: query.text("resourceVersion").to_owned(),
            resource_version_match: query.text("resourceVersionMatch").to_owned(),
            timeout_seconds: query.number("timeoutSeconds")?,
            limit: usize::try_from(limit).unwrap_or(0),
            continue_token: query.text("continue").to_owned(),
        };
        let faults = if watch { out.watch_faults() } else { out.list_faults() };
        if !faults.is_empty() {
            // What cannot be read is told before what may not be combined.
            Selection::read(&out.label_selector, &out.field_selector)?;
        }
        refuse("ListOptions", faults)?;
        if out.resource_version == "0" && out.continue_token.is_empty() {
            // Whoever takes any state is given all of it.
            out.limit = 0;
        }
        Ok(out)
    }

    fn list_faults(&self) -> FieldErrors {
        let mut faults = FieldErrors::new();
        let matching = self.resource_version_match.as_str();
        let mut forbid = |why: &str| faults.push(errors::forbidden("resourceVersionMatch", why));
        if !matching.is_empty() {
            if self.resource_version.is_empty() {
                forbid("resourceVersionMatch is forbidden unless resourceVersion is provided");
            }
            if !self.continue_token.is_empty() {
                forbid("resourceVersionMatch is forbidden when continue is provided");
            }
            if matching != "Exact" && matching != "NotOlderThan" {
                faults.push(errors::not_supported(
                    "resourceVersionMatch",
                    matching,
                    &["Exact", "NotOlderThan", ""],
                ));
            }
            if matching == "Exact" && self.resource_version == "0" {
                let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                faults.push(errors::forbidden("resourceVersionMatch", why));
            }
        }
        if self.send_initial_events.is_some() {
            faults.push(errors::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
        }
        faults
    }

    fn watch_faults(&self) -> FieldErrors {
        let mut faults = FieldErrors::new();
        let matching = self.resource_version_match.as_str();
        let mut forbid = |why: &str| faults.push(errors::forbidden("resourceVersionMatch", why));
        // A watch that names no version begins with the objects, as if it had asked for them.
        let begins = self.send_initial_events.is_none() && matches!(self.resource_version.as_str(), "" | "0");
        if begins && matching.is_empty() && !self.continue_token.is_empty() {
            forbid("resourceVersionMatch is forbidden when continue is provided");
        }
        if self.send_initial_events.is_some() && matching != "NotOlderThan" {
            forbid("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
        }
        if !matching.is_empty() {
            if self.send_initial_events.is_none() {
                forbid("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided");
            }
            if matching != "NotOlderThan" {
                faults.push(errors::not_supported("resourceVersionMatch", matching, &["NotOlderThan"]));
            }
            if !self.continue_token.is_empty() {
                let why = "resourceVersionMatch is forbidden when continue is provided";
                faults.push(errors::forbidden("resourceVersionMatch", why));
            }
        }
        faults
    }
}

/// Which verb's options are checked; its name stands in the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteVerb {
    /// POST.
    Create,
    /// PUT.
    Update,
    /// PATCH; `true` for server-side apply.
    Patch {
        /// Server-side apply.
        apply: bool,
    },
}

/// Reads and checks the options of a create, update or patch. `user_agent` names the manager if the query does not.
pub(crate) fn write_options(
    query: &Query<'_>,
    verb: WriteVerb,
    user_agent: &str,
) -> Result<WriteOptions, ApiError> {
    let manager = query.text("fieldManager");
    let dry_run = query.all("dryRun");
    let validation = query.text("fieldValidation");
    let force = query.flag("force");
    let mut faults = FieldErrors::new();
    if let WriteVerb::Patch { apply } = verb {
        if apply && manager.is_empty() {
            faults.push(errors::required("fieldManager", "is required for apply patch"));
        }
        if !apply && force.is_some() {
            faults.push(errors::forbidden("force", "may not be specified for non-apply patch"));
        }
    }
    faults.extend(validate_field_manager(manager, &errors::Path::root("fieldManager")));
    dry_run_faults(&dry_run, &mut faults);
    let field_validation = match validation {
        "Strict" => FieldValidation::Strict,
        "" | "Warn" => FieldValidation::Warn,
        "Ignore" => FieldValidation::Ignore,
        other => {
            faults.push(errors::not_supported("fieldValidation", other, &["", "Ignore", "Strict", "Warn"]));
            FieldValidation::Warn
        }
    };
    let kind = match verb {
        WriteVerb::Create => "CreateOptions",
        WriteVerb::Update => "UpdateOptions",
        WriteVerb::Patch { .. } => "PatchOptions",
    };
    refuse(kind, faults)?;
    Ok(WriteOptions {
        manager: manager_name(manager, user_agent),
        field_validation,
        dry_run: !dry_run.is_empty(),
        force: force.unwrap_or(false),
    })
}

/// What is wrong with the values of `dryRun`.
pub(crate) fn dry_run_faults(values: &[String], faults: &mut FieldErrors) {
    if values.iter().any(|value| value != "All") {
        faults.push(FieldError {
            field: "dryRun".to_owned(),
            kind: errors::ErrorKind::NotSupported,
            bad: BadValue::from(values),
            detail: "supported values: \"All\"".to_owned(),
        });
    }
}

/// What is wrong with the pair of options that name a way of cascading.
pub(crate) fn propagation_faults(orphan: Option<bool>, policy: Option<&str>, faults: &mut FieldErrors) {
    let Some(policy) = policy else { return };
    if orphan.is_some() {
        let why = "orphanDependents and deletionPropagation cannot be both set";
        faults.push(errors::invalid("propagationPolicy", policy, why));
    }
    if Propagation::parse(policy).is_none() {
        faults.push(errors::not_supported(
            "propagationPolicy",
            policy,
            &["Foreground", "Background", "Orphan", "nil"],
        ));
    }
}

/// 422 about the options of a request, if there is a fault.
pub(crate) fn refuse(kind: &str, faults: FieldErrors) -> Result<(), ApiError> {
    if faults.is_empty() { Ok(()) } else { Err(ApiError::invalid_options(kind, faults)) }
}
