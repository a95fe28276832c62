//! A look at one Service's values: wait until what is wrong lasts, read it anew, tell it once, put it right.

use std::collections::BTreeMap;
use std::time::Duration;

use foldhash::HashMap;
use parking_lot::Mutex;
use service_allocators::{Finding, ServiceKey};

use super::plan::{self, Verdict};
use super::words;
use crate::allocation::sent::{Sent, What};
use crate::allocation::writes::{Server, now};
use crate::api::{Answer, RequestError, Verb};
use crate::controller::Controller;
use crate::ledger::{Entry, EntryKind, Known, Ledger};
use crate::report::events::Reporter;
use crate::report::note::Note;
use crate::text::Uid;

/// What is wrong has to last so long before it is read anew.
pub(crate) const SETTLE: Duration = Duration::from_secs(2);

/// What is done about what is found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Repair {
    /// It is counted.
    Off,
    /// It is told in Events, too.
    Report,
    /// And put right where no living object can lose by it.
    #[default]
    Safe,
}

/// One of the two audits.
pub(crate) struct Audit {
    pub(crate) controller: Controller,
    pub(crate) server: Server,
    pub(crate) ledger: Ledger,
    pub(crate) reporter: Reporter,
    pub(crate) repair: Repair,
    /// Whether IPAddresses in use get a finalizer.
    pub(crate) protect: bool,
    /// What is found of each Service: the text of each finding, with its reason, and whether it was told.
    pub(crate) found: Mutex<HashMap<ServiceKey, BTreeMap<String, Found>>>,
}

/// Something that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) reason: &'static str,
    told: bool,
}

impl Audit {
    /// How many findings there are now, by reason.
    pub(crate) fn counts(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for found in self.found.lock().values().flat_map(BTreeMap::values).filter(|found| found.told) {
            *counts.entry(found.reason).or_default() += 1;
        }
        counts
    }

    fn plan(&self, known: &Known, key: &ServiceKey) -> Verdict {
        match self.controller {
            Controller::Addresses => plan::addresses(known, key, self.protect, now()),
            _ => plan::node_ports(known, key),
        }
    }

    /// Whether there is anything to do or to tell about a Service, now or later.
    pub(crate) fn wants(&self, known: &Known, key: &ServiceKey) -> bool {
        let verdict = self.plan(known, key);
        !verdict.is_clean() || verdict.later.is_some()
    }

    /// Looks at one Service; gives when to look again.
    ///
    /// # Errors
    /// What the server said to a read or write that has to be tried again.
    pub(crate) async fn look(
        &self,
        key: &ServiceKey,
        sent: &Sent<'_>,
    ) -> Result<Option<Duration>, RequestError> {
        let verdict = self.ledger.with(|known| self.plan(known, key));
        let later = verdict.later.map(|seconds| Duration::from_secs(seconds.unsigned_abs()));
        if verdict.is_clean() {
            self.found.lock().remove(key);
            return Ok(later);
        }
        if self.repair == Repair::Safe {
            sent.decided(|| Verdict { guards: verdict.guards.clone(), ..Verdict::default() }.words());
            self.guard(&verdict.guards, true, sent).await?;
        }
        if !verdict.is_doubtful() {
            return Ok(later);
        }
        if !verdict.findings.is_empty() && self.is_new(key, &verdict) {
            return Ok(Some(SETTLE));
        }
        if !self.read_anew(key, &verdict).await? {
            return Ok(Some(SETTLE));
        }
        let verdict = self.ledger.with(|known| self.plan(known, key));
        self.tell(key, &verdict.findings, sent);
        if self.repair == Repair::Safe {
            sent.decided(|| verdict.words());
            self.put_right(&verdict, sent).await?;
        }
        Ok(later)
    }

    /// Takes note of what is found; says whether any of it was not there before and has to last first. The entry of a living
    /// Service that was there and is gone is put back at once, before anybody else takes the value.
    fn is_new(&self, key: &ServiceKey, verdict: &Verdict) -> bool {
        let (reasons, lost) = self.ledger.with(|known| {
            let reasons: Vec<&'static str> =
                verdict.findings.iter().map(|finding| words::reason(known, finding)).collect();
            let lost = verdict.findings.iter().any(|finding| {
                matches!(finding, Finding::AddressNotAllocated { .. } | Finding::PortNotAllocated { .. })
                    && plan::entry_of(finding).is_some_and(|(kind, name)| known.was_lost(kind, &name))
            });
            (reasons, lost)
        });
        let mut all = self.found.lock();
        let before = all.remove(key).unwrap_or_default();
        let mut is_new = false;
        let mut after = BTreeMap::new();
        for (finding, reason) in verdict.findings.iter().zip(reasons) {
            let text = words::identity(finding);
            let found = before.get(&text).copied();
            is_new |= found.is_none();
            after.insert(text, found.unwrap_or(Found { reason, told: false }));
        }
        all.insert(key.clone(), after);
        is_new && !lost
    }

