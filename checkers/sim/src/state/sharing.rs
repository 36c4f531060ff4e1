//! The knowledge of conflicts that the reduction uses: which agents touch which word, and until when.
//!
//! If no other agent touches a word from now on in a conflicting way, a step on that word commutes with every later
//! step, so it need not be interleaved with them. An agent touches a word from now on if an operation under way
//! touches it, or if a later request leads to such an operation. The *phase* of a thread, which only grows, tells how
//! far the thread has come. The last phase in which a thread asked for an access tells until when it makes such
//! accesses. Calls and returns of histories, and uses of locks, are known in the same way.
//!
//! These facts are learned. An exploration starts from what earlier ones saw, and is repeated when it meets an access
//! that it had not counted on. When it ends without one, it has missed no reachable access. Suppose that some execution
//! had one, and take the first such access of a shortest such execution. The steps before it keep clear of the words
//! treated as private, so the steps taken early can be moved to the front. The result is an execution that was explored and
//! that contains the same access, asked for in the same phase.

use mowgli::machine::{Addr, QpId, Rule};
use smallvec::SmallVec;

/// Something whose accesses are in a fixed order: the CPU of a thread, or one part of a queue pair ([`Part`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Agent(u32);

impl Agent {
    pub(crate) fn cpu(thread: u16) -> Agent {
        Agent(u32::from(thread) << 16)
    }

    /// Returns the part of a queue pair that carries out `rule`.
    pub(crate) fn nic(qp: QpId, rule: Rule) -> Agent {
        let part = Part::of(rule) as u32 + 1;
        Agent(u32::from(qp.thread) << 16 | part << 8 | u32::from(qp.peer))
    }

    /// Returns the thread, and the queue pair's part unless the agent is the CPU.
    pub(crate) fn parts(self) -> (u16, Option<(QpId, Part)>) {
        let thread = (self.0 >> 16) as u16;
        let part = (self.0 >> 8 & 0xff) as usize;
        let qp = QpId {
            thread,
            peer: (self.0 & 0xff) as u16,
        };
        (thread, part.checked_sub(1).map(|part| (qp, Part::ALL[part])))
    }
}

/// A part of a queue pair. It makes its moves in the order of the queue pair, except that remote reads of
/// gets may pass one another, and that every move may pass others where the network or the bus reorders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    LocalRead,
    RemoteWrite,
    RemoteRead,
    Atomic,
    LocalWrite,
    /// Fences, and completions of puts.
    Other,
}

impl Part {
    pub(crate) const ALL: [Part; 6] = [
        Part::LocalRead,
        Part::RemoteWrite,
        Part::RemoteRead,
        Part::Atomic,
        Part::LocalWrite,
        Part::Other,
    ];

    pub(crate) fn of(rule: Rule) -> Part {
        match rule {
            Rule::LocalRead => Part::LocalRead,
            Rule::RemoteWrite | Rule::PlaceRemote => Part::RemoteWrite,
            Rule::RemoteRead => Part::RemoteRead,
            Rule::AtomicRead | Rule::AtomicWrite => Part::Atomic,
            Rule::Respond | Rule::PlaceLocal => Part::LocalWrite,
            Rule::Complete | Rule::Fence | Rule::Forward => Part::Other,
        }
    }
}

/// The end of a thread's accesses of some sort: no such access comes from a request at this phase
/// ([`super::Thread::phase`]) or a later one. It is 0 if there are no such accesses.
type Until = u32;

/// The accesses of an agent to a word: until when requests lead to reads, and until when to writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Accesses {
    agent: Agent,
    reads: Until,
    writes: Until,
}

impl Accesses {
    fn until(&mut self, write: bool) -> &mut Until {
        match write {
            true => &mut self.writes,
            false => &mut self.reads,
        }
    }
}

/// A sort of accesses by an agent other than the one that asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Other {
    pub(crate) agent: Agent,
    pub(crate) write: bool,
    pub(crate) until: Until,
}

/// Accesses by word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sharing {
    words: Vec<SmallVec<[Accesses; 4]>>,
}

