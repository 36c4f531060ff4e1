//! The declarative engine: finds the outcomes that have a consistent execution.
//!
//! [`unfold`] turns every thread into its paths; for each choice of paths the search looks for reads-from, modification
//! order, flush order and order of atomics that the model's data ([`Spec`]) allows, and [`witness`] returns one execution
//! graph for a given outcome. Polls-from is fixed by program order (RDMA-TSO'24 Def. 4.3 (1): the oldest completion that
//! has not been polled), so it needs no search. [`reference`](mod@reference) enumerates executions plainly and asks the predicates of [`crate::models`]: slow, and
//! the yardstick for the search. Used by the command, by tests, and by [`crate::explain`].

pub mod reference;
pub mod sym;
pub mod unfold;

mod cycles;
pub(crate) mod graph;
pub(crate) mod order;
pub(crate) mod problem;
mod search;

use crate::event::Execution;
use crate::litmus::Operand;
use crate::model::{Model, RmwAtomicity};
use crate::models::Spec;
use crate::outcome::{Budget, Completeness, Limit, Outcome, Search};
use crate::program::Program;

use cycles::Reach;
use graph::Solution;
use problem::{Condition, Problem, Wanted};
use search::{Detail, Goal, Known};
use unfold::{End, Path, Repeats};

/// Finds every outcome that the model allows.
///
/// `tso` is defined for programs without remote operations and refuses others with [`Limit::TooLarge`]; `sc` orders remote operations
/// too (Robust'25 Def. 5). The answer is exact when the search is complete. `states` counts the partial executions
/// considered.
pub fn outcomes(program: &Program, model: Model, atomicity: RmwAtomicity, budget: &Budget<'_>) -> Search {
    outcomes_under(program, &Spec::of(model, atomicity), budget)
}

/// Finds every outcome that a model allows. The model is given as data and may have been changed.
pub fn outcomes_under(program: &Program, spec: &Spec, budget: &Budget<'_>) -> Search {
    run(program, spec, Detail::Relevant, Known::default(), budget)
}

/// Finds the combinations of values that `operands` can have at the end, and one outcome for each.
///
/// Nothing is enumerated on which the operands do not depend, so this decides a condition in a small part of the time that
/// [`outcomes`] takes. Pass [`Formula::operands`](crate::litmus::Formula::operands) of the condition.
pub fn outcomes_of(program: &Program, spec: &Spec, operands: &[Operand], budget: &Budget<'_>) -> Search {
    run(program, spec, Detail::Relevant, Known::by(operands), budget)
}

/// Finds the outcomes of [`outcomes_under`], but decides every read and all of modification order, also where they do not matter to
/// the outcome. A changed model in which a read may have no source needs this. It is slower, and tests compare the two.
pub fn outcomes_exhaustive(program: &Program, spec: &Spec, budget: &Budget<'_>) -> Search {
    run(program, spec, Detail::Everything, Known::default(), budget)
}

/// Finds a consistent execution that ends in `outcome`; `None` if there is none.
///
/// # Errors
/// Returns the limit at which the search stopped without an answer.
pub fn witness(
    program: &Program,
    model: Model,
    atomicity: RmwAtomicity,
    outcome: &Outcome,
    budget: &Budget<'_>,
) -> Result<Option<Execution>, Limit> {
    let spec = Spec::of(model, atomicity);
    let threads = unfold_all(program, &spec, Repeats::Outcomes, budget)?;
    let mut states = 0;
    for choice in Choices::new(&threads, |end| end == End::Complete) {
        let mut problem = Problem::new(program, &spec, &choice);
        for (thread, path) in choice.iter().enumerate() {
            let values = &outcome.registers[thread];
            let wanted = path.registers.iter().zip(values);
            problem.conditions.extend(wanted.map(|(sym, &value)| Condition {
                thread,
                sym: sym.clone(),
                wanted: Wanted::Exactly(value),
            }));
        }
        let goal = Goal::Memory(&outcome.memory);
        if let Some(solution) = solve(&problem, goal, Detail::Relevant, budget, &mut states)? {
            return Ok(Some(graph::execution(&problem, &solution)));
        }
    }
    Ok(None)
}

/// Finds a consistent execution that is not sequentially consistent (Robust'25 Def. 5); `None` if there is none. For models in which
/// `ob` contains `mo` and only the CPU forwards, which are those of [`crate::robust::MODELS`].
///
/// # Errors
/// Returns the limit at which the search stopped without an answer.
pub fn weak_execution(
    program: &Program,
    spec: &Spec,
    budget: &Budget<'_>,
) -> Result<Option<Execution>, Limit> {
    find_cycle(program, spec, Reach::Everywhere, budget)
}

/// Finds a consistent execution with a cycle of `po ∪ rf ∪ rb ∪ mo` that stays in one thread (Robust'25 Thm. 2, first case).
///
/// # Errors
/// Returns the limit at which the search stopped without an answer.
pub fn weak_execution_in_one_thread(
    program: &Program,
    spec: &Spec,
    budget: &Budget<'_>,
) -> Result<Option<Execution>, Limit> {
    find_cycle(program, spec, Reach::OneThread, budget)
}

fn find_cycle(
    program: &Program,
    spec: &Spec,
    reach: Reach,
    budget: &Budget<'_>,
) -> Result<Option<Execution>, Limit> {
    let threads = unfold_all(program, spec, Repeats::Cycles, budget)?;
    let mut states = 0;
    for choice in Choices::new(&threads, |end| end == End::Complete) {
        let mut problem = Problem::new(program, spec, &choice);
        let found = match problem.points {
            0..=64 => cycles::solve::<1>(&mut problem, reach, budget, &mut states),
            65..=128 => cycles::solve::<2>(&mut problem, reach, budget, &mut states),
            129..=256 => cycles::solve::<4>(&mut problem, reach, budget, &mut states),
            257..=POINTS_MAX => cycles::solve::<8>(&mut problem, reach, budget, &mut states),
            points => Err(too_large(points)),
        }?;
        if let Some(solution) = found {
            return Ok(Some(graph::execution(&problem, &solution)));
        }
    }
    match exceeded_loop(program, spec, &threads, budget, &mut states)? {
        Completeness::Complete => Ok(None),
        Completeness::Incomplete(limit) => Err(limit),
    }
}

