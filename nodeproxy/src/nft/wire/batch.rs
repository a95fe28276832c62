//! A transaction as one buffer of messages.

use netlink_bindings::{
    builtin::Nlmsghdr,
    nftables::{Nfgenmsg, PushBatchAttrs},
};

const SUBSYSTEM: u16 = 10;
const BATCH_BEGIN: u16 = 16;
const BATCH_END: u16 = 17;
const NLM_F_REQUEST: u16 = 1;
/// Refuses what is there already.
pub(crate) const EXCLUSIVE: u16 = 0x200;
/// Makes what is not there.
pub(crate) const CREATE: u16 = 0x400;
/// Adds at the end.
pub(crate) const APPEND: u16 = 0x800;

/// The kinds of messages (`enum nf_tables_msg_types`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    NewTable = 0,
    GetTable = 1,
    DeleteTable = 2,
    NewChain = 3,
    GetChain = 4,
    DeleteChain = 5,
    NewRule = 6,
    GetRule = 7,
    DeleteRule = 8,
    NewSet = 9,
    GetSet = 10,
    DeleteSet = 11,
    NewElement = 12,
    GetElement = 13,
    DeleteElement = 14,
    GetGeneration = 16,
}

impl Kind {
    /// The type in a message's header.
    pub(crate) const fn number(self) -> u16 {
        SUBSYSTEM << 8 | self as u16
    }
}

/// A message of this kind at the end of a buffer.
pub(crate) fn message(
    buffer: &mut Vec<u8>,
    number: u16,
    flags: u16,
    sequence: u32,
    header: &Nfgenmsg,
    body: impl FnOnce(&mut Vec<u8>),
) {
    let start = buffer.len();
    buffer.extend_from_slice(Nlmsghdr::new().as_slice());
    buffer.extend_from_slice(header.as_slice());
    body(buffer);
    buffer.resize(buffer.len().next_multiple_of(4), 0);
    let length = u32::try_from(buffer.len() - start).unwrap_or(u32::MAX);
    let head = Nlmsghdr { len: length, r#type: number, flags: flags | NLM_F_REQUEST, seq: sequence, pid: 0 };
    buffer[start..start + Nlmsghdr::len()].copy_from_slice(head.as_slice());
}

/// The header of a message about a family.
pub(crate) fn of_family(number: u8) -> Nfgenmsg {
    let mut header = Nfgenmsg::new();
    header.nfgen_family = number;
    header
}

/// Digits of a set's number, the lowest first, so that names differ where they begin.
const DIGITS: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";

/// Names for the sets that belong to rules, which nobody sees. For each new set the kernel compares its name with that of every set of
/// the table, and for the rule again, so names are short and differ in their first letters: that is most of what a rule costs in a
/// large table. Left to itself the kernel would look for a free number among them, which costs more.
#[derive(Debug)]
pub(crate) struct OwnNames {
    ending: String,
    next: u32,
}

impl OwnNames {
    /// Names that none of these sets has.
    pub(crate) fn beside<'a>(there: &(impl Iterator<Item = &'a str> + Clone)) -> Self {
        let mut ending = String::new();
        loop {
            // Names end with one of these letters, so one of them is free as soon as there are more of them than sets.
            let free = ('A'..='Z').find(|letter| {
                let ending = format!("{letter}{ending}");
                !there.clone().any(|name| name.ends_with(&ending))
            });
            if let Some(letter) = free {
                return Self { ending: format!("{letter}{ending}"), next: 0 };
            }
            ending.insert(0, 'Z');
        }
    }

    fn next(&mut self) -> String {
        let mut number = self.next;
        // After so many rules they begin anew; should one still be there the kernel refuses it, and a look finds other names.
        self.next = self.next.wrapping_add(1);
        let mut name = String::with_capacity(8);
        loop {
            name.push(char::from(DIGITS[(number % 32) as usize]));
            number /= 32;
            if number == 0 {
                break;
            }
        }
        name + &self.ending
    }
}

/// A set that was made in this transaction.
#[derive(Debug, Clone)]
pub(crate) struct OwnRef {
    /// Its number in the transaction.
    pub id: u32,
    /// Its name.
    pub name: String,
}

/// A transaction: all or nothing.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    /// The messages.
    pub buffer: Vec<u8>,
    family: u8,
    sequence: u32,
    /// Which step of the caller each message belongs to, by its sequence number; the first one opens the batch.
    steps: Vec<u32>,
    step: u32,
    sets: u32,
    names: &'a mut OwnNames,
}

impl<'a> Batch<'a> {
    /// A transaction about a family's tables.
    pub(crate) fn begin(family: u8, names: &'a mut OwnNames) -> Self {
        let mut batch = Self {
            buffer: Vec::with_capacity(4096),
            family,
            sequence: 0,
            steps: Vec::new(),
            step: 0,
            sets: 0,
            names,
        };
        batch.edge(BATCH_BEGIN);
        batch
    }

    fn edge(&mut self, number: u16) {
        let mut header = Nfgenmsg::new();
        header.set_res_id(SUBSYSTEM);
        message(&mut self.buffer, number, 0, self.sequence, &header, |buffer| {
            let _ = PushBatchAttrs::new(buffer);
        });
        self.steps.push(self.step);
        self.sequence += 1;
    }

    /// The messages that follow belong to this step.
    pub(crate) fn step(&mut self, step: usize) {
        self.step = u32::try_from(step).unwrap_or(u32::MAX);
    }

    /// A number for a new set.
    pub(crate) fn set_id(&mut self) -> u32 {
        self.sets += 1;
        self.sets
    }

    /// A new set that belongs to a rule.
    pub(crate) fn own_set(&mut self) -> OwnRef {
        OwnRef { id: self.set_id(), name: self.names.next() }
    }

    /// Adds a message.
    pub(crate) fn add(&mut self, kind: Kind, flags: u16, body: impl FnOnce(&mut Vec<u8>)) {
        message(&mut self.buffer, kind.number(), flags, self.sequence, &of_family(self.family), body);
        self.steps.push(self.step);
        self.sequence += 1;
    }

    /// The whole transaction, and the step of each message.
    pub(crate) fn end(mut self) -> (Vec<u8>, Vec<u32>) {
        self.edge(BATCH_END);
        (self.buffer, self.steps)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn beside(there: &[&str]) -> OwnNames {
        OwnNames::beside(&there.iter().copied())
    }

    #[test]
    fn names_are_short_and_differ_where_they_begin() {
        let mut names = beside(&[]);
        let all: Vec<String> = (0..40_000).map(|_| names.next()).collect();
        assert_eq!(all[..2], ["0A", "1A"]);
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        assert!(all.iter().all(|name| name.len() <= 5));
        assert!(all.windows(2).all(|two| two[0].as_bytes()[0] != two[1].as_bytes()[0]));
    }

    #[test]
    fn no_name_is_one_that_is_there() {
        let mut first = beside(&["service-ips", "__map0"]);
        let there: Vec<String> = (0..100).map(|_| first.next()).collect();
        let mut second = OwnNames::beside(&there.iter().map(String::as_str));
        let more: Vec<String> = (0..100).map(|_| second.next()).collect();
        assert!(more.iter().all(|name| !there.contains(name)));
        // Also where every letter is the end of one already.
        let letters: Vec<String> = ('A'..='Z').map(String::from).collect();
        assert_eq!(OwnNames::beside(&letters.iter().map(String::as_str)).next(), "0AZ");
    }
}
