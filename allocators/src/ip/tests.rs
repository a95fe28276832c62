//! Tiny, overlapping, full and huge ranges, then random histories against a plain model.

use std::collections::BTreeSet;

use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rstest::rstest;

use super::*;
use crate::bands::address_band;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn rng() -> StdRng {
    StdRng::seed_from_u64(7)
}

fn ledger(ranges: &[(&str, &[&str])]) -> AddressLedger {
    let mut ledger = AddressLedger::new();
    for (name, cidrs) in ranges {
        let nets: Vec<_> = cidrs.iter().map(|c| net(c)).collect();
        ledger.set_range(name, &nets, RangeState::Ready).unwrap();
    }
    ledger
}

/// (CIDR, allocated, available) of every range.
fn usage(ledger: &AddressLedger) -> Vec<(String, u64, u64)> {
    ledger.usage().map(|u| (u.prefix.to_string(), u.allocated, u.available)).collect()
}

#[rstest]
#[case("10.96.4.0/24", 254)]
#[case("10.96.4.0/26", 62)]
#[case("10.20.0.32/27", 30)]
#[case("10.20.0.16/28", 14)]
#[case("10.20.0.8/29", 6)]
#[case("10.20.0.4/30", 2)]
#[case("10.20.0.2/31", 0)]
#[case("10.20.0.1/32", 0)]
#[case("fd00:21::/120", 255)]
#[case("fd00:21::/124", 15)]
#[case("fd00:21::/125", 7)]
#[case("fd00:21::/126", 3)]
#[case("fd00:21::/127", 1)]
#[case("fd00:21::/128", 0)]
fn a_range_is_used_up_upper_band_first(#[case] cidr: &str, #[case] usable: u64) {
    let mut ledger = ledger(&[("r", &[cidr])]);
    let prefix: ServicePrefix = cidr.parse().unwrap();
    let band = address_band(prefix.size());
    let mut rng = rng();
    for step in 0..usable {
        let address = ledger.choose(prefix.family(), &mut rng).unwrap();
        let is_upper = prefix.offset(address).unwrap() >= band;
        assert_eq!(is_upper, step < usable - band, "{address} in step {step}");
        assert_eq!(ledger.check(address), Ok(()));
        assert!(ledger.insert(address), "{address} was given twice");
        assert_eq!(usage(&ledger), [(cidr.to_owned(), step + 1, usable - step - 1)]);
    }
    assert_eq!(ledger.choose(prefix.family(), &mut rng), Err(AddressError::Full));
    if let Some(last) = prefix.last() {
        ledger.remove(last);
        assert_eq!(ledger.choose(prefix.family(), &mut rng), Ok(last));
    }
}

#[rstest]
#[case("fd00::/64")]
#[case("ffff:ffff:ffff:ffff::/64")]
#[case("10.0.0.0/8")]
fn a_huge_range_starts_in_its_upper_band(#[case] cidr: &str) {
    let mut ledger = ledger(&[("r", &[cidr])]);
    let prefix: ServicePrefix = cidr.parse().unwrap();
    let mut rng = rng();
    for _ in 0..2000 {
        let address = ledger.choose(prefix.family(), &mut rng).unwrap();
        assert!(prefix.offset(address).unwrap() >= 256);
        assert!(ledger.insert(address));
    }
    for address in [prefix.first().unwrap(), prefix.last().unwrap()] {
        assert!(ledger.insert(address));
        assert_eq!(ledger.check(address), Err(AddressError::Allocated));
    }
    assert_eq!(usage(&ledger), [(cidr.to_owned(), 2002, prefix.usable() - 2002)]);
}

