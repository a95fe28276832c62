//! Steps of a transaction to messages.

use netlink_bindings::{
    nftables::{
        PushChainAttrs, PushDataAttrs, PushExprAttrs, PushExprListAttrs, PushRuleAttrs, PushSetAttrs,
        PushSetelemAttrs, PushSetelemListAttrs, PushTableAttrs,
    },
    traits::Pusher,
    utils::{finalize_nested_header, push_header, push_nested_header},
};
use service_api::address::Family;

use super::super::model::{AffinitySet, Base, BaseKind, Chain, Container, Element, KeyShape, Op, Rule};
use super::batch::{APPEND, Batch, CREATE, EXCLUSIVE, Kind, OwnNames, OwnRef};
use super::digest::digest;
use super::elements::{Raw, RawVerdict, raw_element};
use super::expr::{Expr, LoweredRule, OwnKey, OwnSet, SetRef, VERDICT, family_number, lower};
use crate::names::{TABLE, TABLE_COMMENT};

/// Elements that go into one message at most: an attribute holds 64 KiB.
const ELEMENTS: usize = 256;

/// Types of values as the `nft` tool numbers them (`enum datatypes` there), and how many bits one takes in a compound.
pub(super) mod datatype {
    pub(super) const INTEGER: u32 = 4;
    pub(super) const IPV4: u32 = 7;
    pub(super) const IPV6: u32 = 8;
    pub(super) const PROTOCOL: u32 = 12;
    pub(super) const SERVICE: u32 = 13;
    pub(crate) const VERDICT: u32 = 0xffff_ff00;
    pub(super) const BITS: u32 = 6;
}

/// Flags of sets (`enum nft_set_flags`).
mod set_flag {
    pub(super) const ANONYMOUS: u32 = 1;
    pub(super) const CONSTANT: u32 = 2;
    pub(super) const INTERVAL: u32 = 4;
    pub(super) const MAP: u32 = 8;
    pub(super) const TIMEOUT: u32 = 16;
    pub(super) const EVAL: u32 = 32;
}

/// Notes that the `nft` tool keeps beside objects, to list them as they were written.
pub(super) mod note {
    pub(super) const COMMENT: u8 = 0;
    /// Ours, beside a rule; the tool skips what it does not know.
    pub(crate) const DIGEST: u8 = 0x6b;
    pub(super) const KEY_BYTE_ORDER: u8 = 0;
    pub(super) const DATA_BYTE_ORDER: u8 = 1;
    pub(super) const SET_COMMENT: u8 = 7;
    pub(super) const HOST: u32 = 1;
    pub(super) const NETWORK: u32 = 2;
}

/// Attributes of `lookup` (`enum nft_lookup_attributes`), `masq` and `dynset`.
pub(super) const LOOKUP_SET: u16 = 1;
pub(super) const LOOKUP_FROM: u16 = 2;
pub(super) const LOOKUP_TO: u16 = 3;
const LOOKUP_SET_ID: u16 = 4;
pub(super) const LOOKUP_FLAGS: u16 = 5;
const MASQ_FLAGS: u16 = 1;
const FULLY_RANDOM: u32 = 0x10;
const DYNSET_SET: u16 = 1;
const DYNSET_OPERATION: u16 = 3;
const DYNSET_KEY: u16 = 4;
const UPDATE: u32 = 1;
const DESTINATION: u32 = 1;
const RANDOM: u32 = 1;
const ACCEPT: u32 = 1;
const DIFFERS: u32 = 1;
const DROP: i32 = 0;
const JUMP: i32 = -3;
const GOTO: i32 = -4;
const ABSENT: u32 = 1;
const RANGE_ENDS: u32 = 1;

/// The messages of the steps, and for each message the number of its step.
pub(crate) fn encode(ops: &[Op], family: Family, names: &mut OwnNames) -> (Vec<u8>, Vec<u32>) {
    let mut batch = Batch::begin(family_number(family), names);
    let mut rest = ops;
    let mut done = 0;
    while let Some(op) = rest.first() {
        batch.step(done);
        let taken = match op {
            Op::AddElement(element) | Op::DeleteElement(element) => {
                let add = matches!(op, Op::AddElement(_));
                let run = run_of(rest, element.container, add);
                add_elements(&mut batch, element.container, add, &rest[..run]);
                run
            }
            op => {
                add_op(&mut batch, op, family);
                1
            }
        };
        rest = &rest[taken..];
        done += taken;
    }
    batch.end()
}

