//! Computes persistent sets: the enabled moves that must be explored in a state. The others are left for
//! later states.
//!
//! The world is cut into *agents* whose own moves come in a fixed order: a thread's program, a store buffer, and the
//! parts of a queue pair (local reads, remote writes, remote reads, atomics, local writes, the rest). A set of agents
//! is closed if
//! * for the next move of each agent in it, every agent that may yet make a dependent move is in it (accesses to words and
//!   locks as learned in [`crate::state::sharing`]; rules of one queue pair that disable one another; completions and polls);
//! * for each agent in it that cannot move now, every agent that could enable it is in it.
//!
//! On a network that keeps the order of a queue pair, a part's next move comes before its later ones. On the other tiers a
//! part may make a move that is not enabled yet before the moves that are enabled now. The moves of a part that are not
//! enabled yet are therefore an agent of their own, which can never move. A closed set with that agent contains every agent
//! that could enable one of these moves.
//!
//! A closed set is explored alone only if one of its moves is not a fault, and therefore happens in every complete
//! execution. A fault never has to happen.
//!
//! Faults share one budget, so a fault outside a closed set can disable a fault inside it. No execution is lost by that. For
//! example, let the budget be one timeout, and let a thread outside the set use it up before a thread inside the set can
//! time out. In this execution the first move of the set is not a timeout. That move is explored from this state, because
//! it commutes with the timeout outside the set.
//!
//! Apart from that, no sequence of moves of agents outside a closed set can interfere with the moves of the agents inside.
//! It is therefore enough to explore the moves of the agents inside (Godefroid's persistent sets; stubborn sets with agents
//! for processes).

use std::ops::RangeBounds;

use mowgli::machine::{Addr, Next, QpId, Rule, Step};
use mowgli::model::Tier;

use crate::exploring::walk::Walker;
use crate::fabric::request::{Deadline, Note, Request};
use crate::state::faults::Fault;
use crate::state::sharing::{Agent, Other, Part, Shared};
use crate::state::{Move, State, Status};

/// Agents of one queue pair: its parts, the later moves of its parts, and the places of the writes that are on their way to
/// memory.
const PARTS: usize = 2 * Part::ALL.len() + PLACES;
/// The number of agents for the writes of a queue pair's `wb_R`. Writes further behind belong to the last of them.
const PLACES: usize = 8;

/// Numbers agents: two per thread, then the parts of all queue pairs.
#[derive(Clone, Copy)]
struct Numbering {
    threads: usize,
    nodes: usize,
}

#[derive(Clone, Copy)]
enum Who {
    Program(u16),
    Buffer(u16),
    Nic(QpId, Part),
    /// The moves that the part cannot make yet, where they may come before those that it can make.
    Later(QpId, Part),
    /// The write at this position of `wb_R`. The words of one transfer reach memory in any order, so each is an agent of
    /// its own: a word that nobody reads next need not be interleaved.
    Write(QpId, usize),
}

impl Who {
    fn thread(self) -> u16 {
        match self {
            Who::Program(thread) | Who::Buffer(thread) => thread,
            Who::Nic(qp, _) | Who::Later(qp, _) | Who::Write(qp, _) => qp.thread,
        }
    }
}

impl Numbering {
    fn count(self) -> usize {
        self.threads * (2 + self.nodes * PARTS)
    }

    /// Fills `out` with every agent, by number.
    fn all(self, out: &mut Vec<Who>) {
        if out.len() == self.count() {
            return;
        }
        out.clear();
        out.extend((0..self.threads as u16).flat_map(|t| [Who::Program(t), Who::Buffer(t)]));
        for thread in 0..self.threads as u16 {
            for peer in 0..self.nodes as u16 {
                let qp = QpId { thread, peer };
                out.extend(Part::ALL.map(|part| Who::Nic(qp, part)));
                out.extend(Part::ALL.map(|part| Who::Later(qp, part)));
                out.extend((0..PLACES).map(|at| Who::Write(qp, at)));
            }
        }
    }

    fn number(self, who: Who) -> usize {
        match who {
            Who::Program(t) => 2 * usize::from(t),
            Who::Buffer(t) => 2 * usize::from(t) + 1,
            Who::Nic(qp, part) => self.pair(qp) + part as usize,
            Who::Later(qp, part) => self.pair(qp) + Part::ALL.len() + part as usize,
            Who::Write(qp, at) => self.pair(qp) + 2 * Part::ALL.len() + at.min(PLACES - 1),
        }
    }

