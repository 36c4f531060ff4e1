//! The page of a node: memory that the node writes, and that other processes of its user read through `/proc`. It has no name in
//! any file system, so it goes when the node goes.
//!
//! A child that the node forks shares the page. What it does with the node's objects is then shown as the node's: only those who look
//! at a job are misled.
//!
//! All of it is words. A text is its length in bytes, and its bytes. Longer texts are cut.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::process::{Resource, getrlimit};

/// What pages are called in `/proc/PID/fd`.
pub const NAME: &str = "loco-waits";
/// The first word of a page, with the version of this layout.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"LOCOWT01");

/// The words before the first object: [`MAGIC`], and those below.
pub(super) const HEADER_WORDS: usize = 32;
pub(super) const NODE: usize = 1;
pub(super) const NODES: usize = 2;
pub(super) const PROCESS: usize = 3;
pub(super) const OBJECTS_LEFT_OUT: usize = 4;
pub(super) const WAITS_LEFT_OUT: usize = 5;
pub(super) const THREADS: usize = 6;
pub(super) const JOB: usize = 7;
pub(super) const JOB_WORDS: usize = HEADER_WORDS - JOB;

/// The objects that a page has room for.
pub(super) const OBJECTS: usize = 1024;
/// An object: whether its place is taken, who holds it if it is a lock, its name and kind.
pub(super) const OBJECT_WORDS: usize = 24;
pub(super) const HOLDER: usize = 1;
pub(super) const OBJECT_NAME: usize = 2;
/// The words of a name, of objects and of what is waited for: the two are compared.
pub(super) const NAME_WORDS: usize = 12;
pub(super) const KIND: usize = OBJECT_NAME + NAME_WORDS;
pub(super) const KIND_WORDS: usize = OBJECT_WORDS - KIND;

/// The waits that a page has room for.
pub(super) const WAITS: usize = 256;
/// A wait: whether its place is taken; a number that is odd while the rest changes, and even and another for each state; the
/// rest.
pub(super) const WAIT_WORDS: usize = 32;
pub(super) const VERSION: usize = 1;
pub(super) const THREAD: usize = 2;
pub(super) const SINCE: usize = 3;
pub(super) const UNTIL: usize = 4;
pub(super) const LOOKS: usize = 5;
pub(super) const STAGE: usize = 6;
pub(super) const AWAITED: usize = 7;
pub(super) const AWAITED_LIST: usize = 8;
/// The nodes that are listed, four in a word.
pub(super) const AWAITED_MAX: usize = 4 * (WAIT_NAME - AWAITED_LIST);
pub(super) const WAIT_NAME: usize = WAIT_WORDS - NAME_WORDS;

pub(super) const FIRST_OBJECT: usize = HEADER_WORDS;
pub(super) const FIRST_WAIT: usize = FIRST_OBJECT + OBJECTS * OBJECT_WORDS;
/// The words of a page.
pub(super) const WORDS: usize = FIRST_WAIT + WAITS * WAIT_WORDS;

/// Set in the number of a thread: not the thread itself holds or waits, but an asynchronous call that runs on it.
pub(super) const OF_TASK: u64 = 1 << 32;

/// A page of this process.
pub(super) struct Page {
    words: &'static [AtomicU64],
    /// Other processes find the page by this open file.
    _file: File,
}

impl Page {
    /// Makes a page of zeros.
    #[allow(unsafe_code)]
    pub(super) fn new() -> io::Result<Page> {
        let bytes = WORDS * size_of::<u64>();
        // Beyond the limit on the size of files, the kernel ends the process.
        if getrlimit(Resource::Fsize)
            .current
            .is_some_and(|limit| limit < bytes as u64)
        {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let file = memfd_create(NAME, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, bytes as u64)?;
        // A page that somebody shrinks would end this process.
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
        // SAFETY: a new mapping, which replaces none.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &file,
                0,
            )?
        };
        // SAFETY: the mapping has so many bytes, zero is an atomic, the start is that of a page of memory, and the mapping ends when
        // this is dropped, beyond which `words` lends nothing.
        let words = unsafe { std::slice::from_raw_parts(start.cast::<AtomicU64>(), WORDS) };
        Ok(Page {
            words,
            _file: File::from(file),
        })
    }

    /// Returns a word.
    #[inline]
    pub(super) fn word(&self, index: usize) -> &AtomicU64 {
        &self.words[index]
    }

    /// Takes a free place among `count` places of `words` words, whose first word says whether the place is taken. Returns its
    /// first word.
    pub(super) fn take(&self, first: usize, count: usize, words: usize) -> Option<usize> {
        let places = (0..count).map(|number| first + number * words);
        places.into_iter().find(|&place| {
            let word = self.word(place);
            // Relaxed: a look only.
            word.load(Ordering::Relaxed) == 0
                && word
                    .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
        })
    }

    /// Writes a text into `words` words, and as much of it as fits.
    pub(super) fn write_text(&self, at: usize, words: usize, text: &str) {
        let room = (words - 1) * size_of::<u64>();
        let end = (0..=room.min(text.len()))
            .rev()
            .find(|&end| text.is_char_boundary(end));
        let bytes = &text.as_bytes()[..end.unwrap_or(0)];
        self.word(at).store(bytes.len() as u64, Ordering::Relaxed);
        for (word, chunk) in self.words[at + 1..at + words]
            .iter()
            .zip(bytes.chunks(size_of::<u64>()))
        {
            let mut whole = [0; size_of::<u64>()];
            whole[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_ne_bytes(whole), Ordering::Relaxed);
        }
    }
}

impl Drop for Page {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: the mapping that `new` made, of which nobody has a reference any more. Nothing can be done if it stays.
        let _ = unsafe { munmap(self.words.as_ptr().cast_mut().cast(), size_of_val(self.words)) };
    }
}
