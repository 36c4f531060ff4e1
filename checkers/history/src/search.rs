//! Searches for a linearization. Relies on a [`Spec`] and a [`History`]; the result is a [`Report`].
//!
//! The algorithm of Wing and Gong walks the calls and responses in time order. A call whose operation is not yet placed may be
//! placed next if the specification allows it in the present state; then the walk starts again from the first event left. The
//! walk cannot pass a response whose operation is not yet placed; there the search backtracks. Lowe's memoisation cuts a
//! branch that reaches a set of placed operations and a state seen before.
//!
//! We add three things. The set of placed operations is kept as the first word that is not full and the words after it, so that
//! the size of a remembered configuration grows with the concurrency of the history and not with its length. Calls that
//! change nothing are placed at once and never taken back ([`Spec::read_only`]). The orders tried are kept as a tree
//! with one node for each configuration, so that the longest order through *each* operation is known at the end without
//! copies of orders.
//!
//! A pending call may be placed at any time or never, so each would double the search. Therefore pending calls are not among the
//! events. A pending call is placed only where it changes the state, and only when no completed call leads on before the next
//! response. A configuration is cut when the same completed calls and the same state were reached before with a subset
//! of its pending calls: every continuation from here is possible from there, because more pending calls are left.

mod orders;

use std::collections::hash_map::Entry as MapEntry;
use std::hash::Hash;
use std::time::Instant;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::limits::{Exhausted, Limits, Stats};
use crate::report::{Blocked, Outcome, Partition, Report};
use crate::{History, Spec};

/// Searches the partitions of the history for orders of their operations that explain them. All partitions are searched in
/// turns, which grow longer, so that a hard partition does not hide the verdicts of the others.
///
/// Within the limits the answer is exact: *ok* comes with the order, and *violation* means that there is no order. A
/// violation of one partition decides for the whole history, so the check ends with the first that it finds. The
/// partitions whose search was not over by then are not in the report ([`Report::undecided`]).
pub fn check<'a, S: Spec>(
    spec: &'a S,
    history: &'a History<S::Call, S::Ret>,
    limits: &Limits,
) -> Report<'a, S> {
    let deadline = Instant::now().checked_add(limits.time);
    let mut index_of: FxHashMap<S::Key, usize> = FxHashMap::default();
    let mut parts: Vec<(S::Key, Vec<usize>)> = Vec::new();
    for (index, operation) in history.operations.iter().enumerate() {
        let key = spec.partition(&operation.call);
        let part = *index_of.entry(key.clone()).or_insert_with(|| {
            parts.push((key, Vec::new()));
            parts.len() - 1
        });
        parts[part].1.push(index);
    }
    let count = parts.len();
    let mut open: Vec<(usize, Search<'a, S>)> = Vec::with_capacity(count);
    for (part, (key, operations)) in parts.iter_mut().enumerate() {
        open.push((part, Search::new(spec, history, key, std::mem::take(operations))));
    }
    // The smallest come first.
    open.sort_by_key(|(_, search)| search.operations.len());
    let mut searched: Vec<(usize, Partition<S::Key>)> = Vec::new();
    let mut room = PARTIAL_ENTRIES_MAX;
    let mut turn = TURN_FIRST;
    let mut violated = false;
    while !open.is_empty() && !violated {
        let mut held: usize = open.iter().map(|(_, search)| search.stats.memory_bytes).sum();
        let mut rest = Vec::new();
        for (part, mut search) in open {
            if violated {
                break;
            }
            let others = held - search.stats.memory_bytes;
            let bounds = Bounds {
                configurations: limits.configurations,
                memory_bytes: limits.memory_bytes.saturating_sub(others),
                deadline,
            };
            let Some(found) = search.go_on(&bounds, turn).transpose() else {
                held = others + search.stats.memory_bytes;
                rest.push((part, search));
                continue;
            };
            violated = found == Ok(false);
            held = others;
            searched.push((part, search.finish(parts[part].0.clone(), found, &mut room)));
        }
        open = rest;
        turn = turn.saturating_mul(TURN_GROWTH);
    }
    searched.sort_by_key(|(part, _)| *part);
    Report {
        spec,
        history,
        undecided: count - searched.len(),
        partitions: searched.into_iter().map(|(_, partition)| partition).collect(),
    }
}

