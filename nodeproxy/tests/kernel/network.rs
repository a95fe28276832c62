//! A node with a pod, a client pod, a pod of another node and a machine outside, each in a namespace of its own, joined by veths.

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    thread,
    time::Duration,
};

use crate::namespace::Namespace;

/// What never comes is waited for this long.
const NOTHING: Duration = Duration::from_millis(700);
/// What must come may take this long on a busy machine.
const SOMETHING: Duration = Duration::from_secs(20);

/// The namespaces.
pub(crate) struct Network {
    pub(crate) node: Namespace,
    pub(crate) pod: Namespace,
    pub(crate) client: Namespace,
    pub(crate) remote: Namespace,
    pub(crate) outside: Namespace,
}

impl Network {
    pub(crate) fn new() -> Self {
        let [node, pod, client, remote, outside] = std::array::from_fn(|_| Namespace::new());
        node.run("sysctl", &["-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"]);
        for (peer, link, v4, v6) in [
            (&pod, "pod", "10.7.0.2", "fd00:70::2"),
            (&client, "client", "10.7.0.9", "fd00:70::9"),
            (&remote, "remote", "10.7.1.2", "fd00:70::1:2"),
            (&outside, "outside", "203.0.113.9", "2001:db8:9::9"),
        ] {
            node.ip(&["link", "add", link, "type", "veth", "peer", "name", "up0", "netns", peer.name()]);
            for (of, link, v4, v6) in [(&node, link, "192.168.7.1", "fd00:7::1"), (peer, "up0", v4, v6)] {
                of.ip(&["link", "set", link, "up"]);
                of.ip(&["address", "add", &format!("{v4}/32"), "dev", link]);
                of.ip(&["address", "add", &format!("{v6}/128"), "dev", link, "nodad"]);
            }
            node.ip(&["route", "add", v4, "dev", link]);
            node.ip(&["-6", "route", "add", v6, "dev", link]);
            peer.ip(&["route", "add", "192.168.7.1", "dev", "up0"]);
            peer.ip(&["-6", "route", "add", "fd00:7::1", "dev", "up0"]);
            peer.ip(&["route", "add", "default", "via", "192.168.7.1"]);
            peer.ip(&["-6", "route", "add", "default", "via", "fd00:7::1"]);
        }
        // The node's own packets to Services need a way before they are rewritten.
        node.ip(&["route", "add", "default", "dev", "outside"]);
        node.ip(&["-6", "route", "add", "default", "dev", "outside"]);
        let network = Self { node, pod, client, remote, outside };
        for (namespace, name) in [(&network.pod, "pod"), (&network.remote, "remote")] {
            serve(namespace, name);
        }
        network
    }
}

/// A server at 8080 that says its name and who asks, over TCP and UDP; it ends with the tests.
fn serve(namespace: &Namespace, name: &'static str) {
    let (tcp, udp) =
        namespace.enter(|| (TcpListener::bind("[::]:8080").unwrap(), UdpSocket::bind("[::]:8080").unwrap()));
    thread::spawn(move || {
        for stream in tcp.incoming() {
            let Ok(mut stream) = stream else { continue };
            let Ok(peer) = stream.peer_addr() else { continue };
            let _ = stream.write_all(format!("{name} from {}", canonical(peer)).as_bytes());
        }
    });
    thread::spawn(move || {
        let mut buffer = [0; 64];
        while let Ok((_, peer)) = udp.recv_from(&mut buffer) {
            let _ = udp.send_to(format!("{name} from {}", canonical(peer)).as_bytes(), peer);
        }
    });
}

fn canonical(peer: SocketAddr) -> IpAddr {
    peer.ip().to_canonical()
}

/// Who answers from a place, or `refused`, or `nothing`.
pub(crate) fn ask(from: &Namespace, to: &str, expect_nothing: bool) -> String {
    let to: SocketAddr = to.parse().unwrap();
    let wait = if expect_nothing { NOTHING } else { SOMETHING };
    from.enter(|| match TcpStream::connect_timeout(&to, wait) {
        Ok(mut stream) => {
            let mut answer = String::new();
            stream.set_read_timeout(Some(SOMETHING)).unwrap();
            stream.read_to_string(&mut answer).unwrap();
            answer
        }
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => "refused".to_owned(),
        Err(error) if matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock) => {
            "nothing".to_owned()
        }
        Err(error) => error.to_string(),
    })
}

/// A UDP socket of a place that has asked for something already is asked again and again until the answer is this one.
pub(crate) fn udp_answers(socket: &UdpSocket, to: &str, wanted: &str) -> Result<(), String> {
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let mut last = "nothing".to_owned();
    for _ in 0..200 {
        let mut buffer = [0; 64];
        let sent = socket.send_to(b"?", to);
        match sent.and_then(|_| socket.recv_from(&mut buffer)) {
            Ok((length, _)) => last = String::from_utf8_lossy(&buffer[..length]).into_owned(),
            Err(error) => last = error.to_string(),
        }
        if last.contains(wanted) {
            return Ok(());
        }
        // Entries are removed beside, and nobody says when.
        thread::sleep(Duration::from_millis(50));
    }
    Err(last)
}
