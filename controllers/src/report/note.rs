//! What a person should be told on an object, before it is written as an Event.

use crate::cache::Service;
use crate::controller::Controller;
use crate::text::{Text, Uid};

/// Something a person should be told on an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Note {
    /// Kind of the object.
    pub kind: &'static str,
    /// API version of the object.
    pub api_version: &'static str,
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// Uid.
    pub uid: Uid,
    /// Whether it needs attention.
    pub warning: bool,
    /// A stable word for what happened.
    pub reason: &'static str,
    /// What happened, with numbers.
    pub message: String,
    /// Who tells it.
    pub controller: Controller,
}

impl Note {
    /// A warning on a Service.
    pub(crate) fn on(
        service: &Service,
        controller: Controller,
        reason: &'static str,
        message: String,
    ) -> Self {
        Self {
            kind: "Service",
            api_version: "v1",
            namespace: service.namespace.clone(),
            name: service.name.clone(),
            uid: service.uid.clone(),
            warning: true,
            reason,
            message,
            controller,
        }
    }
}
