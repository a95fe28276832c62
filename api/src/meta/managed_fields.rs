//! Managed fields, as far as a client may send them, and names of field managers.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};

use super::text;
use crate::bad_value::go_quote;
use crate::errors::{BadValue, FieldErrors, Path, invalid, too_long};

/// Most bytes of a field manager's name.
pub const FIELD_MANAGER_LENGTH: usize = 128;
const SUBRESOURCE_LENGTH: usize = 256;

/// Errors of a field manager's name.
pub fn validate_field_manager(manager: &str, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if manager.len() > FIELD_MANAGER_LENGTH {
        errors.push(too_long(path, FIELD_MANAGER_LENGTH));
    }
    for (position, c) in manager.char_indices() {
        // Go's quoting escapes exactly the characters that are not printable.
        let quoted = go_quote(&c.to_string());
        let escaped = quoted.len() > c.len_utf8() + 2 && c != '"' && c != '\\';
        if escaped {
            errors.push(invalid(
                path,
                manager,
                format!("invalid character U+{:04X} (at position {position})", u32::from(c)),
            ));
        }
    }
    errors
}

pub(super) fn validate_managed_fields(meta: &ObjectMeta, path: &Path) -> FieldErrors {
    let path = path.child("managedFields");
    meta.managed_fields
        .iter()
        .flatten()
        .enumerate()
        .flat_map(|(i, entry)| validate_managed_fields_entry(entry, &path.index(i)))
        .collect()
}

fn validate_managed_fields_entry(entry: &ManagedFieldsEntry, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let operation = text(entry.operation.as_ref());
    if operation != "Apply" && operation != "Update" {
        errors.push(invalid(
            path.child("operation"),
            BadValue::named(operation),
            "must be `Apply` or `Update`",
        ));
    }
    let fields_type = text(entry.fields_type.as_ref());
    if !fields_type.is_empty() && fields_type != "FieldsV1" {
        errors.push(invalid(path.child("fieldsType"), fields_type, "must be `FieldsV1`"));
    }
    let manager = text(entry.manager.as_ref());
    errors.extend(validate_field_manager(manager, &path.child("manager")));
    if text(entry.subresource.as_ref()).len() > SUBRESOURCE_LENGTH {
        errors.push(too_long(path.child("subresource"), SUBRESOURCE_LENGTH));
    }
    errors
}
