//! Bands, holders and sharing, then random histories against a plain model.

use std::collections::BTreeSet;

use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rstest::rstest;

use super::*;

const UDP: Protocols = Protocols(2);

fn ledger(range: &str) -> PortLedger {
    PortLedger::new(range.parse().unwrap(), PortSharing::WithinService)
}

fn owner(name: &str) -> ServiceKey {
    ServiceKey::new("default", name)
}

#[rstest]
#[case("30000-32767", 86)]
#[case("30000-30127", 16)]
#[case("30000-30031", 16)]
#[case("30000-30016", 16)]
#[case("30000-30015", 0)]
#[case("30000-30005", 0)]
#[case("30000", 0)]
#[case("1-65535", 128)]
fn a_range_is_used_up_upper_band_first(#[case] range: &str, #[case] band: u16) {
    let mut ledger = ledger(range);
    let (first, size) = (ledger.range().first(), ledger.range().size());
    assert_eq!((ledger.allocated(), ledger.available()), (0, u64::from(size)));
    let mut rng = StdRng::seed_from_u64(3);
    for step in 0..size {
        let port = ledger.choose(&[], &mut rng).unwrap();
        assert_eq!(port >= first + band, step < size - u32::from(band), "{port} in step {step}");
        assert!(!ledger.contains(port), "{port} was given twice");
        ledger.hold(port, &owner("a"), Protocols::TCP);
        assert_eq!(ledger.allocated(), u64::from(step) + 1);
    }
    assert_eq!(ledger.choose(&[], &mut rng), Err(PortError::Full));
    assert_eq!(ledger.available(), 0);
}

#[test]
fn choice_leaves_out_the_exceptions_and_stays_uniform() {
    let mut ledger = ledger("30000-30031");
    ledger.hold(30020, &owner("a"), Protocols::TCP);
    let except = [30003, 30018, 30020, 30031];
    let mut counts = std::collections::BTreeMap::<u16, u32>::new();
    let mut rng = StdRng::seed_from_u64(3);
    for _ in 0..13_000 {
        *counts.entry(ledger.choose(&except, &mut rng).unwrap()).or_default() += 1;
    }
    let expected: Vec<u16> = (30016..=30031).filter(|p| ![30018, 30020, 30031].contains(p)).collect();
    assert_eq!(counts.keys().copied().collect::<Vec<_>>(), expected);
    assert!(counts.values().all(|n| (850..1150).contains(n)), "{counts:?}");
}

#[test]
fn exceptions_fill_a_band() {
    let ledger = ledger("30000-30031");
    let upper: Vec<u16> = (30016..=30031).collect();
    let port = ledger.choose(&upper, &mut StdRng::seed_from_u64(3)).unwrap();
    assert!(port < 30016);
    let all: Vec<u16> = (30000..=30031).collect();
    assert_eq!(ledger.choose(&all, &mut StdRng::seed_from_u64(3)), Err(PortError::Full));
}

#[rstest]
#[case(29999)]
#[case(32768)]
#[case(80)]
#[case(-5)]
#[case(70_000)]
fn numbers_outside_of_the_range(#[case] number: i32) {
    assert_eq!(
        ledger("30000-32767").check_range(number).unwrap_err().to_string(),
        "provided port is not in the valid range. The range of valid ports is 30000-32767"
    );
}

#[rstest]
#[case(Protocols::TCP, Protocols::TCP, "provided port is already allocated")]
#[case(UDP, Protocols::TCP, "provided port is already allocated: Service default/d2 holds it for UDP")]
#[case(
    Protocols::TCP.and(UDP),
    UDP,
    "provided port is already allocated: Service default/d2 holds it for TCP and UDP"
)]
fn a_held_port_names_its_owner_unless_all_is_the_same(
    #[case] held: Protocols,
    #[case] asked: Protocols,
    #[case] message: &str,
) {
    let mut ledger = ledger("30000-32767");
    ledger.hold(30053, &owner("d2"), held);
    assert_eq!(ledger.check_holders(30053, asked, None).unwrap_err().to_string(), message);
}

#[test]
fn protocols_share_a_number_when_the_setting_says_so() {
    let mut ledger = PortLedger::new(NodePortRange::default(), PortSharing::PerProtocol);
    let (a, b) = (owner("a"), owner("b"));
    ledger.hold(30053, &a, Protocols::TCP);
    assert!(ledger.check_holders(30053, Protocols::TCP, Some(&b)).is_err());
    assert!(ledger.check_holders(30053, Protocols::TCP.and(UDP), Some(&b)).is_err());
    assert_eq!(ledger.check_holders(30053, Protocols::TCP, Some(&a)), Ok(()));
    assert_eq!(ledger.check_holders(30053, UDP, Some(&b)), Ok(()));
    ledger.hold(30053, &b, UDP);
    assert_eq!(ledger.allocated(), 1, "one number");
    ledger.release(30053, &a);
    assert!(ledger.contains(30053), "its last user is still there");
    assert_eq!(ledger.check_holders(30053, Protocols::TCP, Some(&a)), Ok(()));
    ledger.release(30053, &b);
    assert_eq!((ledger.contains(30053), ledger.allocated()), (false, 0));
}

