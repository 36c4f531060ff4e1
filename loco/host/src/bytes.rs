//! Racy copies to, from and between pieces of shared memory. The head of [`word`](crate::word) says why such races are
//! defined.
//!
//! Copies are loops of atomic accesses, as wide as the alignment permits, so aligned words do not tear. Accesses of
//! 16 bytes are the `vmovdqa` of processors with AVX, which Intel (Software Developer's Manual 3A, *Guaranteed Atomic
//! Operations*) and AMD (Architecture Programmer's Manual 2, *Access Atomicity*) document as single. Long copies are
//! a `rep movsq`. It is by definition a sequence of moves of 8 bytes, each single where it is aligned. Fast strings
//! loosen the order among these moves, and nothing else: all of them follow the stores before the instruction and
//! precede those after it (Intel 3A, *Fast-String Operation and Out-of-Order Stores*). Go's runtime moves pointers in
//! the same way while its collector reads them. `rep movsb` and wider vectors are not used: their 8-byte parts are
//! not single accesses by definition.

use std::sync::atomic::{Ordering, fence};

use crate::wide;
use crate::word::{load, store};

/// Copies between two pieces of shared memory. Words that are aligned on both sides do not tear. The stores
/// follow all earlier accesses of this thread, and its later accesses follow the loads. The words have no
/// order among themselves.
///
/// # Safety
/// `len` bytes from `src` and from `dst` are mapped. (They may overlap: that is a copy piece by piece, ascending.)
#[inline]
pub unsafe fn copy(dst: *mut u8, src: *mut u8, len: usize) {
    if len == 8 && (dst.addr() | src.addr()).is_multiple_of(8) {
        // Acquire and Release give the order promised above. They cost nothing on x86-64.
        // SAFETY: aligned as just checked, mapped by the caller's promise.
        unsafe { store::<u64>(dst, load::<u64>(src, Ordering::Acquire), Ordering::Release) };
    } else {
        // SAFETY: the caller's promise.
        unsafe { copy_bulk(dst, src, len) };
    }
}

/// Copies between two pieces of shared memory of any length, without the short path of a single word.
///
/// # Safety
/// See [`copy`].
unsafe fn copy_bulk(dst: *mut u8, src: *mut u8, len: usize) {
    // The accesses are Relaxed, with fences for all of them together: Release orders earlier accesses before
    // the stores, Acquire orders the loads before later accesses.
    fence(Ordering::Release);
    macro_rules! copy_by {
        ($unit:literal, $from:expr, $len:expr) => {
            pieces::<$unit>(dst.addr() + $from, $len, |at, size| {
                // SAFETY: `pieces` yields offsets below `len` that are aligned for `dst`, and for `src` too because
                // both have the same remainder modulo the unit.
                unsafe {
                    let (dst, src) = (dst.add($from + at), src.add($from + at));
                    match size {
                        1 => store::<u8>(dst, load(src, Ordering::Relaxed), Ordering::Relaxed),
                        2 => store::<u16>(dst, load(src, Ordering::Relaxed), Ordering::Relaxed),
                        4 => store::<u32>(dst, load(src, Ordering::Relaxed), Ordering::Relaxed),
                        _ => store::<u64>(dst, load(src, Ordering::Relaxed), Ordering::Relaxed),
                    }
                }
            })
        };
    }
    match (dst.addr() ^ src.addr()) % 8 {
        0 => {
            let (head, blocks) = wide::blocks(dst.addr(), len);
            let rest = head + wide::BLOCK * blocks;
            if blocks > 0 {
                copy_by!(8, 0, head);
                // SAFETY: `blocks` counts what is left after the head, where `dst` is a multiple of 16 and `src` of 8.
                unsafe { wide::copy(dst.add(head), src.add(head), blocks) };
            }
            copy_by!(8, rest, len - rest);
        }
        4 => copy_by!(4, 0, len),
        2 | 6 => copy_by!(2, 0, len),
        _ => copy_by!(1, 0, len),
    }
    fence(Ordering::Acquire);
}

/// Copies shared memory out to private memory. Aligned words do not tear. Later accesses follow the loads.
///
/// # Safety
/// `out.len()` bytes from `src` are mapped.
#[inline(always)] // A few words of a number that the compiler knows are a few instructions.
pub unsafe fn read(src: *mut u8, out: &mut [u8]) {
    if out.len() > FEW || !(src.addr() | out.len()).is_multiple_of(8) {
        // SAFETY: the caller's promise.
        unsafe { read_bulk(src, out) };
    } else {
        let target = out.as_mut_ptr().cast::<u64>();
        for word in 0..out.len() / 8 {
            // Relaxed: the fence follows.
            // SAFETY: `src` is aligned as just checked, and both sides have so many words.
            unsafe {
                let value = load(src.cast::<u64>().add(word).cast(), Ordering::Relaxed);
                target.add(word).write_unaligned(value);
            }
        }
    }
    fence(Ordering::Acquire);
}

