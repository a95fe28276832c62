//! One chunk of a dense set: up to 65,536 numbers, kept in whichever form is smallest.
//!
//! Few taken numbers are a sorted list, few free ones too; anything between is a bitmap with
//! running counts. It never knows where it lies in the whole set.

use super::bitmap::Bitmap;
use super::search::partition_point;

/// A list grows into a bitmap beyond this many entries...
const LIST_MAX: usize = 128;
/// ...and a bitmap shrinks into a list below this many, so that a change back and forth at one
/// border does not convert each time.
const LIST_MIN: u32 = 64;

/// The numbers `0..span`, each taken or free.
#[derive(Debug, Clone)]
pub(crate) struct Chunk {
    /// At most 65,536.
    span: u32,
    taken: u32,
    form: Representation,
}

#[derive(Debug, Clone)]
enum Representation {
    /// The taken numbers, ascending.
    Taken(Vec<u16>),
    /// The free numbers, ascending.
    Free(Vec<u16>),
    Bits(Box<Bitmap>),
}

impl Chunk {
    /// A chunk in which all of `0..span` are free.
    pub(crate) fn new(span: u32) -> Self {
        Self { span, taken: 0, form: Representation::Taken(Vec::new()) }
    }

    /// How many numbers are free.
    pub(crate) fn free(&self) -> u32 {
        self.span - self.taken
    }

    /// Whether `n` is taken.
    pub(crate) fn contains(&self, n: u16) -> bool {
        match &self.form {
            Representation::Taken(list) => list.binary_search(&n).is_ok(),
            Representation::Free(list) => list.binary_search(&n).is_err(),
            Representation::Bits(bits) => bits.contains(n),
        }
    }

    /// Takes `n`; says whether it was free.
    pub(crate) fn insert(&mut self, n: u16) -> bool {
        let changed = match &mut self.form {
            Representation::Taken(list) => add(list, n),
            Representation::Free(list) => drop_from(list, n),
            Representation::Bits(bits) => bits.insert(n),
        };
        if changed {
            self.taken += 1;
            self.reshape();
        }
        changed
    }

    /// Frees `n`; says whether it was taken.
    pub(crate) fn remove(&mut self, n: u16) -> bool {
        let changed = match &mut self.form {
            Representation::Taken(list) => drop_from(list, n),
            Representation::Free(list) => add(list, n),
            Representation::Bits(bits) => bits.remove(n),
        };
        if changed {
            self.taken -= 1;
            self.reshape();
        }
        changed
    }

    /// The number of free numbers below `n`.
    pub(crate) fn free_rank(&self, n: u16) -> u32 {
        match &self.form {
            Representation::Taken(list) => u32::from(n) - below(list, n),
            Representation::Free(list) => below(list, n),
            Representation::Bits(bits) => u32::from(n) - bits.taken_rank(n),
        }
    }

    /// The `k`-th free number, counted from 0; `k` must be less than [`Self::free`].
    pub(crate) fn select_free(&self, k: u32) -> u16 {
        match &self.form {
            Representation::Taken(list) => low_half(k + nth_gap(list, k)),
            Representation::Free(list) => list.get(k as usize).copied().unwrap_or(u16::MAX),
            Representation::Bits(bits) => bits.select_free(k),
        }
    }

    /// The taken numbers, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        let listed = match &self.form {
            Representation::Taken(list) => Some(list.iter().copied()),
            _ => None,
        };
        let scanned = listed.is_none().then(|| (0..self.span).map(low_half).filter(|n| self.contains(*n)));
        listed.into_iter().flatten().chain(scanned.into_iter().flatten())
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        match &self.form {
            Representation::Taken(list) | Representation::Free(list) => list.capacity() * size_of::<u16>(),
            Representation::Bits(bits) => size_of_val(&**bits),
        }
    }

    fn reshape(&mut self) {
        let free = self.span - self.taken;
        let next = match &self.form {
            Representation::Taken(list) | Representation::Free(list) if list.len() > LIST_MAX => {
                self.to_bits()
            }
            Representation::Bits(_) if self.taken < LIST_MIN => Representation::Taken(self.iter().collect()),
            Representation::Bits(_) if free < LIST_MIN => Representation::Free(self.iter_free().collect()),
            _ => return,
        };
        self.form = next;
    }

    fn to_bits(&self) -> Representation {
        let mut bits = Box::<Bitmap>::default();
        for n in self.iter() {
            bits.insert(n);
        }
        Representation::Bits(bits)
    }

    fn iter_free(&self) -> impl Iterator<Item = u16> + '_ {
        (0..self.span).map(low_half).filter(|n| !self.contains(*n))
    }
}

