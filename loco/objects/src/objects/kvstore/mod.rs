//! The key-value store (LOCO'25 6 and app. C, LOCO'26 6.2 and app. H): a linearizable map over the memory of all nodes.
//!
//! Each node has *slots* for values and an *index* of all keys, which gives the node, the slot, and the
//! counter of the slot's use. A lookup takes no lock: it finds the place in the index and reads it, remotely
//! if need be. An array of ticket locks serialises inserts, updates and deletes of each key. Inserts and
//! deletes are announced to all nodes through *trackers* (`tracker`).
//!
//! The store is linearizable, by the papers' proof. An update takes effect when its value is placed; the
//! fence before the release waits for that. An insert takes effect when the valid bit is set, *after* all
//! nodes have acknowledged that their index has the key. A later lookup therefore finds it. A delete takes
//! effect when the valid bit is cleared, *before* this is announced to the nodes. A node that still finds the key in its
//! index therefore sees that it is gone. If a reader finds another counter than its index had, it overlapped
//! with a delete. A reader that finds words of different writes tries again.
//!
//! After a loss: a lost writer leaves a key's valid bit unset, whatever the indices say. Its lock is
//! recovered, and from then on its holders look at the valid bit before they trust the index, and clean up
//! (`trust`). Keys whose slot was on a lost node
//! are lost with it: reading them is `PeerLost`, until somebody deletes them. A value that a lost writer left
//! torn is `Torn`, until somebody updates or deletes it. Readers find that out by taking the lock.
//!
//! All this is so with one copy of each value, the default. With more, keys and locks outlive their nodes ([`copies`]).
//!
//! The effect of a failed call is known if its node knew of the loss before the call began:
//! [`Control::peer_state`](loco_fabric::Control::peer_state) of the lost node is not `Alive`, and
//! [`Control::departures`](loco_fabric::Control::departures) has counted it. In that case, `PeerLost` from
//! [`insert`](KvStore::insert) and [`update`](KvStore::update) says that they have changed nothing, because
//! they check the lock and the value's node before they write anything. `PeerLost` from
//! [`delete`](KvStore::delete) says that it has changed nothing (the lock is lost) or that the key is gone.
//! The effect of a call in progress when the loss occurred is unknown: it may take effect or not, like a call
//! of the lost node.

mod batch;
mod copies;
mod groups;
mod index;
#[cfg(test)]
mod loss;
mod monitor;
mod places;
mod read;
mod scan;
mod shared_fences;
mod slot;
mod snapshot;
mod start;
mod tracker;
mod trust;
mod under_way;
mod updates;
mod value;
mod write;

use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use loco_fabric::{AtomicCell, Fabric, Lock, NodeId, Platform, RwLock, Task, ThreadKind};
use xxhash_rust::xxh3::xxh3_64;

use crate::channels::channel::{check_bytes, region_bytes};
use crate::fabric::AnyFabric;
use crate::operations::exclusive::Exclusive;
use crate::operations::platform::{AtomicU64Of, MutexOf, RwLockOf, TaskOf};
use crate::{
    Channel, Error, LockConfig, OnLoss, Parent, Participants, Region, Result, RingBuffer, TicketLock,
};

pub use read::PendingGet;
pub use snapshot::{Restored, Snapshot};
#[cfg(feature = "async")]
pub(crate) use start::Kept;
pub use start::PendingUpdate;
pub use value::{Bytes, Encode};
pub use write::Inserted;

use copies::Copies;
use index::Index;
use slot::{Location, Slots, WORD_BYTES, slot_bytes};
use tracker::Tracker;

/// The most locks of a store. Each is a channel, for which nodes take time and memory.
const LOCKS_MAX: u32 = 1 << 16;

