//! Whether a pod is an endpoint of a Service, and why not: the one decision that the plans of slices and of `Endpoints`
//! make, and that explanations show.
//!
//! Pure. Owns the list of reasons for which a selected pod is left out; that list is complete. Never which pods a Service
//! selects and never where an endpoint is written.

use crate::cache::{AddressType, Pod, Service};

/// Why a pod that a Service selects is no endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LeftOut {
    /// Its phase is Succeeded or Failed.
    TerminalPhase,
    /// It has no address yet, or none any more.
    NoAddress,
    /// It is bound to no node.
    NoNode,
    /// The node that it is bound to does not exist.
    NodeUnknown,
    /// It has addresses, and none of the family.
    NoAddressOfFamily,
    /// It is being deleted, and `Endpoints` have no such addresses.
    Terminating,
    /// It has none of the Service's ports, and `Endpoints` have no address without a port.
    NamedPortMissing,
}

impl LeftOut {
    /// Those for which a pod is in no slice.
    pub const OF_SLICES: [Self; 5] =
        [Self::TerminalPhase, Self::NoAddress, Self::NoAddressOfFamily, Self::NoNode, Self::NodeUnknown];

    /// What it is called, in labels of metrics and in explanations.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TerminalPhase => "TerminalPhase",
            Self::NoAddress => "NoAddress",
            Self::NoNode => "NoNode",
            Self::NodeUnknown => "NodeUnknown",
            Self::NoAddressOfFamily => "NoAddressOfFamily",
            Self::Terminating => "Terminating",
            Self::NamedPortMissing => "NamedPortMissing",
        }
    }
}

/// What an endpoint's conditions say (KEP-1672).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Conditions {
    /// May be sent to: never true of a terminating pod, unless the Service publishes pods whatever they say.
    pub ready: bool,
    /// The pod's readiness alone.
    pub serving: bool,
    /// The pod is being deleted.
    pub terminating: bool,
}

/// What a pod is in the slices of one family; `node_exists` is of the node that it is bound to.
///
/// # Errors
/// Why it is no endpoint there.
pub fn in_slices(
    service: &Service,
    pod: &Pod,
    node_exists: bool,
    family: AddressType,
) -> Result<Conditions, LeftOut> {
    can_serve(service, pod, node_exists)?;
    if !pod.ips.iter().any(|ip| family.holds(ip)) {
        return Err(LeftOut::NoAddressOfFamily);
    }
    Ok(Conditions {
        ready: service.publish_not_ready || (pod.ready && !pod.terminating),
        serving: pod.ready,
        terminating: pod.terminating,
    })
}

/// Why a pod is in no slice of a Service, of any family; none if it is in some.
#[must_use]
pub fn left_out(service: &Service, pod: &Pod, node_exists: bool) -> Option<LeftOut> {
    let mut why = None;
    for family in &service.families {
        why = Some(in_slices(service, pod, node_exists, *family).err()?);
    }
    why
}

/// Whether a pod stands in the `Endpoints` of a Service as ready; `has_ports` says whether it has one of the Service's
/// ports at all. Only the Service's first family counts.
///
/// # Errors
/// Why it is not in them.
pub fn in_endpoints(
    service: &Service,
    pod: &Pod,
    node_exists: bool,
    has_ports: bool,
) -> Result<bool, LeftOut> {
    can_serve(service, pod, node_exists)?;
    if pod.terminating && !service.publish_not_ready {
        return Err(LeftOut::Terminating);
    }
    if !pod.ips.iter().any(|ip| endpoints_family(service).holds(ip)) {
        return Err(LeftOut::NoAddressOfFamily);
    }
    let needs_no_port = service.ports.is_empty() && service.headless;
    if !has_ports && !needs_no_port {
        return Err(LeftOut::NamedPortMissing);
    }
    Ok(service.publish_not_ready || pod.ready)
}

/// The one family of a Service's `Endpoints`.
#[must_use]
pub fn endpoints_family(service: &Service) -> AddressType {
    service.families.first().copied().unwrap_or(AddressType::IPv4)
}

/// What holds for every family.
fn can_serve(service: &Service, pod: &Pod, node_exists: bool) -> Result<(), LeftOut> {
    match &pod.node {
        _ if pod.finished => Err(LeftOut::TerminalPhase),
        _ if pod.ips.is_empty() => Err(LeftOut::NoAddress),
        _ if service.publish_not_ready || node_exists => Ok(()),
        Some(_) => Err(LeftOut::NodeUnknown),
        None => Err(LeftOut::NoNode),
    }
}
