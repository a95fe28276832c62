//! Label selectors: the text form of list and watch requests, and matching.
//!
//! Grammar: <https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/>.

mod lex;
mod parse;

use std::collections::{BTreeMap, BTreeSet};

pub use parse::ParseError;

/// What a requirement asks of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operator {
    /// The value is one of the given (`=`, `==`, `in`).
    In(BTreeSet<String>),
    /// The key is absent, or its value none of the given (`!=`, `notin`).
    NotIn(BTreeSet<String>),
    /// The key is there.
    Exists,
    /// The key is absent.
    DoesNotExist,
    /// The value is a whole number above this.
    GreaterThan(i64),
    /// The value is a whole number below this.
    LessThan(i64),
}

/// One condition of a selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// The label's key.
    pub key: String,
    /// The condition on its value.
    pub operator: Operator,
}

impl Requirement {
    /// Whether `labels` meet the condition.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.holds(labels.get(&self.key).map(String::as_str))
    }

    /// Whether the value of the key, `None` for none, meets the condition.
    pub fn holds(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|v| v.parse::<i64>().ok());
        match &self.operator {
            Operator::In(values) => value.is_some_and(|v| values.contains(v)),
            Operator::NotIn(values) => value.is_none_or(|v| !values.contains(v)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan(bound) => number().is_some_and(|n| n > *bound),
            Operator::LessThan(bound) => number().is_some_and(|n| n < *bound),
        }
    }
}

/// Conditions that all have to be met; without any, everything matches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector {
    /// The conditions, sorted by key.
    pub requirements: Vec<Requirement>,
}

impl Selector {
    /// Reads the text form. The error's text is the message of upstream's 400.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        parse::parse(text)
    }

    /// A selector for exactly these labels, as in `spec.selector` of a Service.
    pub fn from_labels(labels: &BTreeMap<String, String>) -> Self {
        let requirements = labels
            .iter()
            .map(|(key, value)| Requirement {
                key: key.clone(),
                operator: Operator::In([value.clone()].into()),
            })
            .collect();
        Self { requirements }
    }

    /// Whether `labels` meet all conditions.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.requirements.iter().all(|r| r.matches(labels))
    }

    /// Whether every object matches.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[rstest]
    #[case("", true)]
    #[case("tier=web", true)]
    #[case("tier == web", true)]
    #[case("tier!=web", false)]
    #[case("tier!=db", true)]
    #[case("other!=x", true)]
    #[case("tier", true)]
    #[case("!tier", false)]
    #[case("! other", true)]
    #[case("tier in (web,db)", true)]
    #[case("tier notin (web)", false)]
    #[case("tier in ()", false)]
    #[case("empty in ()", true)]
    #[case("empty=", true)]
    #[case("empty=,tier=web", true)]
    #[case("n>4", true)]
    #[case("n > 5", false)]
    #[case("n<6,tier", true)]
    #[case("tier>1", false)]
    #[case("in=x", false)]
    #[case("tier in (,web)", true)]
    fn matching(#[case] text: &str, #[case] expected: bool) {
        let labels = labels(&[("tier", "web"), ("n", "5"), ("empty", "")]);
        let selector = Selector::parse(text).unwrap();
        assert_eq!(selector.matches(&labels), expected);
    }

    #[test]
    fn a_service_selector_is_an_equality_of_all() {
        let selector = Selector::from_labels(&labels(&[("a", "1"), ("b", "2")]));
        assert!(selector.matches(&labels(&[("a", "1"), ("b", "2"), ("c", "3")])));
        assert!(!selector.matches(&labels(&[("a", "1")])));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[a-z!=<>(), /.]{0,24}") {
            if let Err(error) = Selector::parse(&text) {
                prop_assert!(!error.to_string().is_empty());
            }
        }
    }
}
