//! Asks whether every call of a world ends in every fair execution: whether threads that go on for ever, or wait for ever, leave
//! something undone although every thread, every store buffer and every queue pair that can move does.
//!
//! An exploration ([`crate::explore`]) takes every execution for finite. Here loops are circles of a graph of states, in which a thread
//! that has made the same requests several times in a row is where it was before ([`crate::state::rounds`]). A circle in which everybody
//! moves who could is a *livelock* ([`explorer::fair_circle`]). It is reported only after the threads themselves have gone round it many times.
//! A circle in which somebody who could move does not, such as the turns of a spin lock while the holder stands still, is none.
//!
//! Threads' steps that nobody else sees are taken at once, but not where a round of a loop ends: so no circle leaves anybody out.
//!
//! Relies on [`crate::exploring::walk`]. Used by the crate's entry point [`liveness`] and by replays of livelocks.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::fmt;
use std::time::Instant;

use explorer::{Circle, Edge, fair_circle, fingerprint};
use mowgli::machine::Step;
use rustc_hash::FxHashMap;

use crate::exploring::conditions;
use crate::exploring::search::limits;
use crate::exploring::shorten::explain;
use crate::exploring::system::{end_of, failure_of_thread, mover};
use crate::exploring::walk::{Builder, Position, Walker};
use crate::fabric::request::{Note, Request};
use crate::reports::schedule::{Schedule, Word};
use crate::reports::trace::Tracer;
use crate::reports::{Completeness, Failure, FailureKind, Report, Stats};
use crate::state::faults::Fault;
use crate::state::rounds::Rounds;
use crate::state::sharing::SeenAccesses;
use crate::state::waits::Waits;
use crate::state::{Common, Move, Status};
use crate::{Config, SimError, World};

/// What each attempt takes for granted, in order, until threads do what they are expected to do: the number of equal rounds that count
/// as a loop, and whether the values that locks protect are taken to be always the same.
const GUESSES: [(usize, bool); 8] = [
    (2, true),
    (2, false),
    (4, true),
    (4, false),
    (8, true),
    (8, false),
    (16, true),
    (16, false),
];
/// The number of times that threads go round a circle before it is reported, and the most moves of that.
const REPEATED: usize = 100;
const REPEATED_MOVES: usize = 20_000;
/// The number of states between two looks at the limits.
const LOOK: usize = 256;

/// The answer about a world.
#[derive(Clone, Debug)]
pub struct Liveness {
    /// The answer itself.
    pub fate: Fate,
    /// The states of the graph.
    pub states: u64,
    /// The moves that were made.
    pub moves: u64,
    /// The number of equal rounds in a row that counted as a loop.
    pub rounds: usize,
    /// Wall-clock seconds.
    pub seconds: f64,
}

/// Whether every call ends.
#[derive(Clone, Debug)]
pub enum Fate {
    /// Every call ends in every fair execution, as far as threads do in later rounds of a loop what they did in the first ones.
    Ends,
    /// An execution fails: a livelock ([`FailureKind::Livelock`]), a deadlock, or an assertion.
    Failed(Box<Failure>),
    /// The graph was not completed, and what there is of it has no livelock. The text says why.
    Unknown(String),
}

impl Fate {
    /// Returns the failing execution, if there is one.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Fate::Failed(failure) => Some(failure),
            Fate::Ends | Fate::Unknown(_) => None,
        }
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fate::Ends => write!(f, "every call ends in every fair execution"),
            Fate::Failed(failure) => write!(f, "failed\n{failure}"),
            Fate::Unknown(why) => write!(f, "unknown: {why}"),
        }
    }
}

