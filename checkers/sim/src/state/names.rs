//! Maps names that do not depend on the schedule to dense indexes, for words of the machine and for locks.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::fabric::request::VirtualWord;

/// The number of threads that may give names.
const THREADS: usize = 256;
const PAGE: usize = 1 << 10;
const PAGES: usize = 1 << 10;

type Page = Box<[AtomicU32]>;
type Pages = Box<[OnceLock<Page>]>;

/// A table that only grows. A name consists of a thread's number and a small counter, so the table is an
/// array in two levels.
pub(crate) struct Names {
    threads: Box<[OnceLock<Pages>]>,
    growing: Mutex<()>,
    len: AtomicU64,
}

impl Default for Names {
    fn default() -> Self {
        Names {
            threads: (0..THREADS).map(|_| OnceLock::new()).collect(),
            growing: Mutex::new(()),
            len: AtomicU64::new(0),
        }
    }
}

impl Names {
    /// Returns the index of `name`. Assigns one if it has none yet.
    ///
    /// # Panics
    /// Panics for a name beyond a million names of one thread or 256 threads: model worlds are small.
    pub(crate) fn index(&self, name: u64) -> u32 {
        let thread = (name >> 40) as usize;
        let counter = (name - VirtualWord::base(thread as u16)) as usize;
        let pages = self.threads[thread].get_or_init(|| (0..PAGES).map(|_| OnceLock::new()).collect());
        let page = pages[counter / PAGE].get_or_init(|| (0..PAGE).map(|_| AtomicU32::new(0)).collect());
        let slot = &page[counter % PAGE];
        // Indexes are stored plus one. Relaxed: the index publishes no other data, and whoever sees 0 asks
        // again under the lock.
        match slot.load(Ordering::Relaxed) {
            0 => {
                let _growing = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(index) = slot.load(Ordering::SeqCst).checked_sub(1) {
                    return index;
                }
                let index = self.len.fetch_add(1, Ordering::SeqCst) as u32;
                slot.store(index + 1, Ordering::SeqCst);
                index
            }
            index => index - 1,
        }
    }

    /// Returns the name at `index`. This looks at every name, which is fast enough for reports.
    pub(crate) fn name(&self, index: u32) -> Option<u64> {
        let threads = self.threads.iter().enumerate();
        let pages = threads.filter_map(|(thread, pages)| Some((thread, pages.get()?)));
        pages
            .flat_map(|(thread, pages)| pages.iter().enumerate().map(move |(p, page)| (thread, p, page)))
            .filter_map(|(thread, p, page)| Some((thread, p, page.get()?)))
            .find_map(|(thread, p, page)| {
                let at = page
                    .iter()
                    .position(|slot| slot.load(Ordering::SeqCst) == index + 1)?;
                Some(VirtualWord::base(thread as u16) + (p * PAGE + at) as u64)
            })
    }

    /// Returns the number of names so far.
    pub(crate) fn len(&self) -> u64 {
        self.len.load(Ordering::SeqCst)
    }
}
