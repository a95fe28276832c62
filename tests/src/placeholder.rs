//! One placeholder of an expected body: what it means and which values it takes. Knows bands, not bindings.

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::Value;

/// Characters of generated names.
const NAME_CHARACTERS: &str = "bcdfghjklmnpqrstvwxz2456789";
const NAME_LENGTH: usize = 5;
/// Ranges up to this size have no bands.
const LARGEST_WITHOUT_BANDS: u128 = 16;

/// A part of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Band {
    /// The first addresses or ports.
    Lower,
    /// The rest.
    Upper,
    /// Both.
    Either,
}

/// What a placeholder accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Any value.
    Any,
    /// A UUID.
    Uid,
    /// A resource version.
    ResourceVersion,
    /// An RFC 3339 time.
    Time,
    /// A usable address of a CIDR.
    Ip(IpNet, Band),
    /// A node port.
    Port(Band),
    /// A generated name with this prefix.
    Name(String),
}

/// A placeholder with the name it binds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placeholder {
    /// What it accepts.
    pub kind: Kind,
    /// The name of the binding.
    pub binds: Option<String>,
}

/// A string that starts like a placeholder and is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no placeholder")]
pub struct UnknownPlaceholder(pub String);

/// Inclusive bounds of the server's node ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortRange {
    /// The first port.
    pub first: u16,
    /// The last port.
    pub last: u16,
}

impl PortRange {
    /// Reads `first-last`.
    pub fn parse(text: &str) -> Option<Self> {
        let (first, last) = text.split_once('-')?;
        let range = Self { first: first.parse().ok()?, last: last.parse().ok()? };
        (range.first <= range.last).then_some(range)
    }

    fn band_of(self, port: u64) -> Option<Band> {
        let (first, last) = (u64::from(self.first), u64::from(self.last));
        if port < first || port > last {
            return None;
        }
        let size = last - first + 1;
        let lower = if u128::from(size) <= LARGEST_WITHOUT_BANDS { 0 } else { (size / 32).clamp(16, 128) };
        Some(if port - first < lower { Band::Lower } else { Band::Upper })
    }
}

impl Placeholder {
    /// Reads an expected string: `None` if it is none of them.
    pub fn parse(text: &str) -> Result<Option<Self>, UnknownPlaceholder> {
        if !text.starts_with('$') || text.starts_with("${") {
            return Ok(None);
        }
        let (kind, binds) = match text.rsplit_once('#') {
            Some((kind, name)) => (kind, Some(name.to_owned())),
            None => (text, None),
        };
        let unknown = || UnknownPlaceholder(text.to_owned());
        let kind = Kind::parse(kind).ok_or_else(unknown)?;
        if binds.as_deref() == Some("") {
            return Err(unknown());
        }
        Ok(Some(Self { kind, binds }))
    }
}

impl Kind {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "$any" => Self::Any,
            "$uid" => Self::Uid,
            "$rv" => Self::ResourceVersion,
            "$time" => Self::Time,
            "$port" => Self::Port(Band::Either),
            "$port:upper" => Self::Port(Band::Upper),
            "$port:lower" => Self::Port(Band::Lower),
            _ => {
                if let Some(prefix) = text.strip_prefix("$name:") {
                    return Some(Self::Name(prefix.to_owned()));
                }
                let range = text.strip_prefix("$ip:")?;
                let (cidr, band) = match (range.strip_suffix(":upper"), range.strip_suffix(":lower")) {
                    (Some(cidr), _) => (cidr, Band::Upper),
                    (_, Some(cidr)) => (cidr, Band::Lower),
                    _ => (range, Band::Either),
                };
                Self::Ip(cidr.parse().ok()?, band)
            }
        })
    }

    /// Whether it takes the value; `ports` is the server's range.
    pub fn accepts(&self, value: &Value, ports: PortRange) -> bool {
        let text = value.as_str();
        match self {
            Self::Any => true,
            Self::Uid => text.is_some_and(is_uuid),
            Self::ResourceVersion => text.is_some_and(is_resource_version),
            Self::Time => text.is_some_and(is_time),
            Self::Ip(cidr, band) => {
                text.and_then(|text| address_band(text, *cidr)).is_some_and(|of| within(of, *band))
            }
            Self::Port(band) => {
                value.as_u64().and_then(|port| ports.band_of(port)).is_some_and(|of| within(of, *band))
            }
            Self::Name(prefix) => {
                text.and_then(|text| text.strip_prefix(prefix.as_str())).is_some_and(is_name_suffix)
            }
        }
    }
}

