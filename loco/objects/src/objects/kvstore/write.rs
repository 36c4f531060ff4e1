//! Inserts, updates and deletes. They run under the key's lock.

use loco_fabric::{AtomicCell, Fabric, Lock, Memory, WordCell};

use crate::fence::{self, Scope};
use crate::operations::operation::{Flags, Operation};
use crate::operations::peers::is_gone;
use crate::{Error, LockGuard, Pending, Result, Thread, TicketLock};

use super::slot::{BODY, Location, WORD_BYTES, body, meta, slot_bytes};
use super::tracker::Change;
use super::trust::{self, Guard};
use super::value::Encode;
use super::{KvStore, Shared};

/// The outcome of an insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Inserted {
    /// The key has the value.
    Done,
    /// The key was there already; nothing changed.
    Duplicate,
    /// This node has no free slot; nothing changed.
    Full,
}

impl<F: Fabric, K: Encode + Eq, V: Encode> KvStore<K, V, F> {
    /// Adds a key that is absent, with its value on this node.
    ///
    /// # Errors
    /// Returns [`TooLarge`](crate::Error::TooLarge), [`PeerLost`](crate::ErrorKind::PeerLost) if the key is present
    /// on a lost node or its lock is lost, [`Timeout`](crate::ErrorKind::Timeout) if a node does not acknowledge, and
    /// [`Refused`](crate::Error::Refused) if a node's monitor has failed for good, or here the error with which it failed.
    /// After an error the key is absent, unless it was present before.
    ///
    /// # After a timeout
    /// The key is absent, unless it was present before, and no later step of this call adds it. Insert again: this
    /// clears away what is left of this call.
    pub fn insert(&self, thread: &Thread<F>, key: &K, value: &V) -> Result<Inserted> {
        let _call = thread.call(self.shared.channel.name(), "insert");
        let shared = &self.shared;
        shared.check_key(key)?;
        shared.check_value(value.bytes())?;
        if let Some(copies) = &shared.copies {
            return shared.insert_copies(copies, thread, key, value.bytes());
        }
        let mut timing = thread.timing_from_now();
        let guard = shared.lock_of(key).lock(thread, Scope::Nothing)?;
        let outcome = shared.insert(thread, &guard, key, value.bytes());
        let outcome = timing.of_call(thread, outcome);
        shared.release(thread, guard, outcome)
    }

    /// Changes the value of a key. Returns false, and changes nothing, if the key is absent.
    ///
    /// # Errors
    /// Returns [`TooLarge`](crate::Error::TooLarge), [`PeerLost`](crate::ErrorKind::PeerLost) if the value's node or
    /// the key's lock is gone, and [`Timeout`](crate::ErrorKind::Timeout). After an error of the fence at the end the
    /// value may be the old or the new one, or torn until the next update.
    ///
    /// Where values have [copies](super::KvConfig::copies), `PeerLost` says that all nodes that had one are lost. What any other error
    /// leaves behind is said at [`TicketLock::lock`](crate::TicketLock::lock).
    ///
    /// # After a timeout
    /// Nothing has changed; with copies, the value may have. Update again. Once the value is being written, the call goes on, whatever the deadline.
    pub fn update(&self, thread: &Thread<F>, key: &K, value: &V) -> Result<bool> {
        let _call = thread.call(self.shared.channel.name(), "update");
        let shared = &self.shared;
        shared.check_value(value.bytes())?;
        if let Some(copies) = &shared.copies {
            return shared.update_copies(copies, thread, key, value.bytes());
        }
        if !thread.reads_at_once() {
            return self.start_update(thread, key, value)?.wait();
        }
        let mut guard = shared.lock_of(key).lock(thread, Scope::Nothing)?;
        let Some(at) = shared.find_held(thread, key, guard.recovered())? else {
            return shared.release(thread, guard, Ok(false));
        };
        // Fences between the write and the release, so that the next holder, and whoever learns of the update, finds
        // the value placed.
        guard.set_scope(Scope::Pair(at.node));
        // Ignores the deadline: an abandoned put could overwrite a later one.
        thread.to_the_end(|| {
            let written = shared.begin_body(thread, at, value.bytes());
            let released = guard.release();
            // The NIC has read the buffer by now, since what follows its put has ended.
            let written = written.and_then(|put| put.map_or(Ok(()), |put| put.wait().map(drop)));
            match released {
                // Only the lock's home is lost; the fence towards the value's node succeeded.
                Err(error) if error.lost_peer().is_some_and(|lost| lost != at.node) => written,
                released => released.and(written),
            }
        })?;
        thread.still_in()?;
        shared.count_write();
        Ok(true)
    }