impl Sharing {
    /// Returns the accesses of other agents to the word that conflict with a read or a write.
    pub(crate) fn others(&self, word: Addr, agent: Agent, write: bool) -> impl Iterator<Item = Other> + '_ {
        let seen = self.words.get(word.0 as usize).map_or(&[][..], |seen| &seen[..]);
        seen.iter()
            .filter(move |of| of.agent != agent)
            .flat_map(move |of| {
                let reads = Other {
                    agent: of.agent,
                    write: false,
                    until: if write { of.reads } else { 0 },
                };
                let writes = Other {
                    write: true,
                    until: of.writes,
                    ..reads
                };
                [reads, writes].into_iter().filter(|other| other.until > 0)
            })
    }

    /// Returns all writes of the word.
    fn writes(&self, word: Addr) -> impl Iterator<Item = Other> + '_ {
        let seen = self.words.get(word.0 as usize).map_or(&[][..], |seen| &seen[..]);
        let writes = seen.iter().map(|of| Other {
            agent: of.agent,
            write: true,
            until: of.writes,
        });
        writes.filter(|other| other.until > 0)
    }

    /// Counts an access. Returns true if it makes a conflict that was not known.
    fn record(&mut self, word: Addr, agent: Agent, write: bool, until: Until) -> bool {
        self.grow(word, agent, write, until) && self.others(word, agent, write).next().is_some()
    }

    /// Counts an access. Returns true if an access at this phase was not known.
    fn grow(&mut self, word: Addr, agent: Agent, write: bool, until: Until) -> bool {
        let index = word.0 as usize;
        if self.words.len() <= index {
            self.words.resize_with(index + 1, SmallVec::new);
        }
        let seen = &mut self.words[index];
        let at = seen.iter().position(|of| of.agent == agent).unwrap_or_else(|| {
            seen.push(Accesses {
                agent,
                reads: 0,
                writes: 0,
            });
            seen.len() - 1
        });
        let known = seen[at].until(write);
        let grows = *known < until;
        *known = until.max(*known);
        grows
    }

    /// Lists all accesses: the word, the agent, whether it writes, and until when.
    fn all(&self) -> impl Iterator<Item = (Addr, Agent, bool, Until)> + '_ {
        let words = (0..).map(Addr).zip(&self.words);
        words.flat_map(|(word, seen)| {
            seen.iter().flat_map(move |of| {
                let ways = [
                    (word, of.agent, false, of.reads),
                    (word, of.agent, true, of.writes),
                ];
                ways.into_iter().filter(|&(.., until)| until > 0)
            })
        })
    }
}

/// The accesses that one explorer has seen in an exploration.
#[derive(Clone, Debug, Default)]
pub(crate) struct SeenAccesses {
    /// Accesses to words.
    pub(crate) words: Sharing,
    /// The writes of queue pairs that may overtake earlier writes of the same queue pair to the same word.
    overtaking: Sharing,
    /// Uses of locks: an attempt counts as a write, locking and unlocking as a read.
    pub(crate) locks: Sharing,
    /// Calls and returns in the one history of the world: a return counts as a write, a call as a read.
    history: Sharing,
    /// Uses of things that are [`Shared`], for each sort of them.
    uses: [Sharing; 3],
    /// Set when a conflict was met that was not known before.
    pub(crate) fresh: bool,
    /// Set if accesses count as if they could always come again. Within bounds, a move that is taken early costs less
    /// than in its turn, so only moves that nobody ever sees may be taken early.
    for_ever: bool,
}

/// Something besides words, locks and the history that threads use together.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shared {
    /// The completions of a node, which are polled for.
    Completions(u16),
    /// The set-up mailbox of a node: messages are sent to it and received from it, and it is closed.
    Mailbox(u16),
    /// A queue pair, to which operations are posted.
    QueuePair(QpId),
}

impl Shared {
    /// Returns the index of its sort in [`SeenAccesses::uses`], and itself as a word there.
    fn place(self) -> (usize, Addr) {
        match self {
            Shared::Completions(node) => (0, Addr(node.into())),
            Shared::Mailbox(node) => (1, Addr(node.into())),
            Shared::QueuePair(qp) => (2, Addr(u32::from(qp.thread) << 8 | u32::from(qp.peer))),
        }
    }
}

/// The history as a word of [`SeenAccesses::history`].
const HISTORY: Addr = Addr(0);

impl SeenAccesses {
    /// Begins with no knowledge. With `for_ever` accesses count as if they could always come again.
    pub(crate) fn new(for_ever: bool) -> SeenAccesses {
        SeenAccesses {
            for_ever,
            ..SeenAccesses::default()
        }
    }

    fn until(&self, phase: u32) -> Until {
        match self.for_ever {
            true => Until::MAX,
            false => phase.saturating_add(1),
        }
    }

    /// Counts an access to a word.
    pub(crate) fn touch(&mut self, word: Addr, agent: Agent, write: bool, phase: u32) {
        self.fresh |= self.words.record(word, agent, write, self.until(phase));
    }

    /// Counts a write of a queue pair that may overtake its earlier writes to the word.
    pub(crate) fn touch_out_of_order(&mut self, word: Addr, agent: Agent, phase: u32) {
        self.fresh |= self.overtaking.grow(word, agent, true, self.until(phase));
    }

