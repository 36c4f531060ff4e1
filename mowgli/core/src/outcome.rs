//! Final states of a program, whether a search found all of them, and the limits of searches.
//!
//! Both engines answer in these types, so that their answers can be compared.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use explorer::Limits;
pub use explorer::MemoryLimit;
use serde::{Deserialize, Serialize};

use crate::counted::counted;
use crate::program::Value;

/// A final state: every thread has finished and every buffer has drained.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Outcome {
    /// `registers[t][r]`: final value of register `r` of thread `t`.
    pub registers: Vec<Vec<Value>>,
    /// `memory[l]`: final value of location `l` (the last write in modification order).
    pub memory: Vec<Value>,
}

/// The completeness of a search. An outcome that an incomplete search did not find may still be possible (verdict *Unknown*).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Completeness {
    /// Every execution was considered.
    Complete,
    /// The search stopped at a limit.
    Incomplete(Limit),
}

impl Completeness {
    /// Returns the limit at which the search stopped, if it did.
    pub fn limit(&self) -> Option<&Limit> {
        match self {
            Completeness::Complete => None,
            Completeness::Incomplete(limit) => Some(limit),
        }
    }
}

/// The limit at which a search stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Limit {
    /// The deadline passed.
    Time,
    /// So many states or candidate executions were considered.
    States(u64),
    /// A loop of this thread needs more iterations than its bound, and is not decided without it.
    LoopBound {
        /// Thread index.
        thread: usize,
        /// The bound written in the program.
        bound: u32,
        /// The place of the loop and why it may need more iterations than any bound, where that is known.
        at: Option<Endless>,
    },
    /// More than so many bytes of memory were in use.
    Memory(u64),
    /// The caller asked to stop.
    Cancelled,
    /// The program is larger than the engine accepts. The text names the bound.
    TooLarge(String),
    /// The question is not defined for this program under this model. The text says what is not.
    Undefined(String),
    /// So many cycles of forbidden executions were refuted and are left out, since no execution was found to show them in.
    Unshown(u64),
}

/// A loop that may need more iterations than any bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Endless {
    /// The instruction of its thread that is the loop, or contains it, counted from 0.
    pub instruction: usize,
    /// The part of the state that may grow.
    pub growth: Growth,
}

/// The part of the state that may grow with every iteration of a loop, so that the loop is not decided whatever its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Growth {
    /// Stores and operations that have not taken effect.
    Operations,
    /// The values of registers.
    Registers,
    /// The states of the program, which are more than were visited.
    States,
    /// The iterations themselves: the model file does not permit to leave any out ([`crate::cat::ModelFile::leaves_out_iterations`]).
    Model,
}

impl fmt::Display for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Growth::Operations => "each may leave one more store or operation that has not taken effect",
            Growth::Registers => "each may leave other values in its registers",
            Growth::States => "its states are too many to visit them all",
            Growth::Model => "under this model an iteration may have an effect though it changes nothing",
        })
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::Time => write!(f, "time limit reached"),
            Limit::States(n) => write!(f, "limit of {} reached", counted(*n, "state")),
            Limit::LoopBound { thread, bound, at } => {
                let iterations = counted(*bound, "iteration");
                write!(f, "a loop of thread {thread} needs more than {iterations}")?;
                match at {
                    Some(Endless { instruction, growth }) => {
                        write!(
                            f,
                            ", and {growth} (it is in instruction {} of the thread)",
                            instruction + 1
                        )
                    }
                    None => Ok(()),
                }
            }
            Limit::Memory(bytes) => write!(f, "memory limit of {} reached", binary_size(*bytes)),
            Limit::Cancelled => write!(f, "cancelled"),
            Limit::TooLarge(what) => write!(f, "program too large: {what}"),
            Limit::Undefined(what) => f.write_str(what),
            Limit::Unshown(n) => {
                let execution = if *n == 1 {
                    "is left out, as no execution of it"
                } else {
                    "are left out, as no execution of them"
                };
                write!(
                    f,
                    "{} {execution} was found within the limit of tries",
                    counted(*n, "cycle")
                )
            }
        }
    }
}

impl Limit {
    /// Says what a user can do to get an answer, in words that follow the limit's own.
    pub fn remedy(&self) -> &'static str {
        match self {
            Limit::Time => "give it more time, as in `--limit time=10m`",
            Limit::States(_) => "allow more, as in `--limit states=10000000`",
            Limit::LoopBound { .. } => "raise the loop's `bound`, or give the loop a way to end",
            Limit::Memory(_) => "allow more, as in `--limit memory=8G`",
            Limit::Cancelled => "ask again",
            Limit::TooLarge(_) => "ask about a smaller program",
            Limit::Undefined(_) => "ask under another model; `robust --exact` needs no conditions",
            Limit::Unshown(_) => "ask about a smaller program, or about one value of the outcome at a time",
        }
    }

    /// Returns the limit and its remedy, for an answer that is unknown because of it.
    pub fn advice(&self) -> String {
        format!("{self}: {}", self.remedy())
    }
}

impl From<explorer::Limit> for Limit {
    fn from(limit: explorer::Limit) -> Limit {
        match limit {
            explorer::Limit::Time => Limit::Time,
            explorer::Limit::States(n) => Limit::States(n),
            explorer::Limit::Depth(n) => Limit::TooLarge(format!("an execution has more than {n} steps")),
            explorer::Limit::Memory(bytes) => Limit::Memory(bytes),
            explorer::Limit::Cancelled => Limit::Cancelled,
        }
    }
}

/// Returns a number of bytes in the largest binary unit that gives a whole number: `512 MiB`.
fn binary_size(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let fits = |&&(shift, _): &&(u32, &str)| bytes >> shift > 0 && bytes.trailing_zeros() >= shift;
    match units.iter().find(fits) {
        Some((shift, unit)) => format!("{} {unit}", bytes >> shift),
        None => format!("{bytes} bytes"),
    }
}

/// The result of a search for the final states of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Search<O: Ord = Outcome> {
    /// Every final state that was reached, each possible under the model.
    pub outcomes: BTreeSet<O>,
    /// The completeness of the search that found them.
    pub completeness: Completeness,
    /// States (operational) or candidate executions (declarative) that were considered.
    pub states: u64,
}

impl<O: Ord> Search<O> {
    /// Makes the result of a search that was refused before it began.
    pub fn refused(limit: Limit) -> Search<O> {
        Search {
            outcomes: BTreeSet::new(),
            completeness: Completeness::Incomplete(limit),
            states: 0,
        }
    }

    /// Returns whether every execution was considered.
    pub fn is_complete(&self) -> bool {
        self.completeness == Completeness::Complete
    }
}

/// Limits of one search.
#[derive(Clone, Copy, Debug, Default)]
pub struct Budget<'a> {
    /// Stop at this instant.
    pub deadline: Option<Instant>,
    /// Stop after so many states (operational) or candidate executions (declarative).
    pub states_max: Option<u64>,
    /// Stop when this becomes true.
    pub cancel: Option<&'a AtomicBool>,
    /// Stop when too much memory is in use.
    pub memory: Option<MemoryLimit>,
}

impl Budget<'_> {
    /// Returns the limit that has been reached after `states` states, if any.
    pub fn exceeded(&self, states: u64) -> Option<Limit> {
        self.limits().exceeded(states).map(Limit::from)
    }

    pub(crate) fn limits(&self) -> Limits<'_> {
        Limits {
            deadline: self.deadline,
            states_max: self.states_max,
            cancel: self.cancel,
            memory: self.memory,
        }
    }
}
