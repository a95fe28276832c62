//! Answers of the last seconds, by the uid of their question: the API server may ask the same again.
//!
//! Owns how long they are kept. The same uid with another object is another question: other webhooks changed it between.

use std::collections::{BTreeSet, HashMap};

use service_allocators::pools::Seconds;

use super::review::Verdict;

/// The most answers that are kept; beyond that the oldest is forgotten early.
const MOST: usize = 16_384;

#[derive(Debug, Default)]
pub(super) struct Answers {
    of: HashMap<(String, u64), (Verdict, Seconds)>,
    until: BTreeSet<(Seconds, String, u64)>,
}

impl Answers {
    /// The answer to this question, if it was asked lately.
    pub(super) fn find(&self, uid: &str, about: u64) -> Option<Verdict> {
        self.of.get(&(uid.to_owned(), about)).map(|(verdict, _)| verdict.clone())
    }

    pub(super) fn remember(&mut self, uid: String, about: u64, verdict: Verdict, until: Seconds) {
        if self.of.len() >= MOST
            && let Some((_, uid, about)) = self.until.pop_first()
        {
            self.of.remove(&(uid, about));
        }
        self.until.insert((until, uid.clone(), about));
        self.of.insert((uid, about), (verdict, until));
    }

    /// Forgets what is older.
    pub(super) fn forget(&mut self, now: Seconds) {
        while let Some((until, _, _)) = self.until.first()
            && *until <= now
            && let Some((_, uid, about)) = self.until.pop_first()
        {
            self.of.remove(&(uid, about));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_kept_for_its_time_and_no_longer() {
        let mut answers = Answers::default();
        answers.remember("a".into(), 1, Verdict::Refuse("no".into()), 10);
        assert_eq!(answers.find("a", 2), None);
        answers.forget(9);
        assert_eq!(answers.find("a", 1), Some(Verdict::Refuse("no".into())));
        answers.forget(10);
        assert_eq!(answers.find("a", 1), None);
        assert!(answers.until.is_empty());
    }

    #[test]
    fn there_are_never_too_many() {
        let mut answers = Answers::default();
        for i in 0..=MOST {
            answers.remember(i.to_string(), 0, Verdict::LeaveAlone, i64::try_from(i).unwrap());
        }
        assert_eq!((answers.of.len(), answers.until.len()), (MOST, MOST));
        assert_eq!(answers.find("0", 0), None);
    }
}
