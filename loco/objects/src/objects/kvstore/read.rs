//! Lookups. They take no lock on the network, cost one remote read each, and several overlap.

use std::hint::black_box;
use std::time::Duration;

use loco_fabric::{AtomicCell, Fabric, Memory, Peers, RemoteMemory, RwLock, Seen, Target, Wait};
use smallvec::SmallVec;

use crate::fabric::AnyFabric;
use crate::fence::Scope;
use crate::operations::counts::Count;
use crate::operations::operation::{Flags, Operation};
use crate::{AckKey, Error, Parent, Pending, Result, Thread};

use super::places::{Places, WINDOW};
use super::slot::{Found, Location, open, slot_bytes};
use super::value::Encode;
use super::{KvStore, Shared};

/// The number of torn reads in a row before each further one waits a little.
const TORN_AT_ONCE: u64 = 100;
const TORN_PAUSE: Duration = Duration::from_micros(20);
/// The number of bytes of the value that a lookup reads first when it does not know the value's length. Longer values
/// take a second read.
const VALUE_BYTES_FIRST: usize = 104;
/// A copy of a slot, usually small.
type Copied = SmallVec<[u8; SLOT_BYTES_STACK]>;
/// The longest slot that is examined on the stack.
const SLOT_BYTES_STACK: usize = 128;
/// The bytes of a slot whose value is a word.
const SLOT_BYTES_WORD: usize = slot_bytes(8);

// The bytes that a lookup reads first fit into its buffer on the stack.
const _: () =
    assert!(SLOT_BYTES_WORD <= SLOT_BYTES_STACK && slot_bytes(VALUE_BYTES_FIRST) <= SLOT_BYTES_STACK);

/// A lookup under way. Dropping it abandons the lookup: a read that was posted goes on into a buffer that is kept
/// aside until the read has ended.
#[must_use = "wait for the value"]
pub struct PendingGet<'a, K: Encode + Eq, V: Encode, F: Fabric = AnyFabric> {
    store: &'a KvStore<K, V, F>,
    thread: &'a Thread<F>,
    key: K,
    read: Read<'a, F, V>,
}

enum Read<'a, F: Fabric, V> {
    Done(Option<V>),
    UnderWay(Location, Pending<'a, F>),
    /// To be read again from the start.
    Again,
}

/// The information that a copy of a slot gave.
pub(super) enum Looked<V> {
    Known(Option<V>),
    Torn,
    /// The value has this length, and the copy has only its beginning.
    Longer(usize),
}

