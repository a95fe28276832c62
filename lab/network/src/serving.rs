//! What a pod's spec says that listens in it. Pure.
//!
//! Nothing of a container's image runs: a port of the protocol TCP or UDP that a container names answers with the pod's name. Images
//! named `agnhost` answer as that program does by its documentation, at the ports that their arguments say.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::sight::name_of_image;

/// What a port answers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Answers {
    /// `hello from <pod>`.
    Hello,
    /// The pod's name alone.
    Hostname,
    /// What `agnhost netexec` offers.
    Netexec,
    /// Always this.
    Text(String),
    /// What `agnhost liveness` says: well for ten seconds, then not.
    Liveness,
    /// What `agnhost no-snat-test` serves: who asks, and whether others see this pod ask with its own address.
    NoSnat,
    /// Nothing: one byte is read, then the connection is closed, which is a reset if more came.
    Reset,
}

/// The protocol of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Protocol {
    /// HTTP over TCP.
    Http,
    /// HTTP in TLS.
    Https,
    /// TCP alone: who connects is told, and that is all.
    Tcp,
    /// Datagrams.
    Udp,
    /// Messages of SCTP, as datagrams are answered.
    Sctp,
}

impl Protocol {
    /// Ports of different transports have nothing to do with each other.
    const fn transport(self) -> u8 {
        match self {
            Self::Http | Self::Https | Self::Tcp => 0,
            Self::Udp => 1,
            Self::Sctp => 2,
        }
    }
}

/// A port of a container.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Listen {
    /// Its protocol.
    pub protocol: Protocol,
    /// Its number.
    pub port: u16,
    /// What it answers.
    pub answers: Answers,
    /// The path and parameters that are answered whatever is asked: `--http-override`.
    pub instead: Option<String>,
}

impl Listen {
    fn new(protocol: Protocol, port: u16, answers: Answers) -> Self {
        Self { protocol, port, answers, instead: None }
    }
}

/// The ports at which a container listens, each once.
pub(crate) fn listens(container: &Value) -> Vec<Listen> {
    let mut seen = BTreeSet::new();
    let mut all = agnhost(container).unwrap_or_else(|| named(container));
    all.retain(|listen| seen.insert((listen.protocol.transport(), listen.port)));
    all
}

/// The number of a port that is given by number or by the name that the container has for it.
pub(crate) fn container_port(container: &Value, port: &Value) -> Option<u16> {
    let number = match port.as_str() {
        None => port.as_u64()?,
        Some(text) => {
            if let Ok(number) = text.parse() {
                number
            } else {
                let ports = container.get("ports").and_then(Value::as_array)?;
                ports.iter().find(|of| of["name"] == *text)?.get("containerPort")?.as_u64()?
            }
        }
    };
    u16::try_from(number).ok()
}

fn named(container: &Value) -> Vec<Listen> {
    let ports = container.get("ports").and_then(Value::as_array).into_iter().flatten();
    let one = |port: &Value| {
        let protocol = match port.get("protocol").and_then(Value::as_str).unwrap_or("TCP") {
            "TCP" => Protocol::Http,
            "UDP" => Protocol::Udp,
            "SCTP" => Protocol::Sctp,
            _ => return None,
        };
        let port = port.get("containerPort").and_then(Value::as_u64)?;
        Some(Listen::new(protocol, u16::try_from(port).ok()?, Answers::Hello))
    };
    ports.filter_map(one).collect()
}

/// The words of a command line, and what its flags say.
struct Words<'a>(Vec<&'a str>);

impl<'a> Words<'a> {
    fn of(container: &'a Value) -> Self {
        let words = |field: &str| {
            let words = container.get(field).and_then(Value::as_array).into_iter().flatten();
            words.filter_map(Value::as_str)
        };
        let all = words("command").chain(words("args"));
        Self(all.filter(|word| !matches!(*word, "/agnhost" | "agnhost")).collect())
    }

