//! SCTP in the one-to-one style, which a listener and a stream of TCP can be used for once they are made. Blocking.
//!
//! Many kernels have no SCTP, or only once its module is loaded: then every call says so.

use std::{
    io,
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::OwnedFd,
    time::Duration,
};

use rustix::net::{
    AddressFamily, Protocol, SocketFlags, SocketType, bind, connect as connect_socket, ipproto,
    listen as listen_at, socket_with,
    sockopt::{Timeout, set_socket_reuseaddr, set_socket_timeout},
};

const BACKLOG: i32 = 128;

/// Listens at an address.
pub(crate) fn listen(at: SocketAddr) -> io::Result<TcpListener> {
    listen_by(ipproto::SCTP, at)
}

/// Connects to an address, within some time.
pub(crate) fn connect(to: SocketAddr, patience: Duration) -> io::Result<TcpStream> {
    connect_by(ipproto::SCTP, to, patience)
}

fn socket(protocol: Protocol, address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, Some(protocol)).map_err(|errno| match errno
    {
        rustix::io::Errno::PROTONOSUPPORT => io::Error::new(
            io::ErrorKind::Unsupported,
            "this kernel has no SCTP (CONFIG_IP_SCTP, module sctp)",
        ),
        errno => errno.into(),
    })
}

fn listen_by(protocol: Protocol, at: SocketAddr) -> io::Result<TcpListener> {
    let socket = socket(protocol, at)?;
    set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &at)?;
    listen_at(&socket, BACKLOG)?;
    Ok(socket.into())
}

fn connect_by(protocol: Protocol, to: SocketAddr, patience: Duration) -> io::Result<TcpStream> {
    let socket = socket(protocol, to)?;
    set_socket_timeout(&socket, Timeout::Send, Some(patience))?;
    match connect_socket(&socket, &to) {
        Ok(()) => Ok(socket.into()),
        // What a timeout of a socket is told by.
        Err(rustix::io::Errno::INPROGRESS | rustix::io::Errno::AGAIN) => Err(io::ErrorKind::TimedOut.into()),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    fn talk(protocol: Protocol) -> io::Result<String> {
        let listener = listen_by(protocol, "127.0.0.1:0".parse().unwrap())?;
        let mut client = connect_by(protocol, listener.local_addr()?, PATIENCE)?;
        let (mut server, _) = listener.accept()?;
        client.write_all(b"hello")?;
        let mut heard = [0; 5];
        server.read_exact(&mut heard)?;
        Ok(String::from_utf8_lossy(&heard).into_owned())
    }

    #[test]
    fn sockets_become_listeners_and_streams() {
        assert_eq!(talk(ipproto::TCP).unwrap(), "hello");
        match talk(ipproto::SCTP) {
            Ok(heard) => assert_eq!(heard, "hello"),
            Err(error) if error.kind() == io::ErrorKind::Unsupported => println!("skipped: {error}"),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn nobody_at_a_port_is_a_refusal() {
        let listener = listen_by(ipproto::TCP, "127.0.0.1:0".parse().unwrap()).unwrap();
        let at = listener.local_addr().unwrap();
        drop(listener);
        let refused = connect_by(ipproto::TCP, at, PATIENCE).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }
}
