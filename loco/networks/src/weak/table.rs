//! Functions in place of an object's own.
//!
//! Each object of libfabric has pointers to tables of functions, which begin with their size. A table is copied, functions in the
//! copy are replaced, and the object gets the copy. The address of what the functions work on stands before the copy, where
//! they find it.

use std::alloc::{Layout, alloc, handle_alloc_error};
use std::ptr;

/// The bytes before a copy.
const HEAD: usize = size_of::<*const ()>();

/// Copies the table `from`, with the address of `own` before it. The copy lives as long as the process.
///
/// # Safety
/// `from` is a table of functions of libfabric, which begins with its size, and `O` declares its first fields.
pub(super) unsafe fn copy<O, T>(from: *const O, own: &'static T) -> *mut O {
    // SAFETY: by the caller's promise; the layout has room for the address and the table.
    unsafe {
        let size = *from.cast::<usize>();
        assert!(
            size >= size_of::<O>(),
            "libfabric is too old: a table lacks functions"
        );
        let layout = Layout::from_size_align(HEAD + size, HEAD).expect("tables are short");
        let block = alloc(layout);
        if block.is_null() {
            handle_alloc_error(layout);
        }
        block.cast::<*const T>().write(own);
        let to = block.add(HEAD);
        ptr::copy_nonoverlapping(from.cast::<u8>(), to, size);
        to.cast()
    }
}

/// Returns what stands before a copy.
///
/// # Safety
/// `table` was made by [`copy`] for a value of type `T`.
pub(super) unsafe fn own<O, T>(table: *const O) -> &'static T {
    // SAFETY: by the caller's promise; the value lives as long as the process.
    unsafe { &**table.byte_sub(HEAD).cast::<*const T>() }
}