/// The low 16 bits: every number inside a chunk is below 65,536.
fn low_half(n: u32) -> u16 {
    (n & 0xffff) as u16
}

fn below(list: &[u16], n: u16) -> u32 {
    // A list is never longer than a chunk.
    u32::try_from(list.partition_point(|&x| x < n)).unwrap_or(u32::MAX)
}

/// How many numbers of the ascending `list` are passed on the way to the `k`-th number that is not
/// in it.
fn nth_gap(list: &[u16], k: u32) -> u32 {
    // `i` numbers of the list are below number `i` of it, all others below it are gaps.
    let passed = |i: usize| list.get(i).is_some_and(|&n| usize::from(n) - i <= k as usize);
    u32::try_from(partition_point(list.len(), passed)).unwrap_or(0)
}

fn add(list: &mut Vec<u16>, n: u16) -> bool {
    match list.binary_search(&n) {
        Ok(_) => false,
        Err(at) => {
            list.insert(at, n);
            true
        }
    }
}

fn drop_from(list: &mut Vec<u16>, n: u16) -> bool {
    match list.binary_search(&n) {
        Ok(at) => {
            list.remove(at);
            true
        }
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fills a chunk in a scattered order and empties it again, checking every step's counts and,
    /// now and then, all ranks.
    #[test]
    fn keeps_its_numbers_through_every_form() {
        for span in [1_u32, 17, 300, 700, 5000, 65_536] {
            let mut chunk = Chunk::new(span);
            let scattered: Vec<u16> = (0..span)
                .map(|i| low_half(u32::try_from(u64::from(i) * 40_503 % u64::from(span)).unwrap()))
                .collect();
            let distinct: std::collections::BTreeSet<u16> = scattered.iter().copied().collect();
            let mut taken = std::collections::BTreeSet::new();
            for (step, &n) in scattered.iter().enumerate() {
                assert_eq!(chunk.insert(n), taken.insert(n));
                assert!(!chunk.insert(n));
                if step % 16_381 == 0 {
                    check(&chunk, span, &taken);
                }
            }
            check(&chunk, span, &taken);
            assert_eq!(chunk.free() as usize, span as usize - distinct.len());
            for (step, &n) in scattered.iter().enumerate() {
                assert_eq!(chunk.remove(n), taken.remove(&n));
                if step % 16_381 == 0 {
                    check(&chunk, span, &taken);
                }
            }
            check(&chunk, span, &taken);
            assert!(chunk.heap_bytes() <= 256, "an empty chunk of {span} costs {}", chunk.heap_bytes());
        }
    }

    fn check(chunk: &Chunk, span: u32, taken: &std::collections::BTreeSet<u16>) {
        assert_eq!(chunk.iter().collect::<Vec<_>>(), taken.iter().copied().collect::<Vec<_>>());
        let mut k = 0;
        for n in (0..span).map(low_half) {
            assert_eq!(chunk.free_rank(n), k);
            if !taken.contains(&n) {
                assert_eq!(chunk.select_free(k), n);
                k += 1;
            }
        }
        assert_eq!(chunk.free(), k);
    }

    #[test]
    fn a_full_chunk_costs_next_to_nothing() {
        let mut chunk = Chunk::new(65_536);
        for n in 0..=u16::MAX {
            chunk.insert(n);
        }
        assert_eq!(chunk.free(), 0);
        assert!(chunk.heap_bytes() <= 256, "{} bytes", chunk.heap_bytes());
    }

    #[test]
    fn a_change_back_and_forth_at_a_border_does_not_convert() {
        let mut chunk = Chunk::new(65_536);
        for n in 0..=128 {
            chunk.insert(n);
        }
        assert!(matches!(chunk.form, Representation::Bits(_)));
        chunk.remove(128);
        assert!(matches!(chunk.form, Representation::Bits(_)));
    }
}
