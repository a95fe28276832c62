//! What is told of failures: of each trouble its beginning, now and then that it lasts, and its end.
//!
//! Owns which troubles there are and who has them. Pure: what happened and when come in, what to say
//! goes out. Counting each failure is the metrics' business.

use std::time::Duration;

use foldhash::HashMap;
use tokio::time::Instant;

use super::cause::Cause;
use crate::text::Text;
use crate::watch::relist::Kind;
use crate::watch::world::Key;

/// A trouble that lasts is told again after so long.
const REMIND: Duration = Duration::from_mins(5);
/// And is news to a subject again after so long: an API server keeps an Event for an hour.
const NEWS: Duration = Duration::from_mins(30);

/// Who fails.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// The watch of a kind.
    Watch(Kind),
    /// The election, by the name of its lease.
    Lease(Text),
    /// A controller's work on an object.
    Key(Key),
}

/// What to say of one failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Say {
    /// A trouble begins.
    Begins,
    /// It is known: only for who asks.
    Quiet,
    /// It lasts.
    Lasts(Span),
}

/// How far a trouble has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// How long it has lasted.
    pub lasted: Duration,
    /// How many tries have failed.
    pub tries: u64,
    /// How many have it, or had it to the end.
    pub affected: usize,
}

/// A trouble that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Over {
    /// Who had it, unless others had it too.
    pub subject: Option<Subject>,
    /// What it was.
    pub cause: Cause,
    /// How far it came.
    pub span: Span,
}

/// What to say after a round of failures.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Troubles that these failures end: whoever refuses can be reached.
    pub over: Vec<Over>,
    /// For each failure, in their order.
    pub say: Vec<Say>,
    /// Whether the subject has a trouble that it did not have before, or has had for long.
    pub news: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Which {
    /// None where it is the same trouble for all.
    subject: Option<Subject>,
    cause: Cause,
}

#[derive(Debug)]
struct Trouble {
    since: Instant,
    told: Option<Instant>,
    tries: u64,
    rounds: u64,
    /// Who has it, and since when it is no news to them.
    affected: HashMap<Subject, Instant>,
    most: usize,
    /// Whether somebody who had it got through.
    ends_well: bool,
}

impl Trouble {
    fn new(now: Instant) -> Self {
        Self {
            since: now,
            told: None,
            tries: 0,
            rounds: 0,
            affected: HashMap::default(),
            most: 0,
            ends_well: false,
        }
    }

    fn span(&self, now: Instant) -> Span {
        Span { lasted: now.duration_since(self.since), tries: self.tries, affected: self.most }
    }

    fn is_news(&mut self, subject: &Subject, now: Instant) -> bool {
        let known = self.affected.get(subject).is_some_and(|told| now.duration_since(*told) < NEWS);
        if !known {
            self.affected.insert(subject.clone(), now);
        }
        !known
    }

    fn say(&mut self, cause: &Cause, now: Instant) -> Say {
        match self.told {
            None if self.rounds < cause.worth_telling() => Say::Quiet,
            None => {
                self.told = Some(now);
                Say::Begins
            }
            Some(told) if now.duration_since(told) < REMIND => Say::Quiet,
            Some(_) => {
                self.told = Some(now);
                Say::Lasts(Span { affected: self.affected.len(), ..self.span(now) })
            }
        }
    }
}

/// The troubles there are.
#[derive(Debug, Default)]
pub struct Failures {
    troubles: HashMap<Which, Trouble>,
}

impl Failures {
    /// A subject has failed, for one cause or, where it sends several requests at a time, for several.
    pub fn failed(&mut self, subject: &Subject, causes: &[Cause], now: Instant) -> Told {
        let mut told = Told::default();
        if causes.iter().any(|cause| !cause.is_silence()) {
            told.over = self.answered(now);
            // It has come further than what it failed for before. (Silence says nothing of that.)
            self.leave(subject, causes);
        }
        for (i, cause) in causes.iter().enumerate() {
            let own = (!cause.is_shared()).then(|| subject.clone());
            let which = Which { subject: own, cause: cause.clone() };
            let trouble = self.troubles.entry(which).or_insert_with(|| Trouble::new(now));
            trouble.tries += 1;
            if causes[..i].contains(cause) {
                told.say.push(Say::Quiet);
                continue;
            }
            trouble.rounds += 1;
            told.news |= trouble.is_news(subject, now);
            trouble.most = trouble.most.max(trouble.affected.len());
            told.say.push(trouble.say(cause, now));
        }
        told
    }