    /// Reads the entries, and then the Service: what is missing before the Service is read and named by it then is missing.
    /// Says whether what is known is what there is; where the server has what is not known, a watch will tell of it.
    async fn read_anew(&self, key: &ServiceKey, verdict: &Verdict) -> Result<bool, RequestError> {
        let of_findings = verdict.findings.iter().filter_map(plan::entry_of);
        let of_frees = verdict.frees.iter().chain(&verdict.unguards);
        let of_frees = of_frees.map(|entry| (entry.kind, entry.name.to_string()));
        let mut all_known = true;
        for (kind, name) in of_findings.chain(of_frees) {
            if kind == EntryKind::Port && !self.ledger.with(|known| known.serves("nodeports")) {
                continue;
            }
            let mark = self.ledger.with(|known| known.mark_of_entry(kind, &name));
            let found = self.server.entry(kind, &name).await?;
            all_known &= self.ledger.with(|known| match found {
                Some(entry) => known.answer_entry(entry, now()),
                None => known.entry_not_found(kind, &name, &mark, now()),
            });
        }
        let mark = self.ledger.with(|known| known.mark_of_service(key));
        let service = self.server.service(key).await?;
        all_known &= self.ledger.with(|known| match service {
            Some(service) => known.answer_service(&service, now()),
            None => known.service_not_found(key, &mark, now()),
        });
        Ok(all_known)
    }

    /// Tells what was not told yet, one Event each.
    fn tell(&self, key: &ServiceKey, findings: &[Finding], sent: &Sent<'_>) {
        for finding in findings {
            let (reason, uid) =
                self.ledger.with(|known| (words::reason(known, finding), uid_of(known, finding)));
            let news = {
                let mut all = self.found.lock();
                let found = all.entry(key.clone()).or_default().entry(words::identity(finding));
                let found = found.or_insert(Found { reason, told: false });
                !std::mem::replace(&mut found.told, true)
            };
            if news && self.repair != Repair::Off {
                self.reporter.tell_of(self.note(finding, reason, &uid), Some(sent.id()));
            }
        }
    }

    fn note(&self, finding: &Finding, reason: &'static str, uid: &str) -> Note {
        let (kind, api_version, namespace, name) = match (finding.service(), plan::entry_of(finding)) {
            (Some(service), _) => ("Service", "v1", service.namespace().into(), service.name().into()),
            (None, Some((_, name))) => ("IPAddress", "networking.k8s.io/v1", "".into(), name.as_str().into()),
            (None, None) => ("Service", "v1", "".into(), "".into()),
        };
        Note {
            kind,
            api_version,
            namespace,
            name,
            uid: Uid::from(uid),
            warning: true,
            reason,
            message: words::message(finding, self.repair == Repair::Safe),
            controller: self.controller,
        }
    }

    /// Puts the finalizer on entries, or takes it off.
    async fn guard(&self, entries: &[Entry], guarded: bool, sent: &Sent<'_>) -> Result<(), RequestError> {
        for entry in entries {
            let begun = sent.elapsed();
            let answer = self.server.guard(entry, guarded).await;
            let what = What::of(Verb::Merge, entry.kind, &entry.name, Some(entry.version));
            let Some(written) = carried_out(answer, what, begun, sent)? else { continue };
            if !written.going || written.guarded {
                self.ledger.with(|known| known.answer_entry(written, now()));
            }
        }
        Ok(())
    }

    async fn put_right(&self, verdict: &Verdict, sent: &Sent<'_>) -> Result<(), RequestError> {
        self.guard(&verdict.unguards, false, sent).await?;
        for draft in &verdict.creates {
            let begun = sent.elapsed();
            match self.server.create(draft).await {
                Ok(entry) => {
                    let what = What::of(Verb::Create, draft.kind, &draft.name, None);
                    sent.wrote(what, Some(entry.version), begun);
                    self.ledger.with(|known| known.answer_entry(entry, now()));
                }
                // Somebody else was faster; the watch will tell.
                Err(RequestError::Exists(_)) => sent.failed(),
                Err(error) => {
                    sent.failed();
                    return Err(error);
                }
            }
        }
        for (entry, draft) in &verdict.claims {
            let begun = sent.elapsed();
            let answer = self.server.claim(entry, draft).await;
            let what = What::of(Verb::Merge, entry.kind, &entry.name, Some(entry.version));
            if let Some(written) = carried_out(answer, what, begun, sent)? {
                self.ledger.with(|known| known.answer_entry(written, now()));
            }
        }
        for entry in &verdict.frees {
            let begun = sent.elapsed();
            match self.server.free(entry).await {
                Ok(()) => {
                    let what = What::of(Verb::Delete, entry.kind, &entry.name, Some(entry.version));
                    sent.wrote(what, None, begun);
                    // With a finalizer it goes when that does, and the watch tells that it is on its way.
                    if !entry.guarded {
                        let mark = Some((entry.uid.clone(), entry.version));
                        self.ledger.with(|known| {
                            known.entry_not_found(entry.kind, &entry.name, &mark, now());
                        });
                    }
                }
                Err(RequestError::Conflict(_)) => sent.failed(),
                Err(error) => {
                    sent.failed();
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

/// The entry that a change of it gave; nothing if somebody else changed it first, of which the watch will tell.
fn carried_out(
    answer: Answer<Entry>,
    what: What<'_>,
    begun: Duration,
    sent: &Sent<'_>,
) -> Answer<Option<Entry>> {
    match answer {
        Ok(written) => {
            sent.wrote(what, Some(written.version), begun);
            Ok(Some(written))
        }
        Err(RequestError::Conflict(_) | RequestError::NotFound(_)) => {
            sent.failed();
            Ok(None)
        }
        Err(error) => {
            sent.failed();
            Err(error)
        }
    }
}

/// The uid of the object that an Event about a finding stands on.
fn uid_of(known: &Known, finding: &Finding) -> String {
    let of_service = finding.service().and_then(|key| known.service(key)).map(|facts| facts.uid.to_string());
    let entry = || {
        plan::entry_of(finding).and_then(|(kind, name)| known.entry(kind, &name).map(|e| e.uid.to_string()))
    };
    of_service.or_else(entry).unwrap_or_default()
}
