//! Small value types of the caches: shared strings, labels, uids and addresses without a heap cell.
//!
//! Owns how a value is stored in few bytes; never what it means to a controller.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use foldhash::HashSet;
use serde::{Serialize, Serializer};
use service_api::address::parse_lenient;
use smallvec::SmallVec;
use uuid::Uuid;
use uuid::fmt::Hyphenated;

/// A string that many objects share.
pub type Text = Arc<str>;

/// One copy of each string, so that node names, zones, namespaces and label values cost a pointer.
#[derive(Debug, Default)]
pub struct Interner {
    texts: HashSet<Text>,
    labels: HashSet<Labels>,
    prune_at: usize,
}

impl Interner {
    /// The shared copy of `text`.
    pub fn text(&mut self, text: &str) -> Text {
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        self.prune();
        let fresh: Text = text.into();
        self.texts.insert(Arc::clone(&fresh));
        fresh
    }

    /// The shared copy of a set of labels, given as pairs sorted by key.
    pub fn labels(&mut self, pairs: &[(String, String)]) -> Labels {
        let fresh = Labels(pairs.iter().map(|(k, v)| (self.text(k), self.text(v))).collect());
        self.share(fresh)
    }

    /// The shared copy of `labels`.
    pub fn share(&mut self, labels: Labels) -> Labels {
        if let Some(known) = self.labels.get(&labels) {
            return known.clone();
        }
        self.labels.insert(labels.clone());
        labels
    }

    /// Forgets strings nobody else holds; runs when the table has doubled since the last time.
    fn prune(&mut self) {
        if self.texts.len() < self.prune_at.max(1024) {
            return;
        }
        self.labels.retain(|l| Arc::strong_count(&l.0) > 1);
        self.texts.retain(|t| Arc::strong_count(t) > 1);
        self.prune_at = self.texts.len() * 2;
    }

    /// How many distinct strings are held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether no string is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }
}

/// Labels or annotations, sorted by key and shared between the objects that carry the same ones.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Labels(Arc<[(Text, Text)]>);

impl Default for Labels {
    fn default() -> Self {
        Self(Arc::new([]))
    }
}

impl FromIterator<(Text, Text)> for Labels {
    fn from_iter<I: IntoIterator<Item = (Text, Text)>>(pairs: I) -> Self {
        let mut pairs: Vec<_> = pairs.into_iter().collect();
        pairs.sort();
        pairs.dedup_by(|later, earlier| later.0 == earlier.0);
        Self(pairs.into())
    }
}

impl Labels {
    /// The value of `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Text> {
        self.0.binary_search_by(|(k, _)| (**k).cmp(key)).ok().map(|i| &self.0[i].1)
    }

    /// All pairs, by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &(Text, Text)> {
        self.0.iter()
    }

    /// The pairs that have a value, by key.
    pub fn valued(&self) -> impl Iterator<Item = &(Text, Text)> {
        self.iter().filter(|(_, value)| !value.is_empty())
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether these are the given pairs, sorted by key.
    #[must_use]
    pub fn are(&self, pairs: &[(String, String)]) -> bool {
        self.0.len() == pairs.len()
            && self.iter().zip(pairs).all(|((k, v), (key, value))| **k == **key && **v == **value)
    }

    /// Whether every pair of `wanted` is among these (the meaning of a Service's selector).
    #[must_use]
    pub fn contain_all(&self, wanted: &Labels) -> bool {
        wanted.iter().all(|(k, v)| self.get(k) == Some(v))
    }

    /// Whether both are equal where `skip` does not say otherwise.
    #[must_use]
    pub fn equal_without(&self, other: &Labels, skip: impl Fn(&str) -> bool) -> bool {
        self.iter().filter(|(k, _)| !skip(k)).eq(other.iter().filter(|(k, _)| !skip(k)))
    }

    /// The same pairs without those whose key `drop` names.
    #[must_use]
    pub fn without(&self, drop: impl Fn(&str) -> bool) -> Labels {
        if self.iter().any(|(k, _)| drop(k)) {
            self.iter().filter(|(k, _)| !drop(k)).cloned().collect()
        } else {
            self.clone()
        }
    }

    /// The same pairs with `key` set to `value`.
    #[must_use]
    pub fn with(&self, key: &str, value: &str) -> Labels {
        self.iter()
            .filter(|(k, _)| &**k != key)
            .cloned()
            .chain([(Text::from(key), Text::from(value))])
            .collect()
    }
}

impl Serialize for Labels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(k, v)| (&**k, &**v)))
    }
}

/// The uid of an object: a UUID in practice, any text in principle.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Uid {
    /// None given.
    #[default]
    Absent,
    /// A UUID in its usual lower-case spelling.
    Uuid([u8; 16]),
    /// Anything else.
    Other(Box<str>),
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        if text.is_empty() {
            return Self::Absent;
        }
        parse_uuid(text).map_or_else(|| Self::Other(text.into()), Self::Uuid)
    }
}

/// The bytes of a UUID written in lower case with hyphens; nothing for any other spelling, so that
/// printing gives back the text.
fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let is_usual = text.len() == 36 && !text.bytes().any(|byte| byte.is_ascii_uppercase());
    is_usual.then(|| Uuid::try_parse(text).ok()).flatten().map(Uuid::into_bytes)
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => Ok(()),
            Self::Other(text) => f.write_str(text),
            Self::Uuid(bytes) => f.write_str(hyphenated(bytes).encode_lower(&mut Uuid::encode_buffer())),
        }
    }
}