/// Settings of a store, which must be the same on all nodes.
///
/// ```
/// use loco::KvConfig;
///
/// let small = KvConfig::default().slots_per_node(1000).value_bytes_max(64);
/// assert_eq!((small.slots_per_node, small.locks), (1000, 64));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KvConfig {
    /// The number of values that each node has room for (default 65,536). A node inserts only into its own slots.
    pub slots_per_node: u32,
    /// The longest value, in bytes (default 8). Each slot has room for it.
    pub value_bytes_max: usize,
    /// The longest key, in bytes (default 64).
    pub key_bytes_max: usize,
    /// The number of ticket locks that writers of different keys share, spread over the nodes (default 64, at most 65,536).
    pub locks: u32,
    /// The bytes of each node's tracker, a multiple of 8 (default 65,536). A tracker is the ring in which the node reports its inserts
    /// and deletes to the others. One report takes [`RingConfig::record_bytes`](crate::RingConfig::record_bytes) of
    /// 24 bytes and the key. There must be room for a report of the longest key. A full tracker makes writers wait
    /// until the slowest node has read. [`insert_many`](KvStore::insert_many) makes up to 128 reports before it waits
    /// for acknowledgements, so give the tracker room for as many.
    pub tracker_bytes: usize,
    /// The number of nodes that have each value (default 1), at most the number of participants. With `n` copies, the keys and the
    /// locks outlive the loss of `n - 1` nodes: lookups and writes go on when all survivors know of a loss. A lookup reads one
    /// copy; a write goes to one after the other, and allocates memory for the value. Calls for many keys write them one by one, each with
    /// a deadline of its own unless the thread has set one. Each node takes `n` and [`spare_homes`](KvConfig::spare_homes) times
    /// `slots_per_node` backup slots more, each of 56 bytes and twice the longest value.
    ///
    /// After a loss, writes go on when every node that is left has turned away from the lost one. One that has dropped the store and lives on
    /// never does; they then time out. Where a node's monitor has failed for good, they are [`Refused`](crate::Error::Refused).
    ///
    /// A node that was declared lost while it lives, and does not know yet, still reads the values of its own memory, also
    /// where the others have replaced them since. There is no lease that would end this. Once it knows, its calls fail.
    pub copies: usize,
    /// The number of further participants, after the `copies` that have a value, with room for the copies that are made again after a
    /// loss (default 0: lost copies are not made again; no more than there are participants). Of `copies + spare_homes` neighbours in the ring
    /// of nodes, all but one can be lost one after another, with copies whole again in between; where the lost are not neighbours, more. Each
    /// takes memory for `slots_per_node` backup slots on each node, and a channel for each lock; the first also a thread of each node.
    /// Without effect on a store with one copy.
    pub spare_homes: usize,
    /// The most values of which a node makes new copies in a second after a loss (default 20,000), so that this takes no more of the network
    /// than that.
    pub copies_per_second: u32,
}

impl Default for KvConfig {
    /// Returns 64 Ki slots of 8-byte values, keys up to 64 bytes, 64 locks, trackers of 64 KiB, and one copy. Where there are more, no spare
    /// home, and 20,000 new copies a second if there are some.
    fn default() -> KvConfig {
        KvConfig {
            slots_per_node: 1 << 16,
            value_bytes_max: 8,
            key_bytes_max: 64,
            locks: 64,
            tracker_bytes: 1 << 16,
            copies: 1,
            spare_homes: 0,
            copies_per_second: 20_000,
        }
    }
}

loco_fabric::setters!(KvConfig {
    slots_per_node: u32,
    value_bytes_max: usize,
    key_bytes_max: usize,
    locks: u32,
    tracker_bytes: usize,
    copies: usize,
    spare_homes: usize,
    copies_per_second: u32,
});

/// A node's statistics of its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvStats {
    /// The number of keys in this node's index.
    pub keys: usize,
    /// The number of this node's slots that are free.
    pub free_slots: usize,
    /// The number of inserts, updates and deletes that this node has completed.
    pub writes: u64,
    /// The number of reads that found a torn value and tried again.
    pub torn_reads: u64,
    /// The number of reads whose index entry was out of date or not valid.
    pub stale_reads: u64,
    /// The number of values that this node has still to look at, to make the copies that the last loss has taken. It is 0 as well
    /// before this node has heard of a loss: [`wait_until_whole`](KvStore::wait_until_whole) tells that apart.
    pub copies_due: u64,
    /// The number of copies that this node has made after losses.
    pub copies_made: u64,
    /// The number of values that this node found with fewer copies than [`copies`](KvConfig::copies) after the last loss, and without a home
    /// left for another, with no home left of the key's lock, or with no copy at all. [`spare_homes`](KvConfig::spare_homes) keeps room; where the
    /// store has none, nobody counts.
    pub copies_short: u64,
}