    /// Removes a key. Returns false if the key is absent.
    ///
    /// # Errors
    /// Returns [`PeerLost`](crate::ErrorKind::PeerLost) if the key's lock is gone, and
    /// [`Timeout`](crate::ErrorKind::Timeout) if a node does not acknowledge; the key is absent then all the same.
    /// Also returns [`PeerLost`](crate::ErrorKind::PeerLost) if the key's value, with all its copies, was on lost nodes: nobody can tell
    /// whether the key was still present, but now it is absent and can be inserted again.
    ///
    /// # After a timeout
    /// Either nothing has changed, or the key is absent now. Delete again.
    pub fn delete(&self, thread: &Thread<F>, key: &K) -> Result<bool> {
        let _call = thread.call(self.shared.channel.name(), "delete");
        let shared = &self.shared;
        if let Some(copies) = &shared.copies {
            return shared.delete_copies(copies, thread, key);
        }
        let mut timing = thread.timing_from_now();
        let guard = shared.lock_of(key).lock(thread, Scope::Nothing)?;
        let outcome = shared.delete(thread, &guard, key);
        let outcome = timing.of_call(thread, outcome);
        shared.release(thread, guard, outcome)
    }
}

/// The progress of an insert.
pub(super) enum Begun {
    /// The key was written, and announced by the message of this number.
    Announced(Location, u64),
    /// Nothing was done.
    Not(Inserted),
}

/// The steps of inserts, updates and deletes, which the caller takes while it holds the key's lock.
impl<F: Fabric, K: Encode + Eq> Shared<F, K> {
    /// Releases a lock that needs no fence. The loss of the lock's home does not change `outcome`.
    pub(super) fn release<T>(
        &self,
        thread: &Thread<F>,
        guard: LockGuard<'_, TicketLock<F>, F>,
        outcome: Result<T>,
    ) -> Result<T> {
        match thread.to_the_end(|| guard.release()) {
            Err(error) if error.lost_peer().is_none() => Err(error),
            _ => {
                let outcome = outcome?;
                thread.still_in().map(|()| outcome)
            }
        }
    }

    fn insert(&self, thread: &Thread<F>, guard: &Guard<'_, F>, key: &K, value: &[u8]) -> Result<Inserted> {
        match self.begin(thread, guard, key, value, &[])? {
            Begun::Announced(at, number) => {
                self.finish(thread, &[at], number)?;
                trust::done(guard);
                Ok(Inserted::Done)
            }
            Begun::Not(why) => Ok(why),
        }
    }

