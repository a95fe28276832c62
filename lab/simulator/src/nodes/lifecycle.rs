//! What a simulated pod looks like at a moment: a pure function of the pod, its start and the clock.
//!
//! Annotations below `lab.service-controller-manager.io/` say how it behaves; durations are such as `500ms`, `10s`, `2m`.
//!
//! | annotation | meaning |
//! | --- | --- |
//! | `start-after` | how long the containers take to start (1s) |
//! | `ready-after` | how long after its start a container is ready, beside what its readiness probe asks for (0s) |
//! | `never-ready` | `true`: it never gets ready |
//! | `flap` | once ready, readiness changes every so often |
//! | `fail` | the containers run so long, then end with exit code 1 |
//! | `complete` | the containers run so long, then end with exit code 0 |
//! | `ends-after` | how long they take to end once the pod is deleted (2s), at most the grace period |

use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::machine::Machine;
use super::probes::{self, Probe};

const PREFIX: &str = "lab.service-controller-manager.io/";
/// How long a container that failed waits for its next start, in milliseconds.
const BACK_OFF: i64 = 10_000;
const START_AFTER: i64 = 1_000;
const ENDS_AFTER: i64 = 2_000;

/// A pod at a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Moment {
    /// What the kubelet reports; fields that are missing stay as they are.
    pub status: Value,
    /// The pod's containers have ended after its deletion: the object may go.
    pub ended: bool,
    /// How often the readiness probe has failed so far, and of which container.
    pub failed_probes: Option<(String, i64)>,
    /// When it will look different.
    pub next: Option<Timestamp>,
}

/// Looks at a pod that was given its addresses at `start` on this node.
pub fn at(pod: &Value, machine: &Machine, addresses: &[IpAddr], start: Timestamp, now: Timestamp) -> Moment {
    let plan = Plan::of(pod, start);
    let run = plan.run(now);
    let ready = plan.readiness(&run, now);
    let probe = Plan::failed_probes(pod, &run, now);
    let end = ends_at(pod);
    let next = [run.next, ready.next, probe.as_ref().map(|(_, _, next)| *next), end]
        .into_iter()
        .flatten()
        .filter(|next| *next > now)
        .min();
    Moment {
        status: status(pod, machine, addresses, start, &run, &ready),
        ended: end.is_some_and(|end| end <= now),
        failed_probes: probe.map(|(container, count, _)| (container, count)),
        next,
    }
}

/// When the containers of a deleted pod have ended.
fn ends_at(pod: &Value) -> Option<Timestamp> {
    let until: Timestamp = pod.pointer("/metadata/deletionTimestamp")?.as_str()?.parse().ok()?;
    let grace =
        pod.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or_default()
            * 1000;
    let takes = annotation(pod, "ends-after").and_then(millis).unwrap_or(ENDS_AFTER).min(grace);
    Some(after(until, takes - grace))
}

/// How the pod behaves, from its annotations.
struct Plan {
    started: Timestamp,
    lives: Option<(i64, i64)>,
    restarts: bool,
    ready_after: Option<i64>,
    flap: Option<i64>,
}

/// Where the containers are in their life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Creating,
    Running,
    BackOff,
    Ended,
}

struct Run {
    phase: Phase,
    /// Since when.
    since: Timestamp,
    /// When the containers were started last.
    started: Timestamp,
    restarts: i64,
    exit_code: i64,
    next: Option<Timestamp>,
}

struct Readiness {
    ready: bool,
    since: Timestamp,
    next: Option<Timestamp>,
}

impl Plan {
    fn of(pod: &Value, start: Timestamp) -> Self {
        let duration = |name: &str| annotation(pod, name).and_then(millis);
        let lives =
            duration("fail").map(|time| (time, 1)).or_else(|| duration("complete").map(|time| (time, 0)));
        let policy = pod.pointer("/spec/restartPolicy").and_then(Value::as_str).unwrap_or("Always");
        let failing = lives.is_some_and(|(_, code)| code != 0);
        let containers = pod.pointer("/spec/containers").and_then(Value::as_array);
        let probed =
            containers.into_iter().flatten().map(probes::readiness).try_fold(
                0,
                |latest, probe| match probe {
                    Probe::PassesAfter(time) => Some(latest.max(time)),
                    Probe::NeverPasses { .. } => None,
                },
            );
        let never = annotation(pod, "never-ready") == Some("true");
        Self {
            started: after(start, duration("start-after").unwrap_or(START_AFTER)),
            lives: lives.map(|(time, code)| (time.max(1), code)),
            restarts: policy == "Always" || (policy == "OnFailure" && failing),
            ready_after: probed.filter(|_| !never).map(|time| time + duration("ready-after").unwrap_or(0)),
            flap: duration("flap").map(|time| time.max(1)),
        }
    }

