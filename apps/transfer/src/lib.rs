//! Transactional locking (LOCO'26 B.1, LOCO'25 7.1): transfers between accounts on several nodes, each under the locks
//! of both.
//!
//! - [`Bank`]: the accounts, the locks, and one transfer;
//! - [`run`]: transfers by several threads for a while, after which the total is checked;
//! - [`command`]: the options of the command.
//!
//! The accounts are atomic variables striped over the nodes. The locks are an array of ticket locks, also
//! striped, each for many accounts. A transfer takes its two locks in ascending order, so that no two
//! transfers wait for each other.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod bank;
pub mod command;
mod error;
mod run;

pub use bank::{Bank, BankConfig, Transfer};
pub use error::{Result, TransferError};
pub use run::{Outcome, Plan, run};
