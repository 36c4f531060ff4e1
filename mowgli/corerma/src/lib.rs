//! coreRMA, the memory model of remote memory access of coreRMA'16: programs, rules, outcomes, and every test up to a size.
//!
//! Statements consist of [`action`]s. The [`rules`] order them, an [`execution`] chooses what the rules leave open, and
//! [`values`] follow. The crate is pure: no I/O, no operating system, no unsafe code. It relies on `mowgli` for the parts of
//! programs and texts that the models of RDMA share. Used by the command `mowgli`.
#![forbid(unsafe_code)]

pub mod action;
pub mod catalogue;
pub mod closure;
pub mod common;
pub mod execution;
pub mod explain;
pub mod generate;
pub mod litmus;
pub mod outcome;
pub mod program;
pub mod rules;
pub mod switches;
pub mod value;
pub mod values;
