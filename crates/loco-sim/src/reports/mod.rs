//! What an exploration found, and how much it has seen.

pub(crate) mod schedule;
pub(crate) mod trace;

use std::fmt;

use explorer::Bounds;
use serde::Serialize;

use crate::Faults;
use crate::fabric::request::Kind;
use crate::reports::schedule::Schedule;
use crate::reports::trace::TraceStep;
use crate::state::{Common, Move, State, Status};
use crate::world::history::{ThreadHistory, histories};

/// Steps of a trace that a report prints.
const SHOWN_MAX: usize = 40;

/// How much of the behaviours an exploration has seen. Never claims more than that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Completeness {
    /// Every behaviour of the world under the model.
    Complete,
    /// Every behaviour of the world whose executions stay within these bounds; there are others beyond them.
    UpTo(Bounds),
    /// So many random schedules.
    Random(u64),
    /// The search ended at a limit; the reason.
    Incomplete(String),
    /// The search ended because it found what it looked for.
    Stopped,
}

/// Counters of an exploration.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Stats {
    /// Distinct states with a choice, or final, in the last pass.
    pub states: u64,
    /// Distinct final states in the last pass; executions for random strategies.
    pub executions: u64,
    /// Moves taken, all passes.
    pub transitions: u64,
    /// Longest execution, moves.
    pub depth_max: u64,
    /// Times that the world's threads were started afresh.
    pub runs: u64,
    /// Searches until nothing new about conflicts was learned.
    pub passes: u64,
    /// Distinct pasts of threads.
    pub pasts: u64,
    /// Wall-clock seconds.
    pub seconds: f64,
}

/// The result of an exploration.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// How much was seen, of executions with at most these faults.
    pub completeness: Completeness,
    /// What could go wrong in each execution.
    pub faults: Faults,
    /// The first failure, if there was one.
    pub failure: Option<Failure>,
    /// Counters.
    pub stats: Stats,
}

impl Report {
    /// What was seen, in words, with its bounds: "complete for at most 1 crash".
    pub fn seen(&self) -> String {
        match self.faults.timed() || self.faults.lossy() {
            true => format!("{} for at most {}", self.completeness, self.faults),
            false => self.completeness.to_string(),
        }
    }
}

/// What went wrong in an execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum FailureKind {
    /// A thread panicked.
    Assertion {
        /// Its number.
        thread: u16,
        /// The message and the place.
        message: String,
    },
    /// A check of the complete execution panicked.
    End {
        /// The message and the place.
        message: String,
    },
    /// Threads wait for ever.
    Deadlock,
    /// Not a failure: the end that was looked for ([`reaches`](crate::reaches)).
    Reached,
}

/// A failing execution.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// What went wrong.
    pub kind: FailureKind,
    /// Threads that had not finished, with what they waited for.
    pub waiting: Vec<String>,
    /// What the threads had recorded.
    #[serde(skip)]
    pub histories: Vec<ThreadHistory>,
    /// The schedule, for [`replay`](crate::replay), shortened: after its moves, every first enabled one.
    pub schedule: Schedule,
    /// What happened, step by step.
    pub trace: Vec<TraceStep>,
    /// What was issued and had not taken effect when it failed.
    pub outstanding: Vec<String>,
}

impl Failure {
    pub(crate) fn new(common: &Common, state: &State, schedule: Vec<Move>, kind: FailureKind) -> Failure {
        let waiting = (0..state.threads.len() as u16)
            .filter(|&t| {
                let status = state.threads[usize::from(t)].status;
                state.info(t).kind == Kind::Worker && matches!(status, Status::Parked | Status::Ready)
            })
            .map(|t| {
                let (info, thread) = (state.info(t), &state.threads[usize::from(t)]);
                match &thread.wait {
                    Some(wait) => {
                        format!(
                            "{} on node {} waits for {}",
                            info.name,
                            info.node,
                            wait.what(common)
                        )
                    }
                    None => {
                        let request = common.behaviour.request(thread.past);
                        format!("{} on node {} is blocked at {request:?}", info.name, info.node)
                    }
                }
            })
            .collect();
        Failure {
            kind,
            waiting,
            histories: histories(common, state),
            schedule: Schedule::new(schedule),
            trace: Vec::new(),
            outstanding: Vec::new(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            FailureKind::Assertion { thread, message } => writeln!(f, "thread {thread} panicked: {message}")?,
            FailureKind::End { message } => writeln!(f, "the check of the end failed: {message}")?,
            FailureKind::Deadlock => writeln!(f, "deadlock: no thread can go on")?,
            FailureKind::Reached => writeln!(f, "reached")?,
        }
        for line in &self.waiting {
            writeln!(f, "  {line}")?;
        }
        for history in &self.histories {
            write!(f, "{history}")?;
        }
        let weak = self.trace.iter().position(|step| step.weak.is_some());
        if let Some(first) = weak {
            writeln!(f, "from the first weak step on:")?;
            for step in self.trace.iter().skip(first).take(SHOWN_MAX) {
                writeln!(f, "  {step}")?;
            }
            if self.trace.len() - first > SHOWN_MAX {
                writeln!(f, "  ... {} more steps", self.trace.len() - first - SHOWN_MAX)?;
            }
        } else if !self.trace.is_empty() {
            let left_out = self.trace.len().saturating_sub(SHOWN_MAX);
            match left_out {
                0 => writeln!(f, "no step was weak, the order of the steps alone does it:")?,
                n => writeln!(
                    f,
                    "no step was weak, the order of the steps alone does it; {n} steps, then:"
                )?,
            }
            for step in &self.trace[left_out..] {
                writeln!(f, "  {step}")?;
            }
        }
        if !self.outstanding.is_empty() {
            writeln!(f, "outstanding at the end:")?;
            for line in &self.outstanding {
                writeln!(f, "  {line}")?;
            }
        }
        write!(f, "replay: {}", self.schedule)
    }
}

impl fmt::Display for Completeness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Completeness::Complete => write!(f, "complete"),
            Completeness::UpTo(bounds) => write!(f, "complete up to {bounds}"),
            Completeness::Random(n) => write!(f, "{n} random schedules"),
            Completeness::Incomplete(why) => write!(f, "incomplete: {why}"),
            Completeness::Stopped => write!(f, "stopped at the first finding"),
        }
    }
}
