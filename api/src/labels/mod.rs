//! Label selectors: the text form of list and watch requests, and matching.
//!
//! Grammar: <https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/>.

mod lex;
mod parse;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
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

/// Why a `LabelSelector` selects nothing that could be said.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// None of the four.
    #[error("{0:?} is not a valid label selector operator: it must be In, NotIn, Exists or DoesNotExist")]
    Operator(String),
    /// `In` or `NotIn` of nothing.
    #[error("values of {0:?} must be specified when `operator` is 'In' or 'NotIn'")]
    NoValues(String),
    /// Values of a key that need only be there.
    #[error("values of {0:?} may not be specified when `operator` is 'Exists' or 'DoesNotExist'")]
    Values(String),
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

    /// The selector of an API object: its `matchLabels`, then its `matchExpressions`.
    ///
    /// # Errors
    /// An operator that there is not, or values that do not go with it.
    pub fn from_label_selector(selector: &LabelSelector) -> Result<Self, SelectorError> {
        let mut all = Self::from_labels(selector.match_labels.as_ref().unwrap_or(&BTreeMap::new()));
        for expression in selector.match_expressions.iter().flatten() {
            let key = expression.key.clone();
            let values: BTreeSet<String> = expression.values.iter().flatten().cloned().collect();
            let operator = match (expression.operator.as_str(), values.is_empty()) {
                ("In", false) => Operator::In(values),
                ("NotIn", false) => Operator::NotIn(values),
                ("Exists", true) => Operator::Exists,
                ("DoesNotExist", true) => Operator::DoesNotExist,
                ("In" | "NotIn", true) => return Err(SelectorError::NoValues(key)),
                ("Exists" | "DoesNotExist", false) => return Err(SelectorError::Values(key)),
                (operator, _) => return Err(SelectorError::Operator(operator.to_owned())),
            };
            all.requirements.push(Requirement { key, operator });
        }
        Ok(all)
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

    #[rstest]
    #[case("In", &["web", "db"], Ok(true))]
    #[case("In", &["db"], Ok(false))]
    #[case("NotIn", &["db"], Ok(true))]
    #[case("Exists", &[], Ok(true))]
    #[case("DoesNotExist", &[], Ok(false))]
    #[case("In", &[], Err(SelectorError::NoValues("tier".into())))]
    #[case("Exists", &["web"], Err(SelectorError::Values("tier".into())))]
    #[case("Like", &["web"], Err(SelectorError::Operator("Like".into())))]
    fn expressions(
        #[case] operator: &str,
        #[case] values: &[&str],
        #[case] expected: Result<bool, SelectorError>,
    ) {
        let selector: LabelSelector = serde_json::from_value(serde_json::json!({
            "matchLabels": {"n": "5"},
            "matchExpressions": [{"key": "tier", "operator": operator, "values": values}],
        }))
        .unwrap();
        let of = |text: &str| labels(&[("tier", "web"), ("n", text)]);
        let selector = Selector::from_label_selector(&selector);
        assert_eq!(selector.as_ref().map(|s| s.matches(&of("5"))).map_err(Clone::clone), expected);
        assert!(!selector.is_ok_and(|s| s.matches(&of("6"))));
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
