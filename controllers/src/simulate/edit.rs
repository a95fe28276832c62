//! What if: edits of a cluster that is only simulated, as they are written on the command line.
//!
//! Owns their grammar. What an edit does to objects is in `stages`.

use std::str::FromStr;

use ipnet::IpNet;
use serde_json::Value;

/// An edit.
#[derive(Clone, Debug, PartialEq)]
pub enum Edit {
    /// `max-endpoints-per-slice=N`.
    MaxEndpointsPerSlice(usize),
    /// `zone.NAME=NODES`: a zone with so many nodes is added.
    Zone {
        /// Its name.
        name: String,
        /// How many nodes are in it.
        nodes: usize,
    },
    /// `node.NAME=drained`: its pods end, and what manages them makes others elsewhere.
    Drain(String),
    /// `node.NAME=gone`: it is lost with its pods, and what manages them makes others elsewhere.
    NodeGone(String),
    /// `node.NAME=zone:ZONE`: it is in another zone.
    NodeZone {
        /// The node.
        node: String,
        /// The zone.
        zone: String,
    },
    /// `servicecidr.NAME=CIDR[,CIDR]`: it has these ranges.
    Cidr {
        /// Its name.
        name: String,
        /// Its ranges.
        cidrs: Vec<IpNet>,
    },
    /// `service.NAMESPACE/NAME.FIELD=VALUE`, or a change with a name of its own.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// What is changed.
        change: ServiceEdit,
    },
}

/// A change of a Service.
#[derive(Clone, Debug, PartialEq)]
pub enum ServiceEdit {
    /// `=dual-stack`.
    DualStack,
    /// `=external-name:HOST`.
    ExternalName(String),
    /// `.FIELD=VALUE`: a path below the object, or below its spec; null removes the field.
    Field {
        /// The names of the fields, from the outermost.
        path: Vec<String>,
        /// The value.
        value: Value,
    },
}

/// What is no edit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// No value.
    #[error("{0:?} has no =: an edit is KEY=VALUE, such as max-endpoints-per-slice=50 or node.NAME=drained")]
    NoValue(String),
    /// An unknown key.
    #[error(
        "{0:?} is no edit: max-endpoints-per-slice, zone.NAME, node.NAME, servicecidr.NAME, service.NAMESPACE/NAME and \
         service.NAMESPACE/NAME.FIELD are"
    )]
    Key(String),
    /// A value that does not fit.
    #[error("{key}: {value:?} is no {expected}")]
    Value {
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
}

impl FromStr for Edit {
    type Err = EditError;

    fn from_str(text: &str) -> Result<Self, EditError> {
        let (key, value) = text.split_once('=').ok_or_else(|| EditError::NoValue(text.to_owned()))?;
        let wrong = |expected| EditError::Value { key: key.to_owned(), value: value.to_owned(), expected };
        let count = |expected| value.parse().ok().filter(|n: &usize| *n > 0).ok_or_else(|| wrong(expected));
        let (kind, rest) = key.split_once('.').unwrap_or((key, ""));
        match (kind, rest) {
            ("max-endpoints-per-slice", "") => count("number from 1").map(Self::MaxEndpointsPerSlice),
            ("zone", name) if !name.is_empty() => {
                Ok(Self::Zone { name: name.to_owned(), nodes: count("number of nodes")? })
            }
            ("node", name) if !name.is_empty() => match (value, value.strip_prefix("zone:")) {
                ("drained", _) => Ok(Self::Drain(name.to_owned())),
                ("gone", _) => Ok(Self::NodeGone(name.to_owned())),
                (_, Some(zone)) => Ok(Self::NodeZone { node: name.to_owned(), zone: zone.to_owned() }),
                _ => Err(wrong("change of a node: drained, gone and zone:ZONE are")),
            },
            ("servicecidr", name) if !name.is_empty() => {
                let cidrs: Result<Vec<IpNet>, _> = value.split(',').map(|cidr| cidr.trim().parse()).collect();
                let cidrs = cidrs.map_err(|_| wrong("list of CIDRs such as 10.96.0.0/20"))?;
                Ok(Self::Cidr { name: name.to_owned(), cidrs })
            }
            ("service", rest) if rest.contains('/') => of_service(rest, value).ok_or_else(|| {
                wrong("change of a Service: dual-stack, external-name:HOST, or .FIELD=VALUE are")
            }),
            _ => Err(EditError::Key(key.to_owned())),
        }
    }
}

fn of_service(rest: &str, value: &str) -> Option<Edit> {
    let (service, path) = rest.split_once('.').unwrap_or((rest, ""));
    let (namespace, name) = service.split_once('/').filter(|(_, name)| !name.is_empty())?;
    let change = match (path, value.strip_prefix("external-name:")) {
        ("", _) if value == "dual-stack" => ServiceEdit::DualStack,
        ("", Some(host)) if !host.is_empty() => ServiceEdit::ExternalName(host.to_owned()),
        ("", _) => return None,
        (path, _) => {
            let mut path: Vec<String> = path.split('.').map(ToOwned::to_owned).collect();
            if path[0] != "spec" && path[0] != "metadata" {
                path.insert(0, "spec".to_owned());
            }
            let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
            ServiceEdit::Field { path, value }
        }
    };
    Some(Edit::Service { namespace: namespace.to_owned(), name: name.to_owned(), change })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn edits_are_read() {
        let field = |value: Value| Edit::Service {
            namespace: "demo".into(),
            name: "hello".into(),
            change: ServiceEdit::Field { path: vec!["spec".into(), "trafficDistribution".into()], value },
        };
        for (text, expected) in [
            ("max-endpoints-per-slice=50", Edit::MaxEndpointsPerSlice(50)),
            ("zone.eu-1c=3", Edit::Zone { name: "eu-1c".into(), nodes: 3 }),
            ("node.worker.example=drained", Edit::Drain("worker.example".into())),
            ("node.n=zone:z2", Edit::NodeZone { node: "n".into(), zone: "z2".into() }),
            (
                "servicecidr.kubernetes=10.96.0.0/24",
                Edit::Cidr { name: "kubernetes".into(), cidrs: vec!["10.96.0.0/24".parse().unwrap()] },
            ),
            ("service.demo/hello.trafficDistribution=PreferSameZone", field(json!("PreferSameZone"))),
            ("service.demo/hello.spec.trafficDistribution=null", field(Value::Null)),
        ] {
            assert_eq!(text.parse::<Edit>().unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_edit_is_said() {
        for (text, words) in [
            ("x", "has no ="),
            ("max-endpoints-per-slice=0", "is no number from 1"),
            ("node.a=up", "drained, gone and zone:ZONE are"),
            ("servicecidr.a=10.0.0.0", "list of CIDRs"),
            ("service.demo/hello=x", "dual-stack, external-name:HOST"),
            ("pod.a=b", "is no edit"),
        ] {
            let said = text.parse::<Edit>().unwrap_err().to_string();
            assert!(said.contains(words), "{said}");
        }
    }
}
