//! A look at one Service: decide, make entries, patch, free.
//!
//! Owns the order of the writes, and that what came of each is known before the next decision. The entries of one Service are
//! made side by side: none of them depends on another, and the Service is patched when all are there.

use futures::future::join_all;
use service_allocators::ServiceKey;

use super::plan::{self, Decision, Problem};
use crate::allocation::draft::Draft;
use crate::allocation::sent::{Sent, What};
use crate::allocation::writes::{Server, now};
use crate::api::{RequestError, Resource, Verb};
use crate::ledger::{Entry, Known, Ledger};
use crate::text::Uid;

/// So often a look begins anew because somebody else was faster.
const TRIES: usize = 16;

/// How far a round came.
enum Round {
    Done,
    /// Something was not as it was known to be, and is known now.
    Again,
}

/// What became of a look.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    /// What could not be done.
    pub(crate) problems: Vec<Problem>,
    /// Whether others were faster again and again.
    pub(crate) contended: bool,
}

/// Gives a Service what it lacks, and frees what it does not have any more.
///
/// # Errors
/// What the server said to a write or read that has to be tried again.
pub(crate) async fn reconcile(
    server: &Server,
    ledger: &Ledger,
    key: &ServiceKey,
    sent: &Sent<'_>,
) -> Result<Looked, RequestError> {
    let mut looked = Looked::default();
    for _ in 0..TRIES {
        let decision = ledger.with(|known| {
            let decision = plan::decide(known, key, now(), &mut rand::rng());
            // Nobody in this process chooses what is being made.
            for draft in &decision.creates {
                known.set_entry(draft.expected(now()), now());
            }
            decision
        });
        looked.problems = decision.problems.iter().cloned().collect();
        if decision.is_idle() {
            return Ok(looked);
        }
        sent.decided(|| decision.words());
        match (Look { server, ledger, key, sent }).carry_out(&decision).await? {
            Round::Done => return Ok(looked),
            Round::Again => {}
        }
    }
    looked.contended = true;
    Ok(looked)
}

#[derive(Clone, Copy)]
struct Look<'a> {
    server: &'a Server,
    ledger: &'a Ledger,
    key: &'a ServiceKey,
    sent: &'a Sent<'a>,
}

