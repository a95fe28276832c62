//! IP addresses and CIDRs as text: strict parsing, the words upstream refuses them with, and the
//! warnings about spellings that are accepted but not canonical.
//!
//! Strict means: no leading zeros, no IPv4-mapped IPv6 (KEP-4858).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::bad_value::go_quote;
use crate::errors::{FieldErrors, Path, invalid};

/// An IP family, named as in `spec.ipFamilies`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// The family of an address; an IPv4-mapped IPv6 address counts as IPv4.
    pub fn of(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// `IPv4` or `IPv6`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    /// Reads `IPv4` or `IPv6`.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "IPv4" => Some(Self::V4),
            "IPv6" => Some(Self::V6),
            _ => None,
        }
    }
}

impl std::fmt::Display for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Reads an address leniently: leading zeros are allowed and mean nothing, zones are refused.
/// IPv4-mapped IPv6 stays IPv6.
pub fn parse_lenient(text: &str) -> Option<IpAddr> {
    if text.contains(':') { lenient_v6(text).map(IpAddr::V6) } else { lenient_v4(text).map(IpAddr::V4) }
}

fn lenient_v4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0u8; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || part.len() > 8 || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        *octet = u8::try_from(part.parse::<u32>().ok()?).ok()?;
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets))
}

fn lenient_v6(text: &str) -> Option<Ipv6Addr> {
    if let Ok(strict) = text.parse::<Ipv6Addr>() {
        return Some(strict);
    }
    // The standard parser refuses leading zeros in an embedded IPv4 part.
    let (head, tail) = text.rsplit_once(':')?;
    let embedded = lenient_v4(tail)?;
    format!("{head}:{embedded}").parse().ok()
}

/// The address as Go prints it: IPv4-mapped addresses in IPv4 form, IPv6 as of RFC 5952.
pub fn canonical(ip: IpAddr) -> String {
    match ip {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or_else(|| v6.to_string(), |v4| v4.to_string()),
        IpAddr::V4(v4) => v4.to_string(),
    }
}

fn is_mapped(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some())
}

/// What is wrong with an IP address.
pub fn ip_faults(text: &str) -> Vec<String> {
    let Some(ip) = parse_lenient(text) else {
        return vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()];
    };
    if text.parse::<IpAddr>().is_err() {
        return vec!["must not have leading 0s".to_owned()];
    }
    if is_mapped(ip) {
        return vec!["must not be an IPv4-mapped IPv6 address".to_owned()];
    }
    Vec::new()
}

/// What is wrong with an IP address that has to be spelt in one way only.
pub fn canonical_ip_faults(text: &str) -> Vec<String> {
    let faults = ip_faults(text);
    if !faults.is_empty() {
        return faults;
    }
    match parse_lenient(text) {
        Some(ip) if canonical(ip) != text => {
            vec![format!("must be in canonical form ({})", go_quote(&canonical(ip)))]
        }
        _ => faults,
    }
}

/// `faults` as errors of the field at `path`.
pub(crate) fn to_errors(path: &Path, text: &str, faults: Vec<String>) -> FieldErrors {
    faults.into_iter().map(|fault| invalid(path, text, fault)).collect()
}

/// Errors of an IP address field.
pub fn validate_ip(path: &Path, text: &str) -> FieldErrors {
    to_errors(path, text, ip_faults(text))
}

