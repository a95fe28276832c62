//! What is known of each kind, and what of it the browsers do not know yet.
//!
//! Pure. Rows are texts: what the browser gets is put together from them and never made anew.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fmt::Write as _,
    sync::Arc,
};

use crate::kinds::Kind;

/// More changes than this at once are no news for a browser: it reads all anew.
const MOST_CHANGES: usize = 2000;

/// How a kind's rows stand to the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum State {
    /// Its first list is not complete.
    #[default]
    Reading,
    /// They are what the server said last.
    Current,
    /// The server does not have the kind.
    Absent,
    /// They cannot be read, for this reason; rows that are there are of before.
    Failing(String),
}

#[derive(Debug, Default)]
struct Table {
    rows: BTreeMap<Arc<str>, Arc<str>>,
    state: State,
    /// The keys of a list that is under way.
    listed: Option<HashSet<Arc<str>>>,
    /// The keys that changed since the browsers were told.
    changed: BTreeSet<Arc<str>>,
}

/// The rows of all kinds.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    kinds: [Table; Kind::ALL.len()],
    /// How often the browsers were told.
    version: u64,
    /// Counts every change.
    stamp: u64,
    /// A state changed.
    state_changed: bool,
    /// There is too much to tell.
    all_anew: bool,
}

/// Rows at one moment, to be put together when nobody waits for the tables.
#[derive(Debug)]
pub(crate) struct Rows {
    version: u64,
    stamp: u64,
    tables: Vec<(Kind, State, Vec<Arc<str>>)>,
}

/// What the browsers are to be told.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// These changes, as JSON.
    Changes(String),
    /// That they have to read all anew.
    AllAnew,
}

impl Tables {
    fn table(&mut self, kind: Kind) -> &mut Table {
        &mut self.kinds[kind as usize]
    }

    /// A list begins.
    pub(crate) fn list_begins(&mut self, kind: Kind) {
        self.table(kind).listed = Some(HashSet::new());
    }

    /// An object is seen, in a list or because it changed.
    pub(crate) fn set(&mut self, kind: Kind, key: String, row: String) {
        let table = self.table(kind);
        let key: Arc<str> = key.into();
        if let Some(listed) = &mut table.listed {
            listed.insert(Arc::clone(&key));
        }
        if table.rows.get(&key).is_some_and(|known| **known == *row) {
            return;
        }
        table.rows.insert(Arc::clone(&key), row.into());
        self.note(kind, key);
    }

    /// An object is gone.
    pub(crate) fn remove(&mut self, kind: Kind, key: &str) {
        if let Some((key, _)) = self.table(kind).rows.remove_entry(key) {
            self.note(kind, key);
        }
    }

    /// A list is complete: what it has not is gone.
    pub(crate) fn list_ends(&mut self, kind: Kind) {
        let table = self.table(kind);
        let Some(listed) = table.listed.take() else { return };
        let gone: Vec<Arc<str>> = table.rows.keys().filter(|key| !listed.contains(*key)).cloned().collect();
        for key in gone {
            self.remove(kind, &key);
        }
        self.set_state(kind, State::Current);
    }

    /// Says how a kind stands. One that comes or goes changes more than rows can say.
    pub(crate) fn set_state(&mut self, kind: Kind, state: State) {
        let table = self.table(kind);
        if table.state == state {
            return;
        }
        let first = table.state == State::Reading;
        if state == State::Absent {
            table.rows.clear();
        }
        table.state = state;
        self.stamp += 1;
        self.state_changed = true;
        self.all_anew |= first;
    }

    fn note(&mut self, kind: Kind, key: Arc<str>) {
        self.stamp += 1;
        let table = self.table(kind);
        // Until the first list is complete, nobody has seen a row.
        if table.state != State::Reading && table.changed.len() <= MOST_CHANGES {
            table.changed.insert(key);
        }
    }

    /// Counts every change; who knows this number knows these rows.
    pub(crate) const fn stamp(&self) -> u64 {
        self.stamp
    }

