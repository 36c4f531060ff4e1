//! Memory that the NICs of two processes share for one link: a ring of bytes in each direction, and words that say who waits.
//!
//! What a peer writes there is not believed: a position that cannot be ends the link, and bytes are copied out before they are looked
//! at. A writer publishes a message when all of it is there, so a process that is killed amid a copy leaves nothing of it. Relies on
//! the atomic accesses of `loco-host`; [`near`](super::near) has the socket and the bells beside it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use loco_host::pages::{keep_from_children, unmap};
use loco_host::span::Span;
use loco_host::word::full_fence;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::process::{Resource, getrlimit};

/// The bytes of one direction: some messages of 64 KiB, and no more than a processor keeps close.
pub(super) const SIZE: usize = 256 << 10;
/// The words of each direction come first, in lines of their own.
const WORDS: usize = 512;
const DATA: usize = 4096;
/// The size of the shared memory.
const ALL: usize = DATA + 2 * SIZE;

/// The number of bytes that were ever written, which the writer says.
const WRITTEN: usize = 0;
/// The number of bytes that were ever read, which the reader says.
const READ: usize = 128;
/// What the reader wants to be woken for, as a [`Wake`].
const WAKE: usize = 256;
/// One more than the number of the processor from which the writer last rang, or 0.
const RUNG: usize = 264;
/// Not 0 while the writer wants to be woken when there is room.
const ROOM: usize = 384;

/// What a reader wants to be woken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wake {
    /// It looks by itself.
    Never = 0,
    /// By what somebody may wait for.
    Urgent = 1,
    Always = 2,
}

struct Mapping(NonNull<u8>);

// SAFETY: the address is only kept here, to be unmapped; `Span` makes all accesses.
#[allow(unsafe_code)]
unsafe impl Send for Mapping {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: the mapping that was made for `self`; the spans on it keep it, so none is left.
        unsafe { unmap(self.0, ALL) };
    }
}

/// One end of the shared memory.
pub(super) struct Ring {
    memory: Span<Mapping>,
    /// Where the words and the bytes are of the direction in which this end writes, and of the other.
    out: (usize, usize),
    into: (usize, usize),
    written: u64,
    read: u64,
}

