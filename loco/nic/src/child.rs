//! Whether this process is a child of `fork` that has its NIC from a parent.
//!
//! Descriptors that it shares with the parent are the parent's: who would write, read or shut one asks here first. The engine says so
//! when the process forks.

use std::sync::atomic::{AtomicBool, Ordering};

/// True in a child of a process that has started its NIC.
static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// Returns whether this process has its NIC from a parent.
pub(crate) fn is_child() -> bool {
    IS_CHILD.load(Ordering::Relaxed)
}

/// Takes note that this process is a child.
pub(crate) fn becomes_child() {
    IS_CHILD.store(true, Ordering::Relaxed);
}
