//! Pods that a Service nearly selects: one label off, or in another namespace.
//!
//! Pure. Owns what counts as near. Pods are looked at by set of labels, so that the cost does not grow with their number.

use std::collections::BTreeMap;

use strsim::damerau_levenshtein;

use super::reason::Reason;
use super::report::{LabelDifference, Many, NearMiss};
use crate::cache::Service;
use crate::index::Index;
use crate::text::{Labels, Text};

/// So many pods of a near miss are named.
const NAMED: usize = 5;
/// And so many near misses are shown.
const SHOWN: usize = 20;
/// Values are alike up to so many edits.
const ALIKE: usize = 2;

/// The pods that a Service nearly selects. Other namespaces count only where its own has no pod for it: the same labels
/// are often used in many.
pub(super) fn near_misses(index: &Index, service: &Service) -> Vec<NearMiss> {
    let Some(selector) = service.selector.as_ref().filter(|_| !service.external_name) else {
        return Vec::new();
    };
    let mut found = one_label_off(index, service, selector);
    if index.pods_of(&service.namespace, &service.name) == 0 {
        found.extend(elsewhere(index, service, selector));
    }
    found.truncate(SHOWN);
    found
}

/// A label that differs: its key, what is wanted and what is there.
pub(super) type Difference = (Text, Text, Option<(Text, Text)>);

fn one_label_off(index: &Index, service: &Service, selector: &Labels) -> Vec<NearMiss> {
    let Some(space) = index.namespace(&service.namespace) else { return Vec::new() };
    let mut pods: BTreeMap<Difference, Many<String>> = BTreeMap::new();
    for (labels, set) in space.pods.by_labels() {
        let Some(difference) = label_off(selector, labels) else { continue };
        let group = pods.entry(difference).or_default();
        group.count += set.len();
        group.first.extend(set.take(NAMED).map(|pod| pod.name.to_string()));
    }
    let near = |((key, wanted, there), mut pods): (Difference, Many<String>)| {
        pods.first.sort();
        pods.first.truncate(NAMED);
        let message = format!("they {}", differs(&key, &wanted, there.as_ref()));
        let found = there.filter(|(other, _)| *other == key).map(|(_, value)| value.to_string());
        NearMiss {
            reason: Reason::OneLabelOff,
            message,
            namespace: service.namespace.to_string(),
            label: Some(LabelDifference { key: key.to_string(), wanted: wanted.to_string(), found }),
            pods,
        }
    };
    let mut found: Vec<NearMiss> = pods.into_iter().map(near).collect();
    found.sort_by_key(|near| std::cmp::Reverse(near.pods.count));
    found
}

/// The one label by which a selector misses; none if it selects, or misses by more.
pub(super) fn label_off(selector: &Labels, labels: &Labels) -> Option<Difference> {
    let mut differing = selector.iter().filter(|(key, value)| labels.get(key) != Some(value));
    let (Some((key, wanted)), None) = (differing.next(), differing.next()) else { return None };
    let there = labels.get(key).map(|value| (key.clone(), value.clone()));
    let there = there.or_else(|| misspelt(labels, key, wanted));
    if selector.iter().len() == 1 && !is_alike(key, wanted, there.as_ref()) {
        return None;
    }
    Some((key.clone(), wanted.clone(), there))
}

/// What is there in place of a label that is wanted, in words.
pub(super) fn differs(key: &Text, wanted: &Text, there: Option<&(Text, Text)>) -> String {
    match there {
        None => format!("lack the label {key}={wanted}"),
        Some((other, value)) if other == key => {
            format!("have {key}={value}, and the selector wants {key}={wanted}")
        }
        Some((other, value)) => format!("have {other}={value}, and the selector wants {key}={wanted}"),
    }
}

/// A label under a key that is spelt nearly so, with a value that is wanted.
fn misspelt(labels: &Labels, key: &str, wanted: &Text) -> Option<(Text, Text)> {
    let last = |key: &str| key.rsplit_once('/').map_or(key.to_owned(), |(_, name)| name.to_owned());
    let alike = |other: &str| last(other) == last(key) || damerau_levenshtein(other, key) <= ALIKE;
    labels.iter().find(|(other, value)| value == wanted && alike(other)).cloned()
}

/// With a single label every pod of the namespace is one label off: only what looks like a mistake counts.
fn is_alike(key: &str, wanted: &str, there: Option<&(Text, Text)>) -> bool {
    there.is_some_and(|(other, value)| {
        **other != *key || value.eq_ignore_ascii_case(wanted) || damerau_levenshtein(value, wanted) <= ALIKE
    })
}

fn elsewhere(index: &Index, service: &Service, selector: &Labels) -> Vec<NearMiss> {
    let mut found = Vec::new();
    let mut spaces: Vec<_> =
        index.namespaces.iter().filter(|(name, _)| **name != service.namespace).collect();
    spaces.sort_by_key(|(name, _)| *name);
    for (namespace, space) in spaces {
        let mut pods = Many::default();
        for (_, set) in space.pods.by_labels().filter(|(labels, _)| labels.contain_all(selector)) {
            pods.count += set.len();
            pods.first.extend(set.take(NAMED).map(|pod| pod.name.to_string()));
        }
        if pods.count == 0 {
            continue;
        }
        pods.first.sort();
        pods.first.truncate(NAMED);
        found.push(NearMiss {
            reason: Reason::OtherNamespace,
            message: format!("they are in the namespace {namespace}: a Service selects in its own alone"),
            namespace: namespace.to_string(),
            label: None,
            pods,
        });
    }
    found
}

/// Names that are like one that does not exist, the most like first.
pub(super) fn near_names<'a>(name: &str, all: impl Iterator<Item = &'a str>) -> Vec<String> {
    let farthest = (name.len() / 3).clamp(1, 4);
    let distance = |other: &str| {
        let part = other.contains(name) || (name.contains(other) && other.len() > 2);
        let distance = damerau_levenshtein(name, other);
        if part { distance.min(1) } else { distance }
    };
    let mut near: Vec<(usize, &str)> =
        all.map(|other| (distance(other), other)).filter(|(distance, _)| *distance <= farthest).collect();
    near.sort_unstable();
    near.dedup();
    near.into_iter().take(3).map(|(_, name)| name.to_owned()).collect()
}
