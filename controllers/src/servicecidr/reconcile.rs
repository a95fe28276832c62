//! A look at a ServiceCIDR, as kube's `Controller` calls for it: the finalizer first, then the condition, and at its end
//! whether it may go.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube::Api;
use kube::runtime::controller::Action;
use kube::runtime::finalizer::{self, Event, finalizer};
use kube::runtime::reflector::Store;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::object::ServiceCidr;
use super::plan::{self, Hold, Range};
use super::state::{Recheck, State};
use crate::api::{RequestError, Verb};
use crate::client::request_error_of;
use crate::controller::{Controller, Key};
use crate::index::Index;
use crate::keys;
use crate::objects::ObjectKind;
use crate::report::cause::Cause;
use crate::report::events::Reporter;
use crate::report::failures::Subject;
use crate::report::log::{About, Failure, FailureLog};
use crate::report::look::Look;
use crate::report::metrics::{Metrics, SyncResult};
use crate::report::note::Note;
use crate::report::reconcile::Told;
use crate::text::{Text, Uid};

/// What calls for a look, in the log.
pub(super) const TRIGGER: &str = "service CIDRs or addresses";

/// What a look at a ServiceCIDR works with.
pub(crate) struct Context {
    /// ServiceCIDRs on the server.
    pub api: Api<ServiceCidr>,
    /// Where allocated addresses are known.
    pub index: Arc<Mutex<Index>>,
    /// Whether this replica writes.
    pub leads: Arc<AtomicBool>,
    /// What is told of failures.
    pub failures: Arc<FailureLog>,
    /// What is told on objects.
    pub reporter: Reporter,
    /// What is counted.
    pub metrics: Metrics,
    /// Allocators have so long to notice that a range goes.
    pub grace: Duration,
    /// Calls for a look at all ranges.
    pub recheck: Recheck,
    /// What is remembered of the ranges.
    pub state: Arc<Mutex<State>>,
    /// What is told of looks.
    pub told: Told,
}

/// A look that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Looking {
    pub(super) look: Look,
    /// For how long the range was due before.
    pub(super) queued: Duration,
}

/// Why a range is not as it should be, by the step that failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Addresses hold it; it is looked at again when one goes.
    #[error("addresses are in no other range")]
    Blocked,
    /// Allocators may not have noticed its end yet.
    #[error("allocators have {0:?} to notice that the range goes")]
    Notice(Duration),
    /// The condition could not be written.
    #[error("the condition Ready was not written: {0}")]
    Condition(RequestError),
    /// The finalizer could not be put on or taken off.
    #[error("the finalizer was not written: {0}")]
    Finalizer(RequestError),
}

/// Puts a range right.
///
/// # Errors
/// If it is not right yet, by the step that did not come to its end.
pub(crate) async fn reconcile(
    cidr: Arc<ServiceCidr>,
    context: &Context,
    store: &Store<ServiceCidr>,
) -> Result<Action, Error> {
    if !context.looks_at(&cidr) {
        return Ok(Action::await_change());
    }
    let look = context.told.begin();
    let queued = context.state.lock().start(&cidr.name(), look.begun);
    let looking = Looking { look, queued };
    let _working = context.metrics.begin(Controller::Cidrs, Some(queued));
    context.observe(&cidr);
    let is_outdated = context.state.lock().awaits_echo(&cidr.name(), cidr.version());
    let looked = if is_outdated {
        Ok(Action::await_change())
    } else {
        put_right(&cidr, context, store, &looking).await
    };
    context.tell_outcome(&cidr, &looked, look.begun.elapsed());
    looked
}

async fn put_right(
    cidr: &Arc<ServiceCidr>,
    context: &Context,
    store: &Store<ServiceCidr>,
    looking: &Looking,
) -> Result<Action, Error> {
    let looked = finalizer(&context.api, keys::SERVICE_CIDR_FINALIZER, Arc::clone(cidr), |event| async {
        match event {
            Event::Apply(cidr) => context.say(&cidr, &plan::usable(&cidr.prefixes()), looking).await,
            Event::Cleanup(cidr) => release(&cidr, context, store, looking).await,
        }
    })
    .await;
    let looked = looked.map_err(step)?;
    context.tell_finalizer(cidr, looking);
    Ok(looked)
}

fn step(error: finalizer::Error<Error>) -> Error {
    match error {
        finalizer::Error::ApplyFailed(error) | finalizer::Error::CleanupFailed(error) => error,
        finalizer::Error::AddFinalizer(error) | finalizer::Error::RemoveFinalizer(error) => {
            Error::Finalizer(of_finalizer(&error))
        }
        error @ (finalizer::Error::UnnamedObject | finalizer::Error::InvalidFinalizer) => {
            Error::Finalizer(RequestError::Unknown(error.to_string()))
        }
    }
}

