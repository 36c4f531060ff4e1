//! Executable memory models for RDMA and the litmus tests that separate them.
//!
//! Pure: no I/O, no operating system, no unsafe code.
#![forbid(unsafe_code)]

pub mod catalogue;
pub mod litmus;
pub mod machine;
pub mod model;
pub mod outcome;
pub mod program;
