//! What a rule's own sets hold, in a few bytes that are kept beside the rule.
//!
//! Such a set cannot be changed while its rule is there, so a rule that is read back with these bytes has what it had when it was
//! written, and its sets need not be read: the kernel finds each by its name among all of them.

use ring::digest::{Context, SHA256};

use super::{
    elements::{Raw, RawVerdict},
    expr::{LoweredRule, OwnKey},
};

/// Bytes of a digest; enough that two rules of a table never have the same by chance.
pub(crate) const LENGTH: usize = 16;

/// The digest of a rule's own sets; none if it has none.
pub(super) fn digest(rule: &LoweredRule) -> Option<[u8; LENGTH]> {
    if rule.sets.is_empty() {
        return None;
    }
    let mut context = Context::new(&SHA256);
    for set in &rule.sets {
        let kind = match set.key {
            OwnKey::Places => 0,
            OwnKey::Chains => 1,
            OwnKey::Addresses => 2,
        };
        context.update(&[kind]);
        part(&mut context, &set.elements.len().to_be_bytes());
        for element in &set.elements {
            add(&mut context, element);
        }
    }
    context.finish().as_ref().get(..LENGTH)?.try_into().ok()
}

fn add(context: &mut Context, element: &Raw) {
    part(context, &element.key);
    part(context, &[u8::from(element.ends)]);
    part(context, element.data.as_deref().unwrap_or_default());
    let (kind, chain) = match &element.jump {
        None => (0, None),
        Some(RawVerdict::Drop) => (1, None),
        Some(RawVerdict::Jump(chain)) => (2, Some(chain)),
        Some(RawVerdict::Goto(chain)) => (3, Some(chain)),
    };
    context.update(&[kind]);
    part(context, chain.map_or(&[], |chain| chain.as_bytes()));
}

/// Bytes after how many they are, so that parts cannot be taken for one another.
fn part(context: &mut Context, bytes: &[u8]) {
    context.update(&bytes.len().to_be_bytes());
    context.update(bytes);
}

#[cfg(test)]
mod tests {
    use ipnet::IpNet;
    use service_api::address::Family;

    use super::*;
    use crate::nft::{
        model::{Rule, Side, Statement},
        wire::lower,
    };

    fn of(nets: &[&str]) -> Option<[u8; LENGTH]> {
        let nets: Vec<IpNet> = nets.iter().map(|net| net.parse().unwrap()).collect();
        let statement = Statement::AddressIn { side: Side::Source, negated: false, nets };
        digest(&lower(&Rule::new([statement]), Family::V4))
    }

    #[test]
    fn another_content_is_another_digest() {
        assert_eq!(of(&["10.0.0.0/8"]), None, "one network needs no set");
        let two = of(&["10.0.0.0/8", "192.168.0.0/16"]);
        assert!(two.is_some());
        assert_eq!(two, of(&["10.0.0.0/8", "192.168.0.0/16"]));
        assert_ne!(two, of(&["10.0.0.0/8", "192.168.0.0/17"]));
        assert_ne!(two, of(&["10.0.0.0/8", "192.168.0.0/16", "172.16.0.0/12"]));
    }
}
