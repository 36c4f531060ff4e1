//! Public locations, and the links between nodes by which threads see each other (Robust'25 section 4.2, *topology*).
//!
//! Both depend on few facts about each trace, its [`Footprint`]. Two traces with one footprint look alike to the other threads, so the
//! conditions are checked for each combination of footprints and not for each pre-execution.

use serde::Serialize;

use crate::event::{Event, Kind};
use crate::models::Spec;
use crate::program::{Node, Program};

use super::clauses::{Clause, Clauses};
use super::trace::Trace;

/// The part of a trace that other threads can see.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Footprint {
    /// For each cell of memory, whether the thread reads it (bit 0) or writes it (bit 1). The atomic units of nodes follow the locations.
    accesses: Vec<u8>,
    /// Remote accesses, no two alike.
    remotes: Vec<Remote>,
}

/// A remote access, which links two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Remote {
    peer: Node,
    cells: [Option<usize>; 2],
    writes: bool,
}

const READS: u8 = 1;
const WRITES: u8 = 2;

impl Footprint {
    /// Collects what other threads can see of a trace.
    pub fn of(program: &Program, spec: &Spec, trace: &Trace) -> Footprint {
        let mut footprint = Footprint {
            accesses: vec![0; program.locations.len() + usize::from(program.nodes)],
            remotes: Vec::new(),
        };
        for event in &trace.events {
            let access = access(program, spec, event);
            for cell in access.cells.into_iter().flatten() {
                footprint.accesses[cell] |= if access.writes { WRITES } else { READS };
            }
            if let (Some(peer), true) = (event.peer, is_remote(event.kind)) {
                let remote = Remote {
                    peer,
                    cells: access.cells,
                    writes: access.writes,
                };
                if !footprint.remotes.contains(&remote) {
                    footprint.remotes.push(remote);
                }
            }
        }
        footprint
    }
}

/// The cells of memory that an event accesses, and whether it writes.
struct Access {
    cells: [Option<usize>; 2],
    writes: bool,
}

/// Returns what an event accesses. A read-modify-write that is atomic against its like accesses the atomic unit of the node too, as if
/// it wrote a location there: `rao` orders all of them, whatever their locations (`docs/rmw.md`).
fn access(program: &Program, spec: &Spec, event: &Event) -> Access {
    let atomic = event.rmw && matches!(event.kind, Kind::NicAtomicRead | Kind::NicRemoteWrite);
    let unit = (atomic && spec.orders_atomics())
        .then_some(event.peer)
        .flatten()
        .map(|peer| program.locations.len() + usize::from(peer.0));
    Access {
        cells: [event.loc.map(|l| usize::from(l.0)), unit],
        writes: event.is_write(),
    }
}

/// Returns whether the event reaches memory over the network.
pub(super) fn is_remote(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::NicRemoteWrite | Kind::NicRemoteRead | Kind::NicAtomicRead
    )
}

/// A link of the network: a thread's remote access on the way between two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Link {
    /// The thread that makes it.
    pub thread: usize,
    /// The node from which the path comes.
    pub from: Node,
    /// The node to which the path leads.
    pub to: Node,
}

/// One footprint for each thread, and what follows from them.
#[derive(Clone, Debug)]
pub struct Network<'p> {
    program: &'p Program,
    spec: &'p Spec,
    refined: bool,
    clauses: Clauses,
    /// For each cell of memory, the threads that access it, as bits.
    users: Vec<u32>,
    /// For each cell of memory, the threads that write it, as bits.
    writers: Vec<u32>,
    /// `links[t]`: the peers of thread `t` through public remote accesses, as bits.
    links: Vec<u32>,
    /// `peers[t]`: all peers of thread `t`, as bits.
    peers: Vec<u32>,
}

