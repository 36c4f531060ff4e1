//! The C interface of LOCO: what `include/loco.h` declares, and `libloco.so` and `libloco.a` define.
//!
//! The header is the documentation: the effect of each function, its errors, the state after a timeout, and which
//! thread may call it. The promises of the header are kept as follows:
//!
//! - A handle is a pointer to a boxed value of this crate, and C never looks inside. A handle that is an argument is
//!   `Option<&T>`, which is NULL or a pointer; the function that frees it takes `Option<Box<T>>`.
//! - Handles own what they need: an object keeps its node up, so that handles may be freed in any order.
//! - A `loco_thread` knows the thread of the operating system that made it, and refuses others. Handles that
//!   take `&mut` in Rust (a ring's writer and readers, collective operations) are locked for each call, and say *busy*
//!   rather than wait.
//! - No panic and no Rust error type crosses the border (`border::call`).
//!
//! Unsafe are the exported names, and the places where a pointer and a length, or a C string, become a slice (`border`).

#![deny(unsafe_code)]

#[allow(unsafe_code)] // exported names
mod atomic;
#[allow(unsafe_code)] // exported names
mod barrier;
#[allow(unsafe_code)] // slices and strings from pointers
mod border;
#[allow(unsafe_code)] // exported names
mod collective;
#[allow(unsafe_code)] // exported names
mod fence;
#[allow(unsafe_code)] // exported names
mod lock;
#[allow(unsafe_code)] // exported names
mod node;
#[allow(unsafe_code)] // exported names, and a buffer that is kept together with its thread
mod pending;
#[allow(unsafe_code)] // exported names
mod queue;
#[allow(unsafe_code)] // exported names
mod region;
#[allow(unsafe_code)] // exported names
mod ring;
#[allow(unsafe_code)] // exported names
mod status;
#[allow(unsafe_code)] // exported names
mod store;
#[allow(unsafe_code)] // exported names, and an operation that is kept together with its store and thread
mod store_pending;
#[allow(unsafe_code)] // exported names
mod thread;
#[allow(unsafe_code)] // exported names
mod variable;

#[cfg(test)]
mod agreement;

/// Handles that any thread may use, and free, as the header documents. A [`loco::Thread`] is used by one thread, but
/// another may drop it.
const _: () = {
    const fn any_thread<T: Send + Sync>() {}
    const fn dropped_anywhere<T: Send>() {}
    any_thread::<node::Node>();
    any_thread::<region::Region>();
    any_thread::<atomic::Atomic>();
    any_thread::<barrier::Barrier>();
    any_thread::<ring::Ring>();
    any_thread::<ring::RingWriter>();
    any_thread::<ring::RingReader>();
    any_thread::<lock::Lock>();
    any_thread::<store::Store>();
    any_thread::<variable::Variable>();
    any_thread::<queue::Queue>();
    any_thread::<collective::Collective>();
    dropped_anywhere::<loco::Thread>();
};
