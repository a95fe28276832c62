//! A look at the whole table: what is in the kernel, what should be, and the steps between.

use std::{
    collections::{HashMap, HashSet},
    time::Instant,
};

use service_api::address::Family;

use super::{FamilySync, Report, STEPS, run};
use crate::{
    endpoint::ServiceKey,
    names::{self, Name, TABLE_COMMENT},
    nft::{
        diff::add_chain,
        model::{AffinitySet, BaseKind, Chain, Container, Element, Op, Rule, family_word},
        run::{Kernel, RunError},
        wire::{self, KernelChain, KernelRule, Raw, Snapshot, lower, raw_element},
    },
};

/// Whether the table is one of this layout, and nobody else holds it.
pub(super) fn check_ours(snapshot: &Snapshot, family: Family) -> Result<(), RunError> {
    let foreign = |why: String| Err(RunError::Foreign { family: family_word(family), why });
    match &snapshot.table {
        Some((_, true)) => foreign("a process that is running owns it".to_owned()),
        Some((comment, false))
            if comment.as_deref() != Some(TABLE_COMMENT)
                && !snapshot.chains.is_empty()
                && !snapshot.chains.contains_key("services") =>
        {
            foreign(match comment {
                Some(comment) => format!("its comment is {comment:?}"),
                None => "it has chains, but none named services".to_owned(),
            })
        }
        _ => Ok(()),
    }
}

/// Steps that belong together, and the Service that they are for.
struct Group {
    service: Option<ServiceKey>,
    ops: Vec<Op>,
}

impl FamilySync {
    /// Reads the table and puts right what differs.
    pub(super) fn look(
        &mut self,
        kernel: &mut impl Kernel,
        generation: &mut Option<u32>,
        now: Instant,
        report: &mut Report,
    ) {
        match self.put_right(kernel, generation, now, report) {
            Ok(()) => {
                self.look = false;
                self.stopped = None;
            }
            Err(error) => self.stop(error, now, report),
        }
    }

    fn put_right(
        &mut self,
        kernel: &mut impl Kernel,
        generation: &mut Option<u32>,
        now: Instant,
        report: &mut Report,
    ) -> Result<(), RunError> {
        *generation = None;
        let seen = kernel.generation()?;
        let mut snapshot = kernel.read(self.family)?;
        check_ours(&snapshot, self.family)?;
        *generation = Some(seen);
        let mut groups = Vec::new();
        let rebuild = snapshot.table.is_some() && !containers_fit(&snapshot, self.family);
        if rebuild {
            tracing::warn!(family = %self.family, "the table has sets of another kind: it is made anew");
            snapshot = Snapshot::default();
            groups.push(vec![Op::AddTable, Op::DeleteTable]);
        }
        let mut groups: Vec<Group> = groups.into_iter().map(|ops| Group { service: None, ops }).collect();
        let fresh = snapshot.table.is_none();
        groups.push(Group { service: None, ops: self.frame(&snapshot) });
        groups.extend(self.service_groups(&snapshot));
        groups.extend(self.elements(&snapshot));
        let (leftovers, stale) = self.leftovers(&snapshot);
        groups.extend(leftovers);
        if !fresh {
            report.put_right += groups.iter().map(|group| group.ops.len()).sum::<usize>();
        }
        self.run_groups(kernel, generation, groups, now, report)?;
        self.stale.retain(|(name, _)| !stale.contains(name));
        self.stale.extend(stale.into_iter().map(|name| (name, now)));
        self.stale.sort_by_key(|(_, since)| *since);
        Ok(())
    }