/// How many of the next steps are elements of the same container.
fn run_of(ops: &[Op], container: Container, add: bool) -> usize {
    let same = |op: &&Op| match op {
        Op::AddElement(element) => add && element.container == container,
        Op::DeleteElement(element) => !add && element.container == container,
        _ => false,
    };
    ops.iter().take(ELEMENTS).take_while(same).count()
}

fn add_op(batch: &mut Batch<'_>, op: &Op, family: Family) {
    let table = TABLE.as_bytes();
    match op {
        Op::AddTable => batch.add(Kind::NewTable, CREATE, |buffer| {
            PushTableAttrs::new(buffer)
                .push_name_bytes(table)
                .push_flags(0)
                .push_userdata(&text_note(note::COMMENT, TABLE_COMMENT));
        }),
        Op::DeleteTable => batch.add(Kind::DeleteTable, 0, |buffer| {
            PushTableAttrs::new(buffer).push_name_bytes(table);
        }),
        Op::AddContainer(container) => add_container(batch, *container, family),
        Op::AddAffinitySet(set) => add_affinity(batch, set, family),
        Op::DeleteSet(name) => batch.add(Kind::DeleteSet, 0, |buffer| {
            PushSetAttrs::new(buffer).push_table_bytes(table).push_name_bytes(name.as_bytes());
        }),
        Op::AddChain(chain) => add_chain(batch, chain),
        // Without a rule's number all rules of the chain go.
        Op::FlushChain(name) => batch.add(Kind::DeleteRule, 0, |buffer| {
            PushRuleAttrs::new(buffer).push_table_bytes(table).push_chain_bytes(name.as_bytes());
        }),
        Op::DeleteChain(name) => batch.add(Kind::DeleteChain, 0, |buffer| {
            PushChainAttrs::new(buffer).push_table_bytes(table).push_name_bytes(name.as_bytes());
        }),
        Op::AddRule { chain, rule } => add_rule(batch, chain, rule, family),
        Op::AddElement(_) | Op::DeleteElement(_) => {}
    }
}

/// A note with a text, ended by zero as the tool expects it.
fn text_note(kind: u8, text: &str) -> Vec<u8> {
    let text = &text.as_bytes()[..text.len().min(usize::from(u8::MAX) - 1)];
    let length = u8::try_from(text.len() + 1).unwrap_or(u8::MAX);
    let mut bytes = vec![kind, length];
    bytes.extend_from_slice(text);
    bytes.push(0);
    bytes
}

fn order_note(kind: u8, order: u32) -> Vec<u8> {
    let mut bytes = vec![kind, 4];
    bytes.extend_from_slice(&order.to_ne_bytes());
    bytes
}

/// The type of a container's keys, as the `nft` tool numbers it.
pub(crate) fn container_key_type(container: Container, family: Family) -> u32 {
    key_type(container.shape(), family).0
}

fn key_type(shape: KeyShape, family: Family) -> (u32, u32) {
    let (address, length) = match family {
        Family::V4 => (datatype::IPV4, 4),
        Family::V6 => (datatype::IPV6, 16),
    };
    let (types, length): (&[u32], u32) = match shape {
        KeyShape::Address => (&[address], length),
        KeyShape::AddressAndPort => (&[address, datatype::PROTOCOL, datatype::SERVICE], length + 8),
        KeyShape::Port => (&[datatype::PROTOCOL, datatype::SERVICE], 8),
        KeyShape::Connection => (&[address, address, datatype::PROTOCOL, datatype::SERVICE], 2 * length + 8),
    };
    (types.iter().fold(0, |all, of| all << datatype::BITS | of), length)
}

fn add_container(batch: &mut Batch<'_>, container: Container, family: Family) {
    let (kind, length) = key_type(container.shape(), family);
    let id = batch.set_id();
    batch.add(Kind::NewSet, CREATE, |buffer| {
        let mut set = PushSetAttrs::new(buffer)
            .push_table_bytes(TABLE.as_bytes())
            .push_name_bytes(container.name().as_bytes())
            .push_flags(if container.is_map() { set_flag::MAP } else { 0 })
            .push_key_type(kind)
            .push_key_len(length);
        if container.is_map() {
            set = set.push_data_type(datatype::VERDICT).push_data_len(0);
        }
        let mut notes = order_note(note::KEY_BYTE_ORDER, note::NETWORK);
        notes.extend(text_note(note::SET_COMMENT, container.comment()));
        set.push_id(id.to_be()).push_userdata(&notes);
    });
}

