//! The knowledge of conflicts that the reduction uses: which agents touch which word.
//!
//! A step on a word that no other agent touches in a conflicting way commutes with all others, so it need not
//! be interleaved with them. These words are learned. An exploration starts from the accesses that earlier
//! ones saw, and is repeated when it meets an access that it had not counted on. When it ends without one, it
//! has missed no reachable access. Suppose that some execution had one, and take the first such access of a
//! shortest such execution. The steps before it keep clear of the words treated as private, so the steps
//! taken early can be moved to the front. The result is an execution that was explored and that contains the
//! same access.

use mowgli::machine::{Addr, QpId, Rule};
use smallvec::SmallVec;

/// Something whose accesses are in a fixed order: the CPU of a thread, or one side of a queue pair.
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
/// gets may pass one another.
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

const READ: u8 = 1;
const WRITE: u8 = 2;

/// Accesses by word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sharing {
    words: Vec<SmallVec<[(Agent, u8); 4]>>,
}

impl Sharing {
    /// Returns true if another agent touches the word and one of the two writes.
    pub(crate) fn conflicts(&self, word: Addr, agent: Agent, write: bool) -> bool {
        self.words.get(word.0 as usize).is_some_and(|seen| {
            seen.iter()
                .any(|&(other, how)| other != agent && (write || how & WRITE != 0))
        })
    }

    /// Returns whether the agent has touched the word.
    fn knows(&self, word: Addr, agent: Agent) -> bool {
        let seen = self.words.get(word.0 as usize);
        seen.is_some_and(|seen| seen.iter().any(|&(other, _)| other == agent))
    }

    /// Returns the other agents that touch the word in a conflicting way, and whether they read and write.
    pub(crate) fn others(
        &self,
        word: Addr,
        agent: Agent,
        write: bool,
    ) -> impl Iterator<Item = (Agent, bool, bool)> + '_ {
        let seen = self.words.get(word.0 as usize).map_or(&[][..], |seen| &seen[..]);
        seen.iter()
            .filter(move |&&(other, how)| other != agent && (write || how & WRITE != 0))
            .map(|&(other, how)| (other, how & READ != 0, how & WRITE != 0))
    }

    /// Counts an access. Returns true if it makes a conflict that was not known.
    pub(crate) fn record(&mut self, word: Addr, agent: Agent, write: bool) -> bool {
        let index = word.0 as usize;
        if self.words.len() <= index {
            self.words.resize_with(index + 1, SmallVec::new);
        }
        let how = if write { WRITE } else { READ };
        let seen = &mut self.words[index];
        match seen.iter_mut().find(|(other, _)| *other == agent) {
            Some((_, known)) if *known & how != 0 => return false,
            Some((_, known)) => *known |= how,
            None => seen.push((agent, how)),
        }
        self.conflicts(word, agent, write)
    }

    /// Adds the accesses that another explorer has seen. Returns true if the two together show a conflict
    /// that this one did not have.
    pub(crate) fn merge(&mut self, other: &Sharing) -> bool {
        let mut fresh = false;
        for (index, seen) in other.words.iter().enumerate() {
            for &(agent, how) in seen {
                for write in [false, true] {
                    if how & (if write { WRITE } else { READ }) != 0 {
                        fresh |= self.record(Addr(index as u32), agent, write);
                    }
                }
            }
        }
        fresh
    }
}

/// The accesses that one explorer has seen in an exploration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Accesses to words.
    pub(crate) words: Sharing,
    /// Uses of locks: an attempt counts as a write, locking as a read.
    pub(crate) locks: Sharing,
    /// Set when a conflict was met that was not known before.
    pub(crate) fresh: bool,
}

impl Seen {
    /// Counts an access to a word.
    pub(crate) fn touch(&mut self, word: Addr, agent: Agent, write: bool) {
        self.fresh |= self.words.record(word, agent, write);
    }

    /// Counts a use of a lock by a thread.
    pub(crate) fn touch_lock(&mut self, lock: usize, thread: u16, attempt: bool) {
        let word = Addr(lock as u32);
        let agent = Agent::cpu(thread);
        // A second thread is new knowledge even if both threads only lock.
        let known = self.locks.knows(word, agent);
        let conflict = self.locks.record(word, agent, attempt);
        self.fresh |= conflict || !known && self.locks.conflicts(word, agent, true);
    }

    /// Lists the threads that use the lock.
    pub(crate) fn lock_users(&self, lock: usize) -> impl Iterator<Item = u16> + '_ {
        let nobody = Agent(u32::MAX);
        self.locks
            .others(Addr(lock as u32), nobody, true)
            .map(|(agent, ..)| agent.parts().0)
    }

    /// Returns whether locking may hinder another thread.
    pub(crate) fn lock_conflicts(&self, lock: usize, thread: u16) -> bool {
        self.locks.conflicts(Addr(lock as u32), Agent::cpu(thread), true)
    }

    /// Returns whether another thread may notice when the lock is released.
    pub(crate) fn unlock_conflicts(&self, lock: usize, thread: u16) -> bool {
        self.locks.conflicts(Addr(lock as u32), Agent::cpu(thread), false)
    }

    /// Adds what another explorer has seen. A conflict between the two is new to both: each has explored as
    /// if its own accesses were the only ones.
    pub(crate) fn merge(&mut self, other: &Seen) {
        self.fresh |= other.fresh;
        self.fresh |= self.words.merge(&other.words);
        for (index, users) in other.locks.words.iter().enumerate() {
            for &(agent, how) in users {
                for attempt in [false, true] {
                    if how & (if attempt { WRITE } else { READ }) != 0 {
                        self.touch_lock(index, agent.parts().0, attempt);
                    }
                }
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
        let (mut one, mut two) = (Seen::default(), Seen::default());
        one.touch(word, Agent::cpu(0), true);
        two.touch(word, Agent::cpu(1), false);
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
        let (mut one, mut two) = (Seen::default(), Seen::default());
        one.touch_lock(0, 0, false);
        two.touch_lock(0, 1, false);
        assert!(!one.fresh && !two.fresh);
        one.merge(&two);
        assert!(one.fresh);
    }
}
