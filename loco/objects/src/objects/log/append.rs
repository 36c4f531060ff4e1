//! Appends: a node asks the leader, or does the leader's work itself, until its record is committed.

use loco_fabric::{Fabric, NodeId, Peers};
use smallvec::SmallVec;

use super::{Log, Shared};
use crate::error::have;
use crate::operations::timing::Timing;
use crate::{AckKey, Error, Result, Thread};

/// The appends of this node. One is under way at a time.
pub(super) struct Sender<F: Fabric> {
    /// The number of requests so far.
    requests: u64,
    /// The last request, if it is not known to be appended.
    open: Option<Open>,
    /// The puts that may still read this node's row.
    reading: AckKey<F>,
}

/// A request under way.
#[derive(Clone, Copy)]
struct Open {
    len: usize,
    /// The leader that was sent the request.
    sent_to: Option<NodeId>,
}

impl<F: Fabric> Sender<F> {
    pub(super) fn new() -> Sender<F> {
        Sender {
            requests: 0,
            open: None,
            reading: AckKey::done(),
        }
    }
}

impl<F: Fabric> Log<F> {
    /// Appends a record, and waits until it is committed, for the thread's deadline at most. Returns its position, which counts from 0.
    /// Whatever this thread put to other nodes before is *not* placed by this: it is no fence.
    ///
    /// # Errors
    /// Returns [`TooLarge`](crate::Error::TooLarge) for a record that is too long, [`PeerLost`](crate::ErrorKind::PeerLost) if
    /// fewer than [`members_min`](super::LogConfig::members_min) participants are left, or
    /// [`Timeout`](crate::ErrorKind::Timeout), which names the leader, or the participants that have not read enough, this node among
    /// them if its program does not read at all. (A thread may leave two rings of records unread and append a ring of records more
    /// before it waits for its node's reader. A thread that reads between its appends never waits for itself.) A participant that is lost
    /// is not an error by itself. The errors of posting and of fences are possible, too.
    ///
    /// # After a timeout
    /// The record may be appended at any later time, once. The next append of this node waits for it first. After another error, too, it
    /// may be in the log or not.
    pub fn append(&self, thread: &Thread<F>, record: &[u8]) -> Result<u64> {
        let shared = &self.shared;
        let name = shared.channel.name();
        let _call = thread.call(name, "append");
        if record.len() > shared.config.record_bytes_max {
            return Err(Error::TooLarge {
                what: format!("a record of log `{name}`"),
                len: record.len(),
                max: shared.config.record_bytes_max,
            });
        }
        let mut timing = thread.timing_from_now();
        let mut awaits_reader = true;
        let appended = thread.until(timing.deadline, || {
            // Before the turn to append, for which the reader may wait.
            shared.wait_for_reader(thread)?;
            awaits_reader = false;
            let mut sender = shared.sender.enter(thread, name)?;
            if sender.open.is_some() {
                shared.finish(thread, &mut sender)?;
            }
            sender.reading.wait_until_read(thread)?;
            shared.requests.write(shared.here, sender.requests + 1, record)?;
            sender.requests += 1;
            sender.open = Some(Open {
                len: record.len(),
                sent_to: None,
            });
            shared.finish(thread, &mut sender)
        });
        appended.map_err(|error| shared.append_failed(thread, &mut timing, error, awaits_reader))
    }
}

impl<F: Fabric> Shared<F> {
    /// Sees to it that the request under way is appended. Returns the position of its record. Unread records of this node keep nobody
    /// waiting meanwhile.
    fn finish(&self, thread: &Thread<F>, sender: &mut Sender<F>) -> Result<u64> {
        loop {
            let known = {
                let mut cursor = self.cursor.enter(thread, self.channel.name())?;
                let known = self.examine(&mut cursor)?;
                let last = cursor.last()[self.here];
                if last.request == sender.requests {
                    sender.open = None;
                    return Ok(last.position);
                }
                self.set_aside(thread, &mut cursor)?;
                known
            };
            self.check_members(self.peers().len() + 1)?;
            let more = || self.committed() > known;
            let leader = self.leader();
            if leader == self.node() {
                self.lead_or_wait(thread, more)?;
                continue;
            }
            if let Some(open) = &mut sender.open
                && open.sent_to != Some(leader)
            {
                let row = (self.here, open.len);
                match self.requests.send(thread, row, leader, &mut sender.reading) {
                    // The next one leads.
                    Err(error) if self.is_loss_of(&error, leader) => continue,
                    sent => sent?,
                }
                open.sent_to = Some(leader);
            }
            self.wait_until(thread, Peers::One(leader), more)?;
        }
    }

    /// Returns the error of an append. A timeout names those who kept it waiting.
    #[cold]
    fn append_failed(
        &self,
        thread: &Thread<F>,
        timing: &mut Timing,
        error: Error,
        awaits_reader: bool,
    ) -> Error {
        let (error, name) = (timing.late(thread, error), self.channel.name());
        let behind = match awaits_reader {
            true => SmallVec::from_slice(&[self.node()]),
            false => self.behind(self.committed()),
        };
        if !behind.is_empty() {
            let what = format!(
                "{} not read records of log {name}; each participant must read",
                have(&behind)
            );
            return error.because(&behind, what);
        }
        let leader = self.leader();
        let what = format!("{leader}, which leads log {name}, has not appended the record");
        error.because(&[leader], what)
    }
}
