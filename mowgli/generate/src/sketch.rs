//! A program as the enumeration sees it, its canonical form, and the program that it stands for.
//!
//! A [`Sketch`] has no names and no values. Nodes and locations are numbers, every read has a register of its own, and every write a value
//! of its own, so that registers and values follow from the sketch. What remains of symmetry is the order of threads and the numbers
//! of nodes and locations: [`Sketch::canonical`] chooses the representative.

use mowgli::program::{Expr, Instr, Loc, Location, Node, Program, PutSrc, Reg, Thread, Value, WorkId};

use crate::order::permutations;

/// The value that a compare-and-swap expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Expected {
    /// The initial value of its location.
    Initial,
    /// The value that the instruction at this position of this thread writes to the location.
    Written {
        /// Thread.
        thread: u8,
        /// Position in the thread, from 0.
        at: u8,
    },
}

/// An instruction. Locations and nodes are numbers; `work` is a work identifier of the thread from 1, and 0 for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// CPU load.
    Load(u8),
    /// CPU store.
    Store(u8),
    /// CPU memory fence.
    Mfence,
    /// CPU compare-and-swap.
    Cas(u8, Expected),
    /// Put of a local location.
    Put {
        /// Remote destination.
        dst: u8,
        /// Local source.
        src: u8,
        /// Work identifier.
        work: u8,
    },
    /// Put of a constant.
    PutConst {
        /// Remote destination.
        dst: u8,
        /// Work identifier.
        work: u8,
    },
    /// Get.
    Get {
        /// Local destination.
        dst: u8,
        /// Remote source.
        src: u8,
        /// Work identifier.
        work: u8,
    },
    /// Remote fence towards a node.
    Rfence(u8),
    /// Poll of the queue pair to a node.
    Poll(u8),
    /// Wait on a work identifier.
    Wait(u8),
    /// Remote fetch-and-add.
    Faa {
        /// Local destination of the old value.
        dst: u8,
        /// Remote location.
        target: u8,
        /// Work identifier.
        work: u8,
    },
    /// Remote compare-and-swap.
    RemoteCas {
        /// Local destination of the old value.
        dst: u8,
        /// Remote location.
        target: u8,
        /// The value expected at the target.
        expected: Expected,
        /// Work identifier.
        work: u8,
    },
}

impl Op {
    /// Returns the locations that the instruction accesses.
    pub fn locations(self) -> impl Iterator<Item = u8> {
        let (first, second) = match self {
            Op::Load(x) | Op::Store(x) | Op::Cas(x, _) | Op::PutConst { dst: x, .. } => (Some(x), None),
            Op::Put { dst, src, .. } | Op::Get { dst, src, .. } => (Some(dst), Some(src)),
            Op::Faa { dst, target, .. } | Op::RemoteCas { dst, target, .. } => (Some(dst), Some(target)),
            Op::Mfence | Op::Rfence(_) | Op::Poll(_) | Op::Wait(_) => (None, None),
        };
        first.into_iter().chain(second)
    }

    /// Returns whether the instruction can write this location.
    pub fn writes(self, loc: u8) -> bool {
        match self {
            Op::Store(x) | Op::Cas(x, _) => x == loc,
            Op::Put { dst, .. } | Op::PutConst { dst, .. } | Op::Get { dst, .. } => dst == loc,
            Op::Faa { dst, target, .. } | Op::RemoteCas { dst, target, .. } => dst == loc || target == loc,
            Op::Load(_) | Op::Mfence | Op::Rfence(_) | Op::Poll(_) | Op::Wait(_) => false,
        }
    }

    /// Returns the location to which the instruction writes a constant of its own, if it does.
    pub fn writes_constant(self) -> Option<u8> {
        match self {
            Op::Store(x) | Op::Cas(x, _) | Op::PutConst { dst: x, .. } => Some(x),
            Op::RemoteCas { target, .. } => Some(target),
            _ => None,
        }
    }

    /// Returns the location to which the instruction copies what it read elsewhere, if it does.
    pub fn copies_to(self) -> Option<u8> {
        match self {
            Op::Put { dst, .. } | Op::Get { dst, .. } | Op::Faa { dst, .. } | Op::RemoteCas { dst, .. } => {
                Some(dst)
            }
            _ => None,
        }
    }

    /// Returns the location whose copy the instruction writes elsewhere, if it writes one.
    pub fn copies_from(self) -> Option<u8> {
        match self {
            Op::Put { src, .. } | Op::Get { src, .. } => Some(src),
            Op::Faa { target, .. } | Op::RemoteCas { target, .. } => Some(target),
            _ => None,
        }
    }

