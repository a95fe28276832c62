//! What is told of failures: of each trouble its beginning, now and then that it lasts, and its end.
//!
//! Owns which troubles there are and who has them. Pure: what happened and when come in, what to say
//! goes out. Counting each failure is the metrics' business.

use std::time::Duration;

use foldhash::HashMap;
use tokio::time::Instant;

use super::cause::Cause;
use crate::controller::Key;
use crate::objects::ObjectKind;
use crate::text::Text;

/// A trouble that lasts is told again after so long.
const REMIND: Duration = Duration::from_mins(5);
/// And after so long a person is told of it again by an Event: an API server keeps one for an hour.
const NEWS: Duration = Duration::from_mins(30);
/// What comes again so soon after its end is the same trouble: one of several servers that does not
/// answer, or one that is busy now and then, is not told anew each time.
const CALM: Duration = Duration::from_mins(1);
/// Unless it then stays for so long.
const AGAIN: Duration = Duration::from_secs(10);

/// Who fails.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// The watch of a kind.
    Watch(ObjectKind),
    /// That of the ledger, which has watches of its own.
    LedgerWatch(ObjectKind),
    /// The election, by the name of its lease.
    Lease(Text),
    /// A controller's work on an object.
    Key(Key),
    /// The writing of Events.
    Events,
}

/// What to say of one failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Say {
    /// A trouble begins.
    Begins,
    /// It is known already: a line for debugging only.
    Quiet,
    /// It lasts.
    Lasts(Span),
}

/// How far a trouble has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// How long it has lasted.
    pub lasted: Duration,
    /// How many tries have failed.
    pub tries: u64,
    /// How many have it, or had it to the end.
    pub affected: usize,
}

/// A trouble that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Over {
    /// Who had it, unless others had it too.
    pub subject: Option<Subject>,
    /// Whether what failed was carried out; otherwise nobody needs it any more.
    pub carried_out: bool,
    /// What it was.
    pub cause: Cause,
    /// How far it came.
    pub span: Span,
}

/// What to say after a round of failures.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FailureReport {
    /// Troubles that these failures end: a server that refuses can be reached.
    pub over: Vec<Over>,
    /// For each failure, in their order.
    pub say: Vec<Say>,
    /// Whether the subject has a trouble that it did not have before, or has had for long.
    pub news: bool,
}

#[derive(Debug)]
struct Trouble {
    /// When it began first, and what failed since.
    first: Instant,
    total: u64,
    /// When it began, or began again, and what failed since.
    since: Instant,
    tries: u64,
    rounds: u64,
    /// When it was told last.
    told: Option<Instant>,
    /// Whether it was told since it began again, so that its end is told too.
    open: bool,
    /// Since when nobody has it.
    rests: Option<Instant>,
    /// Who has it, and since when it is no news to them.
    affected: HashMap<Subject, Instant>,
    most: usize,
    /// Whether somebody who had it got through.
    ends_well: bool,
}

impl Trouble {
    fn new(now: Instant) -> Self {
        Self {
            first: now,
            total: 0,
            since: now,
            tries: 0,
            rounds: 0,
            told: None,
            open: false,
            rests: None,
            affected: HashMap::default(),
            most: 0,
            ends_well: false,
        }
    }

    /// Begins again, if it was over.
    fn wake(&mut self, now: Instant) {
        if let Some(rests) = self.rests.take() {
            let known = now.duration_since(rests) < CALM;
            let Self { first, total, told, .. } = *self;
            *self = Self::new(now);
            if known {
                (self.first, self.total, self.told) = (first, total, told);
            }
        }
    }

    /// A subject has it no longer; gives whether it was the last.
    fn leaves(&mut self, subject: &Subject) -> bool {
        self.affected.remove(subject).is_some() && self.affected.is_empty()
    }

    fn is_news(&mut self, subject: &Subject, now: Instant) -> bool {
        let known = self.affected.get(subject).is_some_and(|told| now.duration_since(*told) < NEWS);
        if !known {
            self.affected.insert(subject.clone(), now);
            self.most = self.most.max(self.affected.len());
        }
        !known
    }

    fn say(&mut self, cause: &Cause, now: Instant) -> Say {
        let begins = match self.told {
            None => self.rounds >= cause.worth_telling(),
            Some(_) => !self.open && now.duration_since(self.since) >= AGAIN,
        };
        if begins {
            (self.told, self.open) = (Some(now), true);
            return Say::Begins;
        }
        if self.told.is_none_or(|told| now.duration_since(told) < REMIND) {
            return Say::Quiet;
        }
        self.told = Some(now);
        Say::Lasts(Span {
            lasted: now.duration_since(self.first),
            tries: self.total,
            affected: self.affected.len(),
        })
    }

