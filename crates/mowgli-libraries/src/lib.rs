//! The Mowgli framework of LOCO'26: programs that call methods of libraries (*clients*, section 3.1), what a library
//! promises (3.2), and when an implementation keeps the promise (3.5, 3.6).
//!
//! Pure: no I/O, no operating system, no unsafe code. Relies on `mowgli` for the form of texts and for values of
//! programs. Used by `mowgli outcomes`, `mowgli refine`, and by whoever runs clients on other things than
//! specifications: the types in [`client`] and [`outcome`] are all that they need.
#![forbid(unsafe_code)]

pub mod client;
pub mod outcome;
pub mod value;