/// The most entries that the partial orders of all partitions together may have.
const PARTIAL_ENTRIES_MAX: usize = 1 << 20;
/// Work between two looks at the clock. A step of the search is one unit, and so is each entry that a step goes through.
const CLOCK_INTERVAL: u64 = 4096;
/// The work of a partition's first turn, and the growth of turns. Most partitions are decided in their first turn.
const TURN_FIRST: u64 = 1 << 16;
const TURN_GROWTH: u64 = 4;
/// The first entry of the event list.
const HEAD: usize = 0;

/// An event of the partition; operations are numbered locally, completed ones first.
#[derive(Clone, Copy)]
enum Entry {
    Call(u32),
    Return(u32),
    End,
}

/// A configuration without its pending operations, in the form of the memo: the completed operations placed, and the
/// state.
#[derive(PartialEq, Eq, Hash)]
struct Config<T> {
    /// The number of the leading words of the completed set that are full. `done` starts after them.
    base: u32,
    /// The words from there to the last nonzero one.
    done: SmallVec<[u64; 2]>,
    state: T,
}

/// The pending operations placed, as words up to the last nonzero one.
type PendingSet = SmallVec<[u64; 1]>;

/// Returns whether all of `some` are in `all`.
fn is_subset(some: &[u64], all: &[u64]) -> bool {
    // If the lengths differ, the last word of the longer set is not zero.
    some.len() <= all.len() && some.iter().zip(all).all(|(some, all)| some & !all == 0)
}

/// The place at which the search looks for the next operation.
#[derive(Clone, Copy)]
enum At {
    /// This entry.
    Entry(usize),
    /// This pending operation, because no completed operation leads on before the next response.
    Pending(usize),
}

/// The limits of a turn.
struct Bounds {
    configurations: u64,
    /// The memory that the other partitions leave.
    memory_bytes: usize,
    deadline: Option<Instant>,
}

/// A placed operation, with the state to restore when it is taken back.
struct Frame<T> {
    op: u32,
    /// The number of the chosen state among those that the step allows.
    alternative: usize,
    /// True if no other choice need be tried when this one fails.
    committed: bool,
    state_before: T,
    base_before: usize,
    high_before: usize,
    /// This placement in the tree of orders.
    node: u32,
    /// Length of the longest order noted while this frame was there; never less than a later frame's.
    noted: u32,
}

struct Search<'a, S: Spec> {
    spec: &'a S,
    /// Call and result by local number.
    calls: Vec<(&'a S::Call, Option<&'a S::Ret>)>,
    /// Index in the history by local number.
    operations: Vec<usize>,
    completed: usize,
    /// Completed operations not placed.
    remaining: usize,
    entries: Vec<Entry>,
    /// The events of operations not placed, as a doubly linked list over `entries`.
    next: Vec<u32>,
    prev: Vec<u32>,
    /// Entries of the completed operations.
    call_entry: Vec<u32>,
    return_entry: Vec<u32>,
    /// For each pending operation that may change something, by time of invocation, the first response before which it
    /// may be placed.
    pending_from: Vec<u32>,
    done: Vec<u64>,
    base: usize,
    /// One past the last word of `done` that is not zero.
    high: usize,
    pending: Vec<u64>,
    state: S::State,
    frames: Vec<Frame<S::State>>,
    /// The configurations visited. Each has sets of pending operations, of which none contains an earlier one.
    memo: FxHashMap<Config<S::State>, SmallVec<[PendingSet; 1]>>,
    /// The orders tried: operation and parent; node 0 is the empty order.
    tree: Vec<(u32, u32)>,
    /// By operation: length and end of the longest order noted that contains it.
    best: Vec<(u32, u32)>,
    /// Length and end of the longest order noted.
    longest: (u32, u32),
    /// The last response that stopped the search, and the longest order that came so far.
    furthest: (usize, u32, u32),
    /// Where the search is, and the number of the first state to try there.
    at: At,
    alternative: usize,
    /// The work done, and that at which the clock is looked at next.
    work: u64,
    look: u64,
    stats: Stats,
}

