//! Brings the kernel's table to what was planned: one small transaction for a small change, a look at the whole when in doubt.
//!
//! Owns what is believed to be in the kernel, what is waiting, and what was refused. It knows no API server and no clock (the time
//! comes in as an argument); the kernel is a [`Kernel`].

mod look;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use service_api::address::Family;

use crate::{
    config::{NodeView, RuleSettings},
    endpoint::ServiceKey,
    names::Name,
    nft::{
        diff::{Change, ServiceRules, Table},
        model::Op,
        run::{Kernel, RunError},
    },
    plan::{View, plan_base, plan_service},
    track::{Cluster, Touched},
};

/// A transaction is closed when it has so many steps; a Service with more has one of its own.
const STEPS: usize = 1000;
/// How long a chain that nothing leads to stays: kernels before 6.2 hold on to it for a moment.
const STALE: Duration = Duration::from_secs(1);
/// The first and the longest wait before something that was refused is tried again.
const AGAIN: Duration = Duration::from_secs(1);
const AGAIN_AT_MOST: Duration = Duration::from_mins(5);

/// What the planner needs to know.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// The cluster.
    pub cluster: &'a Cluster,
    /// The node.
    pub node: &'a NodeView,
    /// The choices.
    pub settings: &'a RuleSettings,
}

impl<'a> Known<'a> {
    const fn view(self, family: Family) -> View<'a> {
        View { family, node: self.node, settings: self.settings }
    }

    /// Plans everything into a table.
    pub fn plan_into(self, table: &mut Table, change: &mut Change, family: Family) {
        table.set_base(plan_base(self.view(family), &self.cluster.cidrs(family)), change);
        for (key, _) in self.cluster.services() {
            table.set(key, self.rules(key, family), change);
        }
    }

    fn rules(self, key: &ServiceKey, family: Family) -> Option<ServiceRules> {
        let service = self.cluster.service(key)?;
        let fragment = plan_service(key, service, self.cluster.slices(key), self.view(family));
        let empty = fragment.elements.is_empty() && fragment.chains.is_empty();
        (!empty).then_some(ServiceRules { created: service.created, fragment })
    }
}

/// What a call did, for the log, metrics and Events.
#[derive(Debug, Default)]
pub struct Report {
    /// Transactions that the kernel took.
    pub transactions: usize,
    /// Their steps.
    pub steps: usize,
    /// The bytes of the largest one.
    pub largest: usize,
    /// Services whose rules the kernel refuses, and why.
    pub refused: Vec<(ServiceKey, RunError)>,
    /// What stopped the rest.
    pub stopped: Option<RunError>,
    /// How many things a look found different.
    pub put_right: usize,
}

impl Report {
    /// Adds what another call did.
    pub fn merge(&mut self, other: Self) {
        self.transactions += other.transactions;
        self.steps += other.steps;
        self.largest = self.largest.max(other.largest);
        self.refused.extend(other.refused);
        self.stopped = self.stopped.take().or(other.stopped);
        self.put_right += other.put_right;
    }
}

/// Something that is tried again.
#[derive(Debug, Clone, Copy)]
struct Again {
    at: Instant,
    wait: Duration,
}

impl Again {
    fn after(before: Option<Self>, now: Instant) -> Self {
        let wait = before.map_or(AGAIN, |before| (before.wait * 2).min(AGAIN_AT_MOST));
        Self { at: now + wait, wait }
    }
}

/// The table of one family.
#[derive(Debug)]
struct FamilySync {
    family: Family,
    table: Table,
    /// What all Services share may be out of date.
    base: bool,
    waiting: BTreeSet<ServiceKey>,
    refused: BTreeMap<ServiceKey, Again>,
    stale: Vec<(Name, Instant)>,
    /// The kernel's table has to be read before anything else.
    look: bool,
    stopped: Option<Again>,
}

/// The tables of a node.
#[derive(Debug)]
pub struct Syncer<K> {
    kernel: K,
    families: Vec<FamilySync>,
    /// The kernel's generation if nobody but us has changed anything.
    generation: Option<u32>,
}

impl<K: Kernel> Syncer<K> {
    /// Tables of these families, to be looked at first.
    pub fn new(kernel: K, families: &[Family]) -> Self {
        let of = |family: &Family| FamilySync {
            family: *family,
            table: Table::default(),
            base: true,
            waiting: BTreeSet::new(),
            refused: BTreeMap::new(),
            stale: Vec::new(),
            look: true,
            stopped: None,
        };
        Self { kernel, families: families.iter().map(of).collect(), generation: None }
    }

    /// The table of a family as it is meant to be.
    pub fn table(&self, family: Family) -> Option<&Table> {
        self.families.iter().find(|of| of.family == family).map(|of| &of.table)
    }

