//! A look at a Service's slices: decide, read what is not known, or send what is decided and take in the answers.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::Instrument;

use super::apply::apply;
use super::explain::explain;
use super::state::State;
use crate::controller::Key;
use crate::reconcile::context::Context;
use crate::reconcile::report::{self, LookError, Looked};
use crate::reconcile::slices;
use crate::reconcile::step::Step;
use crate::report::look::Look;

/// Puts the slices of a Service right.
///
/// # Errors
/// If what is there cannot be read, or the server refuses a write that is still needed.
pub(crate) async fn reconcile(
    context: Arc<Context<State>>,
    key: Key,
    look: Look,
) -> Result<Looked, LookError> {
    let step = context
        .looking(&look, |index, state, out| state.step(index, &key.namespace, &key.name, look.begun, out));
    let look = look.decided();
    explain_if_asked(&context, &key);
    match step {
        Step::Idle => Ok(Looked::Right { again: rest(&context, &key) }),
        Step::Read(read) => slices::read(&context, &key, &read).await,
        Step::Send(job) => {
            let span = report::span(&key, &job.trigger, job.writes.len(), &look);
            let mut looked = apply(&context, job, look).instrument(span).await?;
            if let Looked::Wrote { again, .. } = &mut looked
                && again.is_none()
            {
                *again = rest(&context, &key);
            }
            Ok(looked)
        }
    }
}

/// After how long there may be something to do although nothing happens.
fn rest(context: &Context<State>, key: &Key) -> Option<Duration> {
    context.with(|index, state, _| state.rest(index, key, Instant::now()))
}

/// Why the endpoints are what they are, from all pods of the Service; only when lines for debugging are asked for.
fn explain_if_asked(context: &Context<State>, key: &Key) {
    if tracing::enabled!(tracing::Level::DEBUG) {
        let lines = explain(&context.index.lock(), &key.namespace, &key.name);
        for line in lines {
            tracing::debug!(namespace = &*key.namespace, service = &*key.name, "{line}");
        }
    }
}
