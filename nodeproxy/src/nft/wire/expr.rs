//! A rule as the kernel's instructions, in the same order and registers as the `nft` tool makes them, so that it lists them as
//! people know them.

use ipnet::IpNet;
use service_api::address::Family;
use smallvec::smallvec;

use super::super::model::{Rule, Side, Statement};
use super::elements::{Bytes, Raw, RawVerdict, address_bytes, index_key, intervals, place_bytes};
use crate::{endpoint::Place, names::Name};

/// The verdict register, and the first of those for data (`enum nft_registers`).
pub(crate) const VERDICT: u32 = 0;
/// The first register for data.
pub(crate) const REG1: u32 = 1;
const REG32: u32 = 8;
const WORDS: usize = 4;

/// Which header a packet's bytes are read from (`enum nft_payload_bases`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Header {
    /// IP.
    Network = 1,
    /// TCP, UDP, SCTP.
    Transport = 2,
}

/// Keys of `meta` (`enum nft_meta_keys`).
pub(crate) mod meta {
    /// The packet's mark.
    pub(crate) const MARK: u32 = 3;
    /// The name of the interface it came by.
    pub(crate) const IIFNAME: u32 = 6;
    /// Its transport protocol.
    pub(crate) const L4PROTO: u32 = 16;
}

/// Keys of `ct` and the bits looked for there (`enum nft_ct_keys`, `enum ip_conntrack_status`).
pub(crate) mod ct {
    /// The state of the connection.
    pub(crate) const STATE: u32 = 0;
    /// What was done to it.
    pub(crate) const STATUS: u32 = 2;
    /// The state `new`.
    pub(crate) const NEW: u32 = 8;
    /// Its destination was rewritten.
    pub(crate) const DNAT: u32 = 1 << 5;
}

/// A set that an instruction looks into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SetRef {
    /// One of the table.
    Named(Name),
    /// One that belongs to the rule: its number in [`LoweredRule::sets`].
    Own(usize),
}

/// An instruction of the kernel's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expr {
    /// Loads bytes of a header.
    Payload { header: Header, offset: u32, len: u32, to: u32 },
    /// Loads something that is known of the packet.
    Meta { key: u32, to: u32 },
    /// Sets something.
    MetaSet { key: u32, from: u32 },
    /// Compares.
    Cmp { from: u32, differs: bool, with: Bytes },
    /// Masks and flips bits, in place.
    Bitwise { reg: u32, mask: Bytes, xor: Bytes },
    /// Loads something that is known of the connection.
    Ct { key: u32, to: u32 },
    /// Loads the kind of an address, as the routes have it: 1 for the source, 2 for the destination (`NFTA_FIB_F_*`).
    Fib { flags: u32, to: u32 },
    /// Loads a random number below another.
    Numgen { below: u32, to: u32 },
    /// Looks into a set; into a map if there is a register for what it says.
    Lookup { from: u32, set: SetRef, to: Option<u32>, absent: bool },
    /// Loads a value.
    Immediate { to: u32, value: Bytes },
    /// Decides.
    Verdict(RawVerdict),
    /// Rewrites the destination.
    Nat { family: u32, address: u32, port: u32 },
    /// Rewrites the source, with a random port.
    Masquerade,
    /// Refuses with "port unreachable".
    Reject { code: u8 },
    /// Puts a value into a set or renews it.
    Update { set: Name, from: u32 },
    /// Something that no rule of ours has.
    Unknown(String),
}

/// A set that belongs to a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnSet {
    /// What its keys are.
    pub key: OwnKey,
    /// Its elements, in the order of their keys.
    pub elements: Vec<Raw>,
}

/// What a rule's own set is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnKey {
    /// A number to a place.
    Places,
    /// A number to a chain.
    Chains,
    /// Ranges of addresses.
    Addresses,
}

/// A rule in instructions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoweredRule {
    /// The instructions.
    pub exprs: Vec<Expr>,
    /// Its own sets.
    pub sets: Vec<OwnSet>,
    /// Its comment.
    pub comment: Option<String>,
}

/// A rule of a family in instructions.
pub(crate) fn lower(rule: &Rule, family: Family) -> LoweredRule {
    let comment = rule.comment.map(str::to_owned);
    let mut lowering =
        Lowering { family, rule: LoweredRule { exprs: Vec::new(), sets: Vec::new(), comment } };
    for statement in &rule.statements {
        lowering.statement(statement);
    }
    lowering.rule
}

