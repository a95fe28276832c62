//! Arithmetic on service ranges of both IP families, in `u128`.
//!
//! Owns which addresses of a CIDR may be given to a Service. It never knows which of them are taken.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::IpNet;
pub use service_api::address::Family;

/// The shortest prefix an IPv6 service range may have.
pub const SHORTEST_V6_PREFIX: u8 = 64;

/// The other family.
#[must_use]
pub fn other(family: Family) -> Family {
    match family {
        Family::V4 => Family::V6,
        Family::V6 => Family::V4,
    }
}

/// The address of `family` with this number; `None` when the number is too large for it.
pub fn address(family: Family, number: u128) -> Option<IpAddr> {
    match family {
        Family::V4 => u32::try_from(number).ok().map(|n| IpAddr::V4(Ipv4Addr::from_bits(n))),
        Family::V6 => Some(IpAddr::V6(Ipv6Addr::from_bits(number))),
    }
}

/// An address as a number; IPv4 addresses are the numbers below 2^32.
pub fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(a) => u128::from(a.to_bits()),
        IpAddr::V6(a) => a.to_bits(),
    }
}

/// Why a CIDR can not be a service range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PrefixError {
    /// Not a CIDR at all.
    #[error("{0:?} is no CIDR, such as 10.96.0.0/12 or fd00:10:96::/112")]
    Malformed(String),
    /// Bits are set beyond the prefix length.
    #[error("{given} has bits set beyond its prefix length, did you mean {network}?")]
    HostBits {
        /// The CIDR as it was given.
        given: IpNet,
        /// The same prefix without the surplus bits.
        network: IpNet,
    },
    /// An IPv6 prefix that is too short.
    #[error("shortest allowed prefix length for service CIDR is {SHORTEST_V6_PREFIX}, got {0}")]
    TooShort(u8),
}

/// A CIDR that Services get addresses from.
///
/// The network address is never given away, nor is the broadcast address of an IPv4 range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServicePrefix {
    net: IpNet,
}

impl ServicePrefix {
    /// Takes a CIDR without host bits; IPv6 prefixes must be [`SHORTEST_V6_PREFIX`] bits or longer.
    pub fn new(net: IpNet) -> Result<Self, PrefixError> {
        if net != net.trunc() {
            return Err(PrefixError::HostBits { given: net, network: net.trunc() });
        }
        if net.addr().is_ipv6() && net.prefix_len() < SHORTEST_V6_PREFIX {
            return Err(PrefixError::TooShort(net.prefix_len()));
        }
        Ok(Self { net })
    }

    /// The IP family.
    pub fn family(self) -> Family {
        Family::of(self.net.addr())
    }

    /// The CIDR.
    pub fn net(self) -> IpNet {
        self.net
    }

    /// The network address, which is never given away.
    pub fn base(self) -> IpAddr {
        self.net.network()
    }

    /// The number of all addresses, those included that are never given away.
    pub fn size(self) -> u128 {
        1 << (self.net.max_prefix_len() - self.net.prefix_len()).min(127)
    }

    /// The number of addresses that may be given away; 0 for the tiniest ranges.
    pub fn usable(self) -> u64 {
        let lost = match self.family() {
            Family::V4 => 2,
            Family::V6 => 1,
        };
        // 2^64 - 1 at most, as the prefix has 64 bits or more.
        u64::try_from(self.size().saturating_sub(lost)).unwrap_or(u64::MAX)
    }

    /// The first address that may be given away.
    pub fn first(self) -> Option<IpAddr> {
        self.address(0)
    }

    /// The last address that may be given away.
    pub fn last(self) -> Option<IpAddr> {
        self.address(self.usable().checked_sub(1)?)
    }

    /// The usable address number `offset`, counted from 0.
    pub fn address(self, offset: u64) -> Option<IpAddr> {
        (offset < self.usable()).then_some(())?;
        address(self.family(), self.first_number() + u128::from(offset))
    }

    /// The number of `address` among the usable ones; `None` when it is none of them.
    pub fn offset(self, address: IpAddr) -> Option<u64> {
        (Family::of(address) == self.family()).then_some(())?;
        let offset = u64::try_from(number(address).checked_sub(self.first_number())?).ok()?;
        (offset < self.usable()).then_some(offset)
    }

