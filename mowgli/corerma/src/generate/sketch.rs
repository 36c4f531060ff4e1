//! Programs under enumeration: which operations stand where, without names and values.
//!
//! All accesses are atomic. A single process has the locations X and Y. Several processes have one location each, and
//! address one another only. A location has as many local reads as writes, initial writes apart, as in all tests that
//! coreRMA'16 prints (`docs/evidence/generation.md`). Sketches that differ only in the numbering of processes and locations
//! count as one, and [`Sketch::is_canonical`] picks the representative.

use smallvec::SmallVec;

/// The most processes of a sketch.
pub const PROCESSES_MAX: usize = 4;

/// An operation; the numbers are locations, and nodes for `Flush`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// Local read.
    Read(u8),
    /// Local write of a fresh value.
    Write(u8),
    /// Flush towards the node.
    Flush(u8),
    /// Get: destination, source at the target.
    Get(u8, u8),
    /// Put: destination at the target, source.
    Put(u8, u8),
    /// Get accumulate: destination, target, addend.
    Rga(u8, u8, u8),
    /// Compare and swap: destination, target, expected, new.
    Cas(u8, u8, u8, u8),
}

impl Op {
    /// Returns the number of its actions.
    pub fn actions(self) -> usize {
        match self {
            Op::Read(_) | Op::Write(_) | Op::Flush(_) => 1,
            Op::Get(..) | Op::Put(..) => 2,
            Op::Rga(..) => 3,
            Op::Cas(..) => 4,
        }
    }

    /// Returns the locations that it writes.
    pub fn writes(self) -> SmallVec<[u8; 2]> {
        match self {
            Op::Read(_) | Op::Flush(_) => SmallVec::new(),
            Op::Write(x) | Op::Get(x, _) | Op::Put(x, _) => SmallVec::from_slice(&[x]),
            Op::Rga(x, z, _) | Op::Cas(x, z, _, _) => SmallVec::from_slice(&[x, z]),
        }
    }

    /// Returns the operation with locations and nodes renumbered.
    fn renamed(self, to: &Renaming) -> Op {
        let at = |x: u8| to.locations[usize::from(x)];
        match self {
            Op::Read(x) => Op::Read(at(x)),
            Op::Write(x) => Op::Write(at(x)),
            Op::Flush(n) => Op::Flush(to.nodes[usize::from(n)]),
            Op::Get(x, z) => Op::Get(at(x), at(z)),
            Op::Put(z, x) => Op::Put(at(z), at(x)),
            Op::Rga(x, z, y) => Op::Rga(at(x), at(z), at(y)),
            Op::Cas(x, z, y, w) => Op::Cas(at(x), at(z), at(y), at(w)),
        }
    }

    /// Calls `visit` with each location of the operation.
    fn locations(self, visit: &mut impl FnMut(u8)) {
        match self {
            Op::Flush(_) => {}
            Op::Read(x) | Op::Write(x) => visit(x),
            Op::Get(x, y) | Op::Put(x, y) => [x, y].into_iter().for_each(visit),
            Op::Rga(x, y, z) => [x, y, z].into_iter().for_each(visit),
            Op::Cas(x, y, z, w) => [x, y, z, w].into_iter().for_each(visit),
        }
    }
}

/// The space of sketches: processes and their operations.
#[derive(Clone, Debug)]
pub struct Space {
    processes: usize,
    size: usize,
    ops: Vec<Vec<Op>>,
    renamings: Vec<Renaming>,
}

/// A renumbering of locations and nodes, other than the identity.
#[derive(Clone, Debug)]
struct Renaming {
    locations: [u8; PROCESSES_MAX],
    nodes: [u8; PROCESSES_MAX],
}

/// A program as lists of operations, one for each process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sketch {
    /// The operations of each process.
    pub code: SmallVec<[SmallVec<[Op; 12]>; 2]>,
}

/// A step of the enumeration: an operation of the current process, or its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The current process has this further operation.
    Op(Op),
    /// The current process is complete.
    End,
}

impl Space {
    /// Returns the sketches of so many processes with at most `size` actions, initial writes among them.
    pub fn new(processes: usize, size: usize) -> Space {
        Space {
            processes,
            size,
            ops: (0..processes).map(|p| ops(processes, p as u8)).collect(),
            renamings: renamings(processes),
        }
    }

