//! The C structures and constants of `infiniband/verbs.h` and `rdma/rdma_cma.h`, as programs see them. Those that hold data only are of
//! [`loco_ibverbs`]; a test compares the others with the headers where these are installed.

pub(crate) mod handles;

#[cfg(test)]
mod layout;

pub(crate) use handles::*;
pub(crate) use loco_ibverbs::*;

/// Returns a zeroed structure.
#[allow(unsafe_code)]
pub(crate) fn zeroed<T: Copy>() -> T {
    // SAFETY: only used with structures of these modules and of libc: integers, nullable function pointers, raw pointers, locks, and
    // arrays of these, for all of which zero is a value.
    unsafe { std::mem::zeroed() }
}
