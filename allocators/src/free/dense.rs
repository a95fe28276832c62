//! A set over up to 2^24 numbers: a directory of chunks with running counts of what is free.

use super::chunk::Chunk;
use super::fenwick::Fenwick;

const CHUNK: u64 = 1 << 16;

/// The numbers `0..universe`, each taken or free.
#[derive(Debug, Clone)]
pub(crate) struct Dense {
    chunks: Vec<Chunk>,
    /// Free numbers of each chunk.
    free: Fenwick,
}

impl Dense {
    pub(crate) fn new(universe: u64) -> Self {
        let chunks: Vec<Chunk> = (0..universe.div_ceil(CHUNK))
            .map(|i| Chunk::new(u32::try_from((universe - i * CHUNK).min(CHUNK)).unwrap_or(0)))
            .collect();
        let free = Fenwick::new(chunks.iter().map(|c| u64::from(c.free())));
        Self { chunks, free }
    }

    pub(crate) fn contains(&self, n: u64) -> bool {
        let (chunk, low) = place(n);
        self.chunks[chunk].contains(low)
    }

    pub(crate) fn insert(&mut self, n: u64) -> bool {
        let (chunk, low) = place(n);
        let changed = self.chunks[chunk].insert(low);
        if changed {
            self.free.decrement(chunk);
        }
        changed
    }

    pub(crate) fn remove(&mut self, n: u64) -> bool {
        let (chunk, low) = place(n);
        let changed = self.chunks[chunk].remove(low);
        if changed {
            self.free.increment(chunk);
        }
        changed
    }

    pub(crate) fn free_rank(&self, n: u64) -> u64 {
        let (chunk, low) = place(n);
        let inside = self.chunks.get(chunk).map_or(0, |c| u64::from(c.free_rank(low)));
        self.free.sum(chunk) + inside
    }

    /// The `k`-th free number; there must be more than `k`.
    pub(crate) fn select_free(&self, k: u64) -> u64 {
        let (chunk, before) = self.free.descend(|_, sum| sum <= k);
        let low = self.chunks[chunk].select_free(u32::try_from(k - before).unwrap_or(0));
        chunk as u64 * CHUNK + u64::from(low)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.chunks
            .iter()
            .enumerate()
            .flat_map(|(i, chunk)| chunk.iter().map(move |low| i as u64 * CHUNK + u64::from(low)))
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.chunks.capacity() * size_of::<Chunk>()
            + self.chunks.iter().map(Chunk::heap_bytes).sum::<usize>()
            + self.free.heap_bytes()
    }
}

fn place(n: u64) -> (usize, u16) {
    (usize::try_from(n / CHUNK).unwrap_or(usize::MAX), u16::try_from(n % CHUNK).unwrap_or(0))
}
