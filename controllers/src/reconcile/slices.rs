//! What the controllers that keep slices have in common: how a Service's slices are read, how writes of them are sent, and
//! how their states hear of events and answers.
//!
//! The only place that reads and sends slices. Whose they are and what should be in them is a controller's own.

use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt};

use super::context::Context;
use super::outbox::Outbox;
use super::report::{self, LookError, Looked, RefusedWrite};
use super::slice_tracker::{Notice, SliceTracker, found_events};
use super::step::{End, SliceJob, SliceRead};
use crate::api::{Answer, Reply, RequestError, Resource, Verb};
use crate::cache::{Service, Slice, SliceKeeper};
use crate::controller::{Controller, Key};
use crate::index::Index;
use crate::index::events::SliceEvent;
use crate::index::slices::{SliceKept, SliceLeft};
use crate::objects::SliceWire;
use crate::report::look::{Look, WRITES};
use crate::report::note::Note;
use crate::report::reconcile::{Decision, Reconcile, Written};
use crate::report::trigger::Event;
use crate::requests::slices::{SliceWrite, request};
use crate::text::Text;

/// So many writes of one Service are sent at a time.
const WRITES_AT_ONCE: usize = 32;

/// The state of a controller that keeps slices.
pub trait SliceState: Send {
    /// Which of them it is.
    fn keeper(&self) -> SliceKeeper;

    /// What it remembers of its own writes for a Service, if it remembers anything.
    fn known_tracker(&mut self, namespace: &Text, service: &Text) -> Option<&mut SliceTracker>;

    /// The same; from now on it does.
    fn tracker(&mut self, namespace: &Text, service: &Text) -> &mut SliceTracker;

    /// Somebody else's change of a Service's slices calls for this; which event of which slice it was is told.
    fn slices_changed(
        &mut self,
        namespace: &Text,
        service: &Text,
        notice: Notice,
        event: (Event, Option<&Text>),
        out: &mut Outbox,
    );

    /// Takes in the answers to a job's writes, in their order; gives the events that waited for them.
    fn finish(
        &mut self,
        index: &mut Index,
        job: SliceJob,
        answers: Vec<Answer<Reply>>,
    ) -> (End, Vec<SliceEvent>);

    /// Puts `event` aside if answers of a Service are awaited.
    ///
    /// # Errors
    /// The event, if none are.
    fn hold(&mut self, namespace: &Text, service: &Text, event: SliceEvent) -> Result<(), SliceEvent> {
        match self.known_tracker(namespace, service).filter(|tracker| tracker.in_flight.is_open()) {
            Some(tracker) => {
                tracker.in_flight.hold(event);
                Ok(())
            }
            None => Err(event),
        }
    }

    /// A slice is no longer a Service's.
    fn slice_left(&mut self, namespace: &Text, change: &SliceLeft, out: &mut Outbox) {
        let notice = self.tracker(namespace, &change.home.1).left(change);
        let slice = change.old.as_ref().map(|old| &old.name);
        self.slices_changed(namespace, &change.home.1, notice, (Event::SliceChanged, slice), out);
    }

    /// A slice of a Service is not what it was.
    fn slice_kept(&mut self, namespace: &Text, change: &SliceKept, out: &mut Outbox) {
        let notice = self.tracker(namespace, &change.home.1).kept(change);
        let event = (Event::SliceChanged, Some(&change.name));
        self.slices_changed(namespace, &change.home.1, notice, event, out);
    }

    /// A slice of a Service is gone. If it was deleted with the Service, the event of that may still be on its way.
    fn slice_gone(&mut self, namespace: &Text, service: &Text, old: Option<&Arc<Slice>>, out: &mut Outbox) {
        self.tracker(namespace, service).gone(old);
        let event = (Event::SliceDeleted, old.map(|old| &old.name));
        self.slices_changed(namespace, service, Notice::Now, event, out);
    }

    /// Takes in what a read found of a Service's slices, after a write without an answer or somebody else's; none if it
    /// found nothing out. Gives that, and what has waited for it, as events.
    fn finish_read(
        &mut self,
        index: &mut Index,
        namespace: &Text,
        service: &Text,
        read: &SliceRead,
        found: Option<Vec<SliceWire>>,
    ) -> Vec<SliceEvent> {
        let home = (self.keeper(), Arc::clone(service));
        let waited = self.tracker(namespace, service).end_read(read, found.is_some());
        let found = found.map(|found| found_events(index, namespace, &home, read, found));
        found.into_iter().flatten().chain(waited).collect()
    }
}

/// Finds out which slices of a Service there are, or what is in one of them.
///
/// # Errors
/// If they cannot be read.
pub(crate) async fn read<S: SliceState>(
    context: &Context<S>,
    key: &Key,
    read: &SliceRead,
) -> Result<Looked, LookError> {
    let answer = match read {
        SliceRead::All => context.api.slices_of(&key.namespace, &key.name).await,
        SliceRead::One(slice) => {
            context.api.slice(&key.namespace, slice).await.map(|found| found.into_iter().collect())
        }
    };
    let (found, error) = match answer {
        Ok(found) => (Some(found), None),
        Err(error) => (None, Some(error)),
    };
    let events =
        context.with(|index, state, _| state.finish_read(index, &key.namespace, &key.name, read, found));
    context.delivery.slices(events);
    match error {
        None => Ok(Looked::Read),
        Some(error) => Err(LookError::Read { verb: "list", object: "endpointslices", error }),
    }
}

