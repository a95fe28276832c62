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

/// Names for the sets that belong to rules. Left to itself the kernel looks at the name of every set of the table to find a free
/// number, which is most of what a new rule costs in a large table.
#[derive(Debug)]
pub(crate) struct OwnNames {
    prefix: String,
    next: u64,
}

impl OwnNames {
    /// Names that begin with this; nobody else in the table may use it.
    pub(crate) const fn new(prefix: String) -> Self {
        Self { prefix, next: 0 }
    }

    fn next(&mut self, kind: &str) -> String {
        self.next += 1;
        format!("__{kind}-{}-{}", self.prefix, self.next)
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

    /// A new set that belongs to a rule; `kind` is what the `nft` tool calls it, `map` or `set`.
    pub(crate) fn own_set(&mut self, kind: &str) -> OwnRef {
        OwnRef { id: self.set_id(), name: self.names.next(kind) }
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
