//! What becomes of a look at a key: what is counted and told of it, and when the next one is.
//!
//! Owns the way from a controller's result to the log, the metrics and the queue; decides nothing about objects.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::context::Context;
use super::pending::{Next, Waited};
use super::step::End;
use crate::api::{Answer, Reply, RequestError, Resource, Verb, Write};
use crate::controller::Key;
use crate::report::cause::Cause;
use crate::report::failures::Subject;
use crate::report::lines::{line_of, span_of};
use crate::report::log::{About, Failure};
use crate::report::look::{Look, Times};
use crate::report::metrics::SyncResult;
use crate::report::reconcile::Reconcile;
use crate::report::trigger::Trigger;
use crate::requests::slices::SliceWrite;

/// What a look came to.
#[derive(Debug)]
pub(crate) enum Looked {
    /// There was nothing to write; there may be something later.
    Right {
        /// After how long, if that is known.
        again: Option<Duration>,
    },
    /// What is there had to be read first, and has been.
    Read,
    /// All that was to be written is written, or did not have to be any more.
    Wrote {
        /// Writes that were refused and are not needed any more.
        unneeded: Vec<RefusedWrite>,
        /// After how long there may be more to write, if that is known.
        again: Option<Duration>,
    },
}

/// Why a look did not put an object right, by the step that failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LookError {
    /// What has to be known before the next write could not be read.
    #[error("cannot {verb} {object}: {error}")]
    Read {
        /// What was asked for: a verb of the API.
        verb: &'static str,
        /// Of what.
        object: &'static str,
        /// What became of it.
        error: RequestError,
    },
    /// Writes were refused.
    #[error("{} writes were refused", .refused.len())]
    Apply {
        /// What called for them, in words.
        trigger: String,
        /// Those that were.
        refused: Vec<RefusedWrite>,
        /// How it ended.
        end: Box<End>,
    },
}

/// A write that was not carried out, as far as is known.
#[derive(Debug)]
pub(crate) struct RefusedWrite {
    verb: Verb,
    /// Resource and, unless the server was to choose it, name.
    object: String,
    error: RequestError,
}

impl RefusedWrite {
    /// Those of the writes of a Service's slices.
    #[must_use]
    pub(crate) fn of_slices(writes: &[SliceWrite], answers: &[Answer<Reply>]) -> Vec<Self> {
        let refused = writes.iter().zip(answers).filter_map(|(write, answer)| {
            let error = answer.as_ref().err()?.clone();
            let (verb, name) = match write {
                SliceWrite::Create(_) => (Verb::Create, None),
                SliceWrite::Update { old, .. } => (Verb::Update, Some(&*old.name)),
                SliceWrite::Delete(old) => (Verb::Delete, Some(&*old.name)),
            };
            Some(Self { verb, object: object(Resource::Slices, name), error })
        });
        refused.collect()
    }

    /// That write, if it was refused.
    #[must_use]
    pub(crate) fn of(write: &Write, answer: &Answer<Reply>) -> Vec<Self> {
        let refused = answer.as_ref().err().map(|error| Self {
            verb: write.verb,
            object: object(write.resource, write.name.as_deref()),
            error: error.clone(),
        });
        refused.into_iter().collect()
    }
}

fn object(resource: Resource, name: Option<&str>) -> String {
    let plural = resource.plural();
    name.map_or_else(|| plural.to_owned(), |name| format!("{plural}/{name}"))
}

/// What a look came to whose writes ended like this.
///
/// # Errors
/// If something has to be written again.
pub(crate) fn ended(
    trigger: impl FnOnce() -> String,
    refused: Vec<RefusedWrite>,
    end: End,
) -> Result<Looked, LookError> {
    if end.failure.is_some() {
        return Err(LookError::Apply { trigger: trigger(), refused, end: Box::new(end) });
    }
    Ok(Looked::Wrote { unneeded: refused, again: end.again })
}

