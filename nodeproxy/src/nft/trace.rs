//! Where a packet lands: walks the first packet of a connection through a table as the kernel would.
//!
//! Pure, and independent of how the rules came about: tests ask it, so that they are about packets and not about texts.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::IpAddr,
};

use super::{
    diff::{Slot, Table},
    model::{BaseKind, Chain, Container, Element, Hook, Key, Rule, Side, Statement, Verdict},
};
use crate::{
    endpoint::{Place, Protocol},
    names::Name,
};

/// The first packet of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// Where it comes from.
    pub source: IpAddr,
    /// Where it goes.
    pub destination: IpAddr,
    /// Its protocol.
    pub protocol: Protocol,
    /// Its port.
    pub port: u16,
    /// The interface it came in by; none if this machine sends it.
    pub interface: Option<String>,
}

/// What becomes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Landing {
    /// It goes where it was sent, unless nobody is there.
    Unchanged,
    /// It goes to another place.
    Sent {
        /// Where.
        to: Place,
        /// Whether the source becomes the node's.
        masqueraded: bool,
    },
    /// It is refused with an answer.
    Rejected,
    /// It is refused without an answer.
    Dropped,
}

/// A machine with a table.
#[derive(Debug)]
pub struct Tracer<'a> {
    chains: HashMap<&'a str, &'a Chain>,
    elements: HashMap<Slot, &'a Element>,
    /// The machine's own addresses.
    local: BTreeSet<IpAddr>,
    /// Which clients the sets remember.
    remembered: BTreeMap<Name, BTreeSet<IpAddr>>,
}

enum Outcome {
    /// On to the next base chain.
    Goes,
    /// Back to whoever jumped here: a chain that was gone to has no other end.
    Returns,
    Ends(Landing),
}

struct Walk {
    packet: Packet,
    mark: u32,
    rewritten: bool,
    masqueraded: bool,
    /// Which of several is chosen.
    pick: usize,
}

impl<'a> Tracer<'a> {
    /// A machine with these addresses and this table.
    pub fn new(table: &'a Table, local: impl IntoIterator<Item = IpAddr>) -> Self {
        Self {
            chains: table.chains().map(|chain| (&*chain.name, chain)).collect(),
            elements: table.elements().map(|element| ((element.container, element.key), element)).collect(),
            local: local.into_iter().collect(),
            remembered: BTreeMap::new(),
        }
    }

    /// Sends a packet; where one of several is chosen, the one with this number, counted round.
    pub fn send(&mut self, packet: Packet, pick: usize) -> Landing {
        let sent_here = packet.interface.is_none();
        let mut walk = Walk { packet, mark: 0, rewritten: false, masqueraded: false, pick };
        let first = if sent_here { Hook::Output } else { Hook::Prerouting };
        for hook in [Some(first), None, Some(Hook::Postrouting)] {
            // Where a packet that arrived goes on depends on what became of its destination.
            let hook = match hook {
                Some(hook) => hook,
                None if sent_here => continue,
                None if self.local.contains(&walk.packet.destination) => Hook::Input,
                None => Hook::Forward,
            };
            if let Outcome::Ends(landing) = self.hook(hook, &mut walk) {
                return landing;
            }
        }
        if walk.rewritten {
            let to = Place { ip: walk.packet.destination, port: walk.packet.port };
            Landing::Sent { to, masqueraded: walk.masqueraded }
        } else {
            Landing::Unchanged
        }
    }

    fn hook(&mut self, hook: Hook, walk: &mut Walk) -> Outcome {
        let mut chains: Vec<&'a Chain> = self
            .chains
            .values()
            .copied()
            .filter(|chain| chain.base.is_some_and(|base| base.hook == hook))
            .collect();
        chains.sort_by_key(|chain| chain.base.map(|base| (base.priority, base.kind == BaseKind::Nat)));
        for chain in chains {
            if let Some(Outcome::Ends(landing)) = self.chain(&chain.name, walk) {
                return Outcome::Ends(landing);
            }
        }
        Outcome::Goes
    }

    /// None if the chain does not decide.
    fn chain(&mut self, name: &str, walk: &mut Walk) -> Option<Outcome> {
        let chain = *self.chains.get(name)?;
        let outcome = chain.rules.iter().find_map(|rule| self.rule(rule, walk));
        outcome.filter(|outcome| !matches!(outcome, Outcome::Returns))
    }