    /// Returns the remote location of a put, get or read-modify-write.
    pub fn remote(self) -> Option<u8> {
        match self {
            Op::Put { dst, .. } | Op::PutConst { dst, .. } => Some(dst),
            Op::Get { src, .. } => Some(src),
            Op::Faa { target, .. } | Op::RemoteCas { target, .. } => Some(target),
            _ => None,
        }
    }

    /// Returns the work identifier of a remote operation, 0 if it has none.
    pub fn work(self) -> u8 {
        match self {
            Op::Put { work, .. }
            | Op::PutConst { work, .. }
            | Op::Get { work, .. }
            | Op::Faa { work, .. }
            | Op::RemoteCas { work, .. } => work,
            _ => 0,
        }
    }

    /// Returns the expectation of a compare-and-swap and the location that it is about.
    pub fn expectation(&mut self) -> Option<(u8, &mut Expected)> {
        match self {
            Op::Cas(loc, expected) => Some((*loc, expected)),
            Op::RemoteCas { target, expected, .. } => Some((*target, expected)),
            _ => None,
        }
    }
}

/// The code of one thread.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Column {
    /// Its node.
    pub node: u8,
    /// Its instructions.
    pub ops: Vec<Op>,
    /// The positions of the instructions that ask for strong order, ascending.
    pub strong: Vec<u8>,
}

impl Column {
    /// Returns a thread of a node without instructions.
    pub fn of(node: u8) -> Column {
        Column {
            node,
            ops: Vec::new(),
            strong: Vec::new(),
        }
    }
}

/// A program without names and values.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sketch {
    /// The threads.
    pub threads: Vec<Column>,
    /// The node of each location.
    pub locations: Vec<u8>,
    /// The locations in regions of relaxed ordering, ascending.
    pub relaxed: Vec<u8>,
}

/// Marks a location of a relaxed region in an encoding.
const RELAXED: u8 = 0x80;
/// Marks an instruction that asks for strong order in an encoding.
const STRONG: u8 = 0xff;

impl Sketch {
    /// Returns the number of instructions.
    pub fn size(&self) -> usize {
        self.threads.iter().map(|t| t.ops.len()).sum()
    }