    /// The table, its containers, and what all Services share.
    fn frame(&self, snapshot: &Snapshot) -> Vec<Op> {
        let mut ops = Vec::new();
        if snapshot.table.is_none() {
            ops.push(Op::AddTable);
        }
        let missing =
            Container::ALL.into_iter().filter(|container| !snapshot.sets.contains_key(container.name()));
        ops.extend(missing.map(Op::AddContainer));
        let (mut adds, mut rules) = (Vec::new(), Vec::new());
        for chain in &self.table.base().chains {
            let kernel = snapshot.chains.get(&chain.name);
            match kernel {
                Some(kernel) if base_fits(chain, kernel) => {}
                // A base chain cannot be moved to another place.
                Some(_) => {
                    ops.push(Op::FlushChain(chain.name.clone()));
                    if chain.base.is_some() {
                        ops.push(Op::DeleteChain(chain.name.clone()));
                    }
                    adds.push(add_chain(chain));
                    rules.extend(add_rules(chain));
                    continue;
                }
                None => adds.push(add_chain(chain)),
            }
            chain_ops(chain, snapshot, self.family, &mut ops, &mut rules);
        }
        ops.extend(adds);
        ops.extend(rules);
        ops
    }

    /// The chains and sets of each Service.
    fn service_groups<'a>(&'a self, snapshot: &'a Snapshot) -> impl Iterator<Item = Group> + 'a {
        let mut entries: Vec<_> = self.table.services().collect();
        entries.sort_by_key(|(key, _)| *key);
        entries.into_iter().filter_map(|(key, service)| {
            let (mut ops, mut rules) = (Vec::new(), Vec::new());
            let mut anew = false;
            let mut sets = Vec::new();
            for set in &service.fragment.affinity {
                match snapshot.sets.get(&set.name) {
                    Some(kernel) if kernel.timeout == set.timeout => {}
                    kernel => {
                        anew |= kernel.is_some();
                        sets.extend(kernel.map(|_| Op::DeleteSet(set.name.clone())));
                        sets.push(Op::AddAffinitySet(AffinitySet::clone(set)));
                    }
                }
            }
            let mut adds = Vec::new();
            for chain in &service.fragment.chains {
                let kernel = snapshot.chains.get(&chain.name);
                if kernel.is_none() {
                    adds.push(add_chain(chain));
                }
                if anew && kernel.is_some() {
                    ops.push(Op::FlushChain(chain.name.clone()));
                    rules.extend(add_rules(chain));
                } else {
                    chain_ops(chain, snapshot, self.family, &mut ops, &mut rules);
                }
            }
            ops.extend(sets);
            ops.extend(adds);
            ops.extend(rules);
            (!ops.is_empty()).then(|| Group { service: Some(key.clone()), ops })
        })
    }

    /// The elements that are missing or lead elsewhere, then those that should not be there.
    fn elements(&self, snapshot: &Snapshot) -> Vec<Group> {
        let mut kernel: HashMap<Container, HashMap<&[u8], &Raw>> = HashMap::new();
        for container in Container::ALL {
            let elements = snapshot.sets.get(container.name()).map_or(&[][..], |set| &set.elements);
            kernel.insert(container, elements.iter().map(|raw| (&*raw.key, raw)).collect());
        }
        let mut ops = Vec::new();
        let mut wanted: Vec<&Element> = self.table.elements().collect();
        wanted.sort_by_key(|element| (element.container, element.key));
        for element in wanted {
            let raw = raw_element(element);
            let found = kernel.get_mut(&element.container).and_then(|of| of.remove(&*raw.key));
            if found == Some(&raw) {
                continue;
            }
            if found.is_some() {
                ops.push(Op::DeleteElement(element.clone()));
            }
            ops.push(Op::AddElement(element.clone()));
        }
        for (container, left) in kernel {
            ops.extend(
                left.into_keys()
                    .filter_map(|key| wire::key_of(container, key, self.family))
                    .map(|key| Op::DeleteElement(Element { container, key, verdict: None, comment: None })),
            );
        }
        ops.chunks(STEPS).map(|ops| Group { service: None, ops: ops.to_vec() }).collect()
    }

