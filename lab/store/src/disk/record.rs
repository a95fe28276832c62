//! How an object and the summary of all objects are written: keys, values, checksums. No I/O.

use bytes::Bytes;
use xxhash_rust::xxh3::Xxh3;

use crate::types::Stored;

/// The key of the [`Summary`]; no resource's name begins with a NUL byte.
pub(super) const SUMMARY_KEY: &[u8] = b"\0summary";

/// Revision, created revision and checksum in front of the JSON.
const HEADER: usize = 24;

/// `resource NUL namespace NUL name`.
pub(super) fn key(resource: &str, namespace: &str, name: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(resource.len() + namespace.len() + name.len() + 2);
    for (at, part) in [resource, namespace, name].into_iter().enumerate() {
        if at > 0 {
            key.push(0);
        }
        key.extend_from_slice(part.as_bytes());
    }
    key
}

/// The three parts of a key, if it is one.
pub(super) fn split_key(key: &[u8]) -> Option<(&str, &str, &str)> {
    let mut parts = str::from_utf8(key).ok()?.split('\0');
    let found = (parts.next()?, parts.next()?, parts.next()?);
    parts.next().is_none().then_some(found)
}

/// The checksum of one version of one object, its key included. Their sum over all objects is [`Summary::digest`].
pub(super) fn checksum(key: &[u8], revision: u64, created_revision: u64, body: &[u8]) -> u64 {
    let mut hash = Xxh3::new();
    hash.update(key);
    hash.update(&revision.to_le_bytes());
    hash.update(&created_revision.to_le_bytes());
    hash.update(body);
    hash.digest()
}

/// The checksum of a version under its key.
pub(super) fn checksum_of(key: &[u8], stored: &Stored) -> u64 {
    checksum(key, stored.revision, stored.created_revision, &stored.body)
}

/// The value of an object's record.
pub(super) fn encode(stored: &Stored, checksum: u64) -> Vec<u8> {
    let mut value = Vec::with_capacity(HEADER + stored.body.len());
    value.extend_from_slice(&stored.revision.to_le_bytes());
    value.extend_from_slice(&stored.created_revision.to_le_bytes());
    value.extend_from_slice(&checksum.to_le_bytes());
    value.extend_from_slice(&stored.body);
    value
}

/// One record, read back.
pub(super) struct Record {
    pub(super) revision: u64,
    pub(super) created_revision: u64,
    pub(super) checksum: u64,
    pub(super) body: Bytes,
}

/// Reads a record and checks it against its key; says what is wrong with it.
pub(super) fn decode(key: &[u8], value: &[u8]) -> Result<Record, &'static str> {
    let (header, body) = value.split_at_checked(HEADER).ok_or("the record is too short")?;
    let [revision, created_revision, expected] = words(header).ok_or("the record is too short")?;
    if checksum(key, revision, created_revision, body) != expected {
        return Err("the record's checksum does not match");
    }
    Ok(Record { revision, created_revision, checksum: expected, body: Bytes::copy_from_slice(body) })
}

/// What all records together must come to; written with every transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Summary {
    /// The revision of the last transaction.
    pub(super) revision: u64,
    /// Number of objects.
    pub(super) count: u64,
    /// Wrapping sum of the checksums of all objects.
    pub(super) digest: u64,
}

impl Summary {
    /// Takes an object in.
    pub(super) fn add(&mut self, checksum: u64) {
        self.count += 1;
        self.digest = self.digest.wrapping_add(checksum);
    }

    /// Takes an object out.
    pub(super) fn remove(&mut self, checksum: u64) {
        self.count = self.count.wrapping_sub(1);
        self.digest = self.digest.wrapping_sub(checksum);
    }

    /// The record's value.
    pub(super) fn encode(self) -> Vec<u8> {
        let words = [self.revision, self.count, self.digest];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut hash = Xxh3::new();
        hash.update(&bytes);
        [bytes, hash.digest().to_le_bytes().to_vec()].concat()
    }

    /// Reads the record's value.
    pub(super) fn decode(value: &[u8]) -> Result<Self, &'static str> {
        let [revision, count, digest, expected] = words(value).ok_or("the summary has the wrong length")?;
        let mut hash = Xxh3::new();
        hash.update(&value[..HEADER]);
        if hash.digest() != expected {
            return Err("the summary's checksum does not match");
        }
        Ok(Self { revision, count, digest })
    }
}

/// Exactly `N` little-endian words.
pub(super) fn words<const N: usize>(bytes: &[u8]) -> Option<[u64; N]> {
    let (chunks, rest) = bytes.as_chunks::<8>();
    let words: &[[u8; 8]; N] = chunks.try_into().ok()?;
    rest.is_empty().then(|| words.map(u64::from_le_bytes))
}
