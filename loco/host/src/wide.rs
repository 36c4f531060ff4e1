//! Copies of many words: by accesses of 16 aligned bytes where the processor has them, and by `rep movsq` if there
//! are very many. Used by [`crate::bytes`], whose head says why words stay whole. The head of [`crate::word`] says
//! why racing with others is defined.
//!
//! A block is one turn of a loop in assembly: four loads, then four stores. Written as single accesses the loop is three times
//! slower in the first cache, since the compiler computes each address anew.

/// The bytes of a block.
pub(crate) const BLOCK: usize = 64;
/// The least number of bytes that are copied by blocks. Fewer take no longer word by word.
const LEAST: usize = 256;

/// The least number of bytes that are copied by `rep movsq`, which takes a while to begin and then moves whole cache lines.
const STRING_LEAST: usize = 2048;

/// Returns whether this processor copies strings in whole cache lines.
#[inline]
fn has_fast_strings() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("ermsb");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Returns whether this processor moves 16 aligned bytes in one access: those with AVX do.
#[inline]
pub(crate) fn is_atomic() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Returns the number of bytes from `address` to the next multiple of 16, and the number of blocks that follow in `len`
/// bytes. Both are 0 for short copies, and where there is no access of 16 bytes.
#[inline]
pub(crate) fn blocks(address: usize, len: usize) -> (usize, usize) {
    if len < LEAST || !is_atomic() {
        return (0, 0);
    }
    let head = address.wrapping_neg() % 16;
    (head, (len - head) / BLOCK)
}

/// Defines a loop of blocks. `$load` and `$store` are the instructions that move 16 bytes.
#[cfg(target_arch = "x86_64")]
macro_rules! block_loop {
    ($from:ident, $to:ident, $blocks:ident, $load:literal, $store:literal) => {
        std::arch::asm!(
            "2:",
            concat!($load, " {a}, xmmword ptr [{from}]"),
            concat!($load, " {b}, xmmword ptr [{from} + 16]"),
            concat!($load, " {c}, xmmword ptr [{from} + 32]"),
            concat!($load, " {d}, xmmword ptr [{from} + 48]"),
            concat!($store, " xmmword ptr [{to}], {a}"),
            concat!($store, " xmmword ptr [{to} + 16], {b}"),
            concat!($store, " xmmword ptr [{to} + 32], {c}"),
            concat!($store, " xmmword ptr [{to} + 48], {d}"),
            "add {from}, 64",
            "add {to}, 64",
            "dec {left}",
            "jnz 2b",
            from = inout(reg) $from => _, to = inout(reg) $to => _, left = inout(reg) $blocks => _,
            a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, d = out(xmm_reg) _,
            options(nostack)
        )
    };
}

#[cfg(target_arch = "x86_64")]
mod loops {
    use super::{BLOCK, STRING_LEAST, has_fast_strings};

    /// Copies `blocks` blocks by `rep movsq` if that is faster, and returns whether it did.
    ///
    /// # Safety
    /// `blocks` blocks are mapped on both sides. An address of `to` or `from` that is shared is a multiple of 8.
    #[inline]
    unsafe fn copies_string(to: *mut u8, from: *const u8, blocks: usize) -> bool {
        let fast = blocks >= STRING_LEAST / BLOCK && has_fast_strings();
        if fast {
            // SAFETY: reads and writes mapped memory only, by the caller's promise. Calls leave the direction flag clear.
            unsafe {
                std::arch::asm!(
                    "rep movsq",
                    inout("rcx") blocks * (BLOCK / 8) => _, inout("rdi") to => _, inout("rsi") from => _,
                    options(nostack, preserves_flags)
                );
            }
        }
        fast
    }

