//! A look at one Service: decide, make entries, patch, free.
//!
//! Owns the order of the writes, and that what came of each is known before the next decision.

use service_allocators::ServiceKey;

use super::plan::{self, Decision, Problem};
use crate::allocation::draft::Draft;
use crate::allocation::writes::{Server, now};
use crate::api::RequestError;
use crate::ledger::{Entry, Ledger};

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
    /// How many writes the server took.
    pub(crate) writes: usize,
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
        let round = Look { server, ledger, key, writes: &mut looked.writes };
        match round.carry_out(decision).await? {
            Round::Done => return Ok(looked),
            Round::Again => {}
        }
    }
    looked.contended = true;
    Ok(looked)
}

struct Look<'a> {
    server: &'a Server,
    ledger: &'a Ledger,
    key: &'a ServiceKey,
    writes: &'a mut usize,
}

impl Look<'_> {
    async fn carry_out(mut self, decision: Decision) -> Result<Round, RequestError> {
        let mut drafts = decision.creates.iter();
        while let Some(draft) = drafts.next() {
            match self.create(draft).await {
                Ok(true) => {}
                outcome => {
                    // What was not tried is free again.
                    self.ledger.with(|known| {
                        for draft in drafts {
                            known.remove_entry(draft.kind, &draft.name, now());
                        }
                    });
                    return outcome.map(|_| Round::Again);
                }
            }
        }
        for (entry, draft) in &decision.claims {
            if !self.claim(entry, draft).await? {
                return Ok(Round::Again);
            }
        }
        if let (Some(patch), Some(basis)) = (&decision.patch, &decision.basis) {
            match self.server.patch(self.key, basis, patch).await {
                Ok(service) => {
                    *self.writes += 1;
                    self.ledger.with(|known| known.set_service(&service, now()));
                }
                Err(
                    RequestError::Conflict(_)
                    | RequestError::NotFound(_)
                    | RequestError::Rejected { code: 422, .. },
                ) => {
                    self.refresh_service().await?;
                    return Ok(Round::Again);
                }
                Err(error) => return Err(error),
            }
        }
        for entry in &decision.frees {
            self.free(entry, decision.basis.as_ref().map(|(_, uid)| &**uid)).await?;
        }
        Ok(Round::Done)
    }

    /// Makes an entry; says whether it is there now as it should be.
    async fn create(&mut self, draft: &Draft) -> Result<bool, RequestError> {
        match self.server.create(draft).await {
            Ok(entry) => {
                *self.writes += 1;
                self.ledger.with(|known| known.set_entry(entry, now()));
                Ok(true)
            }
            Err(
                error @ (RequestError::Exists(_) | RequestError::Unreachable(_) | RequestError::Unknown(_)),
            ) => {
                let found = self.refresh_entry(draft).await?;
                let ours = found.is_some_and(|entry| {
                    entry.parent.as_ref() == Some(&draft.parent)
                        && entry.parent_uid.as_ref() == Some(&draft.parent_uid)
                });
                if ours || matches!(error, RequestError::Exists(_)) { Ok(ours) } else { Err(error) }
            }
            Err(error) => {
                if !error.is_uncertain() {
                    self.ledger.with(|known| known.remove_entry(draft.kind, &draft.name, now()));
                }
                Err(error)
            }
        }
    }

    /// Claims an entry that is there; says whether it is as it should be.
    async fn claim(&mut self, entry: &Entry, draft: &Draft) -> Result<bool, RequestError> {
        if entry.version == 0 {
            // It was sent, and no answer came.
            self.refresh_entry(draft).await?;
            return Ok(false);
        }
        match self.server.claim(entry, draft).await {
            Ok(entry) => {
                *self.writes += 1;
                self.ledger.with(|known| known.set_entry(entry, now()));
                Ok(true)
            }
            Err(RequestError::Conflict(_) | RequestError::NotFound(_)) => {
                self.refresh_entry(draft).await?;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Frees an entry whose Service does not have its value: `living` has been marked, any other Service must be gone.
    async fn free(&mut self, entry: &Entry, living: Option<&str>) -> Result<(), RequestError> {
        let owner = entry.parent_uid.as_deref();
        if owner != living {
            let service = self.server.service(self.key).await?;
            let uid = service.as_ref().and_then(|service| service.metadata.uid.as_deref());
            if uid == owner {
                // It is younger than what is known here.
                if let Some(service) = service {
                    self.ledger.with(|known| known.set_service(&service, now()));
                }
                return Ok(());
            }
        }
        let entry = if entry.version == 0 {
            let found = self.server.entry(entry.kind, &entry.name).await?;
            let Some(found) = found.filter(|found| found.parent_uid.as_deref() == owner) else {
                self.ledger.with(|known| known.remove_entry(entry.kind, &entry.name, now()));
                return Ok(());
            };
            found
        } else {
            entry.clone()
        };
        match self.server.free(&entry).await {
            Ok(()) => {
                *self.writes += 1;
                self.ledger.with(|known| known.remove_entry(entry.kind, &entry.name, now()));
                Ok(())
            }
            // Somebody claimed it; the watch will tell, and this key is looked at then.
            Err(RequestError::Conflict(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn refresh_entry(&self, draft: &Draft) -> Result<Option<Entry>, RequestError> {
        let found = self.server.entry(draft.kind, &draft.name).await?;
        self.ledger.with(|known| match &found {
            Some(entry) => known.set_entry(entry.clone(), now()),
            None => known.remove_entry(draft.kind, &draft.name, now()),
        });
        Ok(found)
    }

    async fn refresh_service(&self) -> Result<(), RequestError> {
        let found = self.server.service(self.key).await?;
        self.ledger.with(|known| match found {
            Some(service) => known.set_service(&service, now()),
            None => known.remove_service(self.key, now()),
        });
        Ok(())
    }
}