/// The most bytes that [`read`] and [`write()`] copy as words without a call.
const FEW: usize = 64;

/// Copies shared memory of any length and alignment to private memory. A fence has to follow.
///
/// # Safety
/// See [`read`].
#[inline(never)]
unsafe fn read_bulk(src: *mut u8, out: &mut [u8]) {
    match wide::blocks(src.addr(), out.len()) {
        // SAFETY: the caller's promise.
        (_, 0) => unsafe { read_words(src, out) },
        // SAFETY: the same; where blocks begin, `src` is a multiple of 16.
        (head, blocks) => unsafe { read_blocks(src, out, head, blocks) },
    }
}

/// Reads `head` bytes, then blocks, then the rest.
///
/// # Safety
/// See [`read`]; `head` and `blocks` are as [`wide::blocks`] returns them.
#[inline(never)] // Short reads are not to pay for it.
unsafe fn read_blocks(src: *mut u8, out: &mut [u8], head: usize, blocks: usize) {
    let (before, rest) = out.split_at_mut(head);
    let (wide, after) = rest.split_at_mut(wide::BLOCK * blocks);
    // SAFETY: the three parts of what the caller promises.
    unsafe {
        read_words(src, before);
        wide::read(wide.as_mut_ptr(), src.add(head), blocks);
        read_words(src.add(head + wide.len()), after);
    }
}

/// Reads single words, each as wide as the alignment permits.
///
/// # Safety
/// See [`read`].
#[inline(always)]
unsafe fn read_words(src: *mut u8, out: &mut [u8]) {
    let target = out.as_mut_ptr();
    pieces::<8>(src.addr(), out.len(), |at, size| {
        // Relaxed: a fence follows in `read`.
        // SAFETY: `pieces` yields offsets below `out.len()` that are aligned for `src`; `target` is exclusively
        // ours, at any alignment.
        unsafe {
            let (src, target) = (src.add(at), target.add(at));
            match size {
                1 => target.write(load(src, Ordering::Relaxed)),
                2 => target.cast::<u16>().write_unaligned(load(src, Ordering::Relaxed)),
                4 => target.cast::<u32>().write_unaligned(load(src, Ordering::Relaxed)),
                _ => target.cast::<u64>().write_unaligned(load(src, Ordering::Relaxed)),
            }
        }
    });
}

/// Copies private memory into shared memory. Aligned words do not tear. The stores follow earlier accesses
/// and precede later stores.
///
/// # Safety
/// `data.len()` bytes from `dst` are mapped.
#[inline(always)] // as `read`
pub unsafe fn write(dst: *mut u8, data: &[u8]) {
    fence(Ordering::Release);
    // Relaxed: there are fences before and after.
    // SAFETY: the caller's promise. Words are stored where `dst` is aligned, and has so many.
    unsafe {
        match (data.as_chunks(), dst.addr().is_multiple_of(8)) {
            (([value], []), true) => store(dst, u64::from_ne_bytes(*value), Ordering::Relaxed),
            // From the last to the first, as in `write_words`.
            ((values, []), true) if data.len() <= FEW => {
                for (word, value) in values.iter().enumerate().rev() {
                    let at = dst.cast::<u64>().add(word).cast();
                    store(at, u64::from_ne_bytes(*value), Ordering::Relaxed);
                }
            }
            _ => write_bulk(dst, data),
        }
    }
    fence(Ordering::Release);
}

/// Copies private memory of any length to shared memory of any alignment. There have to be fences before and after.
///
/// # Safety
/// See [`write()`].
#[inline(never)]
unsafe fn write_bulk(dst: *mut u8, data: &[u8]) {
    match wide::blocks(dst.addr(), data.len()) {
        // SAFETY: the caller's promise.
        (_, 0) => unsafe { write_words(dst, data) },
        // SAFETY: the same; there are more bytes than a line and a block, and the processor has accesses of 16.
        _ => unsafe { write_blocks(dst, data) },
    }
}

/// Writes the lines after the first as blocks, then what is left at the end, and at last the first line, for which
/// [`write_words`] gives the reason.
///
/// # Safety
/// See [`write()`]. There are more bytes than a line and a block, and [`wide::is_atomic`].
#[inline(never)] // Shorter writes are not to pay for it.
unsafe fn write_blocks(dst: *mut u8, data: &[u8]) {
    let (line, rest) = data.split_at(wide::BLOCK - dst.addr() % wide::BLOCK);
    let blocks = rest.len() / wide::BLOCK;
    let (wide, after) = rest.split_at(wide::BLOCK * blocks);
    // SAFETY: the three parts of what the caller promises. The blocks begin at a multiple of 64.
    unsafe {
        let at = dst.add(line.len());
        wide::write(at, wide.as_ptr(), blocks);
        write_words(at.add(wide.len()), after);
        write_words(dst, line);
    }
}

