//! Families of programs in which the conditions for robustness often hold and often nearly hold ([`crate::robust`]).
//!
//! A program of a family follows a discipline, and now and then leaves out one fence or poll. So about half of the programs satisfy the
//! conditions, and the others miss them by little, which a random program hardly ever does. A program is a function of its family and
//! seed on every platform. Used by the tests of robustness and by its survey in `docs/robustness.md`.

use super::{Random, Shape};
use crate::program::{Expr, Instr, Loc, Location, Node, Program, PutSrc, Reg, Thread, Value, WorkId};

/// A family of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Two to four nodes in a tree, one queue pair an edge, private copies, gets fenced.
    Tree,
    /// A server and one to three clients, otherwise as [`Family::Tree`].
    Star,
    /// Two or three nodes, any queue pairs, every operation fenced or polled to its end.
    Fenced,
    /// [`Family::Tree`] with remote read-modify-writes.
    Atomic,
    /// [`Family::Fenced`] with remote read-modify-writes.
    FencedAtomic,
    /// [`Family::Tree`] with work identifiers and waits in place of polls.
    Waiting,
    /// Programs without discipline.
    Plain,
    /// Programs without discipline, with branches, loops, choices and assumptions.
    Branching,
}

impl Family {
    /// Every family.
    pub const ALL: [Family; 8] = [
        Family::Tree,
        Family::Star,
        Family::Fenced,
        Family::Atomic,
        Family::FencedAtomic,
        Family::Waiting,
        Family::Plain,
        Family::Branching,
    ];

    /// Returns the name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Family::Tree => "tree",
            Family::Star => "star",
            Family::Fenced => "fenced",
            Family::Atomic => "tree with RMWs",
            Family::FencedAtomic => "fenced with RMWs",
            Family::Waiting => "tree with waits",
            Family::Plain => "plain",
            Family::Branching => "plain with branches",
        }
    }

    /// Generates the program of a seed.
    pub fn program(self, seed: u64) -> Program {
        let plain = Shape {
            nodes: 3,
            rmw: false,
            ..Shape::SMALL
        };
        match self {
            Family::Plain => super::program(seed, &plain),
            Family::Branching => super::program(
                seed,
                &Shape {
                    nodes: 2,
                    control: true,
                    ..plain
                },
            ),
            _ => Writer::new(self, seed).program(),
        }
    }
}

/// The fences that a family asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Discipline {
    /// Those of a tree: a fence after a get, an mfence between a write and a read.
    Tree,
    /// Orders each operation before all that follow, by any means.
    Everything,
}

struct Writer {
    random: Random,
    family: Family,
    discipline: Discipline,
    locations: Vec<Location>,
    nodes: u8,
    value: Value,
}

/// A thread under construction.
struct Draft {
    thread: Thread,
    /// The nodes that it may reach.
    peers: Vec<Node>,
    /// For each peer, how many operations no poll has answered.
    pending: Vec<u32>,
    /// Locations whose get or read-modify-write is complete.
    arrived: Vec<Loc>,
    /// Locations still on their way, with their work identifier.
    awaited: Vec<(Node, Option<WorkId>, Loc)>,
    /// True if a CPU write since the last memory fence is unfenced.
    written: bool,
}

impl Writer {
    fn new(family: Family, seed: u64) -> Writer {
        let mut random = Random::new(seed);
        let fenced = matches!(family, Family::Fenced | Family::FencedAtomic);
        let nodes = 2 + random.below(if fenced { 2 } else { 3 }) as u8;
        let mut locations = Vec::new();
        for node in 0..nodes {
            for _ in 0..1 + random.below(2) {
                let name = format!("x{}", locations.len());
                let node = Node(node);
                locations.push(Location {
                    name,
                    node,
                    init: 0,
                    relaxed: false,
                });
            }
        }
        Writer {
            random,
            family,
            discipline: if fenced {
                Discipline::Everything
            } else {
                Discipline::Tree
            },
            locations,
            nodes,
            value: 0,
        }
    }