impl<F: Fabric, K: Encode + Eq, V: Encode> KvStore<K, V, F> {
    /// Returns the value of `key`, or `None`.
    ///
    /// # Errors
    /// Returns [`PeerLost`](crate::ErrorKind::PeerLost) if the value's node is gone, with all that have a copy,
    /// [`DeclaredLost`](crate::ErrorKind::DeclaredLost) once this node knows that the others go on without it (until
    /// then it may read old values of its own memory), [`Torn`](crate::Error::Torn) if a writer was lost, or got
    /// stuck, in the middle of an update, and [`Config`](crate::Error::Config) if values of another type were
    /// written. If a node has been lost, a torn value is read under the key's lock; the call then also returns the
    /// errors of [`TicketLock::lock`](crate::TicketLock::lock).
    ///
    /// # After a timeout
    /// (The error is [`Torn`](crate::Error::Torn) or [`Timeout`](crate::ErrorKind::Timeout) here.) Nothing has
    /// changed. Get again.
    pub fn get(&self, thread: &Thread<F>, key: &K) -> Result<Option<V>> {
        let _call = thread.call(self.shared.channel.name(), "get");
        match self.get_at_once(thread, key) {
            Ok(Some(value)) => return Ok(value),
            Ok(None) => {}
            Err(error) => return self.get_after(thread, key, error),
        }
        let mut deadline = None;
        let mut slot = Copied::new();
        for tries in 0_u64.. {
            let Some(at) = self.shared.find(key) else {
                return thread.still_in().map(|()| None);
            };
            if at.node == self.shared.channel.node() {
                return match self.read_here_whole(at)? {
                    Looked::Known(value) => thread.still_in().map(|()| value),
                    Looked::Torn | Looked::Longer(_) => self.wait_here(thread, key, at),
                };
            }
            if let Some(copies) = &self.shared.copies
                && copies.has_turned_from(at.node)
            {
                return self.get_moved(copies, thread, key);
            }
            match self.read_there(thread, at, &mut slot) {
                Ok(Looked::Known(value)) => return known(thread, value),
                Ok(Looked::Torn | Looked::Longer(_)) => {}
                Err(error) => return self.get_after(thread, key, error),
            }
            self.count_torn();
            let deadline = *deadline.get_or_insert_with(|| thread.deadline());
            let time = if tries < TORN_AT_ONCE {
                Duration::ZERO
            } else {
                TORN_PAUSE
            };
            let wait = Wait {
                what: self.shared.channel.name(),
                peers: Peers::These(self.shared.channel.peers()),
                deadline: Some(deadline),
            };
            let seen = Seen {
                at: self.shared.place(at, 0)?,
                bytes: &slot,
            };
            match thread.fabric().pause(wait, time, &seen).map_err(Error::from) {
                Err(error) if error.is_timeout() => break,
                Err(error) if error.lost_peer().is_some_and(|lost| lost != at.node) => {
                    return self.get_locked(thread, key);
                }
                Err(error) => return self.get_after(thread, key, error),
                Ok(()) => {}
            }
        }
        Err(self.shared.torn())
    }

    /// Looks a key up without posting, where the thread can, and returns the result. Returns `None` if the thread cannot, or
    /// if the value was not whole at the first look.
    #[inline(always)]
    fn get_at_once(&self, thread: &Thread<F>, key: &K) -> Result<Option<Option<V>>> {
        if !thread.reads_at_once() {
            return Ok(None);
        }
        // Taking the index's lock is the fence that keeps the read behind this thread's stores and puts.
        let value = match self.shared.find(key) {
            None => None,
            Some(at) => match self.read_at_once(thread, at)? {
                Looked::Known(value) => value,
                Looked::Torn | Looked::Longer(_) => {
                    self.count_torn();
                    return Ok(None);
                }
            },
        };
        thread.still_in()?;
        Ok(Some(value))
    }

    /// Reads a value of any node, where the thread can do so without posting. The processor cannot guess which node comes
    /// next, so this node's values are read in the same way as others'.
    #[inline(always)] // The fewer instructions a lookup takes, the more lookups are in the processor at a time.
    fn read_at_once(&self, thread: &Thread<F>, at: Location) -> Result<Looked<V>> {
        if self.first_bytes != SLOT_BYTES_WORD {
            return self.read_any_at_once(thread, at, self.first_bytes);
        }
        // The compiler knows this length.
        let mut slot = [0; SLOT_BYTES_WORD];
        thread.read_at_once(self.shared.place(at, 0)?, &mut slot)?;
        let looked = self.look(&slot, at)?;
        if let Looked::Longer(len) = looked {
            return self.read_any_at_once(thread, at, slot_bytes(len));
        }
        Ok(looked)
    }

    /// Reads the first `bytes` of a slot of any node, and more if the value is longer.
    #[inline(never)]
    fn read_any_at_once(&self, thread: &Thread<F>, at: Location, bytes: usize) -> Result<Looked<V>> {
        let read = |bytes| {
            let target = self.shared.place(at, 0)?;
            self.look_at(bytes, at, |out| thread.read_at_once(target, out))
        };
        match read(bytes)? {
            // If a longer value overwrites it in between, it counts as torn.
            Looked::Longer(len) => read(slot_bytes(len)),
            looked => Ok(looked),
        }
    }

