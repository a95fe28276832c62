//! Objects that several tests use, and looks at what became of them.

use service_controllers::keys;
use service_controllers::objects::{
    AddressWire, EndpointsWire, IpWire, MetaWire, PodWire, PortWire, ServiceWire, SliceWire, SubsetWire,
};

use crate::server::{Sim, pod, service};

/// A Service without selector.
pub(crate) fn bare(name: &str) -> ServiceWire {
    let mut service = service(name, "");
    service.spec.selector = None;
    service
}

pub(crate) fn endpoints(name: &str, ips: &[&str]) -> EndpointsWire {
    let address = |ip: &&str| AddressWire { ip: (*ip).into(), ..AddressWire::default() };
    EndpointsWire {
        kind: service_controllers::objects::KindWire::default(),
        metadata: MetaWire {
            name: name.into(),
            namespace: "default".into(),
            uid: format!("uid-of-endpoints-{name}"),
            ..MetaWire::default()
        },
        subsets: vec![SubsetWire {
            addresses: ips.iter().map(address).collect(),
            ports: vec![PortWire { port: Some(80), ..PortWire::default() }],
            ..SubsetWire::default()
        }],
    }
}

pub(crate) fn with_ip(mut pod: PodWire, ip: &str) -> PodWire {
    pod.status.pod_ip = ip.into();
    pod.status.pod_ips = vec![IpWire { ip: ip.into() }];
    pod
}

pub(crate) fn ready_since(pod: &mut PodWire, ready: bool, time: &str) {
    pod.status.conditions[0].status = if ready { "True" } else { "False" }.into();
    pod.status.conditions[0].last_transition_time = Some(time.into());
}

pub(crate) fn annotation<'a>(meta: &'a MetaWire, key: &str) -> Option<&'a str> {
    meta.annotations.0.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
}

pub(crate) fn only_slice<'a>(sim: &'a Sim, service: &'a str) -> &'a SliceWire {
    let mut slices = sim.slices_of(service);
    let slice = slices.next().unwrap();
    assert!(slices.next().is_none(), "one slice");
    slice
}

/// Somebody touches a Service without a change that concerns endpoints.
pub(crate) fn touch(sim: &mut Sim, name: &str) {
    sim.change_service(name, |s| s.metadata.annotations.0.push(("note".into(), "touched".into())));
}

/// A Service of two pods whose slice and Endpoints were written.
pub(crate) fn served() -> Sim {
    let mut sim = Sim::new(100);
    sim.pod(pod("p1", "web", "10.1.0.1"));
    sim.pod(pod("p2", "web", "10.1.0.2"));
    sim.service(service("web", "web"));
    sim.settle();
    sim
}

/// The time of the change behind the latest write of a Service's only slice and of its `Endpoints`.
pub(crate) fn triggers(sim: &Sim, service: &str) -> [Option<String>; 2] {
    let slice = annotation(&only_slice(sim, service).metadata, keys::TRIGGER_TIME);
    let endpoints = annotation(&sim.endpoints[service].metadata, keys::TRIGGER_TIME);
    [slice.map(str::to_owned), endpoints.map(str::to_owned)]
}
