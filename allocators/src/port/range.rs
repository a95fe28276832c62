//! The range that node ports are chosen from, as `--service-node-port-range` writes it.

use std::fmt;
use std::str::FromStr;

/// A range of port numbers, both ends included; never empty, never with port 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NodePortRange {
    first: u16,
    last: u16,
}

/// Why a text is no range of ports.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PortRangeError {
    /// Neither `first-last` nor `first+count` nor a single port.
    #[error("{0:?} is no range of ports, such as 30000-32767, 30000+2767 or 30000")]
    Malformed(String),
    /// The end comes before the start.
    #[error("the range of ports {0:?} ends before it starts")]
    Reversed(String),
    /// A number is 0 or above 65535.
    #[error("the range of ports {0:?} has a number that is not between 1 and 65535")]
    OutOfBounds(String),
}

impl NodePortRange {
    /// 32768-60999: what Linux gives to a node's own connections unless told otherwise.
    pub const LINUX_EPHEMERAL: Self = Self { first: 32768, last: 60999 };

    /// The range from `first` to `last`; `None` when `first` is 0 or the range is empty.
    pub fn new(first: u16, last: u16) -> Option<Self> {
        (first > 0 && first <= last).then_some(Self { first, last })
    }

    /// The first port.
    pub fn first(self) -> u16 {
        self.first
    }

    /// The last port.
    pub fn last(self) -> u16 {
        self.last
    }

    /// How many ports there are, at least 1.
    pub fn size(self) -> u32 {
        u32::from(self.last - self.first) + 1
    }

    /// Whether `port` is one of them.
    pub fn contains(self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }

    /// Whether the ranges have a port in common.
    pub fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// Several ranges, printed one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortRanges(pub Vec<NodePortRange>);

impl PortRanges {
    /// Whether one of them has `port`.
    pub fn has(&self, port: u16) -> bool {
        self.0.iter().any(|range| range.contains(port))
    }
}

impl fmt::Display for PortRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, range) in self.0.iter().enumerate() {
            f.write_str(if i == 0 { "" } else { ", " })?;
            range.fmt(f)?;
        }
        Ok(())
    }
}

impl Default for NodePortRange {
    /// 30000-32767.
    fn default() -> Self {
        Self { first: 30000, last: 32767 }
    }
}

impl fmt::Display for NodePortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

impl FromStr for NodePortRange {
    type Err = PortRangeError;

    fn from_str(text: &str) -> Result<Self, PortRangeError> {
        let number =
            |part: &str| part.trim().parse::<u64>().map_err(|_| PortRangeError::Malformed(text.to_owned()));
        let (first, last) = if let Some((first, last)) = text.split_once('-') {
            (number(first)?, number(last)?)
        } else if let Some((first, more)) = text.split_once('+') {
            (number(first)?, number(first)?.saturating_add(number(more)?))
        } else {
            (number(text)?, number(text)?)
        };
        if last < first {
            return Err(PortRangeError::Reversed(text.to_owned()));
        }
        let bounds = || PortRangeError::OutOfBounds(text.to_owned());
        let port = |n: u64| u16::try_from(n).map_err(|_| bounds());
        Self::new(port(first)?, port(last)?).ok_or_else(bounds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("30000-32767", 30000, 32767, 2768)]
    #[case("30000+2767", 30000, 32767, 2768)]
    #[case("30000", 30000, 30000, 1)]
    #[case(" 1 - 65535 ", 1, 65535, 65535)]
    fn ranges(#[case] text: &str, #[case] first: u16, #[case] last: u16, #[case] size: u32) {
        let range: NodePortRange = text.parse().unwrap();
        assert_eq!((range.first(), range.last(), range.size()), (first, last, size));
        assert_eq!(range.to_string().parse(), Ok(range));
    }

    #[rstest]
    #[case("30000-20000", PortRangeError::Reversed("30000-20000".into()))]
    #[case("0-100", PortRangeError::OutOfBounds("0-100".into()))]
    #[case("30000-70000", PortRangeError::OutOfBounds("30000-70000".into()))]
    #[case("", PortRangeError::Malformed(String::new()))]
    #[case("a-b", PortRangeError::Malformed("a-b".into()))]
    #[case("-5", PortRangeError::Malformed("-5".into()))]
    fn absurd_ranges(#[case] text: &str, #[case] error: PortRangeError) {
        assert_eq!(text.parse::<NodePortRange>(), Err(error));
    }
}
