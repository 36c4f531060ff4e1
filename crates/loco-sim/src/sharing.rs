//! Who touches which word: what the reduction knows of conflicts.
//!
//! A step on a word that no other agent touches in a conflicting way commutes with all others, so it need not be
//! interleaved with them. Which words those are is learned: an exploration starts from what earlier ones saw, and is
//! repeated when it meets an access that it had not counted on. When it ends without one, no reachable
//! access was missed: were there an execution with one, take the first such access of a shortest one; the steps
//! before it keep clear of the words treated as private, so the steps taken early can be moved to the front, and the
//! explored execution so obtained contains the same access.

use mowgli::machine::{Addr, QpId, Rule};
use smallvec::SmallVec;

/// Something whose accesses are in a fixed order: the CPU of a thread, or one side of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Agent(u32);

impl Agent {
    pub(crate) fn cpu(thread: u16) -> Agent {
        Agent(u32::from(thread) << 16)
    }

    /// The part of a queue pair that carries out `rule`. Reads and writes on the same side are not in a fixed order.
    pub(crate) fn nic(qp: QpId, rule: Rule) -> Agent {
        let part = match rule {
            Rule::LocalRead => 1,
            Rule::RemoteWrite | Rule::PlaceRemote | Rule::AtomicWrite => 2,
            Rule::RemoteRead => 3,
            Rule::AtomicRead => 4,
            _ => 5,
        };
        Agent(u32::from(qp.thread) << 16 | part << 8 | u32::from(qp.peer))
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
    /// True if another agent touches the word and one of the two writes.
    pub(crate) fn conflicts(&self, word: Addr, agent: Agent, write: bool) -> bool {
        self.words.get(word.0 as usize).is_some_and(|seen| {
            seen.iter()
                .any(|&(other, how)| other != agent && (write || how & WRITE != 0))
        })
    }

    /// Counts an access; true if it makes a conflict that was not known.
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

    /// Takes over what another explorer has seen.
    pub(crate) fn merge(&mut self, other: &Sharing) {
        for (index, seen) in other.words.iter().enumerate() {
            for &(agent, how) in seen {
                for write in [false, true] {
                    if how & (if write { WRITE } else { READ }) != 0 {
                        self.record(Addr(index as u32), agent, write);
                    }
                }
            }
        }
    }
}

/// What one explorer has seen in an exploration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Accesses to words.
    pub(crate) words: Sharing,
    /// Uses of locks: attempts count as writes, locking as reading.
    pub(crate) locks: Sharing,
    /// A conflict was met that was not known before.
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
        // A second thread is news even if both only lock.
        let alone = !self.locks.conflicts(word, Agent::cpu(thread), true);
        let conflict = self.locks.record(word, Agent::cpu(thread), attempt);
        self.fresh |= conflict || alone && self.locks.conflicts(word, Agent::cpu(thread), true);
    }

    /// Whether locking may be in another thread's way.
    pub(crate) fn lock_conflicts(&self, lock: usize, thread: u16) -> bool {
        self.locks.conflicts(Addr(lock as u32), Agent::cpu(thread), true)
    }

    /// Whether another thread may notice when the lock is released.
    pub(crate) fn unlock_conflicts(&self, lock: usize, thread: u16) -> bool {
        self.locks.conflicts(Addr(lock as u32), Agent::cpu(thread), false)
    }

    /// Takes over what another explorer has seen.
    pub(crate) fn merge(&mut self, other: &Seen) {
        self.words.merge(&other.words);
        self.locks.merge(&other.locks);
    }
}