/// Sends the writes of a job, and takes in the answers.
///
/// # Errors
/// If the server refuses a write that is still needed.
pub(crate) async fn apply<S: SliceState>(
    context: &Context<S>,
    job: SliceJob,
    look: Look,
) -> Result<Looked, LookError> {
    let trigger = job.trigger.clone();
    let answers = send(context, &job, &look).await;
    let refused = RefusedWrite::of_slices(&job.writes, &answers);
    let (end, released) = context.looking(&look, |index, state, _| state.finish(index, job, answers));
    context.delivery.slices(released);
    report::ended(|| trigger.to_string(), refused, end)
}

/// An answer, after how long of the look the write was sent, and how long the answer took.
type Timed = (Answer<Reply>, Duration, Duration);

/// Sends the writes of a job together; the answers come in their order.
async fn send<S: Send>(context: &Context<S>, job: &SliceJob, look: &Look) -> Vec<Answer<Reply>> {
    context.queue.wrote(&job.key, job.writes.len());
    let answers = if let [write] = &job.writes[..] {
        vec![look.trace(WRITES, send_one(context, job, look, write)).await]
    } else {
        let sent = (WRITES..).zip(&job.writes);
        let sent: Vec<_> = sent
            .map(|(place, write)| look.trace(place, send_one(context, job, look, write)).boxed())
            .collect();
        futures::stream::iter(sent).buffered(WRITES_AT_ONCE).collect().await
    };
    context.metrics.planned(context.controller, &job.planned, answers.len());
    context.metrics.wrote_for(job.planned.changes(), answers.len());
    if context.controller == Controller::Slices
        && job.planned.changes() > 0
        && answers.iter().all(|(answer, ..)| answer.is_ok())
    {
        let since_event = report::times(context, &job.key, look).total();
        context.metrics.in_slices(since_event, since_change(job));
    }
    report::tell(context, look, || told(context, job, look, &answers));
    answers.into_iter().map(|(answer, ..)| answer).collect()
}

/// How long ago the pod changed that called for a job, if one did.
fn since_change(job: &SliceJob) -> Option<Duration> {
    let since = job.since.filter(|_| job.trigger.event().is_some_and(Event::is_of_pod))?;
    let past = jiff::Timestamp::now().as_second().checked_sub(since)?;
    u64::try_from(past).ok().map(Duration::from_secs)
}

async fn send_one<S: Send>(context: &Context<S>, job: &SliceJob, look: &Look, write: &SliceWrite) -> Timed {
    let sent = look.begun.elapsed();
    let answer = match request(&job.key.namespace, write) {
        Ok(write) => {
            let answer = context.api.write(&write).await;
            if answer.is_ok() {
                context.metrics.wrote(context.controller, write.verb);
            }
            answer
        }
        Err(error) => Err(RequestError::Rejected { code: 0, message: error.to_string() }),
    };
    (answer, sent, look.begun.elapsed().saturating_sub(sent))
}

/// What is told of a job's writes.
fn told<'a, S>(context: &Context<S>, job: &'a SliceJob, look: &Look, answers: &[Timed]) -> Reconcile<'a> {
    let written = (0..).zip(&job.writes).zip(answers).filter_map(|((place, write), (answer, sent, took))| {
        let reply = answer.as_ref().ok()?;
        let after = reply.metadata.resource_version.parse().ok();
        let (verb, name, before, after, endpoints) = match write {
            // The server names what is made.
            SliceWrite::Create(new) => {
                (Verb::Create, reply.metadata.name.clone(), None, after, Some(new.endpoints.len()))
            }
            SliceWrite::Update { old, new } => {
                (Verb::Update, old.name.to_string(), Some(old.version), after, Some(new.endpoints.len()))
            }
            SliceWrite::Delete(old) => (Verb::Delete, old.name.to_string(), Some(old.version), None, None),
        };
        let (resource, sent, took) = (Resource::Slices, *sent, *took);
        Some(Written { verb, resource, name, before, after, endpoints, place, sent, took })
    });
    let written: Vec<_> = written.collect();
    Reconcile {
        id: look.id,
        key: &job.key,
        trigger: &job.trigger,
        decision: Decision::Slices(job.planned, job.max),
        failed: answers.len() - written.len(),
        written,
        times: report::times(context, &job.key, look),
    }
}

/// What is told on a Service whose slices the server does not take.
pub(crate) fn failure_note(
    service: Option<&Arc<Service>>,
    controller: Controller,
    failure: Option<&RequestError>,
) -> Option<Note> {
    let (service, error) =
        (service?, failure.filter(|error| matches!(error, RequestError::Rejected { .. }))?);
    let message =
        format!("Error updating Endpoint Slices for Service {}/{}: {error}", service.namespace, service.name);
    Some(Note::on(service, controller, "FailedToUpdateEndpointSlices", message))
}