/// Every free address of the upper band is chosen about as often as any other.
#[rstest]
#[case(&["10.0.0.0/24"])]
#[case(&["10.0.0.0/25", "10.0.0.128/25"])]
#[case(&["10.0.0.0/24", "10.0.0.64/26", "10.0.0.64/27"])]
fn choice_is_uniform(#[case] cidrs: &[&str]) {
    let mut ledger = AddressLedger::new();
    for cidr in cidrs {
        ledger.set_range(cidr, &[net(cidr)], RangeState::Ready).unwrap();
    }
    for n in (40..250).step_by(3) {
        ledger.insert(ip(&format!("10.0.0.{n}")));
    }
    let mut counts = std::collections::BTreeMap::<IpAddr, u32>::new();
    let mut rng = rng();
    let draws = 40_000_u32;
    for _ in 0..draws {
        *counts.entry(ledger.choose(Family::V4, &mut rng).unwrap()).or_default() += 1;
    }
    let expected = f64::from(draws) / f64::from(u32::try_from(counts.len()).unwrap());
    let chi_square: f64 = counts.values().map(|&n| (f64::from(n) - expected).powi(2) / expected).sum();
    let freedom = f64::from(u32::try_from(counts.len() - 1).unwrap());
    assert!(counts.len() > 100, "only {} addresses were ever chosen", counts.len());
    // The mean is `freedom`, the deviation the root of twice that; four of them are far out.
    assert!(chi_square < freedom + 4.0 * (2.0 * freedom).sqrt(), "chi-square {chi_square} for {freedom}");
}

#[test]
fn overlapping_ranges_count_an_address_in_each() {
    let mut ledger =
        ledger(&[("wide", &["10.0.0.0/24"]), ("narrow", &["10.0.0.128/26"]), ("far", &["10.9.0.0/28"])]);
    // The narrow range's network and broadcast addresses are ordinary ones of the wide range.
    for address in ["10.0.0.128", "10.0.0.130", "10.0.0.191", "10.0.0.5"] {
        assert_eq!(ledger.check(ip(address)), Ok(()));
        assert!(ledger.insert(ip(address)));
        assert_eq!(ledger.check(ip(address)), Err(AddressError::Allocated));
    }
    let counts = |wide, narrow, far| {
        vec![
            ("10.0.0.0/24".to_owned(), wide, 254 - wide),
            ("10.0.0.128/26".to_owned(), narrow, 62 - narrow),
            ("10.9.0.0/28".to_owned(), far, 14 - far),
        ]
    };
    assert_eq!(usage(&ledger), counts(4, 1, 0));
    ledger.remove(ip("10.0.0.130"));
    assert_eq!(usage(&ledger), counts(3, 0, 0));
}

#[test]
fn what_one_range_reserves_is_not_chosen_through_another() {
    let mut ledger = ledger(&[("wide", &["10.0.0.0/24"]), ("narrow", &["10.0.0.128/25"])]);
    let mut rng = rng();
    let lower = |a: &IpAddr| {
        ["10.0.0.0/24", "10.0.0.128/25"].iter().any(|c| {
            let prefix: ServicePrefix = c.parse().unwrap();
            prefix.offset(*a).is_some_and(|o| o < address_band(prefix.size()))
        })
    };
    let order: Vec<_> = std::iter::from_fn(|| {
        let address = ledger.choose(Family::V4, &mut rng).ok()?;
        ledger.insert(address).then_some(address)
    })
    .collect();
    assert_eq!(order.len(), 254);
    assert_eq!(order.iter().position(lower), Some(254 - 32));
    assert!(order[254 - 32..].iter().all(lower));
}

#[test]
fn a_later_range_knows_what_is_taken_already() {
    let mut ledger = AddressLedger::new();
    assert_eq!(ledger.choose(Family::V4, &mut rng()), Err(AddressError::Full));
    for address in ["10.1.0.3", "10.1.0.0", "10.1.0.15", "192.168.0.1", "0.0.0.0", "fd00::3"] {
        assert!(ledger.insert(ip(address)));
        assert!(!ledger.insert(ip(address)));
    }
    ledger.set_range("late", &[net("10.1.0.0/28"), net("fd00::/125")], RangeState::Ready).unwrap();
    let usage_of_late = [("10.1.0.0/28".to_owned(), 1, 13), ("fd00::/125".to_owned(), 1, 6)];
    assert_eq!(usage(&ledger), usage_of_late);
    ledger.remove_range("late");
    assert_eq!(usage(&ledger), []);
    assert!(ledger.contains(ip("10.1.0.3")));
    ledger.set_range("again", &[net("10.1.0.0/28"), net("fd00::/125")], RangeState::Ready).unwrap();
    assert_eq!(usage(&ledger), usage_of_late);
    assert!(ledger.remove(ip("0.0.0.0")) && !ledger.remove(ip("0.0.0.0")));
}

