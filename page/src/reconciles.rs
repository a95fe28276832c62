//! What the controllers did lately, line by line, as their log says it.
//!
//! Owns the last lines and who waits for the next one. It knows no field of a line: whatever the log says is shown.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::broadcast;

/// So many lines are kept.
const KEPT: usize = 2000;
/// A line with more characters is cut: the log has it whole.
const LONGEST: usize = 4000;
/// So many lines wait for a viewer who is slow.
const WAITING: usize = 512;

/// A line as the browser gets it: a JSON object with the number `n`, the time `at`, the `level` and the `fields`.
pub(crate) type Line = Arc<str>;

/// The last lines. Clones are of the same lines.
#[derive(Debug, Clone)]
pub struct Reconciles(Arc<Kept>);

#[derive(Debug)]
struct Kept {
    lines: Mutex<VecDeque<(u64, Line)>>,
    next: AtomicU64,
    sender: broadcast::Sender<Line>,
}

impl Default for Reconciles {
    fn default() -> Self {
        let lines = Mutex::new(VecDeque::new());
        Self(Arc::new(Kept { lines, next: AtomicU64::new(1), sender: broadcast::Sender::new(WAITING) }))
    }
}

impl Reconciles {
    /// Takes one line: when it was written, in milliseconds since 1970, its level, and its fields.
    pub fn record(&self, at: i64, level: &str, fields: Map<String, Value>) {
        let fields = fields.into_iter().map(|(name, value)| (name, cut(value))).collect::<Map<_, _>>();
        let mut lines = self.0.lines.lock();
        let number = self.0.next.fetch_add(1, Relaxed);
        let line = serde_json::json!({"n": number, "at": at, "level": level, "fields": fields});
        let line: Line = line.to_string().into();
        if lines.len() == KEPT {
            lines.pop_front();
        }
        lines.push_back((number, Arc::clone(&line)));
        // Nobody may be waiting.
        let _ = self.0.sender.send(line);
    }

    /// The lines with a number above `after`, as a JSON list.
    pub fn since(&self, after: u64) -> String {
        let lines: Vec<Line> = {
            let lines = self.0.lines.lock();
            lines.iter().filter(|(number, _)| *number > after).map(|(_, line)| Arc::clone(line)).collect()
        };
        list(&lines)
    }

    /// The lines to come.
    pub(crate) fn follow(&self) -> broadcast::Receiver<Line> {
        self.0.sender.subscribe()
    }
}

/// Lines as a JSON list.
pub(crate) fn list(lines: &[Line]) -> String {
    format!("[{}]", lines.iter().map(|line| &**line).collect::<Vec<_>>().join(","))
}

fn cut(value: Value) -> Value {
    match value {
        Value::String(text) if text.len() > LONGEST => {
            let end = (0..=LONGEST).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
            Value::String(format!("{}…", &text[..end]))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn numbers(lines: &str) -> Vec<u64> {
        let lines: Vec<Value> = serde_json::from_str(lines).unwrap();
        lines.iter().map(|line| line["n"].as_u64().unwrap()).collect()
    }

    fn fields(text: &str) -> Map<String, Value> {
        Map::from_iter([("decision".to_owned(), json!(text))])
    }

    #[test]
    fn the_last_lines_are_kept() {
        let lines = Reconciles::default();
        for _ in 0..KEPT + 3 {
            lines.record(7, "INFO", fields("update 1"));
        }
        let kept = numbers(&lines.since(0));
        assert_eq!((kept.len(), kept[0]), (KEPT, 4));
        assert_eq!(numbers(&lines.since(KEPT as u64 + 1)), [KEPT as u64 + 2, KEPT as u64 + 3]);
    }

    #[test]
    fn a_long_field_is_cut_at_a_character() {
        let lines = Reconciles::default();
        let mut following = lines.follow();
        lines.record(7, "INFO", fields(&"é".repeat(LONGEST)));
        let line: Value = serde_json::from_str(&following.try_recv().unwrap()).unwrap();
        let text = line["fields"]["decision"].as_str().unwrap();
        assert!(text.ends_with("é…") && text.len() < LONGEST + 5);
        assert_eq!((&line["at"], &line["level"]), (&json!(7), &json!("INFO")));
    }
}
