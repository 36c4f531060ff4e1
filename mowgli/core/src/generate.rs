//! Generates random programs, and shrinks a program that shows something.
//!
//! Pure and reproducible: a program is a function of its [`Shape`] and seed on every platform, and later versions keep the function
//! unless they say otherwise. Used by the differential tests, which run the same programs through both engines, both
//! pipelines and all models.

pub mod families;
pub mod tiers;

use crate::program::{
    BinaryOp, Expr, Instr, Loc, Location, Node, Program, PutSrc, Reg, Thread, Value, WorkId,
};

/// The shape of generated programs. Counts are upper bounds; every program has at least one thread, one node and one
/// instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Nodes.
    pub nodes: u8,
    /// Locations on each node that all threads use. The results of gets and RMWs may have further locations.
    pub locations: u8,
    /// Threads.
    pub threads: u8,
    /// Instructions of all threads together.
    pub instructions: u8,
    /// Puts, gets and remote fences.
    pub remote: bool,
    /// Remote read-modify-writes.
    pub rmw: bool,
    /// Polls.
    pub polls: bool,
    /// Waits.
    pub waits: bool,
    /// Conditionals, bounded loops, choices and assumptions.
    pub control: bool,
}

impl Shape {
    /// Small programs with all instructions but waits.
    pub const SMALL: Shape = Shape {
        nodes: 2,
        locations: 2,
        threads: 3,
        instructions: 8,
        remote: true,
        rmw: true,
        polls: true,
        waits: false,
        control: false,
    };

    /// Small programs without remote operations.
    pub const CPU: Shape = Shape {
        nodes: 1,
        remote: false,
        rmw: false,
        polls: false,
        ..Shape::SMALL
    };
}

/// A generator of random numbers, SplitMix64. A seed names a program, in reports and in the tests that they lead to, so it
/// must name the same one for ever. The generators of `rand` may change with its versions.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Returns a generator for this seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Draws the next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Draws a number below `n`, or 0 if `n` is 0. The bias does not matter at these sizes.
    pub fn below(&mut self, n: usize) -> usize {
        if n == 0 {
            0
        } else {
            (self.bits() % n as u64) as usize
        }
    }

    /// Returns true with probability one in `n`.
    pub fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// Generates the program of a seed.
pub fn program(seed: u64, shape: &Shape) -> Program {
    let mut random = Random::new(seed);
    let nodes = 1 + random.below(shape.nodes.into()) as u8;
    let nodes = if shape.remote {
        nodes.max(shape.nodes.min(2))
    } else {
        nodes
    };
    let mut locations = Vec::new();
    for node in 0..nodes {
        for _ in 0..1 + random.below(shape.locations.into()) {
            let name = format!("x{}", locations.len());
            locations.push(Location {
                name,
                node: Node(node),
                init: 0,
                relaxed: false,
            });
        }
    }
    // Most programs have two threads, and every program has at least half of the instructions: programs that separate
    // models need a few accesses in each thread.
    let most = shape.threads.min(shape.instructions).max(1).into();
    let count = match random.below(8) {
        0 => 1,
        1..=5 => 2.min(most),
        _ => most,
    };
    let least = usize::from(shape.instructions).div_ceil(2);
    let instructions = least + random.below(usize::from(shape.instructions) - least + 1);
    let mut writer = Writer {
        random,
        shape,
        shared: locations.len(),
        locations,
        nodes,
        value: 0,
    };
    let mut threads: Vec<Draft> = (0..count)
        .map(|t| Draft {
            thread: Thread {
                name: format!("P{t}"),
                node: Node(writer.random.below(nodes.into()) as u8),
                registers: Vec::new(),
                work_ids: if shape.waits {
                    vec!["d".to_owned(), "e".to_owned()]
                } else {
                    Vec::new()
                },
                code: Vec::new(),
            },
            unpolled: vec![0; nodes.into()],
        })
        .collect();
    for _ in 0..instructions.max(1) {
        let at = writer.random.below(threads.len());
        let instr = writer.instr(&mut threads[at], 1);
        threads[at].thread.code.push(instr);
    }
    let threads = threads
        .into_iter()
        .map(|d| d.thread)
        .filter(|t| !t.code.is_empty())
        .collect();
    Program {
        nodes,
        locations: writer.locations,
        threads,
    }
}

