//! What a table should be, by parts, and the steps from one state to the next. Pure.
//!
//! Owns who claims which element: two Services may name the same external address and port, and the elder one has it. A [`Change`]
//! is worked out against the table at once and can be taken back if the kernel refuses it.

use std::collections::{BTreeMap, HashMap};

use smallvec::SmallVec;

use super::model::{Chain, Container, Element, Fragment, Key, Op};
use crate::{endpoint::ServiceKey, names::Name};

/// The part of a Service, with what decides whose an element is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceRules {
    /// When the Service was created; the elder wins.
    pub created: i64,
    /// Its part.
    pub fragment: Fragment,
}

/// An element's place in a table.
pub type Slot = (Container, Key);

/// A table by its parts.
#[derive(Debug, Default)]
pub struct Table {
    base: Fragment,
    services: HashMap<ServiceKey, ServiceRules>,
    claims: HashMap<Slot, SmallVec<[ServiceKey; 1]>>,
}

/// Steps that were worked out and not confirmed yet.
#[derive(Debug, Default)]
#[must_use = "a change that the kernel refused must be taken back"]
pub struct Change {
    base_before: Option<Fragment>,
    before: Vec<(ServiceKey, Option<ServiceRules>)>,
    elements: BTreeMap<Slot, Option<Element>>,
    flushes: Vec<Op>,
    set_deletes: Vec<Op>,
    set_adds: Vec<Op>,
    chain_adds: Vec<Op>,
    rules: Vec<Op>,
    stale: Vec<Name>,
}

impl Change {
    /// The Services that it is about.
    pub fn services(&self) -> impl Iterator<Item = &ServiceKey> {
        self.before.iter().map(|(key, _)| key)
    }

    /// About how many steps it has; exact but for the elements.
    pub fn len(&self) -> usize {
        self.flushes.len()
            + self.set_deletes.len()
            + self.set_adds.len()
            + self.chain_adds.len()
            + self.rules.len()
            + self.elements.len()
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The chains that nothing leads to any more. They are empty then, and can be removed a little later: kernels before 6.2 hold on
    /// to a chain for a moment after the last element that led there.
    pub fn stale(&self) -> &[Name] {
        &self.stale
    }

    /// Works out the steps from one part to its next state.
    fn add_part(&mut self, old: &Fragment, new: &Fragment) {
        let chains: HashMap<&str, &Chain> = old.chains.iter().map(|chain| (&*chain.name, chain)).collect();
        let timeouts: HashMap<&str, u32> = old.affinity.iter().map(|set| (&*set.name, set.timeout)).collect();
        let (mut kept_chains, mut kept_sets) = (0, 0);
        // A set whose time changes is made anew, so the rules that use it are too.
        let mut remade = Vec::new();
        for set in &new.affinity {
            match timeouts.get(&*set.name) {
                Some(timeout) if *timeout == set.timeout => kept_sets += 1,
                Some(_) => {
                    kept_sets += 1;
                    remade.push(&set.name);
                    self.set_deletes.push(Op::DeleteSet(set.name.clone()));
                    self.set_adds.push(Op::AddAffinitySet(set.clone()));
                }
                None => self.set_adds.push(Op::AddAffinitySet(set.clone())),
            }
        }
        for chain in &new.chains {
            match chains.get(&*chain.name) {
                None => {
                    self.chain_adds.push(add_chain(chain));
                    self.add_rules(chain);
                }
                Some(before) => {
                    kept_chains += 1;
                    if before.rules != chain.rules || !remade.is_empty() {
                        self.flushes.push(Op::FlushChain(chain.name.clone()));
                        self.add_rules(chain);
                    }
                }
            }
        }
        if kept_chains < old.chains.len() {
            let new: std::collections::HashSet<&str> = new.chains.iter().map(|chain| &*chain.name).collect();
            for chain in old.chains.iter().filter(|chain| !new.contains(&*chain.name)) {
                self.flushes.push(Op::FlushChain(chain.name.clone()));
                self.stale.push(chain.name.clone());
            }
        }
        if kept_sets < old.affinity.len() {
            let new: std::collections::HashSet<&str> = new.affinity.iter().map(|set| &*set.name).collect();
            let gone = old.affinity.iter().filter(|set| !new.contains(&*set.name));
            self.set_deletes.extend(gone.map(|set| Op::DeleteSet(set.name.clone())));
        }
    }

    fn add_rules(&mut self, chain: &Chain) {
        self.rules.extend(
            chain.rules.iter().map(|rule| Op::AddRule { chain: chain.name.clone(), rule: rule.clone() }),
        );
    }
}

/// The step that makes a chain without its rules.
pub fn add_chain(chain: &Chain) -> Op {
    Op::AddChain(Chain { rules: Vec::new(), ..chain.clone() })
}

impl Table {
    /// The part that all Services share.
    pub const fn base(&self) -> &Fragment {
        &self.base
    }

