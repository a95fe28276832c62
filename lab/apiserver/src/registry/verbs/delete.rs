//! Removing objects: at once, after a grace period, or after their finalizers and dependents.

use std::collections::HashSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use service_api::status;

use crate::registry::error::ApiError;
use crate::registry::object::{self, is_deleting, meta, meta_list, meta_number, set_meta};
use crate::registry::options::{DeleteOptions, Preconditions, Propagation};
use crate::registry::resource_info::ResourceInfo;
use crate::registry::strategy::Context;
use crate::registry::{Target, Tx};
use crate::store::Stored;

use super::namespace::admit_delete;
use super::{Answer, Api, Done, WriteOutcome};

/// The finalizer that lets dependents be orphaned before their owner goes.
pub(crate) const ORPHAN: &str = "orphan";
/// The finalizer that lets dependents be deleted before their owner goes.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

/// Deletes one object.
///
/// # Errors
/// 404 when there is none, 409 when a precondition does not hold, 403 when it may not go.
pub fn delete(
    api: &Api,
    target: &Target,
    options: &DeleteOptions,
    now: Timestamp,
) -> Result<WriteOutcome, ApiError> {
    let info = api.info(target);
    admit_delete(info, &target.name)?;
    api.transact(options.dry_run, |tx| {
        let found = tx.get(target.id, &target.namespace, &target.name).cloned();
        let stored = found.ok_or_else(|| ApiError::not_found(info, &target.name))?;
        let context = Context { registry: &api.registry, now, dry_run: options.dry_run };
        let (answer, still_there) = Deletion { info, options, context }.run(&stored, tx)?;
        let done = if still_there && options.waits { Done::Accepted } else { Done::Now };
        Ok(WriteOutcome { answer, done, warnings: Vec::new() })
    })
}

