//! Making an object.

use jiff::Timestamp;
use serde_json::Value;
use service_api::status;

use crate::managed_fields::{UpdateContext, track_update};
use crate::registry::error::ApiError;
use crate::registry::object::{self, meta, set_meta};
use crate::registry::options::WriteOptions;
use crate::registry::strategy::Subresource;
use crate::registry::{Target, Tx};

use super::namespace::admit_create;
use super::{Answer, Api, Outcome, owners, warned};

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
) -> Result<Outcome, ApiError> {
    match_namespace(&mut object, &target.namespace)?;
    let repeated = owners::dedup(&mut object, owners::Seen::Sent);
    let context = UpdateContext { manager: &options.manager, subresource: None, now };
    track_update(api.registry.schema(target.id), None, &mut object, &context);
    // What is no version is passed over, and a dry run does not look.
    let version = meta(&object, "resourceVersion").parse::<u64>();
    let versioned = !options.dry_run && version.is_ok_and(|version| version != 0);
    let made =
        api.transact(options.dry_run, |tx| create_in(api, target, object, options, now, versioned, tx));
    warned(made, Vec::from_iter(repeated))
}

/// Makes the namespace of a body that of the path.
pub(super) fn match_namespace(object: &mut Value, namespace: &str) -> Result<(), ApiError> {
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

/// Makes a tracked object inside a transaction. `versioned`: the client gave it a resource version.
pub(super) fn create_in(
    api: &Api,
    target: &Target,
    mut object: Value,
    options: &WriteOptions,
    now: Timestamp,
    versioned: bool,
    tx: &mut Tx<'_>,
) -> Result<Outcome, ApiError> {
    let entry = api.entry(target);
    let strategy = &*entry.strategy;
    let context = api.context(now, options);
    let shown = match meta(&object, "name") {
        "" => meta(&object, "generateName"),
        name => name,
    };
    admit_create(&api.registry, tx, entry, &target.namespace, shown)?;
    set_system_fields(&mut object, now);
    choose_name(api, target, &mut object, tx);
    let name = meta(&object, "name").to_owned();
    let taken = !name.is_empty() && tx.get(target.id, &target.namespace, &name).is_some();
    // Upstream's way through `…/status` makes the object and allocates nothing for it.
    let begun = if target.sub.is_none() { strategy.begin_create(&mut object, tx, &context) } else { Ok(()) };
    if let Err(refused) = begun {
        // A full range is no reason to try again when the object exists already.
        let moot = taken && refused.code() >= 500;
        return Err(if moot { ApiError::already_exists(entry, &name) } else { refused });
    }
    strategy.prepare_create(&mut object);
    let faults = strategy.validate_create(&object);
    if !faults.is_empty() {
        return Err(ApiError::invalid(entry, &name, faults));
    }
    let warnings = strategy.warnings(&object, None, Subresource::None);
    if versioned {
        let refused = status::plain_500("resourceVersion should not be set on objects to be created");
        return warned(Err(refused.into()), warnings);
    }
    if taken {
        return warned(Err(ApiError::already_exists(entry, &name)), warnings);
    }
    let answer = if options.dry_run {
        Answer::Value(object)
    } else {
        set_meta(&mut object, "resourceVersion", None);
        Answer::Stored(tx.put(target.id, object)?)
    };
    Ok(Outcome::created(answer, warnings))
}

fn set_system_fields(object: &mut Value, now: Timestamp) {
    let metadata = object::meta_mut(object);
    metadata.insert("uid".to_owned(), Value::String(uuid::Uuid::new_v4().to_string()));
    metadata.insert("creationTimestamp".to_owned(), Value::String(object::time_text(now)));
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        metadata.remove(field);
    }
}

/// Completes a `generateName` with a suffix that is free.
fn choose_name(api: &Api, target: &Target, object: &mut Value, tx: &Tx<'_>) {
    let base = meta(object, "generateName").to_owned();
    if base.is_empty() || !meta(object, "name").is_empty() {
        return;
    }
    let strategy = &*api.entry(target).strategy;
    let mut name = String::new();
    for _ in 0..NAME_ATTEMPTS {
        name = strategy.generate_name(&base, &object::name_suffix(&mut rand::rng()));
        if tx.get(target.id, &target.namespace, &name).is_none() {
            break;
        }
    }
    set_meta(object, "name", Some(Value::String(name)));
}
