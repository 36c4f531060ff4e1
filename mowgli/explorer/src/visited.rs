//! The set of visited states, as 128-bit fingerprints in shards.
//!
//! If two different states have one fingerprint, one of them is lost. The probability is below `n² / 2^129`
//! for `n` states: under 10^-20 for a thousand million.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use xxhash_rust::xxh3::xxh3_128;

/// The number of shards. There are more shards than workers, so that workers seldom meet.
const SHARDS: usize = 64;

/// Returns the fingerprint (XXH3) of the encoding of a state.
pub fn fingerprint(encoding: &[u8]) -> u128 {
    xxh3_128(encoding)
}

/// Takes the low half of a fingerprint as its hash: fingerprints are uniform already.
#[derive(Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 ^= u64::from_le_bytes(word);
        }
    }

    fn write_u128(&mut self, n: u128) {
        self.0 = n as u64;
    }
}

type Shard = HashSet<u128, BuildHasherDefault<Identity>>;

/// A set of fingerprints that threads share.
#[derive(Debug)]
pub struct Visited([Mutex<Shard>; SHARDS]);

impl Default for Visited {
    fn default() -> Visited {
        Visited(std::array::from_fn(|_| Mutex::default()))
    }
}

impl Visited {
    /// Adds a fingerprint. Returns true if it is new.
    pub fn insert(&self, fingerprint: u128) -> bool {
        self.shard(fingerprint).insert(fingerprint)
    }

    /// Returns whether the fingerprint has been added.
    pub fn contains(&self, fingerprint: u128) -> bool {
        self.shard(fingerprint).contains(&fingerprint)
    }

    fn shard(&self, fingerprint: u128) -> MutexGuard<'_, Shard> {
        // The low bits choose the place within the table, so the high bits choose the shard.
        let shard = (fingerprint >> 120) as usize % SHARDS;
        // A poisoned shard is whole, because the only action under the lock is an insertion.
        self.0[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
