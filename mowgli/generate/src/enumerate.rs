//! Lists every program of a [`Language`] once up to symmetry.
//!
//! Programs are written thread by thread, longer threads first, and nodes and locations are numbered as they appear. Of the programs that
//! differ only in the order of threads, the one that [`Sketch::is_canonical`] chooses is kept. No set of programs seen is
//! needed, so the list takes no memory and can be cut into [`Unit`]s that are worked on apart.
//!
//! Unless [`Language::idle`] is set, programs are left out in which an instruction can serve no purpose, because a smaller or another
//! listed program shows as much:
//!
//! * The threads fall into two groups without a common location. The outcomes are those of the two groups, combined.
//! * A fence, remote fence, poll or wait begins or ends a thread, or a fence follows its like. A remote fence with no earlier
//!   remote operation, or towards a node that its thread does not use otherwise.
//! * A location that only one instruction accesses, unless the instruction copies to it (its final value shows what was read) or is a
//!   get from it (which is how the network card writes a constant to the memory of its own node).
//! * A location that nobody writes, unless it is the source of one get: the value read is known.
//! * A work identifier that is not waited for.
//! * An operation that asks for strong order without an earlier put or read-modify-write of its thread towards its node. A location of a
//!   relaxed region that no network card writes.
//!
//! In every language a poll has an operation to poll and a wait has one to wait for. A compare-and-swap expects the initial
//! value of its location or a constant that an instruction writes to it.

use crate::language::Language;
use crate::sketch::{Column, Expected, Op, Sketch};

/// A part of the list: the programs with threads of these lengths that begin in this way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Number of instructions of each thread, falling.
    lengths: Vec<u8>,
    /// The beginning of the programs.
    begin: Sketch,
}

impl Unit {
    /// Returns the number of instructions of the programs.
    pub fn size(&self) -> usize {
        self.lengths.iter().map(|&l| usize::from(l)).sum()
    }
}

/// Number of instructions in the beginning of a unit.
const BEGIN: usize = 2;

/// Returns the parts of the list, smaller programs first. The list of a language is the lists of its units, one after the other.
pub fn units(language: &Language) -> Vec<Unit> {
    let mut units = Vec::new();
    for size in 1..=language.size {
        for lengths in partitions(size, size, language.threads) {
            let mut writer = Writer::new(language, &lengths);
            writer.stop_at = Some(BEGIN.min(size.into()));
            writer.begin_thread(&mut |begin| {
                units.push(Unit {
                    lengths: lengths.clone(),
                    begin: begin.clone(),
                });
            });
        }
    }
    units
}

/// Lists the programs of a unit.
pub fn programs(language: &Language, unit: &Unit, each: &mut dyn FnMut(&Sketch)) {
    let mut writer = Writer::new(language, &unit.lengths);
    writer.sketch = unit.begin.clone();
    writer.continue_thread(&mut |sketch| {
        let mut sketch = sketch.clone();
        if language.idle || has_no_idle_part(&sketch) {
            expectations(&mut sketch, 0, 0, &mut |sketch| {
                marked(sketch, language, &mut |sketch| {
                    if sketch.is_canonical() {
                        each(sketch);
                    }
                });
            });
        }
    });
}

/// Returns the falling sequences of at most `parts` numbers from 1 to `most` with this sum, fewer parts first.
fn partitions(sum: u8, most: u8, parts: u8) -> Vec<Vec<u8>> {
    fn extend(sum: u8, most: u8, parts: u8, head: &mut Vec<u8>, out: &mut Vec<Vec<u8>>) {
        if sum == 0 {
            out.push(head.clone());
        } else if parts > 0 {
            for first in (1..=most.min(sum)).rev() {
                head.push(first);
                extend(sum - first, first, parts - 1, head, out);
                head.pop();
            }
        }
    }
    let mut out = Vec::new();
    extend(sum, most, parts, &mut Vec::new(), &mut out);
    out
}

