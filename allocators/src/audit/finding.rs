//! What an audit finds, and how a person is told of it.

use std::fmt;
use std::net::IpAddr;

use crate::port::PortRanges;
use crate::prefix::ServicePrefix;
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
    /// No ServiceCIDR gives a Service's address.
    AddressOutOfRange {
        /// The Service.
        service: ServiceKey,
        /// Its address.
        address: IpAddr,
        /// The range that covers it and gives it to nobody: it is its network or broadcast address.
        edge_of: Option<ServicePrefix>,
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

    /// What whoever puts things right does about it, as upstream says it; `None` where only a person can decide.
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::AddressNotAllocated { .. } | Self::PortNotAllocated { .. } => Some("repairing"),
            Self::AddressLeaked { .. } => Some("cleaning up"),
            _ => None,
        }
    }

    /// What is told where it is put right at once.
    pub fn told_repairing(&self) -> String {
        match self.remedy() {
            Some(remedy) => format!("{self}; {remedy}"),
            None => self.to_string(),
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

/// The message of the Event, which stands on the Service and so does not name it; [`Finding::remedy`] is what it goes on with
/// where something is done about it.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddressNotAllocated { address, .. } => {
                write!(f, "Cluster IP {address} is not allocated")
            }
            Self::AddressOfAnother { address, holder: Some(holder), .. } => {
                write!(f, "Cluster IP {address} was assigned to Service {holder}; please recreate service")
            }
            Self::AddressOfAnother { address, holder: None, .. } => write!(
                f,
                "Cluster IP {address} was assigned to what is no Service, see spec.parentRef of the IPAddress; please recreate \
                 service"
            ),
            Self::AddressOutOfRange { address, edge_of: None, .. } => write!(
                f,
                "Cluster IP {address} is not within any configured Service CIDR; please recreate service, or create a ServiceCIDR \
                 that has it"
            ),
            Self::AddressOutOfRange { address, edge_of: Some(range), .. } => write!(
                f,
                "Cluster IP {address} is not within any configured Service CIDR: it is the network or broadcast address of \
                 {range}, which no Service gets; please recreate service"
            ),
            Self::AddressNotValid { text, .. } => {
                write!(f, "Cluster IP {text:?} is not a valid IP; please recreate service")
            }
            Self::AddressLeaked { address, parent } => {
                write!(f, "IPAddress {address} names Service {parent}, which does not have it")
            }
            Self::PortNotAllocated { port, .. } => {
                write!(f, "Port {port} is not allocated")
            }
            Self::PortOfAnother { port, holder, .. } => write!(
                f,
                "Port {port} was assigned to multiple services, {holder} had it first; please recreate service"
            ),
            Self::PortOutOfRange { port, ranges, .. } => write!(
                f,
                "Port {port} is not within the port range; please recreate service, or create a NodePortRange that has it (there \
                 are {ranges})"
            ),
        }
    }
}
