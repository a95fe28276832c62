//! What is particular to one kind: defaulting, preparation, validation, allocation and what follows a delete.
//!
//! The generic verbs call these steps in upstream's order. All but the steps that take a transaction are pure; those
//! see and stage writes of the transaction in which the object itself is stored, and are rolled back with it when a
//! later step refuses the request (or when it is a dry run).
//!
//! ```text
//! create:  default -> managed fields -> check_create -> [tx: begin_create -> exists? -> put]
//! update:  default -> managed fields -> check_update -> [tx: put
//!                                            or, with the last finalizer gone, after_delete -> delete -> restore]
//! delete:  [tx: refuse_delete -> mark or (after_delete -> delete -> restore)]
//!
//! check_create = prepare_create -> validate_create -> warnings, and likewise check_update
//! ```
//!
//! A kind that allocates nothing is checked before the transaction, against the version that is there then; in the
//! transaction it is seen whether that version still is. One that allocates has `allocate_create` and `allocate_update`
//! instead, inside the transaction. A kind whose rules are written on a type takes these steps as a whole, so that it
//! reads each version once for all of them.

use jiff::Timestamp;
use serde_json::Value;
use service_api::errors::FieldErrors;

use super::error::ApiError;
use super::object::{carry_meta, carry_system_fields};
use super::{Registry, Tx};

/// Which part of an object a request addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subresource {
    /// The object itself.
    None,
    /// `…/status`.
    Status,
    /// `…/scale`.
    Scale,
    /// `…/binding`.
    Binding,
    /// `…/eviction`.
    Eviction,
    /// `…/finalize`.
    Finalize,
    /// `…/ephemeralcontainers`.
    EphemeralContainers,
    /// `…/resize`.
    Resize,
}

/// What the steps inside a transaction may need beside the objects.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// All kinds, to find another kind's resource.
    pub registry: &'a Registry,
    /// When the request came in; what a creation timestamp shows.
    pub now: Timestamp,
    /// Nothing of this transaction will stay.
    pub dry_run: bool,
}

/// What is to be said of an object before it is stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// All faults, those of its metadata included, in upstream's order; with any, it is not stored.
    pub faults: FieldErrors,
    /// Texts of `Warning` headers; none for an object with faults.
    pub warnings: Vec<String>,
}

impl Findings {
    /// Of an object with faults, those; else what `warnings` says.
    pub fn new(faults: FieldErrors, warnings: impl FnOnce() -> Vec<String>) -> Self {
        let warnings = if faults.is_empty() { warnings() } else { Vec::new() };
        Self { faults, warnings }
    }
}

/// The steps of one kind. Objects are whole JSON objects, already decoded, pruned and typed by the kind's schema, with
/// `apiVersion` and `kind`.
///
/// The default implementations suit a kind without rules of its own.
pub trait Strategy: Send + Sync {
    /// Static defaults of the API version; applied to every decoded body and to every patched object.
    fn default(&self, _obj: &mut Value) {}

    /// Is an object checked while something is allocated for it, by [`Strategy::allocate_create`] and
    /// [`Strategy::allocate_update`]? If not, it is checked before the transaction begins.
    fn allocates(&self) -> bool {
        false
    }

    /// What is wrong with an object that is too much for anything to be allocated for it; judged before the transaction.
    fn faults_at_sight(&self, _obj: &Value) -> FieldErrors {
        FieldErrors::new()
    }

    /// What is wrong with an object, in its stored form, that was sent in another one, beyond what is wrong with it in any;
    /// `live` is what is stored, if anything.
    fn view_faults(&self, _obj: &Value, _live: Option<&Value>) -> FieldErrors {
        FieldErrors::new()
    }

    /// Prepares and checks a new object; `metadata` is complete by then (name, uid, creation time).
    fn check_create(&self, obj: &mut Value) -> Findings {
        self.prepare_create(obj);
        Findings::new(self.validate_create(obj), || self.warnings(obj, None, Subresource::None))
    }

    /// Carries over what no update changes, prepares an update through `sub` and checks it.
    fn check_update(&self, new: &mut Value, old: &Value, sub: Subresource) -> Findings {
        carry_meta(new, old, "generation");
        self.prepare_update(new, old, sub);
        carry_system_fields(new, old);
        Findings::new(self.validate_update(new, old, sub), || self.warnings(new, Some(old), sub))
    }

    /// Allocates for a new object, stages the writes that belong to it, and checks it. What came through a subresource
    /// gets nothing allocated, as upstream.
    ///
    /// # Errors
    /// What the allocation refuses.
    fn allocate_create(
        &self,
        obj: &mut Value,
        _sub: Subresource,
        _tx: &mut Tx<'_>,
        _ctx: &Context<'_>,
    ) -> Result<Findings, ApiError> {
        Ok(self.check_create(obj))
    }

