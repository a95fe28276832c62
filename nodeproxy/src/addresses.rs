//! The addresses of this machine's interfaces, over netlink.

use std::net::IpAddr;

use netlink_bindings::rt_addr::{Ifaddrmsg, OpGetaddrDump, Request};
use netlink_bindings::traits::NetlinkRequest as _;

use crate::nft::wire::{Socket, SocketError};

const GET_ADDRESS: u16 = 22;
const DUMP: u16 = 0x301;

/// All addresses of the network namespace of the calling thread.
pub fn of_interfaces() -> Result<Vec<IpAddr>, SocketError> {
    let request = Request::new().op_getaddr_dump(&Ifaddrmsg::new());
    let mut buffer = netlink_bindings::builtin::Nlmsghdr::new().as_slice().to_vec();
    buffer.extend_from_slice(request.payload());
    let length = u32::try_from(buffer.len()).unwrap_or(0);
    let head = netlink_bindings::builtin::Nlmsghdr {
        len: length,
        r#type: GET_ADDRESS,
        flags: DUMP,
        ..netlink_bindings::builtin::Nlmsghdr::new()
    };
    buffer[..netlink_bindings::builtin::Nlmsghdr::len()].copy_from_slice(head.as_slice());
    let mut found = Vec::new();
    Socket::open(None)?.ask(&buffer, |_, body| {
        let (_, attrs) = OpGetaddrDump::decode_request(body);
        // Of a point-to-point link the address is the peer's and the local one ours.
        found.extend(attrs.get_local().or_else(|_| attrs.get_address()).ok());
    })?;
    found.sort_unstable();
    found.dedup();
    Ok(found)
}
