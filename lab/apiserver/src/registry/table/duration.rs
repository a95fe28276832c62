//! Ages as kubectl shows them: "5s", "2m30s", "3d4h".

use jiff::Timestamp;

/// How long ago `then` (RFC 3339) was, seen from `now`; `<unknown>` when there is no such time.
pub fn since(then: Option<&str>, now: Timestamp) -> String {
    match then.and_then(|t| t.parse::<Timestamp>().ok()) {
        Some(then) => human(now.as_second() - then.as_second()),
        None => "<unknown>".into(),
    }
}

/// A span of whole seconds in at most two units, coarser the longer it is.
pub fn human(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / (24 * 365));
    match seconds {
        i64::MIN..=-2 => "<invalid>".into(),
        -1 => "0s".into(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => pair(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => pair(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if hours < 24 * 8 => pair(days, "d", hours % 24, "h"),
        _ if hours < 24 * 365 * 2 => format!("{days}d"),
        _ if hours < 24 * 365 * 8 => pair(years, "y", days % 365, "d"),
        _ => format!("{years}y"),
    }
}

fn pair(large: i64, large_unit: &str, small: i64, small_unit: &str) -> String {
    if small == 0 {
        format!("{large}{large_unit}")
    } else {
        format!("{large}{large_unit}{small}{small_unit}")
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const MINUTE: i64 = 60;
    const HOUR: i64 = 3600;
    const DAY: i64 = 86400;

    #[rstest]
    #[case(-5, "<invalid>")]
    #[case(-1, "0s")]
    #[case(0, "0s")]
    #[case(119, "119s")]
    #[case(2 * MINUTE, "2m")]
    #[case(2 * MINUTE + 30, "2m30s")]
    #[case(9 * MINUTE + 59, "9m59s")]
    #[case(10 * MINUTE + 59, "10m")]
    #[case(179 * MINUTE, "179m")]
    #[case(3 * HOUR, "3h")]
    #[case(7 * HOUR + 59 * MINUTE, "7h59m")]
    #[case(8 * HOUR + 59 * MINUTE, "8h")]
    #[case(47 * HOUR, "47h")]
    #[case(2 * DAY, "2d")]
    #[case(3 * DAY + 4 * HOUR, "3d4h")]
    #[case(8 * DAY + 4 * HOUR, "8d")]
    #[case(729 * DAY, "729d")]
    #[case(730 * DAY, "2y")]
    #[case(731 * DAY, "2y1d")]
    #[case(8 * 365 * DAY + 5 * DAY, "8y")]
    fn spans(#[case] seconds: i64, #[case] shown: &str) {
        assert_eq!(human(seconds), shown);
    }

    #[test]
    fn an_absent_time_is_unknown() {
        assert_eq!(since(None, Timestamp::UNIX_EPOCH), "<unknown>");
        assert_eq!(since(Some("not a time"), Timestamp::UNIX_EPOCH), "<unknown>");
        assert_eq!(since(Some("1969-12-31T23:59:50Z"), Timestamp::UNIX_EPOCH), "10s");
    }
}