/// A linearizable map from `K` to `V` over the memory of all participants.
///
/// ```
/// use loco::{Barrier, Inserted, KvConfig, KvStore, Manager, testing};
///
/// testing::run(2, |fabric| {
///     let manager = Manager::new(fabric)?;
///     let store = KvStore::<u64, f64>::new(&manager, "prices", KvConfig::default())?;
///     let bar = Barrier::new(&manager, "bar")?;
///     manager.wait_for_ready()?;
///     let thread = manager.thread()?;
///     if manager.node() == manager.nodes()[0] {
///         assert_eq!(store.insert(&thread, &7, &1.5)?, Inserted::Done);
///         assert_eq!(store.insert(&thread, &7, &9.5)?, Inserted::Duplicate);
///     }
///     bar.wait(&thread)?;
///     assert_eq!(store.get(&thread, &7)?, Some(1.5));
///     assert_eq!(store.get(&thread, &8)?, None);
///     bar.wait(&thread)?;
///     if manager.node() == manager.nodes()[1] {
///         assert!(store.update(&thread, &7, &2.5)?);
///         assert!(store.delete(&thread, &7)?);
///         assert!(!store.update(&thread, &7, &3.5)?);
///     }
///     bar.wait(&thread)
/// });
/// ```
///
/// # Strength
///
/// Robust: the calls for each key take effect one after another, as on a strong memory (`loco check kv --robust`).
///
/// # Dropping
///
/// Dropping the store ends this node's part. Other nodes' inserts and deletes would then fail by their deadline, and with
/// [copies](KvConfig::copies) every write after a loss, so drop the store when all nodes are done.
pub struct KvStore<K: Encode + Eq, V: Encode, F: Fabric = AnyFabric> {
    shared: Arc<Shared<F, K>>,
    monitor: Option<TaskOf<F>>,
    /// Makes new copies after losses, where there is room.
    copier: Option<TaskOf<F>>,
    /// The bytes of a slot that a lookup reads before it knows the value's length.
    first_bytes: usize,
    value: PhantomData<fn() -> V>,
}

/// The state that the store and its monitor share.
struct Shared<F: Fabric, K: Encode + Eq> {
    channel: Channel<F>,
    config: KvConfig,
    /// The bytes of a slot.
    slot_bytes: usize,
    participants: Participants,
    data: Region<F>,
    acks: Region<F>,
    locks: Vec<TicketLock<F>>,
    /// `None` if each value has one copy.
    copies: Option<Copies<F>>,
    /// The rings, by position of the writer among the participants.
    rings: Vec<RingBuffer<F>>,
    tracker: Exclusive<F, Option<Tracker<F>>>,
    index: RwLockOf<F, Index<K>>,
    slots: MutexOf<F, Slots>,
    stop: AtomicU64Of<F>,
    /// The reason that the monitor has failed for good; there is one once `failed` is not zero. The model sees only `failed`.
    failure: OnceLock<Error>,
    failed: AtomicU64Of<F>,
    counts: Counts<F>,
}

struct Counts<F: Fabric> {
    writes: AtomicU64Of<F>,
    torn: AtomicU64Of<F>,
    stale: AtomicU64Of<F>,
}

