//! The kernel of the calling thread's network namespace.

use std::collections::HashMap;

use netlink_bindings::nftables::{
    Nfgenmsg, OpGetgenDo, PushChainAttrs, PushRuleAttrs, PushSetAttrs, PushSetelemListAttrs, PushTableAttrs,
};
use rustix::net::netlink;
use service_api::address::Family;

use super::{
    model::Op,
    run::{Kernel, RunError},
    wire::{Kind, OwnNames, Snapshot, Socket, SocketError, encode, family_number, message, of_family},
};
use crate::names::TABLE;

/// The flags of a request for everything.
const DUMP: u16 = 0x300;
/// How often a reading that was disturbed is begun again.
const TRIES: usize = 5;

/// A way to the kernel's nf_tables.
#[derive(Debug)]
pub struct Netlink {
    socket: Socket,
    /// How new sets of each family's table are named.
    names: HashMap<Family, OwnNames>,
}

impl Netlink {
    /// Opens it.
    pub fn open() -> Result<Self, RunError> {
        let socket = Socket::open(Some(netlink::NETFILTER));
        let socket = socket.map_err(|error| RunError::from_socket(error, &[]))?;
        Ok(Self { socket, names: HashMap::new() })
    }

    fn ask(
        &mut self,
        kind: Kind,
        flags: u16,
        family: Family,
        body: impl FnOnce(&mut Vec<u8>),
        each: impl FnMut(u16, &[u8]),
    ) -> Result<(), SocketError> {
        let mut buffer = Vec::new();
        message(&mut buffer, kind.number(), flags, 0, &of_family(family_number(family)), body);
        self.socket.ask(&buffer, each)
    }

    fn read_once(&mut self, family: Family) -> Result<Snapshot, SocketError> {
        let mut snapshot = Snapshot::default();
        let table = TABLE.as_bytes();
        // The acknowledgement ends the answer, also where there is no table.
        let ack = 4;
        let found = self.ask(
            Kind::GetTable,
            ack,
            family,
            |buffer| drop(PushTableAttrs::new(buffer).push_name_bytes(table)),
            |_, body| snapshot.on_table(body),
        );
        match found {
            Err(SocketError::Refused { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                return Ok(snapshot);
            }
            found => found?,
        }
        self.ask(
            Kind::GetChain,
            DUMP,
            family,
            |buffer| drop(PushChainAttrs::new(buffer).push_table_bytes(table)),
            |_, body| {
                if of_table(body, 1) {
                    snapshot.on_chain(body);
                }
            },
        )?;
        self.ask(
            Kind::GetSet,
            DUMP,
            family,
            |buffer| drop(PushSetAttrs::new(buffer).push_table_bytes(table)),
            |_, body| {
                if of_table(body, 1) {
                    snapshot.on_set(body);
                }
            },
        )?;
        self.ask(
            Kind::GetRule,
            DUMP,
            family,
            |buffer| drop(PushRuleAttrs::new(buffer).push_table_bytes(table)),
            |_, body| {
                if of_table(body, 1) {
                    snapshot.on_rule(body);
                }
            },
        )?;
        self.read_elements(family, &mut snapshot)?;
        self.names.insert(family, OwnNames::beside(&snapshot.sets.keys().map(|name| &**name)));
        Ok(snapshot)
    }

    fn read_elements(&mut self, family: Family, snapshot: &mut Snapshot) -> Result<(), SocketError> {
        for name in snapshot.to_read() {
            self.ask(
                Kind::GetElement,
                DUMP,
                family,
                |buffer| {
                    let list = PushSetelemListAttrs::new(buffer).push_table_bytes(TABLE.as_bytes());
                    drop(list.push_set_bytes(name.as_bytes()));
                },
                |_, body| snapshot.on_elements(body),
            )?;
        }
        Ok(())
    }
}

/// Whether a message is about our table; older kernels tell of all of them.
fn of_table(body: &[u8], attr: u16) -> bool {
    body.get(Nfgenmsg::len()..)
        .and_then(|attrs| netlink_bindings::utils::find_attr(attrs, attr))
        .is_some_and(|name| name.strip_suffix(&[0]) == Some(TABLE.as_bytes()))
}

impl Kernel for Netlink {
    fn apply(&mut self, ops: &[Op], family: Family) -> Result<usize, RunError> {
        let (buffer, steps) = encode(
            ops,
            family,
            self.names.entry(family).or_insert_with(|| OwnNames::beside(&std::iter::empty())),
        );
        let done = self.socket.transact(&buffer);
        done.map(|()| buffer.len()).map_err(|error| {
            let op = match &error {
                SocketError::Refused { sequence, .. } => {
                    let step = usize::try_from(*sequence).ok().and_then(|at| steps.get(at));
                    step.and_then(|step| ops.get(usize::try_from(*step).ok()?))
                }
                _ => None,
            };
            RunError::from_socket(error, op.map_or(&[], std::slice::from_ref))
        })
    }

    fn read(&mut self, family: Family) -> Result<Snapshot, RunError> {
        for _ in 1..TRIES {
            match self.read_once(family) {
                Err(SocketError::Disturbed) => {}
                read => return read.map_err(|error| RunError::from_socket(error, &[])),
            }
        }
        self.read_once(family).map_err(|error| RunError::from_socket(error, &[]))
    }

    fn generation(&mut self) -> Result<u32, RunError> {
        let mut generation = 0;
        let ack = 4;
        self.ask(
            Kind::GetGeneration,
            ack,
            Family::V4,
            |_| {},
            |_, body| {
                let (_, attrs) = OpGetgenDo::decode_request(body);
                generation = attrs.get_id().unwrap_or(0);
            },
        )
        .map_err(|error| RunError::from_socket(error, &[]))?;
        Ok(generation)
    }
}
