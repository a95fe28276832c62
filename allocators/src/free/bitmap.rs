//! 65,536 bits with running counts.
//!
//! A set bit is a taken number. Counts over 256 and 4,096 bits let rank and select read a few
//! dozen small numbers instead of 1,024 words.

const WORDS: usize = 1024;
const WORD_BITS: u32 = 64;
const WORDS_PER_GROUP: usize = 4;
const GROUP_BITS: u32 = 256;
const GROUPS: usize = WORDS / WORDS_PER_GROUP;
const GROUPS_PER_BLOCK: usize = 16;
const BLOCK_BITS: u32 = 4096;
const BLOCKS: usize = GROUPS / GROUPS_PER_BLOCK;

/// 65,536 numbers, each taken or free.
#[derive(Debug, Clone)]
pub(crate) struct Bitmap {
    words: [u64; WORDS],
    /// Taken numbers of each word: cheaper to read than to count on a plain x86-64.
    counts: [u8; WORDS],
    /// Taken numbers of each 256.
    groups: [u16; GROUPS],
    /// Taken numbers of each 4,096.
    blocks: [u16; BLOCKS],
}

impl Default for Bitmap {
    fn default() -> Self {
        Self { words: [0; WORDS], counts: [0; WORDS], groups: [0; GROUPS], blocks: [0; BLOCKS] }
    }
}

impl Bitmap {
    pub(crate) fn contains(&self, n: u16) -> bool {
        self.words[usize::from(n >> 6)] & bit(n) != 0
    }

    pub(crate) fn insert(&mut self, n: u16) -> bool {
        let word = &mut self.words[usize::from(n >> 6)];
        if *word & bit(n) != 0 {
            return false;
        }
        *word |= bit(n);
        self.counts[usize::from(n >> 6)] += 1;
        self.groups[usize::from(n >> 8)] += 1;
        self.blocks[usize::from(n >> 12)] += 1;
        true
    }

    pub(crate) fn remove(&mut self, n: u16) -> bool {
        let word = &mut self.words[usize::from(n >> 6)];
        if *word & bit(n) == 0 {
            return false;
        }
        *word &= !bit(n);
        self.counts[usize::from(n >> 6)] -= 1;
        self.groups[usize::from(n >> 8)] -= 1;
        self.blocks[usize::from(n >> 12)] -= 1;
        true
    }

    /// The number of taken numbers below `n`.
    pub(crate) fn taken_rank(&self, n: u16) -> u32 {
        let (word, group, block) = (usize::from(n >> 6), usize::from(n >> 8), usize::from(n >> 12));
        let sum = |counts: &[u16]| counts.iter().map(|&c| u32::from(c)).sum::<u32>();
        sum(&self.blocks[..block])
            + sum(&self.groups[block * GROUPS_PER_BLOCK..group])
            + self.counts[group * WORDS_PER_GROUP..word].iter().map(|&c| u32::from(c)).sum::<u32>()
            + (self.words[word] & (bit(n) - 1)).count_ones()
    }

    /// The `k`-th free number, counted from 0; there must be more than `k`.
    pub(crate) fn select_free(&self, mut k: u32) -> u16 {
        let mut block = 0;
        while block < BLOCKS - 1 {
            let free = BLOCK_BITS - u32::from(self.blocks[block]);
            if k < free {
                break;
            }
            k -= free;
            block += 1;
        }
        let mut group = block * GROUPS_PER_BLOCK;
        let last_group = group + GROUPS_PER_BLOCK - 1;
        while group < last_group {
            let free = GROUP_BITS - u32::from(self.groups[group]);
            if k < free {
                break;
            }
            k -= free;
            group += 1;
        }
        let mut word = group * WORDS_PER_GROUP;
        let last_word = word + WORDS_PER_GROUP - 1;
        while word < last_word {
            let free = WORD_BITS - u32::from(self.counts[word]);
            if k < free {
                break;
            }
            k -= free;
            word += 1;
        }
        let bit = select_bit(!self.words[word], k);
        u16::try_from(word * 64).unwrap_or(0) + bit
    }
}

fn bit(n: u16) -> u64 {
    1 << (n & 63)
}

const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = LOW << 7;

/// The place of the `k`-th set bit of `word`, counted from 0; there must be more than `k`.
///
/// Works on the eight bytes of a register at once, first for the byte, then for the bit in it.
fn select_bit(word: u64, k: u32) -> u16 {
    let pairs = word - ((word >> 1) & 0x5555_5555_5555_5555);
    let nibbles = (pairs & 0x3333_3333_3333_3333) + ((pairs >> 2) & 0x3333_3333_3333_3333);
    let bytes = (nibbles + (nibbles >> 4)) & 0x0f0f_0f0f_0f0f_0f0f;
    let upto = bytes.wrapping_mul(LOW);
    let byte = passed(upto, u64::from(k));
    let before = ((upto << 8) >> (byte * 8)) & 0xff;
    // One byte for each bit of the byte, 1 where the bit is set.
    let spread = ((word >> (byte * 8)) & 0xff).wrapping_mul(LOW) & 0x8040_2010_0804_0201;
    let bits = ((spread + (HIGH - LOW)) >> 7) & LOW;
    let bit = passed(bits.wrapping_mul(LOW), u64::from(k) - before);
    u16::try_from(byte * 8 + bit).unwrap_or(0)
}

/// How many of the eight bytes of `sums`, which are at most 64 and ascend, are at most `k`.
fn passed(sums: u64, k: u64) -> u64 {
    let at_most = (((k * LOW) | HIGH) - sums) & HIGH;
    (at_most >> 7).wrapping_mul(LOW) >> 56
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn selects_each_set_bit(word in any::<u64>()) {
            let places: Vec<u16> = (0..64).filter(|n| word & bit(*n) != 0).collect();
            for (k, place) in places.into_iter().enumerate() {
                prop_assert_eq!(select_bit(word, u32::try_from(k).unwrap()), place);
            }
        }
    }
}
