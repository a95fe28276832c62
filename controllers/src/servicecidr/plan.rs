//! What a ServiceCIDR needs: pure functions.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;

use super::object::{Ready, ServiceCidr, TERMINATING};
use crate::cache::Seconds;
use crate::index::addresses::Parent;

/// The allocators of a real API server may take so long to notice that a range is being deleted.
pub const GRACE: Duration = Duration::from_secs(10);
/// The prefixes of an IPv6 range that addresses can be given from are at least so long (KEP-1880).
const LONGEST_HOST_PART: u8 = 64;
/// Of so many Services a range says that they hold it.
const NAMED: usize = 3;

/// What the condition Ready says of a range that can be used.
pub const READY: &str = "Kubernetes Service CIDR is ready";
/// How what it says of one that is deleted and cannot go begins.
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
        /// Whose they are, in their order.
        parents: Vec<Parent>,
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

/// What is said of a range with these prefixes.
#[must_use]
pub fn usable(prefixes: &[IpNet]) -> Ready {
    let large = prefixes.iter().find(|p| p.addr().is_ipv6() && p.prefix_len() < LONGEST_HOST_PART);
    match large {
        None => Ready { usable: true, reason: "", message: READY.to_owned() },
        Some(prefix) => Ready {
            usable: false,
            reason: "PrefixTooLarge",
            message: format!(
                "No address can be given from {prefix}: an IPv6 prefix of a ServiceCIDR has at least {LONGEST_HOST_PART} bits, \
                 please create a new ServiceCIDR with a part of it"
            ),
        },
    }
}

/// What is said of a range that is deleted and cannot go: who holds it.
#[must_use]
pub fn blocked(count: usize, parents: &[Parent]) -> Ready {
    let message = format!("{BLOCKED}: {}", holders(count, parents));
    Ready { usable: false, reason: TERMINATING, message }
}

/// How many addresses hold a range, and of which Services the first of them are.
#[must_use]
pub fn holders(count: usize, parents: &[Parent]) -> String {
    let names: BTreeSet<&Parent> = parents.iter().collect();
    let named: Vec<String> =
        names.iter().take(NAMED).map(|parent| format!("{}/{}", parent.namespace, parent.name)).collect();
    let more = match names.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let (addresses, services) = (
        if count == 1 { "address" } else { "addresses" },
        if names.len() == 1 { "Service" } else { "Services" },
    );
    format!("{count} {addresses} of {services} {}{more}", named.join(", "))
}

/// What holds `range`, whose deletion was asked for, among all `ranges` at a time, in seconds since 1970. Allocators have
/// `grace` to notice the deletion.
#[must_use]
pub fn hold(
    range: &Range,
    ranges: &[Range],
    addresses: &BTreeMap<IpAddr, Parent>,
    grace: Duration,
    now: f64,
) -> Hold {
    // What is allocated in the meantime lies in the other range as well: nothing to wait for.
    if is_covered(range, ranges, |other| other.deleted.is_none()) {
        return Hold::Free;
    }
    if !is_covered(range, ranges, |_| true)
        && let parents = orphans(range, ranges, addresses)
        && !parents.is_empty()
    {
        return Hold::Addresses { count: parents.len(), parents };
    }
    #[allow(clippy::cast_precision_loss)] // seconds since 1970
    let left = last_deletion(range, ranges) as f64 + grace.as_secs_f64() - now;
    if left > 0.0 { Hold::Notice(Duration::from_secs_f64(left.min(grace.as_secs_f64()))) } else { Hold::Free }
}

fn others<'a>(range: &'a Range, ranges: &'a [Range]) -> impl Iterator<Item = &'a Range> {
    ranges.iter().filter(|other| other.name != range.name)
}

/// When the deletion of a range was asked for, or of one that lies in it, or in which it lies, whichever is the last. They go
/// together: of two that went one after the other, the second would be held by the addresses that both have.
fn last_deletion(range: &Range, ranges: &[Range]) -> Seconds {
    let lies_in = |inner: &Range, outer: &Range| is_covered(inner, std::slice::from_ref(outer), |_| true);
    let nested = others(range, ranges).filter(|other| lies_in(other, range) || lies_in(range, other));
    nested.chain([range]).filter_map(|range| range.deleted).max().unwrap_or_default()
}

/// Whether every prefix is part of another ServiceCIDR that counts, which then has all its addresses.
fn is_covered(range: &Range, ranges: &[Range], counts: impl Fn(&Range) -> bool) -> bool {
    let others = || others(range, ranges).filter(|other| counts(other)).flat_map(|other| &other.prefixes);
    !range.prefixes.is_empty()
        && range.prefixes.iter().all(|prefix| others().any(|other| other.contains(prefix)))
}

