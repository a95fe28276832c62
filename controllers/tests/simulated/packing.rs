//! How many writes a Service's slices cost and how large they become, from whatever is there:
//! Kubernetes' way of packing as a model, where its choices are not arbitrary.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use service_controllers::controller::{Controller, Key};
use service_controllers::endpointslice::state::REPACK_AFTER;
use service_controllers::keys;
use service_controllers::objects::{
    EndpointConditionsWire, EndpointWire, MetaWire, OwnerWire, Pairs, PortWire, RefWire, SliceWire,
};

use crate::server::{Fate, Sim, named_port, pod, service, with_ports};

const MAX: usize = 4;
/// Pods are in the groups 0 and 1; group 2 has a port that no pod has, and this one no port.
const NONE: u8 = 3;

/// A slice that is there: its port group, its endpoints by number of the pod and whether each is as
/// it should be.
#[derive(Clone, Debug)]
struct There {
    group: u8,
    members: Vec<(u8, bool)>,
    labelled: bool,
    owned: bool,
}

fn slice() -> impl Strategy<Value = There> {
    let members = prop::collection::vec((0..24_u8, prop::bool::weighted(0.8)), 0..7);
    let (labelled, owned) = (prop::bool::weighted(0.75), prop::bool::weighted(0.8));
    (0..=NONE, members, labelled, owned).prop_map(|(group, members, labelled, owned)| There {
        group,
        members,
        labelled,
        owned,
    })
}

/// Slices in which each pod is once: which of two copies goes is arbitrary.
fn there() -> impl Strategy<Value = Vec<There>> {
    prop::collection::vec(slice(), 0..6).prop_map(|mut found| {
        let mut used = BTreeSet::new();
        for slice in &mut found {
            slice.members.retain(|(pod, _)| used.insert(*pod));
        }
        found
    })
}

/// Writes by verb, and the sizes of the slices of each group that are left.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    creates: usize,
    updates: usize,
    deletes: usize,
    sizes: BTreeMap<u8, Vec<usize>>,
}

fn fill(size: &mut usize, rest: &mut usize) {
    let more = MAX.saturating_sub(*size).min(*rest);
    *size += more;
    *rest -= more;
}

/// Packs the pods `wanted` by their groups.
fn model(wanted: &BTreeMap<u8, BTreeSet<u8>>, found: &[There]) -> Outcome {
    let mut out = Outcome::default();
    let mut deleted: Vec<&There> = found.iter().filter(|s| !s.owned).collect();
    let mut created: Vec<(u8, usize)> = Vec::new();
    for (group, pods) in wanted {
        let (mut written, mut unchanged, mut rest) = (Vec::new(), Vec::new(), pods.len());
        for slice in found.iter().filter(|s| s.owned && s.group == *group) {
            let kept: Vec<_> = slice.members.iter().filter(|(pod, _)| pods.contains(pod)).collect();
            rest -= kept.len();
            let changed = kept.len() != slice.members.len() || kept.iter().any(|(_, right)| !right);
            match (changed, kept.len()) {
                (true, 0) => deleted.push(slice),
                (false, size) if slice.labelled => unchanged.push(size),
                (_, size) => written.push(size),
            }
        }
        written.sort_unstable_by(|a, b| b.cmp(a));
        for size in &mut written {
            fill(size, &mut rest);
        }
        while rest > 0 {
            let fits = |size: &&mut usize| rest < MAX && **size + rest <= MAX;
            if let Some(best) = unchanged.iter_mut().filter(fits).max() {
                written.push(*best + rest);
                let taken = *best;
                unchanged.remove(unchanged.iter().position(|size| *size == taken).unwrap());
                rest = 0;
            } else {
                created.push((*group, rest.min(MAX)));
                rest -= rest.min(MAX);
            }
        }
        out.updates += written.len();
        out.sizes.entry(*group).or_default().extend(written.into_iter().chain(unchanged));
    }
    deleted.extend(found.iter().filter(|s| s.owned && !wanted.contains_key(&s.group)));
    if found.len() == deleted.len() && created.is_empty() {
        match deleted[..] {
            [one] if one.group == NONE && one.members.is_empty() && one.labelled => {
                out.sizes.entry(NONE).or_default().push(0);
                deleted.clear();
            }
            _ => created.push((NONE, 0)),
        }
    }
    let recycled = deleted.iter().filter(|s| s.owned).count().min(created.len());
    out.updates += recycled;
    out.creates = created.len() - recycled;
    out.deletes = deleted.len() - recycled;
    for (group, size) in created {
        out.sizes.entry(group).or_default().push(size);
    }
    for sizes in out.sizes.values_mut() {
        sizes.sort_unstable();
    }
    out.sizes.retain(|_, sizes| !sizes.is_empty());
    out
}