impl<'a, S: Spec> Search<'a, S> {
    fn new(
        spec: &'a S,
        history: &'a History<S::Call, S::Ret>,
        key: &S::Key,
        mut operations: Vec<usize>,
    ) -> Self {
        let all = &history.operations;
        // Pending calls that change nothing explain nothing. They come last and are never looked at.
        let idle = |i: usize| all[i].response.is_none() && spec.read_only(&all[i].call, None);
        operations.sort_by_key(|&i| (all[i].response.is_none(), idle(i), all[i].invoked));
        let count = operations.len();
        let completed = operations.iter().filter(|&&i| all[i].response.is_some()).count();
        let active = operations.iter().filter(|&&i| !idle(i)).count();
        // At equal times calls come before responses, so that operations that touch overlap.
        let mut events = Vec::with_capacity(2 * completed);
        for (op, &i) in operations.iter().enumerate() {
            if let Some(response) = &all[i].response {
                events.push((all[i].invoked, false, op as u32));
                events.push((response.at.max(all[i].invoked), true, op as u32));
            }
        }
        events.sort_unstable();
        let mut entries = vec![Entry::End];
        let (mut call_entry, mut return_entry) = (vec![0; completed], vec![0; completed]);
        let mut pending_from = Vec::with_capacity(active - completed);
        let mut pending = operations[completed..active]
            .iter()
            .map(|&i| all[i].invoked)
            .peekable();
        for (at, is_return, op) in events {
            // From the first response that comes no earlier than its invocation, a pending call may be placed.
            while is_return && pending.next_if(|&invoked| invoked <= at).is_some() {
                pending_from.push(entries.len() as u32);
            }
            let place = if is_return {
                &mut return_entry
            } else {
                &mut call_entry
            };
            place[op as usize] = entries.len() as u32;
            entries.push(if is_return {
                Entry::Return(op)
            } else {
                Entry::Call(op)
            });
        }
        // Pending calls invoked after all responses explain nothing.
        pending_from.extend(pending.map(|_| u32::MAX));
        entries.push(Entry::End);
        let last = entries.len() as u32 - 1;
        Search {
            spec,
            calls: operations
                .iter()
                .map(|&i| (&all[i].call, all[i].result()))
                .collect(),
            operations,
            completed,
            remaining: completed,
            // The head is never removed, and the first event follows it.
            at: At::Entry(HEAD + 1),
            alternative: 0,
            work: 0,
            look: 0,
            next: (0..=last).map(|i| (i + 1).min(last)).collect(),
            prev: (0..=last).map(|i| i.saturating_sub(1)).collect(),
            entries,
            call_entry,
            return_entry,
            pending_from,
            done: vec![0; completed.div_ceil(64)],
            base: 0,
            high: 0,
            pending: vec![0; (count - completed).div_ceil(64)],
            state: spec.initial(key),
            frames: Vec::new(),
            memo: FxHashMap::default(),
            tree: vec![(u32::MAX, 0)],
            best: vec![(0, 0); count],
            longest: (0, 0),
            furthest: (HEAD, 0, 0),
            stats: Stats::default(),
        }
    }

    /// Ends the search with what was found. The partial orders take their entries out of `room`.
    fn finish(mut self, key: S::Key, found: Result<bool, Exhausted>, room: &mut usize) -> Partition<S::Key> {
        if found != Ok(true) {
            self.note();
        }
        let blocked = match self.entries[self.furthest.0] {
            Entry::Return(op) => Some(Blocked {
                operation: self.operations[op as usize],
                explained: self.order(self.furthest.2),
            }),
            _ => None,
        };
        let longest = self.order(self.longest.1);
        let outcome = match (found, blocked) {
            (Ok(true), _) => {
                let witness = self.frames.iter().map(|frame| self.operations[frame.op as usize]);
                Outcome::Ok {
                    witness: witness.collect(),
                }
            }
            (Ok(false), blocked) => Outcome::Violation { longest, blocked },
            (Err(reason), blocked) => Outcome::Unknown {
                reason,
                longest,
                blocked,
            },
        };
        let partials = if found == Ok(true) {
            Vec::new()
        } else {
            self.partials(room)
        };
        let mut operations = self.operations;
        operations.sort_unstable();
        Partition {
            key,
            operations,
            outcome,
            partials,
            stats: self.stats,
        }
    }

