//! Records histories of object calls and checks whether a sequential object explains them.
//!
//! A *history* is what the users of a shared object saw: for each call its arguments, its result, and the times of its
//! invocation and response. It is *linearizable* (Herlihy and Wing 1990) with respect to a sequential specification if
//! the calls can be put in an order that is legal for the specification and in which a call that responded before
//! another was invoked comes first. LOCO'25 promises this of the atomic variable, the shared queue and the key-value
//! store (sections 5.1.1 and 6, appendix C).
//!
//! The parts:
//!
//! - [`Recorder`] records a history in memory, and [`Journal`] in a file that survives the process. A [`Clock`]
//!   supplies the times: the host's monotonic clock for processes, a counter under a simulator.
//! - [`Spec`] says what the sequential object does; [`spec`] has the specifications of the usual objects.
//! - [`check`] searches for an order (Wing and Gong 1993, with the memoisation of Lowe 2017 and partitioning as
//!   in Horn and Kroening 2015), within [`Limits`], and returns a [`Report`]: per partition *ok* with the order,
//!   *violation*, or *unknown* with the longest order found.
//! - [`Report::text`] explains the first bad window, and [`Report::html`] draws the history as a page.
//!
//! This crate depends on no fabric and on no object. It is used by tests of `loco`, by the model fabric, and by users
//! for their own objects.
//!
//! # Example
//!
//! Two threads use a register. The second read misses a write that was over before the read began:
//!
//! ```
//! use loco_history::spec::{Register, RegisterCall::*, RegisterRet::*};
//! use loco_history::{History, Limits, LogicalClock, Recorder, ThreadId, Verdict, check};
//!
//! let clock = LogicalClock::default();
//! let mut writer = Recorder::new(ThreadId { node: 0, thread: 0 }, clock.clone());
//! let mut reader = Recorder::new(ThreadId { node: 1, thread: 0 }, clock);
//!
//! let read = reader.invoke(Read); // overlaps the write: may see it or not
//! let write = writer.invoke(Write(7));
//! reader.respond(read, Value(7));
//! writer.respond(write, Written);
//! let read = reader.invoke(Read);
//! reader.respond(read, Value(0)); // stale
//!
//! let history = History::merge([writer.finish(), reader.finish()]);
//! let spec = Register::new(0);
//! let report = check(&spec, &history, &Limits::default());
//! assert_eq!(report.verdict(), Verdict::Violation);
//! println!("{}", report.text());
//! ```
#![forbid(unsafe_code)]

mod clock;
mod error;
mod history;
mod html;
mod journal;
mod limits;
mod recorder;
mod report;
mod search;
pub mod spec;

pub use clock::{Clock, LogicalClock, MonotonicClock};
pub use error::{HistoryError, Result};
pub use history::{History, Operation, Response, ThreadId};
pub use journal::{Journal, read_journal};
pub use limits::{Exhausted, Limits, Stats};
pub use recorder::{Invocation, Recorder};
pub use report::{Blocked, Outcome, Partition, Report, Verdict};
pub use search::check;
pub use spec::Spec;
