//! The line of the log about a reconcile that wrote something: one, however many writes it took.
//!
//! What it says is put together by pure functions; writes that failed have lines of their own (`log`).

use super::metrics::Planned;
use crate::api::{Resource, Verb};
use crate::controller::{Controller, Key};

/// So many objects are named; of more there is a number.
const NAMED: usize = 3;

/// What a reconcile wrote.
#[derive(Clone, Debug)]
pub(crate) struct ReconcileLine<'a> {
    /// What was reconciled, and by which controller.
    pub key: &'a Key,
    /// What called for it.
    pub trigger: &'a str,
    /// What was decided, if more can be said than the writes say.
    pub decision: Option<&'a str>,
    /// The kind of what was written.
    pub resource: Resource,
    /// The writes that were carried out: what was done, and to which object.
    pub written: Vec<(Verb, String)>,
    /// What they change in endpoints.
    pub planned: Planned,
    /// How many writes were not carried out.
    pub failed: usize,
}

impl<'a> ReconcileLine<'a> {
    /// That of one write to the object of the key itself, which was carried out.
    #[must_use]
    pub(crate) fn of_one(
        key: &'a Key,
        trigger: &'a str,
        decision: Option<&'a str>,
        resource: Resource,
        verb: Verb,
    ) -> Self {
        let (written, planned) = (vec![(verb, key.name.to_string())], Planned::default());
        Self { key, trigger, decision, resource, written, planned, failed: 0 }
    }

    /// The decision in words, as `create 2, update 1: 3 endpoints come, 1 goes`.
    #[must_use]
    pub(crate) fn decision(&self) -> String {
        if let Some(decision) = self.decision {
            return decision.to_owned();
        }
        let verbs = [Verb::Create, Verb::Update, Verb::Merge, Verb::Delete].map(|verb| {
            let count = self.written.iter().filter(|(done, _)| *done == verb).count();
            (count > 0).then(|| format!("{} {count}", verb.name()))
        });
        let verbs: Vec<String> = verbs.into_iter().flatten().collect();
        let Planned { added, updated, removed, .. } = self.planned;
        let moved = [(added, "come", "comes"), (removed, "go", "goes"), (updated, "change", "changes")];
        let moved: Vec<String> = moved
            .into_iter()
            .filter(|(count, ..)| *count > 0)
            .map(|(count, many, one)| format!("{count} {}", if count == 1 { one } else { many }))
            .collect();
        let verbs = verbs.join(", ");
        if moved.is_empty() { verbs } else { format!("{verbs}: of the endpoints {}", moved.join(", ")) }
    }

    /// The names of what was written, as far as they are few.
    #[must_use]
    pub(crate) fn objects(&self) -> String {
        let named: Vec<&str> = self.written.iter().take(NAMED).map(|(_, name)| &**name).collect();
        let more = self.written.len() - named.len();
        let named = named.join(", ");
        if more == 0 { named } else { format!("{named} and {more} more") }
    }

    /// Writes the line, if there was something to write.
    pub(crate) fn tell(&self) {
        if self.written.is_empty() {
            return;
        }
        let (namespace, name) = (&*self.key.namespace, &*self.key.name);
        let cidr = self.key.controller == Controller::Cidrs;
        let (objects, failed) = (self.objects(), (self.failed > 0).then_some(self.failed));
        tracing::info!(
            controller = self.key.controller.name(),
            namespace = (!cidr).then_some(namespace),
            service = (!cidr).then_some(name),
            servicecidr = cidr.then_some(name),
            trigger = self.trigger,
            decision = self.decision(),
            writes = self.written.len(),
            failed,
            slices = (self.resource == Resource::Slices).then_some(&*objects),
            "wrote {}",
            match self.resource {
                Resource::Slices => "slices",
                Resource::ServiceCidrs => "service CIDR",
                other => other.plural(),
            }
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(key: &Key) -> ReconcileLine<'_> {
        ReconcileLine {
            key,
            trigger: "pods",
            decision: None,
            resource: Resource::Slices,
            written: Vec::new(),
            planned: Planned::default(),
            failed: 0,
        }
    }

    #[test]
    fn a_reconcile_is_put_into_words() {
        let key = Key { controller: Controller::Slices, namespace: "n".into(), name: "web".into() };
        let named = |verb, number: usize| (verb, format!("web-{number}"));
        let mut line = line(&key);
        line.written = vec![named(Verb::Update, 1)];
        line.planned = Planned { updated: 1, ..Planned::default() };
        assert_eq!(
            (line.decision(), line.objects()),
            ("update 1: of the endpoints 1 changes".into(), "web-1".into())
        );
        line.written = (1..=5).map(|number| named(Verb::Create, number)).collect();
        line.written.push(named(Verb::Delete, 6));
        line.planned = Planned { added: 500, removed: 1, ..Planned::default() };
        assert_eq!(line.decision(), "create 5, delete 1: of the endpoints 500 come, 1 goes");
        assert_eq!(line.objects(), "web-1, web-2, web-3 and 3 more");
        line.planned = Planned::default();
        assert_eq!(line.decision(), "create 5, delete 1");
        line.decision = Some("take the finalizer off");
        assert_eq!(line.decision(), "take the finalizer off");
    }
}
