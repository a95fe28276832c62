//! Explanations for the page: what the command prints with `-o json`.
//!
//! Owns that they hold nobody up: objects are read and plans made on a thread of their own, a few at once.

use http::StatusCode;
use jiff::Timestamp;
use kube::Client;
use serde::Serialize;
use serde_json::Value;
use service_controllers::explain::{self, Kind, Question, Snapshot, Subject};
use service_page::{Explainer, Later, Refused};
use tokio::{runtime::Handle, sync::Semaphore, task::spawn_blocking};

use super::{ExplainError, load, missing};

/// So many explanations are made at once; others wait.
const AT_ONCE: usize = 2;

/// Explains what a client can read.
pub(crate) struct Explains {
    client: Client,
    max_endpoints_per_slice: usize,
    places: Semaphore,
}

impl Explains {
    /// Explains by a client, for controllers that put so many endpoints into one slice.
    pub(crate) fn new(client: Client, max_endpoints_per_slice: usize) -> Self {
        Self { client, max_endpoints_per_slice, places: Semaphore::new(AT_ONCE) }
    }
}

impl Explainer for Explains {
    fn explain<'a>(
        &'a self,
        kind: &'a str,
        namespace: &'a str,
        name: &'a str,
    ) -> Later<'a, Result<Value, Refused>> {
        Box::pin(async move {
            let subject = subject(kind, namespace, name).ok_or_else(|| Refused {
                status: StatusCode::BAD_REQUEST,
                message: format!("{kind} {name:?} is nothing that can be explained"),
            })?;
            let question = Question {
                max_endpoints_per_slice: self.max_endpoints_per_slice,
                now: Timestamp::now().as_second(),
            };
            let (client, handle) = (self.client.clone(), Handle::current());
            // It is never closed.
            let _place = self.places.acquire().await;
            let explaining = spawn_blocking(move || {
                let snapshot = handle.block_on(load::from_server(&client, subject))?;
                found(&snapshot, &question)
            });
            match explaining.await {
                Ok(explained) => explained.map_err(|error| refused(&error)),
                Err(error) => {
                    Err(Refused { status: StatusCode::INTERNAL_SERVER_ERROR, message: error.to_string() })
                }
            }
        })
    }
}

/// What is asked about, by the words of the page; none if they say nothing.
fn subject(kind: &str, namespace: &str, name: &str) -> Option<Subject> {
    let (namespace, name) = (namespace.to_owned(), name.to_owned());
    match kind {
        "service" => Some(Subject::Service { namespace, name }),
        "pod" => Some(Subject::Pod { namespace, name }),
        "endpointslice" => Some(Subject::Slice { namespace, name }),
        "ip" => name.parse().ok().map(Subject::Address),
        "node-port" => name.parse().ok().filter(|port| *port > 0).map(Subject::NodePort),
        "servicecidr" => Some(Subject::Cidr(name)),
        _ => None,
    }
}

fn found(snapshot: &Snapshot, question: &Question) -> Result<Value, ExplainError> {
    let subject = snapshot.subject();
    let (value, kind, what) = match subject {
        Subject::Service { namespace, name } => {
            let found = explain::service(snapshot, namespace, name, question);
            (json(found), Kind::Service, format!("{namespace}/{name}"))
        }
        Subject::Pod { namespace, name } => {
            let found = explain::pod(snapshot, namespace, name, question);
            (json(found), Kind::Pod, format!("{namespace}/{name}"))
        }
        Subject::Slice { namespace, name } => {
            let found = explain::slice(snapshot, namespace, name, question);
            (json(found), Kind::EndpointSlice, format!("{namespace}/{name}"))
        }
        Subject::Address(ip) => {
            (json(Some(explain::address(snapshot, *ip))), Kind::IpAddress, ip.to_string())
        }
        Subject::NodePort(port) => {
            (json(Some(explain::node_port(snapshot, *port))), Kind::NodePort, port.to_string())
        }
        Subject::Cidr(name) => {
            (json(explain::cidr(snapshot, name, question)), Kind::ServiceCidr, name.clone())
        }
        // The page asks for one thing at a time.
        Subject::Selected { .. } | Subject::All => (None, Kind::Service, String::new()),
    };
    value.ok_or_else(|| missing(snapshot, kind, &what, explain::near_names(snapshot, subject)))
}

fn json(found: Option<impl Serialize>) -> Option<Value> {
    found.and_then(|found| serde_json::to_value(found).ok())
}

fn refused(error: &ExplainError) -> Refused {
    let status = match error {
        ExplainError::Subject(_) | ExplainError::Dump(_) => StatusCode::BAD_REQUEST,
        ExplainError::NotFound { .. } | ExplainError::NoneSelected { .. } => StatusCode::NOT_FOUND,
        ExplainError::Unknown { .. } => StatusCode::FORBIDDEN,
        ExplainError::Fetch(_) => StatusCode::BAD_GATEWAY,
    };
    Refused { status, message: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_the_page_are_understood() {
        let service = Subject::Service { namespace: "demo".to_owned(), name: "hello".to_owned() };
        assert_eq!(subject("service", "demo", "hello"), Some(service));
        assert_eq!(subject("ip", "", "fd00::1"), Some(Subject::Address("fd00::1".parse().unwrap())));
        assert_eq!(subject("node-port", "", "30080"), Some(Subject::NodePort(30080)));
        for (kind, name) in [("node-port", "0"), ("ip", "10.96"), ("secret", "x")] {
            assert_eq!(subject(kind, "", name), None);
        }
    }

    #[test]
    fn what_is_not_there_is_said_with_names_that_are_like_it() {
        let near = vec!["demo/hello".to_owned()];
        let said = refused(&ExplainError::NotFound { what: "Service demo/helo".to_owned(), near });
        assert_eq!(said.status, StatusCode::NOT_FOUND);
        assert_eq!(said.message, "there is no Service demo/helo; is it demo/hello?");
    }
}