#[test]
fn ports_of_another_range_are_remembered_and_not_counted() {
    let mut ledger = ledger("30000-30031");
    ledger.hold(20000, &owner("old"), Protocols::TCP);
    assert_eq!(ledger.holders(20000).len(), 1);
    assert_eq!((ledger.allocated(), ledger.available()), (0, 32));
    ledger.release(20000, &owner("other"));
    assert!(ledger.contains(20000));
    ledger.release(20000, &owner("old"));
    assert!(!ledger.contains(20000) && ledger.held().next().is_none());
}

#[test]
fn ranges_come_and_go_while_ports_are_held() {
    let mut ledger = ledger("30000-30009");
    let range = |text: &str| text.parse().unwrap();
    ledger.hold(30105, &owner("a"), Protocols::TCP);
    assert!(ledger.check_range(30105).is_err());
    ledger.set_range("more", range("30100-30109"), Role::Dynamic, Some(4));
    assert_eq!((ledger.allocated(), ledger.available()), (1, 19));
    assert_eq!(ledger.ranges().to_string(), "30000-30009, 30100-30109");
    assert_eq!(ledger.fill("more"), Some([(0, 4), (1, 5)]));
    let mut rng = StdRng::seed_from_u64(3);
    for step in 0..19 {
        let port = ledger.choose(&[], &mut rng).unwrap();
        assert_eq!((30100..30104).contains(&port), step >= 15, "the lower band comes last: {port}");
        ledger.hold(port, &owner("b"), Protocols::TCP);
    }
    assert_eq!(ledger.choose(&[], &mut rng), Err(PortError::Full));
    ledger.remove_range("kubernetes");
    assert_eq!((ledger.allocated(), ledger.available()), (10, 0));
    assert!(ledger.contains(30001), "what is held stays held");
}

#[test]
fn a_role_says_what_ports_are_for() {
    let mut ledger = ledger("30000-30019");
    let range = |text: &str| text.parse().unwrap();
    ledger.set_range("fixed", range("30005-30014"), Role::StaticOnly, None);
    ledger.set_range("mine", range("30010-30012"), Role::Excluded, None);
    let mut rng = StdRng::seed_from_u64(3);
    for _ in 0..100 {
        let port = ledger.choose(&[], &mut rng).unwrap();
        assert!(!(30005..=30014).contains(&port), "{port}");
    }
    assert_eq!(ledger.check_range(30006), Ok(()));
    let refused = ledger.check_range(30011).unwrap_err().to_string();
    assert_eq!(
        refused,
        "provided port is not in the valid range. The range of valid ports is 30000-30019, 30005-30014"
    );
    ledger.set_range("mine", range("30010-30012"), Role::Dynamic, None);
    assert_eq!(ledger.check_range(30011), Ok(()));
    assert_eq!(ledger.available(), 20);
}

#[rstest]
#[case("", "TCP")]
#[case("UDP", "UDP")]
#[case("SCTP", "SCTP")]
#[case("tcp", "an unknown protocol")]
fn protocol_names(#[case] name: &str, #[case] shown: &str) {
    assert_eq!(Protocols::named(name).to_string(), shown);
}

proptest! {
    #[test]
    fn counters_equal_a_recount(
        steps in prop::collection::vec((0_u16..60, 0_usize..3, any::<bool>(), 1_u8..8), 1..120),
        seed in any::<u64>(),
    ) {
        let mut ledger = PortLedger::new("30000-30049".parse().unwrap(), PortSharing::PerProtocol);
        let owners = [owner("a"), owner("b"), owner("c")];
        let mut held = BTreeSet::new();
        let mut rng = StdRng::seed_from_u64(seed);
        for (port, who, takes, protocols) in steps {
            let port = 29_995 + port;
            if takes {
                ledger.hold(port, &owners[who], Protocols(protocols));
                held.insert((port, who));
            } else {
                ledger.release(port, &owners[who]);
                held.remove(&(port, who));
            }
            let ports: BTreeSet<u16> = held.iter().map(|(p, _)| *p).collect();
            let inside = ports.iter().filter(|p| (30_000..=30_049).contains(*p)).count() as u64;
            prop_assert_eq!((ledger.allocated(), ledger.available()), (inside, 50 - inside));
            for port in 29_990..30_070 {
                prop_assert_eq!(ledger.holders(port).len(), held.iter().filter(|(p, _)| *p == port).count());
            }
            if let Ok(port) = ledger.choose(&[], &mut rng) {
                prop_assert!(!ports.contains(&port));
                let upper_free = (30_016..=30_049).any(|p| !ports.contains(&p));
                prop_assert_eq!(port >= 30_016, upper_free);
            }
        }
    }
}