    /// Returns every instruction.
    pub fn ops(&self) -> impl Iterator<Item = Op> + '_ {
        self.threads.iter().flat_map(|t| t.ops.iter().copied())
    }

    /// Returns whether the sketch is the one that stands for all sketches equal to it up to symmetry.
    pub fn is_canonical(&self) -> bool {
        let own = self.encode(&(0..self.threads.len()).collect::<Vec<_>>());
        self.orders().all(|order| self.encode(&order) >= own) && self.is_numbered()
    }

    /// Returns the representative of all sketches that are equal up to the order of threads and the numbers of nodes and locations:
    /// longer threads come first, nodes and locations are numbered as they appear, and among these the least encoding is taken.
    #[must_use]
    pub fn canonical(&self) -> Sketch {
        let best = self.orders().min_by_key(|order| self.encode(order));
        best.map_or_else(|| self.clone(), |order| self.renumbered(&order))
    }

    /// Iterates over the orders of threads in which no thread comes before a longer one.
    fn orders(&self) -> impl Iterator<Item = Vec<usize>> + '_ {
        let falling = |order: &Vec<usize>| {
            let lengths = order.windows(2);
            lengths
                .into_iter()
                .all(|w| self.threads[w[0]].ops.len() >= self.threads[w[1]].ops.len())
        };
        permutations(self.threads.len()).into_iter().filter(falling)
    }

    fn is_numbered(&self) -> bool {
        self.renumbered(&(0..self.threads.len()).collect::<Vec<_>>()) == *self
    }

    /// Writes the sketch as numbers, with the threads in this order and nodes and locations numbered as they appear.
    fn encode(&self, order: &[usize]) -> Vec<u8> {
        let sketch = self.renumbered(order);
        let mut out = Vec::with_capacity(4 * self.size() + 2 * self.threads.len());
        let mut shown = 0;
        for column in &sketch.threads {
            out.extend([column.ops.len() as u8, column.node]);
            for (at, op) in (0..).zip(&column.ops) {
                if column.strong.contains(&at) {
                    out.push(STRONG);
                }
                op.encode(&mut out);
                for loc in op.locations() {
                    if loc >= shown {
                        let mark = if sketch.relaxed.contains(&loc) { RELAXED } else { 0 };
                        out.push(sketch.locations[usize::from(loc)] | mark);
                        shown = loc + 1;
                    }
                }
            }
        }
        out
    }

    /// Takes the threads in this order and numbers nodes and locations in the order in which they appear.
    fn renumbered(&self, order: &[usize]) -> Sketch {
        let mut names = Names {
            old: self,
            thread: vec![0; self.threads.len()],
            nodes: Vec::new(),
            locations: Vec::new(),
        };
        for (new, &old) in order.iter().enumerate() {
            names.thread[old] = new as u8;
        }
        let column = |&t: &usize| {
            let node = names.node(self.threads[t].node);
            let ops = self.threads[t].ops.iter().map(|&op| names.op(op)).collect();
            Column {
                node,
                ops,
                strong: self.threads[t].strong.clone(),
            }
        };
        let threads = order.iter().map(column).collect();
        let locations = std::mem::take(&mut names.locations);
        Sketch {
            threads,
            locations: locations
                .iter()
                .map(|&l| names.node(self.locations[usize::from(l)]))
                .collect(),
            relaxed: (0..)
                .zip(&locations)
                .filter_map(|(new, old)| self.relaxed.contains(old).then_some(new))
                .collect(),
        }
    }

    /// Makes the program. Initial values are 0, or distinct where the network card copies a location. Constants count on from there,
    /// addends are 10, 20, 40 and so on, so that every value says where it comes from.
    pub fn program(&self) -> Program {
        let copied: Vec<bool> = (0..self.locations.len())
            .map(|l| self.ops().any(|op| op.copies_from() == Some(l as u8)))
            .collect();
        let mut next: Value = 0;
        let mut fresh = || {
            next += 1;
            next
        };
        let inits: Vec<Value> = copied.iter().map(|&c| if c { fresh() } else { 0 }).collect();
        let constants: Vec<Vec<Value>> = self
            .threads
            .iter()
            .map(|t| {
                t.ops
                    .iter()
                    .map(|op| op.writes_constant().map_or(0, |_| fresh()))
                    .collect()
            })
            .collect();
        let mut addend: Value = 5;
        let names = ["x", "y", "z", "w", "v", "u", "t", "s"];
        let locations = self.locations.iter().enumerate().map(|(l, &node)| Location {
            name: names
                .get(l)
                .map_or_else(|| format!("x{l}"), |&name| name.to_owned()),
            node: Node(node),
            init: inits[l],
            relaxed: self.relaxed.contains(&(l as u8)),
        });
        let threads = self.threads.iter().enumerate().map(|(t, column)| {
            let mut registers = Vec::new();
            let mut read = || {
                registers.push(format!("r{}", registers.len()));
                Reg(registers.len() as u16 - 1)
            };
            let works = column.ops.iter().map(|op| op.work()).max().unwrap_or(0);
            let code = column.ops.iter().enumerate().map(|(at, &op)| {
                let loc = |l: u8| Loc(l.into());
                let id = |work: u8| work.checked_sub(1).map(|w| WorkId(w.into()));
                let own = Expr::Const(constants[t][at]);
                let expects = |l: u8, expected| {
                    Expr::Const(match expected {
                        Expected::Initial => inits[usize::from(l)],
                        Expected::Written { thread, at } => constants[usize::from(thread)][usize::from(at)],
                    })
                };
                let instr = match op {
                    Op::Load(x) => Instr::Load {
                        reg: read(),
                        loc: loc(x),
                    },
                    Op::Store(x) => Instr::Store {
                        loc: loc(x),
                        value: own,
                    },
                    Op::Mfence => Instr::Mfence,
                    Op::Cas(x, expected) => Instr::Cas {
                        reg: Some(read()),
                        loc: loc(x),
                        expected: expects(x, expected),
                        new: own,
                    },
                    Op::Put { dst, src, work } => Instr::Put {
                        dst: loc(dst),
                        src: PutSrc::Loc(loc(src)),
                        work: id(work),
                    },
                    Op::PutConst { dst, work } => Instr::Put {
                        dst: loc(dst),
                        src: PutSrc::Value(own),
                        work: id(work),
                    },
                    Op::Get { dst, src, work } => Instr::Get {
                        dst: loc(dst),
                        src: loc(src),
                        work: id(work),
                    },
                    Op::Rfence(node) => Instr::Rfence { node: Node(node) },
                    Op::Poll(node) => Instr::Poll { node: Node(node) },
                    Op::Wait(work) => Instr::Wait {
                        work: WorkId(u16::from(work).saturating_sub(1)),
                    },
                    Op::Faa { dst, target, work } => {
                        addend *= 2;
                        Instr::RemoteFaa {
                            dst: loc(dst),
                            target: loc(target),
                            add: Expr::Const(addend),
                            work: id(work),
                        }
                    }
                    Op::RemoteCas {
                        dst,
                        target,
                        expected,
                        work,
                    } => Instr::RemoteCas {
                        dst: loc(dst),
                        target: loc(target),
                        expected: expects(target, expected),
                        new: own,
                        work: id(work),
                    },
                };
                match column.strong.contains(&(at as u8)) {
                    true => Instr::Strong(Box::new(instr)),
                    false => instr,
                }
            });
            let code = code.collect();
            Thread {
                name: format!("P{t}"),
                node: Node(column.node),
                registers,
                work_ids: (1..=works).map(|w| format!("d{w}")).collect(),
                code,
            }
        });
        let threads: Vec<Thread> = threads.collect();
        let fences = self.ops().filter_map(|op| match op {
            Op::Rfence(node) => Some(node),
            _ => None,
        });
        let nodes = self
            .threads
            .iter()
            .map(|t| t.node)
            .chain(self.locations.iter().copied())
            .chain(fences);
        Program {
            nodes: nodes.max().unwrap_or(0) + 1,
            locations: locations.collect(),
            threads,
        }
    }
}

