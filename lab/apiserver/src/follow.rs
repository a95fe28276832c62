//! Events of several kinds as one stream, for what runs beside the API.
//!
//! It promises no completeness: a kind that fell behind goes on from now, so whoever follows must also look at everything
//! now and then.

use std::pin::Pin;
use std::sync::Arc;

use futures::stream::{SelectAll, Stream, unfold};

use crate::registry::LabIndex;
use crate::registry::verbs::Api;
use crate::store::{Event, ResourceId, Watch};

/// Batches of events.
pub(crate) type Batches = SelectAll<Pin<Box<dyn Stream<Item = Vec<Arc<Event>>> + Send>>>;

/// What happens to these kinds from now on.
pub(crate) fn follow(api: &Arc<Api>, ids: impl IntoIterator<Item = ResourceId>) -> Batches {
    let mut all = SelectAll::new();
    for id in ids {
        let api = Arc::clone(api);
        let watch = api.store.read_and_watch(id, |_| ()).1;
        let stream = unfold((api, watch), move |(api, mut watch): (_, Watch<LabIndex>)| async move {
            loop {
                match watch.next_batch().await {
                    Ok(batch) => return Some((batch, (api, watch))),
                    Err(_) => watch = api.store.read_and_watch(id, |_| ()).1,
                }
            }
        });
        all.push(Box::pin(stream) as Pin<Box<dyn Stream<Item = _> + Send>>);
    }
    all
}
