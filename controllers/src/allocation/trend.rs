//! When a range will be full, by how it has filled of late.
//!
//! Pure: counts with their times in, seconds out. Owns how long counts are remembered; never who counts.

use std::collections::VecDeque;
use std::time::Duration;

/// Counts are remembered this far apart,
const EVERY: Duration = Duration::from_mins(5);
/// and for so long;
const SPAN: Duration = Duration::from_hours(24);
/// before they say anything.
const LEAST: Duration = Duration::from_mins(30);

/// The counts of one range.
#[derive(Debug, Default)]
pub(super) struct Trend {
    /// When, and how many values were taken; ascending by time.
    counts: VecDeque<(Duration, u64)>,
}

impl Trend {
    /// So many values are taken at `now`, which counts from any moment on and does not go back. Gives how long until `free` more
    /// are, at the pace of the last day; nothing where they do not become more, and before half an hour is seen.
    pub(super) fn full_in(&mut self, now: Duration, used: u64, free: u64) -> Option<Duration> {
        while self.counts.front().is_some_and(|(when, _)| *when + SPAN < now) {
            self.counts.pop_front();
        }
        if self.counts.back().is_none_or(|(when, _)| *when + EVERY <= now) {
            self.counts.push_back((now, used));
        }
        let (first, _) = self.counts.front()?;
        if *first + LEAST > now {
            return None;
        }
        let pace = self.pace(now, used).filter(|pace| *pace > 0.0)?;
        #[allow(clippy::cast_precision_loss)] // of more than 2^53 values nobody misses one
        Duration::try_from_secs_f64(free as f64 / pace).ok()
    }

    /// Values that are taken a second, by the straight line that is nearest to all counts.
    #[allow(clippy::cast_precision_loss)]
    fn pace(&self, now: Duration, used: u64) -> Option<f64> {
        let counts = self.counts.iter().copied().filter(|(when, _)| *when < now).chain([(now, used)]);
        // From the last count on: differences are small, whatever the counts are.
        let points: Vec<(f64, f64)> = counts
            .map(|(when, count)| (-now.saturating_sub(when).as_secs_f64(), count as f64 - used as f64))
            .collect();
        let number = points.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / number;
        let (time, count) = (mean(|point| point.0), mean(|point| point.1));
        let along: f64 = points.iter().map(|point| (point.0 - time) * (point.1 - count)).sum();
        let across: f64 = points.iter().map(|point| (point.0 - time).powi(2)).sum();
        (across > 0.0).then(|| along / across)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minutes(minutes: u64) -> Duration {
        Duration::from_mins(minutes)
    }

    /// What is said at the end of counts that come each minute.
    fn after(counts: impl IntoIterator<Item = u64>, free: u64) -> Option<Duration> {
        let (mut trend, mut said) = (Trend::default(), None);
        for (minute, count) in (0..).zip(counts) {
            said = trend.full_in(minutes(minute), count, free);
            assert!(trend.counts.len() <= 24 * 12 + 1, "{}", trend.counts.len());
        }
        said
    }

    #[test]
    fn a_steady_pace_goes_on() {
        // Two a minute, a hundred left: 50 minutes.
        let said = after((0..120).map(|minute| 1_000_000 + 2 * minute), 100).unwrap();
        assert!(said.abs_diff(minutes(50)) < Duration::from_secs(1), "{said:?}");
    }

    #[test]
    fn nothing_is_said_too_early_or_of_what_does_not_fill() {
        assert_eq!(after(0..29, 100), None);
        assert_eq!(after([7; 100], 100), None);
        assert_eq!(after((0..100).rev(), 100), None);
        assert_eq!(after([], 100), None);
    }

    #[test]
    fn more_than_a_day_ago_does_not_count() {
        let grew = (0..600).map(|minute| minute * 100);
        let rests = std::iter::repeat_n(60_000, 25 * 60);
        assert_eq!(after(grew.chain(rests), 100), None);
    }

    #[test]
    fn a_range_that_is_full_is_full_now() {
        assert_eq!(after(0..60, 0), Some(Duration::ZERO));
    }
}
