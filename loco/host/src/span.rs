//! Bounds-checked handles on mapped memory. An access out of range or misaligned is an error at the call,
//! never a fault.

use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::{bytes, word};
use loco_fabric::{FabricError, Result, Word, WordCell};

/// A range of mapped memory, together with the `K` that keeps it mapped. A method that takes an offset fails with
/// [`OutOfRange`](loco_fabric::FabricError::OutOfRange) if the bytes do not lie within the span, and with
/// [`Misaligned`](loco_fabric::FabricError::Misaligned) if it needs an aligned word and there is none.
pub struct Span<K> {
    start: NonNull<u8>,
    len: usize,
    keep: Arc<K>,
}

/// An aligned word of mapped memory. Loads and stores are single instructions.
pub struct SpanCell<W, K> {
    at: NonNull<u8>,
    /// Keeps the word mapped.
    keep: Arc<K>,
    word: PhantomData<fn() -> W>,
}

// SAFETY: for both types: the pointer stays valid as long as what travels with it, and all access through it is atomic
// (module `word`).
unsafe impl<K: Send + Sync> Send for Span<K> {}
// SAFETY: as above.
unsafe impl<K: Send + Sync> Sync for Span<K> {}
// SAFETY: as above.
unsafe impl<W, K: Send + Sync> Send for SpanCell<W, K> {}
// SAFETY: as above.
unsafe impl<W, K: Send + Sync> Sync for SpanCell<W, K> {}

/// Fails unless `len` bytes from `offset` lie within `region_len`.
#[inline]
pub fn check_range(offset: usize, len: usize, region_len: usize) -> Result<()> {
    // The subtraction cannot overflow: it is reached only if `len <= region_len`.
    if len <= region_len && offset <= region_len - len {
        Ok(())
    } else {
        Err(FabricError::OutOfRange {
            offset,
            len,
            region_len,
        })
    }
}

/// Fails unless `address`, the address of `offset`, is a multiple of `align`. (The region may itself be a
/// slice from an odd offset, so the address counts.)
#[inline]
pub fn check_aligned(address: u64, offset: usize, align: usize) -> Result<()> {
    if address.is_multiple_of(align as u64) {
        Ok(())
    } else {
        Err(FabricError::Misaligned { offset, align })
    }
}

impl<K> Span<K> {
    /// Returns the span of `len` bytes from `start`.
    ///
    /// # Safety
    /// The bytes lie within one mapping, which lasts as long as `keep`. This process accesses the mapping
    /// only by the functions of `word` and `bytes`.
    pub unsafe fn new(start: NonNull<u8>, len: usize, keep: Arc<K>) -> Span<K> {
        Span { start, len, keep }
    }

    /// Returns the length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if the length is zero.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the address of the first byte.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Returns the value that keeps the memory mapped.
    pub fn keep(&self) -> &K {
        &self.keep
    }

    /// Asks the CPU to fetch the line of `offset`, which may be any number.
    #[inline]
    pub fn prefetch(&self, offset: usize) {
        word::prefetch(self.start.as_ptr().wrapping_add(offset));
    }

    /// Asks the CPU to fetch the line of `offset` for writing.
    #[inline]
    pub fn prefetch_write(&self, offset: usize) {
        word::prefetch_write(self.start.as_ptr().wrapping_add(offset));
    }

    /// Drops the line of `offset` from all caches, where the processor can. An offset outside of the span is ignored.
    #[inline]
    pub fn evict(&self, offset: usize) {
        if offset < self.len {
            // SAFETY: inside of the span, which is mapped.
            unsafe { word::evict(self.start.as_ptr().wrapping_add(offset)) };
        }
    }

    /// Returns a span of a part.
    pub fn slice(&self, offset: usize, len: usize) -> Result<Span<K>> {
        check_range(offset, len, self.len)?;
        Ok(Span {
            // SAFETY: within the range, which is within one mapping.
            start: unsafe { self.start.add(offset) },
            len,
            keep: Arc::clone(&self.keep),
        })
    }

    /// Returns a handle on the word at `offset`.
    pub fn cell<W: Word>(&self, offset: usize) -> Result<SpanCell<W, K>> {
        let at = self.word_address(offset, W::BYTES)?;
        Ok(SpanCell {
            // SAFETY: derived from a non-null pointer by an offset within its mapping.
            at: unsafe { NonNull::new_unchecked(at) },
            keep: Arc::clone(&self.keep),
            word: PhantomData,
        })
    }

    /// Returns the address of `len` bytes from `offset`, valid as long as `self` or a clone of it.
    #[inline]
    pub fn address(&self, offset: usize, len: usize) -> Result<*mut u8> {
        check_range(offset, len, self.len)?;
        // SAFETY: within the range, which is within one mapping.
        Ok(unsafe { self.start.add(offset) }.as_ptr())
    }

