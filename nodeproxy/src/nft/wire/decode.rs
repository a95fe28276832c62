//! What the kernel tells of the table, in the words of [`super::expr`], to be compared with what should be there.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::CStr,
};

use netlink_bindings::{
    nftables::{
        ExprOps, IterableDataAttrs, IterableExprAttrs, IterableVerdictAttrs, Nfgenmsg, OpNewchainDo,
        OpNewruleDo, OpNewsetDo, OpNewsetelemDo, OpNewtableDo,
    },
    utils::{ErrorContext, find_attr},
};

use super::digest::digest;
use super::elements::{Bytes, Raw, RawVerdict};
use super::encode::{LOOKUP_FLAGS, LOOKUP_FROM, LOOKUP_SET, LOOKUP_TO, datatype, note as note_kind};
use super::expr::{Expr, Header, LoweredRule, OwnKey, OwnSet, SetRef, VERDICT};
use crate::names::Name;

/// The flag of a set that belongs to a rule.
const ANONYMOUS: u32 = 1;
const MAP: u32 = 8;
const NLM_HEADER: usize = 4;

/// A chain as the kernel has it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct KernelChain {
    /// Type, hook and priority of a base chain.
    pub base: Option<(String, u32, i32)>,
    /// Its rules.
    pub rules: Vec<KernelRule>,
}

/// A rule as the kernel has it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KernelRule {
    /// The instructions; what its own sets hold is not said here.
    rule: LoweredRule,
    /// The names of its own sets.
    own: Vec<Name>,
    /// What we noted about them.
    digest: Option<Vec<u8>>,
}

impl KernelRule {
    /// Whether it is the rule that should be there.
    pub(crate) fn is(&self, wanted: &LoweredRule, snapshot: &Snapshot) -> bool {
        let keys = |rule: &LoweredRule| rule.sets.iter().map(|set| set.key).collect::<Vec<_>>();
        if self.rule.exprs != wanted.exprs
            || self.rule.comment != wanted.comment
            || keys(&self.rule) != keys(wanted)
        {
            return false;
        }
        if self.digest.is_some() {
            return self.digest.as_deref() == digest(wanted).as_ref().map(|digest| &digest[..]);
        }
        self.own.iter().zip(&wanted.sets).all(|(own, wanted)| {
            // The kernel tells elements in its own order.
            let mut wanted: Vec<&Raw> = wanted.elements.iter().collect();
            let mut there: Vec<&Raw> =
                snapshot.sets.get(own).map(|set| set.elements.iter().collect()).unwrap_or_default();
            wanted.sort();
            there.sort();
            wanted == there
        })
    }
}

/// A set as the kernel has it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct KernelSet {
    /// Flags (`enum nft_set_flags`).
    pub flags: u32,
    /// The type of its keys, as the `nft` tool numbers them.
    pub key_type: u32,
    /// The type of its values.
    pub data_type: u32,
    /// How many seconds it remembers.
    pub timeout: u32,
    /// Its elements.
    pub elements: Vec<Raw>,
}

impl KernelSet {
    /// Whether it belongs to a rule.
    pub(crate) const fn is_own(&self) -> bool {
        self.flags & ANONYMOUS != 0
    }
}

/// A table as the kernel has it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// The table's comment, and whether a process owns it; none if there is no such table.
    pub(crate) table: Option<(Option<String>, bool)>,
    /// Its chains.
    pub(crate) chains: HashMap<Name, KernelChain>,
    /// Its sets and maps.
    pub(crate) sets: BTreeMap<Name, KernelSet>,
}

type Decoded<T> = Result<T, ErrorContext>;

fn text(of: &CStr) -> String {
    of.to_string_lossy().into_owned()
}

fn name(of: &CStr) -> Name {
    of.to_string_lossy().into()
}

/// The text of a note, if there is one of this kind.
fn note(notes: &[u8], kind: u8) -> Option<String> {
    let value = note_bytes(notes, kind)?;
    Some(String::from_utf8_lossy(value.strip_suffix(&[0]).unwrap_or(value)).into_owned())
}

fn note_bytes(notes: &[u8], kind: u8) -> Option<&[u8]> {
    let mut rest = notes;
    while let [of, length, tail @ ..] = rest {
        let (value, next) = tail.split_at_checked(usize::from(*length))?;
        if *of == kind {
            return Some(value);
        }
        rest = next;
    }
    None
}

/// The messages' attributes begin after this header.
fn framed<T>(body: &[u8], read: impl FnOnce(&[u8]) -> Option<T>) -> Option<T> {
    (body.len() >= NLM_HEADER && Nfgenmsg::new_from_slice(&body[..NLM_HEADER]).is_some())
        .then(|| read(body))
        .flatten()
}

