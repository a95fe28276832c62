//! Frames of SPDY/3.1 on the wire.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _};

const VERSION: u16 = 3;
const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GO_AWAY: u16 = 7;
const CONTROL: u8 = 0x80;
const FIN: u8 = 0x01;
const STREAM: u32 = 0x7fff_ffff;
/// What a stream that nobody wants is refused with.
const REFUSED_STREAM: u32 = 3;
/// Larger frames than any client sends are not taken.
const LARGEST: usize = 1 << 20;

/// A frame, its headers still compressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Frame {
    /// The other side opens a stream.
    SynStream { stream: u32, fin: bool, headers: Vec<u8> },
    /// A stream is taken.
    SynReply { stream: u32, headers: Vec<u8> },
    /// A stream is broken off.
    RstStream { stream: u32 },
    /// Wants the same back.
    Ping(u32),
    /// No streams will follow.
    GoAway,
    /// Bytes of a stream; `fin`: the last.
    Data { stream: u32, fin: bool, bytes: Vec<u8> },
    /// Nothing to heed here: settings, windows, more headers.
    Other,
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("SPDY: {what}"))
}

/// Reads one; none at the end of the connection.
pub(super) async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Frame>> {
    let mut head = [0; 8];
    match from.read_exact(&mut head).await {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    };
    let [first, second, third, fourth, flags, length @ ..] = head;
    let length = usize::try_from(u32::from_be_bytes([0, length[0], length[1], length[2]]))
        .map_err(|_| malformed("a frame without end"))?;
    if length > LARGEST {
        return Err(malformed(&format!("a frame of {length} bytes, of at most {LARGEST}")));
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body).await?;
    let fin = flags & FIN != 0;
    if first & CONTROL == 0 {
        let stream = u32::from_be_bytes([first, second, third, fourth]);
        return Ok(Some(Frame::Data { stream, fin, bytes: body }));
    }
    let version = u16::from_be_bytes([first & !CONTROL, second]);
    if version != VERSION {
        return Err(malformed(&format!("version {version}, not {VERSION}")));
    }
    control(u16::from_be_bytes([third, fourth]), fin, &body).map(Some)
}

fn control(kind: u16, fin: bool, body: &[u8]) -> io::Result<Frame> {
    let number = || {
        let bytes = body.first_chunk::<4>().ok_or_else(|| malformed("a frame that is too short"))?;
        Ok::<_, io::Error>(u32::from_be_bytes(*bytes))
    };
    Ok(match kind {
        // The number of another stream, a priority and a slot stand before the headers.
        SYN_STREAM => {
            let headers = body.get(10..).ok_or_else(|| malformed("a stream that is too short"))?.to_vec();
            Frame::SynStream { stream: number()? & STREAM, fin, headers }
        }
        SYN_REPLY => {
            let stream = number()? & STREAM;
            Frame::SynReply { stream, headers: body.get(4..).unwrap_or_default().to_vec() }
        }
        RST_STREAM => Frame::RstStream { stream: number()? & STREAM },
        PING => Frame::Ping(number()?),
        GO_AWAY => Frame::GoAway,
        _ => Frame::Other,
    })
}

impl Frame {
    /// As it goes over the wire; nothing for what this side never sends.
    pub(super) fn bytes(&self) -> Vec<u8> {
        match self {
            Self::SynStream { stream, fin, headers } => {
                let head = [stream.to_be_bytes(), [0; 4]].concat();
                packed(SYN_STREAM, *fin, &[&head, &[0; 2], headers])
            }
            Self::SynReply { stream, headers } => packed(SYN_REPLY, false, &[&stream.to_be_bytes(), headers]),
            Self::RstStream { stream } => {
                packed(RST_STREAM, false, &[&stream.to_be_bytes(), &REFUSED_STREAM.to_be_bytes()])
            }
            Self::Ping(number) => packed(PING, false, &[&number.to_be_bytes()]),
            Self::GoAway => packed(GO_AWAY, false, &[&[0; 8]]),
            Self::Data { stream, fin, bytes } => head((*stream).to_be_bytes(), *fin, &[bytes]),
            Self::Other => Vec::new(),
        }
    }
}

fn packed(kind: u16, fin: bool, parts: &[&[u8]]) -> Vec<u8> {
    let ([high, low], [first, second]) = (VERSION.to_be_bytes(), kind.to_be_bytes());
    head([high | CONTROL, low, first, second], fin, parts)
}

fn head(begin: [u8; 4], fin: bool, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let [_, length @ ..] = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    let flags = if fin { FIN } else { 0 };
    let mut all = [begin.as_slice(), &[flags], &length].concat();
    for part in parts {
        all.extend_from_slice(part);
    }
    all
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(Frame::SynStream { stream: 1, fin: false, headers: vec![1, 2, 3] })]
    #[case(Frame::SynReply { stream: 7, headers: Vec::new() })]
    #[case(Frame::RstStream { stream: 3 })]
    #[case(Frame::Ping(9))]
    #[case(Frame::GoAway)]
    #[case(Frame::Data { stream: 5, fin: true, bytes: b"hello".to_vec() })]
    #[tokio::test]
    async fn frames_come_back_as_they_went(#[case] frame: Frame) {
        let bytes = frame.bytes();
        let mut from = bytes.as_slice();
        assert_eq!(read(&mut from).await.unwrap(), Some(frame));
        assert_eq!(read(&mut from).await.unwrap(), None);
    }

    #[rstest]
    #[case::another_version(&[0x80, 2, 0, 6, 0, 0, 0, 4, 0, 0, 0, 1])]
    #[case::too_large(&[0, 0, 0, 1, 0, 0xff, 0xff, 0xff])]
    #[case::short_ping(&[0x80, 3, 0, 6, 0, 0, 0, 1, 0])]
    #[case::short_stream(&[0x80, 3, 0, 1, 0, 0, 0, 4, 0, 0, 0, 1])]
    #[case::short_reply(&[0x80, 3, 0, 2, 0, 0, 0, 1, 0])]
    #[tokio::test]
    async fn what_is_no_frame_is_an_error(#[case] mut bytes: &[u8]) {
        assert!(read(&mut bytes).await.is_err());
    }
}
