//! A look at the mirror of an `Endpoints` object: decide, read what is not known, or send what is decided and take in the
//! answers.

use std::sync::Arc;

use tracing::Instrument;

use super::state::{MirrorStep, State};
use crate::api::RequestError;
use crate::controller::Key;
use crate::endpointslice::apply;
use crate::reconcile::context::Context;
use crate::reconcile::report::{self, LookError, Looked, RefusedWrite};
use crate::reconcile::step::{SliceJob, Step};

/// Puts the mirror of an `Endpoints` object right.
///
/// # Errors
/// If what is there cannot be read, or the server refuses a write that is still needed.
pub async fn reconcile(context: Arc<Context<State>>, key: Key) -> Result<Looked, LookError> {
    match context.with(|index, state, out| state.step(index, &key.namespace, &key.name, out)) {
        MirrorStep::ReadEndpoints => read_endpoints(&context, &key).await,
        MirrorStep::Slices(Step::Idle) => Ok(Looked::Right { again: None }),
        MirrorStep::Slices(Step::Read) => read_slices(&context, &key).await,
        MirrorStep::Slices(Step::Send(job)) => {
            let span = report::span(&key, job.cause, job.writes.len());
            write(&context, job).instrument(span).await
        }
    }
}

/// Reads the addresses that are to be mirrored. Without an object there is nothing to enter: its end is the watch's to tell.
async fn read_endpoints(context: &Context<State>, key: &Key) -> Result<Looked, LookError> {
    match context.api.endpoints(&key.namespace, &key.name).await {
        Ok(found) => {
            context.index.lock().addresses_found(&key.namespace, &key.name, found);
            let known = context.index.lock();
            let read =
                known.endpoints(&key.namespace, &key.name).is_some_and(|known| known.subsets.is_some());
            drop(known);
            if read { Ok(Looked::Read) } else { Ok(Looked::Right { again: Some(STALE) }) }
        }
        Err(RequestError::NotFound(_)) => Ok(Looked::Right { again: Some(STALE) }),
        Err(error) => Err(LookError::Read { verb: "get", object: "endpoints", error }),
    }
}

/// What the watch has not shown yet is looked at again after this.
const STALE: std::time::Duration = std::time::Duration::from_secs(1);

/// Finds out which slices there are.
async fn read_slices(context: &Context<State>, key: &Key) -> Result<Looked, LookError> {
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

/// Sends what is decided, and takes in the answers.
async fn write(context: &Context<State>, job: SliceJob) -> Result<Looked, LookError> {
    let answers = apply::send(context, &job).await;
    let (trigger, refused) = (job.cause, RefusedWrite::of_slices(&job.writes, &answers));
    let (end, released) = context.with(|index, state, _| state.finish(index, job, answers));
    context.delivery.slices(released);
    report::ended(trigger, refused, end)
}
