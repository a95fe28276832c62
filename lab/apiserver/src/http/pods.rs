//! Requests that go to a pod itself: what it wrote, commands in it, connections to its ports.
//!
//! Owns which requests these are. What runs the pods answers them; without it the server has no such resources.

use std::{future::Future, pin::Pin};

use axum::{extract::Request, response::Response};

/// What is asked of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodVerb {
    /// What it wrote: `log`.
    Log,
    /// A command in it: `exec`.
    Exec,
    /// What it writes from now on: `attach`.
    Attach,
    /// Connections to its ports: `portforward`.
    PortForward,
    /// A request over HTTP to it, or to a pod of a Service: `proxy`.
    Proxy,
}

/// Whose subresource is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// A pod's.
    Pod,
    /// A Service's, which is `proxy` alone.
    Service,
}

/// A pod and what is asked of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodRequest<'a> {
    /// A pod or a Service.
    pub whose: Whose,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// What is asked.
    pub verb: PodVerb,
    /// `https` if the request is to be sent on in TLS.
    pub scheme: &'a str,
    /// The port that stands behind the name: a number, a name, or nothing.
    pub port: &'a str,
    /// What follows `proxy` in the path, with the slash; as it came, escapes included.
    pub rest: &'a str,
}

impl<'a> PodRequest<'a> {
    /// What a path asks; none if it asks nothing of a pod.
    pub fn of(path: &'a str) -> Option<Self> {
        let mut parts = path.strip_prefix("/api/v1/namespaces/")?.splitn(4, '/');
        let (namespace, resource, id, verb) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let whose = match resource {
            "pods" => Whose::Pod,
            "services" => Whose::Service,
            _ => return None,
        };
        let (word, rest) = verb.split_at(verb.find('/').unwrap_or(verb.len()));
        let verb = match (whose, word) {
            (_, "proxy") => PodVerb::Proxy,
            (Whose::Pod, "log") => PodVerb::Log,
            (Whose::Pod, "exec") => PodVerb::Exec,
            (Whose::Pod, "attach") => PodVerb::Attach,
            (Whose::Pod, "portforward") => PodVerb::PortForward,
            _ => return None,
        };
        let (scheme, name, port) = match verb {
            PodVerb::Proxy => scheme_name_port(id)?,
            _ if !rest.is_empty() => return None,
            _ => ("", id, ""),
        };
        let whole = !namespace.is_empty() && !name.is_empty();
        whole.then_some(Self { whose, namespace, name, verb, scheme, port, rest })
    }
}

/// `name`, `name:port` or `scheme:name:port`, in which scheme and port may be empty.
fn scheme_name_port(id: &str) -> Option<(&str, &str, &str)> {
    let mut parts = id.split(':');
    match (parts.next()?, parts.next(), parts.next(), parts.next()) {
        (name, None, ..) => Some(("", name, "")),
        (name, Some(port), None, _) => Some(("", name, port)),
        (scheme @ ("" | "http" | "https"), Some(name), Some(port), None) => Some((scheme, name, port)),
        _ => None,
    }
}

/// A response that is on its way.
pub type Answering = Pin<Box<dyn Future<Output = Response> + Send>>;

/// What runs pods.
pub trait PodServer: Send + Sync {
    /// Answers a request for a pod or a Service that is there.
    fn answer(&self, asked: PodRequest<'_>, request: Request) -> Answering;
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("/api/v1/namespaces/demo/pods/a/log", Some(PodVerb::Log))]
    #[case("/api/v1/namespaces/demo/pods/a/exec", Some(PodVerb::Exec))]
    #[case("/api/v1/namespaces/demo/pods/a/attach", Some(PodVerb::Attach))]
    #[case("/api/v1/namespaces/demo/pods/a/portforward", Some(PodVerb::PortForward))]
    #[case("/api/v1/namespaces/demo/pods/a/proxy", Some(PodVerb::Proxy))]
    #[case("/api/v1/namespaces/demo/pods/a/status", None)]
    #[case("/api/v1/namespaces/demo/pods/a", None)]
    #[case("/api/v1/namespaces/demo/services/a/log", None)]
    #[case("/api/v1/namespaces/demo/pods/a/log/more", None)]
    #[case("/api/v1/namespaces//pods/a/log", None)]
    fn paths(#[case] path: &str, #[case] expected: Option<PodVerb>) {
        let asked = PodRequest::of(path);
        assert_eq!(asked.map(|asked| asked.verb), expected);
        assert!(asked.is_none_or(|asked| (asked.namespace, asked.name, asked.rest) == ("demo", "a", "")));
    }

    #[rstest]
    #[case("a/proxy", Some(("", "a", "", "")))]
    #[case("a:80/proxy/", Some(("", "a", "80", "/")))]
    #[case("a:http/proxy/x/y%20z", Some(("", "a", "http", "/x/y%20z")))]
    #[case("https:a:/proxy/x", Some(("https", "a", "", "/x")))]
    #[case("http:a:web/proxy", Some(("http", "a", "web", "")))]
    #[case("ftp:a:21/proxy", None)]
    #[case("a:b:c:d/proxy", None)]
    #[case(":80/proxy", None)]
    fn proxied(#[case] rest: &str, #[case] expected: Option<(&str, &str, &str, &str)>) {
        let path = format!("/api/v1/namespaces/demo/services/{rest}");
        let asked = PodRequest::of(&path);
        assert_eq!(asked.map(|asked| (asked.scheme, asked.name, asked.port, asked.rest)), expected);
        assert!(asked.is_none_or(|asked| asked.whose == Whose::Service));
    }
}
