//! Executable memory models for RDMA, and the litmus tests that separate them.
//!
//! [`litmus`] parses a test into a [`program`], on top of [`syntax`], the front end of every language here. Two engines find its outcomes: [`declarative`] filters candidate
//! executions by the axioms of a model in [`models`], and [`explore`] visits the states of the model's [`machine`].
//! [`check`] asks the engines, and [`report`] writes the answer. [`explain`] says why an outcome is allowed or
//! forbidden, and [`robust`] whether a program can behave as no sequentially consistent memory would. [`star`] turns
//! shared-memory programs into RDMA programs. The crate is pure: no I/O, no operating system, no unsafe code. Used by
//! the command `mowgli` and by `loco-sim`.
#![forbid(unsafe_code)]

pub mod cat;
pub mod catalogue;
pub mod check;
mod condition;
pub mod counted;
pub mod declarative;
pub mod event;
pub mod explain;
pub mod explore;
pub mod generate;
pub mod litmus;
mod loops;
pub mod machine;
pub mod model;
pub mod models;
pub mod outcome;
pub mod program;
pub mod relation;
pub mod report;
pub mod robust;
pub mod shard;
pub mod star;
pub mod syntax;

/// Makes [`Debug`] of an error print it as [`Display`](std::fmt::Display) does, because that is what the user sees of an error that
/// `main` returns.
#[macro_export]
macro_rules! debug_as_display {
    ($error:ty) => {
        impl ::core::fmt::Debug for $error {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Display::fmt(self, f)
            }
        }
    };
}