impl Op {
    fn encode(self, out: &mut Vec<u8>) {
        let expects = |expected| match expected {
            Expected::Initial => [0, 0],
            Expected::Written { thread, at } => [thread + 1, at],
        };
        match self {
            Op::Load(x) => out.extend([0, x]),
            Op::Store(x) => out.extend([1, x]),
            Op::Mfence => out.push(2),
            Op::Cas(x, expected) => {
                out.extend([3, x]);
                out.extend(expects(expected));
            }
            Op::Put { dst, src, work } => out.extend([4, dst, src, work]),
            Op::PutConst { dst, work } => out.extend([5, dst, work]),
            Op::Get { dst, src, work } => out.extend([6, dst, src, work]),
            Op::Rfence(node) => out.extend([7, node]),
            Op::Poll(node) => out.extend([8, node]),
            Op::Wait(work) => out.extend([9, work]),
            Op::Faa { dst, target, work } => out.extend([10, dst, target, work]),
            Op::RemoteCas {
                dst,
                target,
                expected,
                work,
            } => {
                out.extend([11, dst, target, work]);
                out.extend(expects(expected));
            }
        }
    }
}

/// New numbers of nodes and locations, given as they are asked for.
struct Names<'a> {
    old: &'a Sketch,
    /// New number of each thread.
    thread: Vec<u8>,
    /// Old numbers of the nodes named so far.
    nodes: Vec<u8>,
    /// Old numbers of the locations named so far.
    locations: Vec<u8>,
}

impl Names<'_> {
    fn node(&mut self, old: u8) -> u8 {
        place(&mut self.nodes, old)
    }

    fn location(&mut self, old: u8) -> u8 {
        let new = place(&mut self.locations, old);
        self.node(self.old.locations[usize::from(old)]);
        new
    }

    fn op(&mut self, op: Op) -> Op {
        let expects = |names: &Self, expected| match expected {
            Expected::Initial => Expected::Initial,
            Expected::Written { thread, at } => Expected::Written {
                thread: names.thread[usize::from(thread)],
                at,
            },
        };
        match op {
            Op::Load(x) => Op::Load(self.location(x)),
            Op::Store(x) => Op::Store(self.location(x)),
            Op::Cas(x, expected) => Op::Cas(self.location(x), expects(self, expected)),
            Op::Put { dst, src, work } => Op::Put {
                dst: self.location(dst),
                src: self.location(src),
                work,
            },
            Op::PutConst { dst, work } => Op::PutConst {
                dst: self.location(dst),
                work,
            },
            Op::Get { dst, src, work } => Op::Get {
                dst: self.location(dst),
                src: self.location(src),
                work,
            },
            Op::Rfence(node) => Op::Rfence(self.node(node)),
            Op::Poll(node) => Op::Poll(self.node(node)),
            Op::Faa { dst, target, work } => Op::Faa {
                dst: self.location(dst),
                target: self.location(target),
                work,
            },
            Op::RemoteCas {
                dst,
                target,
                expected,
                work,
            } => Op::RemoteCas {
                dst: self.location(dst),
                target: self.location(target),
                expected: expects(self, expected),
                work,
            },
            Op::Mfence | Op::Wait(_) => op,
        }
    }
}

/// Returns the place of `item` in the list, where it is put if it is not there.
fn place(list: &mut Vec<u8>, item: u8) -> u8 {
    let found = list.iter().position(|&x| x == item);
    found.unwrap_or_else(|| {
        list.push(item);
        list.len() - 1
    }) as u8
}
