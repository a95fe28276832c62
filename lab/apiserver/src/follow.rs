//! Events of several kinds as one stream, for what runs beside the API.
//!
//! It promises no completeness: a kind that fell behind goes on from now, so whoever follows must also look at everything
//! now and then.

use std::pin::Pin;
use std::sync::Arc;

use futures::stream::{SelectAll, Stream, unfold};

use crate::registry::LabIndex;
use crate::registry::verbs::Api;
use crate::store::{Event, ListWatch, ResourceId, Update, View};

/// Batches of events.
pub(crate) type Batches = SelectAll<Pin<Box<dyn Stream<Item = Vec<Arc<Event>>> + Send>>>;

/// What happens to these kinds from now on.
pub(crate) fn follow(api: &Arc<Api>, ids: impl IntoIterator<Item = ResourceId>) -> Batches {
    let mut all = SelectAll::new();
    for id in ids {
        let follower = ListWatch::new(&api.store, id, |_: &View<'_, LabIndex>| ());
        let stream = unfold(follower, |mut follower| async move {
            loop {
                if let Update::Events(batch) = follower.next().await {
                    return Some((batch, follower));
                }
            }
        });
        all.push(Box::pin(stream) as Pin<Box<dyn Stream<Item = _> + Send>>);
    }
    all
}
