//! The addresses that are allocated for Services, as `IPAddress` objects say (KEP-1880).

use std::net::IpAddr;

use super::Index;
use crate::cache::label;
use crate::keys;
use crate::objects::IpAddressWire;
use crate::text::Text;

/// The Service that an address belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Parent {
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
}

impl Index {
    /// An `IPAddress` as it is now; only those of Services count. Gives the address if that came or went.
    pub fn apply_address(&mut self, wire: &IpAddressWire) -> Option<IpAddr> {
        let name = self.shared.texts.text(&wire.metadata.name);
        self.listings.addresses.see("", &name);
        let ip: IpAddr = wire.metadata.name.parse().ok()?;
        let family = if ip.is_ipv6() { "IPv6" } else { "IPv4" };
        let counts = label(&wire.metadata, keys::IPADDRESS_MANAGED_BY) == Some(keys::IPADDRESS_MANAGER)
            && label(&wire.metadata, keys::IP_FAMILY) == Some(family);
        if !counts {
            return self.addresses.remove(&ip).map(|_| ip);
        }
        let parent = &wire.spec.parent_ref;
        let (namespace, name) = self.names(&parent.namespace, &parent.name);
        self.addresses.insert(ip, Parent { namespace, name }).is_none().then_some(ip)
    }

    /// An `IPAddress` that is gone. Gives the address if it counted.
    pub fn delete_address(&mut self, name: &str) -> Option<IpAddr> {
        let ip: IpAddr = name.parse().ok()?;
        self.addresses.remove(&ip).map(|_| ip)
    }
}