    /// What Services that are gone have left: rules and sets now, chains a little later.
    fn leftovers(&self, snapshot: &Snapshot) -> (Vec<Group>, Vec<Name>) {
        let chains: HashSet<&str> = self.table.chains().map(|chain| &*chain.name).collect();
        let sets: HashSet<&str> = self.table.affinity().map(|set| &*set.name).collect();
        let mut stale: Vec<Name> = (snapshot.chains.keys())
            .filter(|name| names::of_service(name) && !chains.contains(&***name))
            .cloned()
            .collect();
        stale.sort();
        let flush =
            stale.iter().filter(|name| snapshot.chains.get(*name).is_some_and(|of| !of.rules.is_empty()));
        let mut ops: Vec<Op> = flush.map(|name| Op::FlushChain(name.clone())).collect();
        let gone = snapshot.sets.keys().filter(|name| names::is_affinity(name) && !sets.contains(&***name));
        ops.extend(gone.map(|name| Op::DeleteSet(name.clone())));
        (ops.chunks(STEPS).map(|ops| Group { service: None, ops: ops.to_vec() }).collect(), stale)
    }

    /// Runs the groups, many in one transaction; apart if the kernel refuses one of them.
    fn run_groups(
        &mut self,
        kernel: &mut impl Kernel,
        generation: &mut Option<u32>,
        groups: Vec<Group>,
        now: Instant,
        report: &mut Report,
    ) -> Result<(), RunError> {
        let mut together: Vec<Group> = Vec::new();
        let mut steps = 0;
        let mut rest = groups.into_iter().filter(|group| !group.ops.is_empty()).peekable();
        while let Some(group) = rest.next() {
            steps += group.ops.len();
            together.push(group);
            if steps < STEPS && rest.peek().is_some() {
                continue;
            }
            let ops: Vec<Op> = together.iter().flat_map(|group| &group.ops).cloned().collect();
            match run(kernel, generation, self.family, &ops, report) {
                Ok(()) => {}
                Err(RunError::Refused { .. }) if together.len() > 1 => {
                    for group in together.drain(..) {
                        self.run_apart(kernel, generation, group, now, report)?;
                    }
                }
                Err(error) => return Err(error),
            }
            together.clear();
            steps = 0;
        }
        Ok(())
    }

    fn run_apart(
        &mut self,
        kernel: &mut impl Kernel,
        generation: &mut Option<u32>,
        group: Group,
        now: Instant,
        report: &mut Report,
    ) -> Result<(), RunError> {
        match (run(kernel, generation, self.family, &group.ops, report), group.service) {
            (Err(error @ RunError::Refused { .. }), Some(key)) => {
                // Its elements would lead to chains that are not there.
                self.table.set(&key, None, &mut crate::nft::diff::Change::default());
                self.refuse(key, error, now, report);
                Ok(())
            }
            (done, _) => done,
        }
    }
}

fn add_rules(chain: &Chain) -> impl Iterator<Item = Op> + '_ {
    chain.rules.iter().map(|rule| Op::AddRule { chain: chain.name.clone(), rule: rule.clone() })
}

/// The steps to a chain's rules, unless they are the same.
fn chain_ops(chain: &Chain, snapshot: &Snapshot, family: Family, flushes: &mut Vec<Op>, rules: &mut Vec<Op>) {
    let kernel = snapshot.chains.get(&chain.name);
    let before = kernel.map_or(&[][..], |kernel| &kernel.rules);
    let fits = |(before, rule): (&KernelRule, &Rule)| before.is(&lower(rule, family), snapshot);
    if before.len() == chain.rules.len() && before.iter().zip(&chain.rules).all(fits) {
        return;
    }
    if !before.is_empty() {
        flushes.push(Op::FlushChain(chain.name.clone()));
    }
    rules.extend(add_rules(chain));
}

fn base_fits(chain: &Chain, kernel: &KernelChain) -> bool {
    let wanted = chain.base.map(|base| {
        let kind = match base.kind {
            BaseKind::Filter => "filter",
            BaseKind::Nat => "nat",
        };
        (kind.to_owned(), base.hook as u32, base.priority)
    });
    wanted == kernel.base
}

/// Whether the containers that are there have the right keys and kind.
fn containers_fit(snapshot: &Snapshot, family: Family) -> bool {
    Container::ALL.into_iter().all(|container| {
        snapshot.sets.get(container.name()).is_none_or(|set| {
            set.key_type == wire::container_key_type(container, family)
                && (set.flags & 8 != 0) == container.is_map()
        })
    })
}
