//! The shipped objects that a client's declarations stand for, and the threads that its columns stand for.
//!
//! All objects are made in the set-up of the nodes, which is not explored: managers, objects, threads, the handles of
//! ring buffers, initial values.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use loco::fabric::NodeId;
use loco::{
    AtomicVar, Barrier, KvConfig, KvStore, Manager, Msw, OwnedVar, Parent as _, Result, RingBuffer,
    RingConfig, RingReader, RingWriter, SharedQueue, SharedRegion, SharedVar, Sst, TasLock, Thread,
    TicketLock, WideOwnedVar,
};
use loco_sim::World;
use mowgli_libraries::client::{Client, Method, Node, ObjectId, ObjectKind};

use super::channel::Channel;
use super::form::{Form, LockForm, OwnedForm, RingForm};
use crate::stage::{Fabric, least_store, must};

/// Bytes of a word.
pub(super) const WORD_BYTES: usize = 8;

/// A node of the world of a client.
pub(super) type At = loco_sim::Node<Arc<Site>>;

/// A shipped object, on one node.
pub(super) enum Bound {
    /// A word or mixed-size location: a place in [`Objects::words`] or [`Objects::mixed`].
    Place,
    SharedVar(SharedVar<u64, Fabric>),
    /// `None` on a node without participants.
    Barrier(Option<Barrier<Fabric>>),
    Ring(RingBuffer<Fabric>),
    Owned(OwnedVar<u64, Fabric>),
    /// A word and its complement, so that a mixture of two values shows.
    Wide(WideOwnedVar<[u64; 2], Fabric>),
    Sst(Sst<u64, Fabric>),
    Atomic(AtomicVar<u64, Fabric>),
    Ticket(TicketLock<Fabric>),
    Tas(TasLock<Fabric>),
    Queue(SharedQueue<u64, Fabric>),
    Store(KvStore<u64, u64, Fabric>),
    Own(Box<dyn Channel>),
}

/// The objects of a client, on one node.
pub(super) struct Objects {
    /// The objects by [`ObjectId`].
    pub(super) bound: Vec<Bound>,
    /// The words of the client, each at its [`ObjectId`] and used on its own node only.
    pub(super) words: Option<SharedRegion<Fabric>>,
    /// The mixed-size locations of the client, likewise, numbered by [`Objects::mixed_index`].
    pub(super) mixed: Option<Msw<Fabric>>,
}

/// The objects that one thread of the client has to itself.
pub(super) struct Seat {
    pub(super) thread: Thread<Fabric>,
    pub(super) writers: BTreeMap<ObjectId, RingWriter<Fabric>>,
    pub(super) readers: BTreeMap<ObjectId, RingReader<Fabric>>,
}

/// The objects of a node of the world.
pub(super) struct Site {
    pub(super) objects: Objects,
    /// The seats by thread of the client. Threads of other nodes have none.
    seats: Vec<Mutex<Option<Seat>>>,
}

impl Site {
    /// Takes the objects of the client's thread. Returns `None` if they were taken before.
    pub(super) fn take(&self, thread: usize) -> Option<Seat> {
        self.seats[thread]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}

pub(super) fn node_id(node: Node) -> NodeId {
    NodeId(u16::from(node.0))
}

/// Adds the nodes of a client, with its objects.
pub(super) fn nodes(world: &mut World, client: &Arc<Client>, form: Form) -> Vec<At> {
    (0..client.nodes)
        .map(|_| {
            let client = client.clone();
            world.node(move |fabric| {
                let manager = must(Manager::new(fabric));
                let objects = must(Objects::new(&manager, &client, form));
                must(manager.wait_for_ready());
                Arc::new(must(Site::new(&manager, &client, objects)))
            })
        })
        .collect()
}

impl Site {
    /// Takes threads and handles, and sets initial values. Called once everything is connected.
    fn new(manager: &Manager<Fabric>, client: &Client, objects: Objects) -> Result<Site> {
        let mut seats = Vec::new();
        for thread in &client.threads {
            let seat = match node_id(thread.node) == manager.node() {
                true => Some(Seat {
                    thread: manager.thread()?,
                    writers: BTreeMap::new(),
                    readers: BTreeMap::new(),
                }),
                false => None,
            };
            seats.push(seat);
        }
        for (number, object) in client.objects.iter().enumerate() {
            let id = ObjectId(number as u16);
            match (&object.kind, &objects.bound[number]) {
                (ObjectKind::Ring { writer, readers, .. }, Bound::Ring(ring)) => {
                    if let Some(seat) = &mut seats[usize::from(writer.0)] {
                        seat.writers.insert(id, ring.writer()?);
                    }
                    for reader in readers {
                        if let Some(seat) = &mut seats[usize::from(reader.0)] {
                            seat.readers.insert(id, ring.reader()?);
                        }
                    }
                }
                (&ObjectKind::Atomic { node, init }, Bound::Atomic(variable))
                    if init != 0 && node_id(node) == manager.node() =>
                {
                    variable.write(&manager.thread()?, init as u64)?;
                }
                (&ObjectKind::Word { node, init }, _) if node_id(node) == manager.node() => {
                    if let Some(words) = &objects.words {
                        words.write(number * WORD_BYTES, &(init as u64).to_ne_bytes())?;
                    }
                }
                _ => {}
            }
        }
        Ok(Site {
            objects,
            seats: seats.into_iter().map(Mutex::new).collect(),
        })
    }
}

impl Objects {
    fn new(manager: &Manager<Fabric>, client: &Client, form: Form) -> Result<Objects> {
        let has = |is: fn(&ObjectKind) -> bool| client.objects.iter().any(|object| is(&object.kind));
        let words = has(|kind| matches!(kind, ObjectKind::Word { .. }))
            .then(|| SharedRegion::new(manager, "words", client.objects.len() * WORD_BYTES))
            .transpose()?;
        let sizes: Vec<usize> = client
            .objects
            .iter()
            .filter_map(|object| match object.kind {
                ObjectKind::MixedSize { size, .. } | ObjectKind::MixedVariable { size } => {
                    Some(size as usize * WORD_BYTES)
                }
                _ => None,
            })
            .collect();
        let mixed = (!sizes.is_empty())
            .then(|| Msw::new(manager, "mixed", &sizes))
            .transpose()?;
        let bound = client
            .objects
            .iter()
            .map(|object| bind(manager, client, &object.name, &object.kind, form))
            .collect::<Result<_>>()?;
        Ok(Objects { bound, words, mixed })
    }