fn add_affinity(batch: &mut Batch<'_>, set: &AffinitySet, family: Family) {
    let (kind, length) = key_type(KeyShape::Address, family);
    let id = batch.set_id();
    batch.add(Kind::NewSet, CREATE, |buffer| {
        PushSetAttrs::new(buffer)
            .push_table_bytes(TABLE.as_bytes())
            .push_name_bytes(set.name.as_bytes())
            .push_flags(set_flag::TIMEOUT | set_flag::EVAL)
            .push_key_type(kind)
            .push_key_len(length)
            .push_id(id.to_be())
            .push_timeout((u64::from(set.timeout) * 1000).to_be())
            .push_userdata(&order_note(note::KEY_BYTE_ORDER, note::NETWORK));
    });
}

fn add_chain(batch: &mut Batch<'_>, chain: &Chain) {
    batch.add(Kind::NewChain, CREATE, |buffer| {
        let mut attrs = PushChainAttrs::new(buffer)
            .push_table_bytes(TABLE.as_bytes())
            .push_name_bytes(chain.name.as_bytes());
        if let Some(Base { kind, hook, priority }) = chain.base {
            attrs = attrs.nested_hook().push_num(hook as u32).push_priority(priority).end_nested();
            let kind = match kind {
                BaseKind::Filter => "filter",
                BaseKind::Nat => "nat",
            };
            attrs = attrs.push_policy(ACCEPT).push_type_bytes(kind.as_bytes());
        }
        if let Some(comment) = chain.comment {
            attrs.push_userdata(&text_note(note::COMMENT, comment));
        }
    });
}

fn add_rule(batch: &mut Batch<'_>, chain: &str, rule: &Rule, family: Family) {
    let lowered = lower(rule, family);
    let own: Vec<OwnRef> = lowered.sets.iter().map(|set| add_own_set(batch, set, family)).collect();
    batch.add(Kind::NewRule, CREATE | APPEND, |buffer| rule_body(buffer, chain, &lowered, &own));
}

fn rule_body(buffer: &mut Vec<u8>, chain: &str, rule: &LoweredRule, own: &[OwnRef]) {
    let mut exprs = PushRuleAttrs::new(buffer)
        .push_table_bytes(TABLE.as_bytes())
        .push_chain_bytes(chain.as_bytes())
        .nested_expressions();
    for expr in &rule.exprs {
        exprs = push_expr(exprs, expr, own);
    }
    let attrs = exprs.end_nested();
    let mut notes = rule.comment.as_deref().map(|text| text_note(note::COMMENT, text)).unwrap_or_default();
    if let Some(digest) = digest(rule) {
        notes.extend([note::DIGEST, u8::try_from(digest.len()).unwrap_or(0)]);
        notes.extend_from_slice(&digest);
    }
    if !notes.is_empty() {
        attrs.push_userdata(&notes);
    }
}

fn add_own_set(batch: &mut Batch<'_>, set: &OwnSet, family: Family) -> OwnRef {
    let made = batch.own_set();
    let (address, length) = key_type(KeyShape::Address, family);
    let own = set_flag::ANONYMOUS | set_flag::CONSTANT;
    batch.add(Kind::NewSet, CREATE | EXCLUSIVE, |buffer| {
        let attrs = PushSetAttrs::new(buffer)
            .push_table_bytes(TABLE.as_bytes())
            .push_name_bytes(made.name.as_bytes());
        let index = |attrs: PushSetAttrs<_>| {
            attrs.push_flags(own | set_flag::MAP).push_key_type(datatype::INTEGER).push_key_len(4)
        };
        let (attrs, order) = match set.key {
            OwnKey::Addresses => {
                let attrs = attrs.push_flags(own | set_flag::INTERVAL);
                (attrs.push_key_type(address).push_key_len(length), note::NETWORK)
            }
            OwnKey::Chains => (index(attrs).push_data_type(datatype::VERDICT).push_data_len(0), note::HOST),
            OwnKey::Places => {
                let kind = address << datatype::BITS | datatype::SERVICE;
                (index(attrs).push_data_type(kind).push_data_len(length + 4), note::HOST)
            }
        };
        let mut notes = order_note(note::KEY_BYTE_ORDER, order);
        if set.key != OwnKey::Addresses {
            notes.extend(order_note(note::DATA_BYTE_ORDER, 0));
        }
        let size = u32::try_from(set.elements.len()).unwrap_or(u32::MAX);
        attrs.push_id(made.id.to_be()).nested_desc().push_size(size).end_nested().push_userdata(&notes);
    });
    for elements in set.elements.chunks(ELEMENTS) {
        batch.add(Kind::NewElement, CREATE, |buffer| {
            element_list(buffer, In::Made(made.id), elements.iter().cloned());
        });
    }
    made
}

