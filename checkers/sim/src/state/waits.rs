//! Parks a thread whose condition does not hold, and wakes it.
//!
//! Used by [`super::State`] when it grants requests, and by walkers, which wake threads after each move.

use std::sync::Arc;

use mowgli::machine::Addr;
use smallvec::SmallVec;

use super::{Common, State, Status};
use crate::fabric::request::{NodeSet, Reply, Request};
use crate::state::behaviour::Past;

/// Says how the past of a thread records an evaluation of a wait's condition that only read and did not hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Waits {
    /// The evaluation is part of the past like everything else.
    #[default]
    Apart,
    /// The evaluation is no part of the past. The condition may keep its progress, which shows in the first request of
    /// its next evaluation. [`crate::exploring::conditions`] finds conditions that keep more.
    Passing,
    /// The evaluation is no part of the past, and the thread goes on where it made the same request before. The step
    /// that parks it is not interleaved with the moves of others.
    Merged,
}

/// A wait under way.
#[derive(Clone)]
pub(crate) struct Waiting {
    /// The past in which the wait was asked for. The request there describes the wait.
    pub(super) begin: Past,
    /// The past in which the evaluation of its condition began.
    pub(crate) entry: Past,
    /// The past in which an evaluation that only read has failed.
    pub(super) failed: Option<Past>,
    /// The past of `failed`, moved here when the condition is evaluated again for the first time.
    pub(super) resumes: Option<Past>,
    /// Set while the evaluation has only read.
    pub(super) pure: bool,
    pub(super) polled: bool,
    /// The words that the evaluation read, with what it found.
    pub(super) reads: SmallVec<[(Addr, u64); 4]>,
    /// The locks that the evaluation found taken.
    pub(super) locks: SmallVec<[usize; 1]>,
    /// The clock and the losses of its node that the evaluation saw, if it looked.
    pub(super) looked: Option<(u64, NodeSet)>,
    /// The time at which the wait gives up, by its node's clock.
    pub(super) deadline: Option<u64>,
    /// Set when the deadline has passed. The thread then gets a reply that says so.
    pub(super) expired: bool,
    /// The nodes whose loss ends the wait.
    pub(super) peers: NodeSet,
}

impl Waiting {
    /// Returns the words that the evaluation read.
    pub(crate) fn words(&self) -> impl Iterator<Item = Addr> + '_ {
        self.reads.iter().map(|&(word, _)| word)
    }

    /// Returns whether the evaluation polled for completions.
    pub(crate) fn polled(&self) -> bool {
        self.polled
    }

    /// Returns whether the evaluation looked at the clock of its node or at what the node knows of losses.
    pub(crate) fn looked(&self) -> bool {
        self.looked.is_some()
    }

    /// Returns the locks that the evaluation found taken.
    pub(crate) fn locks(&self) -> &[usize] {
        &self.locks
    }

    /// Returns the description of the wait.
    pub(crate) fn what<'a>(&self, common: &'a Common) -> &'a Arc<str> {
        match common.behaviour.request(self.begin) {
            Some(Request::WaitBegin { what, .. }) => what,
            // Only granting that request makes a wait.
            _ => unreachable!("a wait without its beginning"),
        }
    }
}

impl State {
    /// Notes that the thread has looked at the clock or at the losses.
    pub(super) fn look(&mut self, thread: u16) {
        let node = self.node_of(thread);
        let seen = (self.losses.clock(node), self.losses.known(node));
        if let Some(wait) = self.threads[thread as usize].wait_mut() {
            wait.looked.get_or_insert(seen);
        }
    }

    /// Returns how a parked thread's wait has ended without its condition, if it has.
    fn ended(&self, thread: u16, wait: &Waiting) -> Option<Reply> {
        if wait.expired {
            return Some(Reply::Expired);
        }
        let lost = self.losses.refusal(self.node_of(thread), wait.peers);
        lost.map(Reply::Lost)
    }