    /// The parts of the Services, in no order.
    pub fn services(&self) -> impl Iterator<Item = (&ServiceKey, &ServiceRules)> {
        self.services.iter()
    }

    /// Whether a Service has a part.
    pub fn has(&self, key: &ServiceKey) -> bool {
        self.services.contains_key(key)
    }

    /// All chains.
    pub fn chains(&self) -> impl Iterator<Item = &Chain> {
        self.base.chains.iter().chain(self.services.values().flat_map(|rules| &rules.fragment.chains))
    }

    /// All sets of clients.
    pub fn affinity(&self) -> impl Iterator<Item = &super::model::AffinitySet> {
        self.services.values().flat_map(|rules| &rules.fragment.affinity)
    }

    /// All elements, each once.
    pub fn elements(&self) -> impl Iterator<Item = &Element> {
        self.base.elements.iter().chain(self.claims.keys().filter_map(|slot| self.element(*slot)))
    }

    /// The element of a slot: that of the eldest Service that claims it.
    pub fn element(&self, slot: Slot) -> Option<&Element> {
        let claims = self.claims.get(&slot)?;
        let eldest = claims.iter().filter_map(|key| Some((self.services.get(key)?, key)));
        let (rules, _) = eldest.min_by_key(|(rules, key)| (rules.created, *key))?;
        rules.fragment.elements.iter().find(|element| (element.container, element.key) == slot)
    }

    /// Sets the shared part.
    pub fn set_base(&mut self, base: Fragment, change: &mut Change) {
        if self.base == base {
            return;
        }
        let before = std::mem::replace(&mut self.base, base);
        change.add_part(&before, &self.base);
        for element in before.elements.iter().filter(|element| !self.base.elements.contains(element)) {
            change.elements.insert((element.container, element.key), Some(element.clone()));
        }
        for element in self.base.elements.iter().filter(|element| !before.elements.contains(element)) {
            change.elements.entry((element.container, element.key)).or_insert(None);
        }
        change.base_before.get_or_insert(before);
    }

    /// Sets the part of a Service, or removes it.
    pub fn set(&mut self, key: &ServiceKey, rules: Option<ServiceRules>, change: &mut Change) {
        let empty = Fragment::default();
        let old = self.services.get(key);
        if old == rules.as_ref() {
            return;
        }
        let (before, after) = (
            old.map_or(&empty, |rules| &rules.fragment),
            rules.as_ref().map_or(&empty, |rules| &rules.fragment),
        );
        change.add_part(before, after);
        let moved = old.map(|rules| rules.created) != rules.as_ref().map(|rules| rules.created);
        let differs = |element: &&Element, others: &[Element]| moved || !others.contains(element);
        let touched: Vec<Slot> = (before.elements.iter().filter(|e| differs(e, &after.elements)))
            .chain(after.elements.iter().filter(|e| differs(e, &before.elements)))
            .map(|element| (element.container, element.key))
            .collect();
        for slot in touched {
            change.elements.entry(slot).or_insert_with(|| self.element(slot).cloned());
        }
        let before = self.put(key, rules);
        change.before.push((key.clone(), before));
    }

    fn put(&mut self, key: &ServiceKey, rules: Option<ServiceRules>) -> Option<ServiceRules> {
        let before = match rules {
            Some(rules) => {
                for element in &rules.fragment.elements {
                    let claims = self.claims.entry((element.container, element.key)).or_default();
                    if !claims.contains(key) {
                        claims.push(key.clone());
                    }
                }
                self.services.insert(key.clone(), rules)
            }
            None => self.services.remove(key),
        };
        if let Some(before) = &before {
            let now = self.services.get(key).map_or(&[][..], |rules| &rules.fragment.elements);
            let kept = |slot: Slot| now.iter().any(|element| (element.container, element.key) == slot);
            for element in &before.fragment.elements {
                let slot = (element.container, element.key);
                if !kept(slot)
                    && let Some(claims) = self.claims.get_mut(&slot)
                {
                    claims.retain(|of| of != key);
                    if claims.is_empty() {
                        self.claims.remove(&slot);
                    }
                }
            }
        }
        before
    }

