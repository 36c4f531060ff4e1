//! The operational engine: finds every outcome of a program by exploring the states of the machine that runs
//! it.
//!
//! Relies on [`crate::machine`]. [`outcomes`] visits each state once, on a persistent subset of its moves
//! (`reduce`). States are known by a 128-bit hash (XXH3) of their canonical encoding. Two different states
//! share a hash with a probability below `n² / 2^129` for `n` states, under 10^-20 for a thousand million.
//! [`trace()`] finds a shortest way to an outcome, step by step; a [`Stepper`] takes one step after the other as its caller says.
//!
//! Loops run as often as they will, whatever their bounds: an endless wait is a circle of states. Where the states have no end, loops run
//! up to their bounds, and a budget stops the search. Either makes the answer incomplete, never wrong.

mod access;
mod code;
mod ops;
mod reduce;
mod search;
mod state;
mod stepper;
mod trace;

pub use stepper::{Enabled, End, NoSuchStep, Position, Stepper};
pub use trace::{Actor, TraceStep};

use code::Loops;

use crate::machine::Config;
use crate::model::{Model, RmwAtomicity};
use crate::outcome::{Budget, Completeness, Limit, Outcome, Search};
use crate::program::Program;

/// The options of a search.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The machine.
    pub machine: Config,
    /// True if partial-order reduction is used. When off, the states of every interleaving are visited, which
    /// checks the reduction.
    pub reduction: bool,
    /// The largest number of threads to search with. More than one is used only when a search proves large.
    pub workers: usize,
}

impl Options {
    /// Returns the machine of a model, with reduction, on all cores.
    pub fn new(model: Model, atomicity: RmwAtomicity) -> Options {
        Options {
            machine: Config::new(model, atomicity),
            reduction: true,
            workers: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// Returns every outcome of the program on the model's machine (simplified pipeline).
///
/// `sc` runs remote operations in program order (Robust'25 Def. 5). `tso` has no remote operations and
/// refuses programs with them. `wait` and `poll` work in every model.
pub fn outcomes(program: &Program, model: Model, atomicity: RmwAtomicity, budget: &Budget<'_>) -> Search {
    match accepts(program, model) {
        Ok(()) => outcomes_with(program, &Options::new(model, atomicity), budget),
        Err(limit) => Search::refused(limit),
    }
}

/// Returns every outcome of the program on a machine.
///
/// Loops run as often as they will. If that has no end, loops run up to their bounds once more, and the limit names the loop.
pub fn outcomes_with(program: &Program, options: &Options, budget: &Budget<'_>) -> Search {
    if !program.has_loops() {
        return outcomes_within_bounds(program, options, budget);
    }
    let whole = outcomes_without_bounds(program, options, budget);
    let why = match &whole.completeness {
        Completeness::Incomplete(Limit::LoopBound { .. }) => whole.completeness.clone(),
        Completeness::Incomplete(Limit::States(n)) if budget.states_max != Some(*n) => Completeness::Complete,
        _ => return whole,
    };
    let mut bounded = outcomes_within_bounds(program, options, budget);
    bounded.states += whole.states;
    bounded.outcomes.extend(whole.outcomes);
    if let (Completeness::Incomplete(Limit::LoopBound { .. }), Completeness::Incomplete(_)) =
        (&bounded.completeness, &why)
    {
        bounded.completeness = why;
    }
    bounded
}

/// Returns every outcome of the program on a machine, with loops up to their bounds.
pub fn outcomes_within_bounds(program: &Program, options: &Options, budget: &Budget<'_>) -> Search {
    search_with(program, Loops::Bounded, options, budget)
}

/// Returns every outcome of the program on a machine. Loops run as often as they will, whatever their bounds.
///
/// Each state is visited once, so an endless wait is a circle of states and no limit. The search stops, with a limit that names the loop,
/// where operations or iterations without end pile up, and also after [`ENDLESS_STATES_MAX`] states.
pub fn outcomes_without_bounds(program: &Program, options: &Options, budget: &Budget<'_>) -> Search {
    let most = budget
        .states_max
        .map_or(ENDLESS_STATES_MAX, |max| max.min(ENDLESS_STATES_MAX));
    let budget = Budget {
        states_max: Some(most),
        ..*budget
    };
    search_with(program, Loops::Endless, options, &budget)
}

/// The most states that are visited without the bounds of loops.
pub const ENDLESS_STATES_MAX: u64 = 1 << 20;

fn search_with(program: &Program, loops: Loops, options: &Options, budget: &Budget<'_>) -> Search {
    match code::compile(program, loops) {
        Ok(codes) => search::search(program, &codes, loops, options, budget),
        Err(what) => Search::refused(Limit::TooLarge(what)),
    }
}

/// Returns a shortest trace of the model's machine to an outcome that `wanted` accepts; `None` if there is
/// none. Loops run as often as they will.
///
/// # Errors
/// Returns the limit at which the search stopped, if it stopped before it found a trace.
pub fn trace(
    program: &Program,
    model: Model,
    atomicity: RmwAtomicity,
    wanted: &dyn Fn(&Outcome) -> bool,
    budget: &Budget<'_>,
) -> Result<Option<Vec<TraceStep>>, Limit> {
    accepts(program, model)?;
    let config = Config::new(model, atomicity);
    let moves = trace::find(program, config, wanted, budget)?;
    let codes = code::compile(program, Loops::Free).map_err(Limit::TooLarge)?;
    Ok(moves.map(|moves| trace::replay(program, &codes, config, &moves)))
}

fn accepts(program: &Program, model: Model) -> Result<(), Limit> {
    if model == Model::Tso && program.has_remote_operations() {
        return Err(Limit::Undefined("tso has no remote operations".to_owned()));
    }
    Ok(())
}