/// The register where the word at this place of a concatenation stands, counted from [`REG1`].
fn register(word: usize) -> u32 {
    let word_u32 = u32::try_from(word).unwrap_or(0);
    if word.is_multiple_of(WORDS) { REG1 + word_u32 / 4 } else { REG32 + word_u32 }
}

/// Where an address stands in the IP header, and how long it is.
const fn address_at(family: Family, side: Side) -> (u32, u32) {
    match (family, side) {
        (Family::V4, Side::Source) => (12, 4),
        (Family::V4, Side::Destination) => (16, 4),
        (Family::V6, Side::Source) => (8, 16),
        (Family::V6, Side::Destination) => (24, 16),
    }
}

/// The number of a family in instructions (`NFPROTO_*`).
pub(crate) const fn family_number(family: Family) -> u8 {
    match family {
        Family::V4 => 2,
        Family::V6 => 10,
    }
}

struct Lowering {
    family: Family,
    rule: LoweredRule,
}

impl Lowering {
    fn push(&mut self, expr: Expr) {
        self.rule.exprs.push(expr);
    }

    fn own(&mut self, key: OwnKey, elements: Vec<Raw>) -> SetRef {
        self.rule.sets.push(OwnSet { key, elements });
        SetRef::Own(self.rule.sets.len() - 1)
    }

    fn statement(&mut self, statement: &Statement) {
        match statement {
            Statement::ConnectionIsNew => self.connection(ct::STATE, ct::NEW),
            Statement::ConnectionIsRewritten => self.connection(ct::STATUS, ct::DNAT),
            Statement::ProtocolIs(protocol) => {
                self.push(Expr::Meta { key: meta::L4PROTO, to: REG1 });
                self.push(Expr::Cmp { from: REG1, differs: false, with: smallvec![protocol.number()] });
            }
            Statement::AddressIn { side, negated, nets } => self.address_in(*side, *negated, nets),
            Statement::AddressInSet { side, set } => {
                self.address(*side, 0);
                self.lookup(SetRef::Named(set.clone()), None);
            }
            Statement::AddressIsLocal(side) => {
                let flags = if *side == Side::Source { 1 } else { 2 };
                self.push(Expr::Fib { flags, to: REG1 });
                let local: u32 = 2;
                self.push(Expr::Cmp { from: REG1, differs: false, with: local.to_ne_bytes()[..].into() });
            }
            Statement::Interface { negated, name, prefix } => {
                self.push(Expr::Meta { key: meta::IIFNAME, to: REG1 });
                let mut with: Bytes = name.as_bytes().into();
                if !prefix {
                    with.resize(16, 0);
                }
                self.push(Expr::Cmp { from: REG1, differs: *negated, with });
            }
            Statement::Marked(bits) => {
                self.push(Expr::Meta { key: meta::MARK, to: REG1 });
                self.bits(*bits);
            }
            Statement::ConnectionInSet(set) => {
                let words = self.address(Side::Source, 0);
                let words = words + self.address(Side::Destination, words);
                self.protocol_and_port(words);
                self.lookup(SetRef::Named(set.clone()), None);
            }
            Statement::Mark(bits) => self.mark(!bits, *bits),
            Statement::FlipMark(bits) => self.mark(u32::MAX, *bits),
            Statement::Remember(set) => {
                self.address(Side::Source, 0);
                self.push(Expr::Update { set: set.clone(), from: REG1 });
            }
            decision => self.decision(decision),
        }
    }

    fn decision(&mut self, statement: &Statement) {
        match statement {
            Statement::ByAddress(map) => {
                let words = self.address(Side::Destination, 0);
                self.protocol_and_port(words);
                self.lookup(SetRef::Named(map.clone()), Some(VERDICT));
            }
            Statement::ByPort(map) => {
                self.protocol_and_port(0);
                self.lookup(SetRef::Named(map.clone()), Some(VERDICT));
            }
            Statement::SendToOneOf(places) => self.send_to_one_of(places),
            Statement::GotoOneOf(chains) => {
                let below = u32::try_from(chains.len()).unwrap_or(u32::MAX);
                self.push(Expr::Numgen { below, to: REG1 });
                let elements = (0..).zip(chains).map(|(i, chain)| Raw {
                    key: index_key(i),
                    jump: Some(RawVerdict::Goto(chain.clone())),
                    ..Raw::default()
                });
                let set = self.own(OwnKey::Chains, elements.collect());
                self.lookup(set, Some(VERDICT));
            }
            Statement::SendTo(place) => {
                self.push(Expr::Immediate { to: REG1, value: address_bytes(place.ip) });
                self.push(Expr::Immediate { to: REG1 + 1, value: place.port.to_be_bytes()[..].into() });
                self.nat(REG1 + 1);
            }
            Statement::Masquerade => self.push(Expr::Masquerade),
            Statement::Reject => {
                // "Port unreachable" (RFC 792; RFC 4443).
                let code = if self.family == Family::V4 { 3 } else { 4 };
                self.push(Expr::Reject { code });
            }
            Statement::Drop => self.push(Expr::Verdict(RawVerdict::Drop)),
            Statement::Jump(chain) => self.push(Expr::Verdict(RawVerdict::Jump(chain.clone()))),
            Statement::Goto(chain) => self.push(Expr::Verdict(RawVerdict::Goto(chain.clone()))),
            _ => {}
        }
    }