    /// Returns the address of an aligned word at `offset`.
    #[inline]
    fn word_address(&self, offset: usize, align: usize) -> Result<*mut u8> {
        let at = self.address(offset, align)?;
        check_aligned(at.addr() as u64, offset, align)?;
        Ok(at)
    }

    /// Fails unless `len` bytes from `offset` lie within the span.
    #[inline]
    pub fn check(&self, offset: usize, len: usize) -> Result<()> {
        check_range(offset, len, self.len)
    }

    /// Fails unless an aligned 8-byte word lies at `offset`.
    #[inline]
    pub fn check_word(&self, offset: usize) -> Result<()> {
        self.word_address(offset, 8).map(|_| ())
    }

    /// Returns the address of `offset`, modulo the size of a word.
    pub fn phase(&self, offset: usize) -> usize {
        self.start.as_ptr().addr().wrapping_add(offset) % 8
    }

    /// Copies bytes from here into private memory.
    #[inline]
    pub fn read(&self, offset: usize, out: &mut [u8]) -> Result<()> {
        let from = self.address(offset, out.len())?;
        // SAFETY: the range was checked and `self` keeps it mapped.
        unsafe { bytes::read(from, out) };
        Ok(())
    }

    /// Copies private bytes here, after this thread's earlier accesses and before its later stores.
    #[inline]
    pub fn write(&self, offset: usize, data: &[u8]) -> Result<()> {
        let to = self.address(offset, data.len())?;
        // SAFETY: the range was checked and `self` keeps it mapped.
        unsafe { bytes::write(to, data) };
        Ok(())
    }

    /// Copies `len` bytes of `src` here. [`bytes::copy`] says how the words are ordered, and that they do not
    /// tear.
    #[inline]
    pub fn copy_from<L>(&self, offset: usize, src: &Span<L>, src_offset: usize, len: usize) -> Result<()> {
        let (from, to) = (src.address(src_offset, len)?, self.address(offset, len)?);
        // SAFETY: both ranges were checked and both handles keep their memory mapped.
        unsafe { bytes::copy(to, from, len) };
        Ok(())
    }

    /// Loads an aligned 8-byte word, before this thread's later accesses.
    #[inline]
    pub fn load_word(&self, offset: usize) -> Result<u64> {
        let at = self.word_address(offset, 8)?;
        // SAFETY: range and alignment were checked and `self` keeps the word mapped.
        Ok(unsafe { word::load(at, Ordering::Acquire) })
    }

    /// Stores an aligned 8-byte word, after this thread's earlier accesses.
    #[inline]
    pub fn store_word(&self, offset: usize, value: u64) -> Result<()> {
        let at = self.word_address(offset, 8)?;
        // SAFETY: range and alignment were checked and `self` keeps the word mapped.
        unsafe { word::store(at, value, Ordering::Release) };
        Ok(())
    }

    /// Adds atomically to an aligned 8-byte word, with a full fence. Returns the old value.
    #[inline]
    pub fn fetch_add(&self, offset: usize, add: u64) -> Result<u64> {
        let at = self.word_address(offset, 8)?;
        // SAFETY: range and alignment were checked and `self` keeps the word mapped.
        Ok(unsafe { word::fetch_add::<u64>(at, add) })
    }

    /// Compares and swaps an aligned 8-byte word atomically, with a full fence. Returns the value found.
    #[inline]
    pub fn compare_swap(&self, offset: usize, expected: u64, new: u64) -> Result<u64> {
        let at = self.word_address(offset, 8)?;
        // SAFETY: range and alignment were checked and `self` keeps the word mapped.
        let (Ok(found) | Err(found)) = unsafe { word::compare_exchange(at, expected, new) };
        Ok(found)
    }
}

impl<W, K> SpanCell<W, K> {
    /// Returns the address of the word.
    pub(crate) fn address(&self) -> *mut u8 {
        self.at.as_ptr()
    }
}

impl<W: Word, K: Send + Sync + 'static> WordCell<W> for SpanCell<W, K> {
    #[inline]
    fn load(&self) -> W {
        // SAFETY: range and alignment were checked when the cell was made; `keep` keeps it mapped.
        unsafe { word::load(self.at.as_ptr(), Ordering::Acquire) }
    }

    #[inline]
    fn store(&self, value: W) {
        // SAFETY: as for `load`.
        unsafe { word::store(self.at.as_ptr(), value, Ordering::Release) }
    }

    #[inline]
    fn store_fence(&self, value: W) {
        // SAFETY: as for `load`.
        unsafe { word::store(self.at.as_ptr(), value, Ordering::SeqCst) }
    }

    #[inline]
    fn compare_exchange(&self, current: W, new: W) -> Result<W, W> {
        // SAFETY: as for `load`.
        unsafe { word::compare_exchange(self.at.as_ptr(), current, new) }
    }

    #[inline]
    fn fetch_add(&self, add: W) -> W {
        // SAFETY: as for `load`.
        unsafe { word::fetch_add(self.at.as_ptr(), add) }
    }
}

// These are written out because derived ones would demand the same traits of `K`.