/// Generates a program close to another: up to three instructions at top level are removed, inserted, replaced or exchanged
/// with their neighbour. Neighbours of a litmus test tell models apart far more often than random programs do.
pub fn mutate(program: &Program, seed: u64, shape: &Shape) -> Program {
    let mut writer = Writer {
        random: Random::new(seed),
        shape,
        shared: program.locations.len(),
        locations: program.locations.clone(),
        nodes: program.nodes,
        value: 100,
    };
    let mut drafts: Vec<Draft> = program
        .threads
        .iter()
        .map(|thread| Draft {
            thread: thread.clone(),
            // Polls may stand anywhere.
            unpolled: vec![u32::MAX / 2; program.nodes.into()],
        })
        .collect();
    for _ in 0..1 + writer.random.below(3) {
        let t = writer.random.below(drafts.len());
        let Some(draft) = drafts.get_mut(t) else { break };
        let len = draft.thread.code.len();
        let at = writer.random.below(len + 1);
        match writer.random.below(4) {
            0 if at < len => {
                draft.thread.code.remove(at);
            }
            1 if at + 1 < len => draft.thread.code.swap(at, at + 1),
            2 if at < len => draft.thread.code[at] = writer.instr(draft, 0),
            _ => {
                let instr = writer.instr(draft, 0);
                draft.thread.code.insert(at, instr);
            }
        }
    }
    Program {
        nodes: program.nodes,
        locations: writer.locations,
        threads: drafts.into_iter().map(|d| d.thread).collect(),
    }
}

struct Draft {
    thread: Thread,
    /// For each node, the operations towards it that no poll has answered yet.
    unpolled: Vec<u32>,
}

struct Writer<'s> {
    random: Random,
    shape: &'s Shape,
    locations: Vec<Location>,
    /// Locations before this one are shared; later ones hold one result each.
    shared: usize,
    nodes: u8,
    /// The next value to write. Written values are distinct, so that an outcome tells which write was read.
    value: Value,
}

