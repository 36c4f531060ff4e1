//! The libraries that have the functions.

use std::ffi::CStr;

/// One of the two libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Library {
    /// `libibverbs.so.1`
    Verbs,
    /// `librdmacm.so.1`
    ConnectionManager,
}

impl Library {
    /// Returns the name of the shared object.
    pub(super) fn soname(self) -> &'static CStr {
        match self {
            Library::Verbs => c"libibverbs.so.1",
            Library::ConnectionManager => c"librdmacm.so.1",
        }
    }
}
