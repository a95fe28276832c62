//! Sends the writes of a Service's slices, for whichever controller keeps them.
//!
//! The only place that sends slices; what the server took is entered by the controller's state.

use futures::{FutureExt, StreamExt};

use crate::api::{Answer, Reply, RequestError, Resource, Verb};
use crate::reconcile::context::Context;
use crate::reconcile::step::SliceJob;
use crate::report::reconcile::ReconcileLine;
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
    context.metrics.planned(context.controller, &job.planned, answers.len());
    context.metrics.wrote_for(job.planned.changes(), answers.len());
    tell(job, &answers);
    answers
}

async fn send_one<S: Send>(context: &Context<S>, job: &SliceJob, write: &SliceWrite) -> Answer<Reply> {
    let write = request(&job.key.namespace, write)
        .map_err(|e| RequestError::Rejected { code: 0, message: e.to_string() })?;
    let answer = context.api.write(&write).await;
    if answer.is_ok() {
        context.metrics.wrote(context.controller, write.verb);
    }
    answer
}

/// Tells what was written.
fn tell(job: &SliceJob, answers: &[Answer<Reply>]) {
    let written = job.writes.iter().zip(answers).filter_map(|(write, answer)| {
        let reply = answer.as_ref().ok()?;
        Some(match write {
            // The server names what is made.
            SliceWrite::Create(_) => (Verb::Create, reply.metadata.name.clone()),
            SliceWrite::Update { old, .. } => (Verb::Update, old.name.to_string()),
            SliceWrite::Delete(old) => (Verb::Delete, old.name.to_string()),
        })
    });
    let written: Vec<_> = written.collect();
    let (failed, resource) = (answers.len() - written.len(), Resource::Slices);
    let (key, trigger, planned) = (&job.key, job.cause, job.planned);
    ReconcileLine { key, trigger, decision: None, resource, written, planned, failed }.tell();
}
