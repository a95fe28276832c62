//! `/dial` of `agnhost netexec`: one pod asks another, and tells what it said. Blocking: for threads of its own.

use std::{
    collections::HashMap,
    io::{self, Read as _, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs as _},
    time::Duration,
};

use axum::http::{StatusCode, Uri};
use serde_json::{Value, json};

use super::{DATAGRAM, OUTPUT};
use crate::{namespace::Namespace, sctp};

/// How long a dialed pod may take.
const DIAL: Duration = Duration::from_secs(5);
/// How often one request may have another asked.
const TRIES: usize = 100;

/// What is to be dialed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wanted {
    host: String,
    port: u16,
    request: String,
    over: Over,
    tries: usize,
}

/// What a dialed pod is asked by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Over {
    Http,
    Udp,
    Sctp,
}

impl Wanted {
    fn of(query: &HashMap<String, String>) -> Result<Self, String> {
        let of = |name: &str| query.get(name).map(|text| text.trim()).unwrap_or_default();
        let (host, request) = (of("host").trim_matches(['[', ']']), of("request"));
        if host.is_empty() {
            return Err("host: none is given".to_owned());
        }
        if request.is_empty() {
            return Err("request: none is given".to_owned());
        }
        let port = of("port").parse().map_err(|_| format!("port: {:?} is none", of("port")))?;
        let over = match of("protocol") {
            "" | "http" => Over::Http,
            "udp" => Over::Udp,
            "sctp" => Over::Sctp,
            other => return Err(format!("protocol: {other:?} is neither http, udp nor sctp")),
        };
        let tries = match of("tries") {
            "" => 1,
            text => text.parse().map_err(|_| format!("tries: {text:?} is no number"))?,
        };
        if !(1..=TRIES).contains(&tries) {
            return Err(format!("tries: {tries} is not between 1 and {TRIES}"));
        }
        Ok(Self { host: host.to_owned(), port, request: request.to_owned(), over, tries })
    }
}

/// Asks another pod, as often as is said; what it answered, and whether the last answer was one.
pub(super) fn dial(namespace: &Namespace, query: &HashMap<String, String>) -> (StatusCode, Value) {
    let wanted = match Wanted::of(query) {
        Ok(wanted) => wanted,
        Err(why) => return (StatusCode::BAD_REQUEST, json!({"errors": [why]})),
    };
    let (mut responses, mut errors, mut last) = (Vec::new(), Vec::new(), StatusCode::OK);
    for _ in 0..wanted.tries {
        let asked = namespace.within(|| {
            let to = address(&wanted)?;
            match wanted.over {
                Over::Http => ask_http(to, &wanted.request),
                Over::Udp => ask_udp(to, &wanted.request),
                Over::Sctp => ask_sctp(to, &wanted.request),
            }
        });
        last = if asked.is_ok() { StatusCode::OK } else { StatusCode::EXPECTATION_FAILED };
        match asked {
            Ok(text) => responses.push(text),
            Err(error) => errors.push(error.to_string()),
        }
    }
    let mut answer = json!({"responses": responses});
    if !errors.is_empty() {
        answer["errors"] = json!(errors);
    }
    (last, answer)
}

/// Whether pods at these addresses, between commas, see this one ask with one of its own.
pub(super) fn seen_with_own_address(
    namespace: &Namespace,
    own: &[IpAddr],
    ips: &str,
    port: u16,
) -> Result<(), String> {
    for ip in ips.split(',').map(str::trim) {
        let to: IpAddr = ip.parse().map_err(|_| format!("{ip:?} is no address\n"))?;
        let asked = namespace.within(|| ask_http(SocketAddr::new(to, port), "whoami"));
        let seen = asked.map_err(|error| format!("{ip}: {error}\n"))?;
        if !seen.trim().parse().is_ok_and(|seen: IpAddr| own.contains(&seen)) {
            return Err(format!("{ip} sees {seen:?}, and the pod has {own:?}\n"));
        }
    }
    Ok(())
}

fn address(wanted: &Wanted) -> io::Result<SocketAddr> {
    if let Ok(ip) = wanted.host.parse::<IpAddr>() {
        return Ok(SocketAddr::new(ip, wanted.port));
    }
    let mut found = (wanted.host.as_str(), wanted.port).to_socket_addrs()?;
    found.next().ok_or_else(|| io::Error::other(format!("lookup {}: no such host", wanted.host)))
}

fn ask_http(to: SocketAddr, request: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&to, DIAL)?;
    stream.set_read_timeout(Some(DIAL))?;
    let path: Uri = format!("/{}", request.trim_start_matches('/')).parse().map_err(io::Error::other)?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {to}\r\n\r\n")?;
    let mut answer = String::new();
    stream.take(OUTPUT as u64).read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    if head.split(' ').nth(1) == Some("200") {
        Ok(body.to_owned())
    } else {
        Err(io::Error::other(head.lines().next().unwrap_or("no answer").to_owned()))
    }
}

fn ask_udp(to: SocketAddr, request: &str) -> io::Result<String> {
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = std::net::UdpSocket::bind((any, 0))?;
    socket.set_read_timeout(Some(DIAL))?;
    socket.send_to(request.as_bytes(), to)?;
    let mut buffer = [0; DATAGRAM];
    let (length, _) = socket.recv_from(&mut buffer)?;
    Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
}

fn ask_sctp(to: SocketAddr, request: &str) -> io::Result<String> {
    let mut stream = sctp::connect(to, DIAL)?;
    stream.set_read_timeout(Some(DIAL))?;
    stream.write_all(request.as_bytes())?;
    let mut buffer = [0; DATAGRAM];
    let length = stream.read(&mut buffer)?;
    Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn query(text: &str) -> HashMap<String, String> {
        let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    #[rstest]
    #[case("host=10.0.0.1&port=80&request=hostname", Some((Over::Http, 1)))]
    #[case("host=[fd00::1]&port=80&request=hostname&protocol=udp&tries=3", Some((Over::Udp, 3)))]
    #[case("host=10.0.0.1&port=80&request=hostname&protocol=sctp", Some((Over::Sctp, 1)))]
    #[case("host=10.0.0.1&port=80", None)]
    #[case("port=80&request=hostname", None)]
    #[case("host=10.0.0.1&port=x&request=hostname", None)]
    #[case("host=10.0.0.1&port=80&request=hostname&protocol=smtp", None)]
    #[case("host=10.0.0.1&port=80&request=hostname&tries=0", None)]
    #[case("host=10.0.0.1&port=80&request=hostname&tries=101", None)]
    fn parameters(#[case] text: &str, #[case] expected: Option<(Over, usize)>) {
        assert_eq!(Wanted::of(&query(text)).ok().map(|wanted| (wanted.over, wanted.tries)), expected);
    }
}
