//! Racy access to words of shared memory. Only this module and [`bytes`](crate::bytes) load and store registered bytes.
//!
//! Registered memory is written by other threads and other processes at any time, so it is never seen through a
//! `&[u8]` and never accessed by plain loads and stores: every access is an atomic one of 1, 2, 4, 8 or 16 bytes
//! at its natural alignment.
//!
//! The language leaves racing atomics of *different* sizes on the same bytes undefined. Fabrics cannot
//! exclude them (a peer may put 16 bytes over two `u32` cells). The hardware defines them (per byte, each
//! access single), and so does LLVM's memory model, which is per byte. The mapping comes from a system call
//! that the compiler cannot see through, other processes make half of the accesses, and nothing else in this
//! process refers to it.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use loco_fabric::Word;

/// Waits until this thread's earlier stores are visible to everyone, before its later accesses (`mfence`).
#[inline]
pub fn full_fence() {
    // Miri executes no assembly.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // A locked instruction drains the store buffer and, as there are no non-temporal stores here, orders all that
    // `mfence` orders, in about half the time. Its word is below the top of the stack because the function around it
    // may keep a variable at the top: a load of that word would wait for the locked instruction, 4 ns on a Zen 5.
    // SAFETY: changes no bit of a word of this thread's own stack, atomically, so that whatever is there stays. The
    // word is mapped wherever a call could be made, since a call writes its return address there.
    unsafe {
        std::arch::asm!("lock or dword ptr [rsp - 8], 0", options(nostack));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    std::sync::atomic::fence(Ordering::SeqCst);
}

/// Asks the CPU to fetch the line of `at`. Any address will do: an unmapped one is ignored.
#[inline]
pub fn prefetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction has no effect that a program could observe, and never faults.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Asks the CPU to fetch the line of `at` for writing, so that no other CPU keeps it.
#[inline]
pub fn prefetch_write(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as for `prefetch`.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_ET0>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Writes the line of `at` back and drops it from all caches, on x86-64. Elsewhere it does nothing.
///
/// # Safety
/// `at` is mapped.
#[inline]
pub unsafe fn evict(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction; it changes no value, and the caller promises that it does not fault.
    unsafe {
        std::arch::x86_64::_mm_clflush(at);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Loads one word.
///
/// # Safety
/// `at` is aligned to `W` and its bytes are mapped.
#[inline]
pub unsafe fn load<W: Word>(at: *mut u8, order: Ordering) -> W {
    debug_assert!(at.addr().is_multiple_of(W::BYTES));
    // An order that does not exist for loads becomes the next stronger one that does.
    let order = match order {
        Ordering::Relaxed | Ordering::SeqCst => order,
        _ => Ordering::Acquire,
    };
    // SAFETY: the caller's promise; all accesses to mapped memory are atomic (module head).
    unsafe {
        W::from_u64(match W::BYTES {
            1 => u64::from(AtomicU8::from_ptr(at).load(order)),
            2 => u64::from(AtomicU16::from_ptr(at.cast()).load(order)),
            4 => u64::from(AtomicU32::from_ptr(at.cast()).load(order)),
            _ => AtomicU64::from_ptr(at.cast()).load(order),
        })
    }
}

/// Stores one word. After a `SeqCst` store the store buffer is drained.
///
/// # Safety
/// `at` is aligned to `W` and its bytes are mapped.
#[inline]
pub unsafe fn store<W: Word>(at: *mut u8, value: W, order: Ordering) {
    debug_assert!(at.addr().is_multiple_of(W::BYTES));
    let order = match order {
        Ordering::Relaxed | Ordering::SeqCst => order,
        _ => Ordering::Release,
    };
    let value = value.to_u64();
    #[allow(clippy::cast_possible_truncation)] // `value` came from a word of this size.
    // SAFETY: the caller's promise; all accesses to mapped memory are atomic (module head).
    unsafe {
        match W::BYTES {
            1 => AtomicU8::from_ptr(at).store(value as u8, order),
            2 => AtomicU16::from_ptr(at.cast()).store(value as u16, order),
            4 => AtomicU32::from_ptr(at.cast()).store(value as u32, order),
            _ => AtomicU64::from_ptr(at.cast()).store(value, order),
        }
    }
    // On x86-64 a SeqCst store is an `xchg`, which drains. Elsewhere it only orders SeqCst accesses.
    if cfg!(not(target_arch = "x86_64")) && order == Ordering::SeqCst {
        full_fence();
    }
}

/// Compares and swaps a word of the CPU, with a full fence before and after, whether it succeeds or not.
///
/// # Safety
/// `at` is aligned to `W` and its bytes are mapped.
#[inline]
pub unsafe fn compare_exchange<W: Word>(at: *mut u8, current: W, new: W) -> Result<W, W> {
    debug_assert!(at.addr().is_multiple_of(W::BYTES));
    fence_around_rmw();
    let (current, new) = (current.to_u64(), new.to_u64());
    macro_rules! exchange {
        ($atomic:ty, $word:ty) => {
            <$atomic>::from_ptr(at.cast())
                .compare_exchange(
                    current as $word,
                    new as $word,
                    Ordering::SeqCst,
                    Ordering::SeqCst,
                )
                .map(u64::from)
                .map_err(u64::from)
        };
    }
    #[allow(clippy::cast_possible_truncation)] // The values came from words of this size.
    // SAFETY: the caller's promise; all accesses to mapped memory are atomic (module head).
    let result = unsafe {
        match W::BYTES {
            1 => exchange!(AtomicU8, u8),
            2 => exchange!(AtomicU16, u16),
            4 => exchange!(AtomicU32, u32),
            _ => exchange!(AtomicU64, u64),
        }
    };
    fence_around_rmw();
    result.map(W::from_u64).map_err(W::from_u64)
}

/// Adds atomically to a word, with wrap-around and a full fence before and after. Returns the old value.
///
/// # Safety
/// `at` is aligned to `W` and its bytes are mapped.
#[inline]
pub unsafe fn fetch_add<W: Word>(at: *mut u8, add: W) -> W {
    debug_assert!(at.addr().is_multiple_of(W::BYTES));
    fence_around_rmw();
    let add = add.to_u64();
    #[allow(clippy::cast_possible_truncation)] // `add` came from a word of this size.
    // SAFETY: the caller's promise; all accesses to mapped memory are atomic (module head).
    let old = unsafe {
        match W::BYTES {
            1 => u64::from(AtomicU8::from_ptr(at).fetch_add(add as u8, Ordering::SeqCst)),
            2 => u64::from(AtomicU16::from_ptr(at.cast()).fetch_add(add as u16, Ordering::SeqCst)),
            4 => u64::from(AtomicU32::from_ptr(at.cast()).fetch_add(add as u32, Ordering::SeqCst)),
            _ => AtomicU64::from_ptr(at.cast()).fetch_add(add, Ordering::SeqCst),
        }
    };
    fence_around_rmw();
    W::from_u64(old)
}

/// Executes a fence beside a read-modify-write where it needs one. A locked instruction of x86-64 is a full
/// fence by itself; other machines need one on either side.
#[inline]
fn fence_around_rmw() {
    if cfg!(not(target_arch = "x86_64")) {
        full_fence();
    }
}
