//! What a ServiceCIDR needs: pure functions.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;

use super::object::{Ready, ServiceCidr};
use crate::cache::Seconds;

/// Allocators may take so long to notice that a range is being deleted.
pub const GRACE: Duration = Duration::from_secs(10);

/// What the condition Ready says of a range that can be used.
pub const READY: &str = "Kubernetes Service CIDR is ready";
/// Why it is not true of one that is deleted.
pub const TERMINATING: &str = "Terminating";
/// What it says of one that is deleted and cannot go.
pub const BLOCKED: &str =
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR";

/// What holds a ServiceCIDR whose deletion was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Nothing.
    Free,
    /// Addresses that would be in no range.
    Addresses {
        /// How many.
        count: usize,
        /// One of them.
        example: IpAddr,
    },
    /// Allocators may not have noticed the deletion yet; they will have after this.
    Notice(Duration),
}

/// A ServiceCIDR as far as others depend on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// Its name.
    pub name: String,
    /// Its prefixes.
    pub prefixes: Vec<IpNet>,
    /// When its deletion was asked for.
    pub deleted: Option<Seconds>,
}

impl Range {
    /// The range of an object.
    #[must_use]
    pub fn of(cidr: &Arc<ServiceCidr>) -> Self {
        Self { name: cidr.name().to_string(), prefixes: cidr.prefixes(), deleted: cidr.deleted() }
    }
}

/// What is said of a range that can be used.
#[must_use]
pub fn ready() -> Ready {
    Ready { ready: true, reason: "", message: READY.to_owned() }
}

/// What is said of a range that is deleted and cannot go.
#[must_use]
pub fn blocked() -> Ready {
    Ready { ready: false, reason: TERMINATING, message: BLOCKED.to_owned() }
}

/// What holds `range`, whose deletion was asked for, among all `ranges` at a time, in seconds since 1970.
#[must_use]
pub fn hold(range: &Range, ranges: &[Range], addresses: &BTreeSet<IpAddr>, now: f64) -> Hold {
    // What is allocated in the meantime lies in the other range as well: nothing to wait for.
    if is_covered(range, ranges, |other| other.deleted.is_none()) {
        return Hold::Free;
    }
    if !is_covered(range, ranges, |_| true)
        && let Some((count, example)) = orphans(range, ranges, addresses)
    {
        return Hold::Addresses { count, example };
    }
    #[allow(clippy::cast_precision_loss)] // seconds since 1970
    let left = range.deleted.unwrap_or_default() as f64 + GRACE.as_secs_f64() - now;
    if left > 0.0 { Hold::Notice(Duration::from_secs_f64(left.min(GRACE.as_secs_f64()))) } else { Hold::Free }
}

fn others<'a>(range: &'a Range, ranges: &'a [Range]) -> impl Iterator<Item = &'a Range> {
    ranges.iter().filter(|other| other.name != range.name)
}

/// Whether every prefix is part of another ServiceCIDR that counts, which then has all its addresses.
fn is_covered(range: &Range, ranges: &[Range], counts: impl Fn(&Range) -> bool) -> bool {
    let others = || others(range, ranges).filter(|other| counts(other)).flat_map(|other| &other.prefixes);
    !range.prefixes.is_empty()
        && range.prefixes.iter().all(|prefix| others().any(|other| other.contains(prefix)))
}

/// The addresses that a Service may have of this range and of no other.
fn orphans(range: &Range, ranges: &[Range], addresses: &BTreeSet<IpAddr>) -> Option<(usize, IpAddr)> {
    let elsewhere =
        |ip: &IpAddr| others(range, ranges).any(|other| other.prefixes.iter().any(|p| gives(p, *ip)));
    let inside = |prefix: &IpNet| addresses.range(prefix.network()..=last(prefix));
    let own = |prefix| inside(prefix).filter(move |ip| gives(prefix, **ip) && !elsewhere(ip));
    let mut found = range.prefixes.iter().flat_map(own);
    let example = *found.next()?;
    Some((found.count() + 1, example))
}

/// Whether Services get this address of the prefix: not its first one, and of IPv4 not its last.
fn gives(prefix: &IpNet, ip: IpAddr) -> bool {
    prefix.contains(&ip) && ip != prefix.network() && !(ip.is_ipv4() && ip == last(prefix))
}

fn last(prefix: &IpNet) -> IpAddr {
    match prefix {
        IpNet::V4(net) => IpAddr::V4(net.broadcast()),
        IpNet::V6(net) => IpAddr::V6(net.broadcast()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(name: &str, prefix: &str, deleted: bool) -> Range {
        Range {
            name: name.to_owned(),
            prefixes: vec![prefix.parse().unwrap()],
            deleted: deleted.then_some(1000),
        }
    }

    /// What holds the first of these ranges.
    fn held(ranges: &[Range], addresses: &[&str], now: f64) -> Hold {
        let addresses = addresses.iter().map(|a| a.parse().unwrap()).collect();
        hold(&ranges[0], ranges, &addresses, now)
    }

    fn by(count: usize, example: &str) -> Hold {
        Hold::Addresses { count, example: example.parse().unwrap() }
    }

    #[test]
    fn a_range_with_addresses_of_its_own_stays() {
        let small = range("small", "10.1.5.0/24", true);
        let found = held(std::slice::from_ref(&small), &["10.1.5.9", "10.1.5.10", "10.1.6.1"], 2000.0);
        assert_eq!(found, by(2, "10.1.5.9"));
        let covered = [small.clone(), range("large", "10.1.0.0/16", false)];
        assert_eq!(held(&covered, &["10.1.5.9"], 1000.0), Hold::Free);
        let both = [small.clone(), range("large", "10.1.0.0/16", true)];
        assert_eq!(held(&both, &["10.1.5.9"], 1000.0), Hold::Notice(GRACE));
        assert_eq!(held(&[small], &["10.1.6.1"], 2000.0), Hold::Free);
    }

    #[test]
    fn an_address_that_a_range_never_gives_is_not_its_own() {
        for (prefix, unused, used) in [
            ("172.20.8.0/22", ["172.20.8.0", "172.20.11.255"].as_slice(), "172.20.11.254"),
            ("fd12:34::/120", ["fd12:34::"].as_slice(), "fd12:34::ff"),
        ] {
            let gone = [range("a", prefix, true)];
            assert_eq!(held(&gone, unused, 2000.0), Hold::Free, "{prefix}");
            assert_eq!(held(&gone, &[unused, &[used]].concat(), 2000.0), by(1, used));
        }
        // What is the edge of a smaller range that stays is the larger one's alone.
        let both = [range("a", "172.20.8.0/22", true), range("b", "172.20.9.0/24", false)];
        for (address, blocks) in
            [("172.20.9.0", true), ("172.20.9.1", false), ("172.20.9.254", false), ("172.20.9.255", true)]
        {
            let found = held(&both, &[address], 2000.0);
            assert_eq!(found, if blocks { by(1, address) } else { Hold::Free }, "{address}");
        }
    }

    #[test]
    fn an_unused_range_goes_after_the_grace_period() {
        let gone = [range("a", "fd00::/112", true)];
        assert_eq!(held(&gone, &[], 1004.0), Hold::Notice(Duration::from_secs(6)));
        assert_eq!(held(&gone, &[], 1010.0), Hold::Free);
        assert_eq!(held(&gone, &["fd00::ffff"], 1010.0), by(1, "fd00::ffff"));
    }
}
