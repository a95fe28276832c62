//! Making an object.

use jiff::Timestamp;
use serde_json::Value;
use service_api::errors::{self, FieldErrors};

use crate::managed_fields::{UpdateContext, track_update};
use crate::registry::error::ApiError;
use crate::registry::object::{self, meta, set_meta};
use crate::registry::options::WriteOptions;
use crate::registry::strategy::{Findings, Strategy};
use crate::registry::{Target, Tx};

use super::namespace::admit_create;
use super::{Answer, Api, WriteOutcome, owners, warned};

/// How often a generated name may turn out to be taken, as upstream.
const NAME_ATTEMPTS: usize = 8;

/// Makes the object of a POST: decoded, defaulted, not yet tracked.
///
/// # Errors
/// 400 for another namespace in the body, 404 or 403 for a namespace in which nothing can be made, 422 for faults, 409
/// when the name is taken, and what the allocation for the kind refuses.
pub fn create(
    api: &Api,
    target: &Target,
    mut object: Value,
    options: &WriteOptions,
    now: Timestamp,
) -> Result<WriteOutcome, ApiError> {
    match_namespace(&mut object, &target.namespace)?;
    let repeated = owners::dedup(&mut object, owners::Seen::Sent);
    drop_deletion(&mut object);
    let context = UpdateContext { manager: &options.manager, subresource: None, now };
    track_update(api.registry.schema(target.id), None, &mut object, &context);
    // What is no version is passed over.
    let versioned = meta(&object, "resourceVersion").parse::<u64>().is_ok_and(|version| version != 0);
    let strategy = &*api.info(target).strategy;
    let faults = strategy.faults_at_sight(&object);
    let made = if faults.is_empty() {
        let mut draft = Draft::new(strategy, object, now);
        let info = api.info(target);
        match draft.take_faults() {
            None => {
                api.transact(options.dry_run, |tx| create_in(api, target, draft, options, now, versioned, tx))
            }
            // A long list of faults takes its time: it is told, and the object dropped, while others write.
            Some(faults) => api
                .transact(true, |tx| {
                    admit_create(&api.registry, tx, info, &target.namespace, draft.shown_name())
                })
                .and_then(|()| Err(ApiError::invalid(info, meta(&draft.object, "name"), faults))),
        }
    } else {
        Err(ApiError::invalid(api.info(target), meta(&object, "name"), faults))
    };
    warned(made, Vec::from_iter(repeated))
}

/// A new object on its way into a transaction.
pub(super) struct Draft {
    object: Value,
    /// The server chose the name.
    generated: bool,
    /// Of a kind for which nothing is allocated.
    checked: Option<Findings>,
}

impl Draft {
    /// Does what needs no transaction; the object is decoded, defaulted and tracked.
    pub(super) fn new(strategy: &dyn Strategy, mut object: Value, now: Timestamp) -> Self {
        set_system_fields(&mut object, now);
        let generated = meta(&object, "name").is_empty() && !meta(&object, "generateName").is_empty();
        if generated {
            choose_name(strategy, &mut object);
        }
        let checked = (!strategy.allocates()).then(|| strategy.check_create(&mut object));
        Self { object, generated, checked }
    }

    /// The faults of an object that was checked and has some.
    fn take_faults(&mut self) -> Option<FieldErrors> {
        let checked = self.checked.as_mut().filter(|checked| !checked.faults.is_empty())?;
        Some(std::mem::take(&mut checked.faults))
    }

    /// The name by which its author knows it.
    fn shown_name(&self) -> &str {
        meta(&self.object, if self.generated { "generateName" } else { "name" })
    }
}

/// Makes the namespace of a body that of the path.
///
/// # Errors
/// 400 when the body names another one.
pub fn match_namespace(object: &mut Value, namespace: &str) -> Result<(), ApiError> {
    let given = meta(object, "namespace");
    if given == namespace {
        return Ok(());
    }
    if given.is_empty() {
        set_meta(object, "namespace", Some(namespace.into()));
    } else if namespace.is_empty() {
        set_meta(object, "namespace", None);
    } else {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// Makes an object inside a transaction. `versioned`: the client gave it a resource version.
pub(super) fn create_in(
    api: &Api,
    target: &Target,
    draft: Draft,
    options: &WriteOptions,
    now: Timestamp,
    versioned: bool,
    tx: &mut Tx<'_>,
) -> Result<WriteOutcome, ApiError> {
    let info = api.info(target);
    let strategy = &*info.strategy;
    let context = api.context(now, options);
    admit_create(&api.registry, tx, info, &target.namespace, draft.shown_name())?;
    let Draft { mut object, generated, checked } = draft;
    let is_taken = |name: &str| !name.is_empty() && tx.get(target.id, &target.namespace, name).is_some();
    for _ in 1..NAME_ATTEMPTS {
        if generated && is_taken(meta(&object, "name")) {
            choose_name(strategy, &mut object);
        }
    }
    let name = meta(&object, "name").to_owned();
    let taken = is_taken(&name);
    let findings = match checked {
        None => strategy.allocate_create(&mut object, target.part(), tx, &context),
        Some(findings) if target.sub.is_some() => Ok(findings),
        Some(findings) => strategy.begin_create(&mut object, tx, &context).map(|()| findings),
    };
    let Findings { faults, warnings } = findings.map_err(|refused| {
        // A full range is no reason to try again when the object exists already.
        let moot = taken && refused.code() >= 500;
        if moot { ApiError::already_exists(info, &name) } else { refused }
    })?;
    if !faults.is_empty() {
        return Err(ApiError::invalid(info, &name, faults));
    }
    if versioned {
        let fault = errors::forbidden(
            "metadata.resourceVersion",
            "resourceVersion should not be set on objects to be created",
        );
        return warned(Err(ApiError::invalid(info, &name, fault)), warnings);
    }
    if taken {
        return warned(Err(ApiError::already_exists(info, &name)), warnings);
    }
    let answer = if options.dry_run {
        Answer::Value(object)
    } else {
        set_meta(&mut object, "resourceVersion", None);
        Answer::Stored(tx.put(target.id, object)?)
    };
    Ok(WriteOutcome::created(answer, warnings))
}

fn set_system_fields(object: &mut Value, now: Timestamp) {
    let metadata = object::meta_mut(object);
    metadata.insert("uid".to_owned(), Value::String(uuid::Uuid::new_v4().to_string()));
    metadata.insert("creationTimestamp".to_owned(), Value::String(object::time_text(now)));
    drop_deletion(object);
}

/// A new object is not being deleted, whatever its author says.
fn drop_deletion(object: &mut Value) {
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        object::meta_mut(object).remove(field);
    }
}

/// Completes a `generateName` with a random suffix.
fn choose_name(strategy: &dyn Strategy, object: &mut Value) {
    let name = strategy.generate_name(meta(object, "generateName"), &object::name_suffix(&mut rand::rng()));
    set_meta(object, "name", Some(Value::String(name)));
}
