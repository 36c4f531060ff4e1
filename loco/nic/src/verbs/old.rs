//! Functions that ask for files of the kernel, for other processes' objects, or for what no NIC of this kind has.

use std::ffi::{c_char, c_int, c_void};

use super::{fails, set_errno};
use crate::ffi::*;
use crate::log::unsupported;

pub(crate) unsafe extern "C" fn get_sysfs_path() -> *const c_char {
    c"/sys".as_ptr()
}

/// Says that there is no such file: the device has none in the kernel.
pub(crate) unsafe extern "C" fn read_sysfs_file(
    _folder: *const c_char,
    _file: *const c_char,
    _buffer: *mut c_char,
    _size: usize,
) -> c_int {
    set_errno(libc::ENOENT);
    -1
}

/// Answers that children are provided for: the memory of one is its own copy here, as nothing is pinned, and so is the device.
pub(crate) unsafe extern "C" fn fork_init() -> c_int {
    0
}

/// Says that programs may fork without more ado (`IBV_FORK_UNNEEDED`).
pub(crate) unsafe extern "C" fn is_fork_initialized() -> c_int {
    2
}

pub(crate) unsafe extern "C" fn fork_range(_base: *mut c_void, _size: usize) -> c_int {
    0
}

pub(crate) unsafe extern "C" fn set_ece(_qp: *mut Qp, _ece: *const c_void) -> c_int {
    unsupported("ibv_set_ece")
}

/// Answers that there are no extended options.
pub(crate) unsafe extern "C" fn query_ece(_qp: *mut Qp, ece: *mut [u32; 3]) -> c_int {
    // SAFETY: the caller gives room for the options.
    unsafe { ece.write([0; 3]) };
    0
}

/// Says that data of one request are in no order.
pub(crate) unsafe extern "C" fn query_qp_data_in_order(_qp: *mut Qp, _opcode: c_int, _flags: u32) -> c_int {
    0
}

pub(crate) unsafe extern "C" fn import_device(_fd: c_int) -> *mut Context {
    fails(unsupported("ibv_import_device"))
}

pub(crate) unsafe extern "C" fn import_pd(_context: *mut Context, _number: u32) -> *mut Pd {
    fails(unsupported("ibv_import_pd"))
}

pub(crate) unsafe extern "C" fn import_mr(_pd: *mut Pd, _number: u32) -> *mut Mr {
    fails(unsupported("ibv_import_mr"))
}

pub(crate) unsafe extern "C" fn import_dm(_context: *mut Context, _number: u32) -> *mut c_void {
    fails(unsupported("ibv_import_dm"))
}

pub(crate) unsafe extern "C" fn unimport(_object: *mut c_void) {}

pub(crate) unsafe extern "C" fn copy_from_kernel(_to: *mut c_void, _from: *mut c_void) {
    unsupported("ibv_copy_*_from_kern");
}

/// Stands for what rdma-core's own drivers call. They find no device here; one that is used all the same gets an error.
pub(crate) unsafe extern "C" fn private() -> c_int {
    unsupported("a call of a driver of rdma-core")
}

/// Takes the drivers that are linked to programs (`libmlx5`, `libefa`), and does not use them.
pub(crate) unsafe extern "C" fn register_driver(_driver: *const c_void) {}

/// Drops what drivers log.
pub(crate) unsafe extern "C" fn driver_log() {}
