//! A small `nslookup`, for commands in pods of a machine that has none: asks the pod's resolver and prints as busybox does.

use std::{
    fs, io,
    net::{IpAddr, SocketAddr, UdpSocket},
    time::Duration,
};

use hickory_proto::{
    op::{Message, Query, ResponseCode},
    rr::{Name, RData, Record, RecordType},
};

/// What the program is called to be this.
pub const NAME: &str = "nslookup";
const PORT: u16 = 53;
const PATIENCE: Duration = Duration::from_secs(5);
const DATAGRAM: usize = 4096;

/// Looks the name up that the words behind the program's name say; what it prints.
///
/// # Errors
/// What it printed, when the name has no address.
pub fn run(words: &[String]) -> Result<String, String> {
    let mut names = words.iter().filter(|word| !word.starts_with('-'));
    let Some(name) = names.next() else { return Err("nslookup: give a name\n".to_owned()) };
    let file = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let resolver = Resolver::of(&file);
    let server = match names.next() {
        Some(server) => server.parse().map_err(|_| format!("nslookup: {server} is no address\n"))?,
        None => resolver.server.ok_or("nslookup: /etc/resolv.conf names no server\n")?,
    };
    let head = format!("Server:\t\t{server}\nAddress:\t{}\n\n", SocketAddr::new(server, PORT));
    let mut last = String::new();
    for candidate in resolver.candidates(name) {
        match look_up(server, &candidate) {
            Ok(found) if !found.is_empty() => return Ok(head + &found),
            Ok(_) => last = format!("*** Can't find {name}: No answer\n"),
            Err(why) => last = format!("** server can't find {candidate}: {why}\n"),
        }
    }
    Err(head + &last)
}

/// What a resolver's file says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Resolver {
    server: Option<IpAddr>,
    search: Vec<String>,
    dots: usize,
}

impl Resolver {
    fn of(file: &str) -> Self {
        let mut resolver = Self { dots: 1, ..Self::default() };
        for line in file.lines() {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") if resolver.server.is_none() => {
                    resolver.server = words.next().and_then(|ip| ip.parse().ok());
                }
                Some("search") => resolver.search = words.map(str::to_owned).collect(),
                Some("options") => {
                    let mut dots = words.filter_map(|word| word.strip_prefix("ndots:")?.parse().ok());
                    resolver.dots = dots.next().unwrap_or(resolver.dots);
                }
                _ => {}
            }
        }
        resolver
    }

    /// The names that are asked for, in their order.
    fn candidates(&self, name: &str) -> Vec<String> {
        if name.ends_with('.') {
            return vec![name.to_owned()];
        }
        let mut all: Vec<String> = self.search.iter().map(|domain| format!("{name}.{domain}")).collect();
        let place = if name.matches('.').count() >= self.dots { 0 } else { all.len() };
        all.insert(place, name.to_owned());
        all
    }
}

fn look_up(server: IpAddr, name: &str) -> Result<String, String> {
    let mut text = String::new();
    for kind in [RecordType::A, RecordType::AAAA] {
        let answer = ask(server, name, kind).map_err(|error| error.to_string())?;
        match answer.metadata.response_code {
            ResponseCode::NoError => text += &shown(&answer.answers),
            code => return Err(words(code)),
        }
    }
    Ok(text)
}

fn words(code: ResponseCode) -> String {
    match code {
        ResponseCode::NXDomain => "NXDOMAIN".to_owned(),
        ResponseCode::ServFail => "SERVFAIL".to_owned(),
        other => other.to_string(),
    }
}

fn ask(server: IpAddr, name: &str, kind: RecordType) -> io::Result<Message> {
    let mut request = Message::query();
    request.metadata.recursion_desired = true;
    let whole = format!("{}.", name.trim_end_matches('.'));
    request.add_query(Query::query(Name::from_ascii(whole).map_err(io::Error::other)?, kind));
    let any: IpAddr = if server.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.connect((server, PORT))?;
    socket.send(&request.to_vec().map_err(io::Error::other)?)?;
    let mut buffer = [0; DATAGRAM];
    let length = socket.recv(&mut buffer)?;
    Message::from_vec(&buffer[..length]).map_err(io::Error::other)
}

fn shown(records: &[Record]) -> String {
    let bare = |name: &Name| name.to_ascii().trim_end_matches('.').to_owned();
    let line = |record: &Record| {
        let name = bare(&record.name);
        Some(match &record.data {
            RData::CNAME(target) => format!("{name}\tcanonical name = {}\n", bare(&target.0)),
            RData::A(ip) => format!("Name:\t{name}\nAddress: {ip}\n"),
            RData::AAAA(ip) => format!("Name:\t{name}\nAddress: {ip}\n"),
            _ => return None,
        })
    };
    records.iter().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use hickory_proto::rr::rdata;

    use super::*;

    const FILE: &str = "search demo.svc.cluster.local svc.cluster.local\nnameserver 10.96.0.10\nnameserver 10.96.0.11\noptions ndots:5\n";

    #[test]
    fn names_are_asked_for_in_the_order_of_the_file() {
        let resolver = Resolver::of(FILE);
        assert_eq!(resolver.server, Some([10, 96, 0, 10].into()));
        assert_eq!(
            resolver.candidates("hello"),
            ["hello.demo.svc.cluster.local", "hello.svc.cluster.local", "hello"]
        );
        assert_eq!(resolver.candidates("a.b.c.d.e.f")[0], "a.b.c.d.e.f");
        assert_eq!(resolver.candidates("ghcr.io."), ["ghcr.io."]);
        assert_eq!(Resolver::of("").candidates("hello"), ["hello"]);
    }

    #[test]
    fn records_are_shown_as_busybox_shows_them() {
        let name = Name::from_ascii("registry.demo.svc.cluster.local.").unwrap();
        let alias = RData::CNAME(rdata::CNAME(Name::from_ascii("ghcr.io.").unwrap()));
        let records = [
            Record::from_rdata(name.clone(), 5, alias),
            Record::from_rdata(name, 5, RData::from(IpAddr::from([10, 0, 0, 1]))),
        ];
        assert_eq!(
            shown(&records),
            "registry.demo.svc.cluster.local\tcanonical name = ghcr.io\nName:\tregistry.demo.svc.cluster.local\nAddress: 10.0.0.1\n"
        );
    }
}