#[test]
fn a_full_range_grows_by_another() {
    let mut ledger = ledger(&[("kubernetes", &["10.97.0.0/28"])]);
    for n in 1..15 {
        ledger.insert(ip(&format!("10.97.0.{n}")));
    }
    assert_eq!(ledger.choose(Family::V4, &mut rng()), Err(AddressError::Full));
    ledger.set_range("more", &[net("10.97.8.0/26")], RangeState::Ready).unwrap();
    let chosen = ledger.choose(Family::V4, &mut rng()).unwrap();
    assert!(net("10.97.8.0/26").contains(&chosen));
    let interval = "provided IP can not be given to a Service, \
                    the usable addresses of 10.97.8.0/26 are 10.97.8.1 to 10.97.8.62";
    for address in ["10.97.8.0", "10.97.8.63"] {
        assert_eq!(ledger.check(ip(address)).unwrap_err().to_string(), interval);
    }
    assert_eq!(ledger.check(ip("10.97.8.1")), Ok(()));
}

#[rstest]
#[case("10.96.0.0/12", "10.96.0.0")]
#[case("10.96.0.0/12", "10.111.255.255")]
#[case("10.96.0.0/12", "10.112.0.1")]
#[case("10.96.0.0/12", "fd00::1")]
#[case("fd00:21::/124", "fd00:21::")]
fn outside_of_the_only_range(#[case] cidr: &str, #[case] address: &str) {
    let ledger = ledger(&[("kubernetes", &[cidr])]);
    assert_eq!(
        ledger.check(ip(address)).unwrap_err().to_string(),
        "the provided network does not match the current range"
    );
}

#[rstest]
#[case(RangeState::NotReady)]
#[case(RangeState::Deleting)]
fn a_range_that_is_not_ready_gives_nothing(#[case] state: RangeState) {
    let mut ledger = ledger(&[("r", &["10.0.0.0/28"])]);
    ledger.insert(ip("10.0.0.3"));
    ledger.set_range("r", &[net("10.0.0.0/28")], state).unwrap();
    assert_eq!(ledger.choose(Family::V4, &mut rng()), Err(AddressError::Full));
    assert_eq!(ledger.check(ip("10.0.0.4")), Err(AddressError::MismatchedNetwork));
    assert_eq!(ledger.usage().next().map(|u| (u.ready, u.allocated)), Some((false, 1)));
    assert!(ledger.remove(ip("10.0.0.3")), "what it gave before can be given back");
    // A second ServiceCIDR with the same CIDR brings it back; it still is one range.
    ledger.set_range("s", &[net("10.0.0.0/28")], RangeState::Ready).unwrap();
    assert_eq!(ledger.check(ip("10.0.0.4")), Ok(()));
    assert_eq!(usage(&ledger), [("10.0.0.0/28".to_owned(), 0, 14)]);
}

#[test]
fn a_second_family_can_be_added_to_a_range() {
    let mut ledger = ledger(&[("r", &["10.0.0.0/28"])]);
    assert!(!ledger.has_ranges(Family::V6));
    ledger.set_range("r", &[net("10.0.0.0/28"), net("fd00::/112")], RangeState::Ready).unwrap();
    assert!(ledger.has_ranges(Family::V6));
    assert!(net("fd00::/112").contains(&ledger.choose(Family::V6, &mut rng()).unwrap()));
}

#[test]
fn a_range_that_is_too_large_is_told_and_the_other_one_used() {
    let mut ledger = AddressLedger::new();
    let error = ledger.set_range("r", &[net("fd00::/48"), net("10.0.0.0/28")], RangeState::Ready);
    assert_eq!(error, Err(PrefixError::TooShort(48)));
    assert_eq!(usage(&ledger), [("10.0.0.0/28".to_owned(), 0, 14)]);
}

#[test]
fn dry_runs_look_at_ranges_only() {
    let mut ledger = ledger(&[("r", &["10.96.0.0/12"]), ("s", &["10.200.0.0/24"])]);
    ledger.insert(ip("10.96.0.10"));
    assert_eq!(ledger.check_dry_run(ip("10.96.0.10")), Ok(()));
    assert_eq!(ledger.check_dry_run(ip("10.200.0.10")), Ok(()));
    assert_eq!(
        ledger.check_dry_run(ip("10.112.0.1")).unwrap_err().to_string(),
        "provided IP is not in the valid range. The range of valid IPs is 10.96.0.0/12"
    );
    assert_eq!(ledger.placeholder(Family::V4), Ok(ip("10.96.0.0")));
    assert_eq!(ledger.placeholder(Family::V6), Err(AddressError::Full));
}