/// Looks at a key: counts it and tells what has to be told; gives when the next look is.
pub(crate) async fn look<S, R>(
    context: Arc<Context<S>>,
    key: Key,
    reconcile: impl FnOnce(Arc<Context<S>>, Key, Look) -> R,
) -> Next
where
    R: Future<Output = Result<Looked, LookError>>,
{
    let working = context.metrics.begin(context.controller, Some(context.queue.waited(&key).queued));
    let (start, look) = (Instant::now(), context.told.begin());
    let (result, next) = match reconcile(Arc::clone(&context), key.clone(), look).await {
        Ok(looked) => succeeded(&context, &key, looked),
        Err(error) => (SyncResult::Error, failed(&context, &key, look, error)),
    };
    drop(working);
    context.metrics.synced(context.controller, result, start.elapsed().as_secs_f64());
    if result == SyncResult::Error && next != Next::Idle {
        context.metrics.retried(context.controller);
    }
    next
}

fn succeeded<S>(context: &Context<S>, key: &Key, looked: Looked) -> (SyncResult, Next) {
    let subject = Subject::Key(key.clone());
    match looked {
        Looked::Right { again } => {
            context.failures.rests(&subject);
            (SyncResult::Success, again.map_or(Next::Idle, Next::After))
        }
        Looked::Read => (SyncResult::Stale, Next::After(Duration::ZERO)),
        Looked::Wrote { unneeded, again } => {
            if unneeded.is_empty() {
                context.failures.works(&subject);
            } else {
                context.failures.rests(&subject);
            }
            for RefusedWrite { verb, object, error } in unneeded {
                line_of!(
                    key.controller,
                    debug,
                    %key,
                    verb = verb.name(),
                    object,
                    why = %error,
                    "nothing was left to write"
                );
            }
            (SyncResult::Success, again.map_or(Next::Idle, Next::After))
        }
    }
}

fn failed<S>(context: &Context<S>, key: &Key, look: Look, error: LookError) -> Next {
    let subject = Subject::Key(key.clone());
    match error {
        LookError::Read { verb, object, error } => {
            let again = match error {
                RequestError::Busy { after: Some(after), .. } => after,
                _ => Duration::from_secs(1),
            };
            let about = About { trigger: None, verb: Some(verb), object: Some(object) };
            let failure = Failure { about, cause: &Cause::of(&error), why: &error };
            context.failures.failed(&subject, &[failure], Some(again));
            wait([&error].into_iter(), again)
        }
        LookError::Apply { trigger, refused, end } => {
            let causes: Vec<Cause> = refused.iter().map(|refused| Cause::of(&refused.error)).collect();
            let failures: Vec<_> = refused
                .iter()
                .zip(&causes)
                .map(|(RefusedWrite { verb, object, error }, cause)| Failure {
                    about: About { trigger: Some(&trigger), verb: Some(verb.name()), object: Some(object) },
                    cause,
                    why: error,
                })
                .collect();
            let news = context.failures.failed(&subject, &failures, end.again);
            if let Some(note) = end.note.filter(|_| news) {
                context.reporter.send(note, Some(look.id));
            }
            if let Some(again) = end.again {
                return wait(refused.iter().map(|refused| &refused.error), again);
            }
            context.failures.rests(&subject);
            Next::Idle
        }
    }
}

/// A wait for a server that gave no answer ends with the outage, one for credentials when they are new.
fn wait<'a>(mut errors: impl Iterator<Item = &'a RequestError>, again: Duration) -> Next {
    if errors
        .any(|error| matches!(error, RequestError::Unreachable(_) | RequestError::Rejected { code: 401, .. }))
    {
        Next::Answer(again)
    } else {
        Next::After(again)
    }
}

/// The span of what a look at a key decided to write, and of what came of it. Each write says whose
/// it is in its own line: a span that is always there would be made for every change.
#[must_use]
pub(crate) fn span(key: &Key, trigger: &Trigger, writes: usize, look: &Look) -> tracing::Span {
    span_of!(
        key.controller,
        debug_span,
        "reconcile",
        controller = key.controller.name(),
        namespace = %key.namespace,
        name = %key.name,
        %trigger,
        decision = "write",
        writes,
        id = %look.id,
    )
}

/// How long the parts of a look took so far.
pub(crate) fn times<S>(context: &Context<S>, key: &Key, look: &Look) -> Times {
    let Waited { gathering, queued } = context.queue.waited(key);
    let (planning, all) = (look.planning, look.begun.elapsed());
    Times { gathering, queued, planning, writing: all.saturating_sub(planning) }
}

/// Tells what a look wrote, if anybody hears it.
pub(crate) fn tell<'a, S>(context: &Context<S>, look: &Look, reconcile: impl FnOnce() -> Reconcile<'a>) {
    context.told.tell(context.controller, look.id, reconcile);
}
