//! What holds a ServiceCIDR that is deleted.

use std::net::IpAddr;

use service_controllers::keys;
use service_controllers::servicecidr::state::CidrStep;
use service_controllers::watch::objects::{CidrWire, IpAddressWire, MetaWire, Pairs};
use service_controllers::watch::world::{Limits, World};

#[test]
fn only_addresses_of_the_allocators_hold_a_range() {
    for (family, held) in [(Some("IPv4"), true), (Some("IPv6"), false), (None, false)] {
        let mut world = World::new(Limits::default());
        let mut cidr = CidrWire::default();
        cidr.metadata.name = "extra".into();
        cidr.metadata.uid = "uid-of-extra".into();
        cidr.metadata.resource_version = "5".into();
        cidr.metadata.deletion_timestamp = Some("2030-01-01T00:00:00Z".into());
        cidr.metadata.finalizers = vec![keys::SERVICE_CIDR_FINALIZER.into()];
        cidr.spec.cidrs = vec!["10.97.0.0/24".into()];
        world.cidr(cidr);
        let ip: IpAddr = "10.97.0.7".parse().unwrap();
        let mut labels = vec![(keys::IPADDRESS_MANAGED_BY.to_owned(), keys::IPADDRESS_MANAGER.to_owned())];
        labels.extend(family.map(|family| (keys::IP_FAMILY.to_owned(), family.to_owned())));
        let metadata = MetaWire { name: ip.to_string(), labels: Pairs(labels), ..MetaWire::default() };
        world.ip_address(&IpAddressWire { metadata });
        let now = "2030-01-01T01:00:00Z".parse().unwrap();
        let CidrStep::Send(job) = world.plan_cidr(&"extra".into(), now) else { panic!("a write is needed") };
        assert_eq!(job.write.status, held, "{family:?}: blocked in its status, or released");
    }
}
