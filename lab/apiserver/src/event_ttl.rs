//! The end of Events: each goes some time after it was last written (`--event-ttl` of kube-apiserver, there an hour too).
//!
//! Owns when an Event has had its time. It looks at an Event when it is written and when its time is over, never in
//! between, and deletes it whatever finalizers or owners it has, as the lease of etcd does upstream.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::registry::LabIndex;
use crate::registry::error::ApiError;
use crate::registry::object;
use crate::registry::verbs::Api;
use crate::store::{Event, EventType, ListWatch, ResourceId, Store, Stored, Update, View, WriteError};

/// How long an Event stays after its last write unless something else is asked for.
pub const DEFAULT_TTL: Duration = Duration::from_hours(1);

/// So many are deleted in one transaction: other writers come in between.
const AT_ONCE: usize = 500;

/// After a disk refused the deletions, they are tried again after so long.
const AGAIN: Duration = Duration::from_secs(30);

/// Deletes Events `ttl` after their last write, until `closing`; never, if `ttl` is zero.
pub async fn run(api: Arc<Api>, ttl: Duration, closing: CancellationToken) {
    let Some(id) = api.registry.id("", "events").filter(|_| !ttl.is_zero()) else { return };
    let mut ends = Ends::new(ttl);
    let mut events = ListWatch::new(&api.store, id, |view: &View<'_, LabIndex>| {
        view.list(id, None, None).cloned().collect::<Vec<_>>()
    });
    loop {
        let next = ends.next();
        tokio::select! {
            () = closing.cancelled() => return,
            update = events.next() => match update {
                Update::Listed(found) => {
                    ends = Ends::new(ttl);
                    ends.found(&found, Timestamp::now(), Instant::now());
                }
                Update::Events(events) => {
                    for event in &events {
                        ends.happened(event, Instant::now());
                    }
                }
            },
            () = tokio::time::sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {
                let due = ends.due(Instant::now(), AT_ONCE);
                let (pass, keys) = (Arc::clone(&api), due.clone());
                let deleted = tokio::task::spawn_blocking(move || delete(&pass.store, id, &keys)).await;
                if !matches!(deleted, Ok(Ok(()))) {
                    tracing::error!(?deleted, events = due.len(), "Events could not be deleted after their time");
                    ends.put_off(due, Instant::now() + AGAIN);
                }
            }
        }
    }
}