impl<F: Fabric, K: Encode + Eq, V: Encode> KvStore<K, V, F> {
    /// Makes this node's endpoint of the store called `name`, and starts its monitor.
    ///
    /// # Errors
    /// Returns [`Config`](crate::Error::Config) for zero slots, for zero or too many locks and for a tracker that is too small for a
    /// report of the longest key or no multiple of 8, [`TooLarge`](crate::Error::TooLarge) for sizes beyond all addresses,
    /// [`OutOfMemory`](crate::fabric::FabricError::OutOfMemory),
    /// [`Unsupported`](crate::fabric::FabricError::Unsupported) where the fabric has no atomics, and the errors of
    /// [`ChannelBuilder::join`](crate::ChannelBuilder::join).
    pub fn new(parent: &impl Parent<F>, name: &str, config: KvConfig) -> Result<Self> {
        config.check(name)?;
        let participants = parent.participants();
        let nodes = participants.nodes();
        copies::check(name, &config, nodes.len())?;
        let value_bytes_max = config.value_bytes_max;
        let bytes = slot_bytes(value_bytes_max);
        let data_bytes = region_bytes(name, config.slots_per_node as usize, bytes)?;
        let mut kind = format!(
            "kv_store of {} slots, {} locks, keys up to {} bytes",
            config.slots_per_node, config.locks, config.key_bytes_max
        );
        if config.copies > 1 {
            let homes = copies::homes(&config, nodes.len());
            kind = format!("{kind}, {} copies in {homes} homes", config.copies);
        }
        let mut channel = Channel::builder(parent, name)
            .kind(kind)
            .region("data", data_bytes)
            .published("acks", nodes.len() * WORD_BYTES);
        if config.copies > 1 {
            channel = channel
                .region(copies::REGION, copies::backup_bytes(name, &config, nodes.len())?)
                .published(copies::TURNED, nodes.len() * WORD_BYTES);
            if copies::homes(&config, nodes.len()) > config.copies {
                channel = channel.published(copies::DONE, nodes.len() * WORD_BYTES);
            }
        }
        let channel = channel.join()?;
        let on_loss = LockConfig::default().on_loss(OnLoss::Recover);
        let locks = (0..config.locks)
            .map(|i| {
                let home = nodes[i as usize % nodes.len()];
                let lock = TicketLock::with_config(&channel, &format!("lock{i}"), home, on_loss);
                lock.map(TicketLock::keeping_doubt)
            })
            .collect::<Result<_>>()?;
        let rings = nodes
            .iter()
            .map(|&node| {
                let name = format!("tracker{}", node.0);
                RingBuffer::new(&channel, &name, node, config.tracker_bytes)
            })
            .collect::<Result<_>>()?;
        let shared = Arc::new(Shared {
            data: channel.region("data")?.clone(),
            acks: channel.published("acks")?.clone(),
            copies: Copies::new(&channel, &config)?,
            channel,
            locks,
            rings,
            tracker: Exclusive::new(None),
            index: RwLock::new(Index::new(F::prefer_large_pages)),
            slots: Lock::new(Slots::new(config.slots_per_node)),
            stop: AtomicCell::new(0),
            failure: OnceLock::new(),
            failed: AtomicCell::new(0),
            counts: Counts {
                writes: AtomicCell::new(0),
                torn: AtomicCell::new(0),
                stale: AtomicCell::new(0),
            },
            participants,
            slot_bytes: bytes,
            config,
        });
        let watched = shared.clone();
        let fabric = parent.manager().fabric();
        let task = format!("loco-kv-{}", fabric.node().0);
        let monitor = fabric
            .platform()
            .spawn(&task, ThreadKind::Service, move || monitor::monitor(&watched))?;
        let mut store = KvStore {
            shared,
            monitor: Some(monitor),
            copier: None,
            first_bytes: read::first_bytes::<V>(value_bytes_max),
            value: PhantomData,
        };
        if store.shared.copies.as_ref().and_then(Copies::again).is_some() {
            let watched = store.shared.clone();
            let task = format!("loco-kv-copies-{}", fabric.node().0);
            let copier = fabric
                .platform()
                .spawn(&task, ThreadKind::Service, move || copies::copier(&watched))?;
            store.copier = Some(copier);
        }
        Ok(store)
    }

