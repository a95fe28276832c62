//! One row of the table of kinds: how a resource is addressed, discovered, shown and which rules it has.

use std::sync::Arc;

use serde_json::Value;
use service_api::errors::FieldErrors;
use service_api::status;

use super::error::ApiError;
use super::strategy::{Strategy, Subresource};
use super::table::Table;

/// Do objects of a kind live in namespaces?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Below `/namespaces/{namespace}/`.
    Namespaced,
    /// At the root of the group version.
    Cluster,
}

/// What may be done with a resource; the order is that of discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// POST.
    Create,
    /// DELETE of one object.
    Delete,
    /// DELETE of a collection.
    DeleteCollection,
    /// GET of one object.
    Get,
    /// GET of a collection.
    List,
    /// PATCH.
    Patch,
    /// PUT.
    Update,
    /// GET of a collection or object as a stream of events.
    Watch,
}

impl Verb {
    /// Everything a stored resource can.
    pub const ALL: &[Self] = &[
        Self::Create,
        Self::Delete,
        Self::DeleteCollection,
        Self::Get,
        Self::List,
        Self::Patch,
        Self::Update,
        Self::Watch,
    ];

    /// Everything but deleting a collection (namespaces, services before v1.23).
    pub const NO_DELETE_COLLECTION: &[Self] =
        &[Self::Create, Self::Delete, Self::Get, Self::List, Self::Patch, Self::Update, Self::Watch];

    /// The name in discovery.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Get => "get",
            Self::List => "list",
            Self::Patch => "patch",
            Self::Update => "update",
            Self::Watch => "watch",
        }
    }
}

/// Another form in which stored objects are shown and written: a subresource with a kind of its own (`Scale`), or a
/// second API for the same objects (events).
#[derive(Clone, Copy, Debug)]
pub struct Representation {
    /// The form's group, version and kind.
    pub kind: (&'static str, &'static str, &'static str),
    /// A stored object in this form.
    pub show: fn(&Value) -> Value,
    /// The stored object that an object in this form stands for; the first argument is what is stored now, if anything.
    pub take: fn(Option<&Value>, Value) -> Value,
}

/// One subresource of a kind.
#[derive(Clone, Copy, Debug)]
pub struct Sub {
    /// The path segment after the object's name.
    pub name: &'static str,
    /// Which part of the object it is.
    pub part: Subresource,
    /// Group, version and kind of its body where that is not the object itself (`Scale`, `Binding`).
    pub kind: Option<(&'static str, &'static str, &'static str)>,
    /// What may be done with it.
    pub verbs: &'static [Verb],
    /// How the object is shown and written here, if not as itself.
    pub form: Option<&'static Representation>,
}

impl Sub {
    /// `…/status` of a kind.
    pub const STATUS: Self = Self {
        name: "status",
        part: Subresource::Status,
        kind: None,
        verbs: &[Verb::Get, Verb::Patch, Verb::Update],
        form: None,
    };
}

/// A field that a field selector may name, beside `metadata.name` and `metadata.namespace`, which all kinds have.
#[derive(Clone, Copy)]
pub struct SelectableField {
    /// Its name in the selector, such as `spec.nodeName`.
    pub label: &'static str,
    /// Its value; a missing field has the value of Go's zero (`""`, `"false"`, `"0"`).
    pub value: fn(&Value) -> String,
}

/// A question that is posted and answered and that nothing stays of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Review {
    /// Whose token is this?
    Token,
    /// Who am I?
    SelfSubject,
    /// May I do this?
    SelfSubjectAccess,
    /// May somebody do this?
    SubjectAccess,
    /// May somebody do this in one namespace?
    LocalSubjectAccess,
    /// What may I do?
    SelfSubjectRules,
}

/// One kind.
pub struct ResourceInfo {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Version, such as `v1`.
    pub version: &'static str,
    /// Kind of one object, such as `Service`.
    pub kind: &'static str,
    /// Path segment, such as `services`.
    pub resource: &'static str,
    /// Singular in discovery, such as `service`.
    pub singular: &'static str,
    /// Short names for kubectl.
    pub short_names: &'static [&'static str],
    /// Categories for kubectl (`all`).
    pub categories: &'static [&'static str],
    /// Namespaced or not.
    pub scope: Scope,
    /// What may be done with it.
    pub verbs: &'static [Verb],
    /// Its subresources.
    pub subresources: &'static [Sub],
    /// What field selectors may name.
    pub fields: &'static [SelectableField],
    /// Its table.
    pub table: &'static Table,
    /// Its rules.
    pub strategy: Arc<dyn Strategy>,
    /// Group and path segment of the resource whose objects these are, and how they are shown here; `None` for a
    /// resource with objects of its own.
    pub view_of: Option<(&'static str, &'static str, &'static Representation)>,
    /// The question that a create asks; `None` for a resource with objects.
    pub review: Option<Review>,
}

impl ResourceInfo {
    /// `v1` or `discovery.k8s.io/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// `services` or `ipaddresses.networking.k8s.io`, as error messages name a resource.
    pub fn qualified_resource(&self) -> String {
        qualified(self.resource, self.group)
    }

    /// Is it below `/namespaces/{namespace}/`?
    pub fn namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    /// The subresource of that path segment.
    pub fn subresource(&self, name: &str) -> Option<&'static Sub> {
        self.subresources.iter().find(|sub| sub.name == name)
    }
}

fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}

/// Errors that name a kind.
impl ApiError {
    /// 404: the object does not exist.
    pub fn not_found(info: &ResourceInfo, name: &str) -> Self {
        status::not_found(info.group, info.resource, name).into()
    }

    /// 409: an object of the name exists.
    pub fn already_exists(info: &ResourceInfo, name: &str) -> Self {
        status::already_exists(info.group, info.resource, name).into()
    }

    /// 409: the object is another or newer one than the request was made for.
    pub fn conflict(info: &ResourceInfo, name: &str, why: &str) -> Self {
        status::conflict(info.group, info.resource, name, why).into()
    }

    /// 409 as above, for preconditions of a delete, where upstream names the kind in place of the resource.
    pub fn precondition(info: &ResourceInfo, name: &str, why: &str) -> Self {
        status::conflict(info.group, info.kind, name, why).into()
    }

    /// 403: a rule of the server forbids it.
    pub fn forbidden(info: &ResourceInfo, name: &str, why: &str) -> Self {
        status::forbidden(info.group, info.resource, name, why).into()
    }

    /// 422: the object has faults.
    pub fn invalid(info: &ResourceInfo, name: &str, errors: impl Into<FieldErrors>) -> Self {
        status::invalid(info.group, info.kind, name, errors).into()
    }
}
