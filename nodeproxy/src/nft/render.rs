//! A table as text that `nft -f` takes: for people, for `--dry-run -o nft`, and for tests against the tool.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
};

use service_api::address::Family;

use super::{
    diff::Table,
    model::{
        Base, BaseKind, Chain, Container, Element, Hook, Key, KeyShape, PRIORITY_DSTNAT, PRIORITY_SRCNAT,
        Rule, Side, Statement, Verdict, family_word,
    },
};
use crate::names::{TABLE, TABLE_COMMENT};

/// The whole table of a family, in the order of names.
pub fn table(table: &Table, family: Family) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write_table(&mut text, table, family);
    text
}

fn write_table(out: &mut String, table: &Table, family: Family) -> fmt::Result {
    writeln!(out, "table {} {TABLE} {{", family_word(family))?;
    writeln!(out, "\tcomment \"{TABLE_COMMENT}\"")?;
    let mut elements: BTreeMap<Container, BTreeMap<Key, &Element>> = BTreeMap::new();
    for element in table.elements() {
        elements.entry(element.container).or_default().insert(element.key, element);
    }
    for container in Container::ALL {
        write_container(out, container, family, elements.get(&container))?;
    }
    let sets: BTreeMap<_, _> = table.affinity().map(|set| (&set.name, set.timeout)).collect();
    for (name, timeout) in sets {
        writeln!(out, "\n\tset {name} {{\n\t\ttype {}\n\t\tsize 65535", address_type(family))?;
        writeln!(out, "\t\tflags dynamic,timeout\n\t\ttimeout {timeout}s\n\t}}")?;
    }
    let chains: BTreeMap<_, _> = table.chains().map(|chain| (&chain.name, chain)).collect();
    // Rules can only lead to chains that are there, so all are made before the first rule.
    for chain in chains.values().filter(|chain| chain.base.is_none()) {
        writeln!(out, "\n\tchain {} {{\n\t}}", chain.name)?;
    }
    for chain in chains.values() {
        write_chain(out, chain, family)?;
    }
    writeln!(out, "}}")
}

const fn address_type(family: Family) -> &'static str {
    match family {
        Family::V4 => "ipv4_addr",
        Family::V6 => "ipv6_addr",
    }
}

fn key_type(shape: KeyShape, family: Family) -> String {
    let address = address_type(family);
    match shape {
        KeyShape::Address => address.to_owned(),
        KeyShape::AddressAndPort => format!("{address} . inet_proto . inet_service"),
        KeyShape::Port => "inet_proto . inet_service".to_owned(),
        KeyShape::Connection => format!("{address} . {address} . inet_proto . inet_service"),
    }
}

fn write_container(
    out: &mut String,
    container: Container,
    family: Family,
    elements: Option<&BTreeMap<Key, &Element>>,
) -> fmt::Result {
    let (word, verdict) = if container.is_map() { ("map", " : verdict") } else { ("set", "") };
    writeln!(out, "\n\t{word} {} {{", container.name())?;
    writeln!(out, "\t\ttype {}{verdict}", key_type(container.shape(), family))?;
    writeln!(out, "\t\tcomment \"{}\"", container.comment())?;
    if let Some(elements) = elements {
        let texts: Vec<String> = elements.values().map(|element| element_text(element)).collect();
        writeln!(out, "\t\telements = {{ {} }}", texts.join(",\n\t\t\t     "))?;
    }
    writeln!(out, "\t}}")
}

/// `key comment "why" : verdict`.
pub fn element_text(element: &Element) -> String {
    let mut text = match element.key {
        Key::Address(ip) => ip.to_string(),
        Key::AddressAndPort(ip, protocol, port) => format!("{ip} . {protocol} . {port}"),
        Key::Port(protocol, port) => format!("{protocol} . {port}"),
        Key::Connection(ip, protocol, port) => format!("{ip} . {ip} . {protocol} . {port}"),
    };
    if let Some(comment) = &element.comment {
        let _ = write!(text, " comment \"{comment}\"");
    }
    match &element.verdict {
        None => {}
        Some(Verdict::Drop) => text.push_str(" : drop"),
        Some(Verdict::Goto(chain)) => {
            let _ = write!(text, " : goto {chain}");
        }
    }
    text
}

fn write_chain(out: &mut String, chain: &Chain, family: Family) -> fmt::Result {
    writeln!(out, "\n\tchain {} {{", chain.name)?;
    if let Some(comment) = chain.comment {
        writeln!(out, "\t\tcomment \"{comment}\"")?;
    }
    if let Some(base) = chain.base {
        writeln!(out, "\t\t{}", base_text(base))?;
    }
    for rule in &chain.rules {
        writeln!(out, "\t\t{}", rule_text(rule, family))?;
    }
    writeln!(out, "\t}}")
}