    /// Returns the number of locations: one a process, but two for a single one.
    pub fn locations(&self) -> usize {
        self.processes.max(2)
    }

    /// Visits every complete sketch that begins with `prefix`, in a fixed order, until `visit` returns false.
    pub fn visit(&self, prefix: &[Step], visit: &mut dyn FnMut(&Sketch) -> bool) -> bool {
        let mut walk = Walk::new(self);
        if !prefix.iter().all(|&step| walk.push(step)) {
            return true;
        }
        walk.complete(visit)
    }

    /// Returns the prefixes of `depth` steps, and the complete sketches that are shorter, in the order of [`Space::visit`].
    pub fn prefixes(&self, depth: usize) -> Vec<Vec<Step>> {
        let mut out = Vec::new();
        Walk::new(self).prefixes(&mut Vec::new(), depth, &mut out);
        out
    }
}

/// Returns the operations of a process, in order.
fn ops(processes: usize, process: u8) -> Vec<Op> {
    let mut out = Vec::new();
    let own: Vec<u8> = if processes == 1 { vec![0, 1] } else { vec![process] };
    let others: Vec<u8> = if processes == 1 {
        vec![0, 1]
    } else {
        (0..processes as u8).filter(|&p| p != process).collect()
    };
    for &x in &own {
        out.push(Op::Read(x));
        out.push(Op::Write(x));
        for &z in &others {
            out.push(Op::Get(x, z));
            out.push(Op::Put(z, x));
            for &y in &own {
                out.push(Op::Rga(x, z, y));
                out.extend(own.iter().map(|&w| Op::Cas(x, z, y, w)));
            }
        }
    }
    let nodes = if processes == 1 { vec![0] } else { others };
    out.extend(nodes.into_iter().map(Op::Flush));
    out.sort_unstable();
    out
}

/// Returns the renumberings of a space: of the two locations of one process, or of several processes with theirs.
fn renamings(processes: usize) -> Vec<Renaming> {
    let mut all = vec![Vec::new()];
    for _ in 0..processes.max(2) {
        let extended = all.iter().flat_map(|taken: &Vec<u8>| {
            let free = (0..processes.max(2) as u8).filter(|n| !taken.contains(n));
            free.map(|n| [taken.as_slice(), &[n]].concat())
                .collect::<Vec<_>>()
        });
        all = extended.collect();
    }
    let identity: Vec<u8> = (0..processes.max(2) as u8).collect();
    all.retain(|permutation| *permutation != identity);
    all.into_iter()
        .map(|permutation| {
            let mut locations = [0; PROCESSES_MAX];
            locations[..permutation.len()].copy_from_slice(&permutation);
            let nodes = if processes == 1 {
                [0; PROCESSES_MAX]
            } else {
                locations
            };
            Renaming { locations, nodes }
        })
        .collect()
}

impl Sketch {
    /// Returns the number of actions, initial writes among them.
    pub fn size(&self, space: &Space) -> usize {
        let actions: usize = self.code.iter().flatten().map(|op| op.actions()).sum();
        actions + space.used(self.code.iter().flatten())
    }

    /// Returns whether an operation names the location.
    pub fn uses(&self, location: u8) -> bool {
        let mut used = false;
        let ops = self.code.iter().flatten();
        ops.for_each(|op| op.locations(&mut |x| used |= x == location));
        used
    }

    /// Returns whether remote operations connect all processes. The location of each of several processes has its number.
    pub fn is_connected(&self) -> bool {
        let mut reached = 1u64;
        loop {
            let before = reached;
            let all = self.code.iter().enumerate();
            for (process, op) in all.flat_map(|(p, ops)| ops.iter().map(move |op| (p, op))) {
                let mut of = 1u64 << process;
                op.locations(&mut |x| of |= 1 << x);
                if self.code.len() > 1 && of & reached != 0 {
                    reached |= of;
                }
            }
            if reached == before {
                return reached.count_ones() as usize == self.code.len().max(1);
            }
        }
    }

    /// Returns whether no renumbering gives a smaller sketch.
    pub fn is_canonical(&self, space: &Space) -> bool {
        space
            .renamings
            .iter()
            .all(|renaming| *self <= self.renamed(renaming))
    }

