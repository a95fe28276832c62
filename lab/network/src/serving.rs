//! What a pod's spec says that listens in it. Pure.
//!
//! Nothing of a container's image runs: a port of the protocol TCP or UDP that a container names answers with the pod's name. Images
//! named `agnhost` answer as that program does by its documentation, at the ports that their arguments say.

use std::collections::BTreeSet;

use serde_json::Value;

/// What a port answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Answers {
    /// `hello from <pod>`.
    Hello,
    /// The pod's name alone.
    Hostname,
    /// What `agnhost netexec` offers.
    Netexec,
}

/// The protocol of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Protocol {
    /// HTTP over TCP.
    Http,
    /// Datagrams.
    Udp,
}

/// A port of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Listen {
    /// Its protocol.
    pub protocol: Protocol,
    /// Its number.
    pub port: u16,
    /// What it answers.
    pub answers: Answers,
}

/// The ports at which a pod listens, each once.
pub(crate) fn listens(pod: &Value) -> Vec<Listen> {
    let containers = pod.pointer("/spec/containers").and_then(Value::as_array).into_iter().flatten();
    let mut seen = BTreeSet::new();
    let all = containers.flat_map(|container| agnhost(container).unwrap_or_else(|| named(container)));
    all.filter(|listen| seen.insert((listen.protocol, listen.port))).collect()
}

fn named(container: &Value) -> Vec<Listen> {
    let ports = container.get("ports").and_then(Value::as_array).into_iter().flatten();
    let one = |port: &Value| {
        let protocol = match port.get("protocol").and_then(Value::as_str).unwrap_or("TCP") {
            "TCP" => Protocol::Http,
            "UDP" => Protocol::Udp,
            _ => return None,
        };
        let port = port.get("containerPort").and_then(Value::as_u64)?;
        Some(Listen { protocol, port: u16::try_from(port).ok()?, answers: Answers::Hello })
    };
    ports.filter_map(one).collect()
}

/// The ports of an `agnhost` by its arguments; none if it is another image.
fn agnhost<'a>(container: &'a Value) -> Option<Vec<Listen>> {
    let image = container.get("image").and_then(Value::as_str)?;
    let name = image.rsplit('/').next()?;
    if name.split([':', '@']).next() != Some("agnhost") {
        return None;
    }
    let words = |field: &str| {
        let words = container.get(field).and_then(Value::as_array).into_iter().flatten();
        words.filter_map(Value::as_str)
    };
    let words: Vec<&str> = words("command").chain(words("args")).filter(|word| *word != "/agnhost").collect();
    let flag = |name: &str, default: u16| {
        let joined = |word: &&'a str| -> Option<&'a str> {
            word.trim_start_matches('-').strip_prefix(name)?.strip_prefix('=')
        };
        let alone = words.iter().position(|word| word.trim_start_matches('-') == name);
        let text = words.iter().find_map(joined).or_else(|| words.get(alone? + 1).copied());
        text.and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let listen = |protocol, port, answers| Listen { protocol, port, answers };
    Some(match words.first() {
        Some(&"netexec") => vec![
            listen(Protocol::Http, flag("http-port", 8080), Answers::Netexec),
            listen(Protocol::Udp, flag("udp-port", 8081), Answers::Netexec),
        ],
        Some(&"serve-hostname") => {
            let protocol = if words.iter().any(|word| word.trim_start_matches('-') == "udp") {
                Protocol::Udp
            } else {
                Protocol::Http
            };
            vec![listen(protocol, flag("port", 9376), Answers::Hostname)]
        }
        Some(&"pause") | None => Vec::new(),
        Some(_) => named(container),
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    const HTTP: Protocol = Protocol::Http;
    const UDP: Protocol = Protocol::Udp;

    #[rstest]
    #[case(json!([{"image": "nginx", "ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP"},
        {"containerPort": 80}, {"containerPort": 7, "protocol": "SCTP"}]}]), &[(HTTP, 80, Answers::Hello), (UDP, 53, Answers::Hello)])]
    #[case(json!([{"image": "busybox"}]), &[])]
    #[case(json!([{"image": "r.example/e2e/agnhost:2.53", "args": ["netexec", "--http-port=8083", "--udp-port", "9000"]}]),
        &[(HTTP, 8083, Answers::Netexec), (UDP, 9000, Answers::Netexec)])]
    #[case(json!([{"image": "agnhost@sha256:00", "command": ["/agnhost", "netexec"]}]),
        &[(HTTP, 8080, Answers::Netexec), (UDP, 8081, Answers::Netexec)])]
    #[case(json!([{"image": "agnhost", "args": ["serve-hostname"]}]), &[(HTTP, 9376, Answers::Hostname)])]
    #[case(json!([{"image": "agnhost", "args": ["pause"], "ports": [{"containerPort": 80}]}]), &[])]
    fn ports_by_spec(#[case] containers: Value, #[case] expected: &[(Protocol, u16, Answers)]) {
        let found = listens(&json!({"spec": {"containers": containers}}));
        let found: Vec<_> = found.iter().map(|of| (of.protocol, of.port, of.answers)).collect();
        assert_eq!(found, expected);
    }
}
