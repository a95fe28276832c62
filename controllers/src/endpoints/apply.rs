//! Sends what was decided for a Service's `Endpoints`: the only place that does.

use crate::api::{Answer, Reply};
use crate::reconcile::context::Context;
use crate::reconcile::report::{self, LookError, Looked, RefusedWrite};
use crate::report::reconcile::ReconcileLine;

use super::state::{EndpointsJob, State};

/// Sends a job's write, which `trigger` called for, and takes in the answer.
pub(super) async fn apply(
    context: &Context<State>,
    job: EndpointsJob,
    trigger: &'static str,
) -> Result<Looked, LookError> {
    context.queue.wrote(&job.key, 1);
    let answer = send(context, &job, trigger).await;
    let refused = RefusedWrite::of(&job.write, &answer);
    let (end, released) = context.with(|index, state, out| state.finish(index, job, answer, out));
    context.delivery.endpoints(released);
    report::ended(trigger, refused, end)
}

async fn send(context: &Context<State>, job: &EndpointsJob, trigger: &'static str) -> Answer<Reply> {
    let answer = context.api.write(&job.write).await;
    if answer.is_ok() {
        context.metrics.wrote(context.controller, job.write.verb);
        ReconcileLine::of_one(&job.key, trigger, None, job.write.resource, job.write.verb).tell();
    }
    answer
}