    fn renamed(&self, to: &Renaming) -> Sketch {
        let mut code = self.code.clone();
        for (process, of) in self.code.iter().enumerate() {
            let place = usize::from(to.nodes[process]);
            code[place] = of.iter().map(|op| op.renamed(to)).collect();
        }
        Sketch { code }
    }

    /// Returns every renumbering of the sketch, itself included.
    pub fn variants(&self, space: &Space) -> Vec<Sketch> {
        let others = space.renamings.iter().map(|renaming| self.renamed(renaming));
        std::iter::once(self.clone()).chain(others).collect()
    }
}

impl Space {
    /// Returns how many locations there are initial writes for: all of several processes, those in use of a single one.
    fn used<'a>(&self, ops: impl Iterator<Item = &'a Op>) -> usize {
        if self.processes > 1 {
            return self.processes;
        }
        let mut used = [false; PROCESSES_MAX];
        ops.for_each(|op| op.locations(&mut |x| used[usize::from(x)] = true));
        used.iter().filter(|&&used| used).count()
    }
}

/// A sketch under construction.
struct Walk<'a> {
    space: &'a Space,
    sketch: Sketch,
    /// The process under construction.
    process: usize,
    actions: usize,
    /// Writes of each location less its local reads.
    owed: [i8; PROCESSES_MAX],
}

impl Walk<'_> {
    fn new(space: &Space) -> Walk<'_> {
        Walk {
            space,
            sketch: Sketch {
                code: (0..space.processes).map(|_| SmallVec::new()).collect(),
            },
            process: 0,
            actions: 0,
            owed: [0; PROCESSES_MAX],
        }
    }

    /// Takes a step, unless no complete sketch of the size can follow.
    fn push(&mut self, step: Step) -> bool {
        match step {
            Step::End => self.process += 1,
            Step::Op(op) => {
                self.sketch.code[self.process].push(op);
                self.actions += op.actions();
                self.owe(op, 1);
            }
        }
        if self.has_room() {
            return true;
        }
        self.pop(step);
        false
    }

    fn pop(&mut self, step: Step) {
        match step {
            Step::End => self.process -= 1,
            Step::Op(op) => {
                self.sketch.code[self.process].pop();
                self.actions -= op.actions();
                self.owe(op, -1);
            }
        }
    }

    fn owe(&mut self, op: Op, sign: i8) {
        if let Op::Read(x) = op {
            self.owed[usize::from(x)] -= sign;
        }
        for x in op.writes() {
            self.owed[usize::from(x)] += sign;
        }
    }

    /// Returns whether the reads or writes that are owed fit.
    fn has_room(&self) -> bool {
        let space = self.space;
        let used = space.used(self.sketch.code.iter().flatten());
        let owed: usize = self.owed.iter().map(|o| usize::from(o.unsigned_abs())).sum();
        let is_open = |location: usize| {
            // Reads of a location stand in its process.
            let owner = if space.processes == 1 { 0 } else { location };
            owner >= self.process
        };
        let closed = (0..space.locations()).all(|x| self.owed[x] <= 0 || is_open(x));
        let all_over = self.process == space.processes;
        closed && (!all_over || owed == 0) && self.actions + used + owed <= space.size
    }

    fn steps(&self) -> impl Iterator<Item = Step> + use<> {
        let ops = self.space.ops.get(self.process).cloned();
        let end = ops.is_some().then_some(Step::End);
        end.into_iter()
            .chain(ops.unwrap_or_default().into_iter().map(Step::Op))
    }

    fn complete(&mut self, visit: &mut dyn FnMut(&Sketch) -> bool) -> bool {
        let Some(count) = self.space.ops.get(self.process).map(Vec::len) else {
            return visit(&self.sketch);
        };
        for index in 0..=count {
            let step = match index.checked_sub(1) {
                None => Step::End,
                Some(index) => Step::Op(self.space.ops[self.process][index]),
            };
            if self.push(step) {
                let go_on = self.complete(visit);
                self.pop(step);
                if !go_on {
                    return false;
                }
            }
        }
        true
    }

    fn prefixes(&mut self, path: &mut Vec<Step>, depth: usize, out: &mut Vec<Vec<Step>>) {
        if path.len() == depth || self.process == self.space.processes {
            out.push(path.clone());
            return;
        }
        for step in self.steps() {
            if self.push(step) {
                path.push(step);
                self.prefixes(path, depth, out);
                path.pop();
                self.pop(step);
            }
        }
    }
}