    /// Begins an insert and stops when it is announced to all nodes. `begun` lists the inserts that this thread has begun
    /// in the same call and not finished.
    pub(super) fn begin(
        &self,
        thread: &Thread<F>,
        guard: &Guard<'_, F>,
        key: &K,
        value: &[u8],
        begun: &[Location],
    ) -> Result<Begun> {
        if let Some(at) = self.find(key) {
            if begun.contains(&at) || self.is_valid(thread, at)? {
                return Ok(Begun::Not(Inserted::Duplicate));
            }
            // Left behind by a writer that was lost or gave up.
            self.retire(thread, guard, key, at, false)?;
        }
        let Some((slot, counter)) = self.slots.lock().take() else {
            return Ok(Begun::Not(Inserted::Full));
        };
        let at = Location {
            node: self.channel.node(),
            slot,
            counter,
        };
        let invalid = self.set_meta(thread, at, false);
        let written = invalid.and_then(|()| self.write_body(thread, at, value));
        let sent = written.and_then(|()| self.announce(thread, guard, Change::Insert, key, at));
        let number = match sent {
            Ok(number) => number,
            Err(error) => {
                // Some nodes may have received the announcement: they find the slot not valid, or in another use.
                self.slots.lock().free(slot, counter);
                return Err(error);
            }
        };
        self.apply(Change::Insert, key.clone(), at);
        Ok(Begun::Announced(at, number))
    }

    /// Completes inserts that were announced to all nodes, the last one by message `number`. After an error their keys are
    /// absent.
    pub(super) fn finish(&self, thread: &Thread<F>, announced: &[Location], number: u64) -> Result<()> {
        self.wait_applied(thread, number)?;
        for &at in announced {
            self.set_meta(thread, at, true)?;
            self.count_write();
        }
        Ok(())
    }

    fn delete(&self, thread: &Thread<F>, guard: &Guard<'_, F>, key: &K) -> Result<bool> {
        let Some(at) = self.find(key) else {
            return Ok(false);
        };
        let there = self.is_valid(thread, at);
        let lost = is_gone(thread.fabric(), at.node);
        if !lost {
            // Removing the key does not mend any other failure.
            there.as_ref().map_err(Clone::clone)?;
        }
        self.retire(thread, guard, key, at, matches!(there, Ok(true)))?;
        // Also if the key's node is lost, which the call reports.
        trust::done(guard);
        self.count_write();
        there
    }

    /// Clears the valid bit if it is set, then removes the key from all indices. An unset bit must not be written:
    /// the node that cleared it may have announced it only to the slot's owner before it was lost, and the slot may already hold
    /// another key.
    pub(super) fn retire(
        &self,
        thread: &Thread<F>,
        guard: &Guard<'_, F>,
        key: &K,
        at: Location,
        valid: bool,
    ) -> Result<()> {
        if valid {
            trust::half_done(guard);
            match self.set_meta(thread, at, false) {
                // Then nobody can read it.
                Err(error) if error.lost_peer() == Some(at.node) => {}
                outcome => outcome?,
            }
        }
        let number = self.announce(thread, guard, Change::Delete, key, at)?;
        // Before the slot is free for another use every node has removed the key, this node last.
        let applied = self.wait_applied(thread, number);
        self.apply(Change::Delete, key.clone(), at);
        applied
    }

    pub(super) fn find_valid(&self, thread: &Thread<F>, key: &K) -> Result<Option<Location>> {
        match self.find(key) {
            Some(at) if self.is_valid(thread, at)? => Ok(Some(at)),
            _ => Ok(None),
        }
    }

    /// Finds a valid key, which the index had at `before` some time ago. Nobody else changes the key now. If the slot is
    /// still in the same use and valid, the key is still there: a delete makes it invalid first.
    pub(super) fn find_valid_from(
        &self,
        thread: &Thread<F>,
        key: &K,
        before: Option<Location>,
    ) -> Result<Option<Location>> {
        match before {
            Some(at) if matches!(self.is_valid(thread, at), Ok(true)) => Ok(before),
            _ => self.find_valid(thread, key),
        }
    }

    /// Returns true if the slot is in this use and valid.
    pub(super) fn is_valid(&self, thread: &Thread<F>, at: Location) -> Result<bool> {
        let word = if thread.reads_at_once() {
            // This read serves all nodes alike. It needs no fence: loads keep their order, and those that took the lock came
            // before it.
            let mut word = [0; WORD_BYTES];
            thread.read_at_once(self.place(at, 0)?, &mut word)?;
            u64::from_ne_bytes(word)
        } else if at.node == self.channel.node() {
            self.data.local()?.load_word(self.offset(at.slot))?
        } else {
            thread.read_word(self.place(at, 0)?)?
        };
        Ok(word == meta(at.counter, true))
    }

