//! Rows of Pod, Deployment and ReplicaSet.

use std::sync::LazyLock;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DeploymentSpec, DeploymentStatus, ReplicaSetSpec, ReplicaSetStatus};
use k8s_openapi::api::core::v1::{PodSpec, PodStatus};
use serde_json::{Value, json};

use super::{Column, Row, Table, age, list, name, number, or_none, since, text};

pub(super) static POD: Table = Table { columns: || &POD_COLUMNS, row: pod };
pub(super) static DEPLOYMENT: Table = Table { columns: || &DEPLOYMENT_COLUMNS, row: deployment };
pub(super) static REPLICA_SET: Table = Table { columns: || &REPLICA_SET_COLUMNS, row: replica_set };

static POD_COLUMNS: LazyLock<Vec<Column>> = LazyLock::new(|| {
    vec![
        Column::name(),
        Column::text("Ready", "The aggregate readiness state of this pod for accepting traffic."),
        Column::text("Status", "The aggregate status of the containers in this pod."),
        Column::text(
            "Restarts",
            "The number of times the containers in this pod have been restarted and when the last container in this \
             pod has restarted.",
        ),
        Column::age(),
        Column::field::<PodStatus>("IP", "podIP").wide(),
        Column::field::<PodSpec>("Node", "nodeName").wide(),
        Column::field::<PodStatus>("Nominated Node", "nominatedNodeName").wide(),
        Column::field::<PodSpec>("Readiness Gates", "readinessGates").wide(),
    ]
});

fn pod(object: &Value, now: Timestamp) -> Row {
    let summary = Summary::of(object);
    let restarts = match summary.last_restart {
        Some(at) if summary.restarts != 0 => format!("{} ({} ago)", summary.restarts, since(Some(at), now)),
        _ => summary.restarts.to_string(),
    };
    let ip = list(object, "/status/podIPs").first().map_or("", |entry| text(entry, "/ip"));
    let cells = vec![
        name(object),
        json!(format!("{}/{}", summary.ready, summary.containers)),
        json!(summary.reason),
        json!(restarts),
        age(object, now),
        or_none(ip),
        or_none(text(object, "/spec/nodeName")),
        or_none(text(object, "/status/nominatedNodeName")),
        json!(readiness_gates(object)),
    ];
    let completed = |reason: &str, message: &str| {
        vec![json!({"type": "Completed", "status": "True", "reason": reason, "message": message})]
    };
    let conditions = match text(object, "/status/phase") {
        "Succeeded" => completed("Succeeded", "The pod has completed successfully."),
        "Failed" => completed("Failed", "The pod failed."),
        _ => Vec::new(),
    };
    Row { cells, conditions }
}

/// What the containers of a pod amount to.
struct Summary<'a> {
    containers: usize,
    ready: usize,
    restarts: i64,
    last_restart: Option<&'a str>,
    reason: String,
}

impl<'a> Summary<'a> {
    fn of(object: &'a Value) -> Self {
        let sidecars: Vec<&str> = list(object, "/spec/initContainers")
            .iter()
            .filter(|container| text(container, "/restartPolicy") == "Always")
            .map(|container| text(container, "/name"))
            .collect();
        let reason = match text(object, "/status/reason") {
            "" => text(object, "/status/phase"),
            reason => reason,
        };
        let mut summary = Self {
            containers: list(object, "/spec/containers").len() + sidecars.len(),
            ready: 0,
            restarts: 0,
            last_restart: None,
            reason: reason.to_owned(),
        };
        if has_condition(object, |c| {
            text(c, "/type") == "PodScheduled" && text(c, "/reason") == "SchedulingGated"
        }) {
            summary.reason = "SchedulingGated".into();
        }
        let initializing = summary.count_init(object, &sidecars);
        if !initializing || has_condition(object, |c| is_true(c, "Initialized")) {
            summary.count_init_restarts(object, &sidecars);
            summary.count_containers(object);
        }
        if text(object, "/metadata/deletionTimestamp").is_empty() {
            return summary;
        }
        if text(object, "/status/reason") == "NodeLost" {
            summary.reason = "Unknown".into();
        } else if !matches!(text(object, "/status/phase"), "Succeeded" | "Failed") {
            summary.reason = "Terminating".into();
        }
        summary
    }

    /// Takes in the init containers up to the first unfinished one; true when there is one.
    fn count_init(&mut self, object: &'a Value, sidecars: &[&str]) -> bool {
        let total = list(object, "/spec/initContainers").len();
        for (position, status) in list(object, "/status/initContainerStatuses").iter().enumerate() {
            self.count_restarts(status);
            let terminated = status.pointer("/state/terminated");
            let sidecar = sidecars.contains(&text(status, "/name"));
            if terminated.is_some_and(|state| number(state, "/exitCode") == 0) {
                continue;
            }
            if sidecar && flag(status, "/started") {
                self.ready += usize::from(flag(status, "/ready"));
                continue;
            }
            self.reason = match (terminated, text(status, "/state/waiting/reason")) {
                (Some(state), _) => format!("Init:{}", end_reason(state)),
                (None, "" | "PodInitializing") => format!("Init:{position}/{total}"),
                (None, reason) => format!("Init:{reason}"),
            };
            return true;
        }
        false
    }