    /// A request of a subject was carried out, and nothing is left to try again.
    #[must_use = "what is over has to be told"]
    pub fn works(&mut self, subject: &Subject, now: Instant) -> Vec<Over> {
        let mut over = self.answered(now);
        for trouble in self.troubles.values_mut() {
            trouble.ends_well |= trouble.affected.remove(subject).is_some();
        }
        over.extend(self.end(now, |_, trouble| trouble.affected.is_empty()));
        over
    }

    /// The server has answered: there is no silence.
    #[must_use = "what is over has to be told"]
    pub fn answered(&mut self, now: Instant) -> Vec<Over> {
        self.end(now, |cause, trouble| {
            trouble.ends_well |= cause.is_silence();
            cause.is_silence()
        })
    }

    /// A subject has nothing more to do.
    #[must_use = "what is over has to be told"]
    pub fn rests(&mut self, subject: &Subject, now: Instant) -> Vec<Over> {
        for trouble in self.troubles.values_mut() {
            trouble.affected.remove(subject);
        }
        self.end(now, |cause, trouble| !cause.is_silence() && trouble.affected.is_empty())
    }

    fn leave(&mut self, subject: &Subject, but: &[Cause]) {
        self.troubles.retain(|which, trouble| {
            if !but.contains(&which.cause) {
                trouble.affected.remove(subject);
            }
            !trouble.affected.is_empty()
        });
    }

