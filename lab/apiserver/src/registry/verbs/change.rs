//! Replacing an object: PUT, all patches, and their way to a create or to the end of a deletion.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use service_api::{errors, status};

use crate::managed_fields::{UpdateContext, settle_times, track_update};
use crate::registry::error::ApiError;
use crate::registry::object::{self, carry_meta, is_deleting, meta, meta_list, meta_number, parse_version};
use crate::registry::options::WriteOptions;
use crate::registry::resource_info::ResourceInfo;
use crate::registry::strategy::{Findings, Subresource};
use crate::registry::{Target, Tx};
use crate::store::Stored;

use super::create::{Draft, create_in, match_namespace};
use super::{Answer, Api, WriteOutcome, owners, warned};

/// What the client wants the object to be.
pub struct Computed {
    /// The new object: decoded and defaulted.
    pub object: Value,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
    /// `managedFields` are settled (server-side apply).
    pub tracked: bool,
}

/// What a change may do beside replacing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules<'a> {
    /// Make the object if it does not exist.
    pub create: bool,
    /// The uid that the object must have.
    pub uid: Option<&'a str>,
    /// The new object is the old one, patched.
    pub patch: bool,
}

/// Replaces an object by what `compute` makes of it (`None`: there is none yet), in one transaction.
///
/// # Errors
/// 404 when there is none and none may be made, 409 when the client's version is not the latest, 400 for another name,
/// 422 for faults, and whatever `compute` refuses.
pub fn change(
    api: &Api,
    target: &Target,
    options: &WriteOptions,
    now: Timestamp,
    rules: Rules<'_>,
    compute: impl FnOnce(Option<&Value>) -> Result<Computed, ApiError>,
) -> Result<WriteOutcome, ApiError> {
    let request = UpdateRequest { api, target, options, now, info: api.info(target) };
    api.transact(options.dry_run, |tx| {
        let stored = tx.get(target.id, &target.namespace, &target.name).cloned();
        let prepared = request.prepare(stored.as_ref(), rules, compute)?;
        request.finish(stored.as_ref(), prepared, tx)
    })
}

/// How often a change is worked out anew when somebody else was faster, as upstream for patches.
const ATTEMPTS: usize = 5;

/// [`change`], with nearly all of the work before the transaction: what the client wants is worked out against the version
/// that is there, and the transaction sees whether that is still there. If not, it is worked out anew, so `compute` may be
/// called several times.
///
/// # Errors
/// Those of [`change`], and 409 when others are faster each time.
pub fn change_apart(
    api: &Api,
    target: &Target,
    options: &WriteOptions,
    now: Timestamp,
    rules: Rules<'_>,
    mut compute: impl FnMut(Option<&Value>) -> Result<Computed, ApiError>,
) -> Result<WriteOutcome, ApiError> {
    let request = UpdateRequest { api, target, options, now, info: api.info(target) };
    for _ in 0..ATTEMPTS {
        let seen = api.store.read(|view| view.get(target.id, &target.namespace, &target.name).cloned());
        let prepared = request.prepare(seen.as_ref(), rules, &mut compute)?;
        let done = api.transact(options.dry_run, |tx| {
            let found = tx.get(target.id, &target.namespace, &target.name);
            if found.map(|found| found.revision) != seen.as_ref().map(|seen| seen.revision) {
                return Ok(None);
            }
            request.finish(seen.as_ref(), prepared, tx).map(Some)
        })?;
        if let Some(outcome) = done {
            return Ok(outcome);
        }
    }
    Err(ApiError::conflict(request.info, &target.name, status::STALE))
}

/// A change that is worked out.
struct Prepared {
    step: Step,
    /// Said whatever comes of it.
    warnings: Vec<String>,
}

/// What is left to do in a transaction.
enum Step {
    /// There was no object.
    Make(Draft),
    /// The object is replaced, once something is allocated for it.
    Allocate { old: Value, repaired: bool, new: Value },
    /// The object is replaced.
    Replace(Settled),
}

/// An update that is prepared and found to be good.
struct Settled {
    old: Value,
    new: Value,
    warnings: Vec<String>,
    /// There is something to write.
    differs: bool,
}

struct UpdateRequest<'a> {
    api: &'a Api,
    target: &'a Target,
    options: &'a WriteOptions,
    now: Timestamp,
    info: &'a ResourceInfo,
}