fn run(program: &Program, spec: &Spec, detail: Detail, mut known: Known, budget: &Budget<'_>) -> Search {
    let mut states = 0;
    let result = search_all(program, spec, detail, budget, &mut known, &mut states);
    Search {
        outcomes: known.outcomes,
        completeness: match result {
            Ok(completeness) => completeness,
            Err(limit) => Completeness::Incomplete(limit),
        },
        states,
    }
}

fn search_all(
    program: &Program,
    spec: &Spec,
    detail: Detail,
    budget: &Budget<'_>,
    known: &mut Known,
    states: &mut u64,
) -> Result<Completeness, Limit> {
    let threads = unfold_all(program, spec, Repeats::Outcomes, budget)?;
    for choice in Choices::new(&threads, |end| end == End::Complete) {
        let problem = Problem::new(program, spec, &choice);
        solve(&problem, Goal::Outcomes(known), detail, budget, states)?;
    }
    exceeded_loop(program, spec, &threads, budget, states)
}

/// Looks for an exceeded loop, as [`loop_beyond_bound`] does, by this module's search.
pub(crate) fn exceeded_loop(
    program: &Program,
    spec: &Spec,
    threads: &[Vec<Path>],
    budget: &Budget<'_>,
    states: &mut u64,
) -> Result<Completeness, Limit> {
    loop_beyond_bound(program, spec, threads, |problem| {
        let found = solve(problem, Goal::Any, Detail::Relevant, budget, states)?;
        Ok(found.is_some())
    })
}

/// Looks for a loop that can need more iterations than its bound. The stuck paths of other threads count too, because
/// with more iterations this thread might free them. `has_execution` says whether a choice of paths has one.
pub(crate) fn loop_beyond_bound<E>(
    program: &Program,
    spec: &Spec,
    threads: &[Vec<Path>],
    mut has_execution: impl FnMut(&Problem<'_>) -> Result<bool, E>,
) -> Result<Completeness, E> {
    for (thread, paths) in threads.iter().enumerate() {
        for path in paths {
            let Some(limit) = path.end.limit(thread) else {
                continue;
            };
            let mut threads = threads.to_vec();
            threads[thread] = vec![path.clone()];
            for choice in Choices::new(&threads, |_| true) {
                if has_execution(&Problem::new(program, spec, &choice))? {
                    return Ok(Completeness::Incomplete(limit));
                }
            }
        }
    }
    Ok(Completeness::Complete)
}

/// Runs the search on rows of the least width that has room for all points.
fn solve(
    problem: &Problem<'_>,
    goal: Goal<'_>,
    detail: Detail,
    budget: &Budget<'_>,
    states: &mut u64,
) -> Result<Option<Solution>, Limit> {
    match problem.points {
        0..=64 => search::solve::<1>(problem, goal, detail, budget, states),
        65..=128 => search::solve::<2>(problem, goal, detail, budget, states),
        129..=256 => search::solve::<4>(problem, goal, detail, budget, states),
        257..=POINTS_MAX => search::solve::<8>(problem, goal, detail, budget, states),
        points => Err(too_large(points)),
    }
}

fn too_large(points: usize) -> Limit {
    Limit::TooLarge(format!("{points} points in time, at most {POINTS_MAX}"))
}

/// Most points in time of one execution. An event has one point, a buffered write two.
pub const POINTS_MAX: usize = 512;

pub(crate) fn unfold_all(
    program: &Program,
    spec: &Spec,
    repeats: Repeats,
    budget: &Budget<'_>,
) -> Result<Vec<Vec<Path>>, Limit> {
    if spec.model == Model::Tso && program.has_remote_operations() {
        return Err(Limit::Undefined("tso has no remote operations".to_owned()));
    }
    unfold::all(program, spec, repeats, budget)
}

/// Iterates over the ways to choose one path for each thread among the paths whose end is wanted.
pub(crate) struct Choices<'p> {
    threads: Vec<Vec<&'p Path>>,
    /// Index of the next choice in each thread; `None` when done.
    next: Option<Vec<usize>>,
}

impl<'p> Choices<'p> {
    pub(crate) fn new(threads: &'p [Vec<Path>], wanted: impl Fn(End) -> bool) -> Choices<'p> {
        let threads: Vec<Vec<&Path>> = threads
            .iter()
            .map(|paths| paths.iter().filter(|p| wanted(p.end)).collect())
            .collect();
        let possible = threads.iter().all(|paths: &Vec<&Path>| !paths.is_empty());
        Choices {
            next: possible.then(|| vec![0; threads.len()]),
            threads,
        }
    }
}

impl<'p> Iterator for Choices<'p> {
    type Item = Vec<&'p Path>;

    fn next(&mut self) -> Option<Vec<&'p Path>> {
        let index = self.next.as_mut()?;
        let choice = index
            .iter()
            .zip(&self.threads)
            .map(|(&i, paths)| paths[i])
            .collect();
        let advanced = index.iter_mut().zip(&self.threads).rev().any(|(i, paths)| {
            *i += 1;
            if *i == paths.len() {
                *i = 0;
                return false;
            }
            true
        });
        if !advanced {
            self.next = None;
        }
        Some(choice)
    }
}
