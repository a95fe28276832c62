//! The server's side of SPDY/3.1, as much of it as clients of Kubernetes speak: streams that they open, with headers and bytes both ways.
//!
//! Owns one connection and its streams; what a stream is for is not its business. Windows are not kept: the clients do not either, and a
//! stream that nobody reads holds up the connection.

mod dictionary;
mod frame;
mod headers;

use std::{collections::HashMap, io};

use axum::{
    body::Body,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadHalf},
    sync::mpsc,
    task::JoinHandle,
};

use frame::Frame;
use headers::Reader;

/// The protocol in a request's `Upgrade`.
pub(crate) const SPDY: &str = "SPDY/3.1";
/// The header by which client and server agree on what the streams are for.
pub(crate) const VERSION_HEADER: &str = "x-stream-protocol-version";
/// Frames that wait to be read from a stream, and to be written to the connection.
const WAITING: usize = 8;
/// Streams that may be open at once.
const STREAMS: usize = 256;

/// The answer after which the connection goes on in SPDY, its streams for what `protocol` says.
pub(crate) fn switching(protocol: &'static str) -> Response {
    let answer = Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, SPDY)
        .header(VERSION_HEADER, protocol)
        .body(Body::empty());
    answer.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}

/// A connection.
pub(crate) struct Session<T> {
    from: ReadHalf<T>,
    headers: Reader,
    open: HashMap<u32, mpsc::Sender<Vec<u8>>>,
    out: mpsc::Sender<Out>,
    writing: JoinHandle<io::Result<()>>,
}

/// A stream that the client has opened and that was taken.
#[derive(Debug)]
pub(crate) struct Stream {
    headers: headers::Headers,
    /// What the client sends.
    pub incoming: mpsc::Receiver<Vec<u8>>,
    /// What it is sent.
    pub outgoing: Outgoing,
}

/// The server's direction of a stream.
#[derive(Debug)]
pub(crate) struct Outgoing {
    stream: u32,
    out: mpsc::Sender<Out>,
}

#[derive(Debug)]
enum Out {
    Frame(Frame),
    Reply(u32),
}

impl Stream {
    /// A header, by its name in any letters.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(of, _)| of.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

impl Outgoing {
    /// Sends bytes; false if the connection is gone.
    pub(crate) async fn send(&self, bytes: Vec<u8>) -> bool {
        self.data(bytes, false).await
    }

    /// Says that no more will come.
    pub(crate) async fn finish(self) {
        self.data(Vec::new(), true).await;
    }

    async fn data(&self, bytes: Vec<u8>, fin: bool) -> bool {
        let data = Frame::Data { stream: self.stream, fin, bytes };
        self.out.send(Out::Frame(data)).await.is_ok()
    }
}

impl<T: AsyncRead + AsyncWrite + Send + 'static> Session<T> {
    /// Takes a connection over that was agreed to be SPDY.
    pub(crate) fn new(io: T) -> io::Result<Self> {
        let (from, to) = tokio::io::split(io);
        let (out, queue) = mpsc::channel(WAITING);
        let headers = headers::Writer::new()?;
        let writing = tokio::spawn(write(to, queue, headers));
        Ok(Self { from, headers: Reader::new(), open: HashMap::new(), out, writing })
    }

    /// The next stream that the client opens; none when it has gone. The bytes of all streams are read by this, so it is to be called
    /// again while there are any.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Stream>> {
        while let Some(frame) = frame::read(&mut self.from).await? {
            match frame {
                Frame::SynStream { stream, fin, headers } => {
                    let headers = self.headers.read(&headers)?;
                    self.open.retain(|_, reader| !reader.is_closed());
                    if self.open.len() < STREAMS {
                        return Ok(Some(self.take(stream, fin, headers).await));
                    }
                    self.say(Out::Frame(Frame::RstStream { stream })).await;
                }
                Frame::Data { stream, fin, bytes } => self.hear(stream, fin, bytes).await,
                Frame::RstStream { stream } => drop(self.open.remove(&stream)),
                Frame::Ping(number) => self.say(Out::Frame(Frame::Ping(number))).await,
                Frame::GoAway => return Ok(None),
                Frame::SynReply { .. } | Frame::Other => {}
            }
        }
        Ok(None)
    }

    async fn take(&mut self, stream: u32, fin: bool, headers: headers::Headers) -> Stream {
        let (reader, incoming) = mpsc::channel(WAITING);
        if !fin {
            self.open.insert(stream, reader);
        }
        self.say(Out::Reply(stream)).await;
        Stream { headers, incoming, outgoing: Outgoing { stream, out: self.out.clone() } }
    }

    async fn hear(&mut self, stream: u32, fin: bool, bytes: Vec<u8>) {
        if let Some(reader) = self.open.get(&stream)
            && !bytes.is_empty()
        {
            // Nobody reads it any more: its bytes are of no use.
            let _ = reader.send(bytes).await;
        }
        if fin {
            self.open.remove(&stream);
        }
    }

    async fn say(&mut self, out: Out) {
        let _ = self.out.send(out).await;
    }

    /// Ends the connection once everything has been sent; all streams must be finished or dropped.
    pub(crate) async fn close(mut self) {
        // The writer ends with the last who has something to say.
        self.out = mpsc::channel(1).0;
        let _ = (&mut self.writing).await;
    }
}