    fn nat(&mut self, port: u32) {
        self.push(Expr::Nat { family: family_number(self.family).into(), address: REG1, port });
    }

    fn send_to_one_of(&mut self, places: &[Place]) {
        let below = u32::try_from(places.len()).unwrap_or(u32::MAX);
        self.push(Expr::Numgen { below, to: REG1 });
        let elements = (0..).zip(places).map(|(i, place)| Raw {
            key: index_key(i),
            data: Some(place_bytes(*place)),
            ..Raw::default()
        });
        let set = self.own(OwnKey::Places, elements.collect());
        self.lookup(set, Some(REG1));
        let (_, len) = address_at(self.family, Side::Source);
        self.nat(register(len as usize / WORDS));
    }

    /// Loads an address to a place of a concatenation; how many words it takes there.
    fn address(&mut self, side: Side, word: usize) -> usize {
        let (offset, len) = address_at(self.family, side);
        self.push(Expr::Payload { header: Header::Network, offset, len, to: register(word) });
        len as usize / WORDS
    }

    fn protocol_and_port(&mut self, word: usize) {
        self.push(Expr::Meta { key: meta::L4PROTO, to: register(word) });
        self.push(Expr::Payload { header: Header::Transport, offset: 2, len: 2, to: register(word + 1) });
    }

    fn lookup(&mut self, set: SetRef, to: Option<u32>) {
        self.push(Expr::Lookup { from: REG1, set, to, absent: false });
    }

    fn connection(&mut self, key: u32, bits: u32) {
        self.push(Expr::Ct { key, to: REG1 });
        self.bits(bits);
    }

    /// Whether one of the bits is set.
    fn bits(&mut self, bits: u32) {
        let zero: Bytes = smallvec![0; 4];
        self.push(Expr::Bitwise { reg: REG1, mask: bits.to_ne_bytes()[..].into(), xor: zero.clone() });
        self.push(Expr::Cmp { from: REG1, differs: true, with: zero });
    }

    fn mark(&mut self, mask: u32, xor: u32) {
        self.push(Expr::Meta { key: meta::MARK, to: REG1 });
        let (mask, xor) = (mask.to_ne_bytes()[..].into(), xor.to_ne_bytes()[..].into());
        self.push(Expr::Bitwise { reg: REG1, mask, xor });
        self.push(Expr::MetaSet { key: meta::MARK, from: REG1 });
    }

    fn address_in(&mut self, side: Side, negated: bool, nets: &[IpNet]) {
        let [net] = nets else {
            self.address(side, 0);
            let set = self.own(OwnKey::Addresses, intervals(nets));
            self.push(Expr::Lookup { from: REG1, set, to: None, absent: negated });
            return;
        };
        let (offset, len) = address_at(self.family, side);
        let bits = net.prefix_len();
        let bytes = address_bytes(net.network());
        // Whole bytes are read and compared as they are; else the rest is masked.
        if bits > 0 && bits % 8 == 0 {
            let len = u32::from(bits / 8);
            self.push(Expr::Payload { header: Header::Network, offset, len, to: REG1 });
            self.push(Expr::Cmp { from: REG1, differs: negated, with: bytes[..len as usize].into() });
        } else {
            self.push(Expr::Payload { header: Header::Network, offset, len, to: REG1 });
            let (mask, xor) = (address_bytes(net.netmask()), smallvec![0; len as usize]);
            self.push(Expr::Bitwise { reg: REG1, mask, xor });
            self.push(Expr::Cmp { from: REG1, differs: negated, with: bytes });
        }
    }
}
