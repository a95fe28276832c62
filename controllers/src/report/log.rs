//! The lines of the log about failures: one for each event, with who, what, why and when it is tried
//! again.
//!
//! Owns their form; what is said at all is decided in `failures`, and which words in `cause`.

use std::fmt::Display;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::cause::Cause;
use super::failures::{Failures, Over, Say, Span, Subject};
use super::lines::{Named, line_of};

/// What is said where the trouble is over because nobody needs any more what failed.
const MOOT: &str = "what failed is not needed any more";

/// What a failed request was about; what does not apply is left out of the line.
#[derive(Clone, Copy, Debug, Default)]
pub struct About<'a> {
    /// What called for it.
    pub trigger: Option<&'a str>,
    /// What was asked for: a verb of the API.
    pub verb: Option<&'static str>,
    /// Of what: resource and, where it is known, name.
    pub object: Option<&'a str>,
}

/// One failed request.
#[derive(Clone, Copy, Debug)]
pub struct Failure<'a, E> {
    /// What was asked for.
    pub about: About<'a>,
    /// The kind of cause.
    pub cause: &'a Cause,
    /// What the server said, or what became of the connection.
    pub why: &'a E,
}

/// The log of all failures of one process: controllers of several sets share one, so that what all of them have is told once.
#[derive(Debug, Default)]
pub struct FailureLog {
    failures: Mutex<Failures>,
}

impl FailureLog {
    /// Requests of a subject have failed and are sent `again` after a while, if they are. Gives whether
    /// the subject has a trouble that it did not have before.
    pub fn failed<E: Display>(
        &self,
        subject: &Subject,
        failures: &[Failure<'_, E>],
        again: Option<Duration>,
    ) -> bool {
        let causes: Vec<Cause> = failures.iter().map(|failure| failure.cause.clone()).collect();
        let told = self.failures.lock().failed(subject, &causes, Instant::now());
        told.over.iter().for_each(end);
        for (failure, say) in failures.iter().zip(told.say) {
            line(subject, failure, say, again);
        }
        told.news
    }

    /// A request of a subject was carried out, and nothing is left to try again.
    pub fn works(&self, subject: &Subject) {
        let over = self.failures.lock().works(subject, Instant::now());
        over.iter().for_each(end);
    }

    /// The server has answered.
    pub fn answered(&self) {
        let over = self.failures.lock().answered(Instant::now());
        over.iter().for_each(end);
    }

    /// A subject has nothing more to do.
    pub fn rests(&self, subject: &Subject) {
        let over = self.failures.lock().rests(subject, Instant::now());
        over.iter().for_each(end);
    }
}

/// Writes a line about a subject: the level, the subject, more fields, the message.
macro_rules! told {
    ($level:ident, $subject:expr, [$($more:tt)*], $words:expr) => {{
        let (kind, lease, key) = match $subject {
            Some(Subject::Watch(kind) | Subject::LedgerWatch(kind)) => {
                (Some(kind.resource()), None, None)
            }
            Some(Subject::Lease(name)) => (None, Some(&**name), None),
            Some(Subject::Key(key)) => (None, None, Some(key)),
            Some(Subject::Events) | None => (None, None, None),
        };
        let named = key.map(Named::of).unwrap_or_default();
        match key {
            Some(key) => line_of!(
                key.controller,
                $level,
                controller = key.controller.name(),
                namespace = named.namespace,
                service = named.service,
                servicecidr = named.servicecidr,
                nodeportrange = named.nodeportrange,
                servicepool = named.servicepool,
                $($more)*
                "{}",
                $words
            ),
            None => tracing::$level!(watch = kind, lease, $($more)* "{}", $words),
        }
    }};
}

fn line<E: Display>(subject: &Subject, failure: &Failure<'_, E>, say: Say, again: Option<Duration>) {
    let Failure { about, cause, why } = failure;
    let again = again.map(rounded).map(tracing::field::debug);
    let span = if let Say::Lasts(span) = say { Some(span) } else { None };
    macro_rules! told_at {
        ($level:ident) => {
            told!(
                $level,
                Some(subject),
                [
                    trigger = about.trigger,
                    verb = about.verb,
                    object = about.object,
                    lacks = cause.lacks(),
                    why = %why,
                    again,
                    lasted = span.map(|span| tracing::field::debug(rounded(span.lasted))),
                    tries = span.map(|span| span.tries),
                    affected = span.map(|span| span.affected),
                ],
                cause.words().trouble
            )
        };
    }
    match say {
        Say::Quiet => told_at!(debug),
        Say::Begins if cause.is_usual() => told_at!(info),
        Say::Begins | Say::Lasts(_) => told_at!(warn),
    }
}

fn end(over: &Over) {
    let Over { subject, carried_out, cause, span: Span { lasted, tries, affected } } = over;
    told!(
        info,
        subject.as_ref(),
        [lacked = cause.lacks(), lasted = ?rounded(*lasted), tries, affected,],
        if *carried_out { cause.words().over } else { MOOT }
    );
}

/// A time as people read it: milliseconds, from one second on tenths.
fn rounded(time: Duration) -> Duration {
    let milliseconds = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(if milliseconds < 1000 { milliseconds } else { milliseconds / 100 * 100 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        let said = |micros| format!("{:?}", rounded(Duration::from_micros(micros)));
        assert_eq!(said(49_137), "49ms");
        assert_eq!(said(15_427_508), "15.4s");
        assert_eq!(said(300_000_123), "300s");
    }
}
