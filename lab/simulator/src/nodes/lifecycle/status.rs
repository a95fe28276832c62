//! The status that a kubelet reports of a simulated pod. Pure.

use std::net::IpAddr;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::probes::BACK_OFF;
use super::super::simulated_node::SimulatedNode;
use super::containers::State;
use super::pod::{Member, Members, PodOutcome, Role};
use super::time;

/// Where a pod runs.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub simulated: &'a SimulatedNode,
    pub addresses: &'a [IpAddr],
    pub start: Timestamp,
}

/// The kubelet's part of the status.
pub(super) fn render(pod: &Value, members: &Members<'_>, place: &Place<'_>, now: Timestamp) -> Value {
    let host = &place.simulated.addresses;
    let listed =
        |addresses: &[IpAddr]| -> Value { addresses.iter().map(|address| json!({"ip": address})).collect() };
    let statuses = |init: bool| -> Vec<Value> {
        let all = members.all.iter().filter(|member| (member.role != Role::Main) == init);
        all.map(|member| container_status(pod, members, member, now)).collect()
    };
    let mut status = json!({
        "phase": phase(members, now),
        "startTime": time(place.start),
        "hostIP": host.first(), "hostIPs": listed(host),
        "podIP": place.addresses.first(), "podIPs": listed(place.addresses),
        "conditions": conditions(pod, members, place, now),
        "containerStatuses": statuses(false),
    });
    let init = statuses(true);
    if !init.is_empty() {
        status["initContainerStatuses"] = json!(init);
    }
    if let Some((reason, message)) = &members.ended_for {
        (status["reason"], status["message"]) = (json!(reason), json!(message));
    }
    status
}

fn phase(members: &Members<'_>, now: Timestamp) -> &'static str {
    match members.outcome {
        PodOutcome::Succeeded(_) => "Succeeded",
        PodOutcome::Failed(_) | PodOutcome::DeadlineExceeded(_) | PodOutcome::Evicted(_) => "Failed",
        PodOutcome::Open if is_initialized(members, now) => "Running",
        PodOutcome::Open => "Pending",
    }
}

fn is_initialized(members: &Members<'_>, now: Timestamp) -> bool {
    members.initialized.is_some_and(|time| time <= now)
}

/// What is not as it should be: reason and message.
struct Fault {
    reason: &'static str,
    message: Option<String>,
}

fn conditions(pod: &Value, members: &Members<'_>, place: &Place<'_>, now: Timestamp) -> Vec<Value> {
    let ended = match members.outcome {
        PodOutcome::Open => None,
        PodOutcome::Succeeded(_) => Some("PodCompleted"),
        _ => Some("PodFailed"),
    };
    let unready = members.counting().filter(|member| !member.run.ready);
    let since = match members.outcome.time() {
        Some(time) => time,
        None if members.ready() => members.counting().map(|member| member.run.since).max().unwrap_or(now),
        None => unready.map(|member| member.run.since).min().unwrap_or(now),
    };
    let containers = match ended {
        Some(reason) => Some(Fault { reason, message: None }),
        None if members.ready() => None,
        None => Some(Fault { reason: "ContainersNotReady", message: Some(unready_message(members)) }),
    };
    let gates = unmet_gates(pod);
    let gated = containers.is_none() && !gates.is_empty();
    let ready = if gated {
        Some(Fault { reason: "ReadinessGatesNotReady", message: Some(gates.join(", ")) })
    } else {
        None
    };
    let has_gates = pod.pointer("/spec/readinessGates").is_some_and(Value::is_array);
    let ready_since = if has_gates && containers.is_none() { now } else { since };
    let initialized = initialized(members, now, ended);
    let init_since =
        members.initialized.filter(|time| *time <= now && members.has_init()).unwrap_or(place.start);
    let mut all = vec![
        condition(
            "PodReadyToStartContainers",
            ended.map(|_| Fault { reason: "", message: None }).as_ref(),
            place.start,
        ),
        condition("Initialized", initialized.as_ref(), init_since),
        condition("Ready", containers.as_ref().or(ready.as_ref()), ready_since),
        condition("ContainersReady", containers.as_ref(), since),
    ];
    if let (PodOutcome::Evicted(at), Some((_, why))) = (members.outcome, &members.ended_for) {
        all.push(json!({"type": "DisruptionTarget", "status": "True", "lastProbeTime": null, "lastTransitionTime": time(at),
            "reason": "TerminationByKubelet", "message": why}));
    }
    all
}

fn condition(kind: &str, fault: Option<&Fault>, since: Timestamp) -> Value {
    let mut out = json!({
        "type": kind, "status": if fault.is_none() { "True" } else { "False" }, "lastProbeTime": null,
        "lastTransitionTime": time(since),
    });
    if let Some(fault) = fault {
        if !fault.reason.is_empty() {
            out["reason"] = json!(fault.reason);
        }
        if let Some(message) = &fault.message {
            out["message"] = json!(message);
        }
    }
    out
}

fn unready_message(members: &Members<'_>) -> String {
    let names: Vec<&str> = members.counting().filter(|member| !member.run.ready).map(Member::name).collect();
    format!("containers with unready status: [{}]", names.join(" "))
}

/// What is missing of the pod's init containers.
fn initialized(members: &Members<'_>, now: Timestamp, ended: Option<&'static str>) -> Option<Fault> {
    if is_initialized(members, now) || !members.has_init() {
        return None;
    }
    let done = |member: &&Member<'_>| match member.role {
        Role::Init => member.run.state == State::Ended && member.exit_code == 0,
        Role::Sidecar => member.run.started,
        Role::Main => true,
    };
    let names: Vec<&str> = members.all.iter().filter(|member| !done(member)).map(Member::name).collect();
    let message = format!("containers with incomplete status: [{}]", names.join(" "));
    Some(Fault { reason: ended.unwrap_or("ContainersNotInitialized"), message: Some(message) })
}

