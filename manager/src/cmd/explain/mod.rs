//! `explain`: reads what is needed of a cluster or of files, and prints the explanation.
//!
//! Owns where the objects come from and what is printed. What is said of them is `service_controllers::explain`'s.

mod answer;
mod load;
mod text;

use std::io::{self, Write as _};

use serde::Serialize;
use service_controllers::explain::{self, Kind, Question, Snapshot, Subject};

pub(crate) use self::answer::Explains;
use super::CommandError;
use crate::args::{ExplainArgs, ExplainFormat, SubjectError};
use crate::cluster::{self, Watched};
use crate::objects::dump::DumpError;
use crate::objects::live::FetchError;
use crate::output::printed;
use crate::paint::Paint;

/// Why nothing is explained.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// What is asked about is not understood.
    #[error(transparent)]
    Subject(#[from] SubjectError),
    /// A file is no dump.
    #[error("--dump {0}")]
    Dump(#[from] DumpError),
    /// A server cannot be asked.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// It is not there.
    #[error("there is no {what}{}", suggestion(near))]
    NotFound {
        /// What.
        what: String,
        /// Names that are like it.
        near: Vec<String>,
    },
    /// No labels are as they are asked for.
    #[error("no {kind} in namespace {namespace} has labels that the selector selects")]
    NoneSelected {
        /// Of what kind.
        kind: &'static str,
        /// In which namespace.
        namespace: String,
    },
    /// It cannot be looked at.
    #[error("{what} cannot be looked at: {why}")]
    Unknown {
        /// What.
        what: String,
        /// Why not.
        why: String,
    },
}

fn suggestion(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!("; is it {}?", near.join(" or ")) }
}

/// Explains and prints.
pub(super) async fn run(args: ExplainArgs) -> Result<(), CommandError> {
    let snapshot = if args.dump.is_empty() {
        // A question that is not understood needs no server.
        args.subject("default").map_err(ExplainError::from)?;
        let client = cluster::connect_as_kubectl(&args.place, Watched::default()).await?;
        let subject = args.subject(client.default_namespace()).map_err(ExplainError::from)?;
        load::from_server(&client, subject).await.map_err(ExplainError::from)?
    } else {
        let subject = args.subject("default").map_err(ExplainError::from)?;
        load::from_files(subject, &args.dump).map_err(ExplainError::from)?
    };
    let text = explained(&args, &snapshot)?;
    match io::stdout().lock().write_all(text.as_bytes()) {
        // A reader that has seen enough is no failure.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(CommandError::Output),
    }
}

fn explained(args: &ExplainArgs, snapshot: &Snapshot) -> Result<String, ExplainError> {
    let question = Question {
        max_endpoints_per_slice: args.max_endpoints_per_slice.get(),
        now: jiff::Timestamp::now().as_second(),
    };
    let paint = Paint::of(args.color);
    let show = args.show.get();
    let (format, subject) = (args.output, snapshot.subject());
    let not_there =
        |kind, name: String| missing(snapshot, kind, &name, explain::near_names(snapshot, subject));
    Ok(match subject {
        Subject::Service { namespace, name } => {
            let found = explain::service(snapshot, namespace, name, &question)
                .ok_or_else(|| not_there(Kind::Service, format!("{namespace}/{name}")))?;
            printed(format, &found, || text::service(&found, paint, show))
        }
        Subject::Pod { namespace, name } => {
            let found = explain::pod(snapshot, namespace, name, &question)
                .ok_or_else(|| not_there(Kind::Pod, format!("{namespace}/{name}")))?;
            printed(format, &found, || text::pod(&found, paint, show))
        }
        Subject::Slice { namespace, name } => {
            let found = explain::slice(snapshot, namespace, name, &question)
                .ok_or_else(|| not_there(Kind::EndpointSlice, format!("{namespace}/{name}")))?;
            printed(format, &found, || text::slice(&found, paint, show))
        }
        Subject::Address(ip) => {
            let found = explain::address(snapshot, *ip);
            printed(format, &found, || text::address(&found, paint, show))
        }
        Subject::NodePort(port) => {
            let found = explain::node_port(snapshot, *port);
            printed(format, &found, || text::node_port(&found, paint, show))
        }
        Subject::Cidr(name) => {
            let found = explain::cidr(snapshot, name, &question)
                .ok_or_else(|| not_there(Kind::ServiceCidr, name.clone()))?;
            printed(format, &found, || text::cidr(&found, paint, show))
        }
        Subject::Selected { kind: Kind::Service, namespace, .. } => {
            let explain = |name: &String| explain::service(snapshot, namespace, name, &question);
            let found = selected(snapshot, explain)?;
            list(format, "ServiceExplanationList", &found, &|found| text::service(found, paint, show))
        }
        Subject::Selected { namespace, .. } => {
            let explain = |name: &String| explain::pod(snapshot, namespace, name, &question);
            let found = selected(snapshot, explain)?;
            list(format, "PodExplanationList", &found, &|found| text::pod(found, paint, show))
        }
        Subject::All => return Err(SubjectError::Kind(args.target.join(" ")).into()),
    })
}

/// The explanations of all that labels select.
fn selected<T>(snapshot: &Snapshot, explain: impl Fn(&String) -> Option<T>) -> Result<Vec<T>, ExplainError> {
    let Subject::Selected { kind, namespace, .. } = snapshot.subject() else { return Ok(Vec::new()) };
    let found: Vec<T> = snapshot.selected().iter().filter_map(explain).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let unknown = snapshot.missing().find(|(missing, _)| missing == kind);
    Err(match unknown {
        Some((_, why)) => ExplainError::Unknown {
            what: format!("the {} of namespace {namespace}", kind.resource()),
            why: why.to_owned(),
        },
        None => ExplainError::NoneSelected { kind: kind.name(), namespace: namespace.clone() },
    })
}

/// Several explanations: one after the other for people, a list for programs.
fn list<T: Serialize>(
    format: ExplainFormat,
    kind: &'static str,
    items: &[T],
    text: &dyn Fn(&T) -> String,
) -> String {
    let list = ExplanationList { api_version: explain::report::API_VERSION, kind, items };
    printed(format, &list, || items.iter().map(text).collect::<Vec<_>>().join("\n"))
}

/// Several explanations as programs get them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ExplanationList<'a, T> {
    api_version: &'static str,
    kind: &'static str,
    items: &'a [T],
}

/// It is not there, or it is not known whether it is.
fn missing(snapshot: &Snapshot, kind: Kind, name: &str, near: Vec<String>) -> ExplainError {
    let what = format!("{} {name}", kind.name());
    let unknown = snapshot.missing().find(|(missing, _)| *missing == kind);
    match unknown {
        Some((_, why)) => ExplainError::Unknown { what, why: why.to_owned() },
        None => ExplainError::NotFound { what, near },
    }
}