    fn rule(&mut self, rule: &'a Rule, walk: &mut Walk) -> Option<Outcome> {
        for statement in &rule.statements {
            if let Some(matches) = self.matches(statement, walk) {
                if !matches {
                    return None;
                }
                continue;
            }
            match statement {
                Statement::Mark(bits) => walk.mark |= bits,
                Statement::FlipMark(bits) => walk.mark ^= bits,
                Statement::Remember(set) => {
                    self.remembered.entry(set.clone()).or_default().insert(walk.packet.source);
                }
                decision => {
                    if let Some(outcome) = self.decide(decision, walk) {
                        return Some(outcome);
                    }
                }
            }
        }
        None
    }

    /// None if the statement is no condition.
    fn matches(&self, statement: &Statement, walk: &Walk) -> Option<bool> {
        let packet = &walk.packet;
        let of = |side: Side| match side {
            Side::Source => packet.source,
            Side::Destination => packet.destination,
        };
        Some(match statement {
            Statement::ConnectionIsNew => true,
            Statement::ConnectionIsRewritten => walk.rewritten,
            Statement::ProtocolIs(protocol) => packet.protocol == *protocol,
            Statement::AddressIn { side, negated, nets } => {
                nets.iter().any(|net| net.contains(&of(*side))) != *negated
            }
            Statement::AddressInSet { side, set } => self.in_set(set, of(*side)),
            Statement::AddressIsLocal(side) => self.local.contains(&of(*side)),
            Statement::Interface { negated, name, prefix } => {
                let by = packet.interface.as_deref().unwrap_or_default();
                (if *prefix { by.starts_with(name.as_str()) } else { by == name }) != *negated
            }
            Statement::Marked(bits) => walk.mark & bits != 0,
            Statement::ConnectionInSet(set) => {
                packet.source == packet.destination
                    && self
                        .element(set, Key::Connection(packet.source, packet.protocol, packet.port))
                        .is_some()
            }
            _ => return None,
        })
    }

    fn in_set(&self, set: &Name, ip: IpAddr) -> bool {
        if Container::by_name(set).is_some() {
            return self.element(set, Key::Address(ip)).is_some();
        }
        self.remembered.get(set).is_some_and(|clients| clients.contains(&ip))
    }

    fn element(&self, set: &str, key: Key) -> Option<&'a Element> {
        self.elements.get(&(Container::by_name(set)?, key)).copied()
    }

    fn decide(&mut self, statement: &'a Statement, walk: &mut Walk) -> Option<Outcome> {
        let packet = &walk.packet;
        let key = match statement {
            Statement::ByAddress(_) => Key::AddressAndPort(packet.destination, packet.protocol, packet.port),
            _ => Key::Port(packet.protocol, packet.port),
        };
        match statement {
            Statement::ByAddress(map) | Statement::ByPort(map) => {
                match self.element(map, key).and_then(|element| element.verdict.as_ref())? {
                    Verdict::Drop => Some(Outcome::Ends(Landing::Dropped)),
                    Verdict::Goto(chain) => Some(self.chain(chain, walk).unwrap_or(Outcome::Returns)),
                }
            }
            Statement::Goto(chain) => Some(self.chain(chain, walk).unwrap_or(Outcome::Returns)),
            Statement::GotoOneOf(chains) => {
                let chain = chains.get(walk.pick % chains.len().max(1))?;
                Some(self.chain(chain, walk).unwrap_or(Outcome::Returns))
            }
            Statement::Jump(chain) => self.chain(chain, walk),
            Statement::SendToOneOf(places) => {
                let place = *places.get(walk.pick % places.len().max(1))?;
                Some(rewrite(walk, place))
            }
            Statement::SendTo(place) => Some(rewrite(walk, *place)),
            Statement::Masquerade => {
                walk.masqueraded = true;
                Some(Outcome::Goes)
            }
            Statement::Reject => Some(Outcome::Ends(Landing::Rejected)),
            Statement::Drop => Some(Outcome::Ends(Landing::Dropped)),
            _ => None,
        }
    }
}

const fn rewrite(walk: &mut Walk, place: Place) -> Outcome {
    walk.packet.destination = place.ip;
    walk.packet.port = place.port;
    walk.rewritten = true;
    Outcome::Goes
}
