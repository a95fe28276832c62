//! A set over more than 2^24 and up to 2^64 numbers, of which few are taken.
//!
//! The universe is cut into buckets of equal width, as many as keep a bucket at a few numbers.
//! So the cost and the memory follow what is taken, never the size of the universe. Where numbers
//! crowd in one bucket (addresses that people chose one after the other) it becomes a set of its own.

use smallvec::SmallVec;

use super::blocks::Blocks;
use super::fenwick::Fenwick;

/// The directory grows when buckets hold more than this many numbers on average...
const LOAD_MAX: u64 = 4;
/// ...and shrinks when they hold less than one in this many.
const LOAD_MIN: u64 = 4;
/// A list that would grow beyond this becomes a set of its own...
const LIST_MAX: usize = 64;
/// ...until it is this small again.
const LIST_MIN: u64 = 16;
const FEWEST_BITS: u32 = 4;

/// The taken numbers of a large universe.
#[derive(Debug, Clone)]
pub(crate) struct Sparse {
    /// Bits of a number in this universe.
    bits: u32,
    taken: u64,
    /// Bits of a number inside a bucket; the bits above them are the bucket.
    shift: u32,
    buckets: Vec<Bucket>,
    /// Taken numbers of each bucket.
    counts: Fenwick,
}

#[derive(Debug, Clone)]
enum Bucket {
    /// A few numbers, ascending.
    List(SmallVec<[u64; 6]>),
    Crowd(Box<Blocks>),
}

impl Sparse {
    /// A set for `universe` numbers, which must be more than 2^16.
    pub(crate) fn new(universe: u64) -> Self {
        let bits = u64::BITS - (universe - 1).leading_zeros();
        let mut set = Self { bits, taken: 0, shift: 0, buckets: Vec::new(), counts: Fenwick::default() };
        set.spread(FEWEST_BITS, &[]);
        set
    }

    pub(crate) fn contains(&self, n: u64) -> bool {
        match &self.buckets[self.bucket_of(n)] {
            Bucket::List(list) => list.contains(&n),
            Bucket::Crowd(set) => set.contains(n),
        }
    }

    pub(crate) fn insert(&mut self, n: u64) -> bool {
        let b = self.bucket_of(n);
        let changed = match &mut self.buckets[b] {
            Bucket::Crowd(set) => set.insert(n),
            Bucket::List(list) => {
                let at = rank(list, n);
                let new = list.get(at) != Some(&n);
                if new {
                    list.insert(at, n);
                }
                new
            }
        };
        if changed {
            self.counts.increment(b);
            self.taken += 1;
            self.crowd(b);
            if self.taken > self.buckets.len() as u64 * LOAD_MAX && self.shift > FEWEST_BITS {
                self.respread(self.bits - self.shift + 1);
            }
        }
        changed
    }

    pub(crate) fn remove(&mut self, n: u64) -> bool {
        let b = self.bucket_of(n);
        let changed = match &mut self.buckets[b] {
            Bucket::Crowd(set) => set.remove(n),
            Bucket::List(list) => {
                let at = rank(list, n);
                let found = list.get(at) == Some(&n);
                if found {
                    list.remove(at);
                }
                found
            }
        };
        if changed {
            self.counts.decrement(b);
            self.taken -= 1;
            self.disperse(b);
            if self.taken < self.buckets.len() as u64 / LOAD_MIN && self.bits - self.shift > FEWEST_BITS {
                self.respread(self.bits - self.shift - 1);
            }
        }
        changed
    }

    /// The number of taken numbers below `n`.
    pub(crate) fn taken_rank(&self, n: u64) -> u64 {
        let b = self.bucket_of(n);
        let inside = match &self.buckets[b] {
            Bucket::List(list) => rank(list, n) as u64,
            Bucket::Crowd(set) => set.taken_rank(n),
        };
        self.counts.sum(b) + inside
    }