/// Writes single words, each as wide as the alignment permits, from the last to the first. A reader often looks at the first
/// line of what is written, and the next store is often to that line too: so it is taken from the reader once, at the end.
///
/// # Safety
/// See [`write()`].
#[inline(always)]
unsafe fn write_words(dst: *mut u8, data: &[u8]) {
    let source = data.as_ptr();
    pieces_down(dst.addr(), data.len(), |at, size| {
        // Relaxed: there are fences before and after in `write`.
        // SAFETY: `pieces_down` yields offsets below `data.len()` that are aligned for `dst`; `source` is private, at any
        // alignment.
        unsafe {
            let (dst, source) = (dst.add(at), source.add(at));
            match size {
                1 => store::<u8>(dst, source.read(), Ordering::Relaxed),
                2 => store::<u16>(dst, source.cast::<u16>().read_unaligned(), Ordering::Relaxed),
                4 => store::<u32>(dst, source.cast::<u32>().read_unaligned(), Ordering::Relaxed),
                _ => store::<u64>(dst, source.cast::<u64>().read_unaligned(), Ordering::Relaxed),
            }
        }
    });
}

/// Fills shared memory with zeros, ordered as [`write()`] orders.
///
/// # Safety
/// `len` bytes from `dst` are mapped.
pub unsafe fn zero(dst: *mut u8, len: usize) {
    const ZEROS: [u8; 4096] = [0; 4096];
    for at in (0..len).step_by(ZEROS.len()) {
        // SAFETY: the caller's promise; `at < len`.
        unsafe { write(dst.add(at), &ZEROS[..ZEROS.len().min(len - at)]) };
    }
}

/// Cuts `len` bytes from `address` into naturally aligned pieces of at most `UNIT` bytes. Each piece is as
/// large as its alignment permits. Calls `piece(offset, size)` for them in ascending order.
#[inline(always)] // Inlined, so that `size` is a constant in the body of the loop.
fn pieces<const UNIT: usize>(address: usize, len: usize, mut piece: impl FnMut(usize, usize)) {
    let mut at = 0;
    // The head reaches up to a multiple of UNIT. Where the rest is too short for the next step, the tail
    // takes over, and the address is a multiple of every smaller size.
    for size in [1, 2, 4] {
        if size < UNIT && (address + at) & size != 0 && len - at >= size {
            piece(at, size);
            at += size;
        }
    }
    while len - at >= 4 * UNIT {
        piece(at, UNIT);
        piece(at + UNIT, UNIT);
        piece(at + 2 * UNIT, UNIT);
        piece(at + 3 * UNIT, UNIT);
        at += 4 * UNIT;
    }
    while len - at >= UNIT {
        piece(at, UNIT);
        at += UNIT;
    }
    for size in [4, 2, 1] {
        if size < UNIT && len - at >= size {
            piece(at, size);
            at += size;
        }
    }
}

