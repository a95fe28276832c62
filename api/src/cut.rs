//! What a client sent, repeated to it in pieces of bounded length.

use std::borrow::Cow;

/// Most bytes of one piece: a value, a field's path, what is wrong with it.
pub const MAX_PIECE: usize = 2048;

/// The text, or its beginning and how long it is, if it has more than `max` bytes.
pub fn cut_to(text: &str, max: usize) -> Cow<'_, str> {
    if text.len() <= max {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{}... ({} bytes)", head(text, max), text.len()))
}

/// [`cut_to`] the usual length.
pub fn cut(text: &str) -> Cow<'_, str> {
    cut_to(text, MAX_PIECE)
}

/// A text of one's own, cut in place.
pub fn cut_owned(text: String) -> String {
    match cut(&text) {
        Cow::Owned(cut) => cut,
        Cow::Borrowed(_) => text,
    }
}

/// The first `max` bytes, or a little less, so that no character is cut in two.
pub fn head(text: &str, max: usize) -> &str {
    let mut end = max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Room for the beginning of a text; what is written beyond it is an error, so that who writes stops.
#[derive(Debug, Default)]
pub(crate) struct Beginning {
    /// What fitted.
    pub(crate) bytes: Vec<u8>,
}

impl std::io::Write for Beginning {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let fits = bytes.len().min(MAX_PIECE - self.bytes.len());
        self.bytes.extend_from_slice(&bytes[..fits]);
        if fits == 0 && !bytes.is_empty() {
            return Err(std::io::ErrorKind::WriteZero.into());
        }
        Ok(fits)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(cut_to("abc", 3), "abc");
        assert_eq!(cut_to("abcd", 3), "abc... (4 bytes)");
        assert_eq!(cut_to("aé漢", 4), "aé... (6 bytes)");
        let long = "x".repeat(MAX_PIECE + 1);
        assert!(cut(&long).len() < MAX_PIECE + 20);
        assert_eq!(cut_owned("x".to_owned()), "x");
    }
}