    /// The steps of a change, in an order that the kernel takes: nothing is used before it is there or removed while it is used.
    pub fn ops(&self, change: &Change) -> Vec<Op> {
        let mut ops = Vec::with_capacity(change.len() + change.elements.len());
        let mut adds = Vec::new();
        for (slot, before) in &change.elements {
            let base = || self.base.elements.iter().find(|e| (e.container, e.key) == *slot);
            let after = self.element(*slot).or_else(base);
            if before.as_ref() == after {
                continue;
            }
            ops.extend(before.clone().map(Op::DeleteElement));
            adds.extend(after.cloned().map(Op::AddElement));
        }
        for part in
            [&change.flushes, &change.set_deletes, &change.set_adds, &change.chain_adds, &change.rules, &adds]
        {
            ops.extend_from_slice(part);
        }
        ops
    }

    /// Takes a change back that did not come about.
    pub fn revert(&mut self, change: Change) {
        for (key, before) in change.before.into_iter().rev() {
            self.put(&key, before);
        }
        if let Some(base) = change.base_before {
            self.base = base;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        endpoint::Protocol,
        nft::model::{AffinitySet, Rule, Statement, Verdict},
    };

    fn rules(created: i64, chain: &str, statement: Statement) -> ServiceRules {
        let key = Key::Port(Protocol::Tcp, 30_000);
        let verdict = Some(Verdict::Goto(chain.into()));
        let element = Element { container: Container::ServiceNodePorts, key, verdict, comment: None };
        let chains = vec![Chain::new(chain, [Rule::new([statement])])];
        ServiceRules { created, fragment: Fragment { chains, affinity: Vec::new(), elements: vec![element] } }
    }

    fn apply(table: &mut Table, key: &ServiceKey, rules: Option<ServiceRules>) -> Vec<Op> {
        let mut change = Change::default();
        table.set(key, rules, &mut change);
        table.ops(&change)
    }

    #[test]
    fn a_changed_rule_is_two_steps() {
        let (mut table, key) = (Table::default(), ServiceKey::new("a", "b"));
        assert_eq!(apply(&mut table, &key, Some(rules(1, "x", Statement::Drop))).len(), 3);
        let ops = apply(&mut table, &key, Some(rules(1, "x", Statement::Reject)));
        assert!(matches!(&ops[..], [Op::FlushChain(_), Op::AddRule { .. }]), "{ops:?}");
        assert!(apply(&mut table, &key, Some(rules(1, "x", Statement::Reject))).is_empty());
    }

    #[test]
    fn the_elder_has_what_two_claim() {
        let mut table = Table::default();
        let (old, young) = (ServiceKey::new("z", "old"), ServiceKey::new("a", "young"));
        apply(&mut table, &old, Some(rules(1, "old", Statement::Drop)));
        let ops = apply(&mut table, &young, Some(rules(2, "young", Statement::Drop)));
        assert!(!ops.iter().any(|op| matches!(op, Op::AddElement(_) | Op::DeleteElement(_))), "{ops:?}");
        let ops = apply(&mut table, &old, None);
        assert!(matches!(&ops[..], [Op::DeleteElement(_), Op::FlushChain(_), Op::AddElement(_)]), "{ops:?}");
        assert!(apply(&mut table, &young, None).iter().any(|op| matches!(op, Op::DeleteElement(_))));
        assert_eq!(table.elements().count(), 0);
    }

    #[test]
    fn a_change_that_failed_leaves_no_trace() {
        let (mut table, key) = (Table::default(), ServiceKey::new("a", "b"));
        apply(&mut table, &key, Some(rules(1, "x", Statement::Drop)));
        let mut change = Change::default();
        table.set(&key, Some(rules(1, "y", Statement::Drop)), &mut change);
        table.set(&ServiceKey::new("a", "c"), Some(rules(0, "c", Statement::Drop)), &mut change);
        table.revert(change);
        assert_eq!(table.chains().map(|chain| &*chain.name).collect::<Vec<_>>(), ["x"]);
        assert!(matches!(&table.elements().next().unwrap().verdict, Some(Verdict::Goto(to)) if &**to == "x"));
    }

    #[test]
    fn a_set_with_another_time_is_made_anew_after_its_rules_are_gone() {
        let (mut table, key) = (Table::default(), ServiceKey::new("a", "b"));
        let with = |timeout| {
            let mut rules = rules(1, "x", Statement::Remember("affinity-x".into()));
            rules.fragment.affinity.push(AffinitySet { name: "affinity-x".into(), timeout });
            Some(rules)
        };
        apply(&mut table, &key, with(1));
        let ops = apply(&mut table, &key, with(2));
        assert!(
            matches!(
                &ops[..],
                [Op::FlushChain(_), Op::DeleteSet(_), Op::AddAffinitySet(_), Op::AddRule { .. }]
            ),
            "{ops:?}"
        );
    }
}