/// Cuts `len` bytes from `address` as [`pieces`] does, in pieces of 8 bytes at most. Calls `piece` for them in descending order.
#[inline(always)] // as `pieces`
fn pieces_down(address: usize, len: usize, mut piece: impl FnMut(usize, usize)) {
    let mut left = len;
    // The tail reaches down to a multiple of 8; see `pieces`.
    for size in [1, 2, 4] {
        if (address + left) & size != 0 && left >= size {
            left -= size;
            piece(left, size);
        }
    }
    while left >= 32 {
        left -= 32;
        piece(left + 24, 8);
        piece(left + 16, 8);
        piece(left + 8, 8);
        piece(left, 8);
    }
    while left >= 8 {
        left -= 8;
        piece(left, 8);
    }
    for size in [4, 2, 1] {
        if left >= size {
            left -= size;
            piece(left, size);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;
    use proptest::prelude::*;

    /// Checks that pieces tile the range and are aligned, and that every aligned word within the range lies
    /// in one piece.
    fn check<const UNIT: usize>(address: usize, len: usize) {
        let mut cut = Vec::new();
        pieces::<UNIT>(address, len, |at, size| cut.push((at, size)));
        check_cut::<UNIT>(address, len, &cut);
    }

    fn check_cut<const UNIT: usize>(address: usize, len: usize, cut: &[(usize, usize)]) {
        let mut next = 0;
        for &(at, size) in cut {
            assert_eq!(at, next);
            assert!((address + at).is_multiple_of(size) && size <= UNIT);
            next = at + size;
        }
        assert_eq!(next, len);
        for word in [1, 2, 4, 8] {
            if word > UNIT {
                continue;
            }
            for at in (0..len).filter(|at| (address + at).is_multiple_of(word) && at + word <= len) {
                let whole = cut
                    .iter()
                    .any(|&(start, size)| start <= at && at + word <= start + size);
                assert!(whole, "{word} bytes at {at} tear in {len} bytes from {address}");
            }
        }
    }

    /// Checks that bytes written at one offset, copied to another, read, and zeroed are the same at each step.
    fn copies(from: usize, to: usize, bytes: &[u8]) {
        let mut source = vec![0_u64; 8 + bytes.len() / 8];
        let mut target = source.clone();
        let (source, target) = (source.as_mut_ptr().cast::<u8>(), target.as_mut_ptr().cast::<u8>());
        let mut back = vec![1; bytes.len()];
        // SAFETY: at least 57 bytes more than `bytes` has, of which at most 31 are skipped; nobody else knows of them.
        unsafe {
            write(source.add(from), bytes);
            copy(target.add(to), source.add(from), bytes.len());
            read(target.add(to), &mut back);
            assert_eq!(back, bytes);
            zero(target.add(to), bytes.len());
            read(target.add(to), &mut back);
        }
        assert!(back.iter().all(|&byte| byte == 0));
    }

    proptest! {
        #[test]
        fn pieces_keep_aligned_words_whole(address in 64usize..128, len in 0usize..100) {
            check::<8>(address, len);
            check::<4>(address, len);
            check::<2>(address, len);
            check::<1>(address, len);
            let mut down = Vec::new();
            pieces_down(address, len, |at, size| down.insert(0, (at, size)));
            check_cut::<8>(address, len, &down);
        }

        /// Makes copies that are long enough for `rep movsq`.
        #[test]
        fn long_copies_copy(from in 0usize..32, to in 0usize..32, len in 2000usize..3000, seed: u8) {
            let bytes: Vec<u8> = (0..len).map(|at| seed.wrapping_add((at % 251) as u8)).collect();
            copies(from, to, &bytes);
        }

        /// The parts of a wide copy meet where no aligned word is cut.
        #[test]
        fn wide_parts_meet_between_words(address in 64usize..256, len in 0usize..700) {
            let (head, blocks) = wide::blocks(address, len);
            prop_assert!(head + wide::BLOCK * blocks <= len);
            prop_assert!(blocks == 0 || (address + head).is_multiple_of(16));
            prop_assert!(len - head - wide::BLOCK * blocks < wide::BLOCK || blocks == 0);
        }

        #[test]
        fn copies_copy(from in 0usize..32, to in 0usize..32, bytes in proptest::collection::vec(any::<u8>(), 0..700)) {
            copies(from, to, &bytes);
        }
    }

    /// Two threads copy over one piece of memory at every offset of a word, and a third copies it out: each word is one
    /// that was copied in, whole.
    fn words_are_whole<const WORDS: usize>() {
        const ROUNDS: usize = if cfg!(miri) { 5 } else { 2000 };
        let memory: Vec<AtomicU64> = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
        // Of all words: an address of one may not be used for those beside it.
        let place = |at: usize| memory[at..].as_ptr().cast_mut().cast::<u8>();
        std::thread::scope(|scope| {
            for writer in [1_u64, 2] {
                scope.spawn(move || {
                    let source: Vec<AtomicU64> = (0..WORDS)
                        .map(|_| AtomicU64::new(writer * 0x0101_0101_0101_0101))
                        .collect();
                    for round in 0..ROUNDS {
                        let (from, to) = (round % 3, round % 5);
                        // SAFETY: at most 8 * (WORDS - 5) bytes from an offset of at most 4 words.
                        unsafe {
                            copy(
                                place(to),
                                source[from..].as_ptr().cast_mut().cast(),
                                8 * (WORDS - 5),
                            )
                        };
                    }
                });
            }
            let mut seen = vec![0_u8; 8 * WORDS];
            for round in 0..ROUNDS {
                let skipped = round % 7;
                let part = &mut seen[8 * skipped..];
                // SAFETY: the bytes from this offset to the end.
                unsafe { read(place(skipped), part) };
                for word in part.as_chunks::<8>().0 {
                    assert!(word.iter().all(|byte| *byte == word[0] && *byte <= 2), "{word:?}");
                }
            }
        });
    }

    #[test]
    fn words_of_racing_copies_are_whole() {
        words_are_whole::<96>();
    }

    #[test]
    fn words_of_racing_long_copies_are_whole() {
        words_are_whole::<2048>();
    }
}
