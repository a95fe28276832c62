//! What becomes of a look at a key whose requests were refused: what is told of it, and when it is
//! looked at again.

use std::time::Duration;

use super::Engine;
use crate::api::{Answer, Refusal, Reply, Resource, Verb, Write};
use crate::endpointslice::plan::Change;
use crate::endpointslice::state::End;
use crate::queue::Due;
use crate::report::cause::Cause;
use crate::report::failures::Subject;
use crate::report::log::{About, Failure};
use crate::report::metrics::SyncResult;
use crate::watch::world::Key;

/// A write that was not carried out, as far as is known.
#[derive(Debug)]
pub(super) struct Refused {
    verb: Verb,
    /// Resource and, unless the server was to choose it, name.
    object: String,
    refusal: Refusal,
}

impl Refused {
    /// Those of the writes of a Service's slices.
    pub(super) fn slices(changes: &[Change], answers: &[Answer<Reply>]) -> Vec<Self> {
        let refused = changes.iter().zip(answers).filter_map(|(change, answer)| {
            let refusal = answer.as_ref().err()?.clone();
            let (verb, name) = match change {
                Change::Create(_) => (Verb::Create, None),
                Change::Update { old, .. } => (Verb::Update, Some(&*old.name)),
                Change::Delete(old) => (Verb::Delete, Some(&*old.name)),
            };
            Some(Self { verb, object: object(Resource::Slices, name), refusal })
        });
        refused.collect()
    }

    /// That write, if it was refused.
    pub(super) fn one(write: &Write, answer: &Answer<Reply>) -> Vec<Self> {
        let refused = answer.as_ref().err().map(|refusal| Self {
            verb: write.verb,
            object: object(write.resource, write.name.as_deref()),
            refusal: refusal.clone(),
        });
        refused.into_iter().collect()
    }
}

fn object(resource: Resource, name: Option<&str>) -> String {
    let plural = resource.plural();
    name.map_or_else(|| plural.to_owned(), |name| format!("{plural}/{name}"))
}

impl Engine {
    /// A look ended with writes.
    pub(super) fn ended(
        &self,
        key: &Key,
        trigger: &'static str,
        refused: &[Refused],
        end: End,
    ) -> (SyncResult, Option<Due>) {
        let subject = Subject::Key(key.clone());
        if end.failure.is_none() {
            if refused.is_empty() {
                self.failures.works(&subject);
            } else {
                self.failures.rests(&subject);
            }
            for Refused { verb, object, refusal } in refused {
                tracing::debug!(%key, verb = verb.name(), object, why = %refusal, "nothing was left to write");
            }
            return (SyncResult::Success, end.again.map(Due::After));
        }
        let causes: Vec<Cause> = refused.iter().map(|refused| Cause::of(&refused.refusal)).collect();
        let failures: Vec<_> = refused
            .iter()
            .zip(&causes)
            .map(|(Refused { verb, object, refusal }, cause)| Failure {
                about: About { trigger: Some(trigger), verb: Some(verb.name()), object: Some(object) },
                cause,
                why: refusal,
            })
            .collect();
        let news = self.failures.failed(&subject, &failures, end.again);
        if let Some(note) = end.note.filter(|_| news) {
            self.reporter.send(note);
        }
        if end.again.is_none() {
            self.failures.rests(&subject);
        }
        let silent = refused.iter().any(|refused| matches!(refused.refusal, Refusal::Unreachable(_)));
        (SyncResult::Error, end.again.map(if silent { Due::Answer } else { Due::After }))
    }

    /// There was nothing to write.
    pub(super) fn idle(&self, key: &Key, again: Option<Due>) -> (SyncResult, Option<Due>) {
        self.failures.rests(&Subject::Key(key.clone()));
        (SyncResult::Success, again)
    }

    /// What has to be known before the next write could not be read.
    pub(super) fn unread(
        &self,
        key: &Key,
        verb: &'static str,
        object: &'static str,
        refusal: &Refusal,
    ) -> (SyncResult, Option<Due>) {
        let again = match refusal {
            Refusal::Busy { after: Some(after), .. } => *after,
            _ => Duration::from_secs(1),
        };
        let about = About { trigger: None, verb: Some(verb), object: Some(object) };
        let failure = Failure { about, cause: &Cause::of(refusal), why: refusal };
        self.failures.failed(&Subject::Key(key.clone()), &[failure], Some(again));
        let silent = matches!(refusal, Refusal::Unreachable(_));
        (SyncResult::Error, Some(if silent { Due::Answer(again) } else { Due::After(again) }))
    }
}
