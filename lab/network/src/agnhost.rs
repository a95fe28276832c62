//! This program as `agnhost`, in pods whose image has that name: the subcommands of its documentation that commands in pods call.
//!
//! What such a pod serves is served by the lab itself, not by a process of this.

use std::{
    fmt::Write as _,
    fs, io,
    net::{SocketAddr, TcpStream, ToSocketAddrs as _},
    time::Duration,
};

use crate::{duration, sctp};

/// What the program is called to be this.
pub const NAME: &str = "agnhost";
/// How long a connection may take if nothing is said.
const PATIENCE: Duration = Duration::from_secs(10);
/// The subcommands that do something and end.
const KNOWN: [&str; 5] = ["connect", "dns-suffix", "dns-server-list", "entrypoint-tester", "etc-hosts"];

/// Whether a subcommand is a program that runs to its end, and not a server.
pub(crate) fn ends_by_itself(subcommand: &str) -> bool {
    KNOWN.contains(&subcommand)
}

/// Does what the words behind the program's name say; what it prints.
///
/// # Errors
/// What it complains of, beginning with the word that the documentation has for it.
pub fn run(words: &[String]) -> Result<String, String> {
    let read = |path: &str| fs::read_to_string(path).map_err(|error| format!("{path}: {error}\n"));
    match words.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        Some(("connect", rest)) => connect(rest).map(|()| String::new()),
        Some(("dns-suffix", _)) => read("/etc/resolv.conf").map(|text| listed(&text, "search")),
        Some(("dns-server-list", _)) => read("/etc/resolv.conf").map(|text| listed(&text, "nameserver")),
        Some(("etc-hosts", _)) => read("/etc/hosts"),
        Some(("entrypoint-tester", rest)) => Ok(format!("{}\n", rest.join(" "))),
        other => {
            let known = KNOWN.join(", ");
            Err(format!("{:?} is not among the commands here: {known}\n", other.map(|(first, _)| first)))
        }
    }
}

/// The words behind a keyword of a resolver's file, between commas.
fn listed(text: &str, keyword: &str) -> String {
    let lines = text.lines().filter_map(|line| line.trim().strip_prefix(keyword));
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    words.join(",") + "\n"
}

/// What is to be connected to.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    to: String,
    patience: Duration,
    sctp: bool,
}

impl Wanted {
    fn of(words: &[String]) -> Result<Self, String> {
        let mut wanted = Self { to: String::new(), patience: PATIENCE, sctp: false };
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            let Some(flag) = word.strip_prefix("--") else {
                wanted.to.clone_from(word);
                continue;
            };
            let (name, value) = match flag.split_once('=') {
                Some((name, value)) => (name, value),
                None => (flag, rest.next().map(String::as_str).unwrap_or_default()),
            };
            match (name, value) {
                ("timeout", value) => {
                    wanted.patience =
                        duration::of(value).ok_or(format!("--timeout: {value:?} is no duration"))?;
                }
                ("protocol", "tcp") => wanted.sctp = false,
                ("protocol", "sctp") => wanted.sctp = true,
                ("protocol", other) => {
                    return Err(format!("--protocol: {other:?} is neither tcp nor sctp"));
                }
                (other, _) => return Err(format!("--{other} is no flag of connect")),
            }
        }
        if wanted.to.is_empty() { Err("give HOST:PORT".to_owned()) } else { Ok(wanted) }
    }
}

fn connect(words: &[String]) -> Result<(), String> {
    let wanted = Wanted::of(words).map_err(|why| format!("UNKNOWN: {why}\n"))?;
    let found = wanted.to.to_socket_addrs().map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => format!("UNKNOWN: {error}\n"),
        _ => format!("DNS: {error}\n"),
    })?;
    let mut failed = "DNS: no address\n".to_owned();
    for to in found {
        match reach(to, &wanted) {
            Ok(()) => return Ok(()),
            Err(why) => failed = why,
        }
    }
    Err(failed)
}

fn reach(to: SocketAddr, wanted: &Wanted) -> Result<(), String> {
    let reached = if wanted.sctp {
        sctp::connect(to, wanted.patience)
    } else {
        TcpStream::connect_timeout(&to, wanted.patience)
    };
    let Err(failed) = reached else { return Ok(()) };
    let word = match failed.kind() {
        io::ErrorKind::Unsupported => return Err(format!("UNKNOWN: {failed}\n")),
        io::ErrorKind::TimedOut => "TIMEOUT",
        io::ErrorKind::ConnectionRefused => "REFUSED",
        _ => "OTHER",
    };
    let mut text = word.to_owned();
    if word == "OTHER" {
        let _ = write!(text, ": {failed}");
    }
    Err(text + "\n")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[rstest]
    #[case("10.0.0.1:80", Ok(("10.0.0.1:80", 10, false)))]
    #[case("--timeout=3s web:80", Ok(("web:80", 3, false)))]
    #[case("--timeout 3s --protocol tcp web:80", Ok(("web:80", 3, false)))]
    #[case("--protocol=sctp web:80", Ok(("web:80", 10, true)))]
    #[case("--timeout=soon web:80", Err(()))]
    #[case("--protocol=udp web:80", Err(()))]
    #[case("", Err(()))]
    fn connections(#[case] line: &str, #[case] expected: Result<(&str, u64, bool), ()>) {
        let wanted = Wanted::of(&words(line)).map_err(|_| ());
        let expected = expected.map(|(to, seconds, sctp)| Wanted {
            to: to.to_owned(),
            patience: Duration::from_secs(seconds),
            sctp,
        });
        assert_eq!(wanted, expected);
    }

    #[test]
    fn what_came_of_it_is_told_by_a_word() {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let to = listener.local_addr().unwrap();
        assert_eq!(run(&words(&format!("connect {to}"))), Ok(String::new()));
        drop(listener);
        assert_eq!(run(&words(&format!("connect {to}"))), Err("REFUSED\n".to_owned()));
        assert!(run(&words("connect here")).unwrap_err().starts_with("UNKNOWN"));
        assert!(run(&words("netexec")).is_err());
    }

    #[test]
    fn a_resolvers_words() {
        let file =
            "search demo.svc.cluster.local svc.cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n";
        assert_eq!(listed(file, "search"), "demo.svc.cluster.local,svc.cluster.local\n");
        assert_eq!(listed(file, "nameserver"), "10.96.0.10\n");
    }
}