/// Errors of an address that traffic shall be sent to: it may be none of the special ones.
pub fn validate_endpoint_ip(path: &Path, text: &str) -> FieldErrors {
    let Some(ip) = parse_lenient(text) else {
        return vec![invalid(path, text, "must be a valid IP address")].into();
    };
    let ip = match ip {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(ip, IpAddr::V4),
        IpAddr::V4(_) => ip,
    };
    let mut errors = FieldErrors::new();
    let mut refuse = |fault: String| errors.push(invalid(path, text, fault));
    if ip.is_unspecified() {
        refuse(format!("may not be unspecified ({text})"));
    }
    if ip.is_loopback() {
        refuse("may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned());
    }
    let (link_local, link_local_multicast) = match ip {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets().starts_with(&[224, 0, 0])),
        IpAddr::V6(v6) => (v6.is_unicast_link_local(), v6.segments()[0] & 0xff0f == 0xff02),
    };
    if link_local {
        refuse("may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned());
    }
    if link_local_multicast {
        refuse("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned());
    }
    errors
}

/// A CIDR as it was written: the address, not yet masked, and the prefix length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    /// The address in front of the slash.
    pub ip: IpAddr,
    /// The number of leading bits that belong to the network.
    pub prefix: u8,
}

impl Cidr {
    /// Reads a CIDR leniently, as [`parse_lenient`] reads addresses.
    pub fn parse_lenient(text: &str) -> Option<Self> {
        let (ip, prefix) = text.split_once('/')?;
        let ip = parse_lenient(ip)?;
        let width: u32 = if ip.is_ipv4() { 32 } else { 128 };
        if prefix.is_empty() || prefix.len() > 8 || !prefix.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let prefix: u32 = prefix.parse().ok()?;
        if prefix > width {
            return None;
        }
        Some(Self { ip, prefix: u8::try_from(prefix).ok()? })
    }

    /// The address with all bits behind the prefix cleared.
    pub fn network(&self) -> IpAddr {
        match self.ip {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from(u32::from(v4) & mask))
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from(u128::from(v6) & mask))
            }
        }
    }

    fn width(&self) -> u8 {
        if self.ip.is_ipv4() { 32 } else { 128 }
    }
}

fn has_leading_zeros(text: &str) -> bool {
    let Some((ip, prefix)) = text.split_once('/') else {
        return false;
    };
    ip.parse::<IpAddr>().is_err() || (prefix.len() > 1 && prefix.starts_with('0'))
}

/// What is wrong with a CIDR, the first fault only; `canonical_form` also demands the one canonical spelling.
pub fn cidr_faults(text: &str, canonical_form: bool) -> Vec<String> {
    let Some(cidr) = Cidr::parse_lenient(text) else {
        return vec!["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)".to_owned()];
    };
    if has_leading_zeros(text) {
        return vec!["must not have leading 0s in IP or prefix length".to_owned()];
    }
    if is_mapped(cidr.ip) {
        return vec!["must not have an IPv4-mapped IPv6 address".to_owned()];
    }
    if cidr.network() != cidr.ip {
        return vec!["must not have bits set beyond the prefix length".to_owned()];
    }
    let form = format!("{}/{}", canonical(cidr.ip), cidr.prefix);
    if canonical_form && form != text {
        return vec![format!("must be in canonical form ({})", go_quote(&form))];
    }
    Vec::new()
}

/// Errors of a CIDR field.
pub fn validate_cidr(path: &Path, text: &str, canonical_form: bool) -> FieldErrors {
    to_errors(path, text, cidr_faults(text, canonical_form))
}

/// Warnings about the spelling of an address that was accepted.
pub fn ip_warnings(path: &Path, text: &str) -> Vec<String> {
    let Some(ip) = parse_lenient(text) else {
        return Vec::new();
    };
    if text.parse::<IpAddr>().is_err() || is_mapped(ip) {
        return vec![format!(
            "{path}: non-standard IP address {} is invalid: use {}",
            go_quote(text),
            go_quote(&canonical(ip))
        )];
    }
    if ip.is_ipv6() && canonical(ip) != text {
        return vec![format!(
            "{path}: IPv6 address {} should be in RFC 5952 canonical format ({})",
            go_quote(text),
            go_quote(&canonical(ip))
        )];
    }
    Vec::new()
}