/// The readiness gates whose conditions are not `True`, in a kubelet's words.
fn unmet_gates(pod: &Value) -> Vec<String> {
    let gates = pod.pointer("/spec/readinessGates").and_then(Value::as_array);
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    let unmet = |gate: &Value| {
        let kind = gate["conditionType"].as_str()?;
        match conditions.into_iter().flatten().find(|condition| condition["type"] == kind) {
            None => Some(format!("corresponding condition of pod readiness gate {kind:?} does not exist.")),
            Some(condition) if condition["status"] == "True" => None,
            Some(condition) => {
                let status = condition["status"].as_str().unwrap_or_default();
                Some(format!("the status of pod readiness gate {kind:?} is not \"True\", but {status}"))
            }
        }
    };
    gates.into_iter().flatten().filter_map(unmet).collect()
}

fn container_status(pod: &Value, members: &Members<'_>, member: &Member<'_>, now: Timestamp) -> Value {
    let uid = pod.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
    let run = &member.run;
    let ended = |begun: Timestamp, at: Timestamp, code: i64| {
        let reason = if code == 0 { "Completed" } else { "Error" };
        json!({"terminated": {
            "exitCode": code, "reason": reason, "startedAt": time(begun), "finishedAt": time(at),
        }})
    };
    let this = |run: &super::containers::Run| ended(run.begun, run.ended.unwrap_or(now), member.exit_code);
    let state = match run.state {
        State::Waiting if members.has_init() => json!({"waiting": {"reason": "PodInitializing"}}),
        State::Waiting => json!({"waiting": {"reason": "ContainerCreating"}}),
        State::Running => json!({"running": {"startedAt": time(run.begun)}}),
        State::Paused if member.backs_off() => json!({"waiting": {"reason": "CrashLoopBackOff",
            "message": format!("back-off {}s restarting failed container", BACK_OFF / 1000)}}),
        State::Paused | State::Ended => this(run),
    };
    let last = match (run.state, member.before()) {
        (State::Paused, _) if member.backs_off() => this(run),
        (State::Waiting, _) | (_, None) => json!({}),
        (_, Some((begun, at, code))) => ended(begun, at, code),
    };
    // An init container that has done its work counts as ready.
    let done = member.role == Role::Init && run.state == State::Ended && member.exit_code == 0;
    let mut out = json!({
        "name": member.spec.get("name"), "image": member.spec.get("image"), "imageID": "",
        "ready": run.ready && member.role != Role::Init || done, "restartCount": run.restarts,
        "started": run.started && member.role != Role::Init, "state": state, "lastState": last,
    });
    if run.state != State::Waiting {
        out["containerID"] = json!(format!("simulated://{uid}/{}", member.name()));
    }
    out
}

impl Members<'_> {
    /// Has the pod init containers?
    fn has_init(&self) -> bool {
        self.all.iter().any(|member| member.role != Role::Main)
    }
}