/// Looks for a fair execution of the world in which a call does not end. Faults come as often as `config.faults` allows; after the last
/// of them the network delivers everything and every node learns of every loss. Of `config`, the strategy, the reduction and the
/// number of workers do not matter.
///
/// # Worlds
/// Meant for small worlds on a synchronous fabric ([`FabricKind::Shm`](crate::FabricKind::Shm)). Where operations are posted, the library
/// counts them in memory, so that no state comes back, and the answer about a loop that posts is [`Fate::Unknown`] at a limit. The same
/// may hold for a loop that takes a lock whose value decides what it does. A loop that goes on by its deadline is not found either, since
/// its clock goes on. [`Config::longer_fails`] finds these as executions that are too long.
///
/// # Errors
/// Returns the errors of [`explore`](crate::explore).
pub fn liveness(config: &Config, builder: impl Fn(&mut World) + Sync) -> Result<Liveness, SimError> {
    let config = &config.as_the_fabric_has_it();
    let begun = Instant::now();
    let mut moves = 0;
    let mut attempts = GUESSES.into_iter().peekable();
    loop {
        // The list is not empty, and its last guess leaves the loop.
        let (rounds, same_values) = attempts.next().unwrap_or(GUESSES[0]);
        let common = knowledge(same_values);
        let mut search = Search::new(config, &common, &builder, rounds, begun);
        let fate = search.run();
        moves += search.moves;
        let states = search.graph.len() as u64;
        let fate = match fate {
            Err(SimError::NotDeterministic { .. }) if attempts.peek().is_some() => continue,
            fate => fate?,
        };
        let fate = match fate {
            Fate::Failed(failure) if failure.round.is_empty() => {
                let schedule = failure.schedule.clone();
                Fate::Failed(Box::new(explain(config, &builder, *failure, &schedule)?))
            }
            fate => fate,
        };
        return Ok(Liveness {
            fate,
            states,
            moves,
            rounds,
            seconds: begun.elapsed().as_secs_f64(),
        });
    }
}

/// An edge of the graph with its moves: a move and the moves after it that nobody else sees.
type Moves = Vec<Move>;

struct Search<'a> {
    config: &'a Config,
    walker: Walker<'a>,
    rounds: Rounds,
    begun: Instant,
    /// The steps of each state, and their moves.
    graph: Vec<Vec<Edge>>,
    steps: Vec<Vec<Moves>>,
    /// The state from which each state was found first, and by which step.
    found: Vec<Option<(usize, usize)>>,
    known: FxHashMap<u128, usize>,
    /// Numbers of agents.
    agents: FxHashMap<(u32, u8), u32>,
    moves: u64,
}