/// Warnings about the spelling of a CIDR that was accepted.
pub fn cidr_warnings(path: &Path, text: &str) -> Vec<String> {
    let Some(cidr) = Cidr::parse_lenient(text) else {
        return Vec::new();
    };
    let network = format!("{}/{}", canonical(cidr.network()), cidr.prefix);
    let mut warnings = Vec::new();
    if cidr.network() != cidr.ip {
        let single = format!("{}/{}", canonical(cidr.ip), cidr.width());
        warnings.push(format!(
            "{path}: CIDR value {} is ambiguous in this context (should be {} or {}?)",
            go_quote(text),
            go_quote(&network),
            go_quote(&single)
        ));
    }
    if has_leading_zeros(text) || is_mapped(cidr.ip) {
        warnings.push(format!(
            "{path}: non-standard CIDR value {} is invalid: use {}",
            go_quote(text),
            go_quote(&network)
        ));
    }
    if warnings.is_empty() && cidr.ip.is_ipv6() && network != text {
        warnings.push(format!(
            "{path}: IPv6 CIDR value {} should be in RFC 5952 canonical format ({})",
            go_quote(text),
            go_quote(&network)
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("10.0.0.1", &[])]
    #[case("2001:DB8::1", &[])]
    #[case("10.0.0", &["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"])]
    #[case("10.0.0.256", &["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"])]
    #[case("fe80::1%eth0", &["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"])]
    #[case("010.0.0.1", &["must not have leading 0s"])]
    #[case("::ffff:1.2.3.4", &["must not be an IPv4-mapped IPv6 address"])]
    #[case("::ffff:1.2.3.04", &["must not have leading 0s"])]
    fn addresses(#[case] text: &str, #[case] faults: &[&str]) {
        assert_eq!(ip_faults(text), faults);
    }

    #[rstest]
    #[case("2001:db8:0::1", &["must be in canonical form (\"2001:db8::1\")"])]
    #[case("2001:db8::1", &[])]
    #[case("10.1.2.3", &[])]
    fn canonical_addresses(#[case] text: &str, #[case] faults: &[&str]) {
        assert_eq!(canonical_ip_faults(text), faults);
    }

    #[rstest]
    #[case("10.0.0.0/8", &[])]
    #[case("0.0.0.0/0", &[])]
    #[case("::/0", &[])]
    #[case("10.0.0.1/8", &["must not have bits set beyond the prefix length"])]
    #[case("10.0.0.0/33", &["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"])]
    #[case("10.0.0.0/+8", &["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"])]
    #[case("10.0.0.0/08", &["must not have leading 0s in IP or prefix length"])]
    #[case("FD00::/112", &["must be in canonical form (\"fd00::/112\")"])]
    #[case("::ffff:10.0.0.0/104", &["must not have an IPv4-mapped IPv6 address"])]
    #[case("::ffff:10.0.0.1/104", &["must not have an IPv4-mapped IPv6 address"])]
    #[case("010.0.0.1/8", &["must not have leading 0s in IP or prefix length"])]
    #[case("FD00::1/64", &["must not have bits set beyond the prefix length"])]
    fn cidrs(#[case] text: &str, #[case] faults: &[&str]) {
        assert_eq!(cidr_faults(text, true), faults);
    }

    #[rstest]
    #[case("0.0.0.0", "may not be unspecified (0.0.0.0)")]
    #[case("::", "may not be unspecified (::)")]
    #[case("127.1.2.3", "may not be in the loopback range (127.0.0.0/8, ::1/128)")]
    #[case("224.0.0.9", "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")]
    #[case("ff02::1", "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")]
    #[case("febf::1", "may not be in the link-local range (169.254.0.0/16, fe80::/10)")]
    fn special_addresses(#[case] text: &str, #[case] fault: &str) {
        let errors = validate_endpoint_ip(&Path::root("ip"), text);
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].detail, fault);
    }

    #[test]
    fn ordinary_multicast_is_allowed() {
        assert!(validate_endpoint_ip(&Path::root("ip"), "239.1.1.1").is_empty());
    }

    #[test]
    fn spellings_are_warned_about() {
        let path = Path::root("p");
        assert_eq!(
            ip_warnings(&path, "192.0.2.010"),
            ["p: non-standard IP address \"192.0.2.010\" is invalid: use \"192.0.2.10\""]
        );
        assert_eq!(
            cidr_warnings(&path, "2001:DB8::/32"),
            [
                "p: IPv6 CIDR value \"2001:DB8::/32\" should be in RFC 5952 canonical format (\"2001:db8::/32\")"
            ]
        );
        assert!(cidr_warnings(&path, "10.0.0.0/8").is_empty());
    }
}