impl Writer<'_> {
    fn instr(&mut self, draft: &mut Draft, depth: u32) -> Instr {
        loop {
            let kind = self.random.below(22);
            if let Some(instr) = self.attempt(kind, draft, depth) {
                return instr;
            }
        }
    }

    fn attempt(&mut self, kind: usize, draft: &mut Draft, depth: u32) -> Option<Instr> {
        let node = draft.thread.node;
        let shape = self.shape;
        Some(match kind {
            0..=2 => Instr::Store {
                loc: self.location_on(node),
                value: self.operand(&draft.thread),
            },
            3..=5 => Instr::Load {
                loc: self.location_on(node),
                reg: new_register(&mut draft.thread),
            },
            6 => Instr::Cas {
                loc: self.location_on(node),
                reg: Some(new_register(&mut draft.thread)),
                expected: Expr::Const(self.small()),
                new: Expr::Const(self.fresh()),
            },
            7 => Instr::Mfence,
            8..=10 if shape.remote => {
                let dst = self.remote_location(draft);
                let src = if self.random.once_in(3) {
                    PutSrc::Value(Expr::Const(self.fresh()))
                } else {
                    PutSrc::Loc(self.location_on(node))
                };
                Instr::Put {
                    dst,
                    src,
                    work: self.work(&draft.thread),
                }
            }
            11..=13 if shape.remote => {
                let src = self.remote_location(draft);
                Instr::Get {
                    dst: self.result_location(node),
                    src,
                    work: self.work(&draft.thread),
                }
            }
            14 if shape.remote => Instr::Rfence {
                node: Node(self.random.below(self.nodes.into()) as u8),
            },
            15..=16 if shape.rmw => self.read_modify_write(draft),
            17..=18 if shape.polls => {
                // Now and then there is a poll that can never succeed.
                let at = self.random.below(self.nodes.into());
                let pending = draft.unpolled[at];
                if pending == 0 && !self.random.once_in(20) {
                    return None;
                }
                draft.unpolled[at] = pending.saturating_sub(1);
                Instr::Poll { node: Node(at as u8) }
            }
            19..=20 if shape.waits && !draft.thread.work_ids.is_empty() => Instr::Wait {
                work: WorkId(self.random.below(draft.thread.work_ids.len()) as u16),
            },
            21 if shape.control && depth > 0 => self.control(draft, depth - 1),
            _ => return None,
        })
    }

    /// Returns a read-modify-write at a peer.
    fn read_modify_write(&mut self, draft: &mut Draft) -> Instr {
        let target = self.remote_location(draft);
        let dst = self.result_location(draft.thread.node);
        let work = self.work(&draft.thread);
        if self.random.once_in(2) {
            return Instr::RemoteFaa {
                dst,
                target,
                add: Expr::Const(self.fresh()),
                work,
            };
        }
        let (expected, new) = (Expr::Const(self.small()), Expr::Const(self.fresh()));
        Instr::RemoteCas {
            dst,
            target,
            expected,
            new,
            work,
        }
    }

    /// Returns an instruction of control, whose blocks are at most `depth` deep.
    fn control(&mut self, draft: &mut Draft, depth: u32) -> Instr {
        match self.random.below(4) {
            0 => Instr::If {
                cond: self.condition(&draft.thread),
                then: vec![self.instr(draft, depth)],
                otherwise: if self.random.once_in(2) {
                    vec![self.instr(draft, depth)]
                } else {
                    Vec::new()
                },
            },
            1 => Instr::Choose(vec![vec![self.instr(draft, depth)], Vec::new()]),
            2 => Instr::Assume(self.condition(&draft.thread)),
            _ => {
                // The body runs once or twice: only it changes the condition's register.
                let reg = new_register(&mut draft.thread);
                let of_reg =
                    |op, right| Expr::Binary(op, Box::new(Expr::Reg(reg)), Box::new(Expr::Const(right)));
                let step = Instr::Assign {
                    reg,
                    value: of_reg(BinaryOp::Add, 1),
                };
                Instr::While {
                    cond: of_reg(BinaryOp::Lt, 1 + self.random.below(2) as Value),
                    body: vec![self.instr(draft, depth), step],
                    bound: 2,
                }
            }
        }
    }

    fn location_on(&mut self, node: Node) -> Loc {
        let here: Vec<usize> = (0..self.shared)
            .filter(|&l| self.locations[l].node == node)
            .collect();
        match here.get(self.random.below(here.len())) {
            Some(&l) => Loc(l as u16),
            None => self.new_location(node),
        }
    }

    /// Chooses where a get or RMW puts its result. Half of the time this is a location of its own, so that the outcome shows it.
    fn result_location(&mut self, node: Node) -> Loc {
        if self.random.once_in(2) {
            return self.location_on(node);
        }
        self.new_location(node)
    }

    fn new_location(&mut self, node: Node) -> Loc {
        let name = format!("a{}", self.locations.len());
        self.locations.push(Location {
            name,
            node,
            init: 0,
            relaxed: false,
        });
        Loc((self.locations.len() - 1) as u16)
    }

    /// Chooses a location on another node; now and then on the thread's own node (loop-back).
    fn remote_location(&mut self, draft: &mut Draft) -> Loc {
        let own = draft.thread.node;
        let mut node = Node(self.random.below(self.nodes.into()) as u8);
        if node == own && !self.random.once_in(4) {
            node = Node((own.0 + 1) % self.nodes);
        }
        draft.unpolled[node.0 as usize] += 1;
        self.location_on(node)
    }

    fn work(&mut self, thread: &Thread) -> Option<WorkId> {
        (!thread.work_ids.is_empty() && !self.random.once_in(4))
            .then(|| WorkId(self.random.below(thread.work_ids.len()) as u16))
    }

    fn operand(&mut self, thread: &Thread) -> Expr {
        match thread.registers.len() {
            0 => Expr::Const(self.fresh()),
            _ if self.random.once_in(4) => Expr::Reg(self.register(thread)),
            _ => Expr::Const(self.fresh()),
        }
    }

    fn condition(&mut self, thread: &Thread) -> Expr {
        let left = match thread.registers.len() {
            0 => Expr::Const(self.small()),
            _ => Expr::Reg(self.register(thread)),
        };
        let op = if self.random.once_in(2) {
            BinaryOp::Eq
        } else {
            BinaryOp::Ne
        };
        Expr::Binary(op, Box::new(left), Box::new(Expr::Const(self.small())))
    }

    fn register(&mut self, thread: &Thread) -> Reg {
        Reg(self.random.below(thread.registers.len()) as u16)
    }

    /// Chooses a value that is likely to be found in memory.
    fn small(&mut self) -> Value {
        if self.random.once_in(2) {
            0
        } else {
            self.random.below(self.value as usize + 1) as Value
        }
    }

    fn fresh(&mut self) -> Value {
        self.value += 1;
        self.value
    }
}

