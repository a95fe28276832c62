//! Events on the objects a person would look at (core/v1, as kubectl describe shows them).
//!
//! Owns their form and the way to the server; what is told, and that a state is told once, is
//! decided where the state is known.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;
use tokio::sync::mpsc;

use super::cause::Cause;
use super::failures::Subject;
use super::lines::line_of;
use super::log::{About, Failure, FailureLog};
use super::look::LookId;
use super::note::Note;
use crate::api::{ApiServer, Resource, Verb, Write};
use crate::keys;

/// So many Events may wait; more are dropped and counted.
const WAITING: usize = 1000;

/// The way to the server.
#[derive(Clone, Debug)]
pub struct Reporter {
    notes: mpsc::Sender<(Note, Option<LookId>)>,
    dropped: Arc<AtomicU64>,
}

impl Reporter {
    /// A reporter, and the task that sends what it is told until all reporters are gone. What cannot be sent is dropped;
    /// `failures` tells that.
    pub fn new(api: Arc<dyn ApiServer>, failures: Arc<FailureLog>) -> (Self, impl Future<Output = ()>) {
        let (notes, mut waiting) = mpsc::channel(WAITING);
        let task = async move {
            while let Some((note, look)) = waiting.recv().await {
                let write = event(&note, look, jiff::Timestamp::now());
                match api.write(&write).await {
                    Ok(_) => failures.works(&Subject::Events),
                    Err(error) => {
                        let about = About {
                            verb: Some(write.verb.name()),
                            object: Some("events"),
                            trigger: Some(note.reason),
                        };
                        let failure = Failure { about, cause: &Cause::of(&error), why: &error };
                        failures.failed(&Subject::Events, &[failure], None);
                    }
                }
            }
        };
        (Self { notes, dropped: Arc::default() }, task)
    }

    /// Tells `note`, in the log too; without waiting, and without a promise.
    pub fn tell(&self, note: Note) {
        self.tell_of(note, None);
    }

    /// The same, of what the look with this number led to.
    pub fn tell_of(&self, note: Note, look: Option<LookId>) {
        if note.warning {
            let of = |kind: &str| (note.kind == kind).then_some(&*note.name);
            let namespace = Some(&*note.namespace).filter(|namespace| !namespace.is_empty());
            line_of!(
                note.controller,
                warn,
                controller = note.controller.name(),
                namespace,
                service = of("Service").or(of("Endpoints")),
                servicecidr = of("ServiceCIDR"),
                nodeportrange = of("NodePortRange"),
                servicepool = of("ServicePool"),
                reason = note.reason,
                id = look.map(tracing::field::display),
                "{}",
                note.message
            );
        }
        self.send(note, look);
    }

    /// Tells `note`, of which the log says more already; without waiting, and without a promise.
    pub fn send(&self, note: Note, look: Option<LookId>) {
        if self.notes.try_send((note, look)).is_err() {
            let dropped = self.dropped.fetch_add(1, Ordering::Relaxed) + 1;
            // The more there are, the less the next one says.
            if dropped.is_power_of_two() {
                tracing::warn!(dropped, "Events are dropped: too many wait");
            }
        }
    }
}

/// The request that writes a note as an Event at a time.
#[must_use]
pub(crate) fn event(note: &Note, look: Option<LookId>, now: jiff::Timestamp) -> Write {
    let component = note.controller.names().component;
    let namespace = if note.namespace.is_empty() { "default".into() } else { Arc::clone(&note.namespace) };
    let time = jiff::Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
    let mut involved = json!({
        "apiVersion": note.api_version,
        "kind": note.kind,
        "name": &*note.name,
        "uid": note.uid.to_string(),
    });
    if !note.namespace.is_empty() {
        involved["namespace"] = json!(&*note.namespace);
    }
    let mut metadata =
        json!({"name": format!("{}.{:x}", note.name, now.as_nanosecond()), "namespace": &*namespace});
    if let Some(look) = look {
        metadata["annotations"] = json!({keys::RECONCILE_ID: look.to_string()});
    }
    let body = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": metadata,
        "involvedObject": involved,
        "reason": note.reason,
        "message": note.message.chars().take(1024).collect::<String>(),
        "type": if note.warning { "Warning" } else { "Normal" },
        "source": {"component": component},
        "reportingComponent": component,
        "reportingInstance": "",
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
    });
    Write {
        verb: Verb::Create,
        resource: Resource::Events,
        namespace: Some(namespace),
        name: None,
        status: false,
        body: body.to_string().into(),
    }
}
