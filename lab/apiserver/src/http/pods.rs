//! Requests that go to a pod itself: what it wrote, and commands in it.
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
}

/// A pod and what is asked of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodRequest<'a> {
    /// The pod's namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// What is asked.
    pub verb: PodVerb,
}

impl<'a> PodRequest<'a> {
    /// What a path asks; none if it asks nothing of a pod.
    pub fn of(path: &'a str) -> Option<Self> {
        let rest = path.strip_prefix("/api/v1/namespaces/")?;
        let mut parts = rest.split('/');
        let (namespace, pods, name, verb) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let verb = match verb {
            "log" => PodVerb::Log,
            "exec" => PodVerb::Exec,
            _ => return None,
        };
        let whole = pods == "pods" && !namespace.is_empty() && !name.is_empty() && parts.next().is_none();
        whole.then_some(Self { namespace, name, verb })
    }
}

/// A response that is on its way.
pub type Answering = Pin<Box<dyn Future<Output = Response> + Send>>;

/// What runs pods.
pub trait PodServer: Send + Sync {
    /// Answers a request for a pod that is there.
    fn answer(&self, asked: PodRequest<'_>, request: Request) -> Answering;
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("/api/v1/namespaces/demo/pods/a/log", Some(("demo", "a", PodVerb::Log)))]
    #[case("/api/v1/namespaces/demo/pods/a/exec", Some(("demo", "a", PodVerb::Exec)))]
    #[case("/api/v1/namespaces/demo/pods/a/status", None)]
    #[case("/api/v1/namespaces/demo/pods/a", None)]
    #[case("/api/v1/namespaces/demo/services/a/log", None)]
    #[case("/api/v1/namespaces/demo/pods/a/log/more", None)]
    #[case("/api/v1/namespaces//pods/a/log", None)]
    fn paths(#[case] path: &str, #[case] expected: Option<(&str, &str, PodVerb)>) {
        let asked = PodRequest::of(path).map(|asked| (asked.namespace, asked.name, asked.verb));
        assert_eq!(asked, expected);
    }
}
