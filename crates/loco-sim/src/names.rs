//! From names that do not depend on the schedule to dense indexes: words of the machine, locks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use rustc_hash::FxHashMap;

/// A table that only grows.
#[derive(Default)]
pub(crate) struct Names {
    table: RwLock<FxHashMap<u64, u32>>,
    /// Its length, so that explorers notice growth without the lock.
    len: AtomicU64,
}

impl Names {
    /// The index of `name`, given now if it has none.
    pub(crate) fn index(&self, name: u64) -> u32 {
        if let Some(&index) = self
            .table
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&name)
        {
            return index;
        }
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let fresh = table.len() as u32;
        let index = *table.entry(name).or_insert(fresh);
        self.len.store(table.len() as u64, Ordering::SeqCst);
        index
    }

    /// Number of names so far.
    pub(crate) fn len(&self) -> u64 {
        self.len.load(Ordering::SeqCst)
    }
}
