//! What of a container's command line really runs. Pure.
//!
//! The programs of most images are not on the machine, so nothing of them runs. Of two images the machine, or this program, has what they
//! offer: `busybox` and `agnhost`; and a pod may say by an annotation that its commands are on the machine.

use serde_json::Value;

use crate::{agnhost, sight::name_of_image};

/// The annotation by which a pod has its commands run, whatever its images are called.
const RUN: &str = "/metadata/annotations/lab.service-controller-manager.io~1run-commands";

/// A command to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    /// The program.
    pub command: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// What the container says of its environment.
    pub environment: Vec<(String, String)>,
    /// How much it may write.
    pub limit: Option<Limit>,
}

/// How much local storage a container may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Limit {
    /// In bytes.
    pub bytes: u64,
    /// As it is written.
    text: String,
}

impl Limit {
    /// What a kubelet says of a pod that has used more.
    pub(crate) fn exceeded(&self) -> String {
        format!("Pod ephemeral local storage usage exceeds the total limit of containers {}. ", self.text)
    }
}

/// The command of a pod's container that runs, if one does.
pub(crate) fn program(pod: &Value, container: &Value) -> Option<Program> {
    let text = |of: &Value| of.as_str().map(str::to_owned);
    let words =
        |field: &str| container.get(field).and_then(Value::as_array).into_iter().flatten().filter_map(text);
    let mut words: Vec<String> = words("command").chain(words("args")).collect();
    let has_command =
        container.get("command").and_then(Value::as_array).is_some_and(|words| !words.is_empty());
    match name_of_image(container.get("image").and_then(Value::as_str).unwrap_or_default()) {
        agnhost::NAME => {
            if !has_command {
                words.insert(0, agnhost::NAME.to_owned());
            }
            let own = words.first().is_some_and(|word| matches!(word.as_str(), "/agnhost" | agnhost::NAME));
            // The others are served by the lab.
            if own && !words.get(1).is_some_and(|word| agnhost::ends_by_itself(word)) {
                return None;
            }
            if own {
                words[0] = format!("/{}", agnhost::NAME);
            }
        }
        "busybox" => {}
        _ => {
            let runs = pod.pointer(RUN).and_then(Value::as_str) == Some("true");
            if !runs || !has_command {
                return None;
            }
        }
    }
    let mut words = words.into_iter();
    Some(Program {
        command: words.next()?,
        arguments: words.collect(),
        environment: environment(container),
        limit: limit(container),
    })
}

fn environment(container: &Value) -> Vec<(String, String)> {
    let all = container.get("env").and_then(Value::as_array).into_iter().flatten();
    all.filter_map(|one| Some((one["name"].as_str()?.to_owned(), one["value"].as_str()?.to_owned())))
        .collect()
}

fn limit(container: &Value) -> Option<Limit> {
    let text = container.pointer("/resources/limits/ephemeral-storage")?.as_str()?;
    Some(Limit { bytes: bytes(text)?, text: text.to_owned() })
}

/// A quantity of bytes, as the API server has written it: a whole number with or without a unit.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "" => 1,
        "k" => 1000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!({"image": "nginx", "command": ["sh", "-c", "x"]}), None)]
    #[case(json!({"image": "busybox:1.37", "args": ["sleep", "3600"]}), Some("sleep 3600"))]
    #[case(json!({"image": "busybox", "command": ["sh", "-c"], "args": ["date"]}), Some("sh -c date"))]
    #[case(json!({"image": "busybox"}), None)]
    #[case(json!({"image": "agnhost", "command": ["/bin/sh", "-c", "sleep 10"]}), Some("/bin/sh -c sleep 10"))]
    #[case(json!({"image": "agnhost", "args": ["netexec"]}), None)]
    #[case(json!({"image": "agnhost", "command": ["/agnhost", "pause"]}), None)]
    #[case(json!({"image": "agnhost", "args": ["dns-suffix"]}), Some("/agnhost dns-suffix"))]
    #[case(json!({"image": "agnhost", "command": ["agnhost"], "args": ["entrypoint-tester", "a"]}), Some("/agnhost entrypoint-tester a"))]
    fn what_runs(#[case] container: Value, #[case] expected: Option<&str>) {
        let line = |program: Program| [&[program.command], program.arguments.as_slice()].concat().join(" ");
        assert_eq!(program(&json!({}), &container).map(line).as_deref(), expected);
    }

    #[test]
    fn a_pod_may_have_all_its_commands_run() {
        let pod =
            json!({"metadata": {"annotations": {"lab.service-controller-manager.io/run-commands": "true"}}});
        let container = json!({"image": "x", "command": ["nc", "-l", "80"], "env": [{"name": "A", "value": "1"}, {"name": "B"}],
            "resources": {"limits": {"ephemeral-storage": "5Mi"}}});
        let found = program(&pod, &container).unwrap();
        assert_eq!((found.command.as_str(), found.arguments.len()), ("nc", 2));
        assert_eq!(found.environment, [("A".to_owned(), "1".to_owned())]);
        let limit = found.limit.unwrap();
        assert_eq!(limit.bytes, 5 << 20);
        assert!(limit.exceeded().contains("limit of containers 5Mi."));
        assert_eq!(program(&pod, &json!({"image": "x", "args": ["serve"]})), None);
    }

    #[rstest]
    #[case("5Mi", Some(5 << 20))]
    #[case("1000", Some(1000))]
    #[case("2G", Some(2_000_000_000))]
    #[case("5m", None)]
    #[case("", None)]
    fn quantities(#[case] text: &str, #[case] expected: Option<u64>) {
        assert_eq!(bytes(text), expected);
    }
}