    /// Ends some troubles; gives those that were told and that somebody got the better of.
    fn end(&mut self, now: Instant, mut is_over: impl FnMut(&Cause, &mut Trouble) -> bool) -> Vec<Over> {
        if self.troubles.is_empty() {
            return Vec::new();
        }
        let mut over = Vec::new();
        self.troubles.retain(|which, trouble| {
            let ends = is_over(&which.cause, trouble);
            if ends && trouble.told.is_some() && trouble.ends_well {
                let Which { subject, cause } = which.clone();
                over.push(Over { subject, cause, span: trouble.span(now) });
            }
            !ends
        });
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::world::Controller;

    const PODS: Subject = Subject::Watch(Kind::Pods);
    const NODES: Subject = Subject::Watch(Kind::Nodes);

    fn key(name: &str) -> Subject {
        Subject::Key(Key { controller: Controller::Slices, namespace: "n".into(), name: name.into() })
    }

    fn denied() -> Cause {
        Cause::Denied("create endpointslices.discovery.k8s.io".into())
    }

    /// Failures at seconds since the beginning.
    struct Story {
        failures: Failures,
        begun: Instant,
    }

    impl Story {
        fn new() -> Self {
            Self { failures: Failures::default(), begun: Instant::now() }
        }

        fn at(&self, seconds: u64) -> Instant {
            self.begun + Duration::from_secs(seconds)
        }

        fn failed(&mut self, seconds: u64, subject: &Subject, cause: Cause) -> Told {
            let now = self.at(seconds);
            self.failures.failed(subject, &[cause], now)
        }

        fn says(&mut self, seconds: u64, subject: &Subject, cause: Cause) -> Say {
            let told = self.failed(seconds, subject, cause);
            assert_eq!(told.over, []);
            told.say[0]
        }

        fn works(&mut self, seconds: u64, subject: &Subject) -> Vec<Over> {
            let now = self.at(seconds);
            self.failures.works(subject, now)
        }
    }

    #[test]
    fn an_outage_is_told_once_for_all_and_its_end_with_how_long_it_was() {
        let mut story = Story::new();
        assert_eq!(story.says(0, &PODS, Cause::Unreachable), Say::Begins);
        for seconds in 1..40 {
            for subject in [&PODS, &NODES, &Subject::Lease("lock".into()), &key("web")] {
                assert_eq!(story.says(seconds, subject, Cause::Unreachable), Say::Quiet);
            }
        }
        let over = story.works(43, &NODES);
        let span = Span { lasted: Duration::from_secs(43), tries: 157, affected: 4 };
        assert_eq!(over, [Over { subject: None, cause: Cause::Unreachable, span }]);
        assert_eq!(story.works(44, &PODS), []);
        assert_eq!(story.says(50, &PODS, Cause::Unreachable), Say::Begins, "the next one is told again");
    }

    #[test]
    fn a_refusal_ends_an_outage_and_is_told_itself() {
        let mut story = Story::new();
        story.says(0, &PODS, Cause::Unreachable);
        let told = story.failed(9, &NODES, Cause::Denied("list nodes".into()));
        assert_eq!(told.say, [Say::Begins]);
        assert_eq!(told.over.len(), 1);
        assert_eq!(told.over[0].cause, Cause::Unreachable);
    }

    #[test]
    fn a_connection_that_breaks_off_once_is_not_worth_a_line() {
        let mut story = Story::new();
        for seconds in [0, 60, 120] {
            assert_eq!(story.says(seconds, &PODS, Cause::Broken), Say::Quiet);
            assert_eq!(story.works(seconds + 1, &PODS), []);
        }
        assert_eq!(story.says(180, &PODS, Cause::Broken), Say::Quiet);
        assert_eq!(story.says(181, &PODS, Cause::Broken), Say::Begins);
    }

    #[test]
    fn what_lasts_is_told_again_with_what_it_came_to() {
        let mut story = Story::new();
        assert_eq!(story.says(0, &key("a"), denied()), Say::Begins);
        assert_eq!(story.says(1, &key("b"), denied()), Say::Quiet);
        assert_eq!(story.says(299, &key("a"), denied()), Say::Quiet);
        let span = Span { lasted: Duration::from_mins(5), tries: 4, affected: 2 };
        assert_eq!(story.says(300, &key("b"), denied()), Say::Lasts(span));
        assert_eq!(story.says(301, &key("b"), denied()), Say::Quiet);
        assert_eq!(story.works(400, &key("a")), [], "one of two is not the end");
        assert_eq!(story.works(401, &key("b"))[0].span.affected, 2);
    }

    #[test]
    fn another_cause_is_told_at_once_and_each_subject_has_its_own() {
        let mut story = Story::new();
        let rejected = |text: &str| Cause::Rejected(text.into());
        assert_eq!(story.says(0, &key("a"), rejected("port")), Say::Begins);
        assert_eq!(story.says(1, &key("a"), rejected("port")), Say::Quiet);
        assert_eq!(story.says(2, &key("a"), rejected("zone")), Say::Begins);
        assert_eq!(story.says(3, &key("b"), rejected("zone")), Say::Begins);
        assert_eq!(story.says(4, &PODS, Cause::Expired), Say::Begins);
        assert_eq!(story.says(4, &NODES, Cause::Expired), Say::Begins);
        let over = story.works(5, &key("a"));
        assert_eq!((over.len(), &over[0].cause), (1, &rejected("zone")), "the other one was left before");
    }

    #[test]
    fn an_outage_does_not_end_what_was_there_before() {
        let mut story = Story::new();
        assert_eq!(story.says(0, &key("a"), denied()), Say::Begins);
        assert_eq!(story.says(10, &key("a"), Cause::Unreachable), Say::Begins);
        assert!(!story.failed(20, &key("a"), denied()).news);
        assert_eq!(story.says(21, &key("a"), denied()), Say::Quiet);
    }

    #[test]
    fn several_writes_at_a_time_are_one_round() {
        let mut story = Story::new();
        let now = story.begun;
        let causes = [denied(), Cause::Overtaken, denied(), Cause::Overtaken];
        let told = story.failures.failed(&key("a"), &causes, now);
        assert_eq!(told.say, [Say::Begins, Say::Quiet, Say::Quiet, Say::Quiet]);
        assert!(told.news);
        for _ in 0..6 {
            let told = story.failures.failed(&key("a"), &causes, now);
            assert_eq!(told.say, [Say::Quiet; 4]);
            assert!(!told.news);
        }
        let told = story.failures.failed(&key("a"), &causes, now);
        assert_eq!(told.say[1], Say::Begins, "overtaken in eight rounds");
    }

    #[test]
    fn a_person_is_told_before_the_last_event_is_forgotten() {
        let mut story = Story::new();
        let mut told = (0..=60).filter(|minute| story.failed(minute * 60, &key("a"), denied()).news);
        assert_eq!((told.next(), told.next(), told.next()), (Some(0), Some(30), Some(60)));
    }

    #[test]
    fn a_service_that_is_deleted_is_no_recovery() {
        let mut story = Story::new();
        story.says(0, &key("a"), denied());
        story.says(0, &key("b"), denied());
        story.says(0, &key("b"), Cause::Unreachable);
        let now = story.at(1);
        assert_eq!(story.failures.rests(&key("a"), now), []);
        assert_eq!(story.failures.rests(&key("b"), now), []);
        let over = story.works(2, &PODS);
        assert_eq!((over.len(), &over[0].cause), (1, &Cause::Unreachable), "only an answer ends an outage");
    }
}
