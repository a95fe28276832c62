//! A look at the mirror of an `Endpoints` object: decide, read what is not known, or send what is decided and take in the
//! answers.

use std::sync::Arc;

use tracing::Instrument;

use super::state::{MirrorStep, State};
use crate::api::RequestError;
use crate::controller::Key;
use crate::reconcile::context::Context;
use crate::reconcile::report::{self, LookError, Looked};
use crate::reconcile::slices;
use crate::reconcile::step::Step;
use crate::report::look::Look;

/// Puts the mirror of an `Endpoints` object right.
///
/// # Errors
/// If what is there cannot be read, or the server refuses a write that is still needed.
pub(crate) async fn reconcile(
    context: Arc<Context<State>>,
    key: Key,
    look: Look,
) -> Result<Looked, LookError> {
    let step = context.looking(&look, |index, state, out| state.step(index, &key.namespace, &key.name, out));
    match step {
        MirrorStep::ReadEndpoints => read_endpoints(&context, &key).await,
        MirrorStep::Slices(Step::Idle) => Ok(Looked::Right { again: None }),
        MirrorStep::Slices(Step::Read(read)) => slices::read(&context, &key, &read).await,
        MirrorStep::Slices(Step::Send(job)) => {
            let span = report::span(&key, &job.trigger, job.writes.len(), &look);
            slices::apply(&context, job, look.decided()).instrument(span).await
        }
    }
}

/// Reads the addresses that are to be mirrored. If there is no object, nothing is entered: the watch shows that it is gone.
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
