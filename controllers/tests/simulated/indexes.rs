//! Each index against the plain way to find the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use service_controllers::cache::{Interners, Pod, Slice};
use service_controllers::index::Index;
use service_controllers::index::pods::PodIndex;
use service_controllers::index::slice_set::SliceSet;
use service_controllers::objects::{EndpointWire, MetaWire, RefWire, SliceWire};
use service_controllers::text::{Labels, Text};

use crate::server::{node, pod, service};

type Pairs = Vec<(Text, Text)>;

fn labels() -> impl Strategy<Value = Pairs> {
    prop::collection::btree_map("[abc]", "[xy]", 0..3)
        .prop_map(|map| map.into_iter().map(|(k, v)| (k.into(), v.into())).collect())
}

#[derive(Clone, Debug)]
enum Op {
    Pod(u8, Pairs),
    Gone(u8),
    Select(u8, Option<Pairs>),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..8_u8, labels()).prop_map(|(i, l)| Op::Pod(i, l)),
        1 => (0..8_u8).prop_map(Op::Gone),
        2 => (0..4_u8, prop::option::of(labels().prop_filter("empty", |l| !l.is_empty()))).prop_map(|(i, l)| Op::Select(i, l)),
    ]
}

proptest! {
    #[test]
    fn selectors_find_what_a_walk_finds(ops in prop::collection::vec(op(), 1..60)) {
        let mut shared = Interners::default();
        let mut population = PodIndex::default();
        let mut pods: Vec<Option<Labels>> = vec![None; 8];
        let mut selectors: Vec<Option<Labels>> = vec![None; 4];
        for op in ops {
            let before = walk(&pods, &selectors);
            let told: BTreeSet<String> = match op {
                Op::Pod(i, pairs) => {
                    let labels: Labels = pairs.into_iter().collect();
                    let (new, _) = Pod::read(&pod(&format!("p{i}"), "", "10.0.0.1"), &mut shared);
                    pods[usize::from(i)] = Some(labels.clone());
                    population.apply(new, &labels).services.iter().map(|(s, _)| s.to_string()).collect()
                }
                Op::Gone(i) => {
                    pods[usize::from(i)] = None;
                    population.remove(&format!("p{i}")).services.iter().map(|(s, _)| s.to_string()).collect()
                }
                Op::Select(i, pairs) => {
                    let selector: Option<Labels> = pairs.map(|p| p.into_iter().collect());
                    population.select(&format!("s{i}").into(), selector.as_ref());
                    selectors[usize::from(i)] = selector;
                    (0..4).map(|i| format!("s{i}")).collect()
                }
            };
            let after = walk(&pods, &selectors);
            for i in 0..4 {
                let name = format!("s{i}");
                let found: BTreeSet<String> = population.pods_of(&name).map(|p| p.name.to_string()).collect();
                prop_assert_eq!(&found, &after[i]);
                prop_assert_eq!(population.count(&name), found.len());
                for p in 0..8 {
                    let pod = format!("p{p}");
                    prop_assert_eq!(population.pod_of(&name, &pod).is_some(), found.contains(&pod));
                }
                if before[i] != after[i] {
                    prop_assert!(told.contains(&name), "{} was not told", name);
                }
            }
        }
    }
}

fn walk(pods: &[Option<Labels>], selectors: &[Option<Labels>]) -> Vec<BTreeSet<String>> {
    let matching = |selector: &Option<Labels>| {
        let Some(selector) = selector else { return BTreeSet::new() };
        let hit = |labels: &Option<Labels>| labels.as_ref().is_some_and(|l| l.contain_all(selector));
        pods.iter().enumerate().filter(|(_, l)| hit(l)).map(|(i, _)| format!("p{i}")).collect()
    };
    selectors.iter().map(matching).collect()
}

#[derive(Clone, Debug)]
enum SliceOp {
    /// A slice is there, of this family, with endpoints of these pods.
    Put(u8, bool, BTreeSet<u8>),
    Remove(u8),
}