    /// Takes note of what changed; [`Self::step`] does it.
    pub fn touch(&mut self, touched: &Touched, known: Known<'_>) {
        for of in &mut self.families {
            of.waiting.extend(touched.services.iter().cloned());
            of.base |= touched.base || touched.everything;
            if touched.everything {
                of.waiting.extend(known.cluster.services().map(|(key, _)| key.clone()));
                of.waiting.extend(of.table.services().map(|(key, _)| key.clone()));
            }
        }
    }

    /// Whether something can be done now.
    pub fn has_work(&self, now: Instant) -> bool {
        self.families.iter().any(|of| of.ready(now) && !of.is_settled())
    }

    /// Whether the kernel has everything that was planned, but for what it refuses.
    pub fn is_settled(&self) -> bool {
        self.families.iter().all(FamilySync::is_settled)
    }

    /// The Services that the kernel refuses.
    pub fn refused(&self) -> impl Iterator<Item = &ServiceKey> {
        self.families.iter().flat_map(|of| of.refused.keys())
    }

    /// When something that was put off is due.
    pub fn due(&self) -> Option<Instant> {
        let of = |of: &FamilySync| {
            // Nothing else is done before that.
            if let Some(again) = of.stopped {
                return Some(again.at);
            }
            let stale = of.stale.first().map(|(_, since)| *since + STALE);
            let waits = of.refused.iter().filter(|(key, _)| !of.waiting.contains(*key));
            let refused = waits.map(|(_, again)| again.at).min();
            [stale, refused].into_iter().flatten().min()
        };
        self.families.iter().filter_map(of).min()
    }

    /// Does one transaction's worth of what is waiting, the shared part first.
    pub fn step(&mut self, known: Known<'_>, now: Instant) -> Report {
        let mut report = Report::default();
        for of in &mut self.families {
            if !of.ready(now) {
                continue;
            }
            if of.look {
                of.plan_all(known);
                of.look(&mut self.kernel, &mut self.generation, now, &mut report);
            } else {
                of.base(&mut self.kernel, &mut self.generation, known, now, &mut report);
                of.some(&mut self.kernel, &mut self.generation, known, now, &mut report);
            }
        }
        report
    }

    /// Removes chains that nothing leads to, and tries again what was refused.
    pub fn overdue(&mut self, now: Instant) -> Report {
        let mut report = Report::default();
        for of in &mut self.families {
            let due: Vec<_> = of.refused.iter().filter(|(_, again)| again.at <= now).collect();
            of.waiting.extend(due.into_iter().map(|(key, _)| key.clone()));
            if of.ready(now) && !of.look {
                of.sweep(&mut self.kernel, &mut self.generation, now, &mut report);
            }
        }
        report
    }

    /// Looks at the tables again if somebody else changed anything since.
    pub fn suspect(&mut self) -> Result<bool, RunError> {
        let generation = self.kernel.generation()?;
        let changed = self.generation != Some(generation);
        if changed {
            for of in &mut self.families {
                of.look = true;
            }
        }
        Ok(changed)
    }

    /// Removes the tables.
    pub fn clean_up(&mut self) -> Result<(), RunError> {
        for of in &mut self.families {
            let snapshot = self.kernel.read(of.family)?;
            if snapshot.table.is_some() {
                look::check_ours(&snapshot, of.family)?;
                self.kernel.apply(&[Op::DeleteTable], of.family)?;
            }
            of.look = true;
        }
        Ok(())
    }
}

impl FamilySync {
    fn is_settled(&self) -> bool {
        !self.look && !self.base && self.waiting.is_empty()
    }

    fn ready(&self, now: Instant) -> bool {
        self.stopped.is_none_or(|again| again.at <= now)
    }

    /// Plans everything into the table without telling the kernel; a look will.
    fn plan_all(&mut self, known: Known<'_>) {
        let mut change = Change::default();
        let gone: Vec<ServiceKey> = (self.table.services().map(|(key, _)| key))
            .filter(|key| known.cluster.service(key).is_none())
            .cloned()
            .collect();
        for key in gone {
            self.table.set(&key, None, &mut change);
        }
        known.plan_into(&mut self.table, &mut change, self.family);
        self.base = false;
        self.waiting.clear();
        self.refused.clear();
    }

    fn base(
        &mut self,
        kernel: &mut impl Kernel,
        generation: &mut Option<u32>,
        known: Known<'_>,
        now: Instant,
        report: &mut Report,
    ) {
        if !self.base {
            return;
        }
        self.base = false;
        let mut change = Change::default();
        self.table
            .set_base(plan_base(known.view(self.family), &known.cluster.cidrs(self.family)), &mut change);
        if !change.is_empty() {
            let ops = self.table.ops(&change);
            match run(kernel, generation, self.family, &ops, report) {
                Ok(()) => self.stopped = None,
                Err(error) => self.stop(error, now, report),
            }
        }
    }

