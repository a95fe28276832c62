//! The reasons for which a pod is or is not an endpoint: a fixed list, one for each pod.
//!
//! Owns the names and what each means; `docs/explain.md` has them all. Which one holds is said by `crate::verdict`.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::verdict::LeftOut;

/// Why a pod is an endpoint or is not, or is nearly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
pub enum Reason {
    /// Its condition Ready is True and it is not being deleted: it is sent to.
    Ready,
    /// It is not ready, or is being deleted, and the Service has `publishNotReadyAddresses`: it is sent to.
    Published,
    /// A condition of its own is not True, such as ContainersReady: it is not sent to.
    ConditionNotTrue,
    /// One of its readiness gates is not True: it is not sent to.
    ReadinessGate,
    /// It is being deleted: it is not sent to, unless no endpoint is ready and it still serves.
    Terminating,
    /// Its phase is Succeeded or Failed.
    TerminalPhase,
    /// It has no address yet.
    NoAddress,
    /// It has an address, and none of a family of the Service.
    NoAddressOfFamily,
    /// It is bound to no node yet.
    NoNode,
    /// The node that it is bound to does not exist.
    NodeUnknown,
    /// No container of it names a port of the Service: it is an endpoint without that port.
    NamedPortMissing,
    /// There are more addresses than the object may have: it is not in `Endpoints`, or not in the mirror of one.
    OverCapacity,
    /// All labels but one are as the selector wants them.
    OneLabelOff,
    /// Its labels are as the selector wants them, in another namespace.
    OtherNamespace,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 14] = [
        Self::Ready,
        Self::Published,
        Self::ConditionNotTrue,
        Self::ReadinessGate,
        Self::Terminating,
        Self::TerminalPhase,
        Self::NoAddress,
        Self::NoAddressOfFamily,
        Self::NoNode,
        Self::NodeUnknown,
        Self::NamedPortMissing,
        Self::OverCapacity,
        Self::OneLabelOff,
        Self::OtherNamespace,
    ];
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl From<LeftOut> for Reason {
    fn from(why: LeftOut) -> Self {
        match why {
            LeftOut::TerminalPhase => Self::TerminalPhase,
            LeftOut::NoAddress => Self::NoAddress,
            LeftOut::NoNode => Self::NoNode,
            LeftOut::NodeUnknown => Self::NodeUnknown,
            LeftOut::NoAddressOfFamily => Self::NoAddressOfFamily,
            LeftOut::Terminating => Self::Terminating,
            LeftOut::NamedPortMissing => Self::NamedPortMissing,
        }
    }
}
