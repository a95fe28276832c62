//! Each index against the plain way to find the same.

use std::collections::BTreeSet;

use proptest::prelude::*;
use service_controllers::cache::{Pod, Shared};
use service_controllers::index::pods::PodIndex;
use service_controllers::text::{Labels, Text};

use crate::server::pod;

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
        let mut shared = Shared::default();
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