    /// Returns the writes of this agent to the word that may overtake its earlier ones.
    pub(crate) fn overtakers(&self, word: Addr, agent: Agent) -> impl Iterator<Item = Other> + '_ {
        self.overtaking
            .writes(word)
            .filter(move |other| other.agent == agent)
    }

    /// Counts a use of a lock by a thread.
    pub(crate) fn touch_lock(&mut self, lock: usize, thread: u16, attempt: bool, phase: u32) {
        self.use_lock(lock, Agent::cpu(thread), attempt, self.until(phase));
    }

    fn use_lock(&mut self, lock: usize, agent: Agent, attempt: bool, until: Until) {
        let word = Addr(lock as u32);
        // Counts the use of a second thread as news even if both only lock.
        self.fresh |= self.locks.grow(word, agent, attempt, until)
            && self.locks.others(word, agent, true).next().is_some();
    }

    /// Counts a call or a return of a history.
    pub(crate) fn touch_history(&mut self, thread: u16, returns: bool, phase: u32) {
        self.in_history(Agent::cpu(thread), returns, self.until(phase));
    }

    fn in_history(&mut self, agent: Agent, returns: bool, until: Until) {
        self.fresh |= self.history.grow(HISTORY, agent, returns, until)
            && self.history_of_others(agent.parts().0, returns).next().is_some();
    }

    /// Counts a use by a thread. The first use is new knowledge even if no other thread has made one: queue pairs complete
    /// operations without a request, and a thread may already wait for a message that it has not received.
    pub(crate) fn touch_shared(&mut self, shared: Shared, thread: u16, phase: u32) {
        let ((sort, word), until) = (shared.place(), self.until(phase));
        self.fresh |= self.uses[sort].grow(word, Agent::cpu(thread), true, until);
    }

    /// Returns all uses.
    pub(crate) fn users(&self, shared: Shared) -> impl Iterator<Item = Other> + '_ {
        let (sort, word) = shared.place();
        self.uses[sort].writes(word)
    }

    /// Returns the uses of the lock by threads other than this one: all of them, or only the attempts, which notice
    /// whether the lock has been released.
    pub(crate) fn lock_users(&self, lock: usize, thread: u16, all: bool) -> impl Iterator<Item = Other> + '_ {
        self.locks.others(Addr(lock as u32), Agent::cpu(thread), all)
    }

    /// Returns the calls of other threads, whose order with a return of this thread matters, or with `returns` false
    /// their returns, whose order with a call of this thread matters.
    pub(crate) fn history_of_others(&self, thread: u16, returns: bool) -> impl Iterator<Item = Other> + '_ {
        let others = self.history.others(HISTORY, Agent::cpu(thread), returns);
        others.filter(move |other| other.write != returns)
    }

    /// Adds what another explorer has seen. A conflict between the two is new to both: each has explored as
    /// if its own accesses were the only ones.
    pub(crate) fn merge(&mut self, other: &SeenAccesses) {
        self.fresh |= other.fresh;
        for (word, agent, write, until) in other.words.all() {
            self.fresh |= self.words.record(word, agent, write, until);
        }
        for (word, agent, write, until) in other.overtaking.all() {
            self.fresh |= self.overtaking.grow(word, agent, write, until);
        }
        for (lock, agent, attempt, until) in other.locks.all() {
            self.use_lock(lock.0 as usize, agent, attempt, until);
        }
        for (_, agent, returns, until) in other.history.all() {
            self.in_history(agent, returns, until);
        }
        for (mine, others) in self.uses.iter_mut().zip(&other.uses) {
            for (word, agent, write, until) in others.all() {
                self.fresh |= mine.grow(word, agent, write, until);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conflict_that_only_the_merge_shows_is_news() {
        let word = Addr(3);
        let (mut one, mut two) = (SeenAccesses::default(), SeenAccesses::default());
        one.touch(word, Agent::cpu(0), true, 0);
        two.touch(word, Agent::cpu(1), false, 0);
        assert!(!one.fresh && !two.fresh);
        one.merge(&two);
        assert!(one.fresh);
        // Both explorers know the conflict by now.
        one.fresh = false;
        one.merge(&two);
        assert!(!one.fresh);
    }

    #[test]
    fn a_lock_of_two_threads_that_only_the_merge_shows_is_news() {
        let (mut one, mut two) = (SeenAccesses::default(), SeenAccesses::default());
        one.touch_lock(0, 0, false, 0);
        two.touch_lock(0, 1, false, 0);
        assert!(!one.fresh && !two.fresh);
        one.merge(&two);
        assert!(one.fresh);
    }
}
