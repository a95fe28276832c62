//! An object of the ledger: an IPAddress or a NodePort, reduced to what decisions are made on.

use std::net::IpAddr;

use k8s_openapi::api::networking::v1::IPAddress;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use service_allocators::ServiceKey;
use service_allocators::pools::Seconds;
use service_api::crds::nodeport::{NodePortSpec, port_of};
use service_api::crds::{self, nodeport::PortParent};

use crate::keys;
use crate::report::trigger::Event;
use crate::text::Uid;

/// The annotation with the uid of the Service that an entry was made for. Names come back, uids do not: an entry whose
/// uid is no living Service's can be freed, whoever decides that and however late.
pub const SERVICE_UID: &str = "service-control-plane.io/service-uid";
/// The annotation that says when an entry that was there was claimed again; it makes a new version of the entry.
pub const LAST_CLAIM: &str = "service-control-plane.io/claimed-at";
/// The finalizer of IPAddresses that are kept while a Service has them.
pub const IN_USE: &str = "service-control-plane.io/in-use";
/// The label of NodePorts that are kept by controllers.
pub const MANAGED_BY: &str = "service-control-plane.io/managed-by";
/// Its value.
pub const MANAGER: &str = "service-controller-manager";

/// Which kind of object an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EntryKind {
    /// IPAddress.
    Address,
    /// NodePort.
    Port,
}

/// What became of an entry.
#[derive(Debug, Clone, Copy)]
pub(super) enum Became {
    There,
    Another,
    Gone,
}

impl EntryKind {
    /// The event of an entry of this kind.
    pub(super) const fn event(self, became: Became) -> Event {
        match (self, became) {
            (Self::Address, Became::There) => Event::AddressAdded,
            (Self::Address, Became::Another) => Event::AddressChanged,
            (Self::Address, Became::Gone) => Event::AddressDeleted,
            (Self::Port, Became::There) => Event::NodePortAdded,
            (Self::Port, Became::Another) => Event::NodePortChanged,
            (Self::Port, Became::Gone) => Event::NodePortDeleted,
        }
    }
}

/// One object of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its kind.
    pub kind: EntryKind,
    /// Its name, which is the value.
    pub name: Box<str>,
    /// Its uid; absent for one of which no answer came.
    pub uid: Uid,
    /// Its version; 0 for one of which no answer came.
    pub version: u64,
    /// The Service that has it; `None` when it is something else.
    pub parent: Option<ServiceKey>,
    /// The uid of that Service, on entries that our controllers made.
    pub parent_uid: Option<Uid>,
    /// Whether an allocator made it, ours or an API server's, and not a user.
    pub managed: bool,
    /// When it was made.
    pub created: Seconds,
    /// Whether its deletion was asked for.
    pub going: bool,
    /// Whether it stays until the finalizer [`IN_USE`] is taken off.
    pub guarded: bool,
    /// What a NodePort says beyond its holder.
    pub port: Option<Box<NodePortSpec>>,
}

impl Entry {
    /// The entry of an IPAddress.
    pub fn of_address(object: &IPAddress) -> Self {
        let parent = &object.spec.parent_ref;
        let is_service =
            parent.group.as_deref().unwrap_or_default().is_empty() && parent.resource == "services";
        let key = || ServiceKey::new(parent.namespace.clone().unwrap_or_default(), &*parent.name);
        let labels = object.metadata.labels.as_ref();
        let by = labels.and_then(|labels| labels.get(keys::IPADDRESS_MANAGED_BY));
        Self {
            parent: is_service.then(key),
            managed: by.is_some_and(|by| by == keys::IPADDRESS_MANAGER),
            ..Self::of(EntryKind::Address, &object.metadata)
        }
    }

    /// The entry of a NodePort.
    pub fn of_port(object: &crds::NodePort) -> Self {
        let PortParent { namespace, name, .. } = &object.spec.parent_ref;
        let key = || ServiceKey::new(namespace.as_str(), name.as_str());
        let labels = object.metadata.labels.as_ref();
        Self {
            parent: object.spec.parent_ref.is_service().then(key),
            managed: labels.and_then(|labels| labels.get(MANAGED_BY)).is_some_and(|by| by == MANAGER),
            port: Some(Box::new(object.spec.clone())),
            ..Self::of(EntryKind::Port, &object.metadata)
        }
    }

    fn of<'a>(kind: EntryKind, meta: &'a ObjectMeta) -> Self {
        let text = |field: &'a Option<String>| field.as_deref().unwrap_or_default();
        let annotations = meta.annotations.as_ref();
        Self {
            kind,
            name: text(&meta.name).into(),
            uid: text(&meta.uid).into(),
            version: version_of(meta),
            parent: None,
            parent_uid: annotations.and_then(|all| all.get(SERVICE_UID)).map(|uid| uid.as_str().into()),
            managed: false,
            created: meta.creation_timestamp.as_ref().map(|time| time.0.as_second()).unwrap_or_default(),
            going: meta.deletion_timestamp.is_some(),
            guarded: meta.finalizers.iter().flatten().any(|name| name == IN_USE),
            port: None,
        }
    }

    /// The address, of an IPAddress whose name is one.
    pub fn address(&self) -> Option<IpAddr> {
        (self.kind == EntryKind::Address).then(|| self.name.parse().ok()).flatten()
    }

    /// The port, of a NodePort whose name is one.
    pub fn number(&self) -> Option<u16> {
        (self.kind == EntryKind::Port).then(|| port_of(&self.name)).flatten()
    }
}

/// The version of an object as a number; the largest one for what is none, so that it is never taken for stale.
pub(super) fn version_of(meta: &ObjectMeta) -> u64 {
    version_in(meta.resource_version.as_deref().unwrap_or_default())
}

/// The same of a text.
pub(super) fn version_in(text: &str) -> u64 {
    text.parse().unwrap_or(u64::MAX)
}
