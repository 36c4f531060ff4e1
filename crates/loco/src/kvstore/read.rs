//! Lookups: without locks, one remote read each, several at a time.

use std::hash::Hash;
use std::sync::atomic::Ordering;
use std::time::Duration;

use loco_fabric::{AtomicCell, Fabric, Memory, Peers, Seen, Target, Wait};
use smallvec::SmallVec;

use crate::{Error, Pending, Result, Thread};

use super::slot::{Found, Location, open, open_with, slot_bytes};
use super::value::Encode;
use super::{KvStore, Shared};

/// Torn reads in a row before each further one waits a little.
const TORN_AT_ONCE: u64 = 100;
const TORN_PAUSE: Duration = Duration::from_micros(20);
/// Lookups that [`KvStore::get_many`] has under way at a time.
const WINDOW: usize = 128;

/// A copy of a slot, usually small.
type Copied = SmallVec<[u8; 128]>;

/// A lookup under way.
#[must_use = "wait for the value"]
pub struct PendingGet<'a, F: Fabric, K: Encode + Eq + Hash, V: Encode> {
    store: &'a KvStore<F, K, V>,
    thread: &'a Thread<F>,
    key: K,
    read: Read<'a, F, V>,
}

enum Read<'a, F: Fabric, V> {
    Done(Option<V>),
    UnderWay(Location, Pending<'a, F>),
    /// Torn, or on this node and torn: to be read again.
    Again,
}

impl<F: Fabric, K: Encode + Eq + Hash, V: Encode> KvStore<F, K, V> {
    /// The value of `key`, if it has one.
    ///
    /// # Errors
    /// `PeerLost` if the value's node is gone; `Torn` if a writer got stuck in the middle of an update; `Config` if
    /// values are of another type than was written.
    pub fn get(&self, thread: &Thread<F>, key: &K) -> Result<Option<V>> {
        let mut deadline = None;
        for tries in 0_u64.. {
            let Some(at) = self.shared.find(key) else {
                return Ok(None);
            };
            if at.node == self.shared.channel.node() {
                return match self.read_here(at)? {
                    Some(value) => Ok(value),
                    None => self.wait_here(thread, at),
                };
            }
            let place = self.shared.place(at, 0)?;
            let bytes = thread.mem_ref(self.slot_bytes())?.get(place)?.wait()?;
            let mut slot = Copied::from_elem(0, bytes.len());
            bytes.read(0, &mut slot)?;
            if let Some(value) = self.look(&slot, at)? {
                return Ok(value);
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
                peers: Peers::One(at.node),
                deadline: Some(deadline),
            };
            let seen = Seen {
                at: self.shared.place(at, 0)?,
                bytes: &slot,
            };
            match thread.fabric().pause(wait, time, &seen).map_err(Error::from) {
                Err(error) if error.is_timeout() => break,
                outcome => outcome?,
            }
        }
        Err(self.torn())
    }

    /// Reads a value of this node again, until it is whole.
    fn wait_here(&self, thread: &Thread<F>, at: Location) -> Result<Option<V>> {
        self.count_torn();
        let whole = || self.read_here(at).transpose();
        match thread.wait_until(self.shared.channel.name(), Peers::None, whole) {
            Err(error) if error.is_timeout() => Err(self.torn()),
            outcome => outcome?,
        }
    }

    fn torn(&self) -> Error {
        Error::Torn {
            channel: self.shared.channel.name().to_owned(),
        }
    }

    fn count_torn(&self) {
        // Relaxed: a mere count.
        self.shared.counts.torn.fetch_add(1, Ordering::Relaxed);
    }

    /// Starts a lookup, so that several are under way at a time.
    ///
    /// # Errors
    /// See [`get`](KvStore::get).
    pub fn get_start<'a>(&'a self, thread: &'a Thread<F>, key: &K) -> Result<PendingGet<'a, F, K, V>> {
        let read = match self.shared.find(key) {
            None => Read::Done(None),
            Some(at) if at.node == self.shared.channel.node() => match self.read_here(at)? {
                Some(value) => Read::Done(value),
                None => Read::Again,
            },
            Some(at) => {
                let buffer = thread.mem_ref(self.slot_bytes())?;
                Read::UnderWay(at, buffer.get(self.shared.place(at, 0)?)?)
            }
        };
        Ok(PendingGet {
            store: self,
            thread,
            key: key.clone(),
            read,
        })
    }

    /// The values of many keys, in their order; their lookups overlap. Each is a lookup of its own: together they are no
    /// snapshot.
    ///
    /// # Errors
    /// See [`get`](KvStore::get).
    pub fn get_many(&self, thread: &Thread<F>, keys: &[K]) -> Result<Vec<Option<V>>> {
        let mut values = Vec::with_capacity(keys.len());
        for keys in keys.chunks(WINDOW) {
            let started = keys.iter().map(|key| self.get_start(thread, key));
            let started = started.collect::<Result<Vec<_>>>()?;
            for pending in started {
                values.push(pending.wait()?);
            }
        }
        Ok(values)
    }

    pub(super) fn slot_bytes(&self) -> usize {
        slot_bytes(self.shared.config.value_bytes_max)
    }

    /// A value of this node, by its CPU. `None`: torn.
    fn read_here(&self, at: Location) -> Result<Option<Option<V>>> {
        let memory = self.shared.data.local()?;
        let offset = self.shared.offset(at.slot);
        let mut slot = Copied::from_elem(0, self.slot_bytes());
        memory.read(offset, &mut slot)?;
        self.look(&slot, at)
    }

    /// Looks at a copy of a slot. `None`: torn.
    fn look(&self, slot: &[u8], at: Location) -> Result<Option<Option<V>>> {
        let found = match self.shared.config.defect {
            None => open(slot, at.counter),
            Some(defect) => open_with(defect, slot, at.counter),
        };
        match found {
            Found::Value(bytes) => match V::from_bytes(bytes) {
                Some(value) => Ok(Some(Some(value))),
                None => Err(Error::Config(format!(
                    "`{}`: a value of {} bytes is not of this store's type: are values the same type on all nodes?",
                    self.shared.channel.name(),
                    bytes.len()
                ))),
            },
            Found::Invalid | Found::Reused => {
                // Relaxed: a mere count.
                self.shared.counts.stale.fetch_add(1, Ordering::Relaxed);
                Ok(Some(None))
            }
            Found::Torn => Ok(None),
        }
    }
}

impl<F: Fabric, K: Encode + Eq + Hash, V: Encode> PendingGet<'_, F, K, V> {
    /// True when [`wait`](PendingGet::wait) will not have to, most likely. Looks at what was polled, polls nothing.
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
    /// See [`KvStore::get`].
    pub fn wait(self) -> Result<Option<V>> {
        match self.read {
            Read::Done(value) => return Ok(value),
            Read::UnderWay(at, pending) => {
                let bytes = pending.wait()?;
                let mut slot = Copied::from_elem(0, bytes.len());
                bytes.read(0, &mut slot)?;
                if let Some(value) = self.store.look(&slot, at)? {
                    return Ok(value);
                }
                self.store.count_torn();
            }
            Read::Again => {}
        }
        self.store.get(self.thread, &self.key)
    }
}

impl<F: Fabric, K: Encode + Eq + Hash> Shared<F, K> {
    /// The place at `offset` of a slot.
    pub(super) fn place(&self, at: Location, offset: usize) -> Result<Target<'_, F::Remote>> {
        Ok(Target {
            remote: self.data.remote(at.node)?,
            offset: self.offset(at.slot) + offset,
        })
    }
}