    /// Wakes a parked thread whose wait may have come true or has ended otherwise. Returns the thread and its
    /// reply.
    pub(crate) fn wake(&mut self, common: &Common) -> Option<(u16, Reply)> {
        for thread in 0..self.threads.len() as u16 {
            let t = &self.threads[thread as usize];
            if t.status != Status::Parked {
                continue;
            }
            let Some(wait) = &t.wait else { continue };
            if let Some(reply) = self.ended(thread, wait) {
                let past = common.behaviour.after(wait.failed.unwrap_or(t.past), &reply);
                let t = &mut self.threads[thread as usize];
                (t.status, t.past, t.wait) = (Status::Ready, past, None);
                return Some((thread, reply));
            }
            let changed = wait
                .reads
                .iter()
                .any(|&(word, value)| self.machine.load(thread, word) != Some(value as i64));
            let released = wait
                .locks
                .iter()
                .any(|&l| self.locks[l].writer.is_none() && self.locks[l].readers == 0);
            let node = self.node_of(thread);
            let now = (self.losses.clock(node), self.losses.known(node));
            let looks = wait.looked.is_some_and(|seen| seen != now);
            let may_hold = changed || released || looks || (wait.polled && self.can_poll(node));
            if !may_hold {
                continue;
            }
            let t = &mut self.threads[thread as usize];
            t.status = Status::Ready;
            if let Some(wait) = t.wait.as_mut().map(Arc::make_mut) {
                match wait.failed.take() {
                    Some(failed) => match common.behaviour.resumption(failed) {
                        Some(past) => t.past = past,
                        None => {
                            t.past = common.behaviour.after(failed, &Reply::Unit);
                            wait.resumes = Some(failed);
                        }
                    },
                    None => t.past = common.behaviour.after(t.past, &Reply::Unit),
                }
                if wait.resumes.is_none() {
                    wait.entry = t.past;
                }
                wait.pure = true;
                wait.polled = false;
                wait.reads.clear();
                wait.locks.clear();
                wait.looked = None;
            }
            return Some((thread, Reply::Unit));
        }
        None
    }

    /// Returns the wait that a thread is in.
    pub(crate) fn wait(&self, thread: u16) -> Option<&Waiting> {
        self.threads[usize::from(thread)].wait.as_deref()
    }

    /// Returns whether the thread evaluates its condition and has only read so far.
    pub(crate) fn only_reads(&self, thread: u16) -> bool {
        let wait = &self.threads[usize::from(thread)].wait;
        wait.as_ref().is_some_and(|wait| wait.pure)
    }

    /// Determines the pasts of threads that evaluate their conditions again, once their requests are known. The
    /// failed evaluation may have read anything, but it leaves behind only its progress, if any, and that
    /// shows in the next request. The past is therefore where the wait began, or the point after it where the
    /// failed evaluation made the same request ([`Waits::Merged`]), or else a point of its own that begins with this
    /// request.
    pub(crate) fn resume(&mut self, common: &Common) {
        for t in &mut self.threads {
            let Some(wait) = &mut t.wait else { continue };
            let (Some(failed), Some(request)) = (wait.resumes, common.behaviour.request(t.past)) else {
                continue;
            };
            let wait = Arc::make_mut(wait);
            wait.resumes = None;
            if common.behaviour.request(wait.entry) != Some(request) {
                let met = match common.waits {
                    Waits::Merged => common.behaviour.met(wait.entry, failed, request),
                    Waits::Passing | Waits::Apart => None,
                };
                wait.entry = met.unwrap_or_else(|| common.behaviour.resumed(wait.begin, request));
            }
            common.behaviour.resumes(failed, wait.entry);
            t.past = wait.entry;
        }
    }

    /// Returns the past at the end of the failed evaluation after which the thread is parked. Returns `None` if the
    /// evaluation is part of the thread's past.
    pub(crate) fn failed_evaluation(&self, thread: u16) -> Option<Past> {
        let wait = self.threads[usize::from(thread)].wait.as_ref();
        wait.and_then(|wait| wait.failed)
    }

    /// Returns whether the thread is in a wait.
    pub(crate) fn is_waiting(&self, thread: u16) -> bool {
        self.threads[usize::from(thread)].wait.is_some()
    }
}
