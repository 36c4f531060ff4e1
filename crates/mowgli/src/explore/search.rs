//! Explicit-state search, depth first, on one or several threads.
//!
//! Relies on [`super::state`] and [`super::reduce`]. A state with a single move is passed through without
//! being remembered; every other one is looked up by the hash of its encoding. A search that stays small runs
//! on the caller's thread; a large one shares its open states with further threads when these run dry.

use std::collections::{BTreeSet, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use xxhash_rust::xxh3::xxh3_128;

use super::Options;
use super::code::Code;
use super::reduce::Reducer;
use super::state::{Move, Ran, State};
use crate::machine::Step;
use crate::outcome::{Budget, Completeness, Limit, Outcome, Search};
use crate::program::Program;

/// Moves after which a search counts as large.
const SMALL_MAX: u64 = 50_000;
/// Moves between two looks at the budget and at idle threads.
const BATCH: u64 = 512;
const SHARDS: usize = 64;

/// Searches from the initial state.
pub(super) fn search(program: &Program, codes: &[Code], options: &Options, budget: &Budget<'_>) -> Search {
    let (first, ran) = State::new(program, codes, options.machine);
    let shared = Shared {
        codes,
        options,
        budget,
        visited: std::array::from_fn(|_| Mutex::default()),
        states: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        stopped_by: Mutex::default(),
        loop_bound: Mutex::default(),
        idle: AtomicU64::new(0),
        open: Mutex::new(Open {
            states: Vec::new(),
            idle: 0,
            workers: 1,
        }),
        wake: Condvar::new(),
    };
    let mut outcomes = BTreeSet::new();
    let mut worker = Worker::new(&shared);
    if worker.note(ran) {
        worker.enter(first);
        if !worker.run(SMALL_MAX) {
            std::thread::scope(|scope| {
                let others = options.workers.saturating_sub(1);
                lock(&shared.open).workers += others;
                let handles: Vec<_> = (0..others)
                    .map(|_| {
                        scope.spawn(|| {
                            let mut worker = Worker::new(&shared);
                            worker.work();
                            worker.outcomes
                        })
                    })
                    .collect();
                worker.run(u64::MAX);
                worker.work();
                for handle in handles {
                    // A worker that panicked would be a defect of ours; its share of the states is lost then.
                    match handle.join() {
                        Ok(found) => outcomes.extend(found),
                        Err(panic) => std::panic::resume_unwind(panic),
                    }
                }
            });
        }
    }
    worker.flush();
    outcomes.append(&mut worker.outcomes);
    drop(worker);
    let limit = lock(&shared.stopped_by)
        .take()
        .or(lock(&shared.loop_bound).take());
    Search {
        outcomes,
        completeness: limit.map_or(Completeness::Complete, Completeness::Incomplete),
        states: shared.states.load(Ordering::Relaxed),
    }
}

/// Hashes are uniform already.
#[derive(Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 ^= u64::from_le_bytes(word);
        }
    }

    fn write_u128(&mut self, n: u128) {
        self.0 = n as u64;
    }
}

type Seen = HashSet<u128, BuildHasherDefault<Identity>>;

/// What the threads of one search share.
struct Shared<'a> {
    codes: &'a [Code],
    options: &'a Options,
    budget: &'a Budget<'a>,
    visited: [Mutex<Seen>; SHARDS],
    states: AtomicU64,
    stop: AtomicBool,
    stopped_by: Mutex<Option<Limit>>,
    loop_bound: Mutex<Option<Limit>>,
    /// A hint that `open.idle` is not 0, read without the lock.
    idle: AtomicU64,
    open: Mutex<Open>,
    wake: Condvar,
}

/// States that wait for a thread.
struct Open {
    states: Vec<State>,
    idle: usize,
    workers: usize,
}

impl Shared<'_> {
    fn insert(&self, hash: u128) -> bool {
        // The low bits choose the place within the table.
        let shard = (hash >> 120) as usize % SHARDS;
        lock(&self.visited[shard]).insert(hash)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A state on the path of the depth-first search, with its moves still to be made.
struct Frame {
    state: State,
    /// Range in `Worker::moves`.
    next: usize,
    end: usize,
}

/// One thread of the search.
struct Worker<'a> {
    shared: &'a Shared<'a>,
    frames: Vec<Frame>,
    /// Frames in use; those beyond keep their storage.
    depth: usize,
    moves: Vec<Move>,
    reducer: Reducer,
    steps: Vec<Step>,
    key: Vec<u8>,
    outcomes: BTreeSet<Outcome>,
    /// States since the last flush; coming back to a state that is known does not count.
    states: u64,
    /// Moves since the last flush.
    work: u64,
    /// States or moves between two looks at the limits.
    batch: u64,
}

