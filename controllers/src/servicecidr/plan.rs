//! What a ServiceCIDR needs: pure functions.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use foldhash::HashMap;
use ipnet::IpNet;

use super::state::Cidr;
use crate::text::Text;

/// Allocators may take so long to notice that a range is being deleted.
pub const GRACE: Duration = Duration::from_secs(10);

/// What the condition Ready says of a range that can be used.
pub const READY: &str = "Kubernetes Service CIDR is ready";
/// Why it is not true of one that is deleted.
pub const TERMINATING: &str = "Terminating";
/// What it says of one that is deleted and cannot go.
pub const BLOCKED: &str =
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR";

/// What a ServiceCIDR needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing.
    Nothing,
    /// The finalizer.
    Finalizer,
    /// The condition Ready.
    Ready,
    /// The condition that says that addresses hold it.
    Blocked {
        /// How many addresses would be in no range.
        addresses: usize,
        /// One of them.
        example: IpAddr,
    },
    /// Another look, when allocators must have noticed the deletion.
    Wait(Duration),
    /// Its finalizer taken off, so that it goes.
    Release,
}

/// What the ServiceCIDR of this name needs at a time, in seconds since 1970.
#[must_use]
pub(crate) fn need(name: &Text, cidrs: &HashMap<Text, Cidr>, addresses: &BTreeSet<IpAddr>, now: f64) -> Need {
    let Some(cidr) = cidrs.get(name) else { return Need::Nothing };
    let Some(deleted) = cidr.deleted else {
        let right = cidr.is_saying(true, "", READY);
        return match (cidr.has_finalizer(), right) {
            (false, _) => Need::Finalizer,
            (true, true) => Need::Nothing,
            (true, false) => Need::Ready,
        };
    };
    if !cidr.has_finalizer() {
        return Need::Nothing;
    }
    // What is allocated in the meantime lies in the other range as well: nothing to wait for.
    if is_covered(name, cidr, cidrs, |other| other.deleted.is_none()) {
        return Need::Release;
    }
    if !is_covered(name, cidr, cidrs, |_| true)
        && let Some((addresses, example)) = orphans(name, cidr, cidrs, addresses)
    {
        let told = cidr.is_saying(false, TERMINATING, BLOCKED);
        return if told { Need::Nothing } else { Need::Blocked { addresses, example } };
    }
    #[allow(clippy::cast_precision_loss)] // seconds since 1970
    let left = deleted as f64 + GRACE.as_secs_f64() - now;
    if left > 0.0 {
        Need::Wait(Duration::from_secs_f64(left.min(GRACE.as_secs_f64())))
    } else {
        Need::Release
    }
}

/// Whether every prefix is part of another ServiceCIDR that counts, which then has all its addresses.
fn is_covered(name: &Text, cidr: &Cidr, cidrs: &HashMap<Text, Cidr>, counts: impl Fn(&Cidr) -> bool) -> bool {
    let others = || {
        cidrs.iter().filter(|(other, c)| *other != name && counts(c)).flat_map(|(_, other)| &other.prefixes)
    };
    !cidr.prefixes.is_empty()
        && cidr.prefixes.iter().all(|prefix| others().any(|other| other.contains(prefix)))
}