impl Snapshot {
    /// Takes in a table.
    pub(crate) fn on_table(&mut self, body: &[u8]) {
        let found = framed(body, |body| {
            let (_, attrs) = OpNewtableDo::decode_request(body);
            let comment = attrs.get_userdata().ok().and_then(|notes| note(notes, 0));
            let owned = attrs.get_owner().is_ok();
            Some((comment, owned))
        });
        self.table = found;
    }

    /// Takes in a chain.
    pub(crate) fn on_chain(&mut self, body: &[u8]) {
        framed(body, |body| {
            let (_, attrs) = OpNewchainDo::decode_request(body);
            let base = attrs.get_hook().ok().and_then(|hook| {
                let kind = attrs.get_type().map(text).ok()?;
                Some((kind, hook.get_num().ok()?, hook.get_priority().ok()?))
            });
            self.chains.entry(name(attrs.get_name().ok()?)).or_default().base = base;
            Some(())
        });
    }

    /// Takes in a set or a map.
    pub(crate) fn on_set(&mut self, body: &[u8]) {
        framed(body, |body| {
            let (_, attrs) = OpNewsetDo::decode_request(body);
            let milliseconds = u64::from_be(attrs.get_timeout().unwrap_or(0));
            let set = KernelSet {
                flags: attrs.get_flags().unwrap_or(0),
                key_type: attrs.get_key_type().unwrap_or(0),
                data_type: attrs.get_data_type().unwrap_or(0),
                timeout: u32::try_from(milliseconds / 1000).unwrap_or(u32::MAX),
                elements: Vec::new(),
            };
            self.sets.insert(name(attrs.get_name().ok()?), set);
            Some(())
        });
    }

    /// Takes in elements of a set.
    pub(crate) fn on_elements(&mut self, body: &[u8]) {
        framed(body, |body| {
            let (_, attrs) = OpNewsetelemDo::decode_request(body);
            let set = self.sets.get_mut(&*name(attrs.get_set().ok()?))?;
            for elem in attrs.get_elements().ok()?.get_elem() {
                let flags = elem.get_flags().ok().and_then(|bytes| bytes.try_into().ok());
                let data = elem.get_data().ok();
                set.elements.push(Raw {
                    key: value(&elem.get_key().ok()?).ok()?,
                    ends: flags.is_some_and(|flags: [u8; 4]| u32::from_be_bytes(flags) & 1 != 0),
                    jump: data.as_ref().and_then(|data| jump(&data.get_verdict().ok()?).ok()),
                    data: data.and_then(|data| value(&data).ok()),
                    comment: elem.get_userdata().ok().and_then(|notes| note(notes, 0)).map(Into::into),
                });
            }
            Some(())
        });
    }

    /// The sets whose elements have to be read: those that belong to no rule, and those whose rule says nothing about them. What
    /// clients are remembered nobody compares.
    pub(crate) fn to_read(&self) -> Vec<Name> {
        let unsaid = self.chains.values().flat_map(|chain| &chain.rules).filter(|rule| rule.digest.is_none());
        let named = self.sets.iter().filter(|(_, set)| !set.is_own() && set.timeout == 0);
        named.map(|(name, _)| name).chain(unsaid.flat_map(|rule| &rule.own)).cloned().collect()
    }

    /// Takes in a rule. All sets must be there.
    pub(crate) fn on_rule(&mut self, body: &[u8]) {
        framed(body, |body| {
            let (_, attrs) = OpNewruleDo::decode_request(body);
            let notes = attrs.get_userdata().unwrap_or_default();
            let digest = note_bytes(notes, note_kind::DIGEST).map(<[u8]>::to_vec);
            let rule = LoweredRule { exprs: Vec::new(), sets: Vec::new(), comment: note(notes, 0) };
            let mut rule = KernelRule { rule, own: Vec::new(), digest };
            for elem in attrs.get_expressions().ok()?.get_elem() {
                let known = self.expr(&elem, &mut rule);
                let unknown = || Expr::Unknown(elem.get_name().map(text).unwrap_or_default());
                rule.rule.exprs.push(known.unwrap_or_else(|_| unknown()));
            }
            self.chains.entry(name(attrs.get_chain().ok()?)).or_default().rules.push(rule);
            Some(())
        });
    }

