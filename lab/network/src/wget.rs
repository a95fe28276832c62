//! A small `wget` for commands in pods whose image is named `busybox`: GET over HTTP, with the flags and the words of busybox's.
//!
//! busybox's own is not on every machine, and some builds of it end with a segmentation fault where `-T` is given.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpStream, ToSocketAddrs as _},
    time::Duration,
};

use axum::http::Uri;

/// What the program is called to be this.
pub const NAME: &str = "wget";
/// As busybox waits if nothing is said.
const PATIENCE: u64 = 900;
const LARGEST: u64 = 64 << 20;

/// Fetches what the words behind the program's name say; what it prints.
///
/// # Errors
/// What it complains of.
pub fn run(words: &[String]) -> Result<String, String> {
    let wanted = Wanted::of(words)?;
    let body = fetch(&wanted)?;
    let file = match wanted.file.as_deref() {
        Some("-") => return Ok(String::from_utf8_lossy(&body).into_owned()),
        Some(file) => file.to_owned(),
        None => {
            let last = wanted.url.path().rsplit('/').next().unwrap_or_default();
            if last.is_empty() { "index.html".to_owned() } else { last.to_owned() }
        }
    };
    fs::write(&file, body).map_err(|error| format!("wget: can't open '{file}': {error}\n"))?;
    Ok(if wanted.quiet { String::new() } else { format!("'{file}' saved\n") })
}

#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    url: Uri,
    file: Option<String>,
    patience: Duration,
    quiet: bool,
}

impl Wanted {
    fn of(words: &[String]) -> Result<Self, String> {
        let (mut url, mut file, mut seconds, mut quiet) = (None, None, PATIENCE, false);
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            let Some(mut letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
                url = Some(word);
                continue;
            };
            while let Some(letter) = letters.chars().next() {
                letters = &letters[letter.len_utf8()..];
                if letter == 'q' {
                    quiet = true;
                    continue;
                }
                let joined = std::mem::take(&mut letters);
                let mut value = || match joined {
                    "" => rest.next().cloned().unwrap_or_default(),
                    joined => joined.to_owned(),
                };
                match letter {
                    'O' => file = Some(value()),
                    'T' => {
                        let text = value();
                        seconds = text.parse().map_err(|_| format!("wget: invalid number '{text}'\n"))?;
                    }
                    other => return Err(format!("wget: invalid option -- '{other}'\n")),
                }
            }
        }
        let url = url.ok_or("wget: missing URL\n")?;
        let whole = if url.contains("://") { url.clone() } else { format!("http://{url}") };
        let parsed: Option<Uri> = whole.parse().ok();
        let url = parsed.filter(|url| url.scheme_str() == Some("http") && url.host().is_some());
        let url = url.ok_or_else(|| format!("wget: not an http URL: {whole}\n"))?;
        Ok(Self { url, file, patience: Duration::from_secs(seconds.max(1)), quiet })
    }
}

fn fetch(wanted: &Wanted) -> Result<Vec<u8>, String> {
    let host = wanted.url.host().unwrap_or_default();
    let port = wanted.url.port_u16().unwrap_or(80);
    let found = (host.trim_matches(['[', ']']), port).to_socket_addrs();
    let to =
        found.ok().and_then(|mut all| all.next()).ok_or_else(|| format!("wget: bad address '{host}'\n"))?;
    let answer = ask(wanted, host, to).map_err(|error| match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => "wget: download timed out\n".to_owned(),
        io::ErrorKind::ConnectionRefused => {
            format!("wget: can't connect to remote host ({}): Connection refused\n", to.ip())
        }
        _ => format!("wget: can't connect to remote host ({}): {error}\n", to.ip()),
    })?;
    let end = answer.windows(4).position(|part| part == b"\r\n\r\n");
    let end = end.ok_or("wget: error getting response\n")?;
    let head = String::from_utf8_lossy(&answer[..end]);
    let status = head.lines().next().unwrap_or_default();
    if status.split(' ').nth(1).is_some_and(|code| code.starts_with('2')) {
        return Ok(answer[end + 4..].to_vec());
    }
    Err(format!("wget: server returned error: {status}\n"))
}

fn ask(wanted: &Wanted, host: &str, to: SocketAddr) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&to, wanted.patience)?;
    stream.set_read_timeout(Some(wanted.patience))?;
    let path = wanted.url.path_and_query().map_or("/", |path| path.as_str());
    let named = if to.port() == 80 { host.to_owned() } else { format!("{host}:{}", to.port()) };
    // An answer of HTTP/1.0 ends with the connection.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {named}\r\nUser-Agent: Wget\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(LARGEST).read_to_end(&mut answer)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use std::{io::BufRead as _, net::TcpListener, thread};

    use rstest::rstest;

    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[rstest]
    #[case("-qO- http://hello/", Some(("http://hello/", Some("-"), 900, true)))]
    #[case("-q -O - -T 3 hello:8080/x?y=z", Some(("http://hello:8080/x?y=z", Some("-"), 3, true)))]
    #[case("-T3 http://hello", Some(("http://hello/", None, 3, false)))]
    #[case("-T x http://hello", None)]
    #[case("-Z http://hello", None)]
    #[case("https://hello/", None)]
    #[case("-q", None)]
    fn flags(#[case] line: &str, #[case] expected: Option<(&str, Option<&str>, u64, bool)>) {
        let found = Wanted::of(&words(line)).ok();
        let expected = expected.map(|(url, file, seconds, quiet)| Wanted {
            url: url.parse().unwrap(),
            file: file.map(str::to_owned),
            patience: Duration::from_secs(seconds),
            quiet,
        });
        assert_eq!(found, expected);
    }

    /// A server that answers once.
    fn serve(answer: &'static str) -> SocketAddr {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = io::BufReader::new(stream.try_clone().unwrap());
            let mut line = String::new();
            while reader.read_line(&mut line).unwrap() > 2 {
                line.clear();
            }
            stream.write_all(answer.as_bytes()).unwrap();
        });
        address
    }

    #[test]
    fn answers_and_refusals_are_told_in_busyboxs_words() {
        let good = serve("HTTP/1.0 200 OK\r\nA: b\r\n\r\nhello from one\n");
        assert_eq!(run(&words(&format!("-qO- http://{good}/"))), Ok("hello from one\n".to_owned()));
        let bad = serve("HTTP/1.1 404 Not Found\r\n\r\nno\n");
        let told = run(&words(&format!("-qO- http://{bad}/"))).unwrap_err();
        assert_eq!(told, "wget: server returned error: HTTP/1.1 404 Not Found\n");
        let nobody = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
        let told = run(&words(&format!("-qO- -T 3 http://{nobody}/"))).unwrap_err();
        assert_eq!(told, "wget: can't connect to remote host (127.0.0.1): Connection refused\n");
    }
}
