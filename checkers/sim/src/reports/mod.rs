//! The results of an exploration, and how much of the behaviours it has seen.

pub(crate) mod schedule;
pub(crate) mod trace;

use std::fmt;

use explorer::{Bounds, Estimate};
use mowgli::counted::counted;
use mowgli::model::Tier;
use serde::Serialize;

use crate::Faults;
use crate::fabric::FabricKind;
use crate::fabric::request::{ModelThreadKind, Request};
use crate::reports::schedule::Schedule;
use crate::reports::trace::{Said, TraceStep};
use crate::state::{Common, State, Status};
use crate::world::history::{ThreadHistory, histories};

/// Steps of a trace that a report prints.
const SHOWN_MAX: usize = 40;

/// The part of the behaviours that an exploration has seen. It never claims more than that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Completeness {
    /// The exploration has seen every behaviour of the world under the model.
    Complete,
    /// The exploration has seen every behaviour whose execution stays within these bounds. There are others
    /// beyond them.
    UpTo(Bounds),
    /// The exploration has seen so many random schedules.
    Random(u64),
    /// The exploration has seen the execution of one schedule, which was given.
    Replayed,
    /// The search ended at a limit. The text gives the reason.
    Incomplete(String),
    /// The search ended because it found what it looked for.
    Stopped,
}

/// Counters of an exploration.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Stats {
    /// Distinct states in the last pass that have a choice or are final.
    pub states: u64,
    /// Distinct final states in the last pass; for random strategies, executions.
    pub executions: u64,
    /// Moves taken in all passes.
    pub transitions: u64,
    /// The number of moves of the longest execution.
    pub depth_max: u64,
    /// The number of times that the world's threads were started afresh.
    pub runs: u64,
    /// The number of searches until one learned nothing new about conflicts.
    pub passes: u64,
    /// The number of distinct pasts of threads.
    pub pasts: u64,
    /// Wall-clock seconds.
    pub seconds: f64,
}

/// The result of an exploration.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The part that was seen of the executions that have at most the faults of [`Report::faults`].
    pub completeness: Completeness,
    /// The fabric.
    pub fabric: FabricKind,
    /// The order of its network. A fabric that [has no tiers](FabricKind::has_tiers) orders as this tier does at least.
    pub tier: Tier,
    /// The faults that each execution could have.
    pub faults: Faults,
    /// The first failure, if there was one.
    pub failure: Option<Failure>,
    /// The estimated size of an exhaustive exploration that a limit has ended ([`Config::estimates`](crate::Config::estimates)).
    pub estimate: Option<Estimate>,
    /// Counters.
    pub stats: Stats,
}

impl Report {
    /// Describes what was seen, with its bounds and its network: "complete for at most 1 crash, on tier unordered".
    pub fn seen(&self) -> String {
        let faults = match self.faults.any() {
            true => format!(" for at most {}", self.faults),
            false => String::new(),
        };
        format!("{}{faults}, on {}", self.completeness, self.fabric.on(self.tier))
    }
}

/// The way in which an execution failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum FailureKind {
    /// A thread panicked.
    Assertion {
        /// The thread's number.
        thread: u16,
        /// The message and the place.
        message: String,
    },
    /// A check of the complete execution panicked.
    End {
        /// The message and the place.
        message: String,
    },
    /// Some threads wait for ever.
    Deadlock,
    /// The execution is longer than any should be: some thread goes on without end, and without waiting.
    Endless {
        /// The number of steps after which it was given up.
        steps: usize,
        /// A description of the thread that makes the same requests again and again: its number and name, the place in the
        /// program, and the remedy. `None` if no such thread was found.
        polls: Option<String>,
    },
    /// Some threads go on for ever without an end of what they do, though every thread, every store buffer and every queue pair
    /// that can move does ([`liveness`](crate::liveness)).
    Livelock {
        /// The number of moves of the round that goes on for ever.
        moves: usize,
    },
    /// The execution has the end that was looked for ([`reaches`](crate::reaches)). This is not a failure.
    Reached,
}