impl<'p> Network<'p> {
    /// Combines the footprints of all threads, in their order. With `refined`, an event counts as public only if it conflicts with
    /// another thread: one of the two is a write.
    pub fn new(
        program: &'p Program,
        spec: &'p Spec,
        refined: bool,
        clauses: Clauses,
        footprints: &[&Footprint],
    ) -> Network<'p> {
        let cells = program.locations.len() + usize::from(program.nodes);
        let mut network = Network {
            program,
            spec,
            refined,
            clauses,
            users: vec![0; cells],
            writers: vec![0; cells],
            links: vec![0; footprints.len()],
            peers: vec![0; footprints.len()],
        };
        for (thread, footprint) in footprints.iter().enumerate() {
            for (cell, &access) in footprint.accesses.iter().enumerate() {
                network.users[cell] |= u32::from(access != 0) << thread;
                network.writers[cell] |= u32::from(access & WRITES != 0) << thread;
            }
        }
        // Units are written by every atomic.
        for unit in program.locations.len()..cells {
            network.writers[unit] = network.users[unit];
        }
        let public_links = clauses.contains(Clause::FencedPublicLinks);
        for (thread, footprint) in footprints.iter().enumerate() {
            for remote in &footprint.remotes {
                let bit = 1 << remote.peer.0;
                network.peers[thread] |= bit;
                if !public_links || network.sees(thread, &remote.cells, remote.writes) {
                    network.links[thread] |= bit;
                }
            }
        }
        network
    }

    /// Returns whether an event of a thread is public (`E^pub`): another thread accesses its location. In a refined
    /// network, one of the two must also write.
    pub fn is_public(&self, thread: usize, event: &Event) -> bool {
        let access = access(self.program, self.spec, event);
        self.sees(thread, &access.cells, access.writes)
    }

    fn sees(&self, thread: usize, cells: &[Option<usize>], writes: bool) -> bool {
        let unit = self.program.locations.len();
        cells.iter().flatten().any(|&cell| {
            let all = !self.refined || writes || cell >= unit;
            let threads = if all { self.users[cell] } else { self.writers[cell] };
            threads & !(1 << thread) != 0
        })
    }

    /// Returns the other threads that access the location of an event; in a refined network, only those that conflict
    /// with the event.
    pub fn observers(&self, thread: usize, event: &Event) -> Vec<usize> {
        let access = access(self.program, self.spec, event);
        (0..self.links.len())
            .filter(|&other| other != thread)
            .filter(|&other| {
                access.cells.iter().flatten().any(|&cell| {
                    let all = !self.refined || access.writes || cell >= self.program.locations.len();
                    let threads = if all { self.users[cell] } else { self.writers[cell] };
                    threads >> other & 1 == 1
                })
            })
            .collect()
    }

    /// Returns the node of the memory that an event accesses.
    pub fn memory_of(&self, event: &Event) -> Option<Node> {
        let loc = event.loc.map(|l| self.program.locations[usize::from(l.0)].node);
        loc.or(event.peer.filter(|_| is_remote(event.kind)))
    }

    /// Finds for each node the nodes that threads other than `thread` connect it with, itself included: `n1 <~> n2` of Def. 8 over
    /// `E^pub \ t`, reflexive and transitive.
    pub fn connected_without(&self, thread: usize) -> Vec<u32> {
        let nodes = usize::from(self.program.nodes);
        let mut reach: Vec<u32> = (0..nodes).map(|n| 1 << n).collect();
        for (other, &links) in self.links.iter().enumerate() {
            if other != thread || !self.clauses.contains(Clause::FencedOthers) {
                let home = usize::from(self.program.threads[other].node.0);
                reach[home] |= links;
                for (peer, row) in reach.iter_mut().enumerate() {
                    *row |= (links >> peer & 1) << home;
                }
            }
        }
        for via in 0..nodes {
            for from in 0..nodes {
                if reach[from] >> via & 1 == 1 {
                    reach[from] |= reach[via];
                }
            }
        }
        reach
    }

    /// Finds a shortest way from one node to another over the links of threads other than `thread`; `None` if there is none.
    pub fn way(&self, thread: usize, from: Node, to: Node) -> Option<Vec<Link>> {
        let mut came_by: Vec<Option<Link>> = vec![None; usize::from(self.program.nodes)];
        let mut queue = std::collections::VecDeque::from([from]);
        while let Some(at) = queue.pop_front() {
            if at == to {
                break;
            }
            for (other, &links) in self.links.iter().enumerate() {
                if other == thread {
                    continue;
                }
                let home = self.program.threads[other].node;
                for peer in (0..self.program.nodes).filter(|p| links >> p & 1 == 1).map(Node) {
                    let next = match at {
                        n if n == home => peer,
                        n if n == peer => home,
                        _ => continue,
                    };
                    if next != from && came_by[usize::from(next.0)].is_none() {
                        came_by[usize::from(next.0)] = Some(Link {
                            thread: other,
                            from: at,
                            to: next,
                        });
                        queue.push_back(next);
                    }
                }
            }
        }
        let mut way = Vec::new();
        let mut at = to;
        while at != from {
            let link = came_by[usize::from(at.0)]?;
            way.push(link);
            at = link.from;
        }
        way.reverse();
        Some(way)
    }

    /// Returns the peers of a thread (`hasQP` over all events), as bits.
    pub fn peers(&self, thread: usize) -> u32 {
        self.peers[thread]
    }

    /// Returns the program.
    pub fn program(&self) -> &'p Program {
        self.program
    }

    /// Returns the model's data.
    pub fn spec(&self) -> &'p Spec {
        self.spec
    }

    /// Returns the clauses in force.
    pub fn clauses(&self) -> Clauses {
        self.clauses
    }
}