impl Serialize for Uid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Absent => serializer.serialize_str(""),
            Self::Other(text) => serializer.serialize_str(text),
            Self::Uuid(bytes) => {
                serializer.serialize_str(hyphenated(bytes).encode_lower(&mut Uuid::encode_buffer()))
            }
        }
    }
}

fn hyphenated(bytes: &[u8; 16]) -> Hyphenated {
    Uuid::from_bytes(*bytes).hyphenated()
}

/// An address as the API spells it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    /// An IPv4 address.
    V4(Ipv4Addr),
    /// An IPv6 address in canonical spelling.
    V6(Ipv6Addr),
    /// A host name, or an IPv6 address in another spelling.
    Text(Box<str>),
}

impl From<&str> for Address {
    fn from(text: &str) -> Self {
        match text.parse() {
            Ok(IpAddr::V4(ip)) => Self::V4(ip),
            Ok(IpAddr::V6(ip)) if ip.to_string() == text => Self::V6(ip),
            _ => Self::Text(text.into()),
        }
    }
}

impl From<IpAddr> for Address {
    fn from(ip: IpAddr) -> Self {
        match ip.to_canonical() {
            IpAddr::V4(ip) => Self::V4(ip),
            IpAddr::V6(ip) => Self::V6(ip),
        }
    }
}

impl Address {
    /// The family of an IP address, however it is spelt; none for a host name.
    #[must_use]
    pub fn is_ipv6(&self) -> Option<bool> {
        match self {
            Self::V4(_) => Some(false),
            Self::V6(ip) => Some(ip.to_ipv4_mapped().is_none()),
            Self::Text(text) => parse_lenient(text).map(|ip| ip.to_canonical().is_ipv6()),
        }
    }

    /// The same address in its one canonical spelling, which is all that slices may hold: leading
    /// zeros mean nothing, an IPv4-mapped IPv6 address is the IPv4 address (KEP-4858).
    #[must_use]
    pub fn canonical(self) -> Self {
        match self {
            Self::V4(_) => self,
            Self::V6(ip) => IpAddr::V6(ip).into(),
            Self::Text(text) => parse_lenient(&text).map_or(Self::Text(text), Self::from),
        }
    }

    /// The bytes of its spelling, by which the API sorts addresses.
    #[must_use]
    pub fn spelling(&self) -> SmallVec<[u8; 40]> {
        self.spelt(|text| SmallVec::from_slice(text.as_bytes()))
    }

    fn spelt<T>(&self, then: impl FnOnce(&str) -> T) -> T {
        match self {
            // Digits and dots are text.
            Self::V4(ip) => then(std::str::from_utf8(&dotted(*ip)).unwrap_or_default()),
            Self::V6(ip) => then(&ip.to_string()),
            Self::Text(text) => then(text),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.spelt(|text| f.write_str(text))
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.spelt(|text| serializer.serialize_str(text))
    }
}

/// What `Display` writes, in a tenth of its time: slices are full of these.
fn dotted(ip: Ipv4Addr) -> SmallVec<[u8; 16]> {
    let mut out = SmallVec::new();
    for (i, octet) in ip.octets().into_iter().enumerate() {
        if i > 0 {
            out.push(b'.');
        }
        if octet >= 100 {
            out.push(b'0' + octet / 100);
        }
        if octet >= 10 {
            out.push(b'0' + octet / 10 % 10);
        }
        out.push(b'0' + octet % 10);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_print_as_they_were_read() {
        for text in
            ["0a1b2c3d-0000-4000-8000-0000000000ff", "0A1B2C3D-0000-4000-8000-0000000000ff", "odd", ""]
        {
            assert_eq!(Uid::from(text).to_string(), text);
        }
        for text in [
            "10.1.2.3",
            "0.0.0.0",
            "255.100.20.9",
            "100.64.110.205",
            "fd00::1",
            "FD00::1",
            "fd00:0::1",
            "db.example.test",
        ] {
            assert_eq!(Address::from(text).to_string(), text);
        }
    }

    #[rstest::rstest]
    #[case("10.1.2.3", "10.1.2.3", Some(false))]
    #[case("010.001.2.3", "10.1.2.3", Some(false))]
    #[case("FD00:0::1", "fd00::1", Some(true))]
    #[case("::ffff:10.1.2.3", "10.1.2.3", Some(false))]
    #[case("::FFFF:010.1.2.3", "10.1.2.3", Some(false))]
    #[case("db.example.test", "db.example.test", None)]
    fn an_address_has_one_canonical_spelling(
        #[case] text: &str,
        #[case] canonical: &str,
        #[case] ipv6: Option<bool>,
    ) {
        let address = Address::from(text);
        assert_eq!(address.is_ipv6(), ipv6);
        assert_eq!(*address.spelling(), *text.as_bytes());
        assert_eq!(address.canonical().to_string(), canonical);
    }

    #[test]
    fn strings_nobody_holds_are_forgotten() {
        let mut interner = Interner::default();
        let kept = interner.text("kept");
        for i in 0..5000 {
            drop(interner.text(&format!("gone-{i}")));
        }
        assert!(interner.len() < 3000, "{} strings held", interner.len());
        assert!(Arc::ptr_eq(&kept, &interner.text("kept")));
    }

    #[test]
    fn a_selector_needs_every_pair() {
        let mut interner = Interner::default();
        let pair = |k: &str, v: &str| (k.to_owned(), v.to_owned());
        let pod = interner.labels(&[pair("app", "web"), pair("tier", "front")]);
        let both = interner.labels(&[pair("app", "web"), pair("tier", "front")]);
        let other = interner.labels(&[pair("app", "web"), pair("tier", "back")]);
        assert!(pod.contain_all(&both) && pod.contain_all(&Labels::default()));
        assert!(!pod.contain_all(&other));
    }
}
