//! Makes litmus tests: every program up to a size, the minimal tests of a rule of a model, and the tests that separate two models.
//!
//! [`enumerate`] lists the programs of a [`language`], each once up to symmetry ([`sketch`] has the canonical form).
//! [`condition`] finds the least conditions that a model forbids, [`minimal`] asks whether every instruction is needed, and [`theory`]
//! is what a model must offer: outcomes of a program, and rules that can be taken away. [`suite`] and [`distinguish`] put these
//! together, and [`faults`] measures which changes of a model a suite notices. The crate is pure and relies on `mowgli`. Used by the
//! command `mowgli`.
#![forbid(unsafe_code)]

mod complete;
pub mod condition;
pub mod distinguish;
pub mod enumerate;
pub mod faults;
pub mod file;
pub mod language;
pub mod minimal;
pub mod order;
pub mod sketch;
pub mod suite;
pub mod theory;