    /// Reads a value from another node. `slot` receives the copy that was examined.
    #[inline]
    fn read_there(&self, thread: &Thread<F>, at: Location, slot: &mut Copied) -> Result<Looked<V>> {
        let mut bytes = self.first_bytes;
        loop {
            let buffer = thread.mem_ref(bytes)?.get(self.shared.place(at, 0)?)?.wait()?;
            slot.resize(bytes, 0);
            buffer.read(0, slot)?;
            match self.look(slot, at)? {
                // The value grew in between: the next iteration reads all of it.
                Looked::Longer(len) => bytes = slot_bytes(len),
                looked => return Ok(looked),
            }
        }
    }

    /// Reads a value of this node again, until it is whole.
    fn wait_here(&self, thread: &Thread<F>, key: &K, at: Location) -> Result<Option<V>> {
        self.count_torn();
        let whole = || match self.read_here_whole(at) {
            Ok(Looked::Known(value)) => Some(Ok(value)),
            Ok(Looked::Torn | Looked::Longer(_)) => None,
            Err(error) => Some(Err(error)),
        };
        let peers = Peers::These(self.shared.channel.peers());
        match thread.wait_until(self.shared.channel.name(), peers, whole) {
            Err(error) if error.is_timeout() => Err(self.shared.torn()),
            Err(error) if error.lost_peer().is_some() => self.get_locked(thread, key),
            outcome => {
                let value = outcome??;
                thread.still_in().map(|()| value)
            }
        }
    }

    /// Looks up a value that was found torn after a loss, which may be its state for good. Holds the key's lock, so
    /// that no writer is active and one look decides.
    #[cold]
    fn get_locked(&self, thread: &Thread<F>, key: &K) -> Result<Option<V>> {
        let shared = &*self.shared;
        if let Some(copies) = &shared.copies {
            return self.get_mended(copies, thread, key);
        }
        let guard = shared.lock_of(key).lock(thread, Scope::Nothing)?;
        let looked = match shared.find(key) {
            None => Ok(Looked::Known(None)),
            Some(at) => self.read_whole(thread, at),
        };
        let outcome = looked.and_then(|looked| match looked {
            Looked::Known(value) => Ok(value),
            Looked::Torn | Looked::Longer(_) => Err(self.shared.torn()),
        });
        shared.release(thread, guard, outcome)
    }

    #[cold]
    pub(super) fn of_another_type(&self, len: usize) -> Error {
        Error::Config(format!(
            "`{}`: a value of {len} bytes is not of this store's type: are values the same type on all nodes?",
            self.shared.channel.name(),
        ))
    }

    fn count_torn(&self) {
        self.shared.counts.torn.fetch_add(1);
        let network = self.shared.channel.manager().network();
        network.counts().add(Count::ReadsAgain, 1);
    }

    /// Starts a lookup, so that several overlap. A value of this node is read at once.
    ///
    /// # Errors
    /// Returns the errors of [`get`](KvStore::get).
    ///
    /// # After a timeout
    /// Nothing was posted. Start again.
    pub fn get_start<'a>(&'a self, thread: &'a Thread<F>, key: &K) -> Result<PendingGet<'a, K, V, F>> {
        let read = if thread.reads_at_once() {
            match self.get_at_once(thread, key) {
                Err(error) if self.is_moved(&error) => Read::Again,
                found => found?.map_or(Read::Again, Read::Done),
            }
        } else {
            self.start(thread, key)?
        };
        Ok(PendingGet {
            store: self,
            thread,
            key: key.clone(),
            read,
        })
    }

    /// Reads a value of this node, or posts the read of another node's.
    fn start<'a>(&'a self, thread: &'a Thread<F>, key: &K) -> Result<Read<'a, F, V>> {
        Ok(match self.shared.find(key) {
            None => {
                thread.still_in()?;
                Read::Done(None)
            }
            Some(at) if at.node == self.shared.channel.node() => {
                match self.read_here(at, self.first_bytes)? {
                    Looked::Known(value) => {
                        thread.still_in()?;
                        Read::Done(value)
                    }
                    Looked::Torn | Looked::Longer(_) => Read::Again,
                }
            }
            Some(at) if self.has_moved(at) => Read::Again,
            Some(at) => {
                let buffer = thread.mem_ref(self.first_bytes)?;
                match buffer.get(self.shared.place(at, 0)?) {
                    // The loss is reported, and this node has not turned away yet.
                    Err(error) if self.is_moved(&error) => Read::Again,
                    posted => Read::UnderWay(at, posted?),
                }
            }
        })
    }