fn base_text(base: Base) -> String {
    let kind = match base.kind {
        BaseKind::Filter => "filter",
        BaseKind::Nat => "nat",
    };
    format!("type {kind} hook {} priority {}; policy accept;", hook_word(base.hook), priority(base))
}

/// The name of a hook in rules.
pub const fn hook_word(hook: Hook) -> &'static str {
    match hook {
        Hook::Prerouting => "prerouting",
        Hook::Input => "input",
        Hook::Forward => "forward",
        Hook::Output => "output",
        Hook::Postrouting => "postrouting",
    }
}

/// A name where the tool takes one: releases before 1.0.9 know `dstnat` at the hook prerouting alone.
fn priority(base: Base) -> String {
    match (base.priority, base.hook) {
        (0, _) => "filter".to_owned(),
        (PRIORITY_DSTNAT, Hook::Prerouting) => "dstnat".to_owned(),
        (PRIORITY_SRCNAT, Hook::Postrouting) => "srcnat".to_owned(),
        (number, Hook::Prerouting) if number < 0 => format!("dstnat - {}", PRIORITY_DSTNAT - number),
        (number, _) => number.to_string(),
    }
}

/// A rule as `nft` prints it.
pub fn rule_text(rule: &Rule, family: Family) -> String {
    let mut texts: Vec<String> =
        rule.statements.iter().map(|statement| statement_text(statement, family)).collect();
    if let Some(comment) = rule.comment {
        texts.push(format!("comment \"{comment}\""));
    }
    texts.join(" ")
}

fn statement_text(statement: &Statement, family: Family) -> String {
    let ip = family_word(family);
    match statement {
        Statement::ConnectionIsNew => "ct state new".to_owned(),
        Statement::ConnectionIsRewritten => "ct status dnat".to_owned(),
        Statement::ProtocolIs(protocol) => format!("meta l4proto {protocol}"),
        Statement::AddressIn { side, negated, nets } => {
            let nets: Vec<String> = nets.iter().map(net_text).collect();
            let nets = if nets.len() == 1 { nets.concat() } else { format!("{{ {} }}", nets.join(", ")) };
            format!("{ip} {} {}{nets}", side.as_str(), if *negated { "!= " } else { "" })
        }
        Statement::AddressInSet { side, set } => format!("{ip} {} @{set}", side.as_str()),
        Statement::AddressIsLocal(Side::Source) => "fib saddr type local".to_owned(),
        Statement::AddressIsLocal(Side::Destination) => "fib daddr type local".to_owned(),
        Statement::Interface { negated, name, prefix } => {
            let (not, star) = (if *negated { "!= " } else { "" }, if *prefix { "*" } else { "" });
            format!("iifname {not}\"{name}{star}\"")
        }
        Statement::Marked(bits) => format!("meta mark & {bits:#010x} != 0x00000000"),
        Statement::ConnectionInSet(set) => {
            format!("{ip} saddr . {ip} daddr . meta l4proto . th dport @{set}")
        }
        Statement::Mark(bits) => format!("meta mark set meta mark | {bits:#010x}"),
        Statement::FlipMark(bits) => format!("meta mark set meta mark ^ {bits:#010x}"),
        Statement::Remember(set) => format!("update @{set} {{ {ip} saddr }}"),
        Statement::ByAddress(map) => format!("{ip} daddr . meta l4proto . th dport vmap @{map}"),
        Statement::ByPort(map) => format!("meta l4proto . th dport vmap @{map}"),
        Statement::SendToOneOf(places) => {
            let elements: Vec<String> = (places.iter().enumerate())
                .map(|(i, place)| format!("{i} : {} . {}", place.ip, place.port))
                .collect();
            let n = places.len();
            format!("dnat {ip} addr . port to numgen random mod {n} map {{ {} }}", elements.join(", "))
        }
        Statement::GotoOneOf(chains) => {
            let elements: Vec<String> =
                chains.iter().enumerate().map(|(i, chain)| format!("{i} : goto {chain}")).collect();
            format!("numgen random mod {} vmap {{ {} }}", chains.len(), elements.join(", "))
        }
        Statement::SendTo(place) => format!("dnat to {place}"),
        Statement::Masquerade => "masquerade fully-random".to_owned(),
        Statement::Reject => "reject".to_owned(),
        Statement::Drop => "drop".to_owned(),
        Statement::Jump(chain) => format!("jump {chain}"),
        Statement::Goto(chain) => format!("goto {chain}"),
    }
}

fn net_text(net: &ipnet::IpNet) -> String {
    if net.prefix_len() == net.max_prefix_len() { net.addr().to_string() } else { net.to_string() }
}