fn slice_op() -> impl Strategy<Value = SliceOp> {
    prop_oneof![
        3 => (0..4_u8, any::<bool>(), prop::collection::btree_set(0..6_u8, 0..4))
            .prop_map(|(i, v6, pods)| SliceOp::Put(i, v6, pods)),
        1 => (0..4_u8).prop_map(SliceOp::Remove),
    ]
}

fn slice_of(name: u8, v6: bool, pods: &BTreeSet<u8>, shared: &mut Interners) -> Arc<Slice> {
    let endpoint = |pod: &u8| EndpointWire {
        addresses: vec![if v6 { format!("fd00::{pod}") } else { format!("10.0.0.{pod}") }],
        target_ref: Some(RefWire {
            kind: Some("Pod".into()),
            namespace: Some("default".into()),
            name: Some(format!("p{pod}")),
            ..RefWire::default()
        }),
        ..EndpointWire::default()
    };
    let metadata = MetaWire { name: format!("s{name}"), namespace: "default".into(), ..MetaWire::default() };
    let wire = SliceWire {
        metadata,
        address_type: if v6 { "IPv6" } else { "IPv4" }.into(),
        endpoints: pods.iter().map(endpoint).collect(),
        ..SliceWire::default()
    };
    Arc::new(Slice::read(wire, shared))
}

proptest! {
    #[test]
    fn a_set_of_slices_finds_the_slices_of_a_pod(ops in prop::collection::vec(slice_op(), 1..40)) {
        let (mut shared, mut set) = (Interners::default(), SliceSet::indexed());
        let mut model: BTreeMap<u8, (bool, BTreeSet<u8>)> = BTreeMap::new();
        for op in ops {
            match op {
                SliceOp::Put(i, v6, pods) => {
                    set.put(slice_of(i, v6, &pods, &mut shared));
                    model.insert(i, (v6, pods));
                }
                SliceOp::Remove(i) => {
                    prop_assert_eq!(set.remove(&format!("s{i}")).is_some(), model.remove(&i).is_some());
                }
            }
            let twice = |family: bool, pod: u8| {
                model.values().filter(|(v6, pods)| *v6 == family && pods.contains(&pod)).count() > 1
            };
            let any_twice = (0..6).any(|pod| twice(false, pod) || twice(true, pod));
            set.settle();
            for pod in 0..6_u8 {
                let name: Text = format!("p{pod}").into();
                let found = set.holding(std::iter::once(&name));
                if any_twice {
                    prop_assert_eq!(found, None, "only a look at all of them helps");
                    continue;
                }
                let found: BTreeSet<String> =
                    found.unwrap().into_iter().map(|at| set.slices()[at].name.to_string()).collect();
                let holds = model.iter().filter(|(_, (_, pods))| pods.contains(&pod));
                let expected: BTreeSet<String> = holds.map(|(i, _)| format!("s{i}")).collect();
                prop_assert_eq!(set.holds(&name), !expected.is_empty());
                prop_assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn nodes_are_counted_by_zone_and_found_by_their_pods(
        ops in prop::collection::vec((0..4_u8, prop::option::of(prop::option::of("[ab]"))), 1..40),
        places in prop::collection::vec(0..5_u8, 6),
    ) {
        let mut index = Index::default();
        index.apply_service(&service("web", "web"));
        for (i, place) in places.iter().enumerate() {
            let mut placed = pod(&format!("p{i}"), "web", &format!("10.0.0.{i}"));
            placed.spec.node_name = format!("n{place}");
            index.apply_pod(&placed);
        }
        let mut model: BTreeMap<u8, Option<String>> = BTreeMap::new();
        for (i, zone) in ops {
            let name = format!("n{i}");
            let (change, before) = if let Some(zone) = zone {
                (index.apply_node(&node(&name, zone.as_deref())), model.insert(i, zone))
            } else {
                (index.delete_node(&name), model.remove(&i))
            };
            prop_assert_eq!(index.all_nodes_have_zones(), model.values().all(Option::is_some));
            let matters = before != model.get(&i).cloned() && places.contains(&i);
            prop_assert_eq!(!change.services.is_empty(), matters);
        }
    }
}
