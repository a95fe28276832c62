//! Sends what was decided for a Service's slices, in the order in which it has to happen.

use crate::reconcile::context::Context;
use crate::reconcile::report::{LookError, Looked};
use crate::reconcile::slices;
use crate::reconcile::step::SliceJob;
use crate::report::look::Look;

use super::state::State;

/// Sends a job's writes and takes in the answers; then the writes that had to wait for these.
pub(super) async fn apply(context: &Context<State>, job: SliceJob, look: Look) -> Result<Looked, LookError> {
    let rest = job.rest();
    let looked = slices::apply(context, job, look).await?;
    match rest {
        Some(rest) => slices::apply(context, rest, look).await,
        None => Ok(looked),
    }
}