impl Look<'_> {
    async fn carry_out(self, decision: &Decision) -> Result<Round, RequestError> {
        let made = join_all(decision.creates.iter().map(|draft| self.create(draft))).await;
        // Whatever became of the others is known by now.
        for made in made {
            if !made? {
                return Ok(Round::Again);
            }
        }
        for (entry, draft) in &decision.claims {
            if !self.claim(entry, draft).await? {
                return Ok(Round::Again);
            }
        }
        if let (Some(patch), Some(basis)) = (&decision.patch, &decision.basis) {
            let begun = self.sent.elapsed();
            match self.server.patch(self.key, basis, patch).await {
                Ok(service) => {
                    let (name, before) = (self.key.name(), Some(basis.0));
                    let what = What { verb: Verb::Merge, resource: Resource::Services, name, before };
                    let after = service.metadata.resource_version.as_deref();
                    self.sent.wrote(what, after.and_then(|version| version.parse().ok()), begun);
                    self.ledger.with(|known| known.answer_service(&service, now()));
                }
                Err(
                    RequestError::Conflict(_)
                    | RequestError::NotFound(_)
                    | RequestError::Rejected { code: 422, .. },
                ) => {
                    self.sent.failed();
                    self.refresh_service().await?;
                    return Ok(Round::Again);
                }
                Err(error) => return Err(self.failed(error)),
            }
        }
        for entry in &decision.frees {
            self.free(entry, decision.basis.as_ref().map(|(_, uid)| uid)).await?;
        }
        Ok(Round::Done)
    }

    fn failed(&self, error: RequestError) -> RequestError {
        self.sent.failed();
        error
    }

    /// An entry that was to be made was not.
    fn not_made(&self, draft: &Draft) {
        let expected = draft.expected(now());
        let mark = Some((expected.uid, expected.version));
        self.ledger.with(|known| known.entry_not_found(draft.kind, &draft.name, &mark, now()));
    }

    /// Makes an entry; says whether it is there now as it should be.
    async fn create(self, draft: &Draft) -> Result<bool, RequestError> {
        let begun = self.sent.elapsed();
        match self.server.create(draft).await {
            Ok(entry) => {
                self.sent.wrote(
                    What::of(Verb::Create, draft.kind, &draft.name, None),
                    Some(entry.version),
                    begun,
                );
                self.ledger.with(|known| known.answer_entry(entry, now()));
                Ok(true)
            }
            Err(
                error @ (RequestError::Exists(_) | RequestError::Unreachable(_) | RequestError::Unknown(_)),
            ) => {
                self.sent.failed();
                let found = self.refresh_entry(draft).await?;
                let ours = found.is_some_and(|entry| {
                    entry.parent.as_ref() == Some(&draft.parent)
                        && entry.parent_uid.as_ref() == Some(&draft.parent_uid)
                });
                if ours || matches!(error, RequestError::Exists(_)) { Ok(ours) } else { Err(error) }
            }
            Err(error) => {
                if !error.is_uncertain() {
                    self.not_made(draft);
                }
                Err(self.failed(error))
            }
        }
    }

    /// Claims an entry that is there; says whether it is as it should be.
    async fn claim(self, entry: &Entry, draft: &Draft) -> Result<bool, RequestError> {
        if entry.version == 0 {
            // It was sent, and no answer came.
            self.refresh_entry(draft).await?;
            return Ok(false);
        }
        let begun = self.sent.elapsed();
        match self.server.claim(entry, draft).await {
            Ok(written) => {
                let what = What::of(Verb::Merge, draft.kind, &draft.name, Some(entry.version));
                self.sent.wrote(what, Some(written.version), begun);
                self.ledger.with(|known| known.answer_entry(written, now()));
                Ok(true)
            }
            Err(RequestError::Conflict(_) | RequestError::NotFound(_)) => {
                self.sent.failed();
                self.refresh_entry(draft).await?;
                Ok(false)
            }
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Frees an entry whose Service does not have its value: `living` has been marked, any other Service must be gone.
    async fn free(self, entry: &Entry, living: Option<&Uid>) -> Result<(), RequestError> {
        let owner = entry.parent_uid.as_ref();
        if owner != living {
            let service = self.server.service(self.key).await?;
            let uid = service.as_ref().and_then(|service| service.metadata.uid.as_deref()).map(Uid::from);
            if uid.as_ref() == owner {
                // It is younger than what is known here; of one that is not known the watch tells.
                if let Some(service) = service {
                    self.ledger.with(|known| known.answer_service(&service, now()));
                }
                return Ok(());
            }
        }
        let mark = Some((entry.uid.clone(), entry.version));
        let gone = |known: &mut Known| known.entry_not_found(entry.kind, &entry.name, &mark, now());
        let found = if entry.version == 0 {
            let found = self.server.entry(entry.kind, &entry.name).await?;
            found.filter(|found| found.parent_uid.as_ref() == owner)
        } else {
            Some(entry.clone())
        };
        let Some(found) = found else {
            self.ledger.with(gone);
            return Ok(());
        };
        let begun = self.sent.elapsed();
        match self.server.free(&found).await {
            Ok(()) => {
                let what = What::of(Verb::Delete, entry.kind, &entry.name, Some(found.version));
                self.sent.wrote(what, None, begun);
                // With a finalizer it is only on its way, as the watch will tell.
                if !found.guarded {
                    self.ledger.with(gone);
                }
                Ok(())
            }
            // Somebody claimed it; the watch will tell, and this key is looked at then.
            Err(RequestError::Conflict(_)) => {
                self.sent.failed();
                Ok(())
            }
            Err(error) => Err(self.failed(error)),
        }
    }

    async fn refresh_entry(self, draft: &Draft) -> Result<Option<Entry>, RequestError> {
        let mark = self.ledger.with(|known| known.mark_of_entry(draft.kind, &draft.name));
        let found = self.server.entry(draft.kind, &draft.name).await?;
        self.ledger.with(|known| match &found {
            Some(entry) => known.answer_entry(entry.clone(), now()),
            None => known.entry_not_found(draft.kind, &draft.name, &mark, now()),
        });
        Ok(found)
    }

    async fn refresh_service(self) -> Result<(), RequestError> {
        let mark = self.ledger.with(|known| known.mark_of_service(self.key));
        let found = self.server.service(self.key).await?;
        self.ledger.with(|known| match found {
            Some(service) => known.answer_service(&service, now()),
            None => known.service_not_found(self.key, &mark, now()),
        });
        Ok(())
    }
}
