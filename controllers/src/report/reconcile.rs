//! The line of the log about a reconcile that changed something: one, however many writes it took.
//!
//! Whoever else wants to know (a trace, a page) is told the same. Words are made only if somebody hears them; writes that
//! failed have lines of their own (`log`).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::lines::{Named, enabled_of, line_of};
use super::look::{Look, LookId, LookIds, Times};
use super::metrics::Planned;
use super::trigger::Trigger;
use super::words;
pub use super::written::Written;
use crate::controller::{Controller, Key};

/// What was decided.
#[derive(Clone, Copy, Debug)]
pub enum Decision<'a> {
    /// This.
    Words(&'a str),
    /// Slices change, of at most so many endpoints.
    Slices(Planned, usize),
    /// An `Endpoints` object has so many addresses that are ready, and so many that are not.
    Addresses(usize, usize),
}

/// A reconcile that changed something, or tried to.
#[derive(Clone, Debug)]
pub struct Reconcile<'a> {
    /// Its number.
    pub id: LookId,
    /// What was reconciled, and by which controller.
    pub key: &'a Key,
    /// What called for it.
    pub trigger: &'a Trigger,
    /// What was decided.
    pub decision: Decision<'a>,
    /// The writes that were carried out.
    pub written: Vec<Written>,
    /// How many writes were not carried out.
    pub failed: usize,
    /// How long its parts took.
    pub times: Times,
}

impl Reconcile<'_> {
    /// The decision in words, as `+2 endpoints, 1 no longer ready; 1 slice updated, 99/100 full`.
    #[must_use]
    pub fn decision(&self) -> String {
        match self.decision {
            Decision::Words(text) => text.to_owned(),
            Decision::Slices(planned, max) => words::of_slices(&planned, &self.written, max),
            Decision::Addresses(ready, not_ready) => words::of_addresses(&self.written, ready, not_ready),
        }
    }

    /// The names of what was written, as far as they are few; with their kinds where there are several.
    #[must_use]
    pub fn objects(&self) -> String {
        let named = |written: &Written| match self.key.controller {
            Controller::Allocation | Controller::Addresses | Controller::NodePorts => {
                format!("{}/{}", written.resource.plural(), written.name)
            }
            _ => written.name.clone(),
        };
        words::few(self.written.iter().map(named))
    }

    /// The versions of what was written, before and after, in the same order.
    #[must_use]
    pub fn versions(&self) -> String {
        words::few(self.written.iter().map(words::versions))
    }

    /// Writes the line.
    fn line(&self) {
        let (controller, named) = (self.key.controller, Named::of(self.key));
        let (objects, failed) = (self.objects(), (self.failed > 0).then_some(self.failed));
        let Times { gathering, queued, planning, writing } = self.times;
        let (what, objects_are) = said(controller);
        line_of!(
            controller,
            info,
            controller = controller.name(),
            namespace = named.namespace,
            service = named.service,
            servicecidr = named.servicecidr,
            nodeportrange = named.nodeportrange,
            servicepool = named.servicepool,
            trigger = self.trigger.to_string(),
            decision = self.decision(),
            writes = self.written.len(),
            failed,
            slices = (objects_are == Objects::Slices).then_some(&*objects),
            objects = (objects_are == Objects::OfSeveralKinds).then_some(&*objects),
            versions = self.versions(),
            gathering = (!gathering.is_zero()).then_some(tracing::field::debug(words::short(gathering))),
            queued = ?words::short(queued),
            planning = ?words::short(planning),
            writing = ?words::short(writing),
            id = %self.id,
            "wrote {what}"
        );
    }
}

/// Which field has the names of what was written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Objects {
    Slices,
    OfSeveralKinds,
    /// None: they bear the name of the key.
    Key,
}

/// What a controller writes, as its line says it.
const fn said(controller: Controller) -> (&'static str, Objects) {
    match controller {
        Controller::Slices | Controller::Mirrors => ("slices", Objects::Slices),
        Controller::Endpoints => ("endpoints", Objects::Key),
        Controller::Cidrs => ("service CIDR", Objects::Key),
        Controller::Allocation => ("addresses and ports", Objects::OfSeveralKinds),
        Controller::Addresses => ("IP addresses", Objects::OfSeveralKinds),
        Controller::NodePorts => ("node ports", Objects::OfSeveralKinds),
        Controller::PortRanges => ("node port range", Objects::Key),
        Controller::Pools => ("service pool", Objects::Key),
    }
}

/// Whoever wants to know of reconciles beside the log. Called in the middle of the work: it must not wait.
pub trait Listener: Send + Sync + fmt::Debug {
    /// Whether it wants to hear of the look with this number.
    fn wants(&self, id: LookId) -> bool;

    /// A reconcile that changed something, or tried to, has ended.
    fn reconciled(&self, reconcile: &Reconcile<'_>);
}

/// Numbers looks, and tells what they wrote.
#[derive(Clone, Debug, Default)]
pub struct Told {
    ids: LookIds,
    listeners: Arc<[Arc<dyn Listener>]>,
}

impl Told {
    /// Tells these, and the log.
    #[must_use]
    pub fn new(listeners: impl IntoIterator<Item = Arc<dyn Listener>>) -> Self {
        Self { ids: LookIds::default(), listeners: listeners.into_iter().collect() }
    }

    /// A look begins.
    #[must_use]
    pub fn begin(&self) -> Look {
        let id = self.ids.next();
        let traced = self.listeners.iter().any(|listener| listener.wants(id));
        Look { id, traced, begun: Instant::now(), planning: Duration::ZERO }
    }

    /// Whether anybody hears of what the look with this number wrote.
    pub(crate) fn is_heard(&self, controller: Controller, id: LookId) -> bool {
        enabled_of!(controller, INFO) || self.listeners.iter().any(|listener| listener.wants(id))
    }

    /// Tells of the look with this number what it wrote, if anybody hears it; `reconcile` is made only then.
    pub(crate) fn tell<'a>(
        &self,
        controller: Controller,
        id: LookId,
        reconcile: impl FnOnce() -> Reconcile<'a>,
    ) {
        let logged = enabled_of!(controller, INFO);
        let heard = || self.listeners.iter().filter(|listener| listener.wants(id));
        if !logged && heard().next().is_none() {
            return;
        }
        let reconcile = reconcile();
        if logged && !reconcile.written.is_empty() {
            reconcile.line();
        }
        heard().for_each(|listener| listener.reconciled(&reconcile));
    }
}