impl<'a> Search<'a> {
    fn new(
        config: &'a Config,
        common: &'a Common,
        builder: Builder<'a>,
        rounds: usize,
        begun: Instant,
    ) -> Search<'a> {
        Search {
            config,
            walker: Walker::new(common, config, builder, SeenAccesses::new(true)),
            rounds: Rounds::new(rounds),
            begun,
            graph: Vec::new(),
            steps: Vec::new(),
            found: Vec::new(),
            known: FxHashMap::default(),
            agents: FxHashMap::default(),
            moves: 0,
        }
    }

    fn run(&mut self) -> Result<Fate, SimError> {
        let start = begin(&mut self.walker)?;
        let limits = limits(self.config, self.begun);
        let mut open = VecDeque::new();
        self.enter(start, None, &mut open);
        let mut why = None;
        while let Some((number, at)) = open.pop_front() {
            if number.is_multiple_of(LOOK)
                && let Some(limit) = limits.exceeded(self.graph.len() as u64)
            {
                why = Some(limit.to_string());
                break;
            }
            if let Some(failure) = self.expand(number, at, &mut open)? {
                return Ok(Fate::Failed(Box::new(failure)));
            }
        }
        if let Some(circle) = fair_circle(&self.graph) {
            return Ok(Fate::Failed(Box::new(self.livelock(&circle)?)));
        }
        Ok(why.map_or(Fate::Ends, Fate::Unknown))
    }

    /// Makes every move of a state. Returns the failure that a move leads to, if there is one.
    fn expand(
        &mut self,
        number: usize,
        at: Position,
        open: &mut VecDeque<(usize, Position)>,
    ) -> Result<Option<Failure>, SimError> {
        let mut at = at;
        let mut moves = Vec::new();
        self.walker.moves(&mut at.state, &mut moves);
        if moves.iter().all(|what| what.is_optional(&at.state))
            && let Some(failure) = end_of(&mut self.walker, &at)?
        {
            return Ok(Some(failure));
        }
        for &what in &moves {
            let agent = (!what.is_optional(&at.state)).then(|| self.agent(what));
            let mut next = at.clone();
            let mut made = vec![what];
            let mut quiet = Some(what);
            while let Some(what) = quiet {
                self.moves += 1;
                let closes = step(&mut self.walker, &mut self.rounds, &mut next, what)?;
                if let Move::Thread(thread) = what
                    && next.state.threads[usize::from(thread)].status == Status::Failed
                {
                    return Ok(failure_of_thread(&self.walker, &next));
                }
                quiet = if closes { None } else { self.quiet(&mut next) };
                made.extend(quiet);
            }
            let edge = self.graph[number].len();
            self.steps[number].push(made);
            let to = self.enter(next, Some((number, edge)), open);
            self.graph[number].push(Edge { to, agent });
        }
        Ok(None)
    }

    /// Returns the number of a state. If the state is new, its moves are still to be made.
    fn enter(
        &mut self,
        at: Position,
        by: Option<(usize, usize)>,
        open: &mut VecDeque<(usize, Position)>,
    ) -> usize {
        let fresh = self.graph.len();
        match self.known.entry(key(&at)) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(place) => {
                place.insert(fresh);
                self.graph.push(Vec::new());
                self.steps.push(Vec::new());
                self.found.push(by);
                open.push_back((fresh, at));
                fresh
            }
        }
    }

    /// Returns a thread's move that nobody else sees and that goes before all others.
    fn quiet(&self, at: &mut Position) -> Option<Move> {
        let state = &mut at.state;
        let thread = (0..state.threads.len() as u16).find(|&thread| {
            let request = state.request(self.walker.common, thread);
            let quiet = matches!(
                request,
                Some(
                    Request::Store { .. } | Request::WaitEnd | Request::Fence | Request::Note(Note::Mark(_))
                )
            );
            // A node that stops takes along what its store buffers hold and what its threads have said.
            let stays = quiet && !state.may_stop(thread);
            stays && request.is_some_and(|request| state.is_enabled(self.walker.common, thread, request))
        });
        thread.map(Move::Thread)
    }

    /// Returns the number of the one who makes the move: of a thread, a store buffer, or a queue pair's part.
    fn agent(&mut self, what: Move) -> u32 {
        let part = match what {
            Move::Machine(Step::Nic { rule, .. }) => rule as u8,
            _ => 0,
        };
        let fresh = self.agents.len() as u32;
        let lost = match what {
            Move::Fault(Fault::Learn { lost, .. }) => u32::from(lost) << 8,
            Move::Fault(Fault::Heal { peer, .. }) => u32::from(peer) << 8 | 1 << 15,
            _ => 0,
        };
        *self.agents.entry((mover(what).0 ^ lost, part)).or_insert(fresh)
    }

    /// Goes round the circle many times, with the threads themselves. Returns the livelock.
    fn livelock(&mut self, circle: &Circle) -> Result<Failure, SimError> {
        let mut way = Vec::new();
        let mut at = circle.start;
        while let Some((before, step)) = self.found[at] {
            way.push((before, step));
            at = before;
        }
        way.reverse();
        let moves = |steps: &[(usize, usize)]| -> Vec<Move> {
            let moves = steps.iter().flat_map(|&(state, step)| &self.steps[state][step]);
            moves.copied().collect()
        };
        let (prefix, round) = (moves(&way), moves(&circle.round));
        goes_round(&mut self.walker, &mut self.rounds, &prefix, &round)
    }
}

/// Begins with no knowledge. Values that locks protect would tell the rounds of a loop apart that takes a lock, and may decide what
/// a thread does.
fn knowledge(same_values: bool) -> Common {
    match same_values {
        true => Common::without_versions(Waits::Passing),
        false => Common::new(Waits::Passing),
    }
}

/// Returns the position after the set-up.
fn begin(walker: &mut Walker<'_>) -> Result<Position, SimError> {
    let mut start = walker.start()?;
    walker.wake_threads(&mut start)?;
    Ok(start)
}

/// Takes a move. Returns true if a round of a thread's loop ends by it.
fn step(
    walker: &mut Walker<'_>,
    rounds: &mut Rounds,
    at: &mut Position,
    what: Move,
) -> Result<bool, SimError> {
    conditions::take(walker, at, what)?;
    let Move::Thread(thread) = what else {
        return Ok(false);
    };
    let is_waiting = at.state.is_waiting(thread);
    let t = &mut at.state.threads[usize::from(thread)];
    if t.status != Status::Ready || is_waiting {
        return Ok(false);
    }
    let same = rounds.same_as(&walker.common.behaviour, t.past);
    Ok(std::mem::replace(&mut t.past, same) != same)
}