    /// Copies blocks of shared memory. Where `src` is not a multiple of 16, its words are loaded one by one.
    ///
    /// # Safety
    /// [`is_atomic`](super::is_atomic), and `blocks` is not 0; `blocks` blocks are mapped on both sides; `dst` is a
    /// multiple of 16 and `src` of 8.
    #[inline]
    pub(crate) unsafe fn copy(dst: *mut u8, src: *mut u8, blocks: usize) {
        // SAFETY: the caller's promise.
        if unsafe { copies_string(dst, src, blocks) } {
            return;
        }
        if src.addr().is_multiple_of(16) {
            // SAFETY: reads and writes mapped memory only, by the caller's promise.
            unsafe { block_loop!(src, dst, blocks, "vmovdqa", "vmovdqa") };
        } else {
            // SAFETY: as above.
            unsafe { copy_words(dst, src, blocks) };
        }
    }

    /// Copies blocks, loading words.
    ///
    /// # Safety
    /// See [`copy`].
    unsafe fn copy_words(dst: *mut u8, src: *mut u8, blocks: usize) {
        // SAFETY: as for `copy`.
        unsafe {
            std::arch::asm!(
                "2:",
                "vmovq {a}, qword ptr [{src}]",
                "vmovhps {a}, {a}, qword ptr [{src} + 8]",
                "vmovq {b}, qword ptr [{src} + 16]",
                "vmovhps {b}, {b}, qword ptr [{src} + 24]",
                "vmovq {c}, qword ptr [{src} + 32]",
                "vmovhps {c}, {c}, qword ptr [{src} + 40]",
                "vmovq {d}, qword ptr [{src} + 48]",
                "vmovhps {d}, {d}, qword ptr [{src} + 56]",
                "vmovdqa xmmword ptr [{dst}], {a}",
                "vmovdqa xmmword ptr [{dst} + 16], {b}",
                "vmovdqa xmmword ptr [{dst} + 32], {c}",
                "vmovdqa xmmword ptr [{dst} + 48], {d}",
                "add {src}, 64",
                "add {dst}, 64",
                "dec {left}",
                "jnz 2b",
                src = inout(reg) src => _, dst = inout(reg) dst => _, left = inout(reg) blocks => _,
                a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, d = out(xmm_reg) _,
                options(nostack)
            );
        }
    }

    /// Copies blocks of shared memory to private memory.
    ///
    /// # Safety
    /// [`is_atomic`](super::is_atomic), and `blocks` is not 0; `blocks` blocks are mapped on both sides; `src` is a
    /// multiple of 16; `target` is the caller's own.
    #[inline]
    pub(crate) unsafe fn read(target: *mut u8, src: *mut u8, blocks: usize) {
        // SAFETY: as for `copy`.
        unsafe {
            if !copies_string(target, src, blocks) {
                block_loop!(src, target, blocks, "vmovdqa", "vmovdqu");
            }
        }
    }

    /// Copies blocks of private memory to shared memory.
    ///
    /// # Safety
    /// [`is_atomic`](super::is_atomic), and `blocks` is not 0; `blocks` blocks are mapped on both sides; `dst` is a
    /// multiple of 16; nobody writes `source` meanwhile.
    #[inline]
    pub(crate) unsafe fn write(dst: *mut u8, source: *const u8, blocks: usize) {
        // SAFETY: as for `copy`.
        unsafe {
            if !copies_string(dst, source, blocks) {
                block_loop!(source, dst, blocks, "vmovdqu", "vmovdqa");
            }
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod loops {
    /// Does nothing and is never called: there are no blocks here.
    ///
    /// # Safety
    /// None.
    pub(crate) unsafe fn copy(_: *mut u8, _: *mut u8, _: usize) {
        unreachable!("no access of 16 bytes");
    }
    pub(crate) use copy as read;

    /// Does nothing and is never called, as [`copy`].
    ///
    /// # Safety
    /// None.
    pub(crate) unsafe fn write(_: *mut u8, _: *const u8, _: usize) {
        unreachable!("no access of 16 bytes");
    }
}

pub(crate) use loops::{copy, read, write};