    /// Nobody has it any more; gives how far it came, and whether somebody got through, if that has to be told. The end
    /// of what is usual is expected.
    fn end(&mut self, cause: &Cause, now: Instant) -> Option<(Span, bool)> {
        self.rests = Some(now);
        self.affected.clear();
        let lasted = now.duration_since(self.since);
        let worth = self.open && !(cause.is_usual() && lasted < REMIND);
        worth.then_some((Span { lasted, tries: self.tries, affected: self.most }, self.ends_well))
    }
}

/// The troubles there are.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    /// Those that are the same for all who have them.
    shared: HashMap<Cause, Trouble>,
    /// Those of one subject alone: however many have some, they are no concern of the others.
    own: HashMap<Subject, HashMap<Cause, Trouble>>,
    #[cfg(test)]
    looked_at: usize,
}

impl Failures {
    /// A subject has failed, for one cause or, where it sends several requests at a time, for several.
    pub(crate) fn failed(&mut self, subject: &Subject, causes: &[Cause], now: Instant) -> FailureReport {
        let mut told = FailureReport::default();
        if causes.iter().any(|cause| !cause.is_silence()) {
            if causes.iter().any(Cause::is_answer) {
                told.over = self.answered(now);
            }
            // It has come further than what it failed for before. (Silence says nothing of that.)
            let left =
                |cause: &Cause, trouble: &mut Trouble| !causes.contains(cause) && trouble.leaves(subject);
            told.over.extend(self.end(Some(subject), now, left).into_iter().filter(|over| over.carried_out));
        }
        for (i, cause) in causes.iter().enumerate() {
            let troubles = if cause.is_shared() {
                &mut self.shared
            } else {
                self.own.entry(subject.clone()).or_default()
            };
            let trouble = troubles.entry(cause.clone()).or_insert_with(|| Trouble::new(now));
            trouble.wake(now);
            trouble.tries += 1;
            trouble.total += 1;
            if causes[..i].contains(cause) {
                told.say.push(Say::Quiet);
                continue;
            }
            trouble.rounds += 1;
            told.news |= trouble.is_news(subject, now);
            told.say.push(trouble.say(cause, now));
        }
        told
    }

    /// A request of a subject was carried out, and nothing is left to try again.
    #[must_use = "what is over has to be told"]
    pub(crate) fn works(&mut self, subject: &Subject, now: Instant) -> Vec<Over> {
        self.end(Some(subject), now, |cause, trouble| {
            let had = trouble.affected.contains_key(subject);
            trouble.ends_well |= had || cause.is_silence();
            cause.is_silence() || trouble.leaves(subject)
        })
    }

    /// The server has answered: there is no silence.
    #[must_use = "what is over has to be told"]
    pub(crate) fn answered(&mut self, now: Instant) -> Vec<Over> {
        self.end(None, now, |cause, trouble| {
            trouble.ends_well |= cause.is_silence();
            cause.is_silence()
        })
    }

    /// A subject has nothing more to do.
    #[must_use = "what is over has to be told"]
    pub(crate) fn rests(&mut self, subject: &Subject, now: Instant) -> Vec<Over> {
        // That the server is silent stays true, whoever noticed it.
        self.end(Some(subject), now, |cause, trouble| trouble.leaves(subject) && !cause.is_silence())
    }

    /// Ends some of the troubles that are shared or a subject's own; gives those whose end has to be told.
    /// What only one can have is forgotten, what many can have not before it has stayed away for a while.
    #[must_use = "what is over has to be told"]
    fn end(
        &mut self,
        subject: Option<&Subject>,
        now: Instant,
        mut is_over: impl FnMut(&Cause, &mut Trouble) -> bool,
    ) -> Vec<Over> {
        let mut over = Vec::new();
        let own = subject.and_then(|subject| self.own.get_mut(subject));
        #[cfg(test)]
        {
            self.looked_at += self.shared.len() + own.as_ref().map_or(0, |own| own.len());
        }
        let mut stays = |cause: &Cause, trouble: &mut Trouble| {
            if let Some(rests) = trouble.rests {
                return now.duration_since(rests) < CALM;
            }
            if !is_over(cause, trouble) {
                return true;
            }
            let shared = cause.is_shared();
            if let Some((span, carried_out)) = trouble.end(cause, now) {
                let subject = subject.filter(|_| !shared).cloned();
                over.push(Over { subject, carried_out, cause: cause.clone(), span });
            }
            shared
        };
        self.shared.retain(&mut stays);
        if let Some(own) = own {
            own.retain(stays);
            if own.is_empty()
                && let Some(subject) = subject
            {
                self.own.remove(subject);
            }
        }
        over
    }
}

#[cfg(test)]
mod tests;