fn number(group: u8) -> i32 {
    8080 + i32::from(group)
}

fn wire(index: usize, there: &There) -> SliceWire {
    let endpoint = |(i, right): &(u8, bool)| EndpointWire {
        addresses: vec![format!("10.1.0.{i}")],
        conditions: EndpointConditionsWire {
            ready: Some(*right),
            serving: Some(*right),
            terminating: Some(false),
        },
        target_ref: Some(RefWire {
            kind: Some("Pod".into()),
            namespace: Some("default".into()),
            name: Some(format!("p{i}")),
            uid: Some(format!("uid-of-p{i}-10.1.0.{i}")),
            ..RefWire::default()
        }),
        node_name: Some("n1".into()),
        zone: Some("zone-a".into()),
        ..EndpointWire::default()
    };
    let mut labels = vec![
        (keys::MANAGED_BY.to_owned(), keys::SLICE_MANAGER.to_owned()),
        (keys::SERVICE_NAME.to_owned(), "web".to_owned()),
    ];
    if !there.labelled {
        labels.push(("odd".into(), "label".into()));
    }
    labels.sort();
    let owner = OwnerWire {
        api_version: "v1".into(),
        kind: "Service".into(),
        name: "web".into(),
        uid: if there.owned { "uid-of-service-web" } else { "another" }.into(),
        ..OwnerWire::default()
    };
    let port = PortWire {
        name: Some(String::new()),
        protocol: Some("TCP".into()),
        port: Some(number(there.group)),
        ..PortWire::default()
    };
    SliceWire {
        kind: service_controllers::objects::KindWire::default(),
        metadata: MetaWire {
            name: format!("there-{index}"),
            namespace: "default".into(),
            uid: format!("uid-there-{index}"),
            labels: Pairs(labels),
            owner_references: vec![owner],
            ..MetaWire::default()
        },
        address_type: "IPv4".into(),
        endpoints: there.members.iter().map(endpoint).collect(),
        ports: if there.group == NONE { Vec::new() } else { vec![port] },
    }
}