/// Deletes the Events that are as they were when their time began; the others have a new time.
fn delete(store: &Store<LabIndex>, id: ResourceId, due: &[(Key, u64)]) -> Result<(), WriteError<ApiError>> {
    store.write(|tx| {
        for (Key { namespace, name }, revision) in due {
            let Some(stored) = tx.get(id, namespace, name).filter(|stored| stored.revision == *revision)
            else {
                continue;
            };
            let last = object::parse(&stored.body);
            tx.delete(id, namespace, name, last).map_err(ApiError::from)?;
        }
        Ok(())
    })
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key {
    namespace: Arc<str>,
    name: Arc<str>,
}

impl Key {
    fn of(stored: &Stored) -> Self {
        Self { namespace: Arc::clone(&stored.namespace), name: Arc::clone(&stored.name) }
    }
}

/// When which Event has had its time.
#[derive(Debug)]
struct Ends {
    ttl: Duration,
    order: BTreeSet<(Instant, Key)>,
    /// When it ends, and the version that was written last.
    of: HashMap<Key, (Instant, u64)>,
}

impl Ends {
    fn new(ttl: Duration) -> Self {
        Self { ttl, order: BTreeSet::new(), of: HashMap::new() }
    }

    fn set(&mut self, key: Key, end: Instant, revision: u64) {
        self.forget(&key);
        self.order.insert((end, key.clone()));
        self.of.insert(key, (end, revision));
    }

    fn forget(&mut self, key: &Key) {
        if let Some((end, _)) = self.of.remove(key) {
            self.order.remove(&(end, key.clone()));
        }
    }

    /// Events whose last write was not seen: their own times tell how long ago that was.
    fn found(&mut self, stored: &[Arc<Stored>], now: Timestamp, at: Instant) {
        for stored in stored {
            let written = last_written(&object::parse(&stored.body)).unwrap_or(now);
            let age = Duration::try_from(now.duration_since(written)).unwrap_or_default();
            self.set(Key::of(stored), at + self.ttl.saturating_sub(age), stored.revision);
        }
    }

    fn happened(&mut self, event: &Event, at: Instant) {
        let key = Key::of(&event.object);
        if event.ty == EventType::Deleted {
            self.forget(&key);
        } else {
            self.set(key, at + self.ttl, event.object.revision);
        }
    }

    fn next(&self) -> Option<Instant> {
        self.order.first().map(|(end, _)| *end)
    }

    /// Takes out those whose time is over, at most `most`.
    fn due(&mut self, now: Instant, most: usize) -> Vec<(Key, u64)> {
        let mut due = Vec::new();
        while due.len() < most
            && let Some((end, key)) = self.order.pop_first()
        {
            if end > now {
                self.order.insert((end, key));
                break;
            }
            if let Some((_, revision)) = self.of.remove(&key) {
                due.push((key, revision));
            }
        }
        due
    }

    fn put_off(&mut self, due: Vec<(Key, u64)>, end: Instant) {
        for (key, revision) in due {
            self.set(key, end, revision);
        }
    }
}

/// The latest time in an Event that is one of a write.
fn last_written(event: &Value) -> Option<Timestamp> {
    let times = ["/metadata/creationTimestamp", "/lastTimestamp", "/eventTime", "/series/lastObservedTime"];
    let own = times.iter().filter_map(|at| event.pointer(at));
    let managed = event.pointer("/metadata/managedFields").and_then(Value::as_array).into_iter().flatten();
    own.chain(managed.filter_map(|entry| entry.get("time")))
        .filter_map(|time| time.as_str()?.parse().ok())
        .max()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::local::{EVENTS, Local};
    use crate::server::{LabConfig, Portless};

    const TTL: Duration = Duration::from_mins(10);

    fn event(name: &str) -> Value {
        json!({"metadata": {"name": name, "namespace": "default"}, "reason": "Tried", "type": "Normal",
            "involvedObject": {"kind": "Service", "namespace": "default", "name": "web"}})
    }

    struct Scene {
        api: Arc<Api>,
        local: Local,
    }

    impl Scene {
        fn start(ttl: Duration, found: &[&str]) -> Self {
            let api = Portless::open(&LabConfig::local()).unwrap().api();
            let scene = Self { local: Local::new(Arc::clone(&api), "test"), api };
            for name in found {
                scene.write(name);
            }
            tokio::spawn(run(Arc::clone(&scene.api), ttl, CancellationToken::new()));
            scene
        }

        fn write(&self, name: &str) {
            self.local.create(EVENTS, "default", &event(name)).unwrap();
        }

        fn names(&self) -> Vec<String> {
            let names = |event: &Value| event["metadata"]["name"].as_str().unwrap().to_owned();
            self.local.list(EVENTS, Some("default")).iter().map(names).collect()
        }

        /// The Events that are left after some time.
        async fn after(&self, time: Duration, left: &[&str]) {
            tokio::time::sleep(time).await;
            // The paused clock does not go on while the deletions run on their thread.
            tokio::time::sleep(Duration::from_millis(1)).await;
            assert_eq!(self.names(), left);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_goes_after_its_last_write() {
        let scene = Scene::start(TTL, &["found"]);
        scene.write("once");
        scene.write("again");
        tokio::time::sleep(TTL / 2).await;
        scene.local.update(EVENTS, ("default", "again"), |event| event["count"] = json!(2)).unwrap();
        scene.after(TTL / 4, &["again", "found", "once"]).await;
        scene.after(TTL / 2, &["again"]).await;
        scene.after(TTL / 2, &[]).await;
    }

    #[tokio::test(start_paused = true)]
    async fn with_a_time_of_zero_none_goes() {
        let scene = Scene::start(Duration::ZERO, &["found"]);
        scene.write("kept");
        scene.after(Duration::from_hours(1000), &["found", "kept"]).await;
    }

    #[tokio::test]
    async fn an_event_that_was_written_meanwhile_stays() {
        let scene = Scene::start(Duration::ZERO, &["a", "b"]);
        let id = scene.api.registry.id("", "events").unwrap();
        let (found, _, _) = scene.api.store.list_and_watch(id, None);
        let due: Vec<_> = found.iter().map(|stored| (Key::of(stored), stored.revision)).collect();
        scene.local.update(EVENTS, ("default", "b"), |event| event["count"] = json!(2)).unwrap();
        delete(&scene.api.store, id, &due).unwrap();
        assert_eq!(scene.names(), ["b"]);
    }

    #[test]
    fn the_latest_time_counts() {
        let event = json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [
            {"time": "2026-01-01T00:00:05Z"}]}, "lastTimestamp": "2026-01-01T00:00:07Z", "eventTime": null,
            "series": {"lastObservedTime": "2026-01-01T00:00:09.5Z"}});
        assert_eq!(last_written(&event), Some("2026-01-01T00:00:09.5Z".parse().unwrap()));
        assert_eq!(last_written(&json!({"lastTimestamp": "never"})), None);
    }

    #[test]
    fn what_was_not_deleted_is_due_again() {
        let (mut ends, now) = (Ends::new(TTL), Instant::now());
        let key = |name: &str| Key { namespace: "default".into(), name: name.into() };
        for (at, name) in ["a", "b", "c"].iter().enumerate() {
            ends.set(key(name), now + Duration::from_secs(at as u64), 7);
        }
        assert_eq!(ends.due(now + TTL, 2), [(key("a"), 7), (key("b"), 7)]);
        ends.put_off(vec![(key("a"), 7)], now + Duration::from_secs(1));
        assert_eq!(ends.next(), Some(now + Duration::from_secs(1)));
        assert_eq!(ends.due(now + Duration::from_secs(1), 9), [(key("a"), 7)]);
        assert_eq!(ends.of.len(), 1);
    }

    #[test]
    fn an_event_that_was_found_old_is_due_at_once() {
        let stored = |name: &str, time: &str| {
            let body = json!({"metadata": {"name": name, "creationTimestamp": time}});
            Arc::new(Stored {
                resource: ResourceId(0),
                namespace: "default".into(),
                name: name.into(),
                revision: 1,
                created_revision: 1,
                labels: [].into(),
                body: body.to_string().into(),
            })
        };
        let (mut ends, at) = (Ends::new(TTL), Instant::now());
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let times = ["2026-01-01T11:00:00Z", "2026-01-01T11:55:00Z", "2026-01-01T13:00:00Z"];
        let stored: Vec<_> = ["old", "young", "ahead"].iter().zip(times).map(|(n, t)| stored(n, t)).collect();
        ends.found(&stored, now, at);
        let end = |name: &str| ends.of[&Key { namespace: "default".into(), name: name.into() }].0 - at;
        assert_eq!((end("old"), end("young"), end("ahead")), (Duration::ZERO, TTL / 2, TTL));
    }
}