fn within(of: Band, wanted: Band) -> bool {
    wanted == Band::Either || of == wanted
}

/// The band in which an address in canonical spelling lies; `None` outside the usable addresses of the CIDR.
fn address_band(text: &str, cidr: IpNet) -> Option<Band> {
    let address: IpAddr = text.parse().ok()?;
    if address.to_string() != text || !cidr.contains(&address) {
        return None;
    }
    let offset = bits(address) - bits(cidr.network());
    let host_bits = u32::from(cidr.max_prefix_len() - cidr.prefix_len());
    // A whole IPv6 space does not fit; no bound below depends on it.
    let size = 1_u128.checked_shl(host_bits).unwrap_or(u128::MAX);
    let broadcast = address.is_ipv4() && offset == size - 1;
    if offset == 0 || broadcast {
        return None;
    }
    let lower = if size <= LARGEST_WITHOUT_BANDS { 0 } else { (size / 16).clamp(16, 256) };
    Some(if offset <= lower { Band::Lower } else { Band::Upper })
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn is_uuid(text: &str) -> bool {
    let lengths: Vec<usize> = text.split('-').map(str::len).collect();
    lengths == [8, 4, 4, 4, 12] && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-'))
}

fn is_resource_version(text: &str) -> bool {
    !text.starts_with('0') && !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_time(text: &str) -> bool {
    // `jiff` also takes a blank between date and time and lower-case letters, RFC 3339 as Kubernetes writes it does not.
    text.contains('T') && text.parse::<jiff::Timestamp>().is_ok()
}

fn is_name_suffix(text: &str) -> bool {
    text.len() == NAME_LENGTH && text.chars().all(|character| NAME_CHARACTERS.contains(character))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    const PORTS: PortRange = PortRange { first: 30000, last: 32767 };

    fn accepts(placeholder: &str, value: &Value) -> bool {
        Placeholder::parse(placeholder).unwrap().unwrap().kind.accepts(value, PORTS)
    }

    #[rstest]
    #[case("$any", json!(null))]
    #[case("$any", json!({"a": 1}))]
    #[case("$uid", json!("8e5a8f2c-0b6e-4a3f-9d5a-0123456789ab"))]
    #[case("$rv", json!("17"))]
    #[case("$time", json!("2026-08-20T10:11:12Z"))]
    #[case("$time", json!("2031-03-04T05:00:01.25+02:00"))]
    #[case("$ip:10.96.0.0/12:lower", json!("10.96.0.1"))]
    #[case("$ip:10.96.0.0/12:lower", json!("10.96.1.0"))]
    #[case("$ip:10.96.0.0/12:upper", json!("10.96.1.1"))]
    #[case("$ip:10.96.0.0/12:upper", json!("10.111.255.254"))]
    #[case("$ip:10.20.0.32/27:lower", json!("10.20.0.48"))]
    #[case("$ip:10.20.0.32/27:upper", json!("10.20.0.49"))]
    #[case("$ip:10.20.0.0/29", json!("10.20.0.6"))]
    #[case("$ip:10.20.0.0/28:upper", json!("10.20.0.1"))]
    #[case("$ip:fd00:10:96::/112:lower", json!("fd00:10:96::100"))]
    #[case("$ip:fd00:10:96::/112:upper", json!("fd00:10:96::101"))]
    #[case("$ip:fd00:10:96::/112:upper", json!("fd00:10:96::ffff"))]
    #[case("$ip:fd00:21::/124", json!("fd00:21::f"))]
    #[case("$port", json!(30000))]
    #[case("$port:lower", json!(30085))]
    #[case("$port:upper", json!(30086))]
    #[case("$port:upper", json!(32767))]
    #[case("$name:web-", json!("web-x7k2p"))]
    fn accepted(#[case] placeholder: &str, #[case] value: Value) {
        assert!(accepts(placeholder, &value), "{placeholder} must take {value}");
    }

    #[rstest]
    #[case("$uid", json!("8e5a8f2c0b6e4a3f9d5a0123456789ab"))]
    #[case("$uid", json!("8e5a8f2c-0b6e-4a3f-9d5a-0123456789aB"))]
    #[case("$uid", json!(""))]
    #[case("$uid", json!(7))]
    #[case("$rv", json!(17))]
    #[case("$rv", json!("0"))]
    #[case("$rv", json!(""))]
    #[case("$rv", json!("v1"))]
    #[case("$time", json!("2026-08-20 10:11:12Z"))]
    #[case("$time", json!("2026-08-20T10:11:12"))]
    #[case("$time", json!("now"))]
    #[case("$time", json!(null))]
    #[case("$ip:10.96.0.0/12:lower", json!("10.96.1.1"))]
    #[case("$ip:10.96.0.0/12:upper", json!("10.96.1.0"))]
    #[case("$ip:10.96.0.0/12", json!("10.96.0.0"))]
    #[case("$ip:10.96.0.0/12:upper", json!("10.111.255.255"))]
    #[case("$ip:10.96.0.0/12", json!("10.112.0.1"))]
    #[case("$ip:10.96.0.0/12", json!("fd00::1"))]
    #[case("$ip:10.96.0.0/12", json!("10.96.0.01"))]
    #[case("$ip:10.20.0.0/28:lower", json!("10.20.0.1"))]
    #[case("$ip:10.20.0.0/29", json!("10.20.0.7"))]
    #[case("$ip:fd00:21::/124", json!("fd00:21::"))]
    #[case("$ip:fd00:21::/124", json!("fd00:21:0::1"))]
    #[case("$port", json!("30000"))]
    #[case("$port", json!(29999))]
    #[case("$port", json!(32768))]
    #[case("$port:lower", json!(30086))]
    #[case("$port:upper", json!(30085))]
    #[case("$port", json!(30000.5))]
    #[case("$name:web-", json!("web-x7k2"))]
    #[case("$name:web-", json!("web-x7k2pp"))]
    #[case("$name:web-", json!("web-aeiou"))]
    #[case("$name:web-", json!("wob-x7k2p"))]
    fn rejected(#[case] placeholder: &str, #[case] value: Value) {
        assert!(!accepts(placeholder, &value), "{placeholder} must not take {value}");
    }

    #[rstest]
    #[case("30000-30005", 30000, Band::Upper)]
    #[case("30000-30031", 30015, Band::Lower)]
    #[case("30000-30031", 30016, Band::Upper)]
    #[case("1-65535", 128, Band::Lower)]
    #[case("1-65535", 129, Band::Upper)]
    fn port_bands(#[case] range: &str, #[case] port: u64, #[case] band: Band) {
        assert_eq!(PortRange::parse(range).unwrap().band_of(port), Some(band));
    }

    #[test]
    fn names_of_bindings_and_unknown_placeholders() {
        let parsed = Placeholder::parse("$name:web-#s1").unwrap().unwrap();
        assert_eq!(parsed, Placeholder { kind: Kind::Name("web-".into()), binds: Some("s1".into()) });
        assert_eq!(Placeholder::parse("${s1}"), Ok(None));
        assert_eq!(Placeholder::parse("web"), Ok(None));
        assert_eq!(Placeholder::parse(""), Ok(None));
        for unknown in ["$", "$uids", "$ip:10.0.0.0/33", "$port:middle", "$uid#"] {
            assert!(Placeholder::parse(unknown).is_err(), "{unknown}");
        }
    }
}
