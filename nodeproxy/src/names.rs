//! Names of chains and sets as kube-proxy's nftables mode makes them, so that people's knowledge and tools apply.
//!
//! A name carries the first eight characters of the base32 of the SHA-256 of what it stands for: names that would be cut are
//! still different.

use std::{net::IpAddr, sync::Arc};

use data_encoding::BASE32;
use ring::digest::{SHA256, digest};

use crate::endpoint::{Place, Protocol, ServiceKey};

/// A name, shared by all that refer to it.
pub type Name = Arc<str>;

/// The comment of the table, by which another proxy's table of this layout is known too.
pub const TABLE_COMMENT: &str = "rules for kube-proxy";
/// The table, in the families `ip` and `ip6`.
pub const TABLE: &str = "kube-proxy";
/// Longest name after a prefix: 256 bytes of the kernel with room for the end and the longest prefix.
const LONGEST: usize = 240;
const HASH: usize = 8;
const CUT: &str = "...";

/// The hash that opens a name.
pub fn hash(text: &str) -> String {
    let mut encoded = BASE32.encode(digest(&SHA256, text.as_bytes()).as_ref());
    encoded.truncate(HASH);
    encoded
}

fn hashed(text: &str) -> String {
    let mut name = format!("{}-{text}", hash(text));
    if name.len() > LONGEST {
        name.truncate(LONGEST - CUT.len());
        name.push_str(CUT);
    }
    name
}

/// What the names of a Service's port have in common: `HASH-namespace/name/protocol/port`.
pub fn port_base(service: &ServiceKey, protocol: Protocol, port_name: &str) -> String {
    hashed(&port_path(service, protocol, port_name))
}

fn port_path(service: &ServiceKey, protocol: Protocol, port_name: &str) -> String {
    format!("{service}/{protocol}/{port_name}")
}

/// The same of one endpoint of it: `HASH-namespace/name/protocol/port__address/port`, with dots for an address's colons.
pub fn endpoint_base(service: &ServiceKey, protocol: Protocol, port_name: &str, place: Place) -> String {
    let address = match place.ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => ip.to_string().replace(':', "."),
    };
    hashed(&format!("{}__{address}/{}", port_path(service, protocol, port_name), place.port))
}

/// Whether a chain belongs to a Service: only those have slashes.
pub fn of_service(chain: &str) -> bool {
    chain.contains('/')
}

/// Whether a set remembers clients.
pub fn is_affinity(set: &str) -> bool {
    set.starts_with("affinity-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_field() {
        let hello = ServiceKey::new("demo", "hello");
        assert_eq!(port_base(&hello, Protocol::Tcp, "http"), "VSI2YVQZ-demo/hello/tcp/http");
        let dns = ServiceKey::new("kube-system", "kube-dns");
        assert_eq!(port_base(&dns, Protocol::Udp, "dns"), "FY5PMXPG-kube-system/kube-dns/udp/dns");
        let sticky = ServiceKey::new("demo", "hello-sticky");
        let place = Place { ip: "172.20.172.17".parse().unwrap(), port: 8080 };
        assert_eq!(
            endpoint_base(&sticky, Protocol::Tcp, "http", place),
            "GWRCMAKN-demo/hello-sticky/tcp/http__172.20.172.17/8080"
        );
    }

    #[test]
    fn an_address_has_no_colon_and_a_long_name_is_cut() {
        let key = ServiceKey::new(&"n".repeat(63), &"s".repeat(63));
        let place = Place { ip: "fd00:1111:2222:3333:4444:5555:6666:7777".parse().unwrap(), port: 65535 };
        let name = endpoint_base(&key, Protocol::Sctp, &"p".repeat(63), place);
        assert!(name.len() <= LONGEST && !name.contains(':') && name.ends_with(CUT), "{name}");
    }
}
