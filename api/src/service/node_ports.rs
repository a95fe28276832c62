//! Which node port a port of an updated Service keeps when the update does not say.

use std::collections::{BTreeSet, HashMap, HashSet};

use k8s_openapi::api::core::v1::{ServicePort, ServiceSpec};

use super::fields::{node_port, ports, protocol, text};

/// Gives ports without a node port the one that the old Service had for them: for a port of the
/// same name, else for a port of the same number and protocol.
///
/// A node port that is written out anywhere in `new` is never handed on, and none is handed out
/// twice, except that one port number with several protocols may share what it shared before.
/// Upstream looks at the name alone, so that a renamed port loses its node port.
pub fn carry_over_node_ports(new: &mut ServiceSpec, old: &ServiceSpec) {
    let Some(new_ports) = new.ports.as_mut() else {
        return;
    };
    let old_ports = ports(old);
    let mut written: BTreeSet<i32> = new_ports.iter().map(node_port).collect();
    written.remove(&0);
    let mut given: HashSet<(i32, String)> = HashSet::new();
    let mut taken = vec![false; old_ports.len()];

    for identity in [name_and_number, name_only, number_only] {
        // What is written out elsewhere is out of the question for every port.
        let mut candidates: HashMap<Identity, Vec<usize>> = HashMap::new();
        for (i, old) in old_ports.iter().enumerate() {
            if !taken[i] && node_port(old) != 0 && !written.contains(&node_port(old)) {
                candidates.entry(identity(old)).or_default().push(i);
            }
        }
        for port in new_ports.iter_mut().filter(|p| node_port(p) == 0) {
            let same = candidates.get(&identity(port)).map_or(&[][..], Vec::as_slice);
            let free = |i: &&usize| {
                !taken[**i] && !given.contains(&(node_port(&old_ports[**i]), protocol(port).to_owned()))
            };
            if let Some(i) = same.iter().find(free) {
                taken[*i] = true;
                given.insert((node_port(&old_ports[*i]), protocol(port).to_owned()));
                port.node_port = old_ports[*i].node_port;
            }
        }
    }
}

/// What two ports have to have in common: name, number, protocol.
type Identity = (Option<String>, Option<(i32, String)>);

fn name_and_number(port: &ServicePort) -> Identity {
    (name_only(port).0, number_only(port).1)
}

fn name_only(port: &ServicePort) -> Identity {
    (Some(text(port.name.as_ref()).to_owned()), None)
}

fn number_only(port: &ServicePort) -> Identity {
    (None, Some((port.port, protocol(port).to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    /// Ports written as `name/number/protocol/nodePort`.
    fn spec(text: &[&str]) -> ServiceSpec {
        let port = |text: &&str| {
            let parts: Vec<&str> = text.split('/').collect();
            ServicePort {
                name: (!parts[0].is_empty()).then(|| parts[0].to_owned()),
                port: parts[1].parse().unwrap(),
                protocol: Some(parts[2].to_owned()),
                node_port: Some(parts[3].parse().unwrap()).filter(|n| *n != 0),
                ..ServicePort::default()
            }
        };
        ServiceSpec { ports: Some(text.iter().map(port).collect()), ..ServiceSpec::default() }
    }

    fn node_ports(spec: &ServiceSpec) -> Vec<i32> {
        ports(spec).iter().map(node_port).collect()
    }

    #[rstest]
    #[case::same(&["web/80/TCP/30001"], &["web/80/TCP/0"], &[30001])]
    #[case::other_number(&["web/80/TCP/30001"], &["web/8080/TCP/0"], &[30001])]
    #[case::other_name(&["web/80/TCP/30001"], &["http/80/TCP/0"], &[30001])]
    #[case::unnamed(&["/80/TCP/30001"], &["/8080/TCP/0"], &[30001])]
    #[case::named_and_added(&["web/8080/TCP/30001"], &["http/8080/TCP/0", "admin/9090/TCP/0"], &[30001, 0])]
    #[case::other_in_all(&["web/80/TCP/30001"], &["http/8080/TCP/0"], &[0])]
    #[case::reordered(&["a/80/TCP/30001", "b/81/TCP/30002"], &["b/81/TCP/0", "a/80/TCP/0"], &[30002, 30001])]
    #[case::names_swapped(&["a/80/TCP/30001", "b/81/TCP/30002"], &["b/80/TCP/0", "a/81/TCP/0"], &[30002, 30001])]
    #[case::written_elsewhere(&["a/80/TCP/30001"], &["a/80/TCP/0", "b/81/TCP/30001"], &[0, 30001])]
    #[case::two_unnamed(&["/80/TCP/30080"], &["/80/TCP/0", "/81/TCP/0"], &[30080, 0])]
    #[case::two_protocols(&["t/53/TCP/30053", "u/53/UDP/30053"], &["t/53/TCP/0", "u/53/UDP/0"], &[30053, 30053])]
    #[case::split_name(&["a/80/TCP/30001"], &["x/81/TCP/0", "b/80/TCP/0"], &[0, 30001])]
    fn node_ports_stay(#[case] old: &[&str], #[case] new: &[&str], #[case] expected: &[i32]) {
        let old = spec(old);
        let mut new = spec(new);
        carry_over_node_ports(&mut new, &old);
        assert_eq!(node_ports(&new), expected);
    }

    fn any_spec() -> impl Strategy<Value = ServiceSpec> {
        let port =
            (0..4u8, 80..84i32, any::<bool>(), 0..5i32).prop_map(|(name, port, udp, np)| ServicePort {
                name: (name > 0).then(|| format!("p{name}")),
                port,
                protocol: Some(if udp { "UDP" } else { "TCP" }.to_owned()),
                node_port: (np > 0).then_some(30000 + np),
                ..ServicePort::default()
            });
        prop::collection::vec(port, 0..5)
            .prop_map(|ports| ServiceSpec { ports: Some(ports), ..ServiceSpec::default() })
    }

    proptest! {
        #[test]
        fn nothing_is_invented_overwritten_or_doubled(old in any_spec(), new in any_spec()) {
            let before = new.clone();
            let mut after = new;
            carry_over_node_ports(&mut after, &old);
            let known: Vec<i32> = node_ports(&old);
            let mut given = BTreeSet::new();
            for (b, a) in ports(&before).iter().zip(ports(&after)) {
                if node_port(b) != 0 {
                    prop_assert_eq!(node_port(b), node_port(a));
                } else if node_port(a) != 0 {
                    prop_assert!(known.contains(&node_port(a)));
                    prop_assert!(!node_ports(&before).contains(&node_port(a)));
                    prop_assert!(given.insert((node_port(a), protocol(a).to_owned())));
                }
            }
        }
    }
}
