//! Which Services select a pod, and which pods a Service selects.
//!
//! Kept up by events. Pods of one workload carry the same labels, so they are kept by set of labels: a selector is
//! matched once per set instead of once per pod. Nothing here is ever rebuilt for a key.

use std::collections::BTreeMap;
use std::sync::Arc;

use foldhash::HashMap;
use smallvec::SmallVec;

use crate::cache::Pod;
use crate::text::{Labels, Text};

/// The pods and selectors of one namespace.
#[derive(Debug, Default)]
pub struct PodIndex {
    sets: HashMap<Labels, Set>,
    home: HashMap<Text, Labels>,
    services: HashMap<Text, Selection>,
    by_pair: HashMap<(Text, Text), Vec<Text>>,
}

#[derive(Debug, Default)]
struct Set {
    pods: BTreeMap<Text, Arc<Pod>>,
    services: Vec<Text>,
}

#[derive(Debug)]
struct Selection {
    selector: Labels,
    sets: Vec<Labels>,
}

/// What an event did to the pod it names.
#[derive(Debug)]
pub struct PodChange {
    /// The pod before.
    pub old: Option<Arc<Pod>>,
    /// The pod after; none if it is gone.
    pub new: Option<Arc<Pod>>,
    /// Services that selected it before or select it now; the flag says that this changed.
    pub services: SmallVec<[(Text, bool); 2]>,
}

impl PodIndex {
    /// Puts in a pod, or its new state.
    pub fn apply(&mut self, pod: Pod, labels: &Labels) -> PodChange {
        let name = Arc::clone(&pod.name);
        let before = self.home.get(&name).filter(|old| *old != labels).cloned();
        let mut change = match before {
            Some(_) => self.remove(&name),
            None => PodChange { old: None, new: None, services: SmallVec::new() },
        };
        if !self.sets.contains_key(labels) {
            self.open_set(labels);
        }
        self.home.entry(Arc::clone(&name)).or_insert_with(|| labels.clone());
        let Some(set) = self.sets.get_mut(labels) else { return change };
        let new = Arc::new(pod);
        if let Some(old) = set.pods.insert(name, Arc::clone(&new)) {
            change.services = set.services.iter().map(|s| (Arc::clone(s), false)).collect();
            change.old = Some(old);
        } else {
            for service in &set.services {
                match change.services.iter_mut().find(|(known, _)| known == service) {
                    Some(known) => known.1 = false,
                    None => change.services.push((Arc::clone(service), true)),
                }
            }
        }
        change.new = Some(new);
        change
    }

    /// Takes out a pod.
    pub fn remove(&mut self, name: &str) -> PodChange {
        let mut change = PodChange { old: None, new: None, services: SmallVec::new() };
        let Some(labels) = self.home.remove(name) else { return change };
        if let Some(set) = self.sets.get_mut(&labels) {
            change.old = set.pods.remove(name);
            change.services = set.services.iter().map(|s| (Arc::clone(s), true)).collect();
            if set.pods.is_empty() {
                self.close_set(&labels);
            }
        }
        change
    }

    fn open_set(&mut self, labels: &Labels) {
        let mut services = Vec::new();
        for pair in labels.iter() {
            for name in self.by_pair.get(pair).into_iter().flatten() {
                if let Some(selection) = self.services.get_mut(name)
                    && labels.contain_all(&selection.selector)
                {
                    selection.sets.push(labels.clone());
                    services.push(Arc::clone(name));
                }
            }
        }
        self.sets.insert(labels.clone(), Set { pods: BTreeMap::new(), services });
    }

    fn close_set(&mut self, labels: &Labels) {
        let Some(set) = self.sets.remove(labels) else { return };
        for name in set.services {
            if let Some(selection) = self.services.get_mut(&name) {
                selection.sets.retain(|s| s != labels);
            }
        }
    }

    /// Sets the selector of a Service; without one it selects nothing.
    pub fn select(&mut self, service: &Text, selector: Option<&Labels>) {
        if self.services.get(service).map(|s| &s.selector) == selector {
            return;
        }
        if let Some(selection) = self.services.remove(service) {
            for labels in &selection.sets {
                if let Some(set) = self.sets.get_mut(labels) {
                    set.services.retain(|s| s != service);
                }
            }
            if let Some(pair) = selection.selector.iter().next()
                && let Some(names) = self.by_pair.get_mut(pair)
            {
                names.retain(|n| n != service);
                if names.is_empty() {
                    self.by_pair.remove(pair);
                }
            }
        }
        let Some(selector) = selector else { return };
        let mut sets = Vec::new();
        for (labels, set) in self.sets.iter_mut().filter(|(labels, _)| labels.contain_all(selector)) {
            set.services.push(Arc::clone(service));
            sets.push(labels.clone());
        }
        self.services.insert(Arc::clone(service), Selection { selector: selector.clone(), sets });
        if let Some(pair) = selector.iter().next() {
            self.by_pair.entry(pair.clone()).or_default().push(Arc::clone(service));
        }
    }

    /// The pods a Service selects, in a fixed order.
    pub fn pods_of(&self, service: &str) -> impl Iterator<Item = &Arc<Pod>> {
        let sets = self.services.get(service).into_iter().flat_map(|s| &s.sets);
        sets.filter_map(|labels| self.sets.get(labels)).flat_map(|set| set.pods.values())
    }

    /// The pod of this name, if the Service selects it.
    #[must_use]
    pub fn pod_of(&self, service: &str, pod: &str) -> Option<&Arc<Pod>> {
        let set = self.sets.get(self.home.get(pod)?)?;
        set.services.iter().any(|s| &**s == service).then(|| set.pods.get(pod)).flatten()
    }

    /// The pod of this name, and its labels.
    #[must_use]
    pub fn get(&self, pod: &str) -> Option<(&Arc<Pod>, &Labels)> {
        let labels = self.home.get(pod)?;
        Some((self.sets.get(labels)?.pods.get(pod)?, labels))
    }

    /// How many pods a Service selects.
    #[must_use]
    pub fn count(&self, service: &str) -> usize {
        let sets = self.services.get(service).into_iter().flat_map(|s| &s.sets);
        sets.filter_map(|labels| self.sets.get(labels)).map(|set| set.pods.len()).sum()
    }

    /// All Services with a pod for which `test` holds.
    #[must_use]
    pub fn services_with(&self, test: impl Fn(&Pod) -> bool) -> Vec<Text> {
        let hit =
            self.sets.values().filter(|set| !set.services.is_empty() && set.pods.values().any(|p| test(p)));
        let mut names: Vec<Text> = hit.flat_map(|set| set.services.iter().cloned()).collect();
        names.sort();
        names.dedup();
        names
    }

    /// All pods by their labels.
    pub fn by_labels(&self) -> impl Iterator<Item = (&Labels, impl ExactSizeIterator<Item = &Arc<Pod>>)> {
        self.sets.iter().map(|(labels, set)| (labels, set.pods.values()))
    }

    /// Names of all pods.
    pub fn names(&self) -> impl Iterator<Item = &Text> {
        self.home.keys()
    }
}