/// The addresses that a Service may have of this range and of no other.
fn orphans(
    name: &Text,
    cidr: &Cidr,
    cidrs: &HashMap<Text, Cidr>,
    addresses: &BTreeSet<IpAddr>,
) -> Option<(usize, IpAddr)> {
    let elsewhere = |ip: &IpAddr| {
        cidrs.iter().any(|(other, c)| other != name && c.prefixes.iter().any(|p| gives(p, *ip)))
    };
    let inside = |prefix: &IpNet| addresses.range(prefix.network()..=last(prefix));
    let own = |prefix| inside(prefix).filter(move |ip| gives(prefix, **ip) && !elsewhere(ip));
    let mut found = cidr.prefixes.iter().flat_map(own);
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

    fn cidr(prefix: &str, deleted: bool) -> Cidr {
        Cidr {
            prefixes: vec![prefix.parse().unwrap()],
            deleted: deleted.then_some(1000),
            finalizers: vec![crate::keys::SERVICE_CIDR_FINALIZER.to_owned()],
            ready: Some(true),
            ..Cidr::default()
        }
    }

    fn need_of(name: &str, cidrs: &[(&str, Cidr)], addresses: &[&str], now: f64) -> Need {
        let cidrs = cidrs.iter().map(|(name, cidr)| ((*name).into(), cidr.clone())).collect();
        let addresses = addresses.iter().map(|a| a.parse().unwrap()).collect();
        need(&name.into(), &cidrs, &addresses, now)
    }

    #[test]
    fn a_range_with_addresses_of_its_own_stays() {
        let small = cidr("10.1.5.0/24", true);
        let blocked = Need::Blocked { addresses: 2, example: "10.1.5.9".parse().unwrap() };
        let found =
            need_of("small", &[("small", small.clone())], &["10.1.5.9", "10.1.5.10", "10.1.6.1"], 2000.0);
        assert_eq!(found, blocked);
        let covered = [("small", small.clone()), ("large", cidr("10.1.0.0/16", false))];
        assert_eq!(need_of("small", &covered, &["10.1.5.9"], 1000.0), Need::Release);
        let both = [("small", small.clone()), ("large", cidr("10.1.0.0/16", true))];
        assert_eq!(need_of("small", &both, &["10.1.5.9"], 1000.0), Need::Wait(GRACE));
        assert_eq!(need_of("small", &[("small", small)], &["10.1.6.1"], 2000.0), Need::Release);
    }

    #[test]
    fn an_address_that_a_range_never_gives_is_not_its_own() {
        for (prefix, unused, used) in [
            ("172.20.8.0/22", ["172.20.8.0", "172.20.11.255"].as_slice(), "172.20.11.254"),
            ("fd12:34::/120", ["fd12:34::"].as_slice(), "fd12:34::ff"),
        ] {
            let gone = [("a", cidr(prefix, true))];
            assert_eq!(need_of("a", &gone, unused, 2000.0), Need::Release, "{prefix}");
            let found = need_of("a", &gone, &[unused, &[used]].concat(), 2000.0);
            assert_eq!(found, Need::Blocked { addresses: 1, example: used.parse().unwrap() });
        }
        // What is the edge of a smaller range that stays is the larger one's alone.
        let both = [("a", cidr("172.20.8.0/22", true)), ("b", cidr("172.20.9.0/24", false))];
        for (address, blocks) in
            [("172.20.9.0", true), ("172.20.9.1", false), ("172.20.9.254", false), ("172.20.9.255", true)]
        {
            let found = need_of("a", &both, &[address], 2000.0);
            assert_eq!(matches!(found, Need::Blocked { .. }), blocks, "{address}: {found:?}");
            assert!(blocks || found == Need::Release, "{address}: {found:?}");
        }
    }

    #[test]
    fn a_condition_that_somebody_changed_is_put_right() {
        let mut live = cidr("10.1.0.0/16", false);
        live.told = READY.to_owned();
        assert_eq!(need_of("a", &[("a", live.clone())], &[], 2000.0), Need::Nothing);
        live.reason = "Made".to_owned();
        assert_eq!(need_of("a", &[("a", live)], &[], 2000.0), Need::Ready);

        let mut blocked = cidr("10.1.0.0/16", true);
        (blocked.ready, blocked.told) = (Some(false), BLOCKED.to_owned());
        blocked.reason = TERMINATING.to_owned();
        assert_eq!(need_of("a", &[("a", blocked.clone())], &["10.1.0.7"], 2000.0), Need::Nothing);
        blocked.reason.clear();
        let need = need_of("a", &[("a", blocked)], &["10.1.0.7"], 2000.0);
        assert!(matches!(need, Need::Blocked { addresses: 1, .. }), "{need:?}");
    }

    #[test]
    fn an_unused_range_goes_after_the_grace_period() {
        let gone = [("a", cidr("fd00::/112", true))];
        assert_eq!(need_of("a", &gone, &[], 1004.0), Need::Wait(Duration::from_secs(6)));
        assert_eq!(need_of("a", &gone, &[], 1010.0), Need::Release);
        assert_eq!(
            need_of("a", &gone, &["fd00::ffff"], 1010.0),
            Need::Blocked { addresses: 1, example: "fd00::ffff".parse().unwrap() }
        );
    }
}