fn ours(pods: &BTreeSet<u8>, found: &[There]) -> Outcome {
    let mut sim = Sim::new(MAX);
    for i in pods {
        let pod = pod(&format!("p{i}"), "web", &format!("10.1.0.{i}"));
        sim.pod(with_ports(pod, &[("http", number(i % 2), "TCP")]));
    }
    for (index, there) in found.iter().enumerate() {
        sim.foreign_slice(wire(index, there));
    }
    let mut web = service("web", "web");
    web.spec.ports = vec![named_port("", 80, "http")];
    sim.service(web);
    sim.settle();
    let count = |verb| sim.writes.get(&("endpointslices", verb)).copied().unwrap_or_default();
    let mut out = Outcome {
        creates: count("create"),
        updates: count("update"),
        deletes: count("delete"),
        sizes: BTreeMap::new(),
    };
    for slice in sim.slices_of("web") {
        let group = slice.ports.first().map_or(NONE, |p| u8::try_from(p.port.unwrap() - 8080).unwrap());
        out.sizes.entry(group).or_default().push(slice.endpoints.len());
    }
    for sizes in out.sizes.values_mut() {
        sizes.sort_unstable();
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn slices_are_packed_with_the_same_writes(
        pods in prop::collection::btree_set(0..20_u8, 0..14),
        found in there(),
    ) {
        let mut wanted: BTreeMap<u8, BTreeSet<u8>> = BTreeMap::new();
        for i in &pods {
            wanted.entry(i % 2).or_default().insert(*i);
        }
        prop_assert_eq!(ours(&pods, &found), model(&wanted, &found));
    }
}

/// A look at the slices of `web` so long after the last change.
fn look_after(sim: &mut Sim, wait: std::time::Duration) {
    let key = Key::new(Controller::Slices, &"default".into(), &"web".into());
    sim.reconcile_slices(&key, tokio::time::Instant::now() + wait);
}

#[test]
fn slices_that_could_be_fewer_are_packed_after_a_minute_one_after_the_other() {
    let mut sim = Sim::new(100);
    sim.service(service("web", "web"));
    for i in 0..350_u16 {
        sim.pod(pod(&format!("p{i}"), "web", &format!("10.0.{}.{}", i / 250, i % 250)));
    }
    sim.settle();
    assert_eq!(sim.slices.len(), 4);
    // One endpoint stays in each slice.
    let kept: Vec<String> = sim
        .slices
        .values()
        .map(|slice| slice.endpoints[0].target_ref.as_ref().unwrap().name.clone().unwrap())
        .collect();
    for name in sim.pods.keys().cloned().collect::<Vec<_>>() {
        if !kept.contains(&name) {
            sim.remove_pod(&name);
        }
    }
    sim.settle();
    assert_eq!((sim.slices.len(), sim.listed("web").len()), (4, 4));
    look_after(&mut sim, REPACK_AFTER / 2);
    assert_eq!(sim.slices.len(), 4, "something may still happen");
    sim.merged = Some("web".to_owned());
    for left in (1_u32..4).rev() {
        let before: usize = sim.writes.values().sum();
        look_after(&mut sim, REPACK_AFTER * (5 - left));
        assert_eq!(sim.slices.len(), usize::try_from(left).unwrap());
        assert_eq!(sim.writes.values().sum::<usize>() - before, 2, "one is filled and one deleted");
    }
    look_after(&mut sim, REPACK_AFTER * 9);
    assert_eq!((sim.slices.len(), sim.listed("web")), (1, sim.wanted("web")));
    sim.restart();
    assert_eq!(sim.settle(), 0);
}

#[test]
fn an_answer_that_is_lost_while_slices_are_packed_leaves_nothing_twice() {
    for fates in [
        vec![Fate::Lost],
        vec![Fate::Timeout],
        vec![Fate::Conflict],
        vec![Fate::Lost, Fate::Done],
        vec![Fate::Timeout, Fate::Done],
    ] {
        let mut sim = Sim::new(2);
        sim.service(service("web", "web"));
        for i in 0..4 {
            sim.pod(pod(&format!("p{i}"), "web", &format!("10.0.0.{i}")));
        }
        sim.settle();
        let of = |sim: &Sim| {
            sim.slices
                .values()
                .map(|s| s.endpoints[0].target_ref.as_ref().unwrap().name.clone().unwrap())
                .collect::<Vec<_>>()
        };
        for name in of(&sim) {
            sim.remove_pod(&name);
        }
        sim.settle();
        assert_eq!(sim.slices.len(), 2);
        sim.fates = fates.clone();
        look_after(&mut sim, REPACK_AFTER * 2);
        sim.fates.clear();
        look_after(&mut sim, REPACK_AFTER * 2);
        sim.settle();
        look_after(&mut sim, REPACK_AFTER * 4);
        sim.settle();
        assert_eq!(sim.listed("web"), sim.wanted("web"), "{fates:?}");
    }
}