    /// Looks up many keys and returns their values in order. Up to 128 lookups overlap. Each is linearizable by
    /// itself; together they are no snapshot.
    ///
    /// # Errors
    /// Returns the errors of [`get`](KvStore::get).
    ///
    /// # After a timeout
    /// Nothing has changed. Get again.
    pub fn get_many(&self, thread: &Thread<F>, keys: &[K]) -> Result<Vec<Option<V>>> {
        let mut values = Vec::with_capacity(keys.len());
        self.get_many_into(thread, keys, &mut values)?;
        Ok(values)
    }

    /// Looks up many keys, as [`get_many`](KvStore::get_many) does, and replaces the contents of `values`. Does not
    /// allocate if `values` has room and the values have a fixed size.
    ///
    /// # Errors
    /// Returns the errors of [`get`](KvStore::get). `values` is of no use then.
    ///
    /// # After a timeout
    /// Nothing has changed but `values`. Get again.
    pub fn get_many_into(&self, thread: &Thread<F>, keys: &[K], values: &mut Vec<Option<V>>) -> Result<()> {
        let _call = thread.call(self.shared.channel.name(), "get_many");
        values.clear();
        if thread.reads_at_once() {
            if let [key] = keys {
                values.push(self.get(thread, key)?);
                return Ok(());
            }
            return keys
                .chunks(WINDOW)
                .try_for_each(|keys| self.window(thread, keys, values, Self::get_window_at_once));
        }
        // The window is as large as one block of the pool permits.
        let window = (thread.network().block_bytes() / self.first_bytes).clamp(1, WINDOW);
        keys.chunks(window)
            .try_for_each(|keys| self.window(thread, keys, values, Self::get_window))
    }

    /// Looks up a window of keys without posting.
    #[inline(never)] // A single lookup is not to pay for its stack.
    fn get_window_at_once(&self, thread: &Thread<F>, keys: &[K], values: &mut Vec<Option<V>>) -> Result<()> {
        let mut places = Places::default();
        self.shared.find_many(thread, keys, &mut places);
        for (key, at) in keys.iter().zip(places.iter()) {
            values.push(match at {
                None => None,
                Some(at) => match self.read_at_once(thread, at)? {
                    Looked::Known(value) => value,
                    Looked::Torn | Looked::Longer(_) => self.get(thread, key)?,
                },
            });
        }
        thread.still_in()
    }

