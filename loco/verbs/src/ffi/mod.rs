//! Bindings to libibverbs and librdmacm, opened at run time.
//!
//! [`types`] are the C structures, written by hand and compared with the real headers by the test of `layout`.
//! [`Api`] is the table of functions. It is filled by `system` from the libraries, or given by the program
//! ([`Given`](crate::Given)), as tests without a device and for injected faults do. Such programs find the module in
//! the crate, and others nothing in its documentation: the interface is that of the C libraries. The data path (posting and polling) does not use the table: it goes through
//! `ibv_context.ops`, as the inline functions of `verbs.h` do.
//!
//! The crate has its own bindings because published crates link at build time or need cmake and libclang.
//! These need only cargo, they allow one binary for hosts with and without the libraries, and the surface is
//! small.

use std::ffi::CStr;

mod api;
#[cfg(test)]
mod layout;
mod library;
mod system;
pub mod types;

pub use api::Api;
pub(crate) use api::{errno, ok};
pub(crate) use system::{library_status, symbol, system};

/// Returns the name of a device.
///
/// # Safety
/// `context` is an opened device.
pub(crate) unsafe fn device_name(api: &Api, context: *mut types::Context) -> String {
    // SAFETY: an open context has its device, whose name is a C string.
    unsafe {
        let name = (api.device_name)((*context).device);
        CStr::from_ptr(name).to_string_lossy().into_owned()
    }
}
