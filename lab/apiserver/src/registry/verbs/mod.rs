//! Create, read, update, patch and delete, for every kind, in upstream's order of steps.
//!
//! Each verb runs its checks and its write in one transaction of the store, so that what was checked is what is written
//! and a refused request leaves nothing behind. Dry runs take the same way and are thrown away.

mod binding;
mod change;
mod create;
mod delete;
mod evict;
mod list;
mod namespace;
mod owners;

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use serde_json::Value;

use crate::store::Stored;

use super::error::ApiError;
use super::object;
use super::options::WriteOptions;
use super::resource_info::ResourceInfo;
use super::strategy::Context;
use super::{Registry, Store, Target, Tx};

pub use binding::bind;
pub use change::{Computed, Rules, change, change_apart, match_target, other_name};
pub use create::{create, match_namespace};
pub(crate) use delete::{FOREGROUND, ORPHAN};
pub use delete::{delete, delete_collection};
pub use evict::evict;
pub use list::{ListAt, Page, PageRequest, check_token, list};

/// The kinds and the objects of one lab. Servers share it.
pub struct Api {
    /// The kinds.
    pub registry: Registry,
    /// The objects.
    pub store: Store,
}

/// What a verb answers with.
#[derive(Debug)]
pub enum Answer {
    /// A stored version.
    Stored(Arc<Stored>),
    /// An object that is not stored like this (a dry run, the last state of a removed object).
    Value(Value),
    /// A Status of success.
    Status(Box<Status>),
}

/// What came of a granted request, as its HTTP code tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// 200: it is done.
    Now,
    /// 201: something new was made.
    Created,
    /// 202: a deletion that was asked to wait for dependents has begun.
    Accepted,
}

/// A granted request.
#[derive(Debug)]
pub struct WriteOutcome {
    /// What to show.
    pub answer: Answer,
    /// What came of it.
    pub done: Done,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
}

impl WriteOutcome {
    fn of(answer: Answer, warnings: Vec<String>) -> Self {
        Self { answer, done: Done::Now, warnings }
    }

    fn created(answer: Answer, warnings: Vec<String>) -> Self {
        Self { answer, done: Done::Created, warnings }
    }
}

/// The end of a request, good or bad, with what was to be said before it.
///
/// # Errors
/// That of the result.
pub fn warned(
    result: Result<WriteOutcome, ApiError>,
    mut warnings: Vec<String>,
) -> Result<WriteOutcome, ApiError> {
    match result {
        Ok(mut outcome) => {
            outcome.warnings.splice(0..0, warnings);
            Ok(outcome)
        }
        Err(mut error) => {
            warnings.append(&mut error.warnings);
            Err(ApiError { warnings, ..error })
        }
    }
}

impl Api {
    /// The kind that is addressed.
    pub fn info(&self, target: &Target) -> &ResourceInfo {
        self.registry.info(target.id)
    }

    /// Reads one object.
    ///
    /// # Errors
    /// 404 if there is none.
    pub fn get(&self, target: &Target) -> Result<Answer, ApiError> {
        let found = self.store.read(|view| view.get(target.id, &target.namespace, &target.name).cloned());
        let info = self.info(target);
        let stored = found.ok_or_else(|| ApiError::not_found(info, &target.name))?;
        if !info.strategy.decorates() {
            return Ok(Answer::Stored(stored));
        }
        let mut value = object::parse(&stored.body);
        Ok(if info.strategy.on_read(&mut value) { Answer::Value(value) } else { Answer::Stored(stored) })
    }

    /// Runs a transaction, or its dry run.
    fn transact<T>(
        &self,
        dry_run: bool,
        work: impl FnOnce(&mut Tx<'_>) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        if dry_run { self.store.dry_run(work) } else { Ok(self.store.write(work)?) }
    }

    fn context(&self, now: Timestamp, options: &WriteOptions) -> Context<'_> {
        Context { registry: &self.registry, now, dry_run: options.dry_run }
    }
}
