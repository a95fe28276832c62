//! The headers of streams: compressed, by one compressor for the whole connection in each direction.

use std::io;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::dictionary::dictionary;

/// Headers of one stream take at most so many bytes.
const LARGEST: usize = 64 * 1024;
const CHUNK: usize = 4096;

/// Names in small letters, and their values.
pub(crate) type Headers = Vec<(String, String)>;

fn malformed(what: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("SPDY headers: {what}"))
}

/// Reads the headers of streams, in the order in which they came.
pub(super) struct Reader(Decompress);

impl Reader {
    pub(super) fn new() -> Self {
        Self(Decompress::new(true))
    }

    pub(super) fn read(&mut self, mut compressed: &[u8]) -> io::Result<Headers> {
        let mut plain = Vec::new();
        loop {
            let (taken, made) = (self.0.total_in(), plain.len());
            plain.reserve(CHUNK);
            let status = match self.0.decompress_vec(compressed, &mut plain, FlushDecompress::Sync) {
                Ok(status) => status,
                Err(error) if error.needs_dictionary().is_some() => {
                    self.0.set_dictionary(&dictionary()).map_err(malformed)?;
                    Status::Ok
                }
                Err(error) => return Err(malformed(error)),
            };
            let took = usize::try_from(self.0.total_in() - taken).map_err(malformed)?;
            compressed = &compressed[took..];
            if plain.len() > LARGEST {
                return Err(malformed(format_args!("more than {LARGEST} bytes")));
            }
            let idle = took == 0 && plain.len() == made && status == Status::BufError;
            if idle || (compressed.is_empty() && plain.len() < plain.capacity()) {
                return parse(&plain);
            }
        }
    }
}

/// Numbers of four bytes, and what they count.
fn parse(mut plain: &[u8]) -> io::Result<Headers> {
    let count = number(&mut plain)?;
    (0..count).map(|_| Ok((text(&mut plain)?, text(&mut plain)?))).collect()
}

fn number(from: &mut &[u8]) -> io::Result<usize> {
    let (bytes, rest) = from.split_first_chunk::<4>().ok_or_else(|| malformed("cut off"))?;
    *from = rest;
    usize::try_from(u32::from_be_bytes(*bytes)).map_err(malformed)
}

fn text(from: &mut &[u8]) -> io::Result<String> {
    let length = number(from)?;
    let (bytes, rest) = from.split_at_checked(length).ok_or_else(|| malformed("cut off"))?;
    *from = rest;
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

/// Writes the headers of streams, in the order in which they go.
pub(super) struct Writer(Compress);

impl Writer {
    pub(super) fn new() -> io::Result<Self> {
        let mut compress = Compress::new(Compression::fast(), true);
        compress.set_dictionary(&dictionary()).map_err(malformed)?;
        Ok(Self(compress))
    }

    pub(super) fn write(&mut self, headers: &Headers) -> io::Result<Vec<u8>> {
        let mut plain = Vec::new();
        let number = |plain: &mut Vec<u8>, length: usize| {
            plain.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
        };
        number(&mut plain, headers.len());
        for word in headers.iter().flat_map(|(name, value)| [name, value]) {
            number(&mut plain, word.len());
            plain.extend_from_slice(word.as_bytes());
        }
        let mut compressed = Vec::new();
        let mut rest = plain.as_slice();
        loop {
            let taken = self.0.total_in();
            compressed.reserve(CHUNK);
            self.0.compress_vec(rest, &mut compressed, FlushCompress::Sync).map_err(malformed)?;
            let took = usize::try_from(self.0.total_in() - taken).map_err(malformed)?;
            rest = &rest[took..];
            if rest.is_empty() && compressed.len() < compressed.capacity() {
                return Ok(compressed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(of: &[(&str, &str)]) -> Headers {
        of.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_dictionary_is_the_one_of_the_draft() {
        assert_eq!(dictionary().len(), 1423);
    }

    #[test]
    fn one_stream_after_another_is_read() {
        let (mut writer, mut reader) = (Writer::new().unwrap(), Reader::new());
        let long = "x".repeat(10_000);
        for of in [&[("streamtype", "error"), ("port", "8080")][..], &[], &[("streamtype", &long)]] {
            let wanted = headers(of);
            let compressed = writer.write(&wanted).unwrap();
            assert_eq!(reader.read(&compressed).unwrap(), wanted);
        }
    }

    #[test]
    fn headers_of_another_dictionary_or_without_end_are_refused() {
        assert!(Reader::new().read(&[0x78, 0xbb, 1, 2, 3, 4, 0]).is_err());
        assert!(Reader::new().read(b"no headers at all").is_err());
        let mut writer = Writer::new().unwrap();
        let large = writer.write(&headers(&[("a", &"b".repeat(LARGEST))])).unwrap();
        assert!(Reader::new().read(&large).is_err());
    }
}
