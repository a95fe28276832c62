//! A kernel in memory: takes transactions and refuses what the real one refuses, so that the order of steps is tested without root.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    diff::Slot,
    model::{AffinitySet, Chain, Container, Element, Op, Rule, Statement, Verdict},
};
use crate::names::Name;

/// Why a transaction is refused; the names are the kernel's errors.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FakeError {
    /// Something that a step names is not there.
    #[error("ENOENT: {0}")]
    Missing(String),
    /// Something is still used.
    #[error("EBUSY: {0}")]
    Busy(String),
    /// Something is there already and different.
    #[error("EEXIST: {0}")]
    Exists(String),
}

/// A kernel with one table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FakeKernel {
    /// Whether the table is there.
    pub table: bool,
    /// Its chains.
    pub chains: BTreeMap<Name, Chain>,
    /// Its sets of clients.
    pub sets: BTreeMap<Name, AffinitySet>,
    /// Its containers.
    pub containers: BTreeSet<Container>,
    /// Its elements.
    pub elements: BTreeMap<Slot, Element>,
}

impl FakeKernel {
    /// Takes a transaction, or leaves everything as it was.
    pub fn apply(&mut self, ops: &[Op]) -> Result<(), FakeError> {
        let mut next = self.clone();
        for op in ops {
            next.step(op)?;
        }
        *self = next;
        Ok(())
    }

    fn step(&mut self, op: &Op) -> Result<(), FakeError> {
        if !self.table && !matches!(op, Op::AddTable) {
            return Err(FakeError::Missing("table".to_owned()));
        }
        match op {
            Op::AddTable => self.table = true,
            Op::DeleteTable => *self = Self::default(),
            Op::AddContainer(container) => {
                self.containers.insert(*container);
            }
            Op::AddAffinitySet(set) => {
                if self.sets.insert(set.name.clone(), set.clone()).is_some_and(|before| before != *set) {
                    return Err(FakeError::Exists(set.name.to_string()));
                }
            }
            Op::DeleteSet(name) => {
                if self.rules().any(|rule| rule.statements.iter().any(|of| uses_set(of, name))) {
                    return Err(FakeError::Busy(name.to_string()));
                }
                self.sets.remove(name).ok_or_else(|| FakeError::Missing(name.to_string()))?;
            }
            Op::AddChain(chain) => {
                self.chains.entry(chain.name.clone()).or_insert_with(|| chain.clone());
            }
            Op::FlushChain(name) => self.chain(name)?.rules.clear(),
            Op::DeleteChain(name) => {
                let led_to = self.rules().any(|rule| rule.statements.iter().any(|of| leads_to(of, name)))
                    || self
                        .elements
                        .values()
                        .any(|element| element.verdict == Some(Verdict::Goto(name.clone())));
                if led_to || !self.chain(name)?.rules.is_empty() {
                    return Err(FakeError::Busy(name.to_string()));
                }
                self.chains.remove(name);
            }
            Op::AddRule { chain, rule } => {
                for statement in &rule.statements {
                    self.resolves(statement)?;
                }
                self.chain(chain)?.rules.push(rule.clone());
            }
            Op::AddElement(element) => {
                self.element_resolves(element)?;
                let slot = (element.container, element.key);
                if self
                    .elements
                    .insert(slot, element.clone())
                    .is_some_and(|old| old.verdict != element.verdict)
                {
                    return Err(FakeError::Exists(format!("{slot:?}")));
                }
            }
            Op::DeleteElement(element) => {
                let slot = (element.container, element.key);
                self.elements.remove(&slot).ok_or_else(|| FakeError::Missing(format!("{slot:?}")))?;
            }
        }
        Ok(())
    }

    fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.chains.values().flat_map(|chain| &chain.rules)
    }

    fn chain(&mut self, name: &Name) -> Result<&mut Chain, FakeError> {
        self.chains.get_mut(name).ok_or_else(|| FakeError::Missing(name.to_string()))
    }

    fn element_resolves(&self, element: &Element) -> Result<(), FakeError> {
        if !self.containers.contains(&element.container) {
            return Err(FakeError::Missing(element.container.name().to_owned()));
        }
        match &element.verdict {
            Some(Verdict::Goto(chain)) if !self.chains.contains_key(chain) => {
                Err(FakeError::Missing(chain.to_string()))
            }
            _ => Ok(()),
        }
    }

    fn resolves(&self, statement: &Statement) -> Result<(), FakeError> {
        let chain = |name: &Name| self.chains.contains_key(name);
        let set = |name: &Name| {
            self.sets.contains_key(name)
                || Container::by_name(name).is_some_and(|container| self.containers.contains(&container))
        };
        let missing = match statement {
            Statement::Jump(name) | Statement::Goto(name) if !chain(name) => Some(name),
            Statement::GotoOneOf(names) => names.iter().find(|name| !chain(name)),
            Statement::AddressInSet { set: name, .. }
            | Statement::Remember(name)
            | Statement::ConnectionInSet(name)
            | Statement::ByAddress(name)
            | Statement::ByPort(name)
                if !set(name) =>
            {
                Some(name)
            }
            _ => None,
        };
        missing.map_or(Ok(()), |name| Err(FakeError::Missing(name.to_string())))
    }
}

fn uses_set(statement: &Statement, name: &Name) -> bool {
    matches!(statement, Statement::AddressInSet { set, .. } | Statement::Remember(set) if set == name)
}

fn leads_to(statement: &Statement, name: &Name) -> bool {
    match statement {
        Statement::Jump(to) | Statement::Goto(to) => to == name,
        Statement::GotoOneOf(chains) => chains.contains(name),
        _ => false,
    }
}