    fn run(&self, now: Timestamp) -> Run {
        let phase = |phase, since, started, restarts, next| Run {
            phase,
            since,
            started,
            restarts,
            exit_code: self.lives.map_or(0, |(_, code)| code),
            next,
        };
        if now < self.started {
            return phase(Phase::Creating, self.started, self.started, 0, Some(self.started));
        }
        let Some((life, _)) = self.lives else {
            return phase(Phase::Running, self.started, self.started, 0, None);
        };
        let age = between(self.started, now);
        if !self.restarts {
            let end = after(self.started, life);
            return if age < life {
                phase(Phase::Running, self.started, self.started, 0, Some(end))
            } else {
                phase(Phase::Ended, end, self.started, 0, None)
            };
        }
        let cycle = life.saturating_add(BACK_OFF);
        let turn = age / cycle;
        let begun = after(self.started, turn * cycle);
        let ends = after(begun, life);
        if now < ends {
            phase(Phase::Running, begun, begun, turn, Some(ends))
        } else {
            phase(Phase::BackOff, ends, begun, turn, Some(after(begun, cycle)))
        }
    }

    fn readiness(&self, run: &Run, now: Timestamp) -> Readiness {
        let not = |since, next| Readiness { ready: false, since, next };
        let Some(delay) = self.ready_after.filter(|_| run.phase == Phase::Running) else {
            return not(run.since, None);
        };
        let first = after(run.started, delay);
        if now < first {
            return not(run.since, Some(first));
        }
        let Some(period) = self.flap else { return Readiness { ready: true, since: first, next: None } };
        let turn = between(first, now) / period;
        Readiness {
            ready: turn % 2 == 0,
            since: after(first, turn * period),
            next: Some(after(first, (turn + 1) * period)),
        }
    }

    /// Container, count and time of the next failure of a probe that never passes.
    fn failed_probes(pod: &Value, run: &Run, now: Timestamp) -> Option<(String, i64, Timestamp)> {
        if run.phase != Phase::Running {
            return None;
        }
        let containers = pod.pointer("/spec/containers").and_then(Value::as_array)?;
        let (container, first, period) =
            containers.iter().find_map(|container| match probes::readiness(container) {
                Probe::NeverPasses { first, period } => Some((container, first, period)),
                Probe::PassesAfter(_) => None,
            })?;
        let age = between(run.started, now);
        let count = if age < first { 0 } else { (age - first) / period + 1 };
        let name = container.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        Some((name, count, after(run.started, first + count * period)))
    }
}

fn status(
    pod: &Value,
    machine: &Machine,
    addresses: &[IpAddr],
    start: Timestamp,
    run: &Run,
    ready: &Readiness,
) -> Value {
    let phase = match (run.phase, run.exit_code) {
        (Phase::Creating, _) => "Pending",
        (Phase::Running | Phase::BackOff, _) => "Running",
        (Phase::Ended, 0) => "Succeeded",
        (Phase::Ended, _) => "Failed",
    };
    let unready = match run.phase {
        Phase::Ended if run.exit_code == 0 => Some("PodCompleted"),
        Phase::Ended => Some("PodFailed"),
        _ => Some("ContainersNotReady"),
    };
    let condition = |kind: &str, holds: bool, since: Timestamp| {
        let mut out = json!({
            "type": kind, "status": if holds { "True" } else { "False" }, "lastProbeTime": null,
            "lastTransitionTime": time(since),
        });
        if !holds && kind != "PodReadyToStartContainers" {
            out["reason"] = json!(unready);
            if run.phase != Phase::Ended {
                out["message"] = json!(format!("containers with unready status: [{}]", container_names(pod)));
            }
        }
        out
    };
    let listed: Vec<Value> = addresses.iter().map(|address| json!({"ip": address})).collect();
    json!({
        "phase": phase,
        "startTime": time(start),
        "hostIP": machine.address, "hostIPs": [{"ip": machine.address}],
        "podIP": addresses.first(), "podIPs": listed,
        "conditions": [
            condition("PodReadyToStartContainers", run.phase != Phase::Ended, start),
            {"type": "Initialized", "status": "True", "lastProbeTime": null, "lastTransitionTime": time(start)},
            condition("Ready", ready.ready, ready.since),
            condition("ContainersReady", ready.ready, ready.since),
        ],
        "containerStatuses": container_statuses(pod, run, ready.ready),
    })
}