impl<'a> Worker<'a> {
    fn new(shared: &'a Shared<'a>) -> Worker<'a> {
        Worker {
            shared,
            frames: Vec::new(),
            depth: 0,
            moves: Vec::new(),
            reducer: Reducer::default(),
            steps: Vec::new(),
            key: Vec::new(),
            outcomes: BTreeSet::new(),
            states: 0,
            work: 0,
            batch: shared.budget.states_max.map_or(BATCH, |max| max.clamp(1, BATCH)),
        }
    }

    /// Whether the execution goes on; remembers why not.
    fn note(&self, ran: Ran) -> bool {
        if let Ran::LoopBound { thread, bound } = ran {
            *lock(&self.shared.loop_bound) = Some(Limit::LoopBound {
                thread: thread.into(),
                bound,
            });
        }
        ran == Ran::Ready
    }

    /// Searches from a state of its own.
    fn enter(&mut self, state: State) {
        self.push_frame(&state);
        self.settle();
    }

    fn push_frame(&mut self, state: &State) {
        match self.frames.get_mut(self.depth) {
            Some(frame) => frame.state.clone_from(state),
            None => self.frames.push(Frame {
                state: state.clone(),
                next: 0,
                end: 0,
            }),
        }
        self.depth += 1;
    }

    /// Runs the topmost frame's state until it has a choice of moves that is new, or drops the frame.
    fn settle(&mut self) {
        let shared = self.shared;
        let top = self.depth - 1;
        let start = if top == 0 { 0 } else { self.frames[top - 1].end };
        loop {
            self.work += 1;
            self.moves.truncate(start);
            let state = &mut self.frames[top].state;
            if shared.options.reduction {
                self.reducer.persistent(state, shared.codes, &mut self.moves);
            } else {
                state.moves(shared.codes, &mut self.steps, &mut self.moves);
            }
            if let [only] = self.moves[start..] {
                let ran = state.make(only, shared.codes);
                if !self.note(ran) {
                    break;
                }
                // A way without choices can be long, too.
                self.states += 1;
                if self.work >= self.batch && !self.flush() {
                    return;
                }
                continue;
            }
            self.key.clear();
            state.encode(&mut self.key);
            if !shared.insert(xxh3_128(&self.key)) {
                break;
            }
            self.states += 1;
            if self.moves.len() > start {
                (self.frames[top].next, self.frames[top].end) = (start, self.moves.len());
                return;
            }
            self.outcomes.extend(state.outcome(shared.codes));
            break;
        }
        self.moves.truncate(start);
        self.depth = top;
    }

    /// Makes moves until nothing is left or a limit is reached (true), or until it made about so many (false).
    fn run(&mut self, moves_max: u64) -> bool {
        let mut left = moves_max;
        while self.depth > 0 {
            if self.work >= self.batch {
                left = left.saturating_sub(self.work);
                if !self.flush() {
                    return true;
                }
                if left == 0 {
                    return false;
                }
                if self.shared.idle.load(Ordering::Relaxed) > 0 {
                    self.share();
                }
            }
            let top = self.depth - 1;
            let frame = &mut self.frames[top];
            if frame.next == frame.end {
                self.depth = top;
                continue;
            }
            let mv = self.moves[frame.next];
            frame.next += 1;
            if self.frames.len() == self.depth {
                let state = self.frames[top].state.clone();
                self.frames.push(Frame {
                    state,
                    next: 0,
                    end: 0,
                });
            } else {
                let (below, above) = self.frames.split_at_mut(self.depth);
                above[0].state.clone_from(&below[top].state);
            }
            self.depth += 1;
            let ran = self.frames[top + 1].state.make(mv, self.shared.codes);
            if self.note(ran) {
                self.settle();
            } else {
                self.depth -= 1;
            }
        }
        true
    }

    /// Adds its states to the common count and looks at the limits; false if the search is to stop.
    fn flush(&mut self) -> bool {
        let shared = self.shared;
        // Relaxed: the count and the flag order nothing; results are handed over by locks and joins.
        let states = shared.states.fetch_add(self.states, Ordering::Relaxed) + self.states;
        (self.states, self.work) = (0, 0);
        if shared.stop.load(Ordering::Relaxed) {
            self.depth = 0;
        } else if let Some(limit) = shared.budget.exceeded(states) {
            // A search that has just ended is complete, whatever its size.
            if self.depth > 0 {
                lock(&shared.stopped_by).get_or_insert(limit);
                shared.stop.store(true, Ordering::Relaxed);
                self.depth = 0;
                shared.wake.notify_all();
            }
        }
        self.depth > 0
    }

    /// Gives a state away that other threads can start from: the one with the most work below it.
    fn share(&mut self) {
        let Some(at) = (0..self.depth).find(|&d| self.frames[d].next < self.frames[d].end) else {
            return;
        };
        let frame = &mut self.frames[at];
        let mv = self.moves[frame.next];
        frame.next += 1;
        let mut state = frame.state.clone();
        let ran = state.make(mv, self.shared.codes);
        if self.note(ran) {
            lock(&self.shared.open).states.push(state);
            self.shared.wake.notify_one();
        }
    }

    /// Takes open states until every thread is out of them.
    fn work(&mut self) {
        loop {
            let mut open = lock(&self.shared.open);
            open.idle += 1;
            self.shared.idle.store(open.idle as u64, Ordering::Relaxed);
            let state = loop {
                if self.shared.stop.load(Ordering::Relaxed) {
                    break None;
                }
                if let Some(state) = open.states.pop() {
                    break Some(state);
                }
                if open.idle == open.workers {
                    break None;
                }
                open = self
                    .shared
                    .wake
                    .wait(open)
                    .unwrap_or_else(PoisonError::into_inner);
            };
            let Some(state) = state else {
                self.shared.wake.notify_all();
                break;
            };
            open.idle -= 1;
            self.shared.idle.store(open.idle as u64, Ordering::Relaxed);
            drop(open);
            self.enter(state);
            self.run(u64::MAX);
        }
        self.flush();
    }
}
