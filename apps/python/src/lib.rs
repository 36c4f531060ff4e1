//! The Python interface: the modules `loco` and `mowgli` of the wheel `loco-rdma`.
//!
//! The Python files beside this crate (`python/`) re-export what stands here, and their stubs (`*.pyi`) state the types. The
//! interface offers the objects of the C interface, over the Rust one:
//!
//! - An object of Python owns what it needs, and keeps its node up, so that Python may collect objects in any order.
//! - Each thread of Python gets its own [`loco::Thread`] when it first calls an object (`calls`).
//! - A call lets other threads of Python run while it waits, and asks for signals, so that Ctrl-C ends it (`calls`).
//! - An error becomes an exception of `loco`, by its kind, with the text of the Rust error (`errors`).
//!
//! Relies on PyO3, `loco` and `mowgli`. Used by nobody in Rust.

#![deny(unsafe_code)]

mod atomic;
mod barrier;
mod calls;
mod errors;
mod lock;
mod models;
mod node;
#[allow(unsafe_code)] // the buffer protocol
mod region;
mod ring;
mod store;

/// The part of the wheel that is not written in Python.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::atomic::AtomicVar;
    #[pymodule_export]
    use crate::barrier::Barrier;
    #[pymodule_export]
    use crate::lock::{LockGuard, TasLock, TicketLock};
    #[pymodule_export]
    use crate::models::{Verdict, check, models};
    #[pymodule_export]
    use crate::node::{Node, start};
    #[pymodule_export]
    use crate::region::SharedRegion;
    #[pymodule_export]
    use crate::ring::{RingBuffer, RingReader, RingWriter};
    #[pymodule_export]
    use crate::store::KvStore;

    /// Adds the version.
    #[pymodule_init]
    fn init(module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        use pyo3::types::PyModuleMethods as _;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