    /// Returns the number of a mixed-size location among those of the client.
    pub(super) fn mixed_index(client: &Client, object: ObjectId) -> usize {
        let before = &client.objects[..usize::from(object.0)];
        let mixed = before.iter().filter(|o| {
            matches!(
                o.kind,
                ObjectKind::MixedSize { .. } | ObjectKind::MixedVariable { .. }
            )
        });
        mixed.count()
    }
}

/// Makes one object.
fn bind(
    manager: &Manager<Fabric>,
    client: &Client,
    name: &str,
    kind: &ObjectKind,
    form: Form,
) -> Result<Bound> {
    if let Some(own) = form.own.filter(|own| own.library == kind.library()) {
        return Ok(Bound::Own((own.make)(manager, name, kind)?));
    }
    Ok(match kind {
        ObjectKind::Word { .. } | ObjectKind::MixedSize { .. } | ObjectKind::MixedVariable { .. } => {
            Bound::Place
        }
        ObjectKind::SharedVariable => Bound::SharedVar(SharedVar::new(manager, name)?),
        ObjectKind::Barrier { participants } => {
            let nodes: Vec<NodeId> = participants
                .iter()
                .map(|&thread| node_id(client.node_of(thread)))
                .collect();
            let here = nodes.iter().filter(|&&node| node == manager.node()).count();
            let among = manager.among(nodes);
            let barrier = (here > 0).then(|| Barrier::with_local_threads(&among, name, here));
            Bound::Barrier(barrier.transpose()?)
        }
        ObjectKind::Ring {
            writer,
            readers,
            size,
        } => {
            // A cell is a word: a record of n words takes n + 1 of them, with its header.
            let capacity = *size as usize * WORD_BYTES;
            let readers = readers.iter().map(|&thread| node_id(client.node_of(thread)));
            let config = RingConfig::new(capacity).readers(readers);
            let config = match form.ring {
                RingForm::Usual => config,
                RingForm::FromMemory => config.acknowledge_every_bytes(0).inline(false),
            };
            let writer = node_id(client.node_of(*writer));
            Bound::Ring(RingBuffer::with_config(manager, name, writer, &config)?)
        }
        ObjectKind::Owned { owner } => match form.owned {
            OwnedForm::Word => Bound::Owned(OwnedVar::new(manager, name, node_id(*owner))?),
            OwnedForm::Wide => Bound::Wide(WideOwnedVar::new(manager, name, node_id(*owner))?),
        },
        ObjectKind::Sst => Bound::Sst(Sst::new(manager, name)?),
        ObjectKind::Atomic { node, .. } => Bound::Atomic(AtomicVar::new(manager, name, node_id(*node))?),
        ObjectKind::Lock { node } => match form.lock {
            LockForm::Ticket => Bound::Ticket(TicketLock::new(manager, name, node_id(*node))?),
            LockForm::Tas => Bound::Tas(TasLock::new(manager, name, node_id(*node))?),
        },
        ObjectKind::Queue { node, size } => {
            Bound::Queue(SharedQueue::new(manager, name, node_id(*node), *size as usize)?)
        }
        ObjectKind::Store => Bound::Store(KvStore::new(manager, name, store_config(client))?),
    })
}

/// Returns a store's configuration with room for every insert of the client, because no store of the specification is
/// full.
fn store_config(client: &Client) -> KvConfig {
    let mut inserts = 0;
    client.for_each_call(&mut |_, call| inserts += u32::from(call.method == Method::InsertKv));
    least_store(WORD_BYTES).slots_per_node(inserts.max(1))
}