#[rstest]
#[case(json(None, false), RangeState::Ready)]
#[case(json(Some("True"), false), RangeState::Ready)]
#[case(json(Some("False"), false), RangeState::NotReady)]
#[case(json(Some("True"), true), RangeState::Deleting)]
fn the_state_of_an_object(#[case] cidr: ServiceCIDR, #[case] expected: RangeState) {
    assert_eq!(RangeState::of(&cidr), expected);
    let mut ledger = AddressLedger::new();
    ledger.set_service_cidr(&cidr).unwrap();
    assert_eq!(ledger.check(ip("10.0.0.1")).is_ok(), expected == RangeState::Ready);
}

fn json(ready: Option<&str>, deleting: bool) -> ServiceCIDR {
    let time = "2026-01-01T00:00:00Z";
    let condition = ready.map(|status| {
        serde_json::json!([{"type": "Ready", "status": status, "reason": "", "message": "", "lastTransitionTime": time}])
    });
    serde_json::from_value(serde_json::json!({
        "metadata": {"name": "r", "deletionTimestamp": deleting.then_some(time)},
        "spec": {"cidrs": ["10.0.0.0/28"]},
        "status": {"conditions": condition},
    }))
    .unwrap()
}

/// A source of randomness that counts what is drawn from it.
struct Counting(StdRng, u32);

impl rand::rand_core::TryRng for Counting {
    type Error = std::convert::Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        self.1 += 1;
        self.0.try_next_u32()
    }

    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        self.1 += 1;
        self.0.try_next_u64()
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
        self.1 += 1;
        self.0.try_fill_bytes(bytes)
    }
}

/// A choice draws one number, however full the range is: nothing is tried and thrown away.
#[test]
fn nothing_probes() {
    let mut ledger = ledger(&[("r", &["10.0.0.0/20"])]);
    let mut rng = Counting(rng(), 0);
    let mut choices = 0;
    while let Ok(address) = ledger.choose(Family::V4, &mut rng) {
        ledger.insert(address);
        choices += 1;
        // The last bits of evenness may cost a second draw once in some 2^40 choices.
        assert_eq!(rng.1, choices, "draws after {choices} choices");
    }
    assert_eq!(choices, 4094);
}

/// Memory of the two rows that issue 2 names.
#[test]
fn a_large_range_stays_small() {
    let mut ledger = ledger(&[("r", &["10.96.0.0/12"])]);
    let mut rng = rng();
    for _ in 0..50_000 {
        let address = ledger.choose(Family::V4, &mut rng).unwrap();
        ledger.insert(address);
    }
    assert!(ledger.heap_bytes() < 1 << 20, "{} bytes with 50,000 taken", ledger.heap_bytes());
    let prefix: ServicePrefix = "10.96.0.0/12".parse().unwrap();
    for address in (0..prefix.usable()).filter_map(|n| prefix.address(n)) {
        ledger.insert(address);
    }
    assert_eq!(ledger.choose(Family::V4, &mut rng), Err(AddressError::Full));
    assert!(ledger.heap_bytes() < 256 << 10, "{} bytes when full", ledger.heap_bytes());
}

/// CIDRs that overlap in every way: same, inside, side by side, of both families.
const POOL: [&str; 9] = [
    "10.0.0.0/26",
    "10.0.0.0/27",
    "10.0.0.32/27",
    "10.0.0.16/28",
    "10.0.0.60/30",
    "10.0.0.0/25",
    "fd00::/122",
    "fd00::20/123",
    "fd00::3c/127",
];

#[derive(Debug, Clone)]
enum Step {
    SetRange { name: u8, pool: Vec<usize>, state: RangeState },
    RemoveRange(u8),
    Insert(IpAddr),
    Remove(IpAddr),
    Choose(Family),
}

fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        (0_u8..140).prop_map(|n| IpAddr::from([10, 0, 0, n])),
        (0_u16..70).prop_map(|n| IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, n])),
    ]
}

fn family() -> impl Strategy<Value = Family> {
    prop_oneof![Just(Family::V4), Just(Family::V6)]
}

