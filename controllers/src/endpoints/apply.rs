//! Sends what was decided for a Service's `Endpoints`: the only place that does.

use crate::api::{Answer, Reply};
use crate::reconcile::context::Context;
use crate::reconcile::report::{self, LookError, Looked, RefusedWrite};
use crate::report::look::{Look, WRITES};
use crate::report::reconcile::{Decision, Reconcile, Written};

use super::state::{EndpointsJob, State};

/// Sends a job's write and takes in the answer.
pub(super) async fn apply(
    context: &Context<State>,
    job: EndpointsJob,
    look: Look,
) -> Result<Looked, LookError> {
    context.queue.wrote(&job.key, 1);
    let answer = send(context, &job, &look).await;
    let (trigger, refused) = (job.trigger.clone(), RefusedWrite::of(&job.write, &answer));
    let (end, released) = context.looking(&look, |index, state, out| state.finish(index, job, answer, out));
    context.delivery.endpoints(released);
    report::ended(|| trigger.to_string(), refused, end)
}

async fn send(context: &Context<State>, job: &EndpointsJob, look: &Look) -> Answer<Reply> {
    let sent = look.begun.elapsed();
    let answer = look.trace(WRITES, context.api.write(&job.write)).await;
    if answer.is_ok() {
        context.metrics.wrote(context.controller, job.write.verb);
    }
    report::tell(context, look, || {
        let written = answer.as_ref().ok().map(|reply| Written {
            verb: job.write.verb,
            resource: job.write.resource,
            name: job.key.name.to_string(),
            before: job.before,
            after: reply.metadata.resource_version.parse().ok(),
            endpoints: None,
            place: 0,
            sent,
            took: look.begun.elapsed().saturating_sub(sent),
        });
        Reconcile {
            id: look.id,
            key: &job.key,
            trigger: &job.trigger,
            decision: Decision::Addresses(job.addresses.0, job.addresses.1),
            failed: usize::from(written.is_none()),
            written: written.into_iter().collect(),
            times: report::times(context, &job.key, look),
        }
    });
    answer
}
