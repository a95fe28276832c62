//! The part of the free values that one of several replicas chooses from.
//!
//! Owns how a stretch is dealt out: into as many neighbouring pieces as there are replicas, so that two of them never
//! choose the same value, however old what they know is. It knows no replica.

use super::Key;

/// One of several equal shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    index: u32,
    of: u32,
}

/// A share that there is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("share {index} of {of} shares does not exist: they are counted from 0")]
pub struct ShareError {
    index: u32,
    of: u32,
}

impl Share {
    /// All values: for whoever chooses alone.
    pub const WHOLE: Self = Self { index: 0, of: 1 };

    /// Share number `index`, counted from 0, of `of`.
    ///
    /// # Errors
    /// When `index` is not below `of`.
    pub fn new(index: u32, of: u32) -> Result<Self, ShareError> {
        if index < of { Ok(Self { index, of }) } else { Err(ShareError { index, of }) }
    }

    /// The part of the stretch from `from` to `to` (not included) that belongs to this share.
    pub(super) fn of_stretch(self, from: Key, to: Key) -> (Key, Key) {
        let length = to.saturating_sub(from);
        let (whole, rest) = (length / Key::from(self.of), length % Key::from(self.of));
        // The first shares get one more each until the rest is dealt out.
        let border = |i: u32| from + whole * Key::from(i) + rest.min(Key::from(i));
        (border(self.index), border(self.index + 1))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn shares_are_counted_from_zero() {
        assert_eq!(Share::new(0, 1), Ok(Share::WHOLE));
        assert_eq!(
            Share::new(2, 2).unwrap_err().to_string(),
            "share 2 of 2 shares does not exist: they are counted from 0"
        );
        assert!(Share::new(0, 0).is_err());
    }

    proptest! {
        #[test]
        fn each_value_is_in_one_share(from in any::<u64>(), length in any::<u64>(), of in 1_u32..40) {
            let (from, to) = (Key::from(from), Key::from(from) + Key::from(length));
            let mut at = from;
            let mut sizes = Vec::new();
            for index in 0..of {
                let (start, end) = Share::new(index, of).unwrap().of_stretch(from, to);
                prop_assert_eq!(start, at);
                sizes.push(end - start);
                at = end;
            }
            prop_assert_eq!(at, to);
            let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
            prop_assert!(most - least <= 1);
        }
    }
}