    fn expr(&self, elem: &IterableExprAttrs<'_>, rule: &mut KernelRule) -> Decoded<Expr> {
        let kind = elem.get_name()?.to_bytes();
        let unknown = || Expr::Unknown(String::from_utf8_lossy(kind).into_owned());
        if let Some(expr) = self.by_hand(kind, elem.get_buf(), rule) {
            return Ok(expr);
        }
        Ok(match elem.get_data()? {
            ExprOps::Payload(attrs) => Expr::Payload {
                header: match attrs.get_base()? {
                    1 => Header::Network,
                    2 => Header::Transport,
                    _ => return Ok(unknown()),
                },
                offset: attrs.get_offset()?,
                len: attrs.get_len()?,
                to: attrs.get_dreg()?,
            },
            ExprOps::Meta(attrs) => match attrs.get_dreg() {
                Ok(to) => Expr::Meta { key: attrs.get_key()?, to },
                Err(_) => Expr::MetaSet { key: attrs.get_key()?, from: attrs.get_sreg()? },
            },
            ExprOps::Cmp(attrs) => Expr::Cmp {
                from: attrs.get_sreg()?,
                differs: match attrs.get_op()? {
                    0 => false,
                    1 => true,
                    _ => return Ok(unknown()),
                },
                with: value(&attrs.get_data()?)?,
            },
            ExprOps::Bitwise(attrs) if attrs.get_sreg()? == attrs.get_dreg()? => Expr::Bitwise {
                reg: attrs.get_sreg()?,
                mask: value(&attrs.get_mask()?)?,
                xor: value(&attrs.get_xor()?)?,
            },
            ExprOps::Ct(attrs) => Expr::Ct { key: attrs.get_key()?, to: attrs.get_dreg()? },
            ExprOps::Fib(attrs) if attrs.get_result()? == 3 => {
                Expr::Fib { flags: attrs.get_flags()?, to: attrs.get_dreg()? }
            }
            ExprOps::Numgen(attrs) if attrs.get_type()? == 1 && attrs.get_offset().unwrap_or(0) == 0 => {
                Expr::Numgen { below: attrs.get_modulus()?, to: u32::from_be(attrs.get_dreg()?) }
            }
            ExprOps::Immediate(attrs) if attrs.get_dreg()? == VERDICT => {
                Expr::Verdict(jump(&attrs.get_data()?.get_verdict()?)?)
            }
            ExprOps::Immediate(attrs) => {
                Expr::Immediate { to: attrs.get_dreg()?, value: value(&attrs.get_data()?)? }
            }
            // The kernel notes for itself that it is told an address and a port.
            ExprOps::Nat(attrs) if attrs.get_type()? == 1 && attrs.get_flags().unwrap_or(0) & !3 == 0 => {
                Expr::Nat {
                    family: attrs.get_family()?,
                    address: attrs.get_reg_addr_min()?,
                    port: attrs.get_reg_proto_min()?,
                }
            }
            ExprOps::Reject(attrs) if attrs.get_type()? == 0 => Expr::Reject { code: attrs.get_icmp_code()? },
            _ => unknown(),
        })
    }

    /// The instructions that the specifications do not describe yet, and `lookup`, whose attributes they number wrongly.
    fn by_hand(&self, kind: &[u8], elem: &[u8], rule: &mut KernelRule) -> Option<Expr> {
        let attrs = find_attr(elem, 2)?;
        let number =
            |of: u16| find_attr(attrs, of).and_then(|bytes| Some(u32::from_be_bytes(bytes.try_into().ok()?)));
        let string = |of: u16| CStr::from_bytes_until_nul(find_attr(attrs, of)?).ok();
        match kind {
            b"masq" if number(1) == Some(0x10) => Some(Expr::Masquerade),
            b"dynset" if number(3) == Some(1) => {
                Some(Expr::Update { set: name(string(1)?), from: number(4)? })
            }
            b"lookup" => Some(Expr::Lookup {
                from: number(LOOKUP_FROM)?,
                set: self.set_ref(string(LOOKUP_SET)?, rule),
                to: number(LOOKUP_TO),
                absent: number(LOOKUP_FLAGS).unwrap_or(0) & 1 != 0,
            }),
            _ => None,
        }
    }

    /// A set of the table, or the rule's own one.
    fn set_ref(&self, of: &CStr, rule: &mut KernelRule) -> SetRef {
        let named = name(of);
        let Some(set) = self.sets.get(&named).filter(|set| set.is_own()) else {
            return SetRef::Named(named);
        };
        let key = match (set.flags & MAP, set.data_type) {
            (0, _) => OwnKey::Addresses,
            (_, datatype::VERDICT) => OwnKey::Chains,
            _ => OwnKey::Places,
        };
        rule.rule.sets.push(OwnSet { key, elements: Vec::new() });
        rule.own.push(named);
        SetRef::Own(rule.own.len() - 1)
    }
}

fn value(data: &IterableDataAttrs<'_>) -> Decoded<Bytes> {
    data.get_value().map(Into::into)
}

fn jump(verdict: &IterableVerdictAttrs<'_>) -> Decoded<RawVerdict> {
    let chain = || verdict.get_chain().map(name);
    Ok(match verdict.get_code()?.cast_signed() {
        -3 => RawVerdict::Jump(chain()?),
        -4 => RawVerdict::Goto(chain()?),
        _ => RawVerdict::Drop,
    })
}
