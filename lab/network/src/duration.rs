//! Durations as Go's programs write them: `500ms`, `3s`, `1m30s`. Pure.

use std::time::Duration;

const UNITS: [(&str, f64); 6] =
    [("h", 3600.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9), ("m", 60.0), ("s", 1.0)];

/// Reads one; none if it is not one.
pub(crate) fn of(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let (mut rest, mut seconds) = (text, 0.0);
    loop {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, behind) = rest.split_at(digits);
        let (unit, factor) = UNITS.iter().find(|(unit, _)| behind.starts_with(unit))?;
        seconds += number.parse::<f64>().ok()? * factor;
        rest = &behind[unit.len()..];
        if rest.is_empty() {
            return Duration::try_from_secs_f64(seconds).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("0", Some(0))]
    #[case("500ms", Some(500))]
    #[case("3s", Some(3000))]
    #[case("1m30s", Some(90_000))]
    #[case("1.5h", Some(5_400_000))]
    #[case("3", None)]
    #[case("", None)]
    #[case("-3s", None)]
    #[case("3 s", None)]
    fn durations(#[case] text: &str, #[case] millis: Option<u64>) {
        assert_eq!(of(text), millis.map(Duration::from_millis));
    }
}
