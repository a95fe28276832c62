//! Tables as `nft -j -f` takes them (libnftables-json(5)).

use ipnet::IpNet;
use serde_json::{Value, json};
use service_api::address::Family;

use super::{
    diff::Table,
    model::{
        BaseKind, Chain, Container, Element, Key, KeyShape, Rule, Side, Statement, Verdict, family_word,
    },
    render::hook_word,
};
use crate::names::{Name, TABLE, TABLE_COMMENT};

/// All tables as one document.
pub fn tables(tables: &[(Family, Table)]) -> String {
    let mut items = vec![json!({"metainfo": {"json_schema_version": 1}})];
    for (family, table) in tables {
        items.extend(objects(table, *family));
    }
    let document = json!({"nftables": items});
    serde_json::to_string_pretty(&document).map_or_else(|_| String::new(), |text| text + "\n")
}

fn objects(table: &Table, family: Family) -> Vec<Value> {
    let word = family_word(family);
    let mut items = vec![add("table", json!({"family": word, "name": TABLE, "comment": TABLE_COMMENT}))];
    for container in Container::ALL {
        items.push(container_object(container, family));
    }
    let mut sets: Vec<_> = table.affinity().collect();
    sets.sort_by_key(|set| &set.name);
    items.extend(sets.iter().map(|set| {
        add(
            "set",
            json!({"family": word, "table": TABLE, "name": set.name.as_ref(), "type": address_type(family),
            "flags": ["timeout", "dynamic"], "timeout": set.timeout, "size": 65535}),
        )
    }));
    let mut chains: Vec<&Chain> = table.chains().collect();
    chains.sort_by_key(|chain| &chain.name);
    items.extend(chains.iter().map(|chain| chain_object(chain, family)));
    for chain in &chains {
        items.extend(chain.rules.iter().map(|rule| rule_object(chain, rule, family)));
    }
    let mut elements: Vec<&Element> = table.elements().collect();
    elements.sort_by_key(|element| (element.container, element.key));
    items.extend(elements.iter().map(|element| element_object(element, family)));
    items
}

#[allow(clippy::needless_pass_by_value)]
fn add(kind: &str, object: Value) -> Value {
    json!({"add": {kind: object}})
}

const fn address_type(family: Family) -> &'static str {
    match family {
        Family::V4 => "ipv4_addr",
        Family::V6 => "ipv6_addr",
    }
}

fn container_object(container: Container, family: Family) -> Value {
    let address = address_type(family);
    let kind = match container.shape() {
        KeyShape::Address => json!(address),
        KeyShape::AddressAndPort => json!([address, "inet_proto", "inet_service"]),
        KeyShape::Port => json!(["inet_proto", "inet_service"]),
        KeyShape::Connection => json!([address, address, "inet_proto", "inet_service"]),
    };
    let mut object = json!({"family": family_word(family), "table": TABLE, "name": container.name(), "type": kind,
        "comment": container.comment()});
    if container.is_map() {
        object["map"] = json!("verdict");
        return add("map", object);
    }
    add("set", object)
}

fn chain_object(chain: &Chain, family: Family) -> Value {
    let mut object = json!({"family": family_word(family), "table": TABLE, "name": chain.name.as_ref()});
    if let Some(base) = chain.base {
        let kind = match base.kind {
            BaseKind::Filter => "filter",
            BaseKind::Nat => "nat",
        };
        object["type"] = json!(kind);
        object["hook"] = json!(hook_word(base.hook));
        object["prio"] = json!(base.priority);
        object["policy"] = json!("accept");
    }
    if let Some(comment) = chain.comment {
        object["comment"] = json!(comment);
    }
    add("chain", object)
}

fn element_object(element: &Element, family: Family) -> Value {
    let key = match element.key {
        Key::Address(ip) => json!(ip.to_string()),
        Key::AddressAndPort(ip, protocol, port) => {
            json!({"concat": [ip.to_string(), protocol.as_str(), port]})
        }
        Key::Port(protocol, port) => json!({"concat": [protocol.as_str(), port]}),
        Key::Connection(ip, protocol, port) => {
            json!({"concat": [ip.to_string(), ip.to_string(), protocol.as_str(), port]})
        }
    };
    let key = match &element.comment {
        Some(comment) => json!({"elem": {"val": key, "comment": comment.as_ref()}}),
        None => key,
    };
    let value = match &element.verdict {
        None => key,
        Some(Verdict::Drop) => json!([key, {"drop": null}]),
        Some(Verdict::Goto(chain)) => json!([key, goto(chain)]),
    };
    let name = element.container.name();
    add("element", json!({"family": family_word(family), "table": TABLE, "name": name, "elem": [value]}))
}

fn goto(chain: &Name) -> Value {
    json!({"goto": {"target": chain.as_ref()}})
}