    fn program(mut self) -> Program {
        let mut drafts = self.threads();
        let instructions = 3 + self.random.below(6);
        for _ in 0..instructions {
            let at = self.random.below(drafts.len());
            self.operation(&mut drafts[at]);
        }
        let threads = drafts.into_iter().map(|d| d.thread);
        Program {
            nodes: self.nodes,
            locations: self.locations,
            threads: threads.filter(|t| !t.code.is_empty()).collect(),
        }
    }

    /// Places threads and gives each the nodes that it may reach.
    fn threads(&mut self) -> Vec<Draft> {
        let mut peers: Vec<Vec<Node>> = vec![Vec::new(); usize::from(self.nodes)];
        for node in 1..self.nodes {
            let parent = match self.family {
                Family::Star => 0,
                _ => self.random.below(node.into()) as u8,
            };
            let (mut owner, mut peer) = (node, parent);
            if self.family != Family::Star && self.random.once_in(2) {
                (owner, peer) = (parent, node);
            }
            peers[usize::from(owner)].push(Node(peer));
            // A second queue pair on the same edge breaks the tree.
            let twice = self.discipline == Discipline::Everything || self.random.once_in(10);
            if twice && self.random.once_in(2) {
                peers[usize::from(peer)].push(Node(owner));
            }
        }
        let mut homes: Vec<(Node, Vec<Node>)> = (0..self.nodes).map(Node).zip(peers).collect();
        if self.random.once_in(4) {
            let node = Node(self.random.below(self.nodes.into()) as u8);
            homes.push((node, Vec::new()));
        }
        let drafts = homes.into_iter().enumerate().map(|(t, (node, peers))| Draft {
            thread: Thread {
                name: format!("P{t}"),
                node,
                registers: Vec::new(),
                work_ids: match self.family {
                    Family::Waiting => vec!["d".to_owned(), "e".to_owned()],
                    _ => Vec::new(),
                },
                code: Vec::new(),
            },
            peers,
            pending: vec![0; usize::from(self.nodes)],
            arrived: Vec::new(),
            awaited: Vec::new(),
            written: false,
        });
        let mut drafts: Vec<Draft> = drafts.collect();
        // Three threads are enough, and as many must keep a queue pair.
        while drafts.len() > 3 {
            let idle = drafts.iter().position(|d| d.peers.is_empty());
            drafts.remove(idle.unwrap_or(0));
        }
        drafts
    }

    /// Adds one operation and, mostly, the fences that the discipline asks for.
    fn operation(&mut self, draft: &mut Draft) {
        let remote = !draft.peers.is_empty() && !self.random.once_in(3);
        if !remote {
            return self.local(draft);
        }
        let peer = draft.peers[self.random.below(draft.peers.len())];
        let atomics = matches!(self.family, Family::Atomic | Family::FencedAtomic);
        let work = (self.family == Family::Waiting).then(|| WorkId(self.random.below(2) as u16));
        let target = self.shared(peer);
        let kind = self.random.below(if atomics { 6 } else { 4 });
        let private = self.discipline == Discipline::Tree && !self.random.once_in(12);
        let instr = match kind {
            0 | 1 => Instr::Put {
                dst: target,
                src: self.source(draft, private),
                work,
            },
            _ => {
                let dst = match private || self.random.once_in(2) {
                    true => self.copy(draft.thread.node),
                    false => self.shared(draft.thread.node),
                };
                draft.awaited.push((peer, work, dst));
                match kind {
                    2 | 3 => Instr::Get {
                        dst,
                        src: target,
                        work,
                    },
                    4 => Instr::RemoteFaa {
                        dst,
                        target,
                        add: Expr::Const(self.fresh()),
                        work,
                    },
                    _ => Instr::RemoteCas {
                        dst,
                        target,
                        expected: Expr::Const(0),
                        new: Expr::Const(self.fresh()),
                        work,
                    },
                }
            }
        };
        draft.thread.code.push(instr);
        draft.pending[usize::from(peer.0)] += 1;
        match (self.discipline, kind) {
            (Discipline::Tree, 0 | 1) => {}
            (Discipline::Tree, _) => self.after_get(draft, peer, work),
            (Discipline::Everything, 0 | 1 | 4 | 5) => {
                if !self.random.once_in(10) {
                    let dst = self.copy(draft.thread.node);
                    let src = self.shared(peer);
                    draft.thread.code.push(Instr::Get { dst, src, work });
                    draft.pending[usize::from(peer.0)] += 1;
                }
                self.poll_all(draft, peer);
            }
            (Discipline::Everything, _) => self.poll_all(draft, peer),
        }
    }