fn add_elements(batch: &mut Batch<'_>, container: Container, add: bool, ops: &[Op]) {
    let elements = ops.iter().filter_map(|op| match op {
        Op::AddElement(element) => Some(raw_element(element)),
        // The key says which.
        Op::DeleteElement(element) => {
            Some(raw_element(&Element { verdict: None, comment: None, ..element.clone() }))
        }
        _ => None,
    });
    let (kind, flags) = if add { (Kind::NewElement, CREATE) } else { (Kind::DeleteElement, 0) };
    batch.add(kind, flags, |buffer| element_list(buffer, In::Named(container.name()), elements));
}

/// Which set elements go into.
#[derive(Clone, Copy)]
enum In<'a> {
    Named(&'a str),
    /// One of this transaction. Its name is left out: the kernel would look for it among all sets first.
    Made(u32),
}

fn element_list(buffer: &mut Vec<u8>, set: In<'_>, elements: impl Iterator<Item = Raw>) {
    let attrs = PushSetelemListAttrs::new(buffer).push_table_bytes(TABLE.as_bytes());
    let attrs = match set {
        In::Named(name) => attrs.push_set_bytes(name.as_bytes()),
        In::Made(id) => attrs.push_set_id(id.to_be()),
    };
    let mut list = attrs.nested_elements();
    for raw in elements {
        list = push_element(list.nested_elem(), &raw).end_nested();
    }
}

fn push_element<P: Pusher>(mut attrs: PushSetelemAttrs<P>, raw: &Raw) -> PushSetelemAttrs<P> {
    if raw.ends {
        attrs = attrs.push_flags(&RANGE_ENDS.to_be_bytes());
    }
    attrs = attrs.nested_key().push_value(&raw.key).end_nested();
    if let Some(data) = &raw.data {
        attrs = attrs.nested_data().push_value(data).end_nested();
    }
    if let Some(jump) = &raw.jump {
        attrs = push_jump(attrs.nested_data(), jump).end_nested();
    }
    if let Some(comment) = &raw.comment {
        attrs = attrs.push_userdata(&text_note(note::COMMENT, comment));
    }
    attrs
}

fn push_jump<P: Pusher>(data: PushDataAttrs<P>, jump: &RawVerdict) -> PushDataAttrs<P> {
    let (code, chain) = match jump {
        RawVerdict::Drop => (DROP, None),
        RawVerdict::Jump(chain) => (JUMP, Some(chain)),
        RawVerdict::Goto(chain) => (GOTO, Some(chain)),
    };
    let mut verdict = data.nested_verdict().push_code(code.cast_unsigned());
    if let Some(chain) = chain {
        verdict = verdict.push_chain_bytes(chain.as_bytes());
    }
    verdict.end_nested()
}