    /// The `k`-th number that is not taken, counted from 0.
    pub(crate) fn select_free(&self, k: u64) -> u64 {
        let (b, before) = self.bucket_with(k);
        let start = (b as u64) << self.shift;
        // Free numbers before the bucket are all numbers before it but the taken ones.
        let inside = k - (start - before);
        match &self.buckets[b] {
            Bucket::List(list) => {
                let passed = |(i, n): (usize, &u64)| u64::from(n - start - i as u64 <= inside);
                start + inside + list.iter().enumerate().map(passed).sum::<u64>()
            }
            Bucket::Crowd(set) => set.select_free(start, inside),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.buckets.iter().flat_map(|bucket| {
            let (list, set) = match bucket {
                Bucket::List(list) => (Some(list), None),
                Bucket::Crowd(set) => (None, Some(set.iter())),
            };
            list.into_iter().flatten().copied().chain(set.into_iter().flatten())
        })
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let bucket = |bucket: &Bucket| match bucket {
            Bucket::List(list) if list.spilled() => list.capacity() * size_of::<u64>(),
            Bucket::List(_) => 0,
            Bucket::Crowd(set) => size_of::<Blocks>() + set.heap_bytes(),
        };
        self.buckets.capacity() * size_of::<Bucket>()
            + self.buckets.iter().map(bucket).sum::<usize>()
            + self.counts.heap_bytes()
    }

    #[expect(clippy::cast_possible_truncation, reason = "there is a bucket for it in memory")]
    fn bucket_of(&self, n: u64) -> usize {
        (n >> self.shift) as usize
    }

    fn inside(&self, n: u64) -> u64 {
        n & ((1 << self.shift) - 1)
    }

    fn len(&self, b: usize) -> u64 {
        match &self.buckets[b] {
            Bucket::List(list) => list.len() as u64,
            Bucket::Crowd(set) => set.len(),
        }
    }

    /// The bucket of the `k`-th free number, and the taken numbers before it.
    fn bucket_with(&self, k: u64) -> (usize, u64) {
        // So few numbers are taken that they hardly ever move it into another bucket.
        let guess = self.bucket_of(k);
        let before = self.counts.sum(guess);
        if self.inside(k) + before < (1 << self.shift) - self.len(guess) {
            return (guess, before);
        }
        let free_before = |b: usize, taken: u64| ((b as u64) << self.shift) - taken;
        self.counts.descend(|b, taken| b < self.buckets.len() && free_before(b, taken) <= k)
    }

    fn crowd(&mut self, b: usize) {
        if let Bucket::List(list) = &self.buckets[b]
            && list.len() > LIST_MAX
        {
            self.buckets[b] = bucket(list);
        }
    }

    fn disperse(&mut self, b: usize) {
        if let Bucket::Crowd(set) = &self.buckets[b]
            && set.len() < LIST_MIN
        {
            self.buckets[b] = Bucket::List(set.iter().collect());
        }
    }

    fn respread(&mut self, directory_bits: u32) {
        let numbers: Vec<u64> = self.iter().collect();
        self.spread(directory_bits, &numbers);
    }

    /// Makes a directory of this many bits for these numbers, which are ascending.
    fn spread(&mut self, directory_bits: u32, numbers: &[u64]) {
        self.shift = self.bits - directory_bits;
        let mut rest = numbers;
        self.buckets = (0..1_u64 << directory_bits)
            .map(|b| {
                let (own, others) = rest.split_at(rest.partition_point(|n| n >> self.shift == b));
                rest = others;
                bucket(own)
            })
            .collect();
        self.counts = Fenwick::new((0..self.buckets.len()).map(|b| self.len(b)));
    }
}

/// A bucket of these numbers.
fn bucket(numbers: &[u64]) -> Bucket {
    if numbers.len() > LIST_MAX {
        Bucket::Crowd(Box::new(Blocks::new(numbers)))
    } else {
        Bucket::List(numbers.into())
    }
}

/// The number of numbers in the short, ascending `list` that are below `n`.
fn rank(list: &[u64], n: u64) -> usize {
    list.iter().map(|x| usize::from(*x < n)).sum()
}