impl<K> Clone for Span<K> {
    fn clone(&self) -> Span<K> {
        Span {
            start: self.start,
            len: self.len,
            keep: Arc::clone(&self.keep),
        }
    }
}

impl<W, K> Clone for SpanCell<W, K> {
    fn clone(&self) -> SpanCell<W, K> {
        SpanCell {
            at: self.at,
            keep: Arc::clone(&self.keep),
            word: PhantomData,
        }
    }
}

impl<K> fmt::Debug for Span<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {:?}", self.len, self.start)
    }
}

impl<W, K> fmt::Debug for SpanCell<W, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "word at {:?}", self.at)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64};
    use std::thread;

    use super::*;

    /// The bytes of the memory here.
    const LEN: usize = 128;

    /// Memory that says when it goes.
    struct Memory {
        words: Box<[AtomicU64]>,
        gone: Arc<AtomicBool>,
    }

    impl Drop for Memory {
        fn drop(&mut self) {
            self.gone.store(true, Ordering::Release);
        }
    }

    fn memory() -> (Span<Memory>, Arc<AtomicBool>) {
        let gone = Arc::new(AtomicBool::new(false));
        let memory = Arc::new(Memory {
            words: (0..LEN / 8).map(|_| AtomicU64::new(0)).collect(),
            gone: Arc::clone(&gone),
        });
        // All words, and not the address of the first alone; and once they are where they stay.
        let start = NonNull::from(&memory.words[..]).cast();
        // SAFETY: all words of the memory, which lasts as long as it and is accessed as atomics only.
        (unsafe { Span::new(start, LEN, memory) }, gone)
    }

    /// Tries every range near the memory: what lies within is accessed, and everything else is an error.
    #[test]
    fn ranges_are_checked_at_every_access() {
        let (span, _) = memory();
        let lengths = [0, 1, 3, 8, 15, 16, 17, LEN - 1, LEN, LEN + 1];
        for offset in (0..20)
            .chain(LEN - 20..LEN + 20)
            .chain([usize::MAX - 7, usize::MAX])
        {
            for len in lengths {
                let fits = offset.checked_add(len).is_some_and(|end| end <= LEN);
                let bytes = vec![7; len];
                let mut back = vec![0; len];
                assert_eq!(span.write(offset, &bytes).is_ok(), fits, "{offset} {len}");
                assert_eq!(span.read(offset, &mut back).is_ok(), fits);
                assert!(!fits || back == bytes, "{offset} {len}");
                assert_eq!(span.slice(offset, len).is_ok(), fits);
                assert_eq!(span.copy_from(0, &span, offset, len).is_ok(), fits);
            }
            let word_fits = offset.checked_add(8).is_some_and(|end| end <= LEN);
            let is_word = word_fits && offset.is_multiple_of(8);
            assert_eq!(span.store_word(offset, 1).is_ok(), is_word, "{offset}");
            assert_eq!(span.load_word(offset).is_ok(), is_word);
            assert_eq!(span.fetch_add(offset, 1).is_ok(), is_word);
            assert_eq!(span.compare_swap(offset, 2, 3).is_ok(), is_word);
            assert_eq!(span.cell::<u64>(offset).is_ok(), is_word);
            let byte_fits = offset < LEN;
            assert_eq!(span.cell::<u8>(offset).is_ok(), byte_fits);
        }
    }

    #[test]
    fn a_handle_keeps_the_memory() {
        let (span, gone) = memory();
        let part = span.slice(8, 16).unwrap();
        let cell = part.cell::<u32>(4).unwrap();
        let is_gone = || gone.load(Ordering::Acquire);
        drop(span);
        part.store_word(8, 5).unwrap();
        drop(part);
        assert!(!is_gone());
        cell.store(9);
        assert_eq!((cell.load(), cell.clone().fetch_add(1), cell.load()), (9, 9, 10));
        drop(cell);
        assert!(is_gone(), "nothing else keeps it");
    }

    /// Threads use words, bytes and counters of one memory at a time: accesses of one size to each place.
    #[test]
    fn threads_share_a_memory() {
        const ROUNDS: u64 = if cfg!(miri) { 20 } else { 2000 };
        let (span, _) = memory();
        thread::scope(|scope| {
            for own in 0..2 {
                let (span, counter) = (span.clone(), span.cell::<u64>(0).unwrap());
                scope.spawn(move || {
                    let mut seen = [0; 16];
                    for round in 1..=ROUNDS {
                        counter.fetch_add(1);
                        span.write(16 + 16 * own, &[round as u8; 16]).unwrap();
                        span.read(16 + 16 * (1 - own), &mut seen).unwrap();
                        let words = seen.as_chunks::<8>().0;
                        assert!(
                            words.iter().all(|word| word.iter().all(|byte| *byte == word[0])),
                            "torn"
                        );
                    }
                });
            }
        });
        assert_eq!(span.load_word(0).unwrap(), 2 * ROUNDS);
    }
}
