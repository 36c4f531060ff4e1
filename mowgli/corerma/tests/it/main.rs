//! The tests of coreRMA: the language, its catalogue, both evaluations and the generator. They are one program, because compiling and
//! linking one for each file takes longer than running them.
#![allow(clippy::unwrap_used)] // Helpers of tests are tests.

mod catalogue;
mod common;
mod differential;
mod distinguish;
mod explain;
mod generate;
mod language;
mod naive;
mod sequential;
mod switches;