/// Gives every compare-and-swap from this position on each value that it may expect.
fn expectations(sketch: &mut Sketch, thread: usize, at: usize, each: &mut dyn FnMut(&Sketch)) {
    let Some(column) = sketch.threads.get(thread) else {
        return each(sketch);
    };
    let Some(op) = column.ops.get(at) else {
        return expectations(sketch, thread + 1, 0, each);
    };
    let mut op = *op;
    let Some((loc, _)) = op.expectation() else {
        return expectations(sketch, thread, at + 1, each);
    };
    let mut values = vec![Expected::Initial];
    for (t, column) in sketch.threads.iter().enumerate() {
        for (i, other) in column.ops.iter().enumerate() {
            if other.writes_constant() == Some(loc) && (t, i) != (thread, at) {
                values.push(Expected::Written {
                    thread: t as u8,
                    at: i as u8,
                });
            }
        }
    }
    for value in values {
        if let Some((_, expected)) = op.expectation() {
            *expected = value;
        }
        sketch.threads[thread].ops[at] = op;
        expectations(sketch, thread, at + 1, each);
    }
}

/// Lets every choice of operations ask for strong order, and puts every choice of locations into regions of relaxed ordering.
fn marked(sketch: &Sketch, language: &Language, each: &mut dyn FnMut(&Sketch)) {
    let mut asking: Vec<(usize, u8)> = Vec::new();
    if language.strong {
        for (t, column) in sketch.threads.iter().enumerate() {
            let can = (0..).zip(&column.ops).filter(|(at, op)| match language.idle {
                true => op.remote().is_some(),
                false => follows_write(sketch, column, usize::from(*at)),
            });
            asking.extend(can.map(|(at, _)| (t, at)));
        }
    }
    let mut places: Vec<u8> = Vec::new();
    if language.relaxed() {
        let written = |l: &u8| sketch.ops().any(|op| op.remote().is_some() && op.writes(*l));
        places.extend((0..sketch.locations.len() as u8).filter(|l| language.idle || written(l)));
    }
    for strong in 0..1u32 << asking.len() {
        let mut sketch = sketch.clone();
        for (bit, &(t, at)) in asking.iter().enumerate() {
            if strong >> bit & 1 == 1 {
                sketch.threads[t].strong.push(at);
            }
        }
        for relaxed in 0..1u32 << places.len() {
            let chosen = places
                .iter()
                .enumerate()
                .filter(|(bit, _)| relaxed >> bit & 1 == 1);
            sketch.relaxed = chosen.map(|(_, &l)| l).collect();
            each(&sketch);
        }
    }
}

/// Returns whether an operation comes after a put or read-modify-write of its thread towards the same node.
fn follows_write(sketch: &Sketch, column: &Column, at: usize) -> bool {
    let node = |op: &Op| op.remote().map(|l| sketch.locations[usize::from(l)]);
    let towards = node(&column.ops[at]);
    let writes = |op: &Op| !matches!(op, Op::Get { .. }) && node(op) == towards;
    towards.is_some() && column.ops[..at].iter().any(writes)
}

/// Returns whether every instruction can serve a purpose (see the module's description).
fn has_no_idle_part(sketch: &Sketch) -> bool {
    (0..sketch.locations.len()).all(|loc| needs(sketch, loc as u8) == 0)
        && sketch
            .threads
            .iter()
            .all(|c| waits_and_fences_have_reasons(sketch, c))
        && is_connected(sketch)
}

/// Returns how many more accesses the location needs to have a purpose.
fn needs(sketch: &Sketch, loc: u8) -> usize {
    let (mut accesses, mut writes, mut shows) = (0, 0, false);
    for op in sketch.ops() {
        if !op.locations().any(|l| l == loc) {
            continue;
        }
        accesses += 1;
        writes += usize::from(op.writes(loc));
        shows |= op.copies_to() == Some(loc) || matches!(op, Op::Get { src, .. } if src == loc);
    }
    match (accesses, writes) {
        (1, _) => usize::from(!shows),
        (_, 0) => 1,
        _ => 0,
    }
}

/// Returns whether every work identifier is waited for, and whether every remote fence is towards a node that the thread uses.
fn waits_and_fences_have_reasons(sketch: &Sketch, column: &Column) -> bool {
    let ops = &column.ops;
    let waited = |(at, op): (usize, &Op)| op.work() == 0 || ops[at..].contains(&Op::Wait(op.work()));
    let uses = |node: u8| {
        let remote = ops.iter().filter_map(|op| op.remote());
        remote
            .into_iter()
            .any(|l| sketch.locations[usize::from(l)] == node)
    };
    let fenced = |op: &Op| matches!(*op, Op::Rfence(node) if !uses(node));
    ops.iter().enumerate().all(waited) && !ops.iter().any(fenced)
}

