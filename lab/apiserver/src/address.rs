//! The address behind `default/kubernetes`: where the cluster is told that its API server is.
//!
//! A cluster never publishes a loopback address, which the API itself refuses in Endpoints and EndpointSlices, and the address
//! is of the Service's family. A server on loopback stands in the lab's own network beside its simulated nodes, at an address
//! that leads as little anywhere as those of its pods do; clients on this machine use the kubeconfig.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use service_allocators::Family;

/// Where the lab's network has its API server.
const SIMULATED_V4: Ipv4Addr = Ipv4Addr::new(192, 168, 10, 10);
const SIMULATED_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x192, 0x168, 0x10, 0, 0, 0, 0x10);

/// The address to publish for a server that listens at `bound`, for a Service of that family.
pub(crate) fn published(bound: SocketAddr, family: Family) -> SocketAddr {
    choose(bound, family, || own_address(family))
}

/// By which addresses of its own a server on all of them is reached from other machines, as far as they are known.
pub(crate) fn of_machine(bound: SocketAddr) -> Vec<SocketAddr> {
    if !bound.ip().is_unspecified() {
        return Vec::new();
    }
    let families: &[Family] = if bound.is_ipv4() { &[Family::V4] } else { &[Family::V4, Family::V6] };
    let own = families.iter().filter_map(|family| own_address(*family));
    own.filter(|ip| !ip.is_loopback() && !is_link_local(*ip))
        .map(|ip| SocketAddr::new(ip, bound.port()))
        .collect()
}

/// The bound address if it is of use; for a server on all addresses, the machine's own; else one of the lab's network.
fn choose(bound: SocketAddr, family: Family, own: impl FnOnce() -> Option<IpAddr>) -> SocketAddr {
    let useful = |ip: &IpAddr| {
        Family::of(*ip) == family && !ip.is_loopback() && !ip.is_unspecified() && !is_link_local(*ip)
    };
    let ip = if bound.ip().is_unspecified() { own() } else { Some(bound.ip()) };
    let simulated = match family {
        Family::V4 => SIMULATED_V4.into(),
        Family::V6 => SIMULATED_V6.into(),
    };
    SocketAddr::new(ip.filter(useful).unwrap_or(simulated), bound.port())
}

/// Endpoints can not have such an address either.
fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

/// The address by which this machine goes to others. Nothing is sent: a datagram socket only picks its route.
fn own_address(family: Family) -> Option<IpAddr> {
    let (any, far): (IpAddr, IpAddr) = match family {
        Family::V4 => (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::new(192, 0, 2, 1).into()),
        Family::V6 => (Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into()),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((far, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::loopback("127.0.0.1:6443", Family::V4, None, "192.168.10.10:6443")]
    #[case::loopback_for_ipv6("127.0.0.1:6443", Family::V6, None, "[fd00:192:168:10::10]:6443")]
    #[case::loopback_ipv6("[::1]:6443", Family::V6, None, "[fd00:192:168:10::10]:6443")]
    #[case::its_own("10.0.0.5:6443", Family::V4, None, "10.0.0.5:6443")]
    #[case::of_the_other_family("10.0.0.5:6443", Family::V6, None, "[fd00:192:168:10::10]:6443")]
    #[case::link_local("[fe80::1]:6443", Family::V6, None, "[fd00:192:168:10::10]:6443")]
    #[case::all("0.0.0.0:6443", Family::V4, Some("10.0.0.7"), "10.0.0.7:6443")]
    #[case::all_of_a_lonely_machine("[::]:6443", Family::V4, None, "192.168.10.10:6443")]
    #[case::all_of_a_machine_on_loopback("[::]:6443", Family::V4, Some("127.0.0.1"), "192.168.10.10:6443")]
    fn addresses(
        #[case] bound: SocketAddr,
        #[case] family: Family,
        #[case] own: Option<&str>,
        #[case] expected: SocketAddr,
    ) {
        assert_eq!(choose(bound, family, || own.map(|ip| ip.parse().unwrap())), expected);
        assert!(!published(bound, family).ip().is_loopback());
    }
}
