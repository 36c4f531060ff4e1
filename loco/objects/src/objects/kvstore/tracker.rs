//! Trackers tell all nodes where the keys are. Each node reports its inserts and deletes to the others
//! through a ring buffer of its own. A monitor thread on each node applies the others' reports to its index,
//! then acknowledges them.
//!
//! An acknowledgement says that messages were *applied*, and counts them. The writer has a word for each
//! other node.

use loco_fabric::{Fabric, Lock, Memory, NodeId, Peers, RwLock, Wait, WordCell};

use crate::objects::ring_buffer::RingWriter;
use crate::operations::peers::is_gone;
use crate::operations::published::Published;
use crate::{Error, Result, Thread};

use super::Shared;
use super::slot::{Location, WORD_BYTES};
use super::trust::{self, Guard};
use super::value::Encode;

/// The number by which a node says that its monitor has failed for good: it will apply nothing any more.
pub(super) const FAILED: u64 = u64::MAX;
/// The time for which a monitor looks for the reason when a key is reported in two places. It is longer than the time
/// until a loss is known.
const LOSS_PATIENCE: std::time::Duration = std::time::Duration::from_secs(1);
/// The bytes of a message besides the key.
pub(super) const MESSAGE_BYTES: usize = 3 * WORD_BYTES;
/// The lowest bits of node and slot in the first word of a message. The bit of the change is below both.
const NODE_AT: u32 = 8;
const SLOT_AT: u32 = 32;

const _: () = assert!(NODE_AT >= 1 && NODE_AT + u16::BITS <= SLOT_AT && SLOT_AT + u32::BITS <= u64::BITS);

/// The kind of report about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Insert,
    Delete,
}

/// This node's writing end of its tracker.
pub(super) struct Tracker<F: Fabric> {
    pub(super) writer: RingWriter<F>,
    /// The number of messages so far.
    sent: u64,
    message: Vec<u8>,
}

impl<F: Fabric> Tracker<F> {
    pub(super) fn new(writer: RingWriter<F>) -> Tracker<F> {
        Tracker {
            writer,
            sent: 0,
            message: Vec::new(),
        }
    }
}

impl<F: Fabric, K: Encode + Eq> Shared<F, K> {
    /// Tells all other nodes of a change under the lock that `guard` holds, which is half done from the first of them on. Returns the
    /// message's number.
    ///
    /// # Errors
    /// Returns `Timeout` while some node does not read, and the errors of [`RingWriter::submit`]. A lost node
    /// gets no message.
    pub(super) fn announce(
        &self,
        thread: &Thread<F>,
        guard: &Guard<'_, F>,
        change: Change,
        key: &K,
        at: Location,
    ) -> Result<u64> {
        self.check_monitor()?;
        // This is exclusive use, not a lock, because submitting may wait for a node that does not read.
        let mut tracker = self.tracker.enter(thread, self.channel.name())?;
        if tracker.is_none() {
            *tracker = Some(Tracker::new(self.ring_of(self.channel.node())?.writer()?));
        }
        let Some(tracker) = tracker.as_mut() else {
            return Err(Error::Closed); // Not reached: set just above.
        };
        encode(change, key, at, &mut tracker.message);
        trust::half_done(guard);
        loop {
            match tracker.writer.submit(thread, &tracker.message) {
                Ok(()) => break,
                Err(error) => match error.lost_peer() {
                    Some(node) => tracker.writer.exclude(node),
                    None => return Err(error),
                },
            }
        }
        tracker.sent += 1;
        Ok(tracker.sent)
    }

    /// Waits until every other live node has applied message `number` of this node.
    ///
    /// # Errors
    /// Returns `Timeout` if some live node has not applied it by the thread's deadline, and `Refused` if some node's
    /// monitor has failed for good.
    pub(super) fn wait_applied(&self, thread: &Thread<F>, number: u64) -> Result<()> {
        let acks = self.acks.local()?;
        for &peer in self.channel.peers() {
            let cell = acks.cell::<u64>(self.position(peer) * WORD_BYTES)?;
            let applied = || (cell.load() >= number).then_some(());
            let waited = thread.wait_for(true, self.channel.name(), Peers::One(peer), applied);
            match waited {
                // The lost node reads no more, so nothing that it knows can be out of date.
                Err(error) if error.lost_peer() == Some(peer) => {}
                Err(error) if error.is_timeout() => {
                    let what = format!("{peer} has not applied a change of store {}", self.channel.name());
                    return Err(error.because(&[peer], what));
                }
                outcome => outcome?,
            }
            if cell.load() == FAILED {
                return Err(refused_by(self.channel.name(), peer));
            }
        }
        Ok(())
    }

