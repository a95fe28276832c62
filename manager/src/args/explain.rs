//! `explain`: why pods are endpoints or are not, and where addresses and ports come from.

use std::{net::IpAddr, num::NonZeroUsize, path::PathBuf};

use clap::{Args, ValueEnum};
use service_api::labels::Selector;
use service_controllers::explain::{Kind, Subject};

use super::{LoggingArgs, PlaceArgs, selector};

/// Flags of `explain`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct ExplainArgs {
    /// What is asked about: `service demo/hello`, `pod demo/hello-1`, `endpointslice demo/hello-x7k2p`, `ip 10.96.0.10`,
    /// `node-port 30080` or `servicecidr kubernetes`; also as `svc/hello`, with kubectl's short names.
    #[arg(value_name = "KIND NAME", required = true, num_args = 1..=2)]
    pub target: Vec<String>,
    /// The namespace of a name without one; without it that of the context, or `default`.
    #[arg(short, long, env = "SCM_NAMESPACE", value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// All Services or pods of the namespace with these labels in the place of a name, as kubectl has it: `app=web,tier!=db`.
    #[arg(short = 'l', long, env = "SCM_SELECTOR", value_name = "SELECTOR", value_parser = selector)]
    pub selector: Option<Selector>,
    /// The API server.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Objects in files or directories instead of those of a server, as `kubectl get ... -A -o yaml` writes them, YAML or
    /// JSON; `-` is the standard input.
    #[arg(long, env = "SCM_DUMP", value_name = "FILE[,FILE]", value_delimiter = ',')]
    pub dump: Vec<PathBuf>,
    /// Text for people, or JSON or YAML for programs.
    #[arg(short, long, env = "SCM_OUTPUT", value_name = "FORMAT", default_value = "text")]
    pub output: ExplainFormat,
    /// How many of a long list are shown as text; JSON and YAML have all.
    #[arg(long, env = "SCM_SHOW", value_name = "N", default_value = "20")]
    pub show: NonZeroUsize,
    /// At most so many endpoints are put into one slice by the controllers of the cluster.
    #[arg(long, env = "SCM_MAX_ENDPOINTS_PER_SLICE", value_name = "N", default_value = "100")]
    pub max_endpoints_per_slice: NonZeroUsize,
    /// When the text has colours; `auto` is on terminals, unless `NO_COLOR` is set.
    #[arg(long, env = "SCM_COLOR", value_name = "WHEN", default_value = "auto")]
    pub color: ColorMode,
    /// The log.
    #[command(flatten)]
    pub logging: LoggingArgs,
}

/// How an explanation is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExplainFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
    /// For programs, and for people who compare.
    Yaml,
}

/// When text has colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColorMode {
    /// On terminals, unless `NO_COLOR` is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What can not be asked about.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubjectError {
    /// An unknown kind.
    #[error("{0:?} cannot be explained: service, pod, endpointslice, ip, node-port and servicecidr can")]
    Kind(String),
    /// A kind alone.
    #[error("{0} which? Give its name, as in `explain {0} {1}`")]
    NoName(String, &'static str),
    /// No address.
    #[error("{0:?} is no IP address")]
    Address(String),
    /// No port.
    #[error("{0:?} is no port from 1 to 65535")]
    Port(String),
    /// A name, and labels in its place.
    #[error("name cannot be provided when a selector is specified")]
    NameAndSelector,
    /// Labels of what is not selected by labels.
    #[error("{0} are not selected by labels here: services and pods are")]
    Unlabelled(String),
    /// Two namespaces.
    #[error("the name says namespace {0:?}, and --namespace {1:?}")]
    Namespaces(String, String),
}

impl ExplainArgs {
    /// What is asked about, with a namespace for a name that has none.
    pub fn subject(&self, default_namespace: &str) -> Result<Subject, SubjectError> {
        match &self.selector {
            Some(selector) => self.selected(selector, default_namespace),
            None => self.named(default_namespace),
        }
    }

    fn selected(&self, selector: &Selector, default_namespace: &str) -> Result<Subject, SubjectError> {
        let [kind] = self.target.as_slice() else { return Err(SubjectError::NameAndSelector) };
        let kind = match kind.to_lowercase().as_str() {
            "service" | "services" | "svc" => Kind::Service,
            "pod" | "pods" | "po" => Kind::Pod,
            other if other.contains('/') => return Err(SubjectError::NameAndSelector),
            "endpointslice" | "endpointslices" | "ip" | "ipaddress" | "ipaddresses" | "node-port"
            | "nodeport" | "nodeports" | "servicecidr" | "servicecidrs" => {
                return Err(SubjectError::Unlabelled(kind.clone()));
            }
            _ => return Err(SubjectError::Kind(kind.clone())),
        };
        let namespace = self.namespace.as_deref().unwrap_or(default_namespace).to_owned();
        Ok(Subject::Selected { kind, namespace, selector: selector.clone() })
    }

