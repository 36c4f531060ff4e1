//! Copies of 16 aligned bytes in one access, where the processor has them. Used by [`crate::word`], whose head says why
//! they are single and why racing with others is defined.

/// Returns whether this processor moves 16 aligned bytes in one access: those with AVX do.
#[inline]
pub(crate) fn is_atomic() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

#[cfg(target_arch = "x86_64")]
mod moves {
    use std::arch::asm;

    /// Copies 16 bytes of shared memory.
    ///
    /// # Safety
    /// [`is_atomic`](super::is_atomic); 16 bytes are mapped on both sides; both addresses are multiples of 16.
    #[inline(always)]
    pub(crate) unsafe fn copy(dst: *mut u8, src: *mut u8) {
        // SAFETY: reads and writes mapped memory only, by the caller's promise.
        unsafe {
            asm!(
                "vmovdqa {part}, xmmword ptr [{src}]",
                "vmovdqa xmmword ptr [{dst}], {part}",
                src = in(reg) src, dst = in(reg) dst, part = out(xmm_reg) _,
                options(nostack, preserves_flags)
            );
        }
    }

    /// Copies 16 bytes of shared memory, loading two words and storing both at once.
    ///
    /// # Safety
    /// As for [`copy`], but `src` is a multiple of 8.
    #[inline(always)]
    pub(crate) unsafe fn copy_words(dst: *mut u8, src: *mut u8) {
        // SAFETY: as for `copy`.
        unsafe {
            asm!(
                "vmovq {part}, qword ptr [{src}]",
                "vmovhps {part}, {part}, qword ptr [{src} + 8]",
                "vmovdqa xmmword ptr [{dst}], {part}",
                src = in(reg) src, dst = in(reg) dst, part = out(xmm_reg) _,
                options(nostack, preserves_flags)
            );
        }
    }

    /// Copies 16 bytes of shared memory to private memory.
    ///
    /// # Safety
    /// [`is_atomic`](super::is_atomic); 16 bytes are mapped on both sides; `src` is a multiple of 16; `target` is the caller's own.
    #[inline(always)]
    pub(crate) unsafe fn read(target: *mut u8, src: *mut u8) {
        // SAFETY: as for `copy`.
        unsafe {
            asm!(
                "vmovdqa {part}, xmmword ptr [{src}]",
                "vmovdqu xmmword ptr [{target}], {part}",
                src = in(reg) src, target = in(reg) target, part = out(xmm_reg) _,
                options(nostack, preserves_flags)
            );
        }
    }

    /// Copies 16 bytes of private memory to shared memory.
    ///
    /// # Safety
    /// [`is_atomic`](super::is_atomic); 16 bytes are mapped on both sides; `dst` is a multiple of 16; nobody writes `source` meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn write(dst: *mut u8, source: *const u8) {
        // SAFETY: as for `copy`.
        unsafe {
            asm!(
                "vmovdqu {part}, xmmword ptr [{source}]",
                "vmovdqa xmmword ptr [{dst}], {part}",
                source = in(reg) source, dst = in(reg) dst, part = out(xmm_reg) _,
                options(nostack, preserves_flags)
            );
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod moves {
    /// Is never called: [`is_atomic`](super::is_atomic) is false here.
    ///
    /// # Safety
    /// None.
    pub(crate) unsafe fn copy(_: *mut u8, _: *mut u8) {
        unreachable!("no access of 16 bytes");
    }
    pub(crate) use {copy as copy_words, copy as read};

    /// Is never called, as [`copy`].
    ///
    /// # Safety
    /// None.
    pub(crate) unsafe fn write(_: *mut u8, _: *const u8) {
        unreachable!("no access of 16 bytes");
    }
}

pub(crate) use moves::{copy, copy_words, read, write};