    /// What happened since the last time, if anything did.
    pub(crate) fn news(&mut self) -> Option<News> {
        let changes: usize = self.kinds.iter().map(|table| table.changed.len()).sum();
        let states = std::mem::take(&mut self.state_changed);
        if changes == 0 && !states {
            return None;
        }
        self.version += 1;
        if changes > MOST_CHANGES {
            self.all_anew = false;
            self.kinds.iter_mut().for_each(|table| table.changed.clear());
            return Some(News::AllAnew);
        }
        // What changed is told next: who has read all by then knows more than this says.
        if std::mem::take(&mut self.all_anew) {
            return Some(News::AllAnew);
        }
        Some(News::Changes(self.changes(states)))
    }

    fn changes(&mut self, states: bool) -> String {
        let (mut set, mut gone) = (Vec::new(), Vec::new());
        for kind in Kind::ALL {
            let table = self.table(kind);
            let changed = std::mem::take(&mut table.changed);
            let (there, missing): (Vec<_>, Vec<_>) =
                changed.iter().partition(|key| table.rows.contains_key(*key));
            let rows: Vec<&str> =
                there.iter().filter_map(|key| table.rows.get(*key)).map(|row| &**row).collect();
            if !rows.is_empty() {
                set.push(format!("{:?}:[{}]", kind.name(), rows.join(",")));
            }
            if !missing.is_empty() {
                let keys: Vec<String> = missing.iter().map(|key| quoted(key)).collect();
                gone.push(format!("{:?}:[{}]", kind.name(), keys.join(",")));
            }
        }
        let states = if states {
            format!(",\"kinds\":{}", kinds(Kind::ALL.iter().zip(self.kinds.iter().map(|table| &table.state))))
        } else {
            String::new()
        };
        format!(
            "{{\"version\":{},\"set\":{{{}}},\"gone\":{{{}}}{states}}}",
            self.version,
            set.join(","),
            gone.join(",")
        )
    }

    /// All rows as they are now.
    pub(crate) fn rows(&self) -> Rows {
        let tables = Kind::ALL.iter().zip(&self.kinds);
        let tables =
            tables.map(|(kind, table)| (*kind, table.state.clone(), table.rows.values().cloned().collect()));
        Rows { version: self.version, stamp: self.stamp, tables: tables.collect() }
    }
}

impl Rows {
    /// Which state of the tables these are.
    pub(crate) const fn stamp(&self) -> u64 {
        self.stamp
    }

    /// All rows, with `about` (the members of a JSON object) in front.
    pub(crate) fn json(&self, about: &str) -> String {
        let size: usize = self.tables.iter().flat_map(|(_, _, rows)| rows).map(|row| row.len() + 1).sum();
        let mut text = String::with_capacity(size + 1024);
        let states = kinds(self.tables.iter().map(|(kind, state, _)| (kind, state)));
        // Writing to a text does not fail.
        let _ = write!(text, "{{\"version\":{},{about},\"kinds\":{states},\"rows\":{{", self.version);
        for (at, (kind, _, rows)) in self.tables.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            let _ = write!(text, "{comma}{:?}:[", kind.name());
            for (at, row) in rows.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                text.push_str(row);
            }
            text.push(']');
        }
        text.push_str("}}");
        text
    }
}

/// The states of kinds, as a JSON object.
fn kinds<'a>(states: impl Iterator<Item = (&'a Kind, &'a State)>) -> String {
    let states = states.map(|(kind, state)| {
        let (word, why) = match state {
            State::Reading => ("reading", None),
            State::Current => ("current", None),
            State::Absent => ("absent", None),
            State::Failing(why) => ("failing", Some(why)),
        };
        let why = why.map_or_else(String::new, |why| format!(",\"why\":{}", quoted(why)));
        format!("{:?}:{{\"state\":\"{word}\"{why}}}", kind.name())
    });
    format!("{{{}}}", states.collect::<Vec<_>>().join(","))
}

