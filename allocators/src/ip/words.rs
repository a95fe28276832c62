//! What is said of the ranges when they can not give an address: which are full, which others there are, and which one
//! the address lies in that is asked for.
//!
//! Owns words only; they follow the sentence that upstream says.

use std::fmt::Write as _;
use std::net::IpAddr;

use super::{AddressLedger, RangeState};
use crate::prefix::{Family, ServicePrefix};

/// At most so many ranges are told one by one.
const TOLD: usize = 4;

/// How one range of one ServiceCIDR stands.
#[derive(Debug, Clone)]
pub(super) struct Standing {
    /// The ServiceCIDR.
    pub(super) owner: String,
    /// The range.
    pub(super) prefix: ServicePrefix,
    /// Whether it gives addresses.
    pub(super) state: RangeState,
    /// Its usable addresses that are taken.
    pub(super) taken: u64,
    /// Its usable addresses that are free.
    pub(super) free: u64,
}

impl Standing {
    fn usable(&self) -> u64 {
        self.taken.saturating_add(self.free)
    }

    /// Such as `10.96.0.0/30 (ServiceCIDR kubernetes) has 2 of 2 addresses taken`.
    fn words(&self) -> String {
        let Self { owner, prefix, taken, .. } = self;
        let state = match self.state {
            RangeState::Ready => "",
            RangeState::NotReady => " and is not ready",
            RangeState::Deleting => " and is being removed",
        };
        format!("{prefix} (ServiceCIDR {owner}) has {taken} of {} addresses taken{state}", self.usable())
    }
}

impl AddressLedger {
    /// What stands behind "range is full": the ranges of `family` with their size and use, and the others.
    pub(crate) fn fullness(&self, family: Family) -> String {
        let of = |wanted: Family| self.space(wanted).standings();
        let (ready, closed): (Vec<_>, Vec<_>) =
            of(family).into_iter().partition(|range| range.state == RangeState::Ready);
        let mut text = if ready.is_empty() {
            format!(": no {family} range is ready")
        } else {
            format!(": {}", told(&ready))
        };
        let others: Vec<Standing> = closed.into_iter().chain(of(crate::prefix::other(family))).collect();
        if !others.is_empty() {
            let _ = write!(text, "; other ranges: {}", told(&others));
        }
        text.push_str("; a further ServiceCIDR adds addresses");
        text
    }

    /// What stands behind "does not match the current range": the range that has `address` and does not give it away.
    /// Empty when there is none.
    pub(crate) fn closed_around(&self, address: IpAddr) -> String {
        let ranges = self.space(Family::of(address)).standings();
        let around = ranges.into_iter().filter(|range| range.prefix.covers(address));
        let closed = around.filter(|range| range.state != RangeState::Ready);
        let Some(Standing { owner, prefix, state, .. }) =
            closed.max_by_key(|range| range.prefix.net().prefix_len())
        else {
            return String::new();
        };
        match state {
            RangeState::Deleting => format!(
                ": {prefix} has it, but ServiceCIDR {owner} is terminating and gives no more addresses"
            ),
            _ => format!(": {prefix} has it, but ServiceCIDR {owner} is not ready and gives no addresses"),
        }
    }
}

fn told(ranges: &[Standing]) -> String {
    let mut words: Vec<String> = ranges.iter().take(TOLD).map(Standing::words).collect();
    if ranges.len() > TOLD {
        words.push(format!("{} more", ranges.len() - TOLD));
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(ranges: &[(&str, &str, RangeState)]) -> AddressLedger {
        let mut ledger = AddressLedger::new();
        for (name, range, state) in ranges {
            ledger.set_range(name, &[range.parse().unwrap()], *state).unwrap();
        }
        ledger
    }

    #[test]
    fn a_full_range_is_named_with_its_size_and_the_others() {
        let mut ledger = ledger(&[
            ("kubernetes", "10.20.0.0/30", RangeState::Ready),
            ("old", "10.21.0.0/30", RangeState::Deleting),
            ("six", "fd00::/112", RangeState::Ready),
        ]);
        for address in ["10.20.0.1", "10.20.0.2", "fd00::1"] {
            ledger.insert(address.parse().unwrap());
        }
        assert_eq!(
            ledger.fullness(Family::V4),
            ": 10.20.0.0/30 (ServiceCIDR kubernetes) has 2 of 2 addresses taken; other ranges: 10.21.0.0/30 (ServiceCIDR \
             old) has 0 of 2 addresses taken and is being removed, fd00::/112 (ServiceCIDR six) has 1 of 65535 addresses \
             taken; a further ServiceCIDR adds addresses"
        );
    }

    #[test]
    fn without_a_ready_range_that_is_said() {
        let ledger = ledger(&[("kubernetes", "10.20.0.0/30", RangeState::Deleting)]);
        let text = ledger.fullness(Family::V4);
        assert!(text.starts_with(": no IPv4 range is ready; other ranges: 10.20.0.0/30 "), "{text}");
    }

    #[test]
    fn many_ranges_are_counted() {
        let names: Vec<String> = (0..9).map(|n| format!("10.20.{n}.0/30")).collect();
        let ranges: Vec<_> =
            names.iter().map(|net| (net.as_str(), net.as_str(), RangeState::Ready)).collect();
        let text = ledger(&ranges).fullness(Family::V4);
        assert!(
            text.contains("10.20.3.0/30") && !text.contains("10.20.4.0/30") && text.contains("5 more"),
            "{text}"
        );
    }

    #[test]
    fn the_range_around_an_address_is_said_to_be_terminating() {
        let ledger = ledger(&[
            ("kubernetes", "10.96.0.0/24", RangeState::Ready),
            ("extra", "10.200.0.0/24", RangeState::Deleting),
        ]);
        let words = |address: &str| ledger.closed_around(address.parse().unwrap());
        assert_eq!(
            words("10.200.0.5"),
            ": 10.200.0.0/24 has it, but ServiceCIDR extra is terminating and gives no more addresses"
        );
        assert_eq!(words("10.96.0.5"), "");
        assert_eq!(words("10.97.0.5"), "");
    }
}