    /// The Services that are waiting, as many as fit.
    fn some(
        &mut self,
        kernel: &mut impl Kernel,
        generation: &mut Option<u32>,
        known: Known<'_>,
        now: Instant,
        report: &mut Report,
    ) {
        let mut change = Change::default();
        let mut taken = Vec::new();
        while change.len() < STEPS
            && let Some(key) = self.waiting.pop_first()
        {
            self.table.set(&key, known.rules(&key, self.family), &mut change);
            taken.push(key);
        }
        let ops = self.table.ops(&change);
        if ops.is_empty() {
            return;
        }
        match run(kernel, generation, self.family, &ops, report) {
            Ok(()) => self.confirm(&change, now),
            Err(RunError::Refused { .. }) => {
                self.table.revert(change);
                for key in taken {
                    self.one(kernel, generation, (&key, known), now, report);
                }
            }
            // The table is what should be there; a look finds out what is.
            Err(error) => self.stop(error, now, report),
        }
    }

    /// One Service by itself, after the kernel refused several together.
    fn one(
        &mut self,
        kernel: &mut impl Kernel,
        generation: &mut Option<u32>,
        (key, known): (&ServiceKey, Known<'_>),
        now: Instant,
        report: &mut Report,
    ) {
        let mut change = Change::default();
        self.table.set(key, known.rules(key, self.family), &mut change);
        let ops = self.table.ops(&change);
        if ops.is_empty() {
            return;
        }
        match run(kernel, generation, self.family, &ops, report) {
            Ok(()) => self.confirm(&change, now),
            Err(error @ RunError::Refused { .. }) => {
                self.table.revert(change);
                self.refuse(key.clone(), error, now, report);
            }
            Err(error) => self.stop(error, now, report),
        }
    }

    fn confirm(&mut self, change: &Change, now: Instant) {
        for key in change.services() {
            self.refused.remove(key);
        }
        self.stale.extend(change.stale().iter().map(|name| (name.clone(), now)));
        self.stopped = None;
    }

    fn refuse(&mut self, key: ServiceKey, error: RunError, now: Instant, report: &mut Report) {
        let again = Again::after(self.refused.get(&key).copied(), now);
        self.refused.insert(key.clone(), again);
        report.refused.push((key, error));
    }

    /// What is in the kernel is not known any more.
    fn stop(&mut self, error: RunError, now: Instant, report: &mut Report) {
        self.look = true;
        // What somebody else changed is put right at once, but not over and over.
        if !error.asks_for_a_look() || self.stopped.is_some() {
            self.stopped = Some(Again::after(self.stopped, now));
        } else {
            self.stopped = Some(Again { at: now, wait: AGAIN / 2 });
        }
        report.stopped.get_or_insert(error);
    }

    fn sweep(
        &mut self,
        kernel: &mut impl Kernel,
        generation: &mut Option<u32>,
        now: Instant,
        report: &mut Report,
    ) {
        if self.stale.first().is_none_or(|(_, since)| *since + STALE > now) {
            return;
        }
        let used: std::collections::HashSet<&str> = self.table.chains().map(|chain| &*chain.name).collect();
        let (due, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut self.stale)
            .into_iter()
            .filter(|(name, _)| !used.contains(&**name))
            .partition(|(_, since)| *since + STALE <= now);
        self.stale = kept;
        for names in due.chunks(STEPS) {
            let ops: Vec<Op> = names.iter().map(|(name, _)| Op::DeleteChain(name.clone())).collect();
            if run(kernel, generation, self.family, &ops, report).is_ok() {
                continue;
            }
            for (op, (name, _)) in ops.iter().zip(names) {
                match run(kernel, generation, self.family, std::slice::from_ref(op), report) {
                    Err(RunError::Differs { source, .. })
                        if source.kind() != std::io::ErrorKind::NotFound =>
                    {
                        self.stale.push((name.clone(), now));
                    }
                    _ => {}
                }
            }
        }
    }
}

/// Runs a transaction and counts it.
fn run(
    kernel: &mut impl Kernel,
    generation: &mut Option<u32>,
    family: Family,
    ops: &[Op],
    report: &mut Report,
) -> Result<(), RunError> {
    let bytes = kernel.apply(ops, family)?;
    // The kernel leaves zero out.
    *generation = generation.map(|number| number.checked_add(1).unwrap_or(1));
    report.transactions += 1;
    report.steps += ops.len();
    report.largest = report.largest.max(bytes);
    Ok(())
}

#[cfg(test)]
mod tests;
