//! Why something failed, as far as it decides what is told of it: which failures are the same trouble,
//! and what a person can do about it.
//!
//! Pure; knows neither who failed nor when.

use crate::api::RequestError;
use crate::api::WITHHELD;
use crate::api::WatchError;

/// What a failure is about. Failures with the same cause are the same trouble.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// There is no answer.
    Unreachable,
    /// There is no connection because the server's certificate is not trusted.
    Untrusted,
    /// The server does not know the credentials (401).
    Unauthorized,
    /// The role lacks a right: verb and resource, as `create endpointslices.discovery.k8s.io`.
    Denied(String),
    /// The server is overloaded or reports an error of its own; the outline of what it says.
    Unwell(String),
    /// A connection broke off before all was read.
    Broken,
    /// Somebody else was faster, or what was written to is gone.
    Overtaken,
    /// The version that a watch goes on from is not kept any more.
    Expired,
    /// The server was put back to an earlier state.
    Back,
    /// The server has no such kind.
    NotServed,
    /// The answer is nothing an API server says.
    Unreadable,
    /// The lease is not held any more, so nothing is written.
    NotLeading,
    /// The server does not accept the request as it is; the outline of what it says.
    Rejected(String),
    /// Shadow mode writes nothing, and tells of it itself.
    Withheld,
}

/// How a trouble is put into words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    /// What is wrong, and what to do about it.
    pub trouble: &'static str,
    /// What is said when it is over.
    pub over: &'static str,
}

impl Cause {
    /// The cause of a error.
    #[must_use]
    pub fn of(error: &RequestError) -> Self {
        match error {
            RequestError::Unreachable(text) if text.contains("invalid peer certificate") => Self::Untrusted,
            RequestError::Unreachable(_) => Self::Unreachable,
            RequestError::Rejected { code: 401, .. } => Self::Unauthorized,
            RequestError::Rejected { message, .. } => match lacking(message) {
                Some(right) => Self::Denied(right),
                None => Self::Rejected(outline(message)),
            },
            RequestError::Busy { message, .. } if message.contains(WITHHELD) => Self::Withheld,
            RequestError::Busy { message, .. } | RequestError::Unknown(message) => {
                Self::Unwell(outline(message))
            }
            RequestError::NotLeading(_) => Self::NotLeading,
            RequestError::Conflict(_)
            | RequestError::NotFound(_)
            | RequestError::Exists(_)
            | RequestError::NamespaceTerminating => Self::Overtaken,
        }
    }

    /// The cause of a failed watch.
    #[must_use]
    pub fn of_watch(error: &WatchError) -> Self {
        match error {
            WatchError::Expired(_) => Self::Expired,
            WatchError::Back { .. } => Self::Back,
            WatchError::Refused(RequestError::NotFound(_)) => Self::NotServed,
            WatchError::Refused(error) => Self::of(error),
            WatchError::Broken(_) => Self::Broken,
            WatchError::Unreadable(_) => Self::Unreadable,
        }
    }

    /// Whether the server did not say anything. Any answer ends such a trouble.
    #[must_use]
    pub fn is_silence(&self) -> bool {
        matches!(self, Self::Unreachable | Self::Untrusted)
    }

    /// Whether the server must have answered for it. What came before a connection broke off says nothing of the time
    /// after.
    #[must_use]
    pub fn is_answer(&self) -> bool {
        !self.is_silence() && !matches!(self, Self::Broken | Self::NotLeading | Self::Withheld)
    }

    /// Whether it is the same trouble for all subjects that have it.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.is_silence()
            || matches!(self, Self::Unauthorized | Self::Denied(_) | Self::Unwell(_) | Self::NotLeading)
    }

    /// With which failure in a row it becomes worth telling. One broken connection is mostly followed
    /// by a good one, and who is overtaken looks again. What shadow mode withholds is never a trouble.
    #[must_use]
    pub fn worth_telling(&self) -> u64 {
        match self {
            Self::Broken => 2,
            Self::Overtaken => 8,
            Self::Withheld => u64::MAX,
            _ => 1,
        }
    }

    /// Whether the first such failure is nothing to worry about: the controllers know what to do.
    #[must_use]
    pub fn is_usual(&self) -> bool {
        matches!(self, Self::Expired)
    }

    /// The right that the role lacks.
    #[must_use]
    pub fn lacks(&self) -> Option<&str> {
        if let Self::Denied(right) = self { Some(right) } else { None }
    }

    /// What is said of it.
    #[must_use]
    pub fn words(&self) -> Words {
        let (trouble, over) = match self {
            Self::Unreachable => (
                "the API server cannot be reached; it is tried again, at least once a minute",
                "the API server can be reached again",
            ),
            Self::Untrusted => (
                "the API server's certificate is not trusted; check the certificate authority (kubeconfig or service account)",
                "the API server's certificate is trusted again",
            ),
            Self::Unauthorized => (
                "the API server does not accept the credentials; check the token or client certificate (kubeconfig or service account)",
                "the API server accepts the credentials again",
            ),
            Self::Denied(_) => (
                "the role lacks a right; grant it, see manifests/rbac.yaml",
                "the role has the right that it lacked",
            ),
            Self::Unwell(_) => (
                "the API server is overloaded or reports an error of its own; the request is sent again",
                "the API server works again",
            ),
            Self::Broken => (
                "the connection to the API server breaks again and again; it is opened again",
                "the connection to the API server holds again",
            ),
            Self::Overtaken => (
                "writes fail because somebody else changes the object first, again and again; see who else writes it",
                "writes succeed again: nobody else changes the object first",
            ),
            Self::Expired => (
                "the watch's version has expired; everything is listed again, nothing has to be done",
                "the watch goes on",
            ),
            Self::Back => (
                "the API server went back to an earlier state; everything is listed again and put right",
                "the watch goes on",
            ),
            Self::NotServed => (
                "the API server does not serve this kind; install it (manifests/crds) if it is one of ours, or leave out the controller that needs it (--controllers)",
                "the API server serves the kind now",
            ),
            Self::Unreadable => (
                "the answer does not look like an API server's; check what is at its address, perhaps a proxy",
                "the answers look like an API server's again",
            ),
            Self::NotLeading => (
                "the lease is not held any more; what was left to write is dropped, another replica puts it right",
                "the lease is held again",
            ),
            Self::Rejected(_) => (
                "the API server rejects the request; it is sent again, at least once a minute",
                "the API server accepts the request that it rejected",
            ),
            Self::Withheld => (WITHHELD, WITHHELD),
        };
        Words { trouble, over }
    }
}

