//! Pre-executions, thread by thread: what a thread does is a *trace* (Robust'25 Def. 2 and the remark after it).
//!
//! A trace is a path of [`crate::declarative::unfold`] without values: events in program order and polls-from. A pre-execution is one
//! trace for each thread. The conditions of this module judge traces and combinations of traces; guaranteed-before depends on the
//! trace alone and is computed once for each.

use std::collections::HashSet;

use crate::declarative::unfold::{self, End, Path, Repeats};
use crate::event::{Event, Kind};
use crate::outcome::{Budget, Limit};
use crate::program::{Loc, Node, Program, WorkId};
use crate::relation::Relation;

use super::gb::Definition;

/// One way through a thread: its events in program order, without values.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The thread, an index into [`Program::threads`].
    pub thread: usize,
    /// The node of the thread.
    pub node: Node,
    /// Events in program order.
    pub events: Vec<Event>,
    /// `(write, poll)` pairs of polls-from, as indices into `events`.
    pub pf: Vec<(usize, usize)>,
    /// Guaranteed-before of the model (Def. 6, under TSO Def. 12), over the indices of `events`.
    pub gb: Relation,
    /// Guaranteed-before with a sequentially consistent CPU, which local data-race freedom uses under every model (appendix B.2).
    pub gb_local: Relation,
}

/// The traces of every thread. A pre-execution takes one trace from each.
#[derive(Clone, Debug)]
pub struct Traces {
    /// `threads[t]`: the traces of thread `t`, no two alike. Empty if the thread has none, and then the program has no pre-execution.
    pub threads: Vec<Vec<Trace>>,
    /// The thread and bound of a loop that may need more iterations than its bound.
    pub beyond: Option<Limit>,
}

impl Traces {
    /// Unfolds every thread and computes guaranteed-before by `definition`.
    ///
    /// # Errors
    /// Returns the limit that the unfolding exceeded.
    pub fn new(program: &Program, definition: &Definition, budget: &Budget<'_>) -> Result<Traces, Limit> {
        let local = definition.with_strong_cpu();
        let mut beyond = None;
        let mut threads = Vec::with_capacity(program.threads.len());
        for thread in 0..program.threads.len() {
            let (traces, limit) = Traces::of_thread(program, thread, definition, &local, budget)?;
            beyond = beyond.or(limit);
            threads.push(traces);
        }
        Ok(Traces { threads, beyond })
    }

    /// Unfolds one thread. `local` is the definition [with a strong CPU](Definition::with_strong_cpu). Returns its traces, and the
    /// bound of a loop that may need more iterations.
    pub(super) fn of_thread(
        program: &Program,
        thread: usize,
        definition: &Definition,
        local: &Definition,
        budget: &Budget<'_>,
    ) -> Result<(Vec<Trace>, Option<Limit>), Limit> {
        let (mut traces, mut beyond) = (Vec::new(), None);
        let mut seen = HashSet::new();
        for path in unfold::paths_with(program, thread, &definition.spec, Repeats::Pairs, budget)? {
            match path.end {
                End::LoopBound { .. } => beyond = beyond.or(path.end.limit(thread)),
                End::Stuck => {}
                End::Complete if seen.insert(shape(&path)) => {
                    traces.push(Trace::new(program, thread, path, definition, local));
                }
                End::Complete => {}
            }
        }
        Ok((traces, beyond))
    }

    /// Returns the number of pre-executions, at most `u64::MAX`.
    pub fn pre_executions(&self) -> u64 {
        self.threads.iter().fold(1u64, |product, traces| {
            product.saturating_mul(traces.len() as u64)
        })
    }
}

impl Trace {
    fn new(
        program: &Program,
        thread: usize,
        path: Path,
        definition: &Definition,
        local: &Definition,
    ) -> Trace {
        let (gb, gb_local) = definition.guaranteed_before_and(local, &path.events, &path.pf);
        Trace {
            thread,
            node: program.threads[thread].node,
            gb,
            gb_local,
            events: path.events,
            pf: path.pf,
        }
    }

    /// Returns every pair of program order, earlier event first.
    pub fn po(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..self.events.len()).flat_map(|later| (0..later).map(move |earlier| (earlier, later)))
    }
}

/// The attributes of an event that the conditions look at. Two paths with equal shapes have the same pre-executions.
type EventShape = (Kind, Option<Loc>, Option<Node>, Option<WorkId>, bool, bool, bool);

fn shape(path: &Path) -> (Vec<EventShape>, Vec<(usize, usize)>) {
    let mut previous = None;
    let events = path.events.iter().map(|e| {
        let continues = previous == Some(e.instance);
        previous = Some(e.instance);
        (e.kind, e.loc, e.peer, e.work, e.rmw, e.writes, continues)
    });
    (events.collect(), path.pf.clone())
}