/// Returns the error of a neighbour that writes what cannot be.
fn garbage(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

impl Ring {
    /// Makes the shared memory and its first end. The descriptor opens it for the other.
    ///
    /// # Errors
    /// Fails when the system has no memory or descriptor left.
    pub fn make() -> io::Result<(Ring, OwnedFd)> {
        // Beyond the limit on the size of files, the kernel ends the process.
        if getrlimit(Resource::Fsize)
            .current
            .is_some_and(|limit| limit < ALL as u64)
        {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let file = memfd_create("loco-nic", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, ALL as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let ring = Ring::of(&file, 0, 1)?;
        Ok((ring, file))
    }

    /// Returns the second end of shared memory that a neighbour has made.
    ///
    /// # Errors
    /// Fails when the descriptor opens something else, or memory that could be cut off, and when it cannot be mapped.
    pub fn join(file: &OwnedFd) -> io::Result<Ring> {
        let sealed = fcntl_get_seals(file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK));
        if !sealed || fstat(file)?.st_size != ALL as i64 {
            return Err(garbage("a hello comes with memory that is no ring"));
        }
        Ring::of(file, 1, 0)
    }

    #[allow(unsafe_code)]
    fn of(file: impl AsFd, out: usize, into: usize) -> io::Result<Ring> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the system's choice affects no existing memory.
        let start = unsafe { mmap(std::ptr::null_mut(), ALL, access, MapFlags::SHARED, file, 0)? };
        keep_from_children(start.cast(), ALL);
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: the mapping has so many bytes and lasts as long as `Mapping`. It is sealed, so that nobody can cut it off. Nothing
        // but this span refers to it here.
        let memory = unsafe { Span::new(start, ALL, Arc::new(Mapping(start))) };
        let of = |direction: usize| (direction * WORDS, DATA + direction * SIZE);
        Ok(Ring {
            memory,
            out: of(out),
            into: of(into),
            written: 0,
            read: 0,
        })
    }

    fn load(&self, at: usize) -> u64 {
        self.memory.load_word(at).unwrap_or(0)
    }

    fn store(&self, at: usize, value: u64) {
        let stored = self.memory.store_word(at, value);
        debug_assert!(stored.is_ok(), "words lie within the memory");
    }

    /// Sets a word to 0. Returns what it was.
    fn take(&self, at: usize) -> u64 {
        let value = self.load(at);
        match value {
            0 => 0,
            _ => match self.memory.compare_swap(at, value, 0) {
                Ok(found) if found == value => value,
                // The other side has changed its mind meanwhile, and looks again by itself.
                _ => 0,
            },
        }
    }

    /// Returns for how many bytes there is room.
    ///
    /// # Errors
    /// Fails when the reader says what cannot be.
    pub fn room(&self) -> io::Result<usize> {
        let kept = self.written.wrapping_sub(self.load(self.out.0 + READ));
        match usize::try_from(kept) {
            Ok(kept) if kept <= SIZE => Ok(SIZE - kept),
            _ => Err(garbage("a neighbour has read what nobody wrote")),
        }
    }

    /// Writes bytes, for which there is room, behind what is written and not yet published.
    pub fn write(&mut self, bytes: &[u8]) {
        let at = (self.written % SIZE as u64) as usize;
        let (first, rest) = bytes.split_at(bytes.len().min(SIZE - at));
        let wrote = self.memory.write(self.out.1 + at, first);
        let wrote = wrote.and_then(|()| self.memory.write(self.out.1, rest));
        debug_assert!(wrote.is_ok(), "there is room");
        self.written += bytes.len() as u64;
    }

    /// Lets the other side see what was written. Returns true if it is to be woken.
    #[must_use]
    pub fn publish(&self, urgent: bool) -> bool {
        self.store(self.out.0 + WRITTEN, self.written);
        // The reader says that it sleeps and then looks; this writes and then asks whether it sleeps.
        full_fence();
        let least = if urgent { Wake::Urgent } else { Wake::Always };
        self.load(self.out.0 + WAKE) >= least as u64 && self.take(self.out.0 + WAKE) != 0
    }

    /// Asks to be woken when there is room. Returns false if there is some already.
    ///
    /// # Errors
    /// Fails as [`room`](Ring::room) does.
    pub fn ask_for_room(&self) -> io::Result<bool> {
        self.store(self.out.0 + ROOM, 1);
        full_fence();
        Ok(self.room()? == 0)
    }

    /// Returns how many bytes have come.
    ///
    /// # Errors
    /// Fails when the writer says what cannot be.
    pub fn come(&self) -> io::Result<usize> {
        let come = self.load(self.into.0 + WRITTEN).wrapping_sub(self.read);
        match usize::try_from(come) {
            Ok(come) if come <= SIZE => Ok(come),
            _ => Err(garbage("a neighbour has written more than there is room for")),
        }
    }

    /// Copies bytes that have come, from `skip` on, and leaves them there.
    pub fn peek(&self, skip: usize, into: &mut [u8]) {
        let at = ((self.read + skip as u64) % SIZE as u64) as usize;
        let split = into.len().min(SIZE - at);
        let (first, rest) = into.split_at_mut(split);
        let read = self.memory.read(self.into.1 + at, first);
        let read = read.and_then(|()| self.memory.read(self.into.1, rest));
        debug_assert!(read.is_ok(), "so many bytes have come");
    }

    /// Gives the room of bytes back that have been read.
    pub fn consume(&mut self, bytes: usize) {
        self.read += bytes as u64;
        self.store(self.into.0 + READ, self.read);
    }

    /// Returns true if the writer is to be woken, since it waits for room that there is now.
    pub fn is_room_wanted(&self) -> bool {
        full_fence();
        self.take(self.into.0 + ROOM) != 0
    }

    /// Says on which processor this side is when it rings.
    pub fn rings_on(&self, processor: usize) {
        self.store(self.out.0 + RUNG, processor as u64 + 1);
    }

    /// Returns on which processor the other side was when it last rang, once.
    pub fn rang_on(&self) -> Option<usize> {
        let at = self.into.0 + RUNG;
        let processor = self.load(at).checked_sub(1)?;
        self.store(at, 0);
        usize::try_from(processor).ok()
    }

    /// Says what to be woken for. A reader that sleeps then has to look again, after a fence.
    pub fn wake_for(&self, wake: Wake) {
        self.store(self.into.0 + WAKE, wake as u64);
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{Rng as _, SeedableRng as _};

    use super::*;

    fn ends() -> (Ring, Ring) {
        let (one, file) = Ring::make().unwrap();
        (one, Ring::join(&file).unwrap())
    }

    #[test]
    fn bytes_come_as_they_were_written_in_both_directions() {
        let mut rng = SmallRng::seed_from_u64(7);
        let (mut one, mut two) = ends();
        for turn in 0..2 {
            let (from, to) = match turn {
                0 => (&mut one, &mut two),
                _ => (&mut two, &mut one),
            };
            let mut sent = Vec::new();
            for _ in 0..200 {
                let len = rng.random_range(0..SIZE / 3).min(from.room().unwrap());
                let bytes: Vec<u8> = (0..len).map(|_| rng.random()).collect();
                from.write(&bytes);
                let _ = from.publish(true);
                sent.extend(bytes);
                assert_eq!(to.come().unwrap(), sent.len());
                let mut got = vec![0; rng.random_range(0..=sent.len())];
                to.peek(0, &mut got);
                to.consume(got.len());
                assert_eq!(got, sent.drain(..got.len()).collect::<Vec<u8>>());
                assert_eq!(from.room().unwrap(), SIZE - sent.len());
            }
        }
    }

    #[test]
    fn who_sleeps_is_woken_once_and_for_what_it_asked() {
        let (mut one, two) = ends();
        one.write(&[1]);
        assert!(!one.publish(true));
        two.wake_for(Wake::Urgent);
        assert!(!one.publish(false));
        assert!(one.publish(true));
        assert!(!one.publish(true));
        two.wake_for(Wake::Always);
        assert!(one.publish(false));
        two.wake_for(Wake::Never);
        assert!(!one.publish(true));
    }

    #[test]
    fn a_writer_is_woken_when_there_is_room() {
        let (mut one, mut two) = ends();
        assert!(!one.ask_for_room().unwrap());
        one.write(&vec![0; SIZE]);
        let _ = one.publish(true);
        assert!(one.ask_for_room().unwrap());
        two.consume(1);
        assert!(two.is_room_wanted());
        assert!(!two.is_room_wanted());
    }

    /// A reader that sleeps until it is woken, and a writer that waits for room until it is, bring all bytes over.
    #[test]
    fn nobody_sleeps_for_ever() {
        const BYTES: usize = 8 << 20;
        let (mut one, mut two) = ends();
        let (bell, heard) = std::sync::mpsc::channel();
        let (room_bell, room_heard) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut rng = SmallRng::seed_from_u64(1);
                let mut next = 0_usize;
                while next < BYTES {
                    let room = one.room().unwrap();
                    if room == 0 {
                        if one.ask_for_room().unwrap() {
                            room_heard.recv().unwrap();
                        }
                        continue;
                    }
                    let len = rng.random_range(1..=room.min(5000)).min(BYTES - next);
                    let bytes: Vec<u8> = (next..next + len).map(|at| (at % 251) as u8).collect();
                    one.write(&bytes);
                    if one.publish(true) {
                        bell.send(()).unwrap();
                    }
                    next += len;
                }
            });
            let mut next = 0;
            while next < BYTES {
                let come = two.come().unwrap();
                if come == 0 {
                    two.wake_for(Wake::Urgent);
                    full_fence();
                    if two.come().unwrap() == 0 {
                        heard.recv().unwrap();
                    }
                    continue;
                }
                let mut got = vec![0; come];
                two.peek(0, &mut got);
                two.consume(come);
                assert!((next..).zip(&got).all(|(at, byte)| (at % 251) as u8 == *byte));
                next += come;
                if two.is_room_wanted() {
                    // The writer may have ended.
                    let _ = room_bell.send(());
                }
            }
        });
    }

    #[test]
    fn positions_that_cannot_be_are_refused() {
        let (one, two) = ends();
        one.store(one.out.0 + WRITTEN, SIZE as u64 + 1);
        assert!(two.come().is_err());
        two.store(two.into.0 + READ, 1);
        assert!(one.room().is_err());
    }

    #[test]
    fn memory_that_is_no_ring_is_refused() {
        let file = memfd_create("other", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, ALL as u64).unwrap();
        assert!(Ring::join(&file).is_err());
        let (_, ring) = Ring::make().unwrap();
        assert!(Ring::join(&ring).is_ok());
        assert!(ftruncate(&ring, 0).is_err());
        let other = tempfile::tempfile().unwrap();
        assert!(Ring::join(&other.into()).is_err());
    }
}