fn step() -> impl Strategy<Value = Step> {
    let state = prop_oneof![3 => Just(RangeState::Ready), 1 => Just(RangeState::NotReady), 1 => Just(RangeState::Deleting)];
    let pool = prop::collection::vec(0..POOL.len(), 1..3);
    prop_oneof![
        2 => (0_u8..4, pool, state).prop_map(|(name, pool, state)| Step::SetRange { name, pool, state }),
        1 => (0_u8..4).prop_map(Step::RemoveRange),
        4 => address().prop_map(Step::Insert),
        3 => address().prop_map(Step::Remove),
        6 => family().prop_map(Step::Choose),
    ]
}

/// Everything as plain lists.
#[derive(Default)]
struct Model {
    ranges: Vec<(u8, ServicePrefix, RangeState)>,
    taken: BTreeSet<IpAddr>,
}

impl Model {
    fn ready(&self) -> impl Iterator<Item = ServicePrefix> + '_ {
        self.ranges.iter().filter(|r| r.2 == RangeState::Ready).map(|r| r.1)
    }

    /// The free addresses that may be chosen now: upper ones, or else lower ones.
    fn candidates(&self, family: Family) -> BTreeSet<IpAddr> {
        let all: BTreeSet<IpAddr> = self
            .ready()
            .filter(|p| p.family() == family)
            .flat_map(|p| (0..p.usable()).filter_map(move |n| p.address(n)))
            .filter(|a| !self.taken.contains(a))
            .collect();
        let is_lower =
            |a: &IpAddr| self.ready().any(|p| p.offset(*a).is_some_and(|o| o < address_band(p.size())));
        let upper: BTreeSet<_> = all.iter().copied().filter(|a| !is_lower(a)).collect();
        if upper.is_empty() { all } else { upper }
    }

    fn usage(&self) -> BTreeSet<(String, u64, u64)> {
        let count = |p: &ServicePrefix| self.taken.iter().filter(|a| p.offset(**a).is_some()).count() as u64;
        self.ranges.iter().map(|(_, p, _)| (p.to_string(), count(p), p.usable() - count(p))).collect()
    }
}

proptest! {
    #[test]
    fn agrees_with_plain_lists(steps in prop::collection::vec(step(), 1..80), seed in any::<u64>()) {
        let mut ledger = AddressLedger::new();
        let mut model = Model::default();
        let mut rng = StdRng::seed_from_u64(seed);
        for step in steps {
            match step {
                Step::SetRange { name, pool, state } => {
                    let cidrs: BTreeSet<&str> = pool.iter().map(|&i| POOL[i]).collect();
                    let nets: Vec<IpNet> = cidrs.iter().map(|c| net(c)).collect();
                    ledger.set_range(&name.to_string(), &nets, state).unwrap();
                    model.ranges.retain(|r| r.0 != name);
                    model.ranges.extend(cidrs.iter().map(|c| (name, c.parse().unwrap(), state)));
                }
                Step::RemoveRange(name) => {
                    ledger.remove_range(&name.to_string());
                    model.ranges.retain(|r| r.0 != name);
                }
                Step::Insert(a) => prop_assert_eq!(ledger.insert(a), model.taken.insert(a)),
                Step::Remove(a) => prop_assert_eq!(ledger.remove(a), model.taken.remove(&a)),
                Step::Choose(family) => {
                    let candidates = model.candidates(family);
                    match ledger.choose(family, &mut rng) {
                        Ok(a) => {
                            prop_assert!(candidates.contains(&a), "{} is not one of {:?}", a, candidates);
                            prop_assert_eq!(ledger.check(a), Ok(()));
                            ledger.insert(a);
                            model.taken.insert(a);
                        }
                        Err(error) => {
                            prop_assert_eq!(error, AddressError::Full);
                            prop_assert!(candidates.is_empty());
                        }
                    }
                }
            }
            let usage = usage(&ledger);
            prop_assert_eq!(usage.len(), model.usage().len(), "a CIDR is told once");
            prop_assert_eq!(usage.into_iter().collect::<BTreeSet<_>>(), model.usage());
        }
        for n in 0..=255 {
            let a = IpAddr::from([10, 0, 0, n]);
            let usable = model.ready().any(|p| p.offset(a).is_some());
            prop_assert_eq!(ledger.contains(a), model.taken.contains(&a));
            prop_assert_eq!(ledger.check(a).is_ok(), usable && !model.taken.contains(&a));
        }
    }
}