    /// Applies a change to this node's index.
    pub(super) fn apply(&self, change: Change, key: K, at: Location) {
        let mut index = self.index.write();
        match change {
            Change::Insert => {
                index.insert(key, at);
            }
            Change::Delete => {
                index.remove(&key, at);
                if at.node == self.channel.node() {
                    self.slots.lock().free(at.slot, at.counter);
                }
            }
        }
    }

    /// Applies a change that `writer` has announced.
    ///
    /// A writer announces an insert while it holds the key's lock, so the index normally has no entry of another node
    /// for the key. If it has one, one of the two writers stopped before every node knew of its insert. If `writer`
    /// is lost, its lock has passed on since: the other insert is newer, and this message is dropped.
    pub(super) fn apply_announced(
        &self,
        thread: &Thread<F>,
        writer: NodeId,
        change: Change,
        key: K,
        at: Location,
    ) {
        if change == Change::Delete {
            return self.apply(change, key, at);
        }
        let lost = |node| is_gone(thread.fabric(), node);
        let mut waited = false;
        loop {
            // What is found and what is done about it are one step: this node may insert the key in between.
            let mut index = self.index.write();
            let there = match index.get(&key) {
                Some(there) if there.node != at.node => there.node,
                _ => return index.insert(key, at),
            };
            if lost(writer) {
                return;
            }
            // If neither is lost, the earlier one ran into its deadline.
            if waited || lost(there) {
                return index.insert(key, at);
            }
            drop(index);
            // The other node may have heard of the loss before this node has.
            let wait = Wait {
                what: self.channel.name(),
                peers: Peers::None,
                deadline: None,
            };
            let known = || (lost(writer) || lost(there)).then_some(());
            let _ = thread.fabric().wait_within(wait, LOSS_PATIENCE, known);
            waited = true;
        }
    }

    /// Returns the place where this node tells `writer` how many of its messages it has applied.
    pub(super) fn acknowledgement(&self, writer: NodeId) -> Published<F> {
        let offset = self.position(self.channel.node()) * WORD_BYTES;
        Published::new(&self.acks, offset, WORD_BYTES, vec![writer])
    }
}

/// Returns the error of a call on `store` that needs the monitor of `peer`, which has failed.
#[cold]
pub(super) fn refused_by(store: &str, peer: NodeId) -> Error {
    Error::Refused {
        channel: store.to_owned(),
        peer,
        reason:
            "its monitor has failed for good, and it applies no changes; its own calls on the store tell why"
                .to_owned(),
    }
}

/// Encodes a message. The first word has change, node and slot. The counter follows, then the length of the
/// key and the key.
fn encode<K: Encode>(change: Change, key: &K, at: Location, message: &mut Vec<u8>) {
    let kind = u64::from(change == Change::Delete);
    let first = (u64::from(at.slot) << SLOT_AT) | (u64::from(at.node.0) << NODE_AT) | kind;
    let key = key.bytes();
    message.clear();
    for word in [first, at.counter, key.len() as u64] {
        message.extend(word.to_ne_bytes());
    }
    message.extend(key);
}

pub(super) fn decode<K: Encode>(message: &[u8]) -> Option<(Change, K, Location)> {
    let word = |i: usize| {
        let bytes = message.get(i * WORD_BYTES..(i + 1) * WORD_BYTES)?;
        Some(u64::from_ne_bytes(bytes.try_into().ok()?))
    };
    let (first, counter, len) = (word(0)?, word(1)?, usize::try_from(word(2)?).ok()?);
    let change = if first & 1 == 1 {
        Change::Delete
    } else {
        Change::Insert
    };
    let key = K::from_bytes(message.get(MESSAGE_BYTES..MESSAGE_BYTES + len)?)?;
    let at = Location {
        node: NodeId((first >> NODE_AT) as u16),
        slot: (first >> SLOT_AT) as u32,
        counter,
    };
    Some((change, key, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_round_trip() {
        let at = Location {
            node: NodeId(513),
            slot: 70_000,
            counter: u64::MAX,
        };
        for change in [Change::Insert, Change::Delete] {
            let mut message = Vec::new();
            encode(change, &0xdead_beef_u64, at, &mut message);
            assert_eq!(decode(&message), Some((change, 0xdead_beef_u64, at)));
            assert_eq!(decode::<u64>(&message[..20]), None);
        }
    }
}
