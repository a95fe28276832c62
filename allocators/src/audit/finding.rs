//! What an audit finds, and how a person is told of it.

use std::fmt;
use std::net::IpAddr;

use crate::port::PortRanges;
use crate::service_key::ServiceKey;

/// One contradiction between Services, allocations and ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// A Service has an address without an allocation. Allocating it is right.
    AddressNotAllocated {
        /// The Service.
        service: ServiceKey,
        /// Its address.
        address: IpAddr,
    },
    /// The allocation of a Service's address belongs to something else. Only a person can decide who keeps it.
    AddressOfAnother {
        /// The Service.
        service: ServiceKey,
        /// Its address.
        address: IpAddr,
        /// The other Service that has it; `None` when it is no Service.
        holder: Option<ServiceKey>,
    },
    /// No ServiceCIDR has a Service's address.
    AddressOutOfRange {
        /// The Service.
        service: ServiceKey,
        /// Its address.
        address: IpAddr,
    },
    /// A Service's cluster IP is no address.
    AddressNotValid {
        /// The Service.
        service: ServiceKey,
        /// What stands there.
        text: String,
    },
    /// The allocator took an address for a Service that is gone or does not have it. Freeing it is right.
    AddressLeaked {
        /// The address.
        address: IpAddr,
        /// The Service that the allocation names.
        parent: ServiceKey,
    },
    /// The entry of a Service's port is gone. Making it again is right.
    PortNotAllocated {
        /// The Service.
        service: ServiceKey,
        /// The port.
        port: u16,
        /// The name of the entry.
        entry: String,
    },
    /// Two Services hold a port for the same protocol, or at all where they may not share one.
    PortOfAnother {
        /// The Service that came later.
        service: ServiceKey,
        /// The port.
        port: u16,
        /// The Service that came first.
        holder: ServiceKey,
    },
    /// A Service's port is outside of the range.
    PortOutOfRange {
        /// The Service.
        service: ServiceKey,
        /// The port.
        port: u16,
        /// The ranges that there are.
        ranges: PortRanges,
    },
}

impl Finding {
    /// The reason of the Event that tells of it, by upstream's names.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::AddressNotAllocated { .. } => "ClusterIPNotAllocated",
            Self::AddressOfAnother { .. } => "ClusterIPAlreadyAllocated",
            Self::AddressOutOfRange { .. } => "ClusterIPOutOfRange",
            Self::AddressNotValid { .. } => "ClusterIPNotValid",
            Self::AddressLeaked { .. } => "IPAddressNotAllocated",
            Self::PortNotAllocated { .. } => "PortNotAllocated",
            Self::PortOfAnother { .. } => "PortAlreadyAllocated",
            Self::PortOutOfRange { .. } => "PortOutOfRange",
        }
    }

    /// The Service whose user should know; `None` when there may be none any more.
    pub fn service(&self) -> Option<&ServiceKey> {
        match self {
            Self::AddressNotAllocated { service, .. }
            | Self::AddressOfAnother { service, .. }
            | Self::AddressOutOfRange { service, .. }
            | Self::AddressNotValid { service, .. }
            | Self::PortNotAllocated { service, .. }
            | Self::PortOfAnother { service, .. }
            | Self::PortOutOfRange { service, .. } => Some(service),
            Self::AddressLeaked { .. } => None,
        }
    }
}

/// The message of the Event, which stands on the Service and so does not name it.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddressNotAllocated { address, .. } => {
                write!(f, "Cluster IP {address} is not allocated; repairing")
            }
            Self::AddressOfAnother { address, .. } => {
                write!(f, "Cluster IP {address} was assigned to somebody else; please recreate service")
            }
            Self::AddressOutOfRange { address, .. } => {
                write!(
                    f,
                    "Cluster IP {address} is not within any configured Service CIDR; please recreate service"
                )
            }
            Self::AddressNotValid { text, .. } => {
                write!(f, "Cluster IP {text:?} is not a valid IP; please recreate service")
            }
            Self::AddressLeaked { address, parent } => {
                write!(f, "IPAddress {address} names Service {parent}, which does not have it; cleaning up")
            }
            Self::PortNotAllocated { port, .. } => {
                write!(f, "Port {port} is not allocated; repairing")
            }
            Self::PortOfAnother { port, .. } => {
                write!(f, "Port {port} was assigned to multiple services; please recreate service")
            }
            Self::PortOutOfRange { port, .. } => {
                write!(f, "Port {port} is not within the port range; please recreate service")
            }
        }
    }
}
