//! Resource quantities in their canonical form (`1000m` is `1`), as the API server prints them.

/// What Go says to a text that is no quantity.
const FORMAT: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

const DECIMAL: [(&str, i32); 11] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
    ("", 21),
];
const BINARY: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

/// The canonical form of `text`, or Go's error.
///
/// Values beyond what a 128-bit integer of nano units holds are kept as they were written.
pub(super) fn canonical(text: &str) -> Result<String, &'static str> {
    let text = text.trim();
    let (sign, body) = match text.as_bytes().first() {
        Some(b'-') => ("-", &text[1..]),
        Some(b'+') => ("", &text[1..]),
        _ => ("", text),
    };
    let end = body.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(body.len());
    let (number, suffix) = body.split_at(end);
    if number.is_empty() || number == "." || number.matches('.').count() > 1 {
        return Err(FORMAT);
    }
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if let Some((_, bits)) = BINARY.iter().find(|(s, _)| *s == suffix) {
        return Ok(binary(whole, fraction, *bits).map_or_else(|| text.to_owned(), |s| signed(sign, s)));
    }
    let (exponent, scientific) = exponent(suffix).ok_or(FORMAT)?;
    Ok(decimal(whole, fraction, exponent, scientific).map_or_else(|| text.to_owned(), |s| signed(sign, s)))
}

fn signed(sign: &str, text: String) -> String {
    if text == "0" { text } else { format!("{sign}{text}") }
}

fn exponent(suffix: &str) -> Option<(i32, bool)> {
    if let Some((_, exponent)) = DECIMAL.iter().take(10).find(|(s, _)| *s == suffix) {
        return Some((*exponent, false));
    }
    let digits = suffix.strip_prefix(['e', 'E'])?;
    digits.parse().ok().map(|e| (e, true))
}

/// Nano units of `whole.fraction * 10^exponent`, rounded up as Go does.
fn nanos(whole: &str, fraction: &str, exponent: i32) -> Option<i128> {
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let shift = exponent.checked_add(9)?.checked_sub(i32::try_from(fraction.len()).ok()?)?;
    if shift >= 0 {
        digits.checked_mul(10_i128.checked_pow(shift.unsigned_abs())?)
    } else {
        let divisor = 10_i128.checked_pow(shift.unsigned_abs())?;
        Some(digits / divisor + i128::from(digits % divisor != 0))
    }
}

fn decimal(whole: &str, fraction: &str, exponent: i32, scientific: bool) -> Option<String> {
    let mut value = nanos(whole, fraction, exponent)?;
    if value == 0 {
        return Some("0".to_owned());
    }
    let mut exponent = -9;
    while exponent < 18 && value % 1000 == 0 {
        value /= 1000;
        exponent += 3;
    }
    if scientific {
        return Some(if exponent == 0 { value.to_string() } else { format!("{value}e{exponent}") });
    }
    let suffix = DECIMAL.iter().find(|(_, e)| *e == exponent)?.0;
    Some(format!("{value}{suffix}"))
}

fn binary(whole: &str, fraction: &str, bits: u32) -> Option<String> {
    let base = nanos(whole, fraction, 0)?.checked_mul(1_i128.checked_shl(bits)?)?;
    if base % 1_000_000_000 != 0 {
        // Go prints a binary quantity with a fraction of a unit in the decimal form.
        return decimal(&base.to_string(), "", -9, false);
    }
    let mut value = base / 1_000_000_000;
    if value == 0 {
        return Some("0".to_owned());
    }
    let mut suffix = "";
    for (name, _) in BINARY {
        if value % 1024 != 0 {
            break;
        }
        value /= 1024;
        suffix = name;
    }
    // Below 1024 the canonical form is a plain number.
    Some(format!("{value}{suffix}"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("1000m", "1")]
    #[case("0.5", "500m")]
    #[case("100m", "100m")]
    #[case("1024Ki", "1Mi")]
    #[case("1.5Gi", "1536Mi")]
    #[case("1000", "1k")]
    #[case("16777216Ki", "16Gi")]
    #[case("110", "110")]
    #[case("0", "0")]
    #[case("-5", "-5")]
    #[case("1e3", "1e3")]
    #[case("1E", "1E")]
    fn canonical_forms(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(canonical(text).unwrap(), expected);
    }

    #[rstest]
    #[case("")]
    #[case("x")]
    #[case("1x")]
    #[case("1.2.3")]
    fn refuses_what_is_no_quantity(#[case] text: &str) {
        assert_eq!(canonical(text), Err(FORMAT));
    }
}
