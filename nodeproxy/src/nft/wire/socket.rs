//! A netlink socket: sends a buffer, takes what the kernel answers.

use std::{io, os::fd::OwnedFd};

use netlink_bindings::builtin::Nlmsghdr;
use rustix::{
    io::Errno,
    net::{
        AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, bind,
        netlink::SocketAddrNetlink, recv, send, socket_with, sockopt,
    },
};

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// A dump that was disturbed by a change, and may lack or repeat something.
const NLM_F_DUMP_INTR: u16 = 0x10;
const HEADER: usize = 16;
/// Room for the largest transaction: the kernel takes one in a single piece.
const SEND_BUFFER: usize = 16 << 20;
const RECEIVE_BUFFER: usize = 4 << 20;
const RECEIVE: usize = 256 * 1024;

/// Why the kernel did not do something.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The socket does not work.
    #[error("netlink: {0}")]
    Io(#[from] io::Error),
    /// The kernel refuses a message.
    #[error("the kernel refuses message {sequence}: {source}")]
    Refused {
        /// Its number in what was sent.
        sequence: u32,
        /// Why.
        source: io::Error,
    },
    /// Something changed while it was told.
    #[error("the rules changed while they were read")]
    Disturbed,
}

impl From<Errno> for SocketError {
    fn from(errno: Errno) -> Self {
        Self::Io(errno.into())
    }
}

/// A socket of a netlink protocol.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    received: Vec<u8>,
}

impl Socket {
    /// Opens one in the network namespace of the calling thread; no protocol is that of routes and addresses.
    pub(crate) fn open(protocol: Option<Protocol>) -> Result<Self, SocketError> {
        let fd = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
        bind(&fd, &SocketAddrNetlink::new(0, 0))?;
        // Without root the limits stay as they are, and so do the refusals that follow.
        let _ = sockopt::set_socket_send_buffer_size_force(&fd, SEND_BUFFER);
        let _ = sockopt::set_socket_recv_buffer_size_force(&fd, RECEIVE_BUFFER);
        Ok(Self { fd, received: vec![0; RECEIVE] })
    }

    /// Sends a transaction. The kernel has done or refused it when this returns; all it says then is what it refuses.
    pub(crate) fn transact(&mut self, buffer: &[u8]) -> Result<(), SocketError> {
        self.send(buffer)?;
        let mut refused = None;
        while let Some(length) = self.receive(RecvFlags::DONTWAIT)? {
            for (head, body) in Messages(&self.received[..length]) {
                if head.r#type == NLMSG_ERROR
                    && let Some(source) = error_of(body)
                {
                    refused.get_or_insert(SocketError::Refused { sequence: head.seq, source });
                }
            }
        }
        refused.map_or(Ok(()), Err)
    }

    /// Sends a request and takes each message of the answer.
    pub(crate) fn ask(&mut self, buffer: &[u8], mut each: impl FnMut(u16, &[u8])) -> Result<(), SocketError> {
        self.send(buffer)?;
        let mut disturbed = false;
        loop {
            let Some(length) = self.receive(RecvFlags::empty())? else { continue };
            for (head, body) in Messages(&self.received[..length]) {
                disturbed |= head.flags & NLM_F_DUMP_INTR != 0;
                match head.r#type {
                    NLMSG_DONE if disturbed => return Err(SocketError::Disturbed),
                    NLMSG_DONE => return Ok(()),
                    NLMSG_ERROR => {
                        let sequence = head.seq;
                        return error_of(body)
                            .map_or(Ok(()), |source| Err(SocketError::Refused { sequence, source }));
                    }
                    kind => each(kind, body),
                }
            }
        }
    }

    fn send(&self, buffer: &[u8]) -> Result<(), SocketError> {
        send(&self.fd, buffer, SendFlags::empty())?;
        Ok(())
    }

    /// None if there is nothing.
    fn receive(&mut self, flags: RecvFlags) -> Result<Option<usize>, SocketError> {
        match recv(&self.fd, &mut self.received[..], flags) {
            Ok((length, _)) => Ok(Some(length)),
            Err(Errno::AGAIN) => Ok(None),
            Err(Errno::INTR) => Ok(Some(0)),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// What a message of an error says; none if it is only a yes.
fn error_of(body: &[u8]) -> Option<io::Error> {
    let code = i32::from_ne_bytes(body.get(..4)?.try_into().ok()?);
    (code != 0).then(|| io::Error::from_raw_os_error(-code))
}

/// The messages of what was received.
struct Messages<'a>(&'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = (Nlmsghdr, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let head = Nlmsghdr::new_from_slice(self.0.get(..HEADER)?)?;
        let length = usize::try_from(head.len).ok()?;
        let body = self.0.get(HEADER..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((head, body))
    }
}