/// The Services of the addresses that are of this range and of no other, one for each address.
fn orphans(range: &Range, ranges: &[Range], addresses: &BTreeMap<IpAddr, Parent>) -> Vec<Parent> {
    let elsewhere =
        |ip: &IpAddr| others(range, ranges).any(|other| other.prefixes.iter().any(|p| gives(p, *ip)));
    let inside = |prefix: &IpNet| addresses.range(prefix.network()..=last(prefix));
    let own = |prefix| inside(prefix).filter(move |(ip, _)| gives(prefix, **ip) && !elsewhere(ip));
    range.prefixes.iter().flat_map(own).map(|(_, parent)| parent.clone()).collect()
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
        let addresses = addresses.iter().map(|a| (a.parse().unwrap(), parent(a))).collect();
        hold(&ranges[0], ranges, &addresses, GRACE, now)
    }

    /// The Service of an address bears its name.
    fn parent(address: &str) -> Parent {
        Parent { namespace: "default".into(), name: address.into() }
    }

    fn by(addresses: &[&str]) -> Hold {
        Hold::Addresses { count: addresses.len(), parents: addresses.iter().map(|a| parent(a)).collect() }
    }

    #[test]
    fn a_range_that_cannot_go_says_who_holds_it() {
        let parents: Vec<Parent> = ["a", "b", "c", "d", "e", "a"].map(parent).into();
        assert_eq!(holders(1, &parents[..1]), "1 address of Service default/a");
        assert_eq!(
            holders(6, &parents),
            "6 addresses of Services default/a, default/b, default/c and 2 more"
        );
        let said = blocked(1, &parents[..1]);
        assert!(said.message.starts_with(BLOCKED) && said.message.ends_with("default/a"), "{said:?}");
    }

    #[test]
    fn nested_ranges_that_are_deleted_one_after_the_other_go_together() {
        let addresses = BTreeMap::from([("10.1.5.9".parse().unwrap(), parent("10.1.5.9"))]);
        let two = Duration::from_secs(2);
        let outer = range("outer", "10.1.0.0/16", true);
        let inner = Range { deleted: Some(1001), ..range("inner", "10.1.5.0/24", true) };
        let other = Range { deleted: Some(1009), ..range("other", "10.9.0.0/16", true) };
        let all = [outer.clone(), inner.clone(), other];
        for range in [&outer, &inner] {
            assert_eq!(hold(range, &all, &addresses, two, 1002.0), Hold::Notice(Duration::from_secs(1)));
            assert_eq!(hold(range, &all, &addresses, two, 1003.0), Hold::Free);
        }
    }

    #[test]
    fn a_range_that_is_too_large_is_not_ready() {
        for (prefixes, ready) in [
            (&["10.0.0.0/8"][..], true),
            (&["fd00::/64"], true),
            (&["fd00::/112", "10.1.0.0/16"], true),
            (&["10.1.0.0/16", "fd00::/56"], false),
            (&["fd00::/63"], false),
        ] {
            let prefixes: Vec<IpNet> = prefixes.iter().map(|p| p.parse().unwrap()).collect();
            assert_eq!(usable(&prefixes).usable, ready, "{prefixes:?}");
        }
    }

    #[test]
    fn how_long_allocators_have_depends_on_the_server() {
        let (gone, none) = ([range("a", "10.1.0.0/16", true)], BTreeMap::new());
        let two = Duration::from_secs(2);
        assert_eq!(hold(&gone[0], &gone, &none, two, 1000.5), Hold::Notice(Duration::from_millis(1500)));
        assert_eq!(hold(&gone[0], &gone, &none, two, 1002.0), Hold::Free);
    }

    #[test]
    fn a_range_with_addresses_of_its_own_stays() {
        let small = range("small", "10.1.5.0/24", true);
        let found = held(std::slice::from_ref(&small), &["10.1.5.9", "10.1.5.10", "10.1.6.1"], 2000.0);
        assert_eq!(found, by(&["10.1.5.9", "10.1.5.10"]));
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
            assert_eq!(held(&gone, &[unused, &[used]].concat(), 2000.0), by(&[used]));
        }
        // What is the edge of a smaller range that stays is the larger one's alone.
        let both = [range("a", "172.20.8.0/22", true), range("b", "172.20.9.0/24", false)];
        for (address, blocks) in
            [("172.20.9.0", true), ("172.20.9.1", false), ("172.20.9.254", false), ("172.20.9.255", true)]
        {
            let found = held(&both, &[address], 2000.0);
            assert_eq!(found, if blocks { by(&[address]) } else { Hold::Free }, "{address}");
        }
    }

    #[test]
    fn an_unused_range_goes_after_the_grace_period() {
        let gone = [range("a", "fd00::/112", true)];
        assert_eq!(held(&gone, &[], 1004.0), Hold::Notice(Duration::from_secs(6)));
        assert_eq!(held(&gone, &[], 1010.0), Hold::Free);
        assert_eq!(held(&gone, &["fd00::ffff"], 1010.0), by(&["fd00::ffff"]));
    }
}
