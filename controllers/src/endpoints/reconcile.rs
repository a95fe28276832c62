//! A look at a Service's `Endpoints`: decide, read what is not known, or send what is decided and take in the answer.

use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument;

use super::apply::apply;
use super::state::State;
use crate::api::RequestError;
use crate::controller::Key;
use crate::index::events::EndpointsEvent;
use crate::reconcile::context::Context;
use crate::reconcile::report::{self, LookError, Looked};
use crate::reconcile::step::Step;
use crate::report::look::Look;

/// Up to so many pods, the `Endpoints` of a Service are put right with each change.
const FEW: u32 = 100;
/// With more, they are left alone for so long per pod after each look.
const REST_PER_POD: Duration = Duration::from_micros(200);
/// But no longer than this.
const LONGEST_REST: Duration = Duration::from_secs(1);

/// Puts the `Endpoints` of a Service right.
///
/// # Errors
/// If what is there cannot be read, or the server refuses a write that is still needed.
pub(crate) async fn reconcile(
    context: Arc<Context<State>>,
    key: Key,
    look: Look,
) -> Result<Looked, LookError> {
    let looked = match context.with(|index, state, _| state.step(index, &key.namespace, &key.name)) {
        Step::Idle => Ok(Looked::Right { again: None }),
        Step::Read(()) => read(&context, &key).await,
        Step::Send(job) => {
            let span = report::span(&key, &job.trigger, 1, &look);
            apply(&context, job, look.decided()).instrument(span).await
        }
    };
    let rest = rest(context.index.lock().pods_of(&key.namespace, &key.name));
    if !rest.is_zero() {
        context.queue.rest(&key, rest);
    }
    looked
}

/// How long the `Endpoints` of a Service with so many pods are left alone after a look. They are one object, made anew
/// from all of the pods: where these are many, changes are taken together.
fn rest(pods: u32) -> Duration {
    if pods > FEW { (REST_PER_POD * pods).min(LONGEST_REST) } else { Duration::ZERO }
}

/// Finds out what is there.
async fn read(context: &Context<State>, key: &Key) -> Result<Looked, LookError> {
    let (found, error) = match context.api.endpoints(&key.namespace, &key.name).await {
        Ok(found) => (Some(EndpointsEvent::Seen(Box::new(found))), None),
        Err(RequestError::NotFound(_)) => {
            let (namespace, name) = (key.namespace.clone(), key.name.clone());
            (Some(EndpointsEvent::Missing { namespace, name }), None)
        }
        Err(error) => (None, Some(error)),
    };
    let events = context.with(|index, state, _| state.finish_read(index, &key.namespace, &key.name, found));
    context.delivery.endpoints(events);
    match error {
        None => Ok(Looked::Read),
        Some(error) => Err(LookError::Read { verb: "get", object: "endpoints", error }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoints_of_large_services_rest() {
        assert_eq!(rest(100), Duration::ZERO);
        assert_eq!(rest(500), Duration::from_millis(100));
        assert_eq!(rest(1_000_000), LONGEST_REST);
    }
}
