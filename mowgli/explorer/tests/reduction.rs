//! Tests eager moves, persistent sets and stuttering on random processes that share variables: a search with them meets the
//! ends that a search without them meets.
#![allow(clippy::unwrap_used)] // Helpers of tests are tests.

use std::collections::BTreeSet;

use explorer::{Closure, Ended, Flow, Mover, Options, Stats, System, search};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// An operation of a process on a variable.
#[derive(Clone, Copy, Debug)]
enum Op {
    Add(usize, u8),
    Read(usize),
    /// Parks unless the variable has this value. A parked process is woken when the variable changes.
    Wait(usize, u8),
}

impl Op {
    fn variable(self) -> usize {
        match self {
            Op::Add(variable, _) | Op::Read(variable) | Op::Wait(variable, _) => variable,
        }
    }

    fn conflicts(self, other: Op) -> bool {
        let writes = |op| matches!(op, Op::Add(..));
        self.variable() == other.variable() && (writes(self) || writes(other))
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Move {
    Step(usize),
    /// The process ends early. This is optional.
    Crash(usize),
}

#[derive(Clone, Debug)]
struct Processes {
    programs: Vec<Vec<Op>>,
    crashes: u8,
    /// Set if there are persistent sets, eager moves and states that stutter.
    reduces: bool,
    ends: BTreeSet<Vec<u8>>,
}

#[derive(Clone, Default)]
struct State {
    variables: Vec<u8>,
    /// For each process: its next operation, what it has read, and the value for which it parked.
    processes: Vec<(usize, u8, Option<u8>)>,
    crashes: u8,
}

impl Processes {
    fn random(seed: u64) -> Processes {
        let mut random = StdRng::seed_from_u64(seed);
        let variables = random.random_range(1..5);
        let op = |random: &mut StdRng| {
            let variable = random.random_range(0..variables);
            match random.random_range(0..4) {
                0 | 1 => Op::Add(variable, random.random_range(1..3)),
                2 => Op::Read(variable),
                _ => Op::Wait(variable, random.random_range(0..3)),
            }
        };
        let programs = (0..random.random_range(2..5)).map(|_| {
            let length = random.random_range(1..5);
            (0..length).map(|_| op(&mut random)).collect()
        });
        Processes {
            programs: programs.collect(),
            crashes: 0,
            reduces: false,
            ends: BTreeSet::new(),
        }
    }

    fn next(&self, state: &State, process: usize) -> Option<Op> {
        self.programs[process].get(state.processes[process].0).copied()
    }

    /// Returns whether the process may yet make an operation that conflicts.
    fn may_conflict(&self, state: &State, process: usize, op: Op) -> bool {
        let rest = self.programs[process].iter().skip(state.processes[process].0);
        rest.copied().any(|other| other.conflicts(op))
    }

    fn encode(state: &State, awake: bool, out: &mut Vec<u8>) {
        out.extend_from_slice(&state.variables);
        out.push(state.crashes);
        for &(at, read, parked) in &state.processes {
            let parked = parked.filter(|_| !awake);
            out.extend([at as u8, read, parked.unwrap_or(255)]);
        }
    }

    /// Searches. Returns the work, and the ends found.
    fn search(&self, reduces: bool, workers: usize) -> (Stats, BTreeSet<Vec<u8>>) {
        let options = Options {
            workers,
            alone: 0,
            ..Options::default()
        };
        let make = || Processes {
            reduces,
            ..self.clone()
        };
        let found = search(&options, make).unwrap();
        assert_eq!(found.ended, Ended::Complete);
        let count: usize = found.collected.iter().map(BTreeSet::len).sum();
        assert_eq!(count as u64, found.stats.ends, "an end is reported once");
        (found.stats, found.collected.into_iter().flatten().collect())
    }
}

impl System for Processes {
    type State = State;
    type Move = Move;
    type Finding = ();
    type Error = ();
    type Collected = BTreeSet<Vec<u8>>;

    fn start(&mut self) -> Result<Option<State>, ()> {
        Ok(Some(State {
            variables: vec![0; 4],
            processes: vec![(0, 0, None); self.programs.len()],
            crashes: self.crashes,
        }))
    }

    fn enabled(&mut self, state: &mut State, moves: &mut Vec<Move>) {
        let able = |&p: &usize| self.next(state, p).is_some() && state.processes[p].2.is_none();
        let processes = 0..self.programs.len();
        moves.extend(processes.clone().filter(able).map(Move::Step));
        let alive = |&p: &usize| state.crashes > 0 && self.next(state, p).is_some();
        moves.extend(processes.filter(alive).map(Move::Crash));
    }

    fn eager(&mut self, state: &mut State, moves: &mut Vec<Move>) -> Option<Move> {
        self.enabled(state, moves);
        let alone = |&what: &Move| {
            let Move::Step(process) = what else { return false };
            let op = self.next(state, process).unwrap();
            (0..self.programs.len()).all(|other| other == process || !self.may_conflict(state, other, op))
        };
        let reduces = self.reduces && state.crashes == 0;
        moves.iter().copied().find(alone).filter(|_| reduces)
    }

    fn reduce(&mut self, state: &mut State, moves: &mut Vec<Move>) {
        if !self.reduces || state.crashes > 0 {
            return;
        }
        let mover = |what: &Move| match *what {
            Move::Step(process) | Move::Crash(process) => process,
        };
        let movers: Vec<usize> = moves.iter().map(mover).collect();
        let mut closure = Closure::default();
        closure.find(self.programs.len(), &movers, &movers, |process, set| {
            let Some(op) = self.next(state, process) else {
                return;
            };
            for other in 0..self.programs.len() {
                if self.may_conflict(state, other, op) {
                    set.insert(other);
                }
            }
        });
        moves.retain(|what| closure.contains(mover(what)));
    }

    fn apply(&mut self, state: &mut State, what: Move) -> Result<Flow<()>, ()> {
        match what {
            Move::Crash(process) => {
                state.crashes -= 1;
                state.processes[process] = (self.programs[process].len(), 0, None);
            }
            Move::Step(process) => {
                let op = self.next(state, process).unwrap();
                let variable = &mut state.variables[op.variable()];
                let (at, read, parked) = &mut state.processes[process];
                match op {
                    Op::Add(_, add) => *variable = (*variable + add) % 3,
                    Op::Read(_) => *read = *read * 3 + *variable,
                    Op::Wait(_, value) if value == *variable => {}
                    Op::Wait(..) => {
                        *parked = Some(*variable);
                        return Ok(Flow::On);
                    }
                }
                *at += 1;
            }
        }
        for process in 0..self.programs.len() {
            let Some(op) = self.next(state, process) else {
                continue;
            };
            let parked = &mut state.processes[process].2;
            *parked = parked.filter(|&value| value == state.variables[op.variable()]);
        }
        Ok(Flow::On)
    }

    fn end(&mut self, state: &mut State) -> Result<Flow<()>, ()> {
        let mut end = Vec::new();
        Processes::encode(state, false, &mut end);
        assert!(self.ends.insert(end));
        Ok(Flow::On)
    }

    fn encode(&self, state: &State, out: &mut Vec<u8>) {
        Processes::encode(state, false, out);
    }

    fn encode_before_stutter(&self, state: &State, _: &[Move], out: &mut Vec<u8>) -> bool {
        let parks = state.processes.iter().any(|(.., parked)| parked.is_some());
        if parks && self.reduces {
            Processes::encode(state, true, out);
        }
        parks && self.reduces
    }

    fn is_optional(&self, _: &State, what: Move) -> bool {
        matches!(what, Move::Crash(_))
    }

    fn mover(&self, what: Move) -> Mover {
        match what {
            Move::Step(process) => Mover(process as u32),
            Move::Crash(process) => Mover(100 + process as u32),
        }
    }

    fn collected(self) -> BTreeSet<Vec<u8>> {
        self.ends
    }
}

/// Checks that searches with the reduction, by one worker and by two, meet the ends that a search without it meets.
fn compare(seeds: std::ops::Range<u64>, crashes: u8) {
    let (mut whole, mut reduced) = (0, 0);
    for seed in seeds {
        let processes = Processes {
            crashes,
            ..Processes::random(seed)
        };
        let (work, ends) = processes.search(false, 1);
        whole += work.moves;
        for workers in [1, 2] {
            let (work, found) = processes.search(true, workers);
            assert_eq!(found, ends, "seed {seed}, {workers} workers: {processes:?}");
            reduced += work.moves;
        }
    }
    // Two searches with it against one without it.
    assert!(crashes > 0 || reduced < 2 * whole, "{reduced} of {whole} moves");
}

#[test]
fn the_reduction_meets_every_end() {
    compare(0..2_000, 0);
}

/// An execution may end where only optional moves are left, whatever such a state stutters from.
#[test]
fn the_reduction_meets_every_end_beside_optional_moves() {
    compare(0..400, 1);
}