    /// Looks up a window of keys. The values of other nodes are read by gets that overlap.
    #[inline(never)] // As `get_window_at_once`.
    fn get_window(&self, thread: &Thread<F>, keys: &[K], values: &mut Vec<Option<V>>) -> Result<()> {
        let shared = &*self.shared;
        let (here, bytes) = (shared.channel.node(), self.first_bytes);
        let mut found = Places::default();
        shared.find_many(thread, keys, &mut found);
        let places: SmallVec<[Option<Location>; WINDOW]> = found.iter().collect();
        if let Some(copies) = &shared.copies
            && places.iter().flatten().any(|at| copies.has_turned_from(at.node))
        {
            return self.get_each(thread, keys, values);
        }
        let there = |at: &Option<Location>| at.filter(|at| at.node != here);
        let pending = if places.iter().any(|at| there(at).is_some()) {
            let buffer = thread.mem_ref(bytes * keys.len())?;
            let mut ended = AckKey::done();
            let posted = places.iter().enumerate().try_for_each(|(i, at)| {
                let Some(at) = there(at) else { return Ok(()) };
                let get = Operation::Get(buffer.local(i * bytes, bytes)?, shared.place(at, 0)?);
                thread.post_into(&get, Flags::default(), &mut ended)
            });
            // If dropped on an error, it keeps the buffer until the posted reads have ended.
            let pending = Pending::new(ended, buffer);
            posted?;
            Some(pending)
        } else {
            None
        };
        let first = values.len();
        for (key, at) in keys.iter().zip(&places) {
            values.push(match at {
                Some(at) if at.node == here => match self.read_here(*at, bytes)? {
                    Looked::Known(value) => value,
                    Looked::Torn | Looked::Longer(_) => self.get(thread, key)?,
                },
                _ => None,
            });
        }
        if places.iter().any(|at| there(at).is_none()) {
            thread.still_in()?;
        }
        let Some(pending) = pending else { return Ok(()) };
        let buffer = pending.wait()?;
        for (i, at) in places.iter().enumerate() {
            let Some(at) = there(at) else { continue };
            let looked = self.look_at(bytes, at, |out| buffer.read(i * bytes, out))?;
            values[first + i] = match looked {
                Looked::Known(value) => known(thread, value)?,
                Looked::Torn | Looked::Longer(_) => self.get(thread, &keys[i])?,
            };
        }
        Ok(())
    }

    /// Reads a value in the slot that it was inserted in.
    pub(super) fn read_whole(&self, thread: &Thread<F>, at: Location) -> Result<Looked<V>> {
        match at.node == self.shared.channel.node() {
            true => self.read_here_whole(at),
            false => self.read_there(thread, at, &mut Copied::new()),
        }
    }

    /// Reads a value of this node by its CPU, without knowing its length at first.
    fn read_here_whole(&self, at: Location) -> Result<Looked<V>> {
        match self.read_here(at, self.first_bytes)? {
            // If a longer value overwrites it in between, it counts as torn.
            Looked::Longer(len) => self.read_here(at, slot_bytes(len)),
            looked => Ok(looked),
        }
    }

    /// Reads the first `bytes` of a slot of this node.
    #[inline]
    fn read_here(&self, at: Location, bytes: usize) -> Result<Looked<V>> {
        let memory = self.shared.data.local()?;
        let offset = self.shared.offset(at.slot);
        self.look_at(bytes, at, |out| Ok(memory.read(offset, out)?))
    }

    /// Examines the first `bytes` of a slot, which `copy` copies.
    #[inline]
    fn look_at(
        &self,
        bytes: usize,
        at: Location,
        copy: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<Looked<V>> {
        if bytes <= SLOT_BYTES_STACK {
            let mut slot = [0; SLOT_BYTES_STACK];
            copy(&mut slot[..bytes])?;
            self.look(&slot[..bytes], at)
        } else {
            let mut slot = vec![0; bytes];
            copy(&mut slot)?;
            self.look(&slot, at)
        }
    }

    /// Examines a copy of a slot, or of its beginning.
    #[inline(always)]
    fn look(&self, slot: &[u8], at: Location) -> Result<Looked<V>> {
        let value_bytes_max = self.shared.config.value_bytes_max;
        match open(slot, at.counter, value_bytes_max) {
            Found::Value(bytes) => match V::from_bytes(bytes) {
                Some(value) => Ok(Looked::Known(Some(value))),
                None => Err(self.of_another_type(bytes.len())),
            },
            Found::Longer(len) => Ok(Looked::Longer(len)),
            Found::Invalid | Found::Reused => {
                self.shared.counts.stale.fetch_add(1);
                Ok(Looked::Known(None))
            }
            Found::Torn => Ok(Looked::Torn),
        }
    }
}

/// Returns the bytes of a slot that a lookup reads before it knows the value's length.
pub(super) fn first_bytes<V: Encode>(value_bytes_max: usize) -> usize {
    slot_bytes(V::BYTES.unwrap_or(VALUE_BYTES_FIRST).min(value_bytes_max))
}

/// Returns the value that was read from a slot of another node. A missing value is proof only while this node is not
/// cut off: a node that was declared lost is not informed of moved keys.
#[inline]
fn known<F: Fabric, V>(thread: &Thread<F>, value: Option<V>) -> Result<Option<V>> {
    if value.is_none() {
        thread.still_in()?;
    }
    Ok(value)
}

impl<F: Fabric, K: Encode + Eq, V: Encode> PendingGet<'_, K, V, F> {
    /// Returns true if [`wait`](PendingGet::wait) is likely to return at once. Reads recorded completions; does not
    /// poll.
    pub fn query(&self) -> bool {
        match &self.read {
            Read::Done(_) => true,
            Read::UnderWay(_, pending) => pending.query(),
            Read::Again => false,
        }
    }

