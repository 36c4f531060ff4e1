//! Programs that tell the tiers of networks apart ([`crate::model::Tier`]).
//!
//! A random program rarely separates two tiers: it takes two operations of one queue pair and somebody who sees their order. [`program`]
//! writes programs of this form, [`ask`] adds requests for strong order, and [`relax`] puts locations into regions of relaxed
//! ordering. A program is a function of its seed on every platform. Used by the differential tests of the tiers.

use super::Random;
use crate::program::{Expr, Instr, Loc, Location, Node, Program, PutSrc, Reg, Thread, WorkId};

/// The instruction with which threads wait for their operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Polls.
    Polls,
    /// Waits for work identifiers.
    Waits,
}

/// Generates a program: one thread posts to one node, and a thread there reads or writes what the operations touch.
pub fn program(seed: u64, waiting: Waiting) -> Program {
    let mut writer = Writer {
        random: Random::new(seed),
        waiting,
        value: 0,
        unpolled: 0,
    };
    let place = |(i, node): (usize, u8)| Location {
        name: format!("x{i}"),
        node: Node(node),
        init: 0,
        relaxed: false,
    };
    // Two words on the poster's node, three at the peer.
    let locations: Vec<Location> = [0, 0, 1, 1, 1].into_iter().enumerate().map(place).collect();
    let (posts, looks) = (2 + writer.random.below(4), 1 + writer.random.below(3));
    let mut poster = thread("P0", 0, waiting);
    for _ in 0..posts {
        let instr = writer.post(&mut poster);
        poster.code.push(instr);
    }
    let mut peer = thread("P1", 1, waiting);
    for _ in 0..looks {
        let instr = writer.access(&mut peer, &[2, 3, 4]);
        peer.code.push(instr);
    }
    let mut threads = vec![poster, peer];
    if writer.random.once_in(3) {
        // Somebody who sees the order of the results.
        let mut local = thread("P2", 0, waiting);
        for _ in 0..2 {
            let instr = writer.access(&mut local, &[0, 1]);
            local.code.push(instr);
        }
        threads.push(local);
    }
    Program {
        nodes: 2,
        locations,
        threads,
    }
}

fn thread(name: &str, node: u8, waiting: Waiting) -> Thread {
    let work_ids = match waiting {
        Waiting::Polls => Vec::new(),
        Waiting::Waits => vec!["d".to_owned(), "e".to_owned()],
    };
    Thread {
        name: name.to_owned(),
        node: Node(node),
        registers: Vec::new(),
        work_ids,
        code: Vec::new(),
    }
}

struct Writer {
    random: Random,
    waiting: Waiting,
    value: i64,
    unpolled: u32,
}

impl Writer {
    fn fresh(&mut self) -> Expr {
        self.value += 1;
        Expr::Const(self.value)
    }

    fn one_of(&mut self, locations: &[u16]) -> Loc {
        Loc(locations[self.random.below(locations.len())])
    }

    fn register(thread: &mut Thread) -> Reg {
        thread.registers.push(format!("r{}", thread.registers.len()));
        Reg((thread.registers.len() - 1) as u16)
    }

    /// Makes an instruction of the thread that posts.
    fn post(&mut self, thread: &mut Thread) -> Instr {
        let (own, remote) = ([0, 1], [2, 3, 4]);
        let work = match self.waiting {
            Waiting::Polls => None,
            Waiting::Waits => (!self.random.once_in(4)).then(|| WorkId(self.random.below(2) as u16)),
        };
        let kind = self.random.below(16);
        self.unpolled += u32::from(kind < 11);
        match kind {
            0..=3 => Instr::Put {
                dst: self.one_of(&remote),
                src: PutSrc::Value(self.fresh()),
                work,
            },
            4..=5 => Instr::Put {
                dst: self.one_of(&remote),
                src: PutSrc::Loc(self.one_of(&own)),
                work,
            },
            6..=8 => Instr::Get {
                dst: self.one_of(&own),
                src: self.one_of(&remote),
                work,
            },
            9 => Instr::RemoteFaa {
                dst: self.one_of(&own),
                target: self.one_of(&remote),
                add: self.fresh(),
                work,
            },
            10 => Instr::RemoteCas {
                dst: self.one_of(&own),
                target: self.one_of(&remote),
                expected: Expr::Const(0),
                new: self.fresh(),
                work,
            },
            11 => Instr::Rfence { node: Node(1) },
            12..=13 => match self.waiting {
                Waiting::Polls if self.unpolled > 0 => {
                    self.unpolled -= 1;
                    Instr::Poll { node: Node(1) }
                }
                Waiting::Polls => Instr::Mfence,
                Waiting::Waits => Instr::Wait {
                    work: WorkId(self.random.below(2) as u16),
                },
            },
            _ => self.access(thread, &own),
        }
    }

    /// Makes an access of a CPU.
    fn access(&mut self, thread: &mut Thread, own: &[u16]) -> Instr {
        let loc = self.one_of(own);
        match self.random.below(8) {
            0..=4 => Instr::Load {
                reg: Writer::register(thread),
                loc,
            },
            5..=6 => Instr::Store {
                loc,
                value: self.fresh(),
            },
            _ => Instr::Cas {
                reg: Some(Writer::register(thread)),
                loc,
                expected: Expr::Const(0),
                new: self.fresh(),
            },
        }
    }
}

/// Lets some operations ask for strong order: one in three.
pub fn ask(program: &Program, seed: u64) -> Program {
    let mut random = Random::new(seed);
    let mut program = program.clone();
    program.each_instr_mut(&mut |instr| {
        if instr.can_be_strong() && random.once_in(3) {
            *instr = Instr::Strong(Box::new(instr.clone()));
        }
    });
    program
}

/// Turns about half of the read-modify-writes, of CPUs and of cards, and of the gets into exchanges.
pub fn exchange(program: &Program, seed: u64) -> Program {
    let mut random = Random::new(seed);
    let mut program = program.clone();
    program.each_instr_mut(&mut |instr| {
        let instr = instr.request_mut();
        let exchange = match instr.clone() {
            Instr::Cas { reg, loc, new, .. } => Instr::Swap { reg, loc, new },
            Instr::RemoteFaa {
                dst,
                target,
                add: new,
                work,
            }
            | Instr::RemoteCas {
                dst,
                target,
                new,
                work,
                ..
            } => Instr::RemoteSwap {
                dst,
                target,
                new,
                work,
            },
            Instr::Get { dst, src, work } => Instr::RemoteSwap {
                dst,
                target: src,
                new: Expr::Const(100 + random.below(100) as i64),
                work,
            },
            _ => return,
        };
        if random.once_in(2) {
            *instr = exchange;
        }
    });
    program
}

/// Puts about half of the locations into regions of relaxed ordering.
pub fn relax(program: &Program, seed: u64) -> Program {
    let mut random = Random::new(seed);
    let mut program = program.clone();
    for location in &mut program.locations {
        location.relaxed = random.once_in(2);
    }
    program
}

/// Returns the program without requests for strong order and without regions of relaxed ordering.
pub fn plain(program: &Program) -> Program {
    let mut program = program.clone();
    for location in &mut program.locations {
        location.relaxed = false;
    }
    program.each_instr_mut(&mut |instr| {
        if let Instr::Strong(operation) = instr {
            *instr = (**operation).clone();
        }
    });
    program
}