/// A text as JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn set(tables: &mut Tables, key: &str, n: u32) {
        tables.set(Kind::Services, key.to_owned(), json!({"name": key, "n": n}).to_string());
    }

    fn listed(keys: &[&str]) -> Tables {
        let mut tables = Tables::default();
        tables.list_begins(Kind::Services);
        for key in keys {
            set(&mut tables, key, 0);
        }
        tables.list_ends(Kind::Services);
        tables
    }

    fn changes(tables: &mut Tables) -> Option<Value> {
        match tables.news() {
            Some(News::Changes(text)) => Some(serde_json::from_str(&text).unwrap()),
            Some(News::AllAnew) => Some(json!("all anew")),
            None => None,
        }
    }

    #[test]
    fn a_first_list_is_read_as_a_whole() {
        let mut tables = listed(&["a", "b"]);
        assert_eq!(changes(&mut tables), Some(json!("all anew")));
        let all: Value = serde_json::from_str(&tables.rows().json("\"about\":1")).unwrap();
        assert_eq!(all["rows"]["services"], json!([{"name": "a", "n": 0}, {"name": "b", "n": 0}]));
        assert_eq!(all["kinds"]["services"], json!({"state": "current"}));
        assert_eq!(all["kinds"]["endpointslices"], json!({"state": "reading"}));
        assert_eq!((&all["version"], &all["about"]), (&json!(1), &json!(1)));
        assert_eq!(changes(&mut tables), None);
    }

    #[test]
    fn changes_are_told_once_and_together() {
        let mut tables = listed(&["a", "b", "c"]);
        tables.news();
        set(&mut tables, "a", 1);
        set(&mut tables, "a", 2);
        set(&mut tables, "c", 0);
        tables.remove(Kind::Services, "b");
        tables.remove(Kind::Services, "unknown");
        let told =
            json!({"version": 2, "set": {"services": [{"name": "a", "n": 2}]}, "gone": {"services": ["b"]}});
        assert_eq!(changes(&mut tables), Some(told));
        assert_eq!(changes(&mut tables), None);
    }

    #[test]
    fn what_a_later_list_has_not_is_gone() {
        let mut tables = listed(&["a", "b"]);
        tables.news();
        tables.list_begins(Kind::Services);
        set(&mut tables, "b", 0);
        set(&mut tables, "c", 0);
        tables.list_ends(Kind::Services);
        let told = changes(&mut tables).unwrap();
        assert_eq!(told["set"]["services"], json!([{"name": "c", "n": 0}]));
        assert_eq!(told["gone"]["services"], json!(["a"]));
    }

    #[test]
    fn what_changes_before_a_first_list_is_told_is_told_after_it() {
        let mut tables = listed(&["a"]);
        set(&mut tables, "b", 1);
        assert_eq!(changes(&mut tables), Some(json!("all anew")));
        assert_eq!(changes(&mut tables).unwrap()["set"]["services"], json!([{"name": "b", "n": 1}]));
        assert_eq!(changes(&mut tables), None);
    }

    #[test]
    fn too_many_changes_are_told_as_all() {
        let mut tables = listed(&[]);
        tables.news();
        for n in 0..5000 {
            set(&mut tables, &n.to_string(), n);
        }
        assert_eq!(changes(&mut tables), Some(json!("all anew")));
        set(&mut tables, "one", 1);
        assert_eq!(changes(&mut tables).unwrap()["set"]["services"], json!([{"name": "one", "n": 1}]));
    }

    #[test]
    fn a_kind_that_fails_is_told_with_the_reason_and_keeps_its_rows() {
        let mut tables = listed(&["a"]);
        tables.news();
        tables.set_state(Kind::Services, State::Failing("a \"reason\"".to_owned()));
        let told = changes(&mut tables).unwrap();
        assert_eq!(told["kinds"]["services"], json!({"state": "failing", "why": "a \"reason\""}));
        let all: Value = serde_json::from_str(&tables.rows().json("\"about\":1")).unwrap();
        assert_eq!(all["rows"]["services"].as_array().unwrap().len(), 1);
        tables.set_state(Kind::Services, State::Absent);
        let all: Value = serde_json::from_str(&tables.rows().json("\"about\":1")).unwrap();
        assert_eq!(all["rows"]["services"], json!([]));
    }
}