    /// Returns the number of a queue pair's first agent.
    fn pair(self, qp: QpId) -> usize {
        let pair = usize::from(qp.thread) * self.nodes + usize::from(qp.peer);
        2 * self.threads + pair * PARTS
    }
}

/// Storage of the reduction, used again from state to state.
#[derive(Default)]
pub(crate) struct Reducer {
    closure: explorer::Closure,
    movers: Vec<usize>,
    /// The agents among the movers that have a move which must happen.
    seeds: Vec<usize>,
    whos: Vec<Who>,
}

impl Reducer {
    /// Reduces `moves` to a persistent subset: the smallest that is found when starting from each agent that
    /// can move.
    pub(crate) fn reduce(&mut self, walker: &Walker<'_>, state: &mut State, moves: &mut Vec<Move>) {
        if moves.len() < 2 || state.losses.is_settling() || state.losses.links.is_unsettled() {
            return;
        }
        let numbering = Numbering {
            threads: state.threads.len(),
            nodes: state.node_count(),
        };
        let number = |&what: &Move| numbering.number(agent_of(what));
        self.movers.clear();
        self.movers.extend(moves.iter().map(number));
        numbering.all(&mut self.whos);
        self.seeds.clear();
        let (movers, seeds) = (&self.movers, &mut self.seeds);
        let must = movers
            .iter()
            .zip(moves.iter())
            .filter(|(_, what)| !what.is_optional(state));
        seeds.extend(must.map(|(mover, _)| mover));
        if seeds.is_empty() {
            return;
        }
        self.closure
            .find(numbering.count(), movers, seeds, |agent, agents| {
                let mut needs = Needs {
                    walker,
                    numbering,
                    tier: walker.config.tier,
                    reorders: walker.config.tier != Tier::Ibta,
                    agents,
                };
                if !movers.contains(&agent) {
                    needs.enablers(state, self.whos[agent]);
                    return;
                }
                if let Who::Write(qp, at) = self.whos[agent]
                    && at == PLACES - 1
                    && needs.reorders
                {
                    // Not all writes from here on can move.
                    needs.enablers_of_writes(state, qp, at..);
                }
                for (&what, _) in moves.iter().zip(movers).filter(|(_, mover)| **mover == agent) {
                    needs.dependents(state, what);
                }
            });
        let mut movers = movers.iter();
        moves.retain(|_| movers.next().is_some_and(|&agent| self.closure.contains(agent)));
    }
}

fn agent_of(what: Move) -> Who {
    match what {
        Move::Thread(t) => Who::Program(t),
        Move::Machine(Step::Drain { thread }) => Who::Buffer(thread),
        Move::Machine(Step::Nic {
            qp,
            rule: Rule::PlaceRemote,
            index,
        }) => Who::Write(qp, usize::from(index)),
        Move::Machine(Step::Nic { qp, rule, .. }) => Who::Nic(qp, Part::of(rule)),
        Move::Fault(Fault::Expire(thread) | Fault::Idle(thread)) => Who::Program(thread),
        // Nothing is left out while nodes may be lost: see `reduce`.
        Move::Fault(
            Fault::Crash(node)
            | Fault::Suspect(node)
            | Fault::Revoke(node)
            | Fault::Learn { node, .. }
            | Fault::Cut { node, .. }
            | Fault::Heal { node, .. },
        ) => Who::Program(node),
    }
}

/// Finds which other agents an agent needs in its set, and adds them.
struct Needs<'a, 'b, 'c> {
    walker: &'a Walker<'b>,
    numbering: Numbering,
    tier: Tier,
    /// Set on the tiers other than [`Tier::Ibta`].
    reorders: bool,
    agents: &'a mut explorer::Agents<'c>,
}