impl<T> Drop for Session<T> {
    fn drop(&mut self) {
        self.writing.abort();
    }
}

async fn write(
    mut to: impl AsyncWrite + Unpin,
    mut queue: mpsc::Receiver<Out>,
    mut headers: headers::Writer,
) -> io::Result<()> {
    while let Some(out) = queue.recv().await {
        let frame = match out {
            Out::Frame(frame) => frame,
            Out::Reply(stream) => Frame::SynReply { stream, headers: headers.write(&Vec::new())? },
        };
        to.write_all(&frame.bytes()).await?;
        to.flush().await?;
    }
    Ok(())
}

/// A client, for tests.
#[cfg(test)]
pub(crate) mod testing {
    use tokio::io::DuplexStream;

    use super::*;

    pub(crate) struct Client {
        io: DuplexStream,
        headers: headers::Writer,
    }

    impl Client {
        /// A client, and its server's side.
        pub(crate) fn new() -> (Self, DuplexStream) {
            let (io, server) = tokio::io::duplex(1 << 20);
            (Self { io, headers: headers::Writer::new().unwrap() }, server)
        }

        pub(crate) async fn open(&mut self, stream: u32, kind: &str) {
            let headers = self.headers.write(&vec![("streamtype".to_owned(), kind.to_owned())]).unwrap();
            self.io.write_all(&Frame::SynStream { stream, fin: false, headers }.bytes()).await.unwrap();
        }

        /// What comes on which stream until the end of the connection; an end of a stream is nothing.
        pub(crate) async fn all(&mut self) -> Vec<(u32, String)> {
            let mut all = Vec::new();
            while let Some(frame) = frame::read(&mut self.io).await.unwrap() {
                if let Frame::Data { stream, bytes, .. } = frame {
                    all.push((stream, String::from_utf8(bytes).unwrap()));
                }
            }
            all
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that has written these frames.
    async fn opened(
        streams: &[(u32, &str)],
        after: &[Frame],
    ) -> (Session<tokio::io::DuplexStream>, tokio::io::DuplexStream) {
        let (mut client, server) = tokio::io::duplex(1 << 20);
        let mut writer = headers::Writer::new().unwrap();
        for (stream, kind) in streams {
            let headers = writer.write(&vec![("streamtype".to_owned(), (*kind).to_owned())]).unwrap();
            let frame = Frame::SynStream { stream: *stream, fin: false, headers };
            client.write_all(&frame.bytes()).await.unwrap();
        }
        for frame in after {
            client.write_all(&frame.bytes()).await.unwrap();
        }
        (Session::new(server).unwrap(), client)
    }

    fn data(stream: u32, fin: bool, bytes: &[u8]) -> Frame {
        Frame::Data { stream, fin, bytes: bytes.to_vec() }
    }

    #[tokio::test]
    async fn streams_are_told_apart_and_answered() {
        let frames = [
            data(3, false, b"to three"),
            data(1, true, b""),
            Frame::Ping(7),
            data(3, true, b"!"),
            Frame::GoAway,
        ];
        let (mut session, mut client) = opened(&[(1, "error"), (3, "data")], &frames).await;
        let mut first = session.next().await.unwrap().unwrap();
        let mut second = session.next().await.unwrap().unwrap();
        assert_eq!((first.header("streamType"), second.header("StreamType")), (Some("error"), Some("data")));
        assert!(session.next().await.unwrap().is_none());
        assert_eq!(first.incoming.recv().await, None);
        assert_eq!(second.incoming.recv().await.as_deref(), Some(b"to three".as_slice()));
        assert_eq!(second.incoming.recv().await.as_deref(), Some(b"!".as_slice()));
        assert_eq!(second.incoming.recv().await, None);
        assert!(second.outgoing.send(b"back".to_vec()).await);
        second.outgoing.finish().await;
        let mut replies = Vec::new();
        for _ in 0..5 {
            replies.push(frame::read(&mut client).await.unwrap().unwrap());
        }
        assert!(matches!(
            &replies[..2],
            [Frame::SynReply { stream: 1, .. }, Frame::SynReply { stream: 3, .. }]
        ));
        assert_eq!(replies[2..], [Frame::Ping(7), data(3, false, b"back"), data(3, true, b"")]);
    }

    #[tokio::test]
    async fn a_client_opens_so_many_streams_and_no_more() {
        let streams: Vec<(u32, &str)> =
            (0..=u32::try_from(STREAMS).unwrap()).map(|n| (2 * n + 1, "data")).collect();
        let (mut session, mut client) = opened(&streams, &[Frame::GoAway]).await;
        let mut taken = Vec::new();
        while let Some(stream) = session.next().await.unwrap() {
            taken.push(stream);
        }
        assert_eq!(taken.len(), STREAMS);
        let mut last = Frame::Other;
        for _ in 0..streams.len() {
            last = frame::read(&mut client).await.unwrap().unwrap();
        }
        assert!(matches!(last, Frame::RstStream { .. }), "{last:?}");
    }
}
