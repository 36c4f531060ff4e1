//! What threads and their operations may yet do, as the reduction asks.
//!
//! Relies on what each agent was seen to access ([`super::sharing`]). Used by [`crate::exploring`].

use mowgli::machine::Addr;

use super::sharing::{Other, Part};
use super::{State, Status};

impl State {
    /// Returns whether the thread may yet make requests of this sort. While nodes may be lost the answer is always yes,
    /// since how far a node has come shows once it is lost.
    pub(crate) fn may_ask(&self, other: Other) -> bool {
        if self.losses.is_settling() {
            return true;
        }
        let Some(t) = self.threads.get(usize::from(other.agent.parts().0)) else {
            // It is started later.
            return true;
        };
        let ended = matches!(t.status, Status::Done | Status::Failed | Status::Stopped);
        other.until == u32::MAX || !ended && other.until > t.phase
    }

    /// Returns whether some thread may yet make requests of these sorts.
    pub(crate) fn may_ask_any(&self, mut others: impl Iterator<Item = Other>) -> bool {
        others.any(|other| self.may_ask(other))
    }

    /// Returns whether the agent may yet access the word in this way: by a request that is to come, or by one that was
    /// granted and has not taken effect.
    pub(crate) fn may_access(&self, word: Addr, other: Other) -> bool {
        if self.may_ask(other) {
            return true;
        }
        match other.agent.parts() {
            (thread, None) => other.write && self.machine.buffers(thread, word),
            (_, Some((qp, part))) => {
                let mut found = false;
                self.machine.outstanding(qp, |access| {
                    found |=
                        access.word == word && access.writes == other.write && Part::of(access.rule) == part;
                });
                found
            }
        }
    }
}