    fn named(&self, default_namespace: &str) -> Result<Subject, SubjectError> {
        let (kind, name) = self.kind_and_name()?;
        let placed = || -> Result<(String, String), SubjectError> {
            let (own, name) = name.split_once('/').map_or((None, name), |(own, name)| (Some(own), name));
            let namespace = match (own, self.namespace.as_deref()) {
                (Some(own), Some(flag)) if own != flag => {
                    return Err(SubjectError::Namespaces(own.to_owned(), flag.to_owned()));
                }
                (own, flag) => own.or(flag).unwrap_or(default_namespace),
            };
            Ok((namespace.to_owned(), name.to_owned()))
        };
        match kind.as_str() {
            "service" | "services" | "svc" => {
                placed().map(|(namespace, name)| Subject::Service { namespace, name })
            }
            "pod" | "pods" | "po" => placed().map(|(namespace, name)| Subject::Pod { namespace, name }),
            "endpointslice" | "endpointslices" => {
                placed().map(|(namespace, name)| Subject::Slice { namespace, name })
            }
            "ip" | "ipaddress" | "ipaddresses" => name
                .parse::<IpAddr>()
                .map(Subject::Address)
                .map_err(|_| SubjectError::Address(name.to_owned())),
            "node-port" | "nodeport" | "nodeports" => match name.parse::<u16>() {
                Ok(port) if port > 0 => Ok(Subject::NodePort(port)),
                _ => Err(SubjectError::Port(name.to_owned())),
            },
            "servicecidr" | "servicecidrs" => Ok(Subject::Cidr(name.to_owned())),
            _ => Err(SubjectError::Kind(kind)),
        }
    }

    fn kind_and_name(&self) -> Result<(String, &str), SubjectError> {
        let (kind, name) = match self.target.as_slice() {
            [kind, name] => (kind.as_str(), name.as_str()),
            [both] => both.split_once('/').unwrap_or((both, "")),
            _ => ("", ""),
        };
        let kind = kind.to_lowercase();
        if !name.is_empty() {
            return Ok((kind, name));
        }
        let example = match kind.as_str() {
            "ip" => "10.96.0.10",
            "node-port" | "nodeport" => "30080",
            "servicecidr" => "kubernetes",
            _ => "demo/hello",
        };
        Err(SubjectError::NoName(kind, example))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use rstest::rstest;

    use super::*;

    #[derive(clap::Parser)]
    struct Cli {
        #[command(flatten)]
        args: ExplainArgs,
    }

    fn subject(arguments: &[&str]) -> Result<Subject, SubjectError> {
        let cli = Cli::try_parse_from([&["explain"], arguments].concat()).unwrap();
        cli.args.subject("default")
    }

    fn service(namespace: &str, name: &str) -> Subject {
        Subject::Service { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    #[rstest]
    #[case(&["service", "demo/hello"], service("demo", "hello"))]
    #[case(&["svc/hello"], service("default", "hello"))]
    #[case(&["svc/hello", "-n", "demo"], service("demo", "hello"))]
    #[case(&["Service", "hello"], service("default", "hello"))]
    #[case(&["svc/demo/hello"], service("demo", "hello"))]
    #[case(&["node-port", "30080"], Subject::NodePort(30080))]
    #[case(&["ip", "fd00::1"], Subject::Address("fd00::1".parse().unwrap()))]
    #[case(&["servicecidr", "kubernetes"], Subject::Cidr("kubernetes".to_owned()))]
    fn what_is_asked_is_understood(#[case] arguments: &[&str], #[case] expected: Subject) {
        assert_eq!(subject(arguments).unwrap(), expected);
    }

    #[test]
    fn labels_can_stand_in_the_place_of_a_name() {
        let selector = Selector::parse("app=web,tier!=db").unwrap();
        let expected = Subject::Selected { kind: Kind::Pod, namespace: "demo".to_owned(), selector };
        assert_eq!(subject(&["pods", "-l", "app=web,tier!=db", "-n", "demo"]).unwrap(), expected);
        let wrong = Cli::try_parse_from(["explain", "pods", "-l", "app in web"]).err().unwrap().to_string();
        assert!(wrong.contains("unable to parse requirement"), "{wrong}");
    }

    #[rstest]
    #[case(&["deployment", "x"], "cannot be explained: service, pod")]
    #[case(&["service"], "service which? Give its name, as in `explain service demo/hello`")]
    #[case(&["ip", "10.0.0"], "is no IP address")]
    #[case(&["node-port", "0"], "is no port from 1 to 65535")]
    #[case(&["svc", "demo/hello", "-n", "other"], "and --namespace \"other\"")]
    #[case(&["svc", "hello", "-l", "app=web"], "name cannot be provided when a selector is specified")]
    #[case(&["svc/hello", "-l", "app=web"], "name cannot be provided when a selector is specified")]
    #[case(&["ip", "-l", "app=web"], "ip are not selected by labels here: services and pods are")]
    fn what_is_not_is_said(#[case] arguments: &[&str], #[case] message: &str) {
        let said = subject(arguments).unwrap_err().to_string();
        assert!(said.contains(message), "{said}");
    }
}
