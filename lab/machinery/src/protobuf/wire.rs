//! The encoding below messages: numbered fields of four shapes.

use super::fault::Fault;

/// Groups (which no message of the API has) are not nested deeper than this.
const DEEPEST_GROUP: usize = 64;

/// The content of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// An integer or a flag.
    Varint(u64),
    /// A text, bytes, a message or numbers in a row.
    Bytes(&'a [u8]),
    /// Something that no field of the API is, of that shape; its content was passed over.
    Other(u64),
}

impl Token<'_> {
    /// The number that the encoding has for the shape.
    pub(super) fn shape(&self) -> u64 {
        match self {
            Self::Varint(_) => 0,
            Self::Bytes(_) => 2,
            Self::Other(shape) => *shape,
        }
    }
}

/// The fields of a message, one after the other; ends at the first fault.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    message: &'static str,
}

impl<'a> Reader<'a> {
    /// Reads a message; its name is for faults.
    pub(super) fn new(message: &'static str, bytes: &'a [u8]) -> Self {
        Self { rest: bytes, message }
    }

    /// A number of seven bits a byte, the lowest first.
    pub(super) fn varint(&mut self) -> Result<u64, Fault> {
        let mut out = 0;
        for at in 0..10 {
            let (byte, rest) = self.rest.split_first().ok_or(Fault::BreaksOff)?;
            self.rest = rest;
            out |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                return Ok(out);
            }
        }
        Err(Fault::Overflow)
    }

    /// Is there nothing more?
    pub(super) fn is_done(&self) -> bool {
        self.rest.is_empty()
    }

    fn bytes(&mut self, length: u64) -> Result<&'a [u8], Fault> {
        let length = i64::try_from(length).map_err(|_| Fault::Length)?;
        let length = usize::try_from(length).map_err(|_| Fault::BreaksOff)?;
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(Fault::BreaksOff)?;
        self.rest = rest;
        Ok(bytes)
    }

    fn content(&mut self, shape: u64) -> Result<Token<'a>, Fault> {
        Ok(match shape {
            0 => Token::Varint(self.varint()?),
            1 => self.bytes(8).map(|_| Token::Other(shape))?,
            2 => {
                let length = self.varint()?;
                Token::Bytes(self.bytes(length)?)
            }
            3 => self.group().map(|()| Token::Other(shape))?,
            5 => self.bytes(4).map(|_| Token::Other(shape))?,
            _ => return Err(Fault::Shape(shape)),
        })
    }

    /// Passes over everything up to the end of the group that has begun.
    fn group(&mut self) -> Result<(), Fault> {
        let mut depth = 1_usize;
        while depth > 0 {
            match self.varint()? & 7 {
                3 => depth += 1,
                4 => depth -= 1,
                shape => self.content(shape).map(|_| ())?,
            }
            if depth > DEEPEST_GROUP {
                return Err(Fault::Depth);
            }
        }
        Ok(())
    }

    fn field(&mut self) -> Result<(u64, Token<'a>), Fault> {
        let key = self.varint()?;
        let (number, shape) = (key >> 3, key & 7);
        if shape == 4 {
            return Err(Fault::GroupEnd(self.message));
        }
        if number == 0 {
            return Err(Fault::Number { message: self.message, shape });
        }
        Ok((number, self.content(shape)?))
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<(u64, Token<'a>), Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}
