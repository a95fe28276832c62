//! The tokens of a label selector.

/// A token and its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'a> {
    End,
    Identifier(&'a str),
    In,
    NotIn,
    Comma,
    Open,
    Close,
    Not,
    Equals,
    DoubleEquals,
    NotEquals,
    Greater,
    Less,
}

impl<'a> Token<'a> {
    /// The text as written; nothing at the end.
    pub(super) fn text(self) -> &'a str {
        match self {
            Self::End => "",
            Self::Identifier(text) => text,
            Self::In => "in",
            Self::NotIn => "notin",
            Self::Comma => ",",
            Self::Open => "(",
            Self::Close => ")",
            Self::Not => "!",
            Self::Equals => "=",
            Self::DoubleEquals => "==",
            Self::NotEquals => "!=",
            Self::Greater => ">",
            Self::Less => "<",
        }
    }

    /// Where a name or value is due, `in` and `notin` are ordinary words.
    pub(super) fn as_value(self) -> Self {
        match self {
            Self::In | Self::NotIn => Self::Identifier(self.text()),
            other => other,
        }
    }
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn symbol(text: &str) -> Option<(Token<'static>, usize)> {
    let two = text.get(..2).and_then(|s| match s {
        "==" => Some(Token::DoubleEquals),
        "!=" => Some(Token::NotEquals),
        _ => None,
    });
    if let Some(token) = two {
        return Some((token, 2));
    }
    let one = match text.chars().next()? {
        '=' => Token::Equals,
        '!' => Token::Not,
        '(' => Token::Open,
        ')' => Token::Close,
        ',' => Token::Comma,
        '>' => Token::Greater,
        '<' => Token::Less,
        _ => return None,
    };
    Some((one, 1))
}

/// All tokens of `text`; the last is always [`Token::End`].
pub(super) fn lex(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    // Go's reader takes a NUL for the end of the text.
    while !rest.is_empty() && !rest.starts_with('\0') {
        let (token, length) = symbol(rest).unwrap_or_else(|| {
            let end = rest.find(|c| is_space(c) || "=!(),><\0".contains(c)).unwrap_or(rest.len());
            let word = match &rest[..end] {
                "in" => Token::In,
                "notin" => Token::NotIn,
                other => Token::Identifier(other),
            };
            (word, end)
        });
        tokens.push(token);
        rest = rest[length..].trim_start_matches(is_space);
    }
    tokens.push(Token::End);
    tokens
}