/// Returns whether the threads form one group, in which common locations link all of them.
fn is_connected(sketch: &Sketch) -> bool {
    let sets: Vec<u64> = sketch
        .threads
        .iter()
        .map(|c| {
            c.ops
                .iter()
                .flat_map(|op| op.locations())
                .fold(0, |set, l| set | 1 << l)
        })
        .collect();
    let mut reached = sets.first().copied().unwrap_or(0);
    let mut left: Vec<u64> = sets.into_iter().skip(1).collect();
    while let Some(next) = left.iter().position(|set| set & reached != 0) {
        reached |= left.swap_remove(next);
    }
    left.is_empty()
}

/// Writes programs instruction by instruction.
struct Writer<'a> {
    language: &'a Language,
    lengths: &'a [u8],
    sketch: Sketch,
    /// Hands out beginnings with so many instructions instead of programs.
    stop_at: Option<usize>,
}

impl<'a> Writer<'a> {
    fn new(language: &'a Language, lengths: &'a [u8]) -> Writer<'a> {
        Writer {
            language,
            lengths,
            sketch: Sketch {
                threads: Vec::new(),
                locations: Vec::new(),
                relaxed: Vec::new(),
            },
            stop_at: None,
        }
    }

    /// Returns the number of nodes in use.
    fn nodes(&self) -> u8 {
        let threads = self.sketch.threads.iter().map(|t| t.node);
        let nodes = threads.chain(self.sketch.locations.iter().copied());
        let fences = self.sketch.ops().filter_map(|op| match op {
            Op::Rfence(node) => Some(node),
            _ => None,
        });
        nodes.chain(fences).max().map_or(0, |node| node + 1)
    }

    /// Begins the next thread on every node, or hands out the program if there is none.
    fn begin_thread(&mut self, each: &mut dyn FnMut(&Sketch)) {
        if self.sketch.threads.len() == self.lengths.len() {
            return each(&self.sketch);
        }
        for node in 0..(self.nodes() + 1).min(self.language.nodes) {
            self.sketch.threads.push(Column::of(node));
            self.continue_thread(each);
            self.sketch.threads.pop();
        }
    }

    /// Appends every next instruction to the last thread, or goes on to the next thread.
    fn continue_thread(&mut self, each: &mut dyn FnMut(&Sketch)) {
        if self.stop_at.is_some_and(|size| self.sketch.size() >= size) {
            return each(&self.sketch);
        }
        let Some(column) = self.sketch.threads.last() else {
            return self.begin_thread(each);
        };
        let length = usize::from(self.lengths[self.sketch.threads.len() - 1]);
        if column.ops.len() == length {
            return self.begin_thread(each);
        }
        for op in self.options(length) {
            let known = self.sketch.locations.len();
            self.append(op);
            if self.can_be_completed() {
                self.continue_thread(each);
            }
            self.sketch.locations.truncate(known);
            if let Some(column) = self.sketch.threads.last_mut() {
                column.ops.pop();
            }
        }
    }

    fn append(&mut self, draft: Draft) {
        self.sketch.locations.extend(draft.fresh.into_iter().flatten());
        if let Some(column) = self.sketch.threads.last_mut() {
            column.ops.push(draft.op);
        }
    }

    /// Returns false if more locations need further accesses than the instructions that are left can make.
    fn can_be_completed(&self) -> bool {
        if self.language.idle {
            return true;
        }
        let total: usize = self.lengths.iter().map(|&l| usize::from(l)).sum();
        let left = total - self.sketch.size();
        let needed: usize = (0..self.sketch.locations.len())
            .map(|l| needs(&self.sketch, l as u8))
            .sum();
        needed <= 2 * left
    }

    /// Returns the instructions that may come next in the last thread.
    fn options(&self, length: usize) -> Vec<Draft> {
        let Some(column) = self.sketch.threads.last() else {
            return Vec::new();
        };
        let language = self.language;
        let mut out = Vec::new();
        for (x, fresh) in self.places(None, |node| node == column.node) {
            let mut push = |op| {
                out.push(Draft {
                    op,
                    fresh: [fresh, None],
                })
            };
            push(Op::Load(x));
            push(Op::Store(x));
            if language.cas {
                push(Op::Cas(x, Expected::Initial));
            }
        }
        self.orderings(column, length, &mut out);
        if language.remote {
            for work in self.works(column) {
                self.remote_operations(column.node, work, &mut out);
            }
        }
        out
    }

    /// Adds fences, polls and waits.
    fn orderings(&self, column: &Column, length: usize, out: &mut Vec<Draft>) {
        let language = self.language;
        let at = column.ops.len();
        let mut push = |op: Op| {
            let serves = at > 0 && at + 1 < length && column.ops.last() != Some(&op);
            if language.idle || serves {
                out.push(Draft { op, fresh: [None; 2] });
            }
        };
        if language.fences {
            push(Op::Mfence);
        }
        let peer = |op: &Op| op.remote().map(|l| self.sketch.locations[usize::from(l)]);
        if language.remote_fences && (language.idle || column.ops.iter().any(|op| op.remote().is_some())) {
            for node in 0..(self.nodes() + 1).min(language.nodes) {
                if node != column.node || language.loopback {
                    push(Op::Rfence(node));
                }
            }
        }
        if language.polls {
            for node in 0..self.nodes() {
                let posted = column.ops.iter().filter(|op| peer(op) == Some(node)).count();
                let polled = column.ops.iter().filter(|&&op| op == Op::Poll(node)).count();
                if posted > polled && (language.idle || at + 1 < length) {
                    out.push(Draft {
                        op: Op::Poll(node),
                        fresh: [None; 2],
                    });
                }
            }
        }
        if language.waits {
            let last = column.ops.iter().map(|op| op.work()).max().unwrap_or(0);
            for work in 1..=last {
                let again = column.ops.last() == Some(&Op::Wait(work));
                if language.idle || (at + 1 < length && !again) {
                    out.push(Draft {
                        op: Op::Wait(work),
                        fresh: [None; 2],
                    });
                }
            }
        }
    }

    /// Returns the work identifiers that the next remote operation may have: none, one in use, or the next.
    fn works(&self, column: &Column) -> std::ops::RangeInclusive<u8> {
        match self.language.waits {
            true => 0..=column.ops.iter().map(|op| op.work()).max().unwrap_or(0) + 1,
            false => 0..=0,
        }
    }

    /// Adds puts, gets and remote read-modify-writes with this work identifier.
    fn remote_operations(&self, own: u8, work: u8, out: &mut Vec<Draft>) {
        let loopback = self.language.loopback;
        let remote = |node: u8| node != own || loopback;
        let local = |node: u8| node == own;
        for (dst, first) in self.places(None, remote) {
            if self.language.constant_puts {
                let op = Op::PutConst { dst, work };
                out.push(Draft {
                    op,
                    fresh: [first, None],
                });
            }
            for (src, second) in self.places(first, local) {
                if src != dst {
                    let op = Op::Put { dst, src, work };
                    out.push(Draft {
                        op,
                        fresh: [first, second],
                    });
                }
            }
        }
        for (dst, first) in self.places(None, local) {
            for (far, second) in self.places(first, remote) {
                if far == dst {
                    continue;
                }
                let mut push = |op| {
                    out.push(Draft {
                        op,
                        fresh: [first, second],
                    })
                };
                push(Op::Get { dst, src: far, work });
                if self.language.rmw {
                    push(Op::Faa {
                        dst,
                        target: far,
                        work,
                    });
                    push(Op::RemoteCas {
                        dst,
                        target: far,
                        expected: Expected::Initial,
                        work,
                    });
                }
            }
        }
    }

    /// Returns the locations on accepted nodes: those that exist, `first` (made by the same instruction) among them, and a fresh one on
    /// every node and on one node more, each with its node if it is fresh.
    fn places(&self, first: Option<u8>, accept: impl Fn(u8) -> bool) -> Vec<(u8, Option<u8>)> {
        let mut nodes = self.sketch.locations.clone();
        nodes.extend(first);
        let mut out: Vec<(u8, Option<u8>)> = (0..nodes.len())
            .filter(|&l| accept(nodes[l]))
            .map(|l| (l as u8, None))
            .collect();
        if nodes.len() < usize::from(self.language.locations) {
            let known = self.nodes().max(first.map_or(0, |node| node + 1));
            let fresh = (0..(known + 1).min(self.language.nodes)).filter(|&node| accept(node));
            out.extend(fresh.map(|node| (nodes.len() as u8, Some(node))));
        }
        out
    }
}

/// An instruction, and the nodes of the locations that it brings in.
#[derive(Clone, Copy)]
struct Draft {
    op: Op,
    fresh: [Option<u8>; 2],
}
