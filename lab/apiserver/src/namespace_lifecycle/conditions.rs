//! What the conditions of a namespace say while it is being emptied: upstream's five, in its order and words. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::registry::object::{meta_list, time_text};

/// What is left in a namespace.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    /// Resources, as `pods.` or `deployments.apps`, and how many objects of them.
    pub remaining: Vec<(String, usize)>,
    /// Finalizers, and how many objects they hold.
    pub finalizers: BTreeMap<String, usize>,
    /// What could not be deleted, and why.
    pub failures: Vec<String>,
}

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Condition {
    kind: &'static str,
    holds: bool,
    reason: &'static str,
    message: String,
}

impl Content {
    /// Counts what holds an object.
    pub(super) fn count_finalizers(&mut self, object: &Value) {
        for finalizer in meta_list(object, "finalizers") {
            *self.finalizers.entry(finalizer.to_owned()).or_default() += 1;
        }
    }

    /// All conditions. Those of discovery can not fail here: the server knows its own kinds.
    pub(super) fn conditions(&self) -> [Condition; 5] {
        let condition = |kind, holds, reason, message: &str| Condition {
            kind,
            holds,
            reason,
            message: message.to_owned(),
        };
        [
            condition(
                "NamespaceDeletionDiscoveryFailure",
                false,
                "ResourcesDiscovered",
                "All resources successfully discovered",
            ),
            condition(
                "NamespaceDeletionGroupVersionParsingFailure",
                false,
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed",
            ),
            self.deletion(),
            self.content(),
            self.held(),
        ]
    }

    fn deletion(&self) -> Condition {
        let kind = "NamespaceDeletionContentFailure";
        if self.failures.is_empty() {
            let message = "All content successfully deleted, may be waiting on finalization".to_owned();
            return Condition { kind, holds: false, reason: "ContentDeleted", message };
        }
        let (count, listed) = (self.failures.len(), self.failures.join(", "));
        let message = format!("Failed to delete all resource types, {count} remaining: {listed}");
        Condition { kind, holds: true, reason: "ContentDeletionFailed", message }
    }

    fn content(&self) -> Condition {
        let kind = "NamespaceContentRemaining";
        if self.remaining.is_empty() {
            let message = "All content successfully removed".to_owned();
            return Condition { kind, holds: false, reason: "ContentRemoved", message };
        }
        let listed =
            self.remaining.iter().map(|(kind, count)| format!("{kind} has {count} resource instances"));
        let message = format!("Some resources are remaining: {}", sorted(listed));
        Condition { kind, holds: true, reason: "SomeResourcesRemain", message }
    }

    fn held(&self) -> Condition {
        let kind = "NamespaceFinalizersRemaining";
        if self.finalizers.is_empty() {
            let message = "All content-preserving finalizers finished".to_owned();
            return Condition { kind, holds: false, reason: "ContentHasNoFinalizers", message };
        }
        let listed =
            self.finalizers.iter().map(|(name, count)| format!("{name} in {count} resource instances"));
        let message = format!("Some content in the namespace has finalizers remaining: {}", sorted(listed));
        Condition { kind, holds: true, reason: "SomeFinalizersRemain", message }
    }
}

fn sorted(texts: impl Iterator<Item = String>) -> String {
    let mut texts: Vec<String> = texts.collect();
    texts.sort();
    texts.join(", ")
}

impl Condition {
    /// Puts the condition among those that are there; its time stays while its status does.
    pub(super) fn put(self, list: &mut Vec<Value>, now: Timestamp) {
        let status = if self.holds { "True" } else { "False" };
        let known = list.iter_mut().find(|known| known["type"] == self.kind);
        let since = match &known {
            Some(known) if known["status"] == status => known["lastTransitionTime"].clone(),
            _ => json!(time_text(now)),
        };
        let condition = json!({
            "type": self.kind, "status": status, "reason": self.reason, "message": self.message,
            "lastTransitionTime": since,
        });
        match known {
            Some(known) => *known = condition,
            None => list.push(condition),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(content: &Content) -> Vec<(String, String, String)> {
        let mut list = Vec::new();
        for condition in content.conditions() {
            condition.put(&mut list, Timestamp::UNIX_EPOCH);
        }
        let text = |condition: &Value, field: &str| condition[field].as_str().unwrap().to_owned();
        list.iter().map(|one| (text(one, "status"), text(one, "reason"), text(one, "message"))).collect()
    }

    fn said(status: &str, reason: &str, message: &str) -> (String, String, String) {
        (status.to_owned(), reason.to_owned(), message.to_owned())
    }

    #[test]
    fn an_empty_namespace_fails_in_nothing() {
        assert_eq!(
            shown(&Content::default()),
            [
                said("False", "ResourcesDiscovered", "All resources successfully discovered"),
                said("False", "ParsedGroupVersions", "All legacy kube types successfully parsed"),
                said(
                    "False",
                    "ContentDeleted",
                    "All content successfully deleted, may be waiting on finalization"
                ),
                said("False", "ContentRemoved", "All content successfully removed"),
                said("False", "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
            ]
        );
    }

    #[test]
    fn what_remains_is_listed() {
        let mut content = Content {
            remaining: vec![("services.".to_owned(), 1), ("deployments.apps".to_owned(), 2)],
            failures: vec!["no".to_owned()],
            ..Content::default()
        };
        content.count_finalizers(&json!({"metadata": {"finalizers": ["example.com/hold"]}}));
        content
            .count_finalizers(&json!({"metadata": {"finalizers": ["example.com/hold", "a.example.com/b"]}}));
        assert_eq!(
            shown(&content)[2..],
            [
                said("True", "ContentDeletionFailed", "Failed to delete all resource types, 1 remaining: no"),
                said(
                    "True",
                    "SomeResourcesRemain",
                    "Some resources are remaining: deployments.apps has 2 resource instances, services. has 1 resource instances"
                ),
                said(
                    "True",
                    "SomeFinalizersRemain",
                    "Some content in the namespace has finalizers remaining: a.example.com/b in 1 resource instances, \
                     example.com/hold in 2 resource instances"
                ),
            ]
        );
    }

    #[test]
    fn a_condition_keeps_its_time_while_it_says_the_same() {
        let later = Timestamp::from_second(60).unwrap();
        let mut list = Vec::new();
        let one = Content { remaining: vec![("pods.".to_owned(), 2)], ..Content::default() };
        one.content().put(&mut list, Timestamp::UNIX_EPOCH);
        let less = Content { remaining: vec![("pods.".to_owned(), 1)], ..Content::default() };
        less.content().put(&mut list, later);
        assert_eq!(list[0]["lastTransitionTime"], json!("1970-01-01T00:00:00Z"));
        Content::default().content().put(&mut list, later);
        assert_eq!((list.len(), &list[0]["lastTransitionTime"]), (1, &json!("1970-01-01T00:01:00Z")));
    }
}
