//! Memory on the card, for which memory of the host stands: the NIC has none.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;
use std::sync::atomic::AtomicU64;

use loco_host::bytes;
use loco_verbs::ffi::types::*;

use super::state::{Shared, set_errno, zeroed};
use super::table;

/// Device memory: zeroed words behind the structure that the program sees.
#[repr(C)]
struct AlteredDm {
    dm: Dm,
    /// The words are atomic because other threads access them. Only their address is used, by the functions
    /// of `word`.
    words: Box<[AtomicU64]>,
}

/// Returns the start of device memory.
///
/// # Safety
/// `dm` was made by [`alloc`] and is not freed.
unsafe fn words(dm: *mut Dm) -> *mut u8 {
    // SAFETY: by the caller's promise. A shared reference, as there may be others.
    let own = unsafe { &*dm.cast::<AlteredDm>() };
    own.words.as_ptr().cast_mut().cast()
}

pub(super) unsafe extern "C" fn alloc(context: *mut Context, attr: *mut AllocDmAttr) -> *mut Dm {
    // SAFETY: the caller passes the context of a device and the request.
    let (shared, length) = unsafe { (Shared::of(context), (*attr).length) };
    if length as u64 > shared.limits.device_memory_bytes {
        set_errno(libc::ENOMEM);
        return ptr::null_mut();
    }
    let dm = AlteredDm {
        dm: Dm {
            context,
            memcpy_to_dm: Some(memcpy_to_dm),
            memcpy_from_dm: Some(memcpy_from_dm),
            ..zeroed()
        },
        words: (0..length.div_ceil(8)).map(|_| AtomicU64::new(0)).collect(),
    };
    Box::into_raw(Box::new(dm)).cast()
}

pub(super) unsafe extern "C" fn free(dm: *mut Dm) -> c_int {
    // SAFETY: the caller passes what `alloc` made, once.
    drop(unsafe { Box::from_raw(dm.cast::<AlteredDm>()) });
    0
}

pub(super) unsafe extern "C" fn register(
    pd: *mut Pd,
    dm: *mut Dm,
    offset: u64,
    len: usize,
    access: c_uint,
) -> *mut Mr {
    // SAFETY: the caller passes a live domain, memory of `alloc` and a range within it.
    unsafe {
        let start = words(dm).add(usize::try_from(offset).unwrap_or(0));
        table::reg_mr(pd, start.cast(), len, access.cast_signed())
    }
}

unsafe extern "C" fn memcpy_to_dm(dm: *mut Dm, offset: u64, from: *const c_void, len: usize) -> c_int {
    // SAFETY: the caller passes memory of `alloc`, a range within it and as many bytes to read.
    unsafe {
        let to = words(dm);
        let from = std::slice::from_raw_parts(from.cast::<u8>(), len);
        bytes::write(to.add(usize::try_from(offset).unwrap_or(0)), from);
    }
    0
}

unsafe extern "C" fn memcpy_from_dm(to: *mut c_void, dm: *mut Dm, offset: u64, len: usize) -> c_int {
    // SAFETY: the caller passes memory of `alloc`, a range within it and room for as many bytes.
    unsafe {
        let from = words(dm);
        let to = std::slice::from_raw_parts_mut(to.cast::<u8>(), len);
        bytes::read(from.add(usize::try_from(offset).unwrap_or(0)), to);
    }
    0
}