/// The right that an authorizer misses (`… cannot list resource "pods" in API group "" …`).
fn lacking(message: &str) -> Option<String> {
    let (_, rest) = message.split_once(" cannot ")?;
    let (verb, rest) = rest.split_once(" resource \"")?;
    let (resource, rest) = rest.split_once("\" in API group \"")?;
    let (group, _) = rest.split_once('"')?;
    let dot = if group.is_empty() { "" } else { "." };
    Some(format!("{verb} {resource}{dot}{group}"))
}

/// A message without what differs from one try to the next: quoted names and values, numbers, and words with
/// numbers in them, as the marks of requests are.
fn outline(message: &str) -> String {
    let unquoted = message.split('"').step_by(2);
    let words =
        unquoted.flat_map(|part| part.split_inclusive(|c: char| !(c.is_alphanumeric() || "-_".contains(c))));
    words.filter(|word| !word.contains(|c: char| c.is_ascii_digit())).flat_map(str::chars).take(200).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn rejected(code: u16, message: &str) -> RequestError {
        RequestError::Rejected { code, message: message.to_owned() }
    }

    const DENIED: &str = "endpointslices.discovery.k8s.io is forbidden: User \"u\" cannot create resource \
        \"endpointslices\" in API group \"discovery.k8s.io\" in the namespace \"n\"";

    #[rstest]
    #[case(rejected(403, DENIED), Cause::Denied("create endpointslices.discovery.k8s.io".into()))]
    #[case(
        rejected(403, "pods is forbidden: User \"u\" cannot list resource \"pods\" in API group \"\" at the cluster scope"),
        Cause::Denied("list pods".into())
    )]
    #[case(rejected(403, "exceeded quota: q"), Cause::Rejected("exceeded quota: q".into()))]
    #[case(rejected(401, "Unauthorized"), Cause::Unauthorized)]
    #[case(RequestError::Unreachable("connection refused".into()), Cause::Unreachable)]
    #[case(RequestError::Unreachable("client error: invalid peer certificate: Expired".into()), Cause::Untrusted)]
    #[case(RequestError::Conflict("modified".into()), Cause::Overtaken)]
    #[case(RequestError::Busy { message: WITHHELD.into(), after: None }, Cause::Withheld)]
    fn refusals_have_causes(#[case] error: RequestError, #[case] cause: Cause) {
        assert_eq!(Cause::of(&error), cause);
    }

    #[test]
    fn a_name_that_the_server_made_up_is_no_other_cause() {
        let invalid = |name, field| {
            rejected(422, &format!("EndpointSlice \"{name}\" is invalid: endpoints[7].{field}"))
        };
        assert_eq!(
            Cause::of(&invalid("web-a1b2c", "addresses")),
            Cause::of(&invalid("web-x9y8z", "addresses"))
        );
        assert_ne!(Cause::of(&invalid("web-a1b2c", "addresses")), Cause::of(&invalid("web-a1b2c", "zone")));
    }

    #[test]
    fn a_request_that_the_server_gave_another_mark_is_no_other_cause() {
        let unwell = |mark: &str| {
            RequestError::Unknown(format!("502 Bad Gateway: <p>No server</p> <!-- id={mark} -->"))
        };
        let marks = ["8f3a0c1e-77ab-4cde-9a01-00f1e2d3c4b5", "QX7RK2", "184", "00ffe1-b"];
        assert!(marks.iter().all(|mark| Cause::of(&unwell(mark)) == Cause::of(&unwell("1"))));
        assert_ne!(
            Cause::of(&unwell("1")),
            Cause::of(&RequestError::Unknown("502 Bad Gateway: No route".into()))
        );
    }

    #[test]
    fn a_kind_that_is_not_served_is_told_as_that() {
        let missing = WatchError::Refused(RequestError::NotFound("404 page not found".into()));
        assert_eq!(Cause::of_watch(&missing), Cause::NotServed);
        assert!(Cause::of_watch(&missing).words().trouble.contains("--controllers"));
    }

    #[test]
    fn the_page_about_the_log_has_every_trouble() {
        let page = include_str!("../../../docs/log.md");
        let text = String::new;
        for cause in [
            Cause::Unreachable,
            Cause::Untrusted,
            Cause::Unauthorized,
            Cause::Denied(text()),
            Cause::Unwell(text()),
            Cause::Broken,
            Cause::Overtaken,
            Cause::Expired,
            Cause::Back,
            Cause::NotServed,
            Cause::Unreadable,
            Cause::Rejected(text()),
        ] {
            let (what, _) = cause.words().trouble.split_once(';').unwrap();
            assert!(page.contains(&format!("| {what} |")), "docs/log.md lacks: {what}");
        }
    }
}
