//! The service CIDRs that are given on the command line; node ports are read by the allocators' own type.

use std::{fmt, str::FromStr};

use ipnet::IpNet;

/// IPv6 ranges must be at least this long, as in kube-apiserver: an allocator counts with 64 bits.
const SHORTEST_IPV6_PREFIX: u8 = 64;

/// Length of the prefix `::ffff:0:0/96`, below which IPv4 addresses are mapped.
const MAPPED_PREFIX: u8 = 96;

/// A range that cannot be served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// No CIDR.
    #[error("{0:?} is no CIDR such as 10.96.0.0/12")]
    NoCidr(String),
    /// An address inside the range instead of its first.
    #[error("{0} has host bits set: the range that holds it is {1}")]
    HostBits(IpNet, IpNet),
    /// IPv4 addresses in the spelling of IPv6: no client would send to them.
    #[error("{0} holds IPv4 addresses mapped into IPv6: write the range in IPv4, without ::ffff:")]
    Mapped(IpNet),
    /// Too large.
    #[error("{0} is too large: an IPv6 range must be /{SHORTEST_IPV6_PREFIX} or longer")]
    TooLarge(IpNet),
    /// No usable address.
    #[error("{0} is too small: it has no address for a Service")]
    TooSmall(IpNet),
    /// More than a dual stack.
    #[error("{0} ranges are given: it must be one, or one of each IP family")]
    Count(usize),
    /// Two of one family.
    #[error("{0} and {1} are of one IP family: two ranges must be one of each")]
    SameFamily(IpNet, IpNet),
}

/// The ranges of the first ServiceCIDR: one, or one of each family; the first is the primary one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceRanges(Vec<IpNet>);

impl ServiceRanges {
    /// The ranges, primary first.
    pub fn as_slice(&self) -> &[IpNet] {
        &self.0
    }
}

impl FromStr for ServiceRanges {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, RangeError> {
        let ranges = text.split(',').map(|part| cidr(part.trim())).collect::<Result<Vec<_>, _>>()?;
        match ranges.as_slice() {
            [first, second] if first.addr().is_ipv4() == second.addr().is_ipv4() => {
                Err(RangeError::SameFamily(*first, *second))
            }
            [_] | [_, _] => Ok(Self(ranges)),
            _ => Err(RangeError::Count(ranges.len())),
        }
    }
}

impl fmt::Display for ServiceRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.0.iter().map(IpNet::to_string).collect();
        f.write_str(&parts.join(","))
    }
}

fn cidr(text: &str) -> Result<IpNet, RangeError> {
    let range: IpNet = text.parse().map_err(|_| RangeError::NoCidr(text.to_owned()))?;
    if range.addr() != range.network() {
        return Err(RangeError::HostBits(range, range.trunc()));
    }
    if let IpNet::V6(v6) = &range
        && v6.addr().to_ipv4_mapped().is_some()
        && v6.prefix_len() >= MAPPED_PREFIX
    {
        return Err(RangeError::Mapped(range));
    }
    if range.addr().is_ipv6() && range.prefix_len() < SHORTEST_IPV6_PREFIX {
        return Err(RangeError::TooLarge(range));
    }
    // Without the network address, and in IPv4 the broadcast address, something must be left.
    let shortest_useless = if range.addr().is_ipv4() { 31 } else { 128 };
    if range.prefix_len() >= shortest_useless {
        return Err(RangeError::TooSmall(range));
    }
    Ok(range)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("10.96.0.0/12")]
    #[case("10.96.0.0/30")]
    #[case("fd00:10:96::/112")]
    #[case("fd00:10:96::/64")]
    #[case("fd00::/127")]
    #[case("10.96.0.0/12,fd00:10:96::/112")]
    #[case("fd00:10:96::/112,10.96.0.0/12")]
    fn ranges(#[case] text: &str) {
        assert_eq!(text.parse::<ServiceRanges>().unwrap().to_string(), text);
    }

    #[rstest]
    #[case("10.96.0.0/33", "\"10.96.0.0/33\" is no CIDR such as 10.96.0.0/12")]
    #[case("10.96.0.0", "\"10.96.0.0\" is no CIDR such as 10.96.0.0/12")]
    #[case("", "\"\" is no CIDR such as 10.96.0.0/12")]
    #[case("10.96.0.0/12,", "\"\" is no CIDR such as 10.96.0.0/12")]
    #[case("10.97.0.0/12", "10.97.0.0/12 has host bits set: the range that holds it is 10.96.0.0/12")]
    #[case("fd00::/48", "fd00::/48 is too large: an IPv6 range must be /64 or longer")]
    #[case(
        "::ffff:10.0.0.0/120",
        "::ffff:10.0.0.0/120 holds IPv4 addresses mapped into IPv6: write the range in IPv4, without ::ffff:"
    )]
    #[case("10.96.0.0/31", "10.96.0.0/31 is too small: it has no address for a Service")]
    #[case("10.96.0.1/32", "10.96.0.1/32 is too small: it has no address for a Service")]
    #[case("fd00::1/128", "fd00::1/128 is too small: it has no address for a Service")]
    #[case(
        "10.0.0.0/16,10.1.0.0/16",
        "10.0.0.0/16 and 10.1.0.0/16 are of one IP family: two ranges must be one of each"
    )]
    #[case("10.0.0.0/16,fd00::/64,fd01::/64", "3 ranges are given: it must be one, or one of each IP family")]
    fn bad_ranges(#[case] text: &str, #[case] message: &str) {
        assert_eq!(text.parse::<ServiceRanges>().unwrap_err().to_string(), message);
    }
}