/// What an answer to kube's patch of finalizers means. The patch tests first that they are as they were: a test that fails is
/// somebody else's write in between. A server that holds the range itself to be faulty names a field.
fn of_finalizer(error: &kube::Error) -> RequestError {
    match (request_error_of(error), error) {
        (RequestError::Rejected { code: 422, message }, kube::Error::Api(status))
            if status.details.as_ref().is_none_or(|details| details.causes.is_empty()) =>
        {
            RequestError::Conflict(message)
        }
        (error, _) => error,
    }
}

/// Whether a range may go; says why if not.
async fn release(
    cidr: &ServiceCidr,
    context: &Context,
    store: &Store<ServiceCidr>,
    looking: &Looking,
) -> Result<Action, Error> {
    context.recheck.wait_for_addresses();
    let ranges: Vec<Range> = store.state().iter().map(Range::of).collect();
    let name = cidr.name();
    let Some(range) = ranges.iter().find(|range| *range.name == *name) else {
        return Ok(Action::await_change());
    };
    let now = jiff::Timestamp::now().as_duration().as_secs_f64();
    let held = plan::hold(range, &ranges, &context.index.lock().addresses, context.grace, now);
    match held {
        Hold::Free => Ok(Action::await_change()),
        Hold::Notice(wait) => Err(Error::Notice(wait)),
        Hold::Addresses { count, parents } => {
            let said = plan::blocked(count, &parents);
            if !cidr.says(&said) {
                context.state.lock().say(&cidr.name(), Instant::now()).map_err(Error::Notice)?;
                if !cidr.is_terminating() {
                    let note = in_use(cidr, &plan::holders(count, &parents));
                    context.reporter.tell_of(note, Some(looking.look.id));
                }
                context.say(cidr, &said, looking).await?;
            }
            Err(Error::Blocked)
        }
    }
}

fn in_use(cidr: &ServiceCidr, holders: &str) -> Note {
    Note {
        kind: "ServiceCIDR",
        api_version: "networking.k8s.io/v1",
        namespace: "".into(),
        name: cidr.name(),
        uid: Uid::from(cidr.metadata.uid.as_deref().unwrap_or_default()),
        warning: true,
        reason: "ServiceCIDRInUse",
        message: format!(
            "The ServiceCIDR is removed when no address is left that is in no other: it has {holders}"
        ),
        controller: Controller::Cidrs,
    }
}

/// When a range that is not as it should be is looked at again.
#[allow(clippy::needless_pass_by_value)] // as kube gives them
pub(super) fn again(cidr: Arc<ServiceCidr>, error: &Error, context: Arc<Context>) -> Action {
    match error {
        Error::Blocked
        | Error::Condition(RequestError::NotFound(_))
        | Error::Finalizer(RequestError::NotFound(_)) => Action::await_change(),
        Error::Notice(wait) => Action::requeue(*wait),
        Error::Condition(error) | Error::Finalizer(error) => {
            let again = context.state.lock().failed(&cidr.name(), error);
            let about = About { trigger: Some(TRIGGER), verb: Some(Verb::Merge.name()), ..About::default() };
            let object = format!("servicecidrs/{}", cidr.name());
            let about = About { object: Some(&object), ..about };
            let failure = Failure { about, cause: &Cause::of(error), why: error };
            context.failures.failed(&subject(&cidr.name()), &[failure], Some(again));
            context.metrics.retried(Controller::Cidrs);
            Action::requeue(again)
        }
    }
}

fn subject(name: &Text) -> Subject {
    Subject::Key(Key::new(Controller::Cidrs, &"".into(), name))
}

impl Context {
    /// Whether this replica writes, and to this range: not to one that cannot be read.
    pub(super) fn looks_at(&self, cidr: &ServiceCidr) -> bool {
        self.leads.load(Ordering::Relaxed) && cidr.unreadable.is_none()
    }

    /// Takes note of a range's version: a new one may matter to all others.
    fn observe(&self, cidr: &ServiceCidr) {
        if self.state.lock().observe(&cidr.name(), cidr.version()) {
            self.recheck.all();
        }
    }

    /// Counts and names a range that cannot be read.
    pub(super) fn tell_unreadable(&self, cidr: &ServiceCidr) {
        if let Some(error) = &cidr.unreadable {
            let kind = ObjectKind::Cidrs;
            self.metrics.watches().unreadable(kind);
            let object = &*cidr.name();
            tracing::error!(
                kind = kind.resource(),
                object,
                error,
                "an object cannot be read and is passed over"
            );
        }
    }

    fn tell_outcome(&self, cidr: &ServiceCidr, looked: &Result<Action, Error>, took: Duration) {
        let failed = matches!(looked, Err(Error::Condition(_) | Error::Finalizer(_)));
        let result = if failed { SyncResult::Error } else { SyncResult::Success };
        self.metrics.synced(Controller::Cidrs, result, took.as_secs_f64());
        if !failed {
            self.failures.works(&subject(&cidr.name()));
            self.state.lock().worked(&cidr.name());
        }
    }
}
