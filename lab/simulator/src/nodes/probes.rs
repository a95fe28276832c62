//! What a simulated kubelet's readiness probe finds, without asking anything.

use serde_json::{Value, json};

/// Paths that no simulated container serves; all others answer 200.
const ABSENT: [&str; 5] = ["/nope", "/missing", "/404", "/fail", "/failing"];

/// What the readiness probe of a container comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Probe {
    /// There is none, or it passes; after so many milliseconds from the container's start.
    PassesAfter(i64),
    /// It can never pass; it is tried every so many milliseconds.
    NeverPasses {
        /// When it is tried first.
        first: i64,
        /// How often it is tried.
        period: i64,
    },
}

/// The probe of one container of a pod's spec.
pub(super) fn readiness(container: &Value) -> Probe {
    let Some(probe) = container.get("readinessProbe").filter(|probe| probe.is_object()) else {
        return Probe::PassesAfter(0);
    };
    let seconds =
        |field: &str| probe.get(field).and_then(Value::as_i64).unwrap_or_default().saturating_mul(1000);
    let path = probe.pointer("/httpGet/path").and_then(Value::as_str).unwrap_or_default();
    let path = path.split('?').next().unwrap_or_default().trim_end_matches('/');
    if ABSENT.contains(&path) {
        let period = seconds("periodSeconds").max(1000);
        return Probe::NeverPasses { first: seconds("initialDelaySeconds") + 1000, period };
    }
    let tries = probe.get("successThreshold").and_then(Value::as_i64).unwrap_or(1).saturating_sub(1);
    Probe::PassesAfter(seconds("initialDelaySeconds") + tries.saturating_mul(seconds("periodSeconds")))
}

/// The Event of a failed probe.
pub(super) const FAILED: &str = "Readiness probe failed: HTTP probe failed with statuscode: 404";

/// Where in the pod a container is, for an Event's `fieldPath`.
pub(super) fn field_path(container: &str) -> Value {
    json!(format!("spec.containers{{{container}}}"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(json!({}), Probe::PassesAfter(0))]
    #[case(json!({"readinessProbe": {"httpGet": {"path": "/"}, "initialDelaySeconds": 3}}), Probe::PassesAfter(3000))]
    #[case(json!({"readinessProbe": {"httpGet": {"path": "/ok"}, "successThreshold": 3, "periodSeconds": 5}}),
        Probe::PassesAfter(10_000))]
    #[case(json!({"readinessProbe": {"httpGet": {"path": "/nope"}, "periodSeconds": 5}}),
        Probe::NeverPasses { first: 1000, period: 5000 })]
    fn probes(#[case] container: Value, #[case] comes_to: Probe) {
        assert_eq!(readiness(&container), comes_to);
    }
}