fn container_names(pod: &Value) -> String {
    let containers = pod.pointer("/spec/containers").and_then(Value::as_array);
    let names: Vec<&str> =
        containers.into_iter().flatten().filter_map(|container| container.get("name")?.as_str()).collect();
    names.join(" ")
}

fn container_statuses(pod: &Value, run: &Run, ready: bool) -> Vec<Value> {
    let uid = pod.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
    let ended = |at: Timestamp| {
        let reason = if run.exit_code == 0 { "Completed" } else { "Error" };
        json!({"terminated": {
            "exitCode": run.exit_code, "reason": reason, "startedAt": time(run.started), "finishedAt": time(at),
        }})
    };
    let state = match run.phase {
        Phase::Creating => json!({"waiting": {"reason": "ContainerCreating"}}),
        Phase::Running => json!({"running": {"startedAt": time(run.started)}}),
        Phase::BackOff => json!({"waiting": {"reason": "CrashLoopBackOff",
            "message": format!("back-off {}s restarting failed container", BACK_OFF / 1000)}}),
        Phase::Ended => ended(run.since),
    };
    let last = match run.phase {
        Phase::BackOff => ended(run.since),
        Phase::Running if run.restarts > 0 => ended(after(run.started, -BACK_OFF)),
        _ => json!({}),
    };
    let containers = pod.pointer("/spec/containers").and_then(Value::as_array);
    containers
        .into_iter()
        .flatten()
        .map(|container| {
            let name = container.get("name").cloned().unwrap_or_default();
            let image = container.get("image").cloned().unwrap_or_default();
            let mut out = json!({
                "name": name, "image": image, "imageID": "", "ready": ready, "restartCount": run.restarts,
                "started": run.phase == Phase::Running, "state": state, "lastState": last,
            });
            if run.phase != Phase::Creating {
                out["containerID"] =
                    json!(format!("simulated://{uid}/{}", name.as_str().unwrap_or_default()));
            }
            out
        })
        .collect()
}

fn annotation<'a>(pod: &'a Value, name: &str) -> Option<&'a str> {
    pod.pointer("/metadata/annotations")?.get(format!("{PREFIX}{name}"))?.as_str()
}