fn push_expr<P: Pusher>(list: PushExprListAttrs<P>, expr: &Expr, own: &[OwnRef]) -> PushExprListAttrs<P> {
    let elem = list.nested_elem();
    match expr {
        Expr::Payload { header, offset, len, to } => {
            let attrs = elem.nested_data_payload().push_dreg(*to).push_base(*header as u32);
            attrs.push_offset(*offset).push_len(*len).end_nested()
        }
        Expr::Meta { key, to } => elem.nested_data_meta().push_key(*key).push_dreg(*to).end_nested(),
        Expr::MetaSet { key, from } => elem.nested_data_meta().push_key(*key).push_sreg(*from).end_nested(),
        Expr::Cmp { from, differs, with } => {
            let attrs = elem.nested_data_cmp().push_sreg(*from);
            let attrs = attrs.push_op(if *differs { DIFFERS } else { 0 });
            attrs.nested_data().push_value(with).end_nested().end_nested()
        }
        Expr::Bitwise { reg, mask, xor } => {
            let len = u32::try_from(mask.len()).unwrap_or(0);
            let attrs = elem.nested_data_bitwise().push_sreg(*reg).push_dreg(*reg).push_len(len);
            let attrs = attrs.nested_mask().push_value(mask).end_nested();
            attrs.nested_xor().push_value(xor).end_nested().end_nested()
        }
        Expr::Ct { key, to } => elem.nested_data_ct().push_key(*key).push_dreg(*to).end_nested(),
        Expr::Fib { flags, to } => {
            let kind_of_address = 3;
            let attrs = elem.nested_data_fib().push_flags(*flags).push_result(kind_of_address);
            attrs.push_dreg(*to).end_nested()
        }
        Expr::Numgen { below, to } => {
            let attrs = elem.nested_data_numgen().push_dreg(to.to_be()).push_modulus(*below);
            attrs.push_type(RANDOM).push_offset(0).end_nested()
        }
        Expr::Immediate { to, value } => {
            let attrs = elem.nested_data_immediate().push_dreg(*to);
            attrs.nested_data().push_value(value).end_nested().end_nested()
        }
        Expr::Verdict(jump) => {
            let attrs = elem.nested_data_immediate().push_dreg(VERDICT);
            push_jump(attrs.nested_data(), jump).end_nested().end_nested()
        }
        Expr::Nat { family, address, port } => {
            let attrs = elem.nested_data_nat().push_type(DESTINATION).push_family(*family);
            attrs.push_reg_addr_min(*address).push_reg_proto_min(*port).end_nested()
        }
        Expr::Reject { code } => elem.nested_data_reject().push_type(0).push_icmp_code(*code).end_nested(),
        Expr::Lookup { .. } | Expr::Masquerade | Expr::Update { .. } | Expr::Unknown(_) => {
            return by_hand(elem, expr, own).end_nested();
        }
    }
    .end_nested()
}

/// The instructions that the specifications do not describe yet, and `lookup`, whose attributes they number wrongly.
fn by_hand<P: Pusher>(elem: PushExprAttrs<P>, expr: &Expr, own: &[OwnRef]) -> PushExprAttrs<P> {
    match expr {
        Expr::Lookup { from, set, to, absent } => raw(elem, b"lookup", |buffer| {
            match set {
                SetRef::Named(name) => string(buffer, LOOKUP_SET, name.as_bytes()),
                SetRef::Own(at) => {
                    if let Some(made) = own.get(*at) {
                        string(buffer, LOOKUP_SET, made.name.as_bytes());
                        number(buffer, LOOKUP_SET_ID, made.id);
                    }
                }
            }
            number(buffer, LOOKUP_FROM, *from);
            if let Some(to) = to {
                number(buffer, LOOKUP_TO, *to);
            }
            number(buffer, LOOKUP_FLAGS, if *absent { ABSENT } else { 0 });
        }),
        Expr::Masquerade => raw(elem, b"masq", |buffer| number(buffer, MASQ_FLAGS, FULLY_RANDOM)),
        Expr::Update { set, from } => raw(elem, b"dynset", |buffer| {
            string(buffer, DYNSET_SET, set.as_bytes());
            number(buffer, DYNSET_OPERATION, UPDATE);
            number(buffer, DYNSET_KEY, *from);
        }),
        _ => elem,
    }
}

fn raw<P: Pusher>(elem: PushExprAttrs<P>, name: &[u8], body: impl FnOnce(&mut Vec<u8>)) -> PushExprAttrs<P> {
    let data = 2;
    let mut elem = elem.push_name_bytes(name);
    let start = push_nested_header(elem.as_vec_mut(), data);
    body(elem.as_vec_mut());
    finalize_nested_header(elem.as_vec_mut(), start);
    elem
}

fn string(buffer: &mut Vec<u8>, kind: u16, text: &[u8]) {
    push_header(buffer, kind, u16::try_from(text.len() + 1).unwrap_or(0));
    buffer.extend_from_slice(text);
    buffer.push(0);
}

fn number(buffer: &mut Vec<u8>, kind: u16, value: u32) {
    push_header(buffer, kind, 4);
    buffer.extend_from_slice(&value.to_be_bytes());
}