    /// Once initialised, only sidecars' restarts count.
    fn count_init_restarts(&mut self, object: &'a Value, sidecars: &[&str]) {
        (self.restarts, self.last_restart) = (0, None);
        for status in list(object, "/status/initContainerStatuses") {
            if sidecars.contains(&text(status, "/name")) {
                self.count_restarts(status);
            }
        }
    }

    fn count_containers(&mut self, object: &'a Value) {
        let mut running = false;
        for status in list(object, "/status/containerStatuses").iter().rev() {
            self.count_restarts(status);
            let waiting = text(status, "/state/waiting/reason");
            if !waiting.is_empty() {
                waiting.clone_into(&mut self.reason);
            } else if let Some(state) = status.pointer("/state/terminated").filter(|state| !state.is_null()) {
                self.reason = end_reason(state);
            } else if flag(status, "/ready") && status.pointer("/state/running").is_some_and(|s| !s.is_null())
            {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" && running {
            let ready = has_condition(object, |c| is_true(c, "Ready"));
            self.reason = if ready { "Running" } else { "NotReady" }.into();
        }
    }

    fn count_restarts(&mut self, status: &'a Value) {
        self.restarts += number(status, "/restartCount");
        let ended = text(status, "/lastState/terminated/finishedAt");
        if !ended.is_empty() && self.last_restart.is_none_or(|last| last < ended) {
            self.last_restart = Some(ended);
        }
    }
}

fn end_reason(terminated: &Value) -> String {
    match (text(terminated, "/reason"), number(terminated, "/signal"), number(terminated, "/exitCode")) {
        ("", 0, code) => format!("ExitCode:{code}"),
        ("", signal, _) => format!("Signal:{signal}"),
        (reason, _, _) => reason.to_owned(),
    }
}

fn flag(object: &Value, pointer: &str) -> bool {
    object.pointer(pointer).and_then(Value::as_bool).unwrap_or_default()
}

fn is_true(condition: &Value, kind: &str) -> bool {
    text(condition, "/type") == kind && text(condition, "/status") == "True"
}

fn has_condition(object: &Value, test: impl Fn(&Value) -> bool) -> bool {
    list(object, "/status/conditions").iter().any(test)
}

fn readiness_gates(object: &Value) -> String {
    let gates = list(object, "/spec/readinessGates");
    if gates.is_empty() {
        return "<none>".into();
    }
    let passed = gates
        .iter()
        .filter(|gate| has_condition(object, |c| is_true(c, text(gate, "/conditionType"))))
        .count();
    format!("{passed}/{}", gates.len())
}

fn template_columns() -> [Column; 2] {
    [
        Column::text("Containers", "Names of each container in the template.").wide(),
        Column::text("Images", "Images referenced by each container in the template.").wide(),
    ]
}

fn template_cells(object: &Value) -> [Value; 2] {
    let of = |field: &str| {
        let values: Vec<&str> = list(object, "/spec/template/spec/containers")
            .iter()
            .map(|container| text(container, field))
            .collect();
        json!(values.join(","))
    };
    [of("/name"), of("/image")]
}

static DEPLOYMENT_COLUMNS: LazyLock<Vec<Column>> = LazyLock::new(|| {
    let [containers, images] = template_columns();
    vec![
        Column::name(),
        Column::text("Ready", "Number of the pod with ready state"),
        Column::field::<DeploymentStatus>("Up-to-date", "updatedReplicas"),
        Column::field::<DeploymentStatus>("Available", "availableReplicas"),
        Column::age(),
        containers,
        images,
        Column::field::<DeploymentSpec>("Selector", "selector").wide(),
    ]
});

fn deployment(object: &Value, now: Timestamp) -> Row {
    let ready = format!("{}/{}", number(object, "/status/readyReplicas"), number(object, "/spec/replicas"));
    let [containers, images] = template_cells(object);
    Row::of(vec![
        name(object),
        json!(ready),
        json!(number(object, "/status/updatedReplicas")),
        json!(number(object, "/status/availableReplicas")),
        age(object, now),
        containers,
        images,
        json!(selector(object)),
    ])
}

static REPLICA_SET_COLUMNS: LazyLock<Vec<Column>> = LazyLock::new(|| {
    let [containers, images] = template_columns();
    vec![
        Column::name(),
        Column::field::<ReplicaSetSpec>("Desired", "replicas").integer(),
        Column::field::<ReplicaSetStatus>("Current", "replicas").integer(),
        Column::field::<ReplicaSetStatus>("Ready", "readyReplicas").integer(),
        Column::age(),
        containers,
        images,
        Column::field::<ReplicaSetSpec>("Selector", "selector").wide(),
    ]
});

fn replica_set(object: &Value, now: Timestamp) -> Row {
    let [containers, images] = template_cells(object);
    Row::of(vec![
        name(object),
        json!(number(object, "/spec/replicas")),
        json!(number(object, "/status/replicas")),
        json!(number(object, "/status/readyReplicas")),
        age(object, now),
        containers,
        images,
        json!(selector(object)),
    ])
}

/// A label selector as text: labels sorted, then expressions such as `a in (b,c)`.
pub fn selector(object: &Value) -> String {
    let mut parts: Vec<String> = Vec::new();
    if let Some(labels) = object.pointer("/spec/selector/matchLabels").and_then(Value::as_object) {
        parts.extend(
            labels.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())),
        );
    }
    for expression in list(object, "/spec/selector/matchExpressions") {
        let key = text(expression, "/key");
        let mut values: Vec<&str> = list(expression, "/values").iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        parts.push(match text(expression, "/operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    parts.sort_unstable();
    if parts.is_empty() { "<none>".into() } else { parts.join(",") }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn row(object: &Value) -> Row {
        pod(object, Timestamp::UNIX_EPOCH)
    }

    fn running(ready: bool) -> Value {
        json!({"name": "c", "ready": ready, "restartCount": 0, "state": {"running": {"startedAt": "1969-12-31T23:00:00Z"}}})
    }

    #[rstest]
    #[case::pending(json!({"phase": "Pending"}), "0/1", "Pending")]
    #[case::ready(json!({"phase": "Running", "containerStatuses": [running(true)]}), "1/1", "Running")]
    #[case::not_ready(json!({"phase": "Running", "containerStatuses": [running(false)]}), "0/1", "Running")]
    #[case::creating(json!({"phase": "Pending",
        "containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]}), "0/1", "ContainerCreating")]
    #[case::crashed(json!({"phase": "Running", "containerStatuses": [{"state": {"terminated": {"exitCode": 3}}}]}),
        "0/1", "ExitCode:3")]
    #[case::evicted(json!({"phase": "Failed", "reason": "Evicted"}), "0/1", "Evicted")]
    #[case::gated(json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}),
        "0/1", "SchedulingGated")]
    fn statuses(#[case] status: Value, #[case] ready: &str, #[case] reason: &str) {
        let row = row(&json!({"spec": {"containers": [{"name": "c"}]}, "status": status}));
        assert_eq!(row.cells[1..3], [json!(ready), json!(reason)]);
    }

    #[test]
    fn a_deleted_pod_is_terminating_unless_it_has_ended() {
        let mut object = json!({
            "metadata": {"deletionTimestamp": "1970-01-01T00:00:00Z"},
            "spec": {"containers": [{}]}, "status": {"phase": "Running"}
        });
        assert_eq!(row(&object).cells[2], json!("Terminating"));
        object["status"]["phase"] = json!("Succeeded");
        assert_eq!(row(&object).cells[2], json!("Succeeded"));
        assert_eq!(row(&object).conditions[0]["reason"], json!("Succeeded"));
        object["status"] = json!({"phase": "Running", "reason": "NodeLost"});
        assert_eq!(row(&object).cells[2], json!("Unknown"));
    }

    #[test]
    fn init_containers_show_their_progress() {
        let object = json!({
            "spec": {"containers": [{}], "initContainers": [{"name": "a"}, {"name": "b"}]},
            "status": {"phase": "Pending", "initContainerStatuses": [
                {"name": "a", "state": {"terminated": {"exitCode": 0}}},
                {"name": "b", "state": {"waiting": {"reason": "PodInitializing"}}}
            ]}
        });
        assert_eq!(row(&object).cells[2], json!("Init:1/2"));
    }

    #[test]
    fn restarts_say_when() {
        let object = json!({"spec": {"containers": [{}]}, "status": {"phase": "Running", "containerStatuses": [
            {"restartCount": 2, "ready": true, "state": {"running": {}},
                "lastState": {"terminated": {"finishedAt": "1969-12-31T23:59:00Z"}}}
        ]}});
        assert_eq!(row(&object).cells[3], json!("2 (60s ago)"));
    }

    #[test]
    fn selectors_as_text() {
        let object = json!({"spec": {"selector": {
            "matchLabels": {"b": "2", "a": "1"},
            "matchExpressions": [{"key": "z", "operator": "In", "values": ["y", "x"]}]
        }}});
        assert_eq!(selector(&object), "a=1,b=2,z in (x,y)");
    }
}
