//! What a simulated pod looks like at a moment: a pure function of the pod, its start and the clock.
//!
//! Annotations below `lab.service-controller-manager.io/` say how it behaves; durations are such as `500ms`, `10s`, `2m`.
//!
//! | annotation | meaning |
//! | --- | --- |
//! | `start-after` | how long the first containers take to start (1s) |
//! | `init-takes` | how long each init container runs (500ms) |
//! | `init-fails` | `true`: init containers end with exit code 1 |
//! | `ready-after` | how long after its start a container is ready, beside what its probes ask for (0s) |
//! | `never-ready` | `true`: it never gets ready |
//! | `flap` | once ready, readiness changes every so often |
//! | `fail` | the containers run so long, then end with exit code 1 |
//! | `complete` | the containers run so long, then end with exit code 0 |
//! | `ends-after` | how long they take to end once the pod is deleted (2s; what an image `agnhost` has as `--delay-shutdown`), at most the grace period |

mod containers;
mod observed;
mod pod;
mod status;

use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use self::containers::State;
use self::pod::Members;
use super::probes;
use super::probing::Probing;
use super::simulated_node::SimulatedNode;

const PREFIX: &str = "lab.service-controller-manager.io/";
const START_AFTER: i64 = 1_000;
const INIT_TAKES: i64 = 500;
const ENDS_AFTER: i64 = 2_000;
/// What a kubelet says of a pod that was active for longer than it may be.
const DEADLINE: (&str, &str) =
    ("DeadlineExceeded", "Pod was active on the node longer than the specified deadline");
/// The reason of a pod that used more than it may.
const EVICTED: &str = "Evicted";

/// A pod at a moment.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Moment {
    /// What the kubelet reports; fields that are missing stay as they are.
    pub status: Value,
    /// The pod's containers have ended after its deletion: the object may go.
    pub ended: bool,
    /// What has happened so far that is worth an Event.
    pub happened: Vec<PodEvent>,
    /// When it will look different.
    pub next: Option<Timestamp>,
    /// The containers that run, and since when.
    pub running: Vec<(String, Timestamp)>,
}

/// Something that happened in a pod, perhaps several times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodEvent {
    /// `Normal` or `Warning`.
    pub kind: &'static str,
    /// The Event's reason.
    pub reason: &'static str,
    /// The Event's text.
    pub message: String,
    /// Which of the pod's events it is: part of a name.
    pub key: String,
    /// Where in the pod.
    pub path: Value,
    /// How often so far, over the pod's whole life.
    pub count: i64,
}

/// Looks at a pod that was given its addresses at `start` on this node. Its probes find what `probing` says, or, without that, what the
/// clock does.
pub(super) fn at(
    pod: &Value,
    simulated: &SimulatedNode,
    (addresses, start): (&[IpAddr], Timestamp),
    probing: Option<&Probing>,
    now: Timestamp,
) -> Moment {
    let members = Members::of(pod, start, probing, now);
    let end = ends_at(pod);
    let next = [members.next, end].into_iter().flatten().filter(|next| *next > now).min();
    let happened = happened(&members, now);
    let place = status::Place { simulated, addresses, start };
    let runs = members.all.iter().filter(|member| member.run.state == State::Running);
    let running = runs.map(|member| (member.name().to_owned(), member.run.begun)).collect();
    Moment {
        status: status::render(pod, &members, &place, now),
        ended: end.is_some_and(|end| end <= now),
        happened,
        next,
        running,
    }
}

/// Failed probes, what became of them, and why the pod was ended from outside.
fn happened(members: &Members<'_>, now: Timestamp) -> Vec<PodEvent> {
    let mut out = Vec::new();
    for member in &members.all {
        for failures in member.failures(now) {
            let path = probes::field_path(member.list, member.name());
            let probe = failures.kind.name().to_lowercase();
            out.push(PodEvent {
                kind: "Warning",
                reason: "Unhealthy",
                message: probes::failed(failures.kind, &failures.found),
                key: format!("unhealthy.{probe}.{}", member.name()),
                path: path.clone(),
                count: failures.count,
            });
            let restarted = if member.script.restarts { ", will be restarted" } else { "" };
            out.push(PodEvent {
                kind: "Normal",
                reason: "Killing",
                message: format!("Container {} failed {probe} probe{restarted}", member.name()),
                key: format!("killing.{probe}.{}", member.name()),
                path,
                count: failures.kills,
            });
        }
    }
    if let Some((reason, message)) = &members.ended_for {
        out.push(PodEvent {
            kind: "Warning",
            reason,
            message: message.clone(),
            key: reason.to_lowercase(),
            path: Value::Null,
            count: 1,
        });
    }
    out.retain(|event| event.count > 0);
    out
}

/// When the containers of a deleted pod have ended.
fn ends_at(pod: &Value) -> Option<Timestamp> {
    let until: Timestamp = pod.pointer("/metadata/deletionTimestamp")?.as_str()?.parse().ok()?;
    let grace =
        pod.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or_default()
            * 1000;
    let takes = annotation(pod, "ends-after").and_then(millis).or_else(|| delayed(pod)).unwrap_or(ENDS_AFTER);
    Some(after(until, takes.min(grace) - grace))
}

/// How long containers of the image `agnhost` say by their arguments that they take to end.
fn delayed(pod: &Value) -> Option<i64> {
    let containers = pod.pointer("/spec/containers").and_then(Value::as_array).into_iter().flatten();
    let seconds = containers.filter_map(|container| {
        let image = container.get("image")?.as_str()?.rsplit('/').next()?;
        let words: Vec<&str> = container.get("args")?.as_array()?.iter().filter_map(Value::as_str).collect();
        let place = words.iter().position(|word| word.starts_with("--delay-shutdown"))?;
        let text = words[place].strip_prefix("--delay-shutdown=").or_else(|| words.get(place + 1).copied());
        text?.parse::<i64>().ok().filter(|_| image.split([':', '@']).next() == Some("agnhost"))
    });
    Some(seconds.max()?.saturating_mul(1000))
}

fn annotation<'a>(pod: &'a Value, name: &str) -> Option<&'a str> {
    pod.pointer("/metadata/annotations")?.get(format!("{PREFIX}{name}"))?.as_str()
}

/// A duration such as `500ms`, `10s` or `2m`, in milliseconds; a bare number is seconds.
pub(super) fn millis(text: &str) -> Option<i64> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor: u32 = match unit {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    let seconds: f64 = number.parse().ok()?;
    let length = std::time::Duration::try_from_secs_f64(seconds * f64::from(factor) / 1000.0).ok()?;
    i64::try_from(length.as_millis()).ok()
}

fn after(time: Timestamp, millis: i64) -> Timestamp {
    time.saturating_add(SignedDuration::from_millis(millis)).unwrap_or(time)
}

fn between(from: Timestamp, to: Timestamp) -> i64 {
    to.as_millisecond().saturating_sub(from.as_millisecond())
}

/// A time as objects show it, to the second.
fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests;
