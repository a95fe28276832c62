//! The options of a request once they are known to be sound, as the verbs take them.

use crate::decode::FieldValidation;

/// Options of a create, update or patch.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// Who writes, for `metadata.managedFields`; given or taken from the User-Agent.
    pub manager: String,
    /// What happens to unknown and duplicate fields.
    pub field_validation: FieldValidation,
    /// Compute the answer, store nothing.
    pub dry_run: bool,
    /// Server-side apply: take fields over from other managers.
    pub force: bool,
}

/// What happens to the objects that name the deleted one as their owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They are deleted after it.
    Background,
    /// They are deleted before it.
    Foreground,
    /// They lose the reference.
    Orphan,
}

impl Propagation {
    /// The policy of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "Background" => Self::Background,
            "Foreground" => Self::Foreground,
            "Orphan" => Self::Orphan,
            _ => return None,
        })
    }
}

/// What must hold of an object for a delete to be carried out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preconditions {
    /// Its uid.
    pub uid: Option<String>,
    /// Its resource version.
    pub resource_version: Option<String>,
}

/// Options of a delete.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    /// How long the object may live on, in seconds.
    pub grace_seconds: Option<i64>,
    /// What must hold of it.
    pub preconditions: Preconditions,
    /// What happens to its dependents; `None`: the kind's default, background.
    pub propagation: Option<Propagation>,
    /// The client wants to be told (202) when the object is still there after the answer.
    pub waits: bool,
    /// Compute the answer, store nothing.
    pub dry_run: bool,
}