/// A duration such as `500ms`, `10s` or `2m`, in milliseconds; a bare number is seconds.
pub fn millis(text: &str) -> Option<i64> {
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

fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::super::machine::{Settings, machines};
    use super::*;

    fn pod(annotations: &[(&str, &str)], container: Value) -> Value {
        let annotations: serde_json::Map<String, Value> =
            annotations.iter().map(|(name, value)| (format!("{PREFIX}{name}"), json!(value))).collect();
        let mut container = container;
        container["name"] = json!("c");
        json!({"metadata": {"name": "p", "uid": "u", "annotations": annotations}, "spec": {"containers": [container]}})
    }

    fn look(pod: &Value, millis: i64) -> Moment {
        let machine = &machines(&Settings { count: 1, ..Settings::default() }).unwrap()[0];
        let start = Timestamp::UNIX_EPOCH;
        at(pod, machine, &["10.244.1.2".parse().unwrap()], start, after(start, millis))
    }

    fn ready(moment: &Moment) -> bool {
        moment.status["conditions"][2]["status"] == "True"
    }

    fn next(moment: &Moment) -> Option<i64> {
        moment.next.map(Timestamp::as_millisecond)
    }

    #[test]
    fn a_plain_pod_starts_and_is_ready_at_once() {
        let plain = pod(&[], json!({}));
        let creating = look(&plain, 0);
        assert_eq!(creating.status["phase"], json!("Pending"));
        assert_eq!(creating.status["podIPs"], json!([{"ip": "10.244.1.2"}]));
        assert_eq!((ready(&creating), next(&creating)), (false, Some(1000)));
        let running = look(&plain, 1000);
        assert_eq!(
            (running.status["phase"].clone(), ready(&running), next(&running)),
            (json!("Running"), true, None)
        );
        assert_eq!(running.status["conditions"][2]["lastTransitionTime"], json!("1970-01-01T00:00:01Z"));
    }

    #[rstest]
    #[case(&[("ready-after", "5s")], json!({}), 6000)]
    #[case(&[], json!({"readinessProbe": {"initialDelaySeconds": 3, "httpGet": {"path": "/"}}}), 4000)]
    #[case(&[("start-after", "500ms")], json!({}), 500)]
    fn readiness_takes_its_time(
        #[case] annotations: &[(&str, &str)],
        #[case] container: Value,
        #[case] when: i64,
    ) {
        let pod = pod(annotations, container);
        assert!(!ready(&look(&pod, when - 1)));
        assert!(ready(&look(&pod, when)));
        assert_eq!(look(&pod, when).status, look(&pod, when + 60_000).status);
    }

    #[test]
    fn a_probe_that_can_not_pass_is_counted() {
        let pod = pod(&[], json!({"readinessProbe": {"periodSeconds": 5, "httpGet": {"path": "/nope"}}}));
        for (millis, count, wake) in [(1000, 0, 2000), (2000, 1, 7000), (6999, 1, 7000), (7000, 2, 12_000)] {
            let moment = look(&pod, millis);
            assert!(!ready(&moment));
            assert_eq!(
                (moment.failed_probes.clone(), next(&moment)),
                (Some(("c".to_owned(), count)), Some(wake))
            );
        }
    }

    #[test]
    fn flapping_goes_on_and_on() {
        let pod = pod(&[("flap", "2s")], json!({}));
        let seen: Vec<bool> =
            [1000, 2999, 3000, 4999, 5000].iter().map(|millis| ready(&look(&pod, *millis))).collect();
        assert_eq!(seen, [true, true, false, false, true]);
        assert_eq!(next(&look(&pod, 3500)), Some(5000));
    }

    #[test]
    fn failing_containers_are_started_again_or_not() {
        let mut failing = pod(&[("fail", "3s")], json!({}));
        let crashed = look(&failing, 4000);
        assert_eq!(
            crashed.status["containerStatuses"][0]["state"]["waiting"]["reason"],
            json!("CrashLoopBackOff")
        );
        assert!(!ready(&crashed));
        let again = look(&failing, 14_000);
        assert_eq!(again.status["containerStatuses"][0]["restartCount"], json!(1));
        assert!(ready(&again));
        failing["spec"]["restartPolicy"] = json!("Never");
        let failed = look(&failing, 4000);
        assert_eq!((failed.status["phase"].clone(), next(&failed)), (json!("Failed"), None));
    }

    #[test]
    fn a_pod_completes() {
        let mut pod = pod(&[("complete", "3s")], json!({}));
        pod["spec"]["restartPolicy"] = json!("OnFailure");
        let done = look(&pod, 4000);
        assert_eq!(done.status["phase"], json!("Succeeded"));
        assert_eq!(done.status["conditions"][2]["reason"], json!("PodCompleted"));
    }

    #[rstest]
    #[case::default(&[], 30, 2000)]
    #[case::short_grace(&[], 1, 1000)]
    #[case::slow(&[("ends-after", "20s")], 30, 20_000)]
    #[case::stubborn(&[("ends-after", "60s")], 30, 30_000)]
    fn a_deleted_pod_serves_until_it_has_ended(
        #[case] annotations: &[(&str, &str)],
        #[case] grace: i64,
        #[case] takes: i64,
    ) {
        let mut pod = pod(annotations, json!({}));
        let deleted = 10_000;
        pod["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
        pod["metadata"]["deletionTimestamp"] =
            json!(time(after(Timestamp::UNIX_EPOCH, deleted + grace * 1000)));
        let before = look(&pod, deleted + takes - 1);
        assert_eq!((ready(&before), before.ended, next(&before)), (true, false, Some(deleted + takes)));
        assert!(look(&pod, deleted + takes).ended);
    }

    #[rstest]
    #[case("500ms", Some(500))]
    #[case("10s", Some(10_000))]
    #[case("2m", Some(120_000))]
    #[case("1.5s", Some(1500))]
    #[case("7", Some(7000))]
    #[case("soon", None)]
    #[case("-3s", None)]
    fn durations(#[case] text: &str, #[case] length: Option<i64>) {
        assert_eq!(millis(text), length);
    }
}
