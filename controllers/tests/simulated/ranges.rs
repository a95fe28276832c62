//! What holds a ServiceCIDR that is deleted.

use std::net::IpAddr;

use service_controllers::index::Index;
use service_controllers::keys;
use service_controllers::objects::{IpAddressWire, MetaWire, Pairs};
use service_controllers::servicecidr::plan::{GRACE, Hold, Range, hold};

#[test]
fn only_addresses_of_the_allocators_hold_a_range() {
    for (family, held) in [(Some("IPv4"), true), (Some("IPv6"), false), (None, false)] {
        let range = Range {
            name: "extra".into(),
            prefixes: vec!["10.97.0.0/24".parse().unwrap()],
            deleted: Some(1_893_456_000),
        };
        let ip: IpAddr = "10.97.0.7".parse().unwrap();
        let mut labels = vec![(keys::IPADDRESS_MANAGED_BY.to_owned(), keys::IPADDRESS_MANAGER.to_owned())];
        labels.extend(family.map(|family| (keys::IP_FAMILY.to_owned(), family.to_owned())));
        let metadata = MetaWire { name: ip.to_string(), labels: Pairs(labels), ..MetaWire::default() };
        let mut index = Index::default();
        index.apply_address(&IpAddressWire { metadata, ..IpAddressWire::default() });
        let found = hold(&range, std::slice::from_ref(&range), &index.addresses, GRACE, 1_893_459_600.0);
        assert_eq!(found != Hold::Free, held, "{family:?}: {found:?}");
    }
}
