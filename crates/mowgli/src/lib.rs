//! Executable memory models for RDMA and the litmus tests that separate them.
//!
//! Pure: no I/O, no operating system, no unsafe code.
#![forbid(unsafe_code)]

pub mod catalogue;
pub mod check;
pub mod declarative;
pub mod event;
pub mod explain;
pub mod explore;
pub mod generate;
pub mod litmus;
pub mod machine;
pub mod model;
pub mod models;
pub mod outcome;
pub mod program;
pub mod relation;
pub mod report;