/// Deletes what was listed before, one by one; what has vanished meanwhile is passed over. The answer is that list.
///
/// # Errors
/// Of the first object that cannot be deleted; those before it are.
pub fn delete_collection(
    api: &Api,
    target: &Target,
    objects: &[Arc<Stored>],
    options: &DeleteOptions,
    now: Timestamp,
) -> Result<(), ApiError> {
    for object in objects {
        let one = Target::object(target.id, &object.namespace, &object.name);
        match delete(api, &one, options, now) {
            Err(error) if error.code() != 404 => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

struct Deletion<'a> {
    info: &'a ResourceInfo,
    options: &'a DeleteOptions,
    context: Context<'a>,
}

impl Deletion<'_> {
    /// The answer, and whether the object is still there.
    fn run(&self, stored: &Arc<Stored>, tx: &mut Tx<'_>) -> Result<(Answer, bool), ApiError> {
        let strategy = &*self.info.strategy;
        let mut old = object::parse(&stored.body);
        strategy.on_read(&mut old);
        self.check(&self.options.preconditions, &old)?;
        if let Some(refused) = strategy.refuse_delete(&old) {
            return Err(refused);
        }
        if strategy.holds_deletion(&old) {
            return Ok((self.mark_held(stored, old, tx)?, true));
        }
        let mut new = old.clone();
        let graceful = match self.grace(&mut new, &old) {
            Grace::Pending => {
                return Ok((self.gone_or_shown(Answer::Stored(Arc::clone(stored)), &old), true));
            }
            Grace::Until(seconds) => Some(seconds),
            Grace::Unknown => None,
        };
        self.set_gc_finalizers(&mut new);
        let held = !meta_list(&new, "finalizers").is_empty();
        if held && graceful.is_none() {
            mark(&mut new, self.context.now);
        }
        if held || graceful.is_some_and(|seconds| seconds > 0) {
            return Ok((self.store(stored, new, &old, tx)?, true));
        }
        strategy.after_delete(&old, tx, &self.context)?;
        // With a grace period of zero upstream stores the mark and deletes right after; watches see the mark.
        let last = if graceful.is_some() { new } else { old.clone() };
        if self.options.dry_run {
            return Ok((self.gone_or_shown(Answer::Value(last.clone()), &last), false));
        }
        let uid = meta(&last, "uid").to_owned();
        let removed = tx.delete(stored.resource, &stored.namespace, &stored.name, last)?;
        strategy.restore(&old, tx, &self.context)?;
        Ok((self.shown_or_status(Answer::Stored(removed), &stored.name, &uid), false))
    }

    fn check(&self, wanted: &Preconditions, old: &Value) -> Result<(), ApiError> {
        let name = meta(old, "name");
        let found = meta(old, "uid");
        if let Some(uid) = wanted.uid.as_deref().filter(|uid| *uid != found) {
            let why = format!(
                "the UID in the precondition ({uid}) does not match the UID in record ({found}). The object might \
                 have been deleted and then recreated"
            );
            return Err(ApiError::precondition(self.info, name, &why));
        }
        let found = meta(old, "resourceVersion");
        if let Some(version) = wanted.resource_version.as_deref().filter(|version| *version != found) {
            let why = format!(
                "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record \
                 ({found}). The object might have been modified"
            );
            return Err(ApiError::precondition(self.info, name, &why));
        }
        Ok(())
    }

    /// A kind that holds its objects itself (namespaces): they are marked and their own finalizers do the rest.
    fn mark_held(&self, stored: &Arc<Stored>, old: Value, tx: &mut Tx<'_>) -> Result<Answer, ApiError> {
        if is_deleting(&old) {
            return Ok(Answer::Stored(Arc::clone(stored)));
        }
        let mut new = old;
        set_meta(&mut new, "deletionTimestamp", Some(json!(object::time_text(self.context.now))));
        self.info.strategy.mark_deleted(&mut new);
        self.set_gc_finalizers(&mut new);
        if self.options.dry_run {
            return Ok(Answer::Value(new));
        }
        Ok(Answer::Stored(tx.put(stored.resource, new)?))
    }

    /// Settles how long the object lives on and marks it accordingly, where the kind knows graceful deletion.
    fn grace(&self, new: &mut Value, old: &Value) -> Grace {
        let asked = self.options.grace_seconds.map(|seconds| if seconds < 0 { 1 } else { seconds });
        if is_deleting(old) {
            let Some(pending) = meta_number(old, "deletionGracePeriodSeconds") else { return Grace::Unknown };
            if self.info.strategy.grace_seconds(old, asked).is_none() {
                return Grace::Unknown;
            }
            let Some(seconds) = asked.filter(|seconds| *seconds < pending) else { return Grace::Pending };
            if let Some(until) = object::parse_time(meta(old, "deletionTimestamp")) {
                let sooner = until.saturating_add(SignedDuration::from_secs(seconds - pending));
                let until = sooner.unwrap_or(until);
                set_meta(new, "deletionTimestamp", Some(json!(object::time_text(until))));
            }
            set_meta(new, "deletionGracePeriodSeconds", Some(json!(seconds)));
            return Grace::Until(seconds);
        }
        let Some(seconds) = self.info.strategy.grace_seconds(old, asked) else { return Grace::Unknown };
        let seconds = if seconds < 0 { 1 } else { seconds };
        let until = self.context.now.saturating_add(SignedDuration::from_secs(seconds));
        let until = until.unwrap_or(self.context.now);
        set_meta(new, "deletionTimestamp", Some(json!(object::time_text(until))));
        set_meta(new, "deletionGracePeriodSeconds", Some(json!(seconds)));
        bump_generation(new);
        Grace::Until(seconds)
    }

    /// Puts the collector's finalizers in or takes them out, as the request asks.
    fn set_gc_finalizers(&self, new: &mut Value) {
        let Some(propagation) = self.options.propagation else { return };
        let before: Vec<String> = meta_list(new, "finalizers").into_iter().map(str::to_owned).collect();
        let mut after: Vec<String> =
            before.iter().filter(|f| *f != ORPHAN && *f != FOREGROUND).cloned().collect();
        match propagation {
            Propagation::Orphan => after.push(ORPHAN.to_owned()),
            Propagation::Foreground => after.push(FOREGROUND.to_owned()),
            Propagation::Background => {}
        }
        let known: HashSet<&String> = after.iter().collect();
        let same = before.len() == after.len() && before.iter().all(|finalizer| known.contains(finalizer));
        if !same {
            set_meta(new, "finalizers", (!after.is_empty()).then(|| json!(after)));
        }
    }

    /// Stores the marked object, if marking changed anything.
    fn store(
        &self,
        stored: &Arc<Stored>,
        new: Value,
        old: &Value,
        tx: &mut Tx<'_>,
    ) -> Result<Answer, ApiError> {
        if new == *old {
            Ok(Answer::Stored(Arc::clone(stored)))
        } else if self.options.dry_run {
            Ok(Answer::Value(new))
        } else {
            Ok(Answer::Stored(tx.put(stored.resource, new)?))
        }
    }

    fn gone_or_shown(&self, answer: Answer, object: &Value) -> Answer {
        self.shown_or_status(answer, meta(object, "name"), meta(object, "uid"))
    }

    fn shown_or_status(&self, answer: Answer, name: &str, uid: &str) -> Answer {
        if self.info.strategy.returns_deleted() {
            return answer;
        }
        let removed = status::removed(self.info.group, self.info.resource, name, uid);
        Answer::Status(Box::new(status::success(removed)))
    }
}

/// How a deletion goes on.
enum Grace {
    /// The kind knows no graceful deletion.
    Unknown,
    /// The object lives so many seconds more.
    Until(i64),
    /// An earlier deletion is under way and will end no later than this one.
    Pending,
}

/// Marks an object of a kind without graceful deletion.
fn mark(object: &mut Value, now: Timestamp) {
    if !is_deleting(object) {
        bump_generation(object);
        set_meta(object, "deletionTimestamp", Some(json!(object::time_text(now))));
    }
    set_meta(object, "deletionGracePeriodSeconds", Some(json!(0)));
}

fn bump_generation(object: &mut Value) {
    if let Some(generation) = meta_number(object, "generation").filter(|generation| *generation > 0) {
        set_meta(object, "generation", Some(json!(generation + 1)));
    }
}