    /// A flag's value, written `--name=value` or `--name value`.
    fn flag(&self, name: &str) -> Option<&'a str> {
        let joined = |word: &&'a str| word.trim_start_matches('-').strip_prefix(name)?.strip_prefix('=');
        let alone = |place: usize| self.0.get(place + 1).copied();
        let place = self.0.iter().position(|word| word.trim_start_matches('-') == name);
        self.0.iter().find_map(joined).or_else(|| alone(place?))
    }

    /// A port; none for one that is switched off.
    fn port(&self, name: &str, default: u16) -> Option<u16> {
        match self.flag(name) {
            None => Some(default),
            Some(text) => text.parse().ok(),
        }
    }

    fn is_set(&self, name: &str) -> bool {
        self.0.iter().any(|word| {
            let word = word.trim_start_matches('-');
            word == name || word.strip_prefix(name) == Some("=true")
        })
    }
}

/// The ports of an `agnhost` by its arguments; none if it is another image.
fn agnhost(container: &Value) -> Option<Vec<Listen>> {
    let image = container.get("image").and_then(Value::as_str)?;
    if name_of_image(image) != "agnhost" {
        return None;
    }
    let words = Words::of(container);
    Some(match words.0.first() {
        Some(&"netexec") => {
            let instead = words.flag("http-override").map(str::to_owned);
            let secure = words.flag("tls-cert-file").is_some_and(|file| !file.is_empty());
            let http = if secure { Protocol::Https } else { Protocol::Http };
            let of = |protocol| move |port| Listen::new(protocol, port, Answers::Netexec);
            let http = words.port("http-port", 8080).map(of(http)).map(|listen| Listen { instead, ..listen });
            let udp = words.port("udp-port", 8081).map(of(Protocol::Udp));
            let sctp = words.flag("sctp-port").and_then(|port| port.parse().ok()).map(of(Protocol::Sctp));
            [http, udp, sctp].into_iter().flatten().collect()
        }
        Some(&"serve-hostname") => {
            let (tcp, udp) = (words.is_set("tcp"), words.is_set("udp"));
            let kinds = [(Protocol::Tcp, tcp), (Protocol::Udp, udp), (Protocol::Http, !tcp && !udp)];
            let port = words.port("port", 9376).unwrap_or(9376);
            let chosen = kinds.into_iter().filter(|(_, chosen)| *chosen);
            chosen.map(|(kind, _)| Listen::new(kind, port, Answers::Hostname)).collect()
        }
        Some(&"porter") => porter(container),
        Some(&"liveness") => vec![Listen::new(Protocol::Http, 8080, Answers::Liveness)],
        Some(&"no-snat-test") => {
            let port = words.port("port", 8080).unwrap_or(8080);
            vec![Listen::new(Protocol::Http, port, Answers::NoSnat)]
        }
        Some(&"tcp-reset") => {
            let port = words.port("port", 8080).unwrap_or(8080);
            vec![Listen::new(Protocol::Tcp, port, Answers::Reset)]
        }
        Some(&"pause") | None => Vec::new(),
        Some(_) => named(container),
    })
}