impl UpdateRequest<'_> {
    /// Works out what the object is to be; nothing of it needs a transaction.
    fn prepare(
        &self,
        stored: Option<&Arc<Stored>>,
        rules: Rules<'_>,
        compute: impl FnOnce(Option<&Value>) -> Result<Computed, ApiError>,
    ) -> Result<Prepared, ApiError> {
        let Some(stored) = stored else { return self.prepare_new(rules, compute) };
        let mut old = object::parse(&stored.body);
        let repaired = self.info.strategy.on_read(&mut old);
        if let Some(uid) = rules.uid.filter(|uid| *uid != meta(&old, "uid")) {
            return Err(self.other_uid(uid, meta(&old, "uid")));
        }
        let mut computed = compute(Some(&old))?;
        let mut warnings = std::mem::take(&mut computed.warnings);
        let step = self.check(computed, rules).and_then(|mut computed| {
            warnings.append(&mut computed.warnings);
            self.track(Some(&old), &mut computed);
            let mut new = computed.object;
            self.check_version(&mut new, &old, stored)?;
            self.check_at_sight(&new)?;
            if self.info.strategy.allocates() {
                return Ok(Step::Allocate { old, repaired, new });
            }
            let findings = self.info.strategy.check_update(&mut new, &old, self.target.part());
            self.settle(old, repaired, new, findings).map(Step::Replace)
        });
        match step {
            Ok(step) => Ok(Prepared { step, warnings }),
            Err(mut error) => {
                warnings.append(&mut error.warnings);
                Err(ApiError { warnings, ..error })
            }
        }
    }

    fn prepare_new(
        &self,
        rules: Rules<'_>,
        compute: impl FnOnce(Option<&Value>) -> Result<Computed, ApiError>,
    ) -> Result<Prepared, ApiError> {
        if !rules.create {
            return Err(ApiError::not_found(self.info, &self.target.name));
        }
        if let Some(uid) = rules.uid {
            return Err(self.other_uid(uid, ""));
        }
        let mut computed = compute(None)?;
        let mut warnings = std::mem::take(&mut computed.warnings);
        let draft = self.draft(computed, rules, &mut warnings);
        match draft {
            Ok(draft) => Ok(Prepared { step: Step::Make(draft), warnings }),
            Err(mut error) => {
                warnings.append(&mut error.warnings);
                Err(ApiError { warnings, ..error })
            }
        }
    }

    fn draft(
        &self,
        computed: Computed,
        rules: Rules<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Draft, ApiError> {
        let uid = meta(&computed.object, "uid");
        if !uid.is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            );
            return Err(ApiError::conflict(self.info, &self.target.name, &why));
        }
        let mut computed = self.check(computed, rules)?;
        given_version(self.info, &computed.object)?;
        warnings.append(&mut computed.warnings);
        self.track(None, &mut computed);
        self.check_at_sight(&computed.object)?;
        Ok(Draft::new(&*self.info.strategy, computed.object, self.now))
    }

    fn check_at_sight(&self, object: &Value) -> Result<(), ApiError> {
        let faults = self.info.strategy.faults_at_sight(object);
        if faults.is_empty() {
            return Ok(());
        }
        Err(ApiError::invalid(self.info, meta(object, "name"), faults))
    }

    /// Does what is left. `stored` is what the change was prepared for, and is still there.
    fn finish(
        &self,
        stored: Option<&Arc<Stored>>,
        prepared: Prepared,
        tx: &mut Tx<'_>,
    ) -> Result<WriteOutcome, ApiError> {
        let outcome = match (prepared.step, stored) {
            (Step::Replace(settled), Some(stored)) => self.put(stored, settled, tx),
            (Step::Allocate { old, repaired, new }, Some(stored)) => {
                self.allocate(old, repaired, new, tx).and_then(|settled| self.put(stored, settled, tx))
            }
            (Step::Make(draft), _) => {
                create_in(self.api, self.target, draft, self.options, self.now, false, tx)
            }
            (_, None) => Err(ApiError::not_found(self.info, &self.target.name)),
        };
        warned(outcome, prepared.warnings)
    }

    fn allocate(
        &self,
        old: Value,
        repaired: bool,
        mut new: Value,
        tx: &mut Tx<'_>,
    ) -> Result<Settled, ApiError> {
        let context = self.api.context(self.now, self.options);
        let strategy = &*self.info.strategy;
        let findings = strategy.allocate_update(&mut new, &old, self.target.part(), tx, &context)?;
        self.settle(old, repaired, new, findings)
    }

    /// Takes an update that is checked, unless something is wrong with it.
    fn settle(
        &self,
        old: Value,
        repaired: bool,
        mut new: Value,
        findings: Findings,
    ) -> Result<Settled, ApiError> {
        let Findings { faults, warnings } = findings;
        if !faults.is_empty() {
            return Err(ApiError::invalid(self.info, meta(&new, "name"), faults));
        }
        settle_times(&old, &mut new);
        let differs = repaired || new != old;
        Ok(Settled { old, new, warnings, differs })
    }

    /// Puts the new object in the place of the old one, or ends the deletion that waited for it.
    fn put(&self, stored: &Arc<Stored>, settled: Settled, tx: &mut Tx<'_>) -> Result<WriteOutcome, ApiError> {
        let Settled { old, new, warnings, differs } = settled;
        let strategy = &*self.info.strategy;
        if self.is_last_step_of_deletion(&new, &old) {
            let context = self.api.context(self.now, self.options);
            strategy.after_delete(&old, tx, &context)?;
            strategy.after_delete(&new, tx, &context)?;
            tx.delete(self.target.id, &stored.namespace, &stored.name, old.clone())?;
            strategy.restore(&old, tx, &context)?;
            return Ok(WriteOutcome::of(Answer::Value(new), warnings));
        }
        if !differs {
            return Ok(WriteOutcome::of(Answer::Stored(Arc::clone(stored)), warnings));
        }
        let answer = if self.options.dry_run {
            Answer::Value(new)
        } else {
            Answer::Stored(tx.put(self.target.id, new)?)
        };
        Ok(WriteOutcome::of(answer, warnings))
    }

    fn check(&self, mut computed: Computed, rules: Rules<'_>) -> Result<Computed, ApiError> {
        match_target(&mut computed.object, self.target)?;
        let seen = if rules.patch { owners::Seen::Patched } else { owners::Seen::Sent };
        computed.warnings.extend(owners::dedup(&mut computed.object, seen));
        Ok(computed)
    }

    /// Notes who set what. Fields that this part of the object may not set are nobody's: what the kind takes back is
    /// taken back before ownership is settled.
    fn track(&self, old: Option<&Value>, computed: &mut Computed) {
        if computed.tracked {
            return;
        }
        let context = UpdateContext {
            manager: &self.options.manager,
            subresource: self.target.sub_name(),
            now: self.now,
        };
        let schema = self.api.registry.schema(self.target.id);
        match old.filter(|_| self.target.part() != Subresource::None) {
            Some(old) => {
                let mut kept = computed.object.clone();
                self.info.strategy.prepare_update(&mut kept, old, self.target.part());
                track_update(schema, Some(old), &mut kept, &context);
                carry_meta(&mut computed.object, &kept, "managedFields");
            }
            None => track_update(schema, old, &mut computed.object, &context),
        }
    }

    /// The version the client saw must be the latest; none stands for the latest where the kind allows it.
    fn check_version(&self, new: &mut Value, old: &Value, stored: &Stored) -> Result<(), ApiError> {
        let version = given_version(self.info, new)?;
        if version == 0 {
            if !self.info.strategy.unconditional_update() {
                let fault = errors::invalid("metadata.resourceVersion", 0, "must be specified for an update");
                // Upstream names the resource here where it names the kind elsewhere.
                let name = meta(new, "name");
                return Err(status::invalid(self.info.group, self.info.resource, name, vec![fault]).into());
            }
            carry_meta(new, old, "resourceVersion");
        } else if version != stored.revision {
            return Err(ApiError::conflict(self.info, &self.target.name, status::STALE));
        }
        Ok(())
    }

    /// Does this update take the last thing away that held a deleted object?
    fn is_last_step_of_deletion(&self, new: &Value, old: &Value) -> bool {
        is_deleting(old)
            && meta_number(old, "deletionGracePeriodSeconds").unwrap_or(0) == 0
            && meta_list(new, "finalizers").is_empty()
            && !self.info.strategy.holds_deletion(new)
    }

    fn other_uid(&self, wanted: &str, found: &str) -> ApiError {
        let prefix = self.info.strategy.storage_prefix().unwrap_or(self.info.resource);
        let namespace = &self.target.namespace;
        let slash = if namespace.is_empty() { "" } else { "/" };
        let name = &self.target.name;
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: /registry/{prefix}/{namespace}{slash}{name}, \
             ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in \
             object meta: {found}"
        );
        ApiError::conflict(self.info, name, &why)
    }
}

/// Namespace and name of the body must be those of the path.
///
/// # Errors
/// 400 when they are not.
pub fn match_target(object: &mut Value, target: &Target) -> Result<(), ApiError> {
    match_namespace(object, &target.namespace)?;
    let (name, wanted) = (meta(object, "name"), target.name.as_str());
    if name.is_empty() {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({wanted} based on URL) was undeterminable: name must be provided"
        )));
    }
    if name == wanted { Ok(()) } else { Err(other_name(name, wanted)) }
}

/// 400: the body names another object than the path.
pub fn other_name(name: &str, wanted: &str) -> ApiError {
    ApiError::bad_request(format!(
        "the name of the object ({name}) does not match the name on the URL ({wanted})"
    ))
}

/// The resource version of an object in a body, 0 for none.
///
/// # Errors
/// 422 with Go's words, if it is no number.
fn given_version(info: &ResourceInfo, object: &Value) -> Result<u64, ApiError> {
    match meta(object, "resourceVersion") {
        "" => Ok(0),
        text => parse_version(text).map_err(|why| {
            let fault = errors::invalid("metadata.resourceVersion", text, why);
            ApiError::invalid(info, meta(object, "name"), fault)
        }),
    }
}
