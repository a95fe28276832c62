//! Durations as Go writes them: `1m30s`, `500ms`, `4s`, `0`.

use std::{fmt, str::FromStr, time::Duration};

/// A duration that is read and shown in Go's form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GoDuration(pub Duration);

/// A text that is no duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Not a number with a unit.
    #[error("it must be numbers with units, such as 500ms, 4s or 1m30s")]
    Form,
    /// Below zero.
    #[error("it must not be negative")]
    Negative,
    /// Beyond what can be waited for.
    #[error("it is too long")]
    TooLong,
}

const UNITS: [(&str, f64); 6] =
    [("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
/// A century: all that is meant, and far from where adding to a clock overflows.
const LONGEST_SECONDS: f64 = 100.0 * 365.0 * 86_400.0;

impl FromStr for GoDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        if text == "0" {
            return Ok(Self(Duration::ZERO));
        }
        if text.starts_with('-') {
            return Err(DurationError::Negative);
        }
        let mut rest = text;
        let mut seconds = 0.0;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or(DurationError::Form)?;
            let number: f64 = rest[..digits].parse().map_err(|_| DurationError::Form)?;
            let end = rest[digits..]
                .find(|c: char| c.is_ascii_digit() || c == '.')
                .map_or(rest.len(), |at| digits + at);
            let unit =
                UNITS.iter().find(|(name, _)| *name == &rest[digits..end]).ok_or(DurationError::Form)?;
            seconds += number * unit.1;
            rest = &rest[end..];
        }
        if text.is_empty() {
            return Err(DurationError::Form);
        }
        if seconds > LONGEST_SECONDS {
            return Err(DurationError::TooLong);
        }
        Ok(Self(Duration::from_secs_f64(seconds)))
    }
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, nanos) = (self.0.as_secs(), self.0.subsec_nanos());
        if whole == 0 && nanos != 0 {
            return write!(f, "{}ms", f64::from(nanos) / 1e6);
        }
        let (hours, minutes, seconds) = (whole / 3600, whole / 60 % 60, whole % 60);
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if hours > 0 || minutes > 0 {
            write!(f, "{minutes}m")?;
        }
        let fraction = if nanos == 0 { String::new() } else { format!("{nanos:09}") };
        let fraction = fraction.trim_end_matches('0');
        write!(f, "{seconds}{}{fraction}s", if fraction.is_empty() { "" } else { "." })
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("0", 0, "0s")]
    #[case("0s", 0, "0s")]
    #[case("4s", 4_000, "4s")]
    #[case("500ms", 500, "500ms")]
    #[case("1.5s", 1_500, "1.5s")]
    #[case("1m30s", 90_000, "1m30s")]
    #[case("1h", 3_600_000, "1h0m0s")]
    fn read_and_shown(#[case] text: &str, #[case] millis: u64, #[case] shown: &str) {
        let read: GoDuration = text.parse().unwrap();
        assert_eq!(read.0, Duration::from_millis(millis));
        assert_eq!(read.to_string(), shown);
        assert_eq!(shown.parse::<GoDuration>().unwrap(), read);
    }

    #[rstest]
    #[case("", DurationError::Form)]
    #[case("4", DurationError::Form)]
    #[case("s", DurationError::Form)]
    #[case("4 s", DurationError::Form)]
    #[case("4d", DurationError::Form)]
    #[case("1.2.3s", DurationError::Form)]
    #[case("-1s", DurationError::Negative)]
    #[case("9999999999h", DurationError::TooLong)]
    fn refused(#[case] text: &str, #[case] error: DurationError) {
        assert_eq!(text.parse::<GoDuration>(), Err(error));
    }
}