impl Needs<'_, '_, '_> {
    #[inline]
    fn add(&mut self, who: Who) {
        if usize::from(who.thread()) >= self.numbering.threads {
            // Some thread that is there starts it first.
            return self.add_all_programs();
        }
        self.agents.insert(self.numbering.number(who));
    }

    /// Adds the part of the queue pair, with the moves that it has yet to be able to make.
    fn add_part(&mut self, qp: QpId, part: Part) {
        self.add(Who::Nic(qp, part));
        self.add_later(qp, part);
    }

    /// Adds the moves that the part of the queue pair has yet to be able to make, if they need not come after those that it can
    /// make.
    fn add_later(&mut self, qp: QpId, part: Part) {
        if self.reorders {
            self.add(Who::Later(qp, part));
        }
    }

    /// Adds what may enable an operation that is in the queue pair. Where it waits until `wb_R` is empty, it is enough to
    /// follow the oldest write.
    fn add_queue_pair(&mut self, state: &State, qp: QpId) {
        for part in Part::ALL {
            self.add(Who::Nic(qp, part));
        }
        match self.reorders {
            true => self.add_writes(state, qp, |_| true),
            false => self.add(Who::Write(qp, 0)),
        }
    }

    /// Adds whoever may yet move a remote write of the queue pair.
    fn add_remote_writes(&mut self, state: &State, qp: QpId) {
        self.add_part(qp, Part::RemoteWrite);
        self.add_writes(state, qp, |_| true);
    }

    /// Adds whoever must place another write before one of those at `places` of `wb_R` can be placed.
    fn enablers_of_writes(&mut self, state: &State, qp: QpId, places: impl RangeBounds<usize>) {
        for at in (0..state.machine.unplaced(qp).count()).filter(|at| places.contains(at)) {
            if let Some(first) = state.machine.placed_before(qp, at) {
                self.add(Who::Write(qp, first));
            }
        }
    }

    /// Adds the writes of `wb_R` to such words.
    fn add_writes(&mut self, state: &State, qp: QpId, to: impl Fn(Addr) -> bool) {
        for (at, word) in state.machine.unplaced(qp).enumerate() {
            if to(word) {
                self.add(Who::Write(qp, at));
            }
        }
    }

    fn add_thread(&mut self, thread: u16) {
        self.add(Who::Program(thread));
        self.add(Who::Buffer(thread));
    }

    fn add_all_programs(&mut self) {
        for thread in 0..self.numbering.threads as u16 {
            self.add(Who::Program(thread));
        }
    }

    fn add_node(&mut self, state: &State, node: u16) {
        for thread in 0..self.numbering.threads as u16 {
            if state.info(thread).node == node {
                self.add(Who::Program(thread));
            }
        }
    }

    /// Adds everything that can make a completion appear at a node.
    fn add_completions(&mut self, state: &State, node: u16) {
        for thread in 0..self.numbering.threads as u16 {
            if state.info(thread).node == node {
                for peer in 0..self.numbering.nodes as u16 {
                    let qp = QpId { thread, peer };
                    self.add_part(qp, Part::Other);
                    self.add_part(qp, Part::LocalWrite);
                }
            }
        }
    }

    /// Adds the other agents that may yet access the word in a conflicting way.
    fn add_conflicts(&mut self, state: &State, word: Addr, agent: Agent, write: bool) {
        let walker = self.walker;
        let others = walker.seen.words.others(word, agent, write);
        for other in others.filter(|&other| state.may_access(word, other)) {
            match other.agent.parts() {
                (thread, None) => {
                    if other.write {
                        self.add(Who::Buffer(thread));
                    }
                    // Loads; stores that are still to come; locked instructions.
                    if state.may_ask(other) {
                        self.add(Who::Program(thread));
                    }
                }
                (_, Some((qp, Part::RemoteWrite))) => {
                    self.add_writes(state, qp, |to| to == word);
                    if state.may_ask(other) || state.machine.will_write(qp, word) {
                        self.add_part(qp, Part::RemoteWrite);
                    }
                }
                (_, Some((qp, part))) => self.add_part(qp, part),
            }
        }
    }

    /// Adds the other writes of the step's own queue pair to the word that it writes, where they may come before or after it.
    fn add_overtaking(&mut self, state: &State, qp: QpId, step: Step, word: Addr) {
        if !self.walker.overtakes(state, step, word) {
            return;
        }
        let Step::Nic { rule, .. } = step else { return };
        if rule == Rule::PlaceRemote {
            self.add_writes(state, qp, |to| to == word);
            self.add_part(qp, Part::RemoteWrite);
        } else {
            self.add_later(qp, Part::LocalWrite);
        }
    }

    /// Adds the programs of those who may yet do this.
    fn add_askers(&mut self, state: &State, others: impl Iterator<Item = Other>) {
        for other in others.filter(|&other| state.may_ask(other)) {
            self.add(Who::Program(other.agent.parts().0));
        }
    }

    fn dependents(&mut self, state: &mut State, what: Move) {
        match what {
            Move::Thread(thread) => self.of_request(state, thread),
            Move::Machine(step) => self.of_step(state, step),
            // The move advances the node's clock, and it comes too late once the condition holds.
            Move::Fault(Fault::Expire(thread)) => {
                self.add_node(state, state.info(thread).node);
                self.waited_for(state, thread);
            }
            // See `reduce`.
            Move::Fault(_) => self.add_all_programs(),
        }
    }

    fn of_request(&mut self, state: &mut State, thread: u16) {
        let common = self.walker.common;
        if let Some(request) = state.request(common, thread) {
            self.of(state, thread, request);
        }
    }

    fn of(&mut self, state: &mut State, thread: u16, request: &Request) {
        let common = self.walker.common;
        let cpu = Agent::cpu(thread);
        match *request {
            // Nodes cannot be lost any more, or nothing is left out.
            Request::Direct { word, access, .. } => self.of(state, thread, &access.to(word)),
            Request::Load { word } => {
                let addr = state.addr(common, word);
                self.add_conflicts(state, addr, cpu, false);
            }
            Request::Rmw { word, .. } => {
                let addr = state.addr(common, word);
                self.add_conflicts(state, addr, cpu, true);
            }
            Request::Lock { lock, .. } | Request::TryLock { lock } | Request::Unlock { lock, .. } => {
                let index = state.lock_index(common, lock.0);
                let walker = self.walker;
                self.add_askers(state, walker.seen.lock_users(index, thread, true));
            }
            Request::Poll => {
                let node = state.info(thread).node;
                self.add_completions(state, node);
                self.add_askers(state, self.walker.seen.users(Shared::Completions(node)));
            }
            Request::Post { owner, .. } if owner != thread => self.add_thread(owner),
            // The clock, which moves when a wait of the node ends by its deadline.
            Request::Now
            | Request::WaitBegin {
                deadline: Deadline::Within(_),
                ..
            } => self.add_node(state, state.info(thread).node),
            Request::Send { to, .. } => self.add_askers(state, self.walker.seen.users(Shared::Mailbox(to.0))),
            Request::Receive | Request::Close => {
                let node = state.info(thread).node;
                self.add_askers(state, self.walker.seen.users(Shared::Mailbox(node)));
            }
            Request::Note(Note::Call(_) | Note::Return(_)) => {
                let returns = matches!(request, Request::Note(Note::Return(_)));
                let walker = self.walker;
                self.add_askers(state, walker.seen.history_of_others(thread, returns));
            }
            // As a fault. See `reduce`.
            Request::Faulted | Request::HasHappened(_) | Request::Leave => self.add_all_programs(),
            // Nobody but the thread itself sees these requests.
            Request::Post { .. }
            | Request::Lost
            | Request::Reach { .. }
            | Request::Store { .. }
            | Request::Fence
            | Request::WaitBegin { .. }
            | Request::WaitEnd
            | Request::Park
            | Request::Join { .. }
            | Request::Spawn { .. }
            | Request::Note(Note::Mark(_))
            | Request::End(_) => {}
        }
    }

    fn of_step(&mut self, state: &State, step: Step) {
        let touched = state.machine.footprint(step);
        let agent = crate::state::agent_of(step);
        if let Some(word) = touched.reads {
            self.add_conflicts(state, word, agent, touched.writes == Some(word));
        }
        if let Some(word) = touched.writes {
            self.add_conflicts(state, word, agent, true);
        }
        let Step::Nic { qp, rule, .. } = step else { return };
        if let Some(word) = touched.writes {
            self.add_overtaking(state, qp, step, word);
        }
        match rule {
            Rule::Respond => {
                if self.reorders {
                    // It hides the notifications of earlier operations that come after it.
                    self.add_part(qp, Part::Other);
                    let node = state.info(qp.thread).node;
                    self.add_askers(state, self.walker.seen.users(Shared::Completions(node)));
                }
                if self.tier != Tier::Unordered {
                    // A pending local write keeps puts from reading; a read comes before or after it.
                    self.add_part(qp, Part::LocalRead);
                    self.add_later(qp, Part::LocalWrite);
                }
            }
            // Nothing else in a queue pair waits for these, or is kept back by them, but through the words that they touch.
            Rule::LocalRead | Rule::RemoteWrite | Rule::RemoteRead | Rule::AtomicRead | Rule::AtomicWrite
                if self.tier == Tier::Unordered => {}
            Rule::LocalRead => self.add_part(qp, Part::LocalWrite),
            // A pending remote write keeps gets from reading.
            Rule::RemoteWrite => {
                self.add_part(qp, Part::RemoteRead);
                if self.reorders {
                    // Writes enter `wb_R` in any order.
                    self.add_part(qp, Part::RemoteWrite);
                    self.add_part(qp, Part::Atomic);
                }
            }
            Rule::RemoteRead | Rule::AtomicRead | Rule::AtomicWrite => {
                self.add_remote_writes(state, qp);
                self.add_part(qp, Part::RemoteRead);
                self.add_part(qp, Part::Atomic);
            }
            Rule::PlaceRemote | Rule::PlaceLocal | Rule::Complete | Rule::Fence => {}
            Rule::Forward => {
                self.add_queue_pair(state, qp);
                self.add_remote_writes(state, qp);
            }
        }
        if touched.unit.is_some() || rule == Rule::AtomicRead {
            for thread in 0..self.numbering.threads as u16 {
                let other = QpId {
                    thread,
                    peer: qp.peer,
                };
                self.add_part(other, Part::Atomic);
                self.add_remote_writes(state, other);
            }
        }
        if state.machine.commutes(step).notifies {
            let node = state.info(qp.thread).node;
            self.add_askers(state, self.walker.seen.users(Shared::Completions(node)));
        }
        // Several entries of one part may be able to move. The set contains every order among them, as it
        // contains all moves of an agent. Entries posted later queue up behind them, except for gets, which
        // may pass one another. On other tiers, later moves are agents of their own.
        if Part::of(rule) == Part::RemoteRead && !self.reorders {
            self.add_thread(qp.thread);
            self.add(Who::Nic(qp, Part::LocalRead));
        }
    }

    /// Adds whatever could enable a next move of an agent that has none now.
    fn enablers(&mut self, state: &mut State, who: Who) {
        match who {
            Who::Buffer(thread) => {
                // The buffer is empty, since it could drain otherwise. Its thread fills it, or a thread that
                // posts to its queue pairs.
                self.add(Who::Program(thread));
                for peer in 0..self.numbering.nodes as u16 {
                    self.add_askers(
                        state,
                        self.walker.seen.users(Shared::QueuePair(QpId { thread, peer })),
                    );
                }
            }
            // It is enough to follow one of the writes that are placed first.
            Who::Write(qp, at) => match at == PLACES - 1 {
                true => self.enablers_of_writes(state, qp, at..),
                false => self.enablers_of_writes(state, qp, at..=at),
            },
            Who::Nic(qp, part) | Who::Later(qp, part) => {
                let next = |place| state.machine.next_in(qp, place, |rule| Part::of(rule) == part);
                let (queued, delayed) = (next(Next::Queued), next(Next::Delayed));
                if queued {
                    self.add_queue_pair(state, qp);
                }
                // Where the order is kept, an operation does not come before those that are further.
                let passes = matches!(who, Who::Later(..));
                let waits = !self.reorders && !queued;
                if delayed && (passes || waits) {
                    self.add(Who::Buffer(qp.thread));
                }
                if passes || (waits && !delayed) {
                    self.add_askers(state, self.walker.seen.users(Shared::QueuePair(qp)));
                }
                // Another queue pair may hold the atomic unit.
                let threads = match state.machine.unit_is_held(qp.peer) {
                    true => self.numbering.threads as u16,
                    false => 0,
                };
                for thread in 0..threads {
                    let other = QpId {
                        thread,
                        peer: qp.peer,
                    };
                    if other != qp && state.machine.holds_unit(other) {
                        self.add(Who::Nic(other, Part::Atomic));
                        self.add_remote_writes(state, other);
                    }
                }
            }
            Who::Program(thread) => self.waited_for(state, thread),
        }
    }

    fn waited_for(&mut self, state: &mut State, thread: u16) {
        let common = self.walker.common;
        let cpu = Agent::cpu(thread);
        match state.threads[usize::from(thread)].status {
            Status::Done | Status::Failed | Status::Stopped => {}
            Status::Parked => {
                if let Some(wait) = state.wait(thread) {
                    for word in wait.words() {
                        self.add_conflicts(state, word, cpu, false);
                    }
                    if wait.polled() {
                        self.add_completions(state, state.info(thread).node);
                    }
                    if wait.looked() {
                        self.add_node(state, state.info(thread).node);
                    }
                    for &lock in wait.locks() {
                        let walker = self.walker;
                        self.add_askers(state, walker.seen.lock_users(lock, thread, true));
                    }
                }
                // The thread's own store buffer decides what the thread sees.
                self.add(Who::Buffer(thread));
            }
            Status::Ready => {
                self.add(Who::Buffer(thread));
                match state.request(common, thread) {
                    Some(Request::Lock { lock, .. }) => {
                        let index = state.lock_index(common, lock.0);
                        let walker = self.walker;
                        self.add_askers(state, walker.seen.lock_users(index, thread, true));
                    }
                    Some(Request::Join { thread }) => self.add(Who::Program(*thread)),
                    Some(Request::Receive) => {
                        let node = state.info(thread).node;
                        self.add_askers(state, self.walker.seen.users(Shared::Mailbox(node)));
                    }
                    None => self.add_all_programs(),
                    Some(_) => {}
                }
            }
        }
    }
}
