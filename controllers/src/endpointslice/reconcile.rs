//! A look at a Service's slices: decide, read what is not known, or send what is decided and take in the answers.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::Instrument;

use super::apply;
use super::explain::explain;
use super::state::State;
use crate::controller::Key;
use crate::reconcile::context::Context;
use crate::reconcile::report::{self, LookError, Looked, RefusedWrite};
use crate::reconcile::step::{SliceJob, Step};

/// Puts the slices of a Service right.
///
/// # Errors
/// If what is there cannot be read, or the server refuses a write that is still needed.
pub async fn reconcile(context: Arc<Context<State>>, key: Key) -> Result<Looked, LookError> {
    let now = Instant::now();
    let step = context.with(|index, state, out| state.step(index, &key.namespace, &key.name, now, out));
    explain_to_who_asks(&context, &key);
    match step {
        Step::Idle => Ok(Looked::Right { again: rest(&context, &key) }),
        Step::Read => read(&context, &key).await,
        Step::Send(job) => {
            let span = report::span(&key, job.cause, job.writes.len());
            write(&context, job).instrument(span).await
        }
    }
}

/// Finds out which slices there are.
async fn read(context: &Context<State>, key: &Key) -> Result<Looked, LookError> {
    let (found, error) = match context.api.slices_of(&key.namespace, &key.name).await {
        Ok(found) => (Some(found), None),
        Err(error) => (None, Some(error)),
    };
    let events = context.with(|index, state, _| state.finish_read(index, &key.namespace, &key.name, found));
    context.delivery.slices(events);
    match error {
        None => Ok(Looked::Read),
        Some(error) => Err(LookError::Read { verb: "list", object: "endpointslices", error }),
    }
}

/// Sends what is decided, and takes in the answers; then what has to wait for these.
async fn write(context: &Context<State>, job: SliceJob) -> Result<Looked, LookError> {
    let (key, rest_of_job) = (job.key.clone(), job.rest());
    let mut looked = send(context, job).await?;
    if let Some(job) = rest_of_job {
        looked = send(context, job).await?;
    }
    if let Looked::Wrote { again, .. } = &mut looked
        && again.is_none()
    {
        *again = rest(context, &key);
    }
    Ok(looked)
}

async fn send(context: &Context<State>, job: SliceJob) -> Result<Looked, LookError> {
    let answers = apply::send(context, &job).await;
    let (trigger, refused) = (job.cause, RefusedWrite::of_slices(&job.writes, &answers));
    let (end, released) = context.with(|index, state, _| state.finish(index, job, answers));
    context.delivery.slices(released);
    report::ended(trigger, refused, end)
}

/// After how long there may be something to do although nothing happens.
fn rest(context: &Context<State>, key: &Key) -> Option<Duration> {
    context.with(|index, state, _| state.rest(index, key, Instant::now()))
}

/// Why the endpoints are what they are, from all pods of the Service: only for who asks.
fn explain_to_who_asks(context: &Context<State>, key: &Key) {
    if tracing::enabled!(tracing::Level::DEBUG) {
        let lines = explain(&context.index.lock(), &key.namespace, &key.name);
        for line in lines {
            tracing::debug!(namespace = &*key.namespace, service = &*key.name, "{line}");
        }
    }
}
