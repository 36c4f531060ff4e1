//! Partial-order reduction. In each state, it finds a subset of the enabled moves that suffices to reach
//! every final state.
//!
//! The subset is a *persistent set* (Godefroid), in a form that demands only one direction. Whatever the
//! moves outside it do first, a move in it could as well have been made before them, with the same effect and
//! without disabling or changing them. An execution with an outcome is finite, and makes every move
//! that is once enabled (or, of a choice, one branch). So after a move of the set the outcome is one move nearer, and exploring such sets
//! reaches every outcome, also where loops without bounds make circles of states. Endless executions may be left out.
//! The direction matters: a later put's write *disables* a get's read (PCIe), but the read does not disable
//! the write. The read may therefore be taken at once if nobody writes the word.
//!
//! The agents are the CPU of each thread, its store buffer, and its queue pairs. The state tells what an
//! agent may do *next*. The rest of its code or the contents of its buffers over-approximate what it may do
//! *ever* ([`Access`]). Some moves interact with nothing, such as posting into a store buffer, or an
//! acknowledgement that becomes a notification. One of these alone is persistent. So is a queue pair's move
//! whose word no other operation may ever touch. Otherwise, a set is started from each agent in turn. It is
//! closed under "may ever interact with what this one does next" and "must move before this one can", and the
//! smallest set is taken. `tests/it/machine.rs` compares the result with the search without reduction.

use explorer::Closure;

use super::access::{Access, unit, wb_l, wb_r, word};
use super::code::{Act, Code, Op};
use super::state::{Move, State};
use crate::machine::{
    Addr, Cpu, Delayed, Entry, LocalBack, Machine, QpId, QueuePair, Rule, Source, Stage, Step,
};
use crate::model::{RmwAtomicity, Tier};