    /// Returns the keys in this node's index, in no particular order. The result has every key whose insert
    /// was over before the call and whose delete had not begun. It may also have keys whose insert or delete
    /// is under way.
    pub fn keys(&self) -> Vec<K> {
        self.shared.index.read().entries().map(|(_, key)| key).collect()
    }

    /// Returns this node's statistics.
    pub fn stats(&self) -> KvStats {
        let shared = &self.shared;
        let again = shared.copies.as_ref().and_then(Copies::again);
        let (copies_due, copies_made, copies_short) = again.map(copies::Again::progress).unwrap_or_default();
        KvStats {
            copies_due,
            copies_made,
            copies_short,
            keys: shared.index.read().len(),
            free_slots: shared.slots.lock().free_count(),
            writes: shared.counts.writes.load(),
            torn_reads: shared.counts.torn.load(),
            stale_reads: shared.counts.stale.load(),
        }
    }

    /// Returns the endpoint, to wait until this store alone is ready.
    pub fn channel(&self) -> &Channel<F> {
        &self.shared.channel
    }
}

impl<F: Fabric, K: Encode + Eq, V: Encode> Drop for KvStore<K, V, F> {
    fn drop(&mut self) {
        self.shared.stop.store(1);
        for (what, task) in [
            ("the copier", self.copier.take()),
            ("the monitor", self.monitor.take()),
        ] {
            if let Some(Err(error)) = task.map(Task::join) {
                tracing::error!(store = self.shared.channel.name(), %error, "{what}");
            }
        }
    }
}

impl<F: Fabric, K: Encode + Eq> Shared<F, K> {
    fn position(&self, node: NodeId) -> usize {
        // A location names a participant, because the messages of one store stay in it.
        self.participants.nodes().binary_search(&node).unwrap_or(0)
    }

    fn ring_of(&self, writer: NodeId) -> Result<&RingBuffer<F>> {
        self.rings
            .get(self.position(writer))
            .ok_or_else(|| Error::NotParticipant {
                channel: self.channel.name().to_owned(),
                node: writer,
            })
    }

    /// Returns the lock of `key`, which is the same on all nodes.
    fn lock_of(&self, key: &K) -> &TicketLock<F> {
        &self.locks[self.lock_number(key)]
    }

    #[inline]
    fn lock_number(&self, key: &K) -> usize {
        (xxh3_64(key.bytes()) % self.locks.len() as u64) as usize
    }

    #[inline]
    fn offset(&self, slot: u32) -> usize {
        slot as usize * self.slot_bytes
    }

    /// Fails if this node's monitor has failed for good, with its error: the index is out of date then, and others' changes
    /// wait for this node in vain.
    fn check_monitor(&self) -> Result<()> {
        if self.failed.load() == 0 {
            return Ok(());
        }
        self.failure.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    #[inline(always)] // See `Places`.
    fn find(&self, key: &K) -> Option<Location> {
        self.index.read().get(key)
    }
}

impl KvConfig {
    fn check(&self, name: &str) -> Result<()> {
        let message = tracker::MESSAGE_BYTES.saturating_add(self.key_bytes_max);
        let needed = crate::RingConfig::record_bytes(message);
        check_bytes(name, "keys up to `key_bytes_max`", self.key_bytes_max)?;
        check_bytes(name, "values up to `value_bytes_max`", self.value_bytes_max)?;
        check_bytes(name, "a tracker of `tracker_bytes`", self.tracker_bytes)?;
        if self.locks > LOCKS_MAX {
            return Err(Error::Config(format!(
                "key-value store `{name}`: {} locks; take {LOCKS_MAX} at most",
                self.locks
            )));
        }
        if self.slots_per_node == 0 || self.locks == 0 {
            return Err(Error::Config(format!(
                "key-value store `{name}`: {} slots and {} locks; it needs one of each at least",
                self.slots_per_node, self.locks
            )));
        }
        if self.tracker_bytes < needed {
            return Err(Error::Config(format!(
                "key-value store `{name}`: a tracker of {} bytes; {} take one message for keys of {} bytes",
                self.tracker_bytes, needed, self.key_bytes_max
            )));
        }
        Ok(())
    }
}
