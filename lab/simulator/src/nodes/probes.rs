//! What a simulated kubelet's probes find, without asking anything. Pure.

use serde_json::{Value, json};

/// Paths that no simulated container serves; all others answer 200.
const ABSENT: [&str; 5] = ["/nope", "/missing", "/404", "/fail", "/failing"];

/// How long a container that ended waits for its next start, in milliseconds.
pub(super) const BACK_OFF: i64 = 10_000;
/// How long the first restart of a container that a probe killed takes.
pub(super) const RESTART: i64 = 1_000;
/// The exit code of a container that is killed.
pub(super) const KILLED: i64 = 137;

/// A probe of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ProbeKind {
    /// Has the container come up?
    Startup,
    /// Is it alive?
    Liveness,
    /// May it be sent traffic?
    Readiness,
}

impl ProbeKind {
    /// The member of the container.
    pub(super) fn field(self) -> &'static str {
        match self {
            Self::Startup => "startupProbe",
            Self::Liveness => "livenessProbe",
            Self::Readiness => "readinessProbe",
        }
    }

    /// As Events begin with it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Liveness => "Liveness",
            Self::Readiness => "Readiness",
        }
    }
}

/// What a probe comes to. Times are milliseconds from when it may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Probe {
    /// There is none, or it passes after so long.
    PassesAfter(i64),
    /// It can never pass.
    NeverPasses(Failing),
}

/// A probe that can never pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Failing {
    /// When it is tried first.
    pub first: i64,
    /// How often it is tried.
    pub period: i64,
    /// So many failures in a row are a verdict.
    pub threshold: i64,
    /// What it finds.
    pub finds: Finding,
}

/// What a failed probe finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// An answer 404.
    NotFound,
    /// A command that ends with a code other than 0 and prints nothing.
    CommandFailed,
}

impl Failing {
    /// How often it has failed `age` after it began.
    pub(super) fn failures(self, age: i64) -> i64 {
        if age < self.first { 0 } else { (age - self.first) / self.period + 1 }
    }

    /// When it has failed as often as its threshold says.
    pub(super) fn verdict(self) -> i64 {
        self.first.saturating_add(self.period.saturating_mul(self.threshold - 1))
    }
}

/// A probe of one container of a pod's spec.
pub(super) fn probe(container: &Value, kind: ProbeKind) -> Probe {
    let Some(probe) = container.get(kind.field()).filter(|probe| probe.is_object()) else {
        return Probe::PassesAfter(0);
    };
    let number = |field: &str| probe.get(field).and_then(Value::as_i64).unwrap_or_default().max(0);
    let seconds = |field: &str| number(field).saturating_mul(1000);
    if let Some(finds) = fails(probe) {
        return Probe::NeverPasses(Failing {
            first: seconds("initialDelaySeconds").saturating_add(1000),
            period: seconds("periodSeconds").max(1000),
            threshold: number("failureThreshold").max(1),
            finds,
        });
    }
    let tries = number("successThreshold").max(1) - 1;
    Probe::PassesAfter(
        seconds("initialDelaySeconds").saturating_add(tries.saturating_mul(seconds("periodSeconds"))),
    )
}

fn fails(probe: &Value) -> Option<Finding> {
    if let Some(path) = probe.pointer("/httpGet/path").and_then(Value::as_str) {
        let path = path.split('?').next().unwrap_or_default().trim_end_matches('/');
        return ABSENT.contains(&path).then_some(Finding::NotFound);
    }
    let command = probe.pointer("/exec/command").and_then(Value::as_array)?;
    let word = command.last().and_then(Value::as_str).unwrap_or_default().trim();
    let exits = word.strip_prefix("exit ").is_some_and(|code| code.trim() != "0");
    (exits || matches!(word, "false" | "/bin/false" | "/usr/bin/false")).then_some(Finding::CommandFailed)
}

/// What a probe finds, in a kubelet's words.
pub(super) fn words(finds: Finding) -> &'static str {
    match finds {
        Finding::NotFound => "HTTP probe failed with statuscode: 404",
        Finding::CommandFailed => "",
    }
}

/// The text of the Event of a failed probe.
pub(super) fn failed(kind: ProbeKind, found: &str) -> String {
    format!("{} probe failed: {found}", kind.name())
}

/// Where in the pod a container is, for an Event's `fieldPath`.
pub(super) fn field_path(list: &str, container: &str) -> Value {
    json!(format!("spec.{list}{{{container}}}"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn never(first: i64, period: i64, threshold: i64, finds: Finding) -> Probe {
        Probe::NeverPasses(Failing { first, period, threshold, finds })
    }

    #[rstest]
    #[case(json!({}), Probe::PassesAfter(0))]
    #[case(json!({"readinessProbe": {"httpGet": {"path": "/"}, "initialDelaySeconds": 3}}), Probe::PassesAfter(3000))]
    #[case(json!({"readinessProbe": {"httpGet": {"path": "/ok"}, "successThreshold": 3, "periodSeconds": 5}}),
        Probe::PassesAfter(10_000))]
    #[case(json!({"readinessProbe": {"httpGet": {"path": "/nope"}, "periodSeconds": 5, "failureThreshold": 3}}),
        never(1000, 5000, 3, Finding::NotFound))]
    #[case(json!({"readinessProbe": {"httpGet": {"path": "/fail/?a=b"}}}), never(1000, 1000, 1, Finding::NotFound))]
    #[case(json!({"readinessProbe": {"exec": {"command": ["sh", "-c", "exit 1"]}}}),
        never(1000, 1000, 1, Finding::CommandFailed))]
    #[case(json!({"readinessProbe": {"exec": {"command": ["sh", "-c", "exit 0"]}}}), Probe::PassesAfter(0))]
    #[case(json!({"readinessProbe": {"tcpSocket": {"port": 80}}}), Probe::PassesAfter(0))]
    fn probes(#[case] container: Value, #[case] comes_to: Probe) {
        assert_eq!(probe(&container, ProbeKind::Readiness), comes_to);
        assert_eq!(probe(&container, ProbeKind::Liveness), Probe::PassesAfter(0));
    }

    #[test]
    fn failures_are_counted_to_a_verdict() {
        let failing = Failing { first: 1000, period: 5000, threshold: 3, finds: Finding::NotFound };
        let counts: Vec<i64> =
            [999, 1000, 5999, 6000, 11_000].iter().map(|age| failing.failures(*age)).collect();
        assert_eq!(counts, [0, 1, 1, 2, 3]);
        assert_eq!(failing.verdict(), 11_000);
    }
}