/// An agent in a state in which no single move is persistent.
#[derive(Debug)]
struct Agent {
    kind: AgentKind,
    thread: u16,
    /// The accesses of its enabled moves, and of those moves that only another agent blocks.
    next: Access,
    /// The accesses that it may ever make.
    ever: Access,
    /// The accesses of `ever` without its stores, for a store buffer.
    ever_remote: Access,
    /// Its enabled moves, as a range of `Reducer::moves`.
    moves: (usize, usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AgentKind {
    Cpu { blocked: bool },
    StoreBuffer,
    QueuePair,
}

/// Scratch space of the reduction, reused from state to state.
#[derive(Debug, Default)]
pub(super) struct Reducer {
    agents: Vec<Agent>,
    moves: Vec<Move>,
    /// Moves of queue pairs that do not interact with the rest of their queue pair, with their accesses and
    /// agents.
    singles: Vec<(Access, usize, Move)>,
    steps: Vec<Step>,
    /// The agent of each of `moves`.
    movers: Vec<usize>,
    closure: Closure,
}

impl Reducer {
    /// Appends a persistent set of the state's moves to `out`. Appends nothing exactly if no move is enabled.
    pub(super) fn persistent(&mut self, state: &State, codes: &[Code], out: &mut Vec<Move>) {
        self.agents.clear();
        self.moves.clear();
        self.singles.clear();
        let machine = &state.machine;
        for thread in 0..state.threads.len() as u16 {
            if self.cpu(state, codes, thread, out) {
                return;
            }
            match machine.store_buffer(thread).first() {
                Some(Delayed::Remote { .. }) => {
                    out.push(Move::Hardware(Step::Drain { thread }));
                    return;
                }
                Some(Delayed::Store { loc, .. }) => self.store_buffer(machine, thread, *loc),
                None => {}
            }
            for qp in machine.queue_pairs(thread) {
                if self.queue_pair(machine, thread, qp, out) {
                    return;
                }
            }
        }
        self.smallest(out);
    }

    /// Adds the CPU's agent. If its next moves are a persistent set, puts them into `out` instead and returns
    /// true.
    fn cpu(&mut self, state: &State, codes: &[Code], thread: u16, out: &mut Vec<Move>) -> bool {
        let act = match state.op(thread, codes) {
            Op::Choose(starts) => {
                out.extend((0..starts.len() as u16).map(|branch| Move::Choose(thread, branch)));
                // A choice without branches blocks its thread for ever.
                return !starts.is_empty();
            }
            Op::Act(act) => act,
            _ => return false,
        };
        let enabled = state.machine.is_enabled(thread, &state.action(thread, act));
        let buffered = state.machine.config().cpu == Cpu::Tso;
        let shared = match act {
            Act::Load { .. } | Act::Cas { .. } | Act::Swap { .. } => true,
            Act::Store { .. } => !buffered,
            Act::Mfence | Act::Poll { .. } | Act::Wait { .. } | Act::Post { .. } => false,
        };
        if enabled && !shared {
            out.push(Move::Act(thread));
            return true;
        }
        let start = self.moves.len();
        if enabled {
            self.moves.push(Move::Act(thread));
        }
        self.agents.push(Agent {
            kind: AgentKind::Cpu { blocked: !enabled },
            thread,
            next: if enabled { act.access(thread) } else { Access::NONE },
            ever: codes[thread as usize].future[state.threads[thread as usize].at as usize],
            ever_remote: Access::NONE,
            moves: (start, self.moves.len()),
        });
        false
    }

    fn store_buffer(&mut self, machine: &Machine, thread: u16, head: Addr) {
        let (mut ever, mut ever_remote) = (Access::NONE, Access::NONE);
        for entry in machine.store_buffer(thread) {
            match entry {
                Delayed::Store { loc, .. } => ever = ever.and(Access::write(*loc)),
                Delayed::Remote { peer, entry } => {
                    ever_remote = ever_remote.and(entry_access(thread, *peer, entry));
                }
            }
        }
        let start = self.moves.len();
        self.moves.push(Move::Hardware(Step::Drain { thread }));
        self.agents.push(Agent {
            kind: AgentKind::StoreBuffer,
            thread,
            next: Access::write(head),
            ever: ever.and(ever_remote),
            ever_remote,
            moves: (start, start + 1),
        });
    }

    /// Adds the queue pair's agent. If one of its moves alone is persistent, puts that into `out` instead and
    /// returns true.
    fn queue_pair(&mut self, machine: &Machine, thread: u16, qp: &QueuePair, out: &mut Vec<Move>) -> bool {
        let id = QpId {
            thread,
            peer: qp.peer,
        };
        self.steps.clear();
        machine.queue_pair_steps(thread, qp, &mut self.steps);
        let (start, own) = (self.moves.len(), self.agents.len());
        let mut next = Access::NONE;
        for &step in &self.steps {
            let Step::Nic { rule, index, .. } = step else {
                continue;
            };
            let Some(access) = rule_access(machine, id, qp, rule, index as usize) else {
                out.push(Move::Hardware(step));
                return true;
            };
            next = next.and(access);
            self.moves.push(Move::Hardware(step));
            if self.steps.len() > 1 && !access.conflicts(others_access(id, qp, rule, index as usize)) {
                self.singles.push((access, own, Move::Hardware(step)));
            }
        }
        // A message that waits for its receive interacts with the agent that posts it, and so do those behind it.
        for entry in qp.pipe.iter().filter(|e| !e.is_received(machine.memory())) {
            next = next.and(Access::receive(entry.message));
        }
        // An RMW that waits for the unit interacts with the agent that holds or takes it.
        if machine.is_unit_held(qp.peer) && qp.pipe.iter().any(|e| matches!(e.stage, Stage::Rmw { .. })) {
            next.writes |= unit(qp.peer);
        }
        let ever = others_access(id, qp, Rule::Forward, usize::MAX);
        self.agents.push(Agent {
            kind: AgentKind::QueuePair,
            thread,
            next,
            ever,
            ever_remote: ever,
            moves: (start, self.moves.len()),
        });
        false
    }

    /// Appends the moves of the smallest closed set of agents.
    fn smallest(&mut self, out: &mut Vec<Move>) {
        for &(access, own, mv) in &self.singles {
            let alone = |(i, agent): (usize, &Agent)| i == own || !access.conflicts(agent.ever);
            if self.agents.iter().enumerate().all(alone) {
                out.push(mv);
                return;
            }
        }
        self.movers.clear();
        for (i, agent) in self.agents.iter().enumerate() {
            self.movers.extend((agent.moves.0..agent.moves.1).map(|_| i));
        }
        let agents = &self.agents;
        let movers = &self.movers;
        self.closure.find(agents.len(), movers, movers, |i, needs| {
            for (j, other) in agents.iter().enumerate() {
                if i != j && agents[i].needs(other) {
                    needs.insert(j);
                }
            }
        });
        for (&mover, &mv) in self.movers.iter().zip(&self.moves) {
            if self.closure.contains(mover) {
                out.push(mv);
            }
        }
    }
}

impl Agent {
    /// Returns whether a persistent set with this agent's moves must have the other's.
    fn needs(&self, other: &Agent) -> bool {
        let same_thread = self.thread == other.thread;
        match (self.kind, other.kind) {
            // Progress of its own buffers enables the CPU again.
            (AgentKind::Cpu { blocked: true }, _) => same_thread,
            // The CPU reads its own buffered stores wherever they are.
            (AgentKind::Cpu { .. }, AgentKind::StoreBuffer) if same_thread => {
                self.next.conflicts(other.ever_remote)
            }
            // Everything that the CPU does, except loads, comes behind the store buffer's head. Its loads see
            // the head anyway.
            (AgentKind::StoreBuffer, AgentKind::Cpu { .. }) if same_thread => false,
            _ => self.next.conflicts(other.ever),
        }
    }
}

/// Returns the accesses that an operation may still make from its stage on.
fn entry_access(thread: u16, peer: u16, entry: &Entry) -> Access {
    let qp = QpId { thread, peer };
    match entry.stage {
        Stage::Put {
            dst,
            src: Source::Word(src),
        } => Access::put(thread, peer, dst)
            .and(Access::read(src))
            .and(Access::receive(entry.message)),
        Stage::Put { dst, .. } | Stage::PutValue { dst, .. } => {
            Access::put(thread, peer, dst).and(Access::receive(entry.message))
        }
        Stage::Get { dst, src } => Access::get(thread, peer, dst, src),
        Stage::Rmw { dst, target, .. } | Stage::Executing { dst, target, .. } => {
            Access::rmw(thread, peer, dst, target)
        }
        Stage::Value { dst, .. } => Access {
            reads: 0,
            writes: wb_l(qp) | word(dst),
        },
        Stage::Ack | Stage::Fence | Stage::Done => Access::NONE,
    }
}

/// Returns the accesses that a queue pair may still make, without the entry that `rule` is about.
fn others_access(id: QpId, qp: &QueuePair, rule: Rule, index: usize) -> Access {
    let mut access = Access::NONE;
    let pipe = if matches!(rule, Rule::PlaceRemote | Rule::PlaceLocal) {
        usize::MAX
    } else {
        index
    };
    for (_, entry) in qp.pipe.iter().enumerate().filter(|&(i, _)| i != pipe) {
        access = access.and(entry_access(id.thread, id.peer, entry));
    }
    for (_, write) in qp
        .wb_r
        .iter()
        .enumerate()
        .filter(|(i, _)| rule != Rule::PlaceRemote || *i != index)
    {
        access = access.and(Access::write(write.dst));
    }
    // An RMW's write has yet to release the unit, and this queue pair's own RMWs wait for that, too.
    if qp.wb_r.iter().any(|write| write.atomic) {
        access.writes |= unit(id.peer);
    }
    let local = qp.wb_l.iter().filter_map(|e| match e {
        LocalBack::Write { dst, .. } => Some(*dst),
        LocalBack::Notification { .. } => None,
    });
    for (_, dst) in local
        .enumerate()
        .filter(|(i, _)| rule != Rule::PlaceLocal || *i != index)
    {
        access = access.and(Access::write(dst));
    }
    access
}

/// Returns the accesses of an enabled rule that another agent may make too, or `None` if it interacts with
/// nothing at all.
fn rule_access(machine: &Machine, id: QpId, qp: &QueuePair, rule: Rule, index: usize) -> Option<Access> {
    let stage = qp.pipe.get(index).map(|e| e.stage);
    Some(match (rule, stage) {
        (Rule::Fence | Rule::Complete | Rule::Forward, _) => return None,
        // Only an earlier get that has not read its source is affected when wb_R is no longer empty.
        (Rule::RemoteWrite | Rule::AtomicWrite, _) => {
            // Where the network reorders, the order in which writes enter wb_R is a choice, against later operations too.
            let minds = machine.config().tier != Tier::Ibta
                || qp.pipe[..index]
                    .iter()
                    .any(|e| matches!(e.stage, Stage::Get { .. }));
            return minds.then_some(Access {
                reads: 0,
                writes: wb_r(id),
            });
        }
        (Rule::PlaceRemote, _) => qp.wb_r.get(index).map_or(Access::NONE, |w| Access::write(w.dst)),
        (Rule::PlaceLocal, _) => qp.local_destination(index).map_or(Access::NONE, Access::write),
        (Rule::LocalRead, Some(Stage::Put { src, .. })) => match src {
            Source::Word(src) => Access::read(src),
            Source::Constant(_) => Access::NONE,
        },
        (Rule::RemoteRead, Some(Stage::Get { src, .. })) => Access::read(src),
        (Rule::Respond, _) => Access {
            reads: 0,
            writes: wb_l(id),
        },
        (Rule::AtomicRead, Some(Stage::Rmw { target, .. })) => match machine.config().atomicity {
            RmwAtomicity::Hca => Access {
                reads: word(target),
                writes: unit(id.peer),
            },
            RmwAtomicity::Glob => Access {
                reads: word(target),
                writes: word(target),
            },
        },
        // Not reached: an enabled rule has its entry. It is always sound to interact with everything.
        _ => Access {
            reads: u128::MAX,
            writes: u128::MAX,
        },
    })
}