/// The ports that `agnhost porter` is told by its environment.
fn porter(container: &Value) -> Vec<Listen> {
    const KINDS: [(&str, Protocol); 3] = [
        ("SERVE_PORT_", Protocol::Http),
        ("SERVE_TLS_PORT_", Protocol::Https),
        ("SERVE_SCTP_PORT_", Protocol::Sctp),
    ];
    let variables = container.get("env").and_then(Value::as_array).into_iter().flatten();
    let one = |variable: &Value| {
        let name = variable.get("name")?.as_str()?;
        let of =
            |(prefix, protocol): (&str, Protocol)| Some((name.strip_prefix(prefix)?.parse().ok()?, protocol));
        let (port, protocol) = KINDS.into_iter().find_map(of)?;
        let text = variable.get("value").and_then(Value::as_str).unwrap_or_default();
        Some(Listen::new(protocol, port, Answers::Text(text.to_owned())))
    };
    variables.filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    const HTTP: Protocol = Protocol::Http;
    const TCP: Protocol = Protocol::Tcp;
    const UDP: Protocol = Protocol::Udp;
    const SCTP: Protocol = Protocol::Sctp;
    const HTTPS: Protocol = Protocol::Https;

    #[rstest]
    #[case(json!({"image": "nginx", "ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP"},
        {"containerPort": 80}, {"containerPort": 7, "protocol": "SCTP"}]}), &[(HTTP, 80, Answers::Hello), (UDP, 53, Answers::Hello), (SCTP, 7, Answers::Hello)])]
    #[case(json!({"image": "busybox"}), &[])]
    #[case(json!({"image": "r.example/e2e/agnhost:2.53", "args": ["netexec", "--http-port=8083", "--udp-port", "9000"]}),
        &[(HTTP, 8083, Answers::Netexec), (UDP, 9000, Answers::Netexec)])]
    #[case(json!({"image": "agnhost@sha256:00", "command": ["/agnhost", "netexec"]}),
        &[(HTTP, 8080, Answers::Netexec), (UDP, 8081, Answers::Netexec)])]
    #[case(json!({"image": "agnhost", "args": ["netexec", "--http-port=80", "--udp-port=-1"]}), &[(HTTP, 80, Answers::Netexec)])]
    #[case(json!({"image": "agnhost", "args": ["netexec", "--tls-cert-file=/localhost.crt", "--udp-port=-1", "--sctp-port=8082"]}),
        &[(HTTPS, 8080, Answers::Netexec), (SCTP, 8082, Answers::Netexec)])]
    #[case(json!({"image": "agnhost", "args": ["liveness"]}), &[(HTTP, 8080, Answers::Liveness)])]
    #[case(json!({"image": "agnhost", "args": ["no-snat-test", "--port", "81"]}), &[(HTTP, 81, Answers::NoSnat)])]
    #[case(json!({"image": "agnhost", "args": ["tcp-reset", "--port=9"]}), &[(TCP, 9, Answers::Reset)])]
    #[case(json!({"image": "agnhost", "args": ["serve-hostname"]}), &[(HTTP, 9376, Answers::Hostname)])]
    #[case(json!({"image": "agnhost", "args": ["serve-hostname", "--tcp", "--udp=true", "--http=false", "--port", "80"]}),
        &[(TCP, 80, Answers::Hostname), (UDP, 80, Answers::Hostname)])]
    #[case(json!({"image": "agnhost", "args": ["pause"], "ports": [{"containerPort": 80}]}), &[])]
    #[case(json!({"image": "agnhost", "args": ["porter"], "env": [{"name": "SERVE_PORT_80", "value": "eighty"}, {"name": "HOME"},
        {"name": "SERVE_TLS_PORT_443", "value": "x"}, {"name": "SERVE_SCTP_PORT_7", "value": "y"}]}),
        &[(HTTP, 80, Answers::Text("eighty".to_owned())), (HTTPS, 443, Answers::Text("x".to_owned())),
        (SCTP, 7, Answers::Text("y".to_owned()))])]
    fn ports_by_spec(#[case] container: Value, #[case] expected: &[(Protocol, u16, Answers)]) {
        let found: Vec<_> =
            listens(&container).into_iter().map(|of| (of.protocol, of.port, of.answers)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_path_may_stand_for_all() {
        let container = json!({"image": "agnhost", "args": ["netexec", "--http-override=/echo?msg=x"]});
        assert_eq!(listens(&container)[0].instead.as_deref(), Some("/echo?msg=x"));
    }

    #[rstest]
    #[case(json!(8080), Some(8080))]
    #[case(json!("http"), Some(80))]
    #[case(json!("9090"), Some(9090))]
    #[case(json!("smtp"), None)]
    #[case(json!(70000), None)]
    fn ports_by_name(#[case] port: Value, #[case] expected: Option<u16>) {
        let container = json!({"ports": [{"name": "http", "containerPort": 80}]});
        assert_eq!(container_port(&container, &port), expected);
    }
}