/// A failing execution.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// The way in which the execution failed.
    pub kind: FailureKind,
    /// The workers that had not finished, with the conditions that they waited for.
    pub waiting: Vec<String>,
    /// The histories that the threads had recorded.
    #[serde(skip)]
    pub histories: Vec<ThreadHistory>,
    /// The shortened schedule, for [`replay`](crate::replay). After its moves, the first enabled move is
    /// taken every time. The schedule of a livelock has the round at its end, which goes on for ever.
    pub schedule: Schedule,
    /// The steps of the execution in words. Those of a livelock end where its round begins.
    pub trace: Vec<TraceStep>,
    /// The steps of a livelock's round in words.
    pub round: Vec<TraceStep>,
    /// The operations that were issued and had not taken effect when the execution failed.
    pub outstanding: Vec<String>,
}

impl Failure {
    pub(crate) fn new(common: &Common, state: &State, schedule: Schedule, kind: FailureKind) -> Failure {
        let waiting = (0..state.threads.len() as u16)
            .filter(|&t| {
                let status = state.threads[usize::from(t)].status;
                state.info(t).kind == ModelThreadKind::Worker
                    && matches!(status, Status::Parked | Status::Ready)
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
                        let does = match common.behaviour.request(thread.past) {
                            Some(Request::Lock { lock, .. }) => match state.holder(common, *lock) {
                                Some(holder) => format!(
                                    "waits for a lock that P{holder} ({}) holds",
                                    state.info(holder).name
                                ),
                                None => "takes a lock".to_owned(),
                            },
                            Some(request) => {
                                let at = match kind {
                                    FailureKind::Endless { .. } | FailureKind::Livelock { .. } => {
                                        "goes on with:"
                                    }
                                    _ => "is where it",
                                };
                                format!("{at} {}", Said(common, request))
                            }
                            None => "has not begun".to_owned(),
                        };
                        format!("{} on node {} {does}", info.name, info.node)
                    }
                }
            })
            .collect();
        Failure {
            kind,
            waiting,
            histories: histories(common, state),
            schedule,
            trace: Vec::new(),
            round: Vec::new(),
            outstanding: Vec::new(),
        }
    }
}

impl Failure {
    /// Returns the way in which the execution failed, in words, without its histories and its trace.
    pub fn summary(&self) -> String {
        Summary(self).to_string()
    }
}

struct Summary<'a>(&'a Failure);

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary(failure) = self;
        match &failure.kind {
            FailureKind::Assertion { thread, message } => writeln!(f, "thread {thread} panicked: {message}")?,
            FailureKind::End { message } => writeln!(f, "the check of the end failed: {message}")?,
            FailureKind::Deadlock => writeln!(f, "deadlock: no thread can go on")?,
            FailureKind::Endless { steps, polls } => {
                let polls = polls.as_deref().unwrap_or("some thread goes on without waiting");
                writeln!(f, "no end after {steps} steps: {polls}")?;
            }
            FailureKind::Livelock { moves } => writeln!(
                f,
                "livelock: a round of {} goes on for ever, in which everybody moves who can",
                counted(*moves as u64, "move")
            )?,
            FailureKind::Reached => writeln!(f, "reached")?,
        }
        for line in &failure.waiting {
            writeln!(f, "  {line}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Summary(self))?;
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
        if !self.round.is_empty() {
            writeln!(f, "then, again and again:")?;
            for step in self.round.iter().take(SHOWN_MAX) {
                writeln!(f, "  {step}")?;
            }
            if self.round.len() > SHOWN_MAX {
                writeln!(f, "  ... {} more steps", self.round.len() - SHOWN_MAX)?;
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
            Completeness::Random(n) => f.write_str(&counted(*n, "random schedule")),
            Completeness::Replayed => write!(f, "one schedule replayed"),
            Completeness::Incomplete(why) => write!(f, "incomplete: {why}"),
            Completeness::Stopped => write!(f, "stopped at the first finding"),
        }
    }
}
