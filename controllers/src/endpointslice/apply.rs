//! Sends the writes of a Service's slices, for whichever controller keeps them.
//!
//! The only place that sends slices; what the server took is entered by the controller's state.

use futures::{FutureExt, StreamExt};

use crate::api::{Answer, Reply, RequestError};
use crate::reconcile::context::Context;
use crate::reconcile::step::SliceJob;
use crate::requests::slices::{SliceWrite, request};

/// So many writes of one Service are sent at a time.
const WRITES_AT_ONCE: usize = 32;

/// Sends the writes of a job together; the answers come in their order.
pub(crate) async fn send<S: Send>(context: &Context<S>, job: &SliceJob) -> Vec<Answer<Reply>> {
    context.queue.wrote(&job.key, job.writes.len());
    let answers = if let [write] = &job.writes[..] {
        vec![send_one(context, job, write).await]
    } else {
        let sent: Vec<_> = job.writes.iter().map(|write| send_one(context, job, write).boxed()).collect();
        futures::stream::iter(sent).buffered(WRITES_AT_ONCE).collect().await
    };
    context.metrics.planned(context.controller, job.moved, answers.len(), job.hinting);
    context.metrics.wrote_for(job.moved.0 + job.moved.1 + job.changed, answers.len());
    answers
}

async fn send_one<S: Send>(context: &Context<S>, job: &SliceJob, write: &SliceWrite) -> Answer<Reply> {
    let write = request(&job.key.namespace, write)
        .map_err(|e| RequestError::Rejected { code: 0, message: e.to_string() })?;
    let answer = context.api.write(&write).await;
    if let Ok(reply) = &answer {
        context.metrics.wrote(context.controller, write.verb);
        tracing::info!(
            controller = context.controller.name(),
            namespace = &*job.key.namespace,
            service = &*job.key.name,
            trigger = job.cause,
            verb = write.verb.name(),
            // The server names what is made.
            slice = write.name.as_deref().unwrap_or(&reply.metadata.name),
            "wrote slice"
        );
    }
    answer
}