fn key(at: &Position) -> u128 {
    let mut bytes = Vec::new();
    at.state.encode(&mut bytes, false);
    fingerprint(&bytes)
}

/// Goes round a circle many times, with the threads themselves, after the moves that lead to it. Returns the livelock.
///
/// # Errors
/// Returns [`SimError::NotDeterministic`] if a thread does something else in a later round, and [`SimError::Replay`] if a move is not
/// possible or a round does not lead back to where it began.
fn goes_round(
    walker: &mut Walker<'_>,
    rounds: &mut Rounds,
    prefix: &[Move],
    round: &[Move],
) -> Result<Failure, SimError> {
    let mut at = begin(walker)?;
    let mut tracer = Tracer::default();
    let traces = walker.traces();
    for &what in prefix {
        traced(walker, rounds, &mut at, what, &mut tracer)?;
    }
    let begun = key(&at);
    let config = walker.config;
    let schedule = Schedule::new(config.fabric, config.tier, prefix.to_vec()).and_round(round);
    let moves = round.len();
    let mut failure = Failure::new(
        walker.common,
        &at.state,
        schedule,
        FailureKind::Livelock { moves },
    );
    failure.trace = std::mem::take(&mut tracer.steps);
    let times = (REPEATED_MOVES / moves.max(1)).clamp(2, REPEATED);
    for number in 0..times {
        for &what in round {
            match number {
                0 => traced(walker, rounds, &mut at, what, &mut tracer)?,
                _ => possible(walker, rounds, &mut at, what)?,
            }
        }
        if key(&at) != begun {
            let what = "which is to end the round".to_owned();
            let number = at.schedule.len();
            return Err(SimError::Replay { number, what });
        }
    }
    drop(traces);
    walker.consult(&at)?;
    failure.round = tracer.steps;
    Ok(failure)
}

/// Takes a move as [`possible`] does, and describes it.
fn traced(
    walker: &mut Walker<'_>,
    rounds: &mut Rounds,
    at: &mut Position,
    what: Move,
    tracer: &mut Tracer,
) -> Result<(), SimError> {
    tracer.place = walker.place_of(at, what)?;
    tracer.see(walker.common, &mut at.state, what);
    possible(walker, rounds, at, what)
}

/// Takes a move of a schedule.
fn possible(
    walker: &mut Walker<'_>,
    rounds: &mut Rounds,
    at: &mut Position,
    what: Move,
) -> Result<(), SimError> {
    let mut enabled = Vec::new();
    walker.moves(&mut at.state, &mut enabled);
    if !enabled.contains(&what) {
        return Err(SimError::Replay {
            number: at.schedule.len(),
            what: Word(what).to_string(),
        });
    }
    step(walker, rounds, at, what).map(drop)
}

/// Repeats the livelock that a schedule leads to.
///
/// # Errors
/// Returns [`SimError::Replay`] when the schedule does not fit the world, or its round does not go on for ever there.
pub(crate) fn replay(
    config: &Config,
    builder: Builder<'_>,
    before: &[Move],
    round: &[Move],
) -> Result<Report, SimError> {
    let begun = Instant::now();
    let mut attempts = GUESSES.into_iter().peekable();
    loop {
        let (equal, same_values) = attempts.next().unwrap_or(GUESSES[0]);
        let common = knowledge(same_values);
        let mut walker = Walker::new(&common, config, builder, SeenAccesses::new(true));
        let failure = match goes_round(&mut walker, &mut Rounds::new(equal), before, round) {
            Err(SimError::NotDeterministic { .. }) if attempts.peek().is_some() => continue,
            failure => failure?,
        };
        return Ok(Report {
            fabric: config.fabric,
            tier: config.tier,
            faults: config.faults,
            completeness: Completeness::Stopped,
            failure: Some(failure),
            estimate: None,
            stats: Stats {
                executions: 1,
                runs: walker.runs,
                passes: 1,
                seconds: begun.elapsed().as_secs_f64(),
                ..Stats::default()
            },
        });
    }
}
