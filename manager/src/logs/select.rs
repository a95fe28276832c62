//! Which lines somebody wants to see.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use tracing::Level;

use super::Line;

/// An object by its name, with its namespace where it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectName {
    /// Its namespace.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

/// A text that names no object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it must be NAMESPACE/NAME, or NAME for an object of the cluster such as a ServiceCIDR")]
pub struct ObjectNameError;

impl FromStr for ObjectName {
    type Err = ObjectNameError;

    fn from_str(text: &str) -> Result<Self, ObjectNameError> {
        let (namespace, name) = match text.split_once('/') {
            Some((namespace, name)) => (Some(namespace.to_owned()), name),
            None => (None, text),
        };
        let empty = name.is_empty() || namespace.as_ref().is_some_and(String::is_empty);
        if empty || name.contains('/') {
            return Err(ObjectNameError);
        }
        Ok(Self { namespace, name: name.to_owned() })
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl ObjectName {
    /// Whether a line is about this object: works for it, was called for by it, or wrote it.
    fn is_in(&self, line: &Line) -> bool {
        let named = |field: &str| line.field(field) == Some(self.name.as_str());
        // With their kinds: `ipaddresses/10.96.0.5, nodeports/30005`.
        let objects = line.field("objects").into_iter().flat_map(|objects| objects.split([',', ' ']));
        let mut of_kinds = objects.filter_map(|object| object.split_once('/'));
        let Some(namespace) = &self.namespace else {
            return ["servicecidr", "servicepool", "nodeportrange", "lease"].into_iter().any(named)
                || of_kinds.any(|(kind, name)| kind != "services" && name == self.name)
                || (line.field("namespace").is_none() && self.is_asked_of(line));
        };
        if line.field("namespace") != Some(namespace.as_str()) {
            return false;
        }
        let written = line.field("slices").into_iter().flat_map(|slices| slices.split([',', ' ']));
        let mut called = line.field("trigger").unwrap_or_default().split(' ');
        named("service")
            || self.is_asked_of(line)
            || written.into_iter().any(|name| name == self.name)
            || called.nth(1) == Some(self.name.as_str())
    }

    /// Whether a request of a line is about an object of this name.
    fn is_asked_of(&self, line: &Line) -> bool {
        let object = line.field("object").and_then(|object| object.split_once('/'));
        object.is_some_and(|(_, name)| name == self.name)
    }
}

/// Which lines are wanted: those for which all of this holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// About this object.
    pub object: Option<ObjectName>,
    /// Of this controller.
    pub controller: Option<String>,
    /// Not older than this.
    pub since: Option<Timestamp>,
    /// As grave as this, or more.
    pub level: Option<Level>,
    /// Of the reconcile with this number.
    pub id: Option<String>,
}

impl Selection {
    /// Whether a line is wanted.
    #[must_use]
    pub fn takes(&self, line: &Line) -> bool {
        let is = |wanted: &Option<String>, field| {
            wanted.as_deref().is_none_or(|wanted| line.field(field) == Some(wanted))
        };
        self.since.is_none_or(|since| line.time >= since)
            // The graver one is the lesser one.
            && self.level.is_none_or(|level| line.level <= level)
            && is(&self.controller, "controller")
            && is(&self.id, "id")
            && self.object.as_ref().is_none_or(|object| object.is_in(line))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::super::parse;
    use super::*;

    fn line() -> Line {
        parse(
            r#"2026-11-30T13:59:57Z  INFO wrote slices controller="endpointslice-controller" namespace="demo" service="hello" trigger="pod web-1 not ready and 2 more events" slices="hello-x, hello-y" id=00c0ffee00c0ffee"#,
        )
        .unwrap()
    }

    #[rstest]
    #[case("demo/hello", true)]
    #[case("demo/web-1", true)]
    #[case("demo/hello-y", true)]
    #[case("demo/hell", false)]
    #[case("demo/not", false)]
    #[case("other/hello", false)]
    #[case("hello", false)]
    fn an_object_is_found_by_all_that_names_it(#[case] object: &str, #[case] expected: bool) {
        let selection = Selection { object: Some(object.parse().unwrap()), ..Selection::default() };
        assert_eq!(selection.takes(&line()), expected);
    }

    #[test]
    fn objects_of_the_cluster_and_of_requests_are_found() {
        let wants =
            |object: &str| Selection { object: Some(object.parse().unwrap()), ..Selection::default() };
        let cidr = parse("2026-11-30T13:59:57Z  INFO wrote service CIDR servicecidr=\"extra\"").unwrap();
        assert!(wants("extra").takes(&cidr) && !wants("demo/extra").takes(&cidr));
        let given = "2026-11-30T13:59:57Z  INFO wrote addresses and ports namespace=\"demo\" service=\"web\" objects=\"ipaddresses/10.96.0.5, nodeports/30005, services/web\"";
        let given = parse(given).unwrap();
        for (object, expected) in
            [("demo/web", true), ("10.96.0.5", true), ("30005", true), ("30", false), ("web", false)]
        {
            assert_eq!(wants(object).takes(&given), expected, "{object}");
        }
        let request = "2026-11-30T13:59:57Z  WARN refused namespace=\"demo\" service=\"hello\" object=\"endpointslices/x-1\"";
        assert!(wants("demo/x-1").takes(&parse(request).unwrap()));
    }

    #[test]
    fn all_that_is_asked_for_has_to_hold() {
        let at = |text: &str| Some(text.parse().unwrap());
        let none = Selection::default();
        for (selection, expected) in [
            (none.clone(), true),
            (Selection { since: at("2026-11-30T13:59:57Z"), ..none.clone() }, true),
            (Selection { since: at("2026-11-30T13:59:58Z"), ..none.clone() }, false),
            (Selection { level: Some(Level::INFO), ..none.clone() }, true),
            (Selection { level: Some(Level::WARN), ..none.clone() }, false),
            (Selection { controller: Some("endpoints-controller".into()), ..none.clone() }, false),
            (Selection { id: Some("00c0ffee00c0ffee".into()), ..none.clone() }, true),
            (Selection { id: Some("00c0ffee00c0ffee".into()), level: Some(Level::ERROR), ..none }, false),
        ] {
            assert_eq!(selection.takes(&line()), expected, "{selection:?}");
        }
    }

    #[rstest]
    #[case("")]
    #[case("/hello")]
    #[case("demo/")]
    #[case("a/b/c")]
    fn what_names_no_object_is_refused(#[case] text: &str) {
        assert!(text.parse::<ObjectName>().is_err());
    }
}
