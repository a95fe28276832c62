//! A binary search over positions, for predicates that need the position.

use std::hint;

/// The first of the positions `0..length` for which `holds` is false; it must hold for a leading
/// part of them and for none after it.
///
/// Which way a step goes is as good as random here, so the processor is kept from guessing it.
pub(crate) fn partition_point(length: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut base, mut size) = (0, length);
    while size > 1 {
        let half = size / 2;
        base = hint::select_unpredictable(holds(base + half), base + half, base);
        size -= half;
    }
    base + usize::from(size > 0 && holds(base))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_every_border() {
        for length in 0..70 {
            for border in 0..=length {
                assert_eq!(partition_point(length, |i| i < border), border);
            }
        }
    }
}
