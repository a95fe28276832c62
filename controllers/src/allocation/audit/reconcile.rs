//! A look at one Service's values: wait until what is wrong lasts, read it anew, tell it once, put it right.

use std::collections::BTreeMap;
use std::time::Duration;

use foldhash::HashMap;
use parking_lot::Mutex;
use service_allocators::{Finding, ServiceKey};

use super::plan::{self, Verdict};
use crate::allocation::writes::{Server, now};
use crate::api::RequestError;
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
    pub(crate) async fn look(&self, key: &ServiceKey) -> Result<Option<Duration>, RequestError> {
        let verdict = self.ledger.with(|known| self.plan(known, key));
        let later = verdict.later.map(|seconds| Duration::from_secs(seconds.unsigned_abs()));
        if verdict.is_clean() {
            self.found.lock().remove(key);
            return Ok(later);
        }
        if self.repair == Repair::Safe {
            self.guard(&verdict.guards, true).await?;
        }
        if !verdict.is_doubtful() {
            return Ok(later);
        }
        if !verdict.findings.is_empty() && self.is_new(key, &verdict) {
            return Ok(Some(SETTLE));
        }
        self.read_anew(key, &verdict).await?;
        let verdict = self.ledger.with(|known| self.plan(known, key));
        self.tell(key, &verdict.findings);
        if self.repair == Repair::Safe {
            self.put_right(&verdict).await?;
        }
        Ok(later)
    }

    /// Takes note of what is found; says whether any of it was not there before and has to last first. The entry of a living
    /// Service that was there and is gone is put back at once, before anybody else takes the value.
    fn is_new(&self, key: &ServiceKey, verdict: &Verdict) -> bool {
        let (reasons, lost) = self.ledger.with(|known| {
            let reasons: Vec<&'static str> =
                verdict.findings.iter().map(|finding| plan::reason(known, finding)).collect();
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
            let text = finding.to_string();
            let found = before.get(&text).copied();
            is_new |= found.is_none();
            after.insert(text, found.unwrap_or(Found { reason, told: false }));
        }
        all.insert(key.clone(), after);
        is_new && !lost
    }

    /// Reads the entries, and then the Service: what is missing before the Service is read and named by it then is missing.
    async fn read_anew(&self, key: &ServiceKey, verdict: &Verdict) -> Result<(), RequestError> {
        let of_findings = verdict.findings.iter().filter_map(plan::entry_of);
        let of_frees = verdict.frees.iter().chain(&verdict.unguards);
        let of_frees = of_frees.map(|entry| (entry.kind, entry.name.to_string()));
        for (kind, name) in of_findings.chain(of_frees) {
            if kind == EntryKind::Port && !self.ledger.with(|known| known.serves("nodeports")) {
                continue;
            }
            let found = self.server.entry(kind, &name).await?;
            self.ledger.with(|known| match found {
                Some(entry) => known.set_entry(entry, now()),
                None => known.remove_entry(kind, &name, now()),
            });
        }
        let service = self.server.service(key).await?;
        self.ledger.with(|known| match service {
            Some(service) => known.set_service(&service, now()),
            None => known.remove_service(key, now()),
        });
        Ok(())
    }

    /// Tells what was not told yet, one Event each.
    fn tell(&self, key: &ServiceKey, findings: &[Finding]) {
        for finding in findings {
            let (reason, uid) =
                self.ledger.with(|known| (plan::reason(known, finding), uid_of(known, finding)));
            let news = {
                let mut all = self.found.lock();
                let found = all.entry(key.clone()).or_default().entry(finding.to_string());
                let found = found.or_insert(Found { reason, told: false });
                !std::mem::replace(&mut found.told, true)
            };
            if news && self.repair != Repair::Off {
                self.reporter.tell(self.note(finding, reason, &uid));
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
            message: finding.to_string(),
            controller: self.controller,
        }
    }

    /// Puts the finalizer on entries, or takes it off.
    async fn guard(&self, entries: &[Entry], guarded: bool) -> Result<(), RequestError> {
        for entry in entries {
            match self.server.guard(entry, guarded).await {
                Ok(written) if written.going && !written.guarded => {}
                Ok(written) => self.ledger.with(|known| known.set_entry(written, now())),
                // The watch will tell.
                Err(RequestError::Conflict(_) | RequestError::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn put_right(&self, verdict: &Verdict) -> Result<(), RequestError> {
        self.guard(&verdict.unguards, false).await?;
        for draft in &verdict.creates {
            match self.server.create(draft).await {
                Ok(entry) => self.ledger.with(|known| known.set_entry(entry, now())),
                // Somebody else was faster; the watch will tell.
                Err(RequestError::Exists(_)) => {}
                Err(error) => return Err(error),
            }
        }
        for (entry, draft) in &verdict.claims {
            match self.server.claim(entry, draft).await {
                Ok(entry) => self.ledger.with(|known| known.set_entry(entry, now())),
                Err(RequestError::Conflict(_) | RequestError::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        for entry in &verdict.frees {
            match self.server.free(entry).await {
                // It goes when its finalizer does, and the watch tells that it is on its way.
                Ok(()) if entry.guarded => {}
                Ok(()) => self.ledger.with(|known| known.remove_entry(entry.kind, &entry.name, now())),
                Err(RequestError::Conflict(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
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
