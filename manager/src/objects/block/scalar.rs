//! Scalars in one line: what they are without doubt, as JSON; none where there is any.

/// Words that are a value other than text in some version of YAML, or a number to some reader.
const WORDS: [&str; 14] =
    ["true", "false", "null", "yes", "no", "on", "off", "y", "n", "inf", "nan", "infinity", "nil", "none"];

/// What a plain scalar may not begin with: it means something else then, or might.
const SPECIAL: &[u8] = b"!&*?|>@%`\"'#{}[],:=<~+.";

/// Writes a text as a JSON string; none if it has characters that not every reader takes as they are.
pub(super) fn string(text: &str, out: &mut Vec<u8>) -> Option<()> {
    let odd = |c: char| matches!(c, '\u{7f}'..='\u{a0}' | '\u{2028}' | '\u{2029}' | '\u{feff}');
    let control = |byte: u8| byte < 0x20 && byte != b'\n';
    if text.bytes().any(control) || (!text.is_ascii() && text.chars().any(odd)) || text.contains('\u{7f}') {
        return None;
    }
    serde_json::to_writer(out, text).ok()
}

/// Writes a plain scalar.
pub(super) fn plain(text: &str, out: &mut Vec<u8>) -> Option<()> {
    if text.contains(": ") || text.ends_with(':') || text.contains(" #") {
        return None;
    }
    match text {
        "true" | "false" | "null" => out.extend_from_slice(text.as_bytes()),
        _ if is_integer(text) => out.extend_from_slice(text.as_bytes()),
        _ if is_text(text) => string(text, out)?,
        _ => return None,
    }
    Some(())
}

/// Writes a plain key, which is text whatever it looks like.
pub(super) fn key(text: &str, out: &mut Vec<u8>) -> Option<()> {
    // `.` stands in managed fields for the object itself.
    if text == "." || (is_text(text) && !text.contains(" #")) { string(text, out) } else { None }
}

/// Whether it is a number that every version of YAML reads as the same whole number.
fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let decimal =
        !digits.is_empty() && digits.len() <= 15 && digits.bytes().all(|byte| byte.is_ascii_digit());
    decimal && (text == "0" || !digits.starts_with('0'))
}

/// Whether it is text in every version of YAML.
fn is_text(text: &str) -> bool {
    let bytes = text.as_bytes();
    let Some(first) = bytes.first() else { return false };
    // White space around a plain scalar is no part of it.
    if SPECIAL.contains(first) || *first == b' ' || text.ends_with(' ') {
        return false;
    }
    if *first == b'-' {
        // A flag, as `-c` or `--v=6`.
        let name = text.trim_start_matches('-');
        return name.as_bytes().first().is_some_and(u8::is_ascii_alphabetic) && !is_word(name);
    }
    if first.is_ascii_digit() {
        return is_address(text) || is_uid(bytes) || has_letter_of_no_number(bytes);
    }
    !is_word(text)
}

fn is_word(text: &str) -> bool {
    text.len() <= 8 && WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// Whether what begins with a digit has a letter that neither numbers of any base or with an exponent, nor times have.
fn has_letter_of_no_number(bytes: &[u8]) -> bool {
    let dashed_time = bytes.len() > 4 && bytes[..4].iter().all(u8::is_ascii_digit) && bytes[4] == b'-';
    let other_base = bytes[0] == b'0' && bytes.get(1).is_some_and(u8::is_ascii_alphabetic);
    let letter = |byte: &u8| byte.is_ascii_alphabetic() && !b"eExXoOTtZzINFinf".contains(byte);
    !dashed_time && !other_base && bytes.iter().any(letter)
}

/// Whether it is a UUID.
fn is_uid(bytes: &[u8]) -> bool {
    let right = |(at, byte): (usize, &u8)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    bytes.len() == 36 && bytes.iter().enumerate().all(right)
}

/// Whether it is an IPv4 address, which has too many points for a number, or a range of them.
fn is_address(text: &str) -> bool {
    let is_number =
        |part: &str| (1..=3).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    let (address, length) = text.split_once('/').unwrap_or((text, "0"));
    is_number(length) && address.split('.').count() == 4 && address.split('.').all(is_number)
}

/// Where a quoted text ends that begins a line: behind its last quote.
pub(super) fn quote_end(text: &str, quote: u8) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 1;
    loop {
        let byte = bytes.get(at)?;
        if *byte == b'\\' && quote == b'"' {
            at += 2;
        } else if *byte == quote {
            if quote == b'\'' && bytes.get(at + 1) == Some(&quote) {
                at += 2;
            } else {
                return Some(at + 1);
            }
        } else {
            at += 1;
        }
    }
}

/// Writes a text in double quotes, if it ends in its line: its escapes have to be those that JSON has too.
pub(super) fn quoted(text: &str, out: &mut Vec<u8>) -> Option<()> {
    if quote_end(text, b'"')? != text.len() || !text.is_ascii() {
        return None;
    }
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => match bytes.next()? {
                b'"' | b'\\' | b'/' | b'n' | b't' | b'r' | b'b' | b'f' => {}
                _ => return None,
            },
            0x20..0x7f => {}
            _ => return None,
        }
    }
    out.extend_from_slice(text.as_bytes());
    Some(())
}

/// Writes a text in single quotes, if it ends in its line.
pub(super) fn single(text: &str, out: &mut Vec<u8>) -> Option<()> {
    if text.len() < 2 || quote_end(text, b'\'')? != text.len() {
        return None;
    }
    string(&text[1..text.len() - 1].replace("''", "'"), out)
}