fn new_register(thread: &mut Thread) -> Reg {
    thread.registers.push(format!("r{}", thread.registers.len()));
    Reg((thread.registers.len() - 1) as u16)
}

/// Shrinks `program` while `shows` stays true. In the result no instruction can be removed, no block opened, and no thread removed of
/// several. A smaller program that shows it may exist, by two such steps at once. `shows(program)` must be true.
pub fn shrink(program: &Program, shows: &mut dyn FnMut(&Program) -> bool) -> Program {
    let mut best = program.clone();
    loop {
        let smaller = smaller(&best).into_iter().find(|candidate| shows(candidate));
        match smaller {
            Some(candidate) => best = candidate,
            None => return best,
        }
    }
}

/// Lists the programs that are one change smaller.
fn smaller(program: &Program) -> Vec<Program> {
    let mut out = Vec::new();
    for t in 0..program.threads.len() {
        if program.threads.len() > 1 {
            let mut next = program.clone();
            next.threads.remove(t);
            out.push(next);
        }
    }
    for (t, thread) in program.threads.iter().enumerate() {
        for code in smaller_blocks(&thread.code) {
            let mut next = program.clone();
            next.threads[t].code = code;
            out.push(next);
        }
    }
    out
}

fn smaller_blocks(code: &[Instr]) -> Vec<Vec<Instr>> {
    let mut out = Vec::new();
    for at in 0..code.len() {
        let mut splice = |with: &[Instr]| {
            let mut next = code.to_vec();
            next.splice(at..=at, with.iter().cloned());
            out.push(next);
        };
        splice(&[]);
        match &code[at] {
            Instr::If {
                cond,
                then,
                otherwise,
            } => {
                splice(then);
                splice(otherwise);
                for then in smaller_blocks(then) {
                    splice(&[Instr::If {
                        cond: cond.clone(),
                        then,
                        otherwise: otherwise.clone(),
                    }]);
                }
                for otherwise in smaller_blocks(otherwise) {
                    splice(&[Instr::If {
                        cond: cond.clone(),
                        then: then.clone(),
                        otherwise,
                    }]);
                }
            }
            Instr::While { cond, body, bound } => {
                splice(body);
                for body in smaller_blocks(body) {
                    splice(&[Instr::While {
                        cond: cond.clone(),
                        body,
                        bound: *bound,
                    }]);
                }
            }
            Instr::Choose(blocks) => {
                blocks.iter().for_each(|block| splice(block));
                for (b, block) in blocks.iter().enumerate() {
                    for block in smaller_blocks(block) {
                        let mut blocks = blocks.clone();
                        blocks[b] = block;
                        splice(&[Instr::Choose(blocks)]);
                    }
                }
            }
            _ => {}
        }
    }
    out
}
