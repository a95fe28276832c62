//! The encoding below messages: numbered fields of four shapes.

use super::ProtobufError;

/// The content of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// An integer or a flag.
    Varint(u64),
    /// A text, bytes or a message.
    Bytes(&'a [u8]),
    /// Eight or four bytes: no field of the API has them.
    Fixed,
}

/// The fields of a message, one after the other; ends at the first damage.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn varint(&mut self) -> Result<u64, ProtobufError> {
        let mut out = 0;
        for at in 0..10 {
            let (byte, rest) = self.rest.split_first().ok_or(ProtobufError::Damaged("it breaks off"))?;
            self.rest = rest;
            out |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                return Ok(out);
            }
        }
        Err(ProtobufError::Damaged("a number is too long"))
    }

    fn bytes(&mut self, length: u64) -> Result<&'a [u8], ProtobufError> {
        let length = usize::try_from(length).map_err(|_| ProtobufError::Damaged("a field is too long"))?;
        let (bytes, rest) =
            self.rest.split_at_checked(length).ok_or(ProtobufError::Damaged("it breaks off"))?;
        self.rest = rest;
        Ok(bytes)
    }

    fn field(&mut self) -> Result<(u64, Token<'a>), ProtobufError> {
        let key = self.varint()?;
        let token = match key & 7 {
            0 => Token::Varint(self.varint()?),
            1 => self.bytes(8).map(|_| Token::Fixed)?,
            2 => {
                let length = self.varint()?;
                Token::Bytes(self.bytes(length)?)
            }
            5 => self.bytes(4).map(|_| Token::Fixed)?,
            _ => return Err(ProtobufError::Damaged("a field has an unknown shape")),
        };
        Ok((key >> 3, token))
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<(u64, Token<'a>), ProtobufError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}