    /// Waits for the value.
    ///
    /// # Errors
    /// Returns the errors of [`KvStore::get`].
    ///
    /// # After a timeout
    /// Nothing has changed. Get again.
    pub fn wait(self) -> Result<Option<V>> {
        match self.read {
            Read::Done(value) => return Ok(value),
            Read::UnderWay(at, pending) => {
                // Others wait for the locks of updates under way.
                let deadline = self.thread.finish_beside(|| pending.key());
                let buffer = match pending.wait_until(deadline) {
                    Err(error) if self.store.is_moved(&error) => {
                        return self.store.get(self.thread, &self.key);
                    }
                    read => read?,
                };
                let bytes = buffer.len();
                let looked = self.store.look_at(bytes, at, |out| buffer.read(0, out))?;
                match looked {
                    Looked::Known(value) => return known(self.thread, value),
                    Looked::Torn => self.store.count_torn(),
                    Looked::Longer(_) => {}
                }
            }
            Read::Again => {}
        }
        self.store.get(self.thread, &self.key)
    }
}

impl<F: Fabric, K: Encode + Eq> Shared<F, K> {
    #[cold]
    pub(super) fn torn(&self) -> Error {
        Error::Torn {
            channel: self.channel.name().to_owned(),
        }
    }

    /// Returns the place at `offset` of a slot.
    #[inline]
    pub(super) fn place(&self, at: Location, offset: usize) -> Result<Target<'_, F::Remote>> {
        Ok(Target {
            remote: self.data.remote(at.node)?,
            offset: self.offset(at.slot) + offset,
        })
    }

    /// Finds many keys. Hints that their slots will be read soon.
    fn find_many(&self, thread: &Thread<F>, keys: &[K], places: &mut Places) {
        let index = self.index.read();
        // No iteration of this loop depends on an earlier one, so the CPU fetches many buckets at once.
        black_box(keys.iter().filter(|key| index.touch(key)).count());
        for key in keys {
            let at = index.get(key);
            if let Some(at) = at {
                self.hint(thread, at, F::Memory::prefetch, F::Remote::prefetch);
            }
            places.push(at);
        }
    }

    /// Hints that a slot will be written soon.
    #[inline]
    pub(super) fn prefetch_write(&self, thread: &Thread<F>, at: Location) {
        self.hint(thread, at, F::Memory::prefetch_write, F::Remote::prefetch_write);
    }

    /// Gives a hint about a slot, by `local` to this node's memory and by `remote` to other nodes'.
    #[inline(always)] // The hints are one instruction each.
    fn hint(
        &self,
        thread: &Thread<F>,
        at: Location,
        local: impl FnOnce(&F::Memory, usize),
        remote: impl FnOnce(&F::Remote, usize),
    ) {
        let offset = self.offset(at.slot);
        // Where the hint for remote memory serves all nodes, there is no branch here that the processor would have to
        // guess.
        if !thread.reads_at_once() && at.node == self.channel.node() {
            if let Ok(memory) = self.data.local() {
                local(memory, offset);
            }
        } else if let Ok(memory) = self.data.remote(at.node) {
            remote(memory, offset);
        }
    }
}
