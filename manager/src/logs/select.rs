//! Which lines somebody wants to see.

use std::collections::{BTreeMap, BTreeSet};
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

/// The name of the object that a request of a line is about.
fn asked_of(line: &Line) -> Option<&str> {
    line.field("object").and_then(|object| Some(object.split_once('/')?.1))
}

/// The names of what is in no namespace that a line is about: what is worked for, and what is written.
fn cluster_wide(line: &Line) -> impl Iterator<Item = &str> {
    let kinds = ["servicecidr", "servicepool", "nodeportrange", "lease"];
    // With their kinds: `ipaddresses/10.96.0.5, nodeports/30005`.
    let objects = line.field("objects").into_iter().flat_map(|objects| objects.split([',', ' ']));
    let of_kinds =
        objects.filter_map(|object| object.split_once('/')).filter(|(kind, _)| *kind != "services");
    let asked = asked_of(line).filter(|_| line.field("namespace").is_none());
    kinds.into_iter().filter_map(|kind| line.field(kind)).chain(of_kinds.map(|(_, name)| name)).chain(asked)
}

/// The names of what is in the namespace of a line that it is about: what is worked for, what called for it, what is written.
fn namespaced(line: &Line) -> impl Iterator<Item = &str> {
    let written = line.field("slices").into_iter().flat_map(|slices| slices.split([',', ' ']));
    let called = line.field("trigger").and_then(|trigger| trigger.split(' ').nth(1));
    written.chain(called).chain(line.field("service")).chain(asked_of(line))
}

/// Objects by their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObjectNames(BTreeMap<Option<String>, BTreeSet<String>>);

impl FromIterator<ObjectName> for ObjectNames {
    fn from_iter<I: IntoIterator<Item = ObjectName>>(all: I) -> Self {
        let mut names = Self::default();
        for ObjectName { namespace, name } in all {
            names.0.entry(namespace).or_default().insert(name);
        }
        names
    }
}

impl ObjectNames {
    /// Whether a line is about one of them: works for it, was called for by it, or wrote it.
    fn are_in(&self, line: &Line) -> bool {
        let namespace = line.field("namespace").and_then(|own| self.0.get(&Some(own.to_owned())));
        self.0.get(&None).is_some_and(|own| cluster_wide(line).any(|name| own.contains(name)))
            || namespace.is_some_and(|own| namespaced(line).any(|name| own.contains(name)))
    }
}

/// Which lines are wanted: those for which all of this holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// About one of these objects.
    pub objects: Option<ObjectNames>,
    /// About what is in this namespace.
    pub namespace: Option<String>,
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
    /// Whether only lines about something are wanted: what is no line of this log is about nothing.
    #[must_use]
    pub fn is_about_something(&self) -> bool {
        self.objects.is_some() || self.namespace.is_some() || self.controller.is_some() || self.id.is_some()
    }

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
            && is(&self.namespace, "namespace")
            && self.objects.as_ref().is_none_or(|objects| objects.are_in(line))
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

    fn about(object: &str) -> Selection {
        let object: ObjectName = object.parse().unwrap();
        Selection { objects: Some([object].into_iter().collect()), ..Selection::default() }
    }

    #[test]
    fn one_of_several_objects_is_enough_and_none_is_not() {
        let names = |texts: &[&str]| texts.iter().map(|text| text.parse::<ObjectName>().unwrap()).collect();
        let selects =
            |texts: &[&str]| Selection { objects: Some(names(texts)), ..Selection::default() }.takes(&line());
        assert!(selects(&["demo/other", "demo/hello"]));
        assert!(!selects(&["demo/other", "other/hello"]));
        assert!(!selects(&[]));
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
        let selection = about(object);
        assert_eq!(selection.takes(&line()), expected);
    }

    #[test]
    fn objects_of_the_cluster_and_of_requests_are_found() {
        let wants = about;
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
            (Selection { namespace: Some("demo".into()), ..none.clone() }, true),
            (Selection { namespace: Some("other".into()), ..none.clone() }, false),
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
