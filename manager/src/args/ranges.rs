//! The ranges that are given on the command line: service CIDRs and node ports.

use std::{fmt, str::FromStr};

use ipnet::IpNet;

/// IPv6 ranges must be at least this long, as in kube-apiserver: an allocator counts with 64 bits.
const SHORTEST_IPV6_PREFIX: u8 = 64;

/// A range that cannot be served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// No CIDR.
    #[error("{0:?} is no CIDR such as 10.96.0.0/12")]
    NoCidr(String),
    /// An address inside the range instead of its first.
    #[error("{0} has host bits set: the range that holds it is {1}")]
    HostBits(IpNet, IpNet),
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
    /// No port range.
    #[error("{0:?} is no port range such as 30000-32767")]
    NoPortRange(String),
    /// Backwards.
    #[error("{0}-{1} ends before it starts")]
    Backwards(u16, u16),
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

/// Node ports that Services get, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodePortRange {
    /// The first port, above 0.
    pub first: u16,
    /// The last port.
    pub last: u16,
}

impl FromStr for NodePortRange {
    type Err = RangeError;

    /// Reads `first-last`, `first+count` or one port, as kube-apiserver does.
    fn from_str(text: &str) -> Result<Self, RangeError> {
        let bad = || RangeError::NoPortRange(text.to_owned());
        let port = |part: &str| part.trim().parse::<u16>().ok().filter(|port| *port > 0).ok_or_else(bad);
        if let Some((first, last)) = text.split_once('-') {
            let (first, last) = (port(first)?, port(last)?);
            return if first <= last {
                Ok(Self { first, last })
            } else {
                Err(RangeError::Backwards(first, last))
            };
        }
        if let Some((first, more)) = text.split_once('+') {
            let (first, more) = (port(first)?, more.trim().parse::<u16>().map_err(|_| bad())?);
            return Ok(Self { first, last: first.checked_add(more).ok_or_else(bad)? });
        }
        let only = port(text)?;
        Ok(Self { first: only, last: only })
    }
}

impl fmt::Display for NodePortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
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

    #[rstest]
    #[case("30000-32767", 30000, 32767)]
    #[case("30000+10", 30000, 30010)]
    #[case("30000", 30000, 30000)]
    #[case("1-65535", 1, 65535)]
    fn port_ranges(#[case] text: &str, #[case] first: u16, #[case] last: u16) {
        assert_eq!(text.parse(), Ok(NodePortRange { first, last }));
    }

    #[rstest]
    #[case("30000-20000", "30000-20000 ends before it starts")]
    #[case("30000-70000", "\"30000-70000\" is no port range such as 30000-32767")]
    #[case("0-10", "\"0-10\" is no port range such as 30000-32767")]
    #[case("60000+10000", "\"60000+10000\" is no port range such as 30000-32767")]
    #[case("a-b", "\"a-b\" is no port range such as 30000-32767")]
    #[case("", "\"\" is no port range such as 30000-32767")]
    fn bad_port_ranges(#[case] text: &str, #[case] message: &str) {
        assert_eq!(text.parse::<NodePortRange>().unwrap_err().to_string(), message);
    }
}