    /// Adds a store or a load, with a memory fence between a store and a later load.
    fn local(&mut self, draft: &mut Draft) {
        let node = draft.thread.node;
        if self.random.once_in(2) {
            let value = Expr::Const(self.fresh());
            let loc = self.shared(node);
            draft.thread.code.push(Instr::Store { loc, value });
            draft.written = true;
            return;
        }
        if draft.written && !self.random.once_in(5) {
            draft.thread.code.push(Instr::Mfence);
            draft.written = false;
        }
        // Reads what a get brought, now and then before it is known to be there.
        let early = self.random.once_in(8);
        let brought = match draft.awaited.last() {
            Some(&(_, _, loc)) if early => Some(loc),
            _ => draft.arrived.last().copied(),
        };
        let loc = match brought {
            Some(loc) if self.random.once_in(2) => loc,
            _ => self.shared(node),
        };
        let reg = Reg(draft.thread.registers.len() as u16);
        draft.thread.registers.push(format!("r{}", reg.0));
        draft.thread.code.push(Instr::Load { reg, loc });
    }

    /// Adds what follows a get: a remote fence, or polls, or both, or by mistake nothing.
    fn after_get(&mut self, draft: &mut Draft, peer: Node, work: Option<WorkId>) {
        let choice = self.random.below(12);
        if choice < 8 {
            draft.thread.code.push(Instr::Rfence { node: peer });
        }
        if !(6..=10).contains(&choice) {
            return;
        }
        match work {
            Some(work) => {
                draft.thread.code.push(Instr::Wait { work });
                draft.arrive(|&(_, named, _)| named == Some(work));
            }
            None => self.poll_all(draft, peer),
        }
    }

    /// Polls everything that is pending towards a node, now and then one too few.
    fn poll_all(&mut self, draft: &mut Draft, peer: Node) {
        let pending = &mut draft.pending[usize::from(peer.0)];
        let missed = u32::from(self.random.once_in(12));
        for _ in missed..*pending {
            draft.thread.code.push(Instr::Poll { node: peer });
        }
        *pending = missed.min(*pending);
        draft.arrive(|&(to, _, _)| to == peer);
    }

    /// Draws the source of a put: a value, a private location, or by mistake a shared one.
    fn source(&mut self, draft: &mut Draft, private: bool) -> PutSrc {
        match self.random.below(3) {
            0 => PutSrc::Value(Expr::Const(self.fresh())),
            1 if !draft.arrived.is_empty() => {
                PutSrc::Loc(draft.arrived[self.random.below(draft.arrived.len())])
            }
            _ if private => {
                let loc = self.copy(draft.thread.node);
                let value = Expr::Const(self.fresh());
                draft.thread.code.push(Instr::Store { loc, value });
                PutSrc::Loc(loc)
            }
            _ => PutSrc::Loc(self.shared(draft.thread.node)),
        }
    }

    /// Makes a location of one operation's own.
    fn copy(&mut self, node: Node) -> Loc {
        let name = format!("a{}", self.locations.len());
        self.locations.push(Location {
            name,
            node,
            init: 0,
            relaxed: false,
        });
        Loc((self.locations.len() - 1) as u16)
    }

    fn shared(&mut self, node: Node) -> Loc {
        let fits = |l: &usize| self.locations[*l].node == node && self.locations[*l].name.starts_with('x');
        let here: Vec<usize> = (0..self.locations.len()).filter(fits).collect();
        Loc(here[self.random.below(here.len())] as u16)
    }

    fn fresh(&mut self) -> Value {
        self.value += 1;
        self.value
    }
}

impl Draft {
    fn arrive(&mut self, complete: impl Fn(&(Node, Option<WorkId>, Loc)) -> bool) {
        let (done, rest): (Vec<_>, Vec<_>) = self.awaited.drain(..).partition(complete);
        self.arrived.extend(done.into_iter().map(|(_, _, loc)| loc));
        self.awaited = rest;
    }
}