    /// Whether the CIDR covers `address`, usable or not.
    pub fn covers(self, address: IpAddr) -> bool {
        self.net.contains(&address)
    }

    /// The first usable address as a number (the one after the network address).
    fn first_number(self) -> u128 {
        number(self.net.network()).saturating_add(1)
    }
}

impl FromStr for ServicePrefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        Self::new(text.parse().map_err(|_| PrefixError::Malformed(text.to_owned()))?)
    }
}

impl fmt::Display for ServicePrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.net.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("10.96.0.0/12", 1 << 20, "10.96.0.1", "10.111.255.254")]
    #[case("10.20.0.0/29", 8, "10.20.0.1", "10.20.0.6")]
    #[case("10.20.0.4/30", 4, "10.20.0.5", "10.20.0.6")]
    #[case("0.0.0.0/0", 1 << 32, "0.0.0.1", "255.255.255.254")]
    #[case("fd00:10:96::/112", 1 << 16, "fd00:10:96::1", "fd00:10:96::ffff")]
    #[case("fd00:20::/125", 8, "fd00:20::1", "fd00:20::7")]
    #[case("fd00::/64", 1 << 64, "fd00::1", "fd00::ffff:ffff:ffff:ffff")]
    #[case("ffff:ffff:ffff:ffff::/64", 1 << 64, "ffff:ffff:ffff:ffff::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")]
    fn first_and_last(#[case] cidr: &str, #[case] size: u128, #[case] first: IpAddr, #[case] last: IpAddr) {
        let prefix: ServicePrefix = cidr.parse().unwrap();
        assert_eq!(prefix.size(), size);
        assert_eq!(prefix.first(), Some(first));
        assert_eq!(prefix.last(), Some(last));
        assert_eq!(prefix.offset(first), Some(0));
        assert_eq!(prefix.offset(last), Some(prefix.usable() - 1));
        assert_eq!(prefix.address(prefix.usable()), None);
        assert_eq!(prefix.offset(prefix.base()), None);
        assert_eq!(prefix.to_string(), cidr);
    }

    #[rstest]
    #[case("10.0.0.0/31", 0)]
    #[case("10.0.0.7/32", 0)]
    #[case("255.255.255.255/32", 0)]
    #[case("10.0.0.0/30", 2)]
    #[case("fd00::/128", 0)]
    #[case("fd00::/127", 1)]
    #[case("fd00::/126", 3)]
    #[case("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128", 0)]
    #[case("fd00::/64", u64::MAX)]
    fn sizes_of_tiny_and_huge_ranges(#[case] cidr: &str, #[case] usable: u64) {
        let prefix: ServicePrefix = cidr.parse().unwrap();
        assert_eq!(prefix.usable(), usable);
        assert_eq!(prefix.first().is_none(), usable == 0);
        assert_eq!(prefix.last().is_none(), usable == 0);
    }

    #[rstest]
    #[case("10.0.0.0/8", "11.0.0.0")]
    #[case("10.0.0.0/8", "10.255.255.255")]
    #[case("10.0.0.0/8", "fd00::1")]
    #[case("fd00::/112", "10.0.0.1")]
    #[case("fd00::/112", "fd00::1:0")]
    fn strangers_have_no_offset(#[case] cidr: ServicePrefix, #[case] address: IpAddr) {
        assert_eq!(cidr.offset(address), None);
    }

    #[rstest]
    #[case("10.96.0.0/33", "\"10.96.0.0/33\" is no CIDR, such as 10.96.0.0/12 or fd00:10:96::/112")]
    #[case("10.96.0.0", "\"10.96.0.0\" is no CIDR, such as 10.96.0.0/12 or fd00:10:96::/112")]
    #[case("10.96.0.1/24", "10.96.0.1/24 has bits set beyond its prefix length, did you mean 10.96.0.0/24?")]
    #[case("fd00::/63", "shortest allowed prefix length for service CIDR is 64, got 63")]
    #[case("fd00::/48", "shortest allowed prefix length for service CIDR is 64, got 48")]
    fn absurd_prefixes(#[case] cidr: &str, #[case] message: &str) {
        assert_eq!(cidr.parse::<ServicePrefix>().unwrap_err().to_string(), message);
    }
}