    /// Sets counter and valid bit. They are placed when it returns.
    pub(super) fn set_meta(&self, thread: &Thread<F>, at: Location, valid: bool) -> Result<()> {
        let word = meta(at.counter, valid);
        if at.node == self.channel.node() {
            let cell = self.data.local()?.cell::<u64>(self.offset(at.slot))?;
            // Makes the store visible to other nodes before anything that this thread does next.
            cell.store_fence(word);
            return Ok(());
        }
        // Ignores the deadline: an abandoned put could overwrite the word of a later use of the slot.
        let target = self.place(at, 0)?;
        thread.to_the_end(|| {
            thread.put_inline(&word.to_ne_bytes(), target)?.forget();
            fence::pair(thread, at.node)
        })
    }

    /// Writes checksum, length and value. They are placed after a fence towards `at.node`.
    pub(super) fn write_body(&self, thread: &Thread<F>, at: Location, value: &[u8]) -> Result<()> {
        match self.begin_body(thread, at, value)? {
            // The buffer is free once the NIC has read it. The fence waits for placement.
            Some(put) => put.wait().map(drop),
            None => Ok(()),
        }
    }

    /// Begins to write as [`write_body`](Shared::write_body) does. Returns the put, if it has a buffer.
    pub(super) fn begin_body<'t>(
        &self,
        thread: &'t Thread<F>,
        at: Location,
        value: &[u8],
    ) -> Result<Option<Pending<'t, F>>> {
        debug_assert!(
            value.len() <= self.config.value_bytes_max,
            "the caller has checked the value: the next slot begins behind it"
        );
        let bytes = body(value, at.counter);
        let inline = bytes.len() <= thread.fabric().caps().inline_bytes_max;
        // Where a put to this node is as good as a store, it takes the same way as a put to another node, since the
        // processor cannot guess which comes next.
        if at.node == self.channel.node() && !(inline && thread.reads_at_once()) {
            self.data.local()?.write(self.offset(at.slot) + BODY, &bytes)?;
            thread.fabric().cpu_fence();
            return Ok(None);
        }
        if inline {
            // Only the fence waits for this put. It follows at once, or the release does, which fences by itself.
            let put = Operation::PutInline(&bytes, self.place(at, BODY)?);
            return thread.post_untracked(&put, Flags::MORE).map(|()| None);
        }
        let buffer = thread.mem_ref(bytes.len())?;
        buffer.write(0, &bytes)?;
        buffer.put(self.place(at, BODY)?).map(Some)
    }

    /// Returns true if the buffer from which such a value is put is longer than a block of the thread's pool.
    pub(super) fn is_longer_than_a_block(&self, thread: &Thread<F>, value: &[u8]) -> bool {
        slot_bytes(value.len()) - BODY > thread.network().block_bytes()
    }

    pub(super) fn check_value(&self, value: &[u8]) -> Result<()> {
        self.check_len("value", value.len(), self.config.value_bytes_max)
    }

    pub(super) fn check_key(&self, key: &K) -> Result<()> {
        self.check_len("key", key.bytes().len(), self.config.key_bytes_max)
    }

    fn check_len(&self, what: &str, len: usize, max: usize) -> Result<()> {
        if len <= max {
            return Ok(());
        }
        Err(Error::TooLarge {
            what: format!(
                "a {what} for store `{}` (`{what}_bytes_max`)",
                self.channel.name()
            ),
            len,
            max,
        })
    }

    fn count_write(&self) {
        self.count_writes(1);
    }

    pub(super) fn count_writes(&self, count: u64) {
        self.counts.writes.fetch_add(count);
    }
}