fn rule_object(chain: &Chain, rule: &Rule, family: Family) -> Value {
    let statements: Vec<Value> = rule.statements.iter().map(|of| statement(of, family)).collect();
    let mut object = json!({"family": family_word(family), "table": TABLE, "chain": chain.name.as_ref(),
        "expr": statements});
    if let Some(comment) = rule.comment {
        object["comment"] = json!(comment);
    }
    add("rule", object)
}

fn address(side: Side, family: Family) -> Value {
    json!({"payload": {"protocol": family_word(family), "field": side.as_str()}})
}

fn meta(key: &str) -> Value {
    json!({"meta": {"key": key}})
}

#[allow(clippy::needless_pass_by_value)]
fn matches(op: &str, left: Value, right: Value) -> Value {
    json!({"match": {"op": op, "left": left, "right": right}})
}

fn op(negated: bool) -> &'static str {
    if negated { "!=" } else { "==" }
}

fn net(net: &IpNet) -> Value {
    if net.prefix_len() == net.max_prefix_len() {
        return json!(net.addr().to_string());
    }
    json!({"prefix": {"addr": net.addr().to_string(), "len": net.prefix_len()}})
}

fn port() -> Value {
    json!({"payload": {"protocol": "th", "field": "dport"}})
}

fn random(of: usize) -> Value {
    json!({"numgen": {"mode": "random", "mod": of, "offset": 0}})
}

fn statement(of: &Statement, family: Family) -> Value {
    match of {
        Statement::ConnectionIsNew => matches("in", json!({"ct": {"key": "state"}}), json!("new")),
        Statement::ConnectionIsRewritten => matches("in", json!({"ct": {"key": "status"}}), json!("dnat")),
        Statement::ProtocolIs(protocol) => matches("==", meta("l4proto"), json!(protocol.as_str())),
        Statement::AddressIn { side, negated, nets } => {
            let right = match &nets[..] {
                [one] => net(one),
                nets => json!({"set": nets.iter().map(net).collect::<Vec<_>>()}),
            };
            matches(op(*negated), address(*side, family), right)
        }
        Statement::AddressInSet { side, set } => {
            matches("==", address(*side, family), json!(format!("@{set}")))
        }
        Statement::AddressIsLocal(side) => {
            matches("==", json!({"fib": {"result": "type", "flags": [side.as_str()]}}), json!("local"))
        }
        Statement::Interface { negated, name, prefix } => {
            let star = if *prefix { "*" } else { "" };
            matches(op(*negated), meta("iifname"), json!(format!("{name}{star}")))
        }
        Statement::Marked(bits) => matches("!=", json!({"&": [meta("mark"), bits]}), json!(0)),
        Statement::ConnectionInSet(set) => {
            let parts = json!({"concat": [address(Side::Source, family), address(Side::Destination, family),
                meta("l4proto"), port()]});
            matches("==", parts, json!(format!("@{set}")))
        }
        Statement::Mark(bits) => {
            json!({"mangle": {"key": meta("mark"), "value": {"|": [meta("mark"), bits]}}})
        }
        Statement::FlipMark(bits) => {
            json!({"mangle": {"key": meta("mark"), "value": {"^": [meta("mark"), bits]}}})
        }
        Statement::Remember(set) => {
            let elem = address(Side::Source, family);
            json!({"set": {"op": "update", "elem": elem, "set": format!("@{set}")}})
        }
        decision => decide(decision, family),
    }
}

fn decide(of: &Statement, family: Family) -> Value {
    match of {
        Statement::ByAddress(map) => {
            let key = json!({"concat": [address(Side::Destination, family), meta("l4proto"), port()]});
            json!({"vmap": {"key": key, "data": format!("@{map}")}})
        }
        Statement::ByPort(map) => {
            json!({"vmap": {"key": {"concat": [meta("l4proto"), port()]}, "data": format!("@{map}")}})
        }
        Statement::SendToOneOf(places) => {
            let data: Vec<Value> = places
                .iter()
                .enumerate()
                .map(|(i, place)| json!([i, {"concat": [place.ip.to_string(), place.port]}]))
                .collect();
            let map = json!({"map": {"key": random(places.len()), "data": {"set": data}}});
            json!({"dnat": {"family": family_word(family), "addr": map}})
        }
        Statement::GotoOneOf(chains) => {
            let data: Vec<Value> =
                chains.iter().enumerate().map(|(i, chain)| json!([i, goto(chain)])).collect();
            json!({"vmap": {"key": random(chains.len()), "data": {"set": data}}})
        }
        Statement::SendTo(place) => json!({"dnat": {"addr": place.ip.to_string(), "port": place.port}}),
        Statement::Masquerade => json!({"masquerade": {"flags": "fully-random"}}),
        Statement::Reject => json!({"reject": null}),
        Statement::Jump(chain) => json!({"jump": {"target": chain.as_ref()}}),
        Statement::Goto(chain) => goto(chain),
        _ => json!({"drop": null}),
    }
}