    /// Allocates for what an update through `sub` changed, stages the writes that belong to it, and checks it.
    ///
    /// # Errors
    /// What the allocation refuses.
    fn allocate_update(
        &self,
        new: &mut Value,
        old: &Value,
        sub: Subresource,
        _tx: &mut Tx<'_>,
        _ctx: &Context<'_>,
    ) -> Result<Findings, ApiError> {
        Ok(self.check_update(new, old, sub))
    }

    /// Completes a new object from others in the transaction that stores it.
    fn begin_create(&self, _obj: &mut Value, _tx: &mut Tx<'_>, _ctx: &Context<'_>) -> Result<(), ApiError> {
        Ok(())
    }

    /// The name for an object that has a `generateName` only; `suffix` is five random characters.
    fn generate_name(&self, base: &str, suffix: &str) -> String {
        service_api::meta::generated_name(base, suffix)
    }

    /// Drops and sets what a creator may not decide (status, generation 1 where the kind has generations).
    fn prepare_create(&self, _obj: &mut Value) {}

    /// All faults of a new object, faults of its metadata included, in upstream's order.
    fn validate_create(&self, _obj: &Value) -> FieldErrors {
        FieldErrors::new()
    }

    /// Texts of `Warning` headers for a create (`old` is `None`) or an update, as the strategy's `WarningsOn*`.
    fn warnings(&self, _new: &Value, _old: Option<&Value>, _sub: Subresource) -> Vec<String> {
        Vec::new()
    }

    /// A warning that every use of the kind carries (a deprecated kind: reads and deletes too), if there is one.
    fn deprecation(&self) -> Option<&'static str> {
        None
    }

    /// Carries over, wipes and bumps the generation before an update through `sub` is validated.
    fn prepare_update(&self, _new: &mut Value, _old: &Value, _sub: Subresource) {}

    /// All faults of an update through `sub`, faults of its metadata included.
    fn validate_update(&self, _new: &Value, _old: &Value, _sub: Subresource) -> FieldErrors {
        FieldErrors::new()
    }

    /// Can [`Strategy::on_read`] ever change an object of this kind? If not, bodies are shown unparsed.
    fn decorates(&self) -> bool {
        false
    }

    /// Repairs what older writers stored before it is shown or compared (upstream's decorator). `true`: changed it.
    fn on_read(&self, _obj: &mut Value) -> bool {
        false
    }

    /// May a PUT or apply patch create the object?
    fn create_on_update(&self) -> bool {
        false
    }

    /// May an update leave `metadata.resourceVersion` out?
    fn unconditional_update(&self) -> bool {
        true
    }

    /// How long a delete lets the object live, in seconds: `asked` is `gracePeriodSeconds` of the request, if it names
    /// one. `None`: the kind knows no graceful deletion; `Some(0)`: at once.
    fn grace_seconds(&self, _obj: &Value, _asked: Option<i64>) -> Option<i64> {
        None
    }

    /// A reason to refuse a delete, if there is one.
    fn refuse_delete(&self, _obj: &Value) -> Option<ApiError> {
        None
    }

    /// May the object, with no finalizer in its metadata, still not go (a namespace's `spec.finalizers`)?
    fn holds_deletion(&self, _obj: &Value) -> bool {
        false
    }

    /// Called when a delete marks the object instead of removing it (a namespace's phase).
    fn mark_deleted(&self, _obj: &mut Value) {}

    /// Called in the transaction that removes the object, whichever request removes it: frees and deletes what belongs
    /// to it. When an update takes the last finalizer away it is called for the state before and the state after, so
    /// what it looks for may be gone.
    fn after_delete(&self, _old: &Value, _tx: &mut Tx<'_>, _ctx: &Context<'_>) -> Result<(), ApiError> {
        Ok(())
    }

    /// Called in the same transaction right after the object was removed: puts back what others still need.
    fn restore(&self, _old: &Value, _tx: &mut Tx<'_>, _ctx: &Context<'_>) -> Result<(), ApiError> {
        Ok(())
    }

    /// What stands before `namespace/name` in upstream's storage key (some errors show it), if not the resource's name.
    fn storage_prefix(&self) -> Option<&'static str> {
        None
    }

    /// Does DELETE answer with the deleted object in place of a Status (upstream's `ReturnDeletedObject`)?
    fn returns_deleted(&self) -> bool {
        false
    }
}

/// A kind without rules of its own.
#[derive(Debug, Clone, Copy, Default)]
pub struct Plain;

impl Strategy for Plain {}
