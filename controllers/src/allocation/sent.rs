//! What a look wrote, for whoever is told of it.
//!
//! Owns how that is put together from the writes of one look, some of which are sent side by side. Words are made only if
//! somebody hears them.

use std::time::Duration;

use parking_lot::Mutex;

use crate::api::{Resource, Verb};
use crate::controller::{Controller, Key};
use crate::ledger::EntryKind;
use crate::reconcile::pending::Waited;
use crate::report::look::{Look, LookId, Times};
use crate::report::metrics::Metrics;
use crate::report::reconcile::{Decision, Reconcile, Told, Written};
use crate::report::trigger::Trigger;

/// The writes of a look so far.
pub(crate) struct Sent<'a> {
    controller: Controller,
    metrics: &'a Metrics,
    told: &'a Told,
    look: Look,
    is_heard: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// How long it took until it was decided what to write first.
    planning: Option<Duration>,
    /// What was decided, and how many writes there were before.
    decisions: Vec<(usize, String)>,
    written: Vec<Written>,
    failed: usize,
}

/// A write that is carried out: what is done to which object, and its version before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct What<'a> {
    pub(crate) verb: Verb,
    pub(crate) resource: Resource,
    pub(crate) name: &'a str,
    pub(crate) before: Option<u64>,
}

impl<'a> What<'a> {
    /// What is done to an entry.
    pub(crate) fn of(verb: Verb, kind: EntryKind, name: &'a str, before: Option<u64>) -> Self {
        let resource = match kind {
            EntryKind::Address => Resource::Addresses,
            EntryKind::Port => Resource::NodePorts,
        };
        Self { verb, resource, name, before }
    }
}

impl<'a> Sent<'a> {
    /// A look of a controller begins.
    pub(crate) fn begin(controller: Controller, metrics: &'a Metrics, told: &'a Told) -> Self {
        let look = told.begin();
        let is_heard = told.is_heard(controller, look.id);
        Self { controller, metrics, told, look, is_heard, state: Mutex::default() }
    }

    /// The number of the look.
    pub(crate) fn id(&self) -> LookId {
        self.look.id
    }

    /// It is decided what to write, in these words. They take the place of those before if nothing came of them.
    pub(crate) fn decided(&self, words: impl FnOnce() -> String) {
        let mut state = self.state.lock();
        state.planning.get_or_insert_with(|| self.look.begun.elapsed());
        if self.is_heard {
            let writes = state.written.len();
            state.decisions.retain(|(before, _)| *before < writes);
            let words = words();
            if !words.is_empty() {
                state.decisions.push((writes, words));
            }
        }
    }

    /// How long the look has taken so far.
    pub(crate) fn elapsed(&self) -> Duration {
        self.look.begun.elapsed()
    }

    /// A write that was `sent` so long after the begin was carried out; `after` is the version that the answer named.
    pub(crate) fn wrote(&self, what: What<'_>, after: Option<u64>, sent: Duration) {
        let What { verb, resource, name, before } = what;
        self.metrics.wrote(self.controller, verb);
        let took = self.elapsed().saturating_sub(sent);
        let name = if self.is_heard { name.to_owned() } else { String::new() };
        let mut state = self.state.lock();
        let place = state.written.len() as u64;
        state.written.push(Written {
            verb,
            resource,
            name,
            before,
            after,
            endpoints: None,
            place,
            sent,
            took,
        });
    }

    /// A write was not carried out.
    pub(crate) fn failed(&self) {
        self.state.lock().failed += 1;
    }

    /// The look has ended: tells what it wrote, if it did.
    pub(crate) fn tell(self, key: &Key, trigger: &Trigger, waited: Waited) {
        let (writing, look) = (self.elapsed(), self.look);
        let State { planning, decisions, written, failed } = self.state.into_inner();
        if written.is_empty() && failed == 0 {
            return;
        }
        let planning = planning.unwrap_or_default();
        let words: Vec<String> = decisions.into_iter().map(|(_, words)| words).collect();
        let (words, Waited { gathering, queued }) = (words.join("; then "), waited);
        self.told.tell(self.controller, look.id, || Reconcile {
            id: look.id,
            key,
            trigger,
            decision: Decision::Words(&words),
            written,
            failed,
            times: Times { gathering, queued, planning, writing: writing.saturating_sub(planning) },
        });
    }
}