    /// Searches on for a turn. Returns whether there is an order, or `None` if the turn is over before that is known. If
    /// there is one, its frames are left in place.
    fn go_on(&mut self, bounds: &Bounds, turn: u64) -> Result<Option<bool>, Exhausted> {
        let mut states = Vec::new();
        let (mut at, mut alternative) = (self.at, self.alternative);
        let end = self.work.saturating_add(turn);
        while self.remaining > 0 {
            if self.work >= self.look {
                self.within(bounds)?;
                self.look = self.work + CLOCK_INTERVAL;
                if self.work >= end {
                    (self.at, self.alternative) = (at, alternative);
                    return Ok(None);
                }
            }
            self.work += 1;
            if let At::Entry(entry) = at
                && !matches!(self.entries[entry], Entry::Call(_))
            {
                let length = self.frames.len() as u32;
                if (entry, length) > (self.furthest.0, self.furthest.1) || self.furthest.0 == HEAD {
                    self.furthest = (entry, length, self.frames.last().map_or(0, |frame| frame.node));
                }
                at = At::Pending(0);
            }
            let op = match at {
                At::Entry(entry) => match self.entries[entry] {
                    Entry::Call(op) => Some(op as usize),
                    Entry::Return(_) | Entry::End => None, // Not reached: see above.
                },
                At::Pending(number) => self.next_pending(number).map(|found| {
                    at = At::Pending(found);
                    self.completed + found
                }),
            };
            // Nothing leads past the next response, or a call that changes nothing leads no further. In the second case
            // nothing else does either, because the call led to a configuration as good as this one.
            let mut failed = op.is_none();
            if let Some(op) = op {
                let (call, result) = self.calls[op];
                let pending = op >= self.completed;
                let read_only = self.spec.read_only(call, result);
                states.clear();
                self.spec.step(&self.state, call, result, &mut states);
                failed = read_only && !pending && !states.is_empty();
                let mut placed = false;
                for (number, state) in states.drain(..).enumerate().skip(alternative) {
                    // A pending call need not have happened, so it is placed only for its effect.
                    if !(pending && state == self.state) && self.place(op as u32, state, number, read_only) {
                        placed = true;
                        break;
                    }
                }
                alternative = 0;
                if placed {
                    at = At::Entry(self.next[HEAD] as usize);
                    continue;
                }
            }
            if !failed {
                at = match at {
                    At::Entry(entry) => At::Entry(self.next[entry] as usize),
                    At::Pending(number) => At::Pending(number + 1),
                };
                continue;
            }
            self.note();
            loop {
                let Some(frame) = self.take_back() else {
                    return Ok(Some(false));
                };
                self.work += 1;
                if !frame.committed {
                    let op = frame.op as usize;
                    at = match op.checked_sub(self.completed) {
                        None => At::Entry(self.call_entry[op] as usize),
                        Some(pending) => At::Pending(pending),
                    };
                    alternative = frame.alternative + 1;
                    break;
                }
            }
        }
        Ok(Some(true))
    }

    /// Finds the first pending operation, from this number on, that is not placed and may come before the next response.
    fn next_pending(&mut self, number: usize) -> Option<usize> {
        let is_placed = |p: usize| self.pending[p / 64] & (1 << (p % 64)) != 0;
        let pending = (number..self.pending_from.len()).find(|&p| !is_placed(p))?;
        self.work += (pending - number) as u64;
        let mut response = self.next[HEAD];
        while let Entry::Call(_) = self.entries[response as usize] {
            self.work += 1;
            response = self.next[response as usize];
        }
        (self.pending_from[pending] <= response).then_some(pending)
    }

    fn within(&self, bounds: &Bounds) -> Result<(), Exhausted> {
        if self.stats.configurations >= bounds.configurations {
            Err(Exhausted::Configurations)
        } else if self.stats.memory_bytes >= bounds.memory_bytes || self.tree.len() > (u32::MAX / 2) as usize
        {
            Err(Exhausted::Memory)
        } else if bounds.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            Err(Exhausted::Time)
        } else {
            Ok(())
        }
    }

    /// Places `op` next, which leads to `state`. Returns false and changes nothing if that configuration was visited.
    fn place(&mut self, op: u32, state: S::State, alternative: usize, committed: bool) -> bool {
        let (base_before, high_before) = (self.base, self.high);
        self.mark(op as usize);
        let config = Config {
            base: self.base as u32,
            done: SmallVec::from_slice(&self.done[self.base.min(self.high)..self.high]),
            state: state.clone(),
        };
        let last = self.pending.iter().rposition(|&word| word != 0);
        let pending = PendingSet::from_slice(&self.pending[..last.map_or(0, |last| last + 1)]);
        let spilled = config.done.len().saturating_sub(2) + pending.len().saturating_sub(1);
        let mut bytes = spilled * 8 + size_of::<(u32, u32)>();
        match self.memo.entry(config) {
            MapEntry::Vacant(place) => {
                bytes += size_of::<Config<S::State>>() - size_of::<S::State>()
                    + size_of::<SmallVec<[PendingSet; 1]>>()
                    + self.spec.state_bytes(&state);
                place.insert(SmallVec::from_elem(pending, 1));
            }
            MapEntry::Occupied(mut place) => {
                let sets = place.get_mut();
                self.work += sets.len() as u64;
                if sets.iter().any(|before| is_subset(before, &pending)) {
                    self.unmark(op as usize, base_before, high_before);
                    self.stats.repeats += 1;
                    return false;
                }
                bytes += size_of::<PendingSet>();
                sets.push(pending);
            }
        }
        self.stats.configurations += 1;
        // The table keeps up to half of its room free.
        self.stats.memory_bytes += bytes * 3 / 2;
        let parent = self.frames.last().map_or(0, |frame| frame.node);
        let node = self.tree.len() as u32;
        self.tree.push((op, parent));
        if (op as usize) < self.completed {
            self.unlink(self.call_entry[op as usize]);
            self.unlink(self.return_entry[op as usize]);
            self.remaining -= 1;
        }
        let state_before = std::mem::replace(&mut self.state, state);
        self.frames.push(Frame {
            op,
            alternative,
            committed,
            state_before,
            base_before,
            high_before,
            node,
            noted: 0,
        });
        true
    }

    fn take_back(&mut self) -> Option<Frame<S::State>> {
        let mut frame = self.frames.pop()?;
        let op = frame.op as usize;
        std::mem::swap(&mut self.state, &mut frame.state_before);
        if op < self.completed {
            self.relink(self.return_entry[op]);
            self.relink(self.call_entry[op]);
            self.remaining += 1;
        }
        self.unmark(op, frame.base_before, frame.high_before);
        Some(frame)
    }

    fn mark(&mut self, op: usize) {
        let Some(pending) = op.checked_sub(self.completed) else {
            self.done[op / 64] |= 1 << (op % 64);
            self.high = self.high.max(op / 64 + 1);
            while self.base < self.done.len() && self.done[self.base] == u64::MAX {
                self.base += 1;
            }
            return;
        };
        self.pending[pending / 64] |= 1 << (pending % 64);
    }

    fn unmark(&mut self, op: usize, base_before: usize, high_before: usize) {
        match op.checked_sub(self.completed) {
            None => self.done[op / 64] &= !(1 << (op % 64)),
            Some(pending) => self.pending[pending / 64] &= !(1 << (pending % 64)),
        }
        (self.base, self.high) = (base_before, high_before);
    }

    fn unlink(&mut self, entry: u32) {
        let (prev, next) = (self.prev[entry as usize], self.next[entry as usize]);
        self.next[prev as usize] = next;
        self.prev[next as usize] = prev;
    }

    /// Undoes `unlink`. The calls nest, so the neighbours are those of that time.
    fn relink(&mut self, entry: u32) {
        let (prev, next) = (self.prev[entry as usize], self.next[entry as usize]);
        self.next[prev as usize] = entry;
        self.prev[next as usize] = entry;
    }
}
