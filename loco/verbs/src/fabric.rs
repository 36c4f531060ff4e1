//! The fabric: set-up, memory of this node and of its peers, queue pairs.

use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, OnceLock, TryLockError};
use std::time::Duration;

use loco_fabric::{
    Caps, Completion, CompletionStatus, Control, Doorbell, Fabric, FabricError, Memory, MemoryKind, NodeId,
    Platform, RegionKey, Result, Std, Wait, Work, WorkRequestId,
};
use loco_host::membership::Membership;
use loco_host::word;
use loco_job::{Mesh, Revoke, random};

use super::bell::CompletionBell;
use super::config::VerbsConfig;
use super::connect::VERSION;
use super::device::{Device, Registration};
use super::heap::Heap;
use super::listed;
use super::memory::{DeviceMemory, VerbsMemory, VerbsRemote};
use super::node::{Card, Node, Revoker};
use super::order;
use super::outage::Outage;
use super::queue_pair::VerbsQueuePair;
use super::send_queue::Poller;
use super::service::Service;
use super::sysfs::{Choice, RdmaDevice};

/// The time that a node waits for the answer of its own device.
const LOOP_BACK_PATIENCE: Duration = Duration::from_secs(10);

/// The verbs fabric of one node.
#[derive(Clone)]
pub struct VerbsFabric(Arc<Node>);

/// Returns the RDMA devices of this host: those of sysfs, or those that a library plays in place of them.
pub fn devices() -> Vec<RdmaDevice> {
    listed::devices()
}

/// Returns every device, port and address that a node with this configuration could use, best first.
///
/// # Errors
/// Returns [`FabricError::Config`], which says what is missing and what to do.
pub fn choose(config: &VerbsConfig) -> Result<Vec<Choice>> {
    config.provider.choices(&config.wanted())
}

/// Fails unless a node with this configuration could come up here. That needs the libraries, and a device
/// with an active port and a usable address.
///
/// # Errors
/// Returns [`FabricError::Config`], which says what is missing and what to do.
pub fn usable(config: &VerbsConfig) -> Result<()> {
    config.provider.api()?;
    choose(config).map(|_| ())
}

impl VerbsFabric {
    /// Brings the fabric up on every node of `mesh`: a collective call. The device is chosen by `config` or
    /// automatically. It is opened, and tried on this node itself before the nodes exchange their data.
    ///
    /// # Errors
    /// Returns [`FabricError::Config`] and [`FabricError::Os`] for things that this host lacks, with the remedy;
    /// [`FabricError::PeerLost`] and [`FabricError::Timeout`] when a node does not take part. After an error this
    /// node has no fabric. It leaves the job with the last handle on `mesh`.
    pub fn new(mesh: Mesh, config: VerbsConfig) -> Result<VerbsFabric> {
        config.check()?;
        let device = Arc::new(open(&config)?);
        tracing::info!("{}: verbs on {}", mesh.node(), device.choice);
        let token = u64::from_ne_bytes(random()?);
        let heap = Heap::new(mesh.node(), Arc::clone(&device), &config);
        // The two words are the one that peers read, and the one that our own flushes overwrite.
        let scratch = VerbsMemory::of_block(heap.allocate(128)?, 128);
        let poller = Poller::new(config.link_timeout);
        let waiting = poller.waiting();
        let poller = Arc::new(Mutex::new(poller));
        let outage = Arc::new(Outage::default());
        let bell = CompletionBell::new(&device, &poller);
        let service = Service::start(
            Arc::clone(&device),
            mesh.clone(),
            token,
            Arc::clone(&poller),
            config.provider.link_limit(config.link_timeout, &device.choice),
            Arc::clone(&outage),
            bell.clone(),
        )?;
        order::check_asked(&config, &device.choice)?;
        let own_order = order(&config, &device.choice);
        let card = Card {
            address: device.address,
            token,
            order: own_order,
            scratch: (scratch.device_address(), scratch.rkey()),
            zero_length_reads: false,
        };
        let mut node = Arc::new(Node {
            poller,
            waiting,
            service,
            outage,
            bell,
            caps: Caps {
                name: "verbs".to_owned(),
                inline_bytes_max: device.limits.inline_bytes_max as usize,
                atomicity: device.limits.atomicity,
                order: own_order,
                puts_placed_on_post: false,
                synchronous: false,
                device_memory_bytes: device.limits.device_memory_bytes,
            },
            config,
            cards: OnceLock::new(),
            scratch,
            heap,
            device,
            job: Membership::new(mesh),
        });
        let zero_length_reads = try_loop_back(&node, &card)?;
        let card = Card {
            zero_length_reads,
            ..card
        };
        let timeout = node.config.set_up_timeout;
        let cards = node.job.exchange("verbs", VERSION, &card, timeout)?;
        // Operations of any two nodes pass both of their devices.
        let order = cards.iter().map(|card| card.order).fold(own_order, order::weaker);
        order::check(order, node.caps.atomicity, &node.device.choice)?;
        // Nobody else has the node yet: the queue pair towards itself is gone.
        match Arc::get_mut(&mut node) {
            Some(node) => node.caps.order = order,
            None => unreachable!("the queue pair that was tried still holds the node"),
        }
        tracing::info!("{}: {order}", node.job.mesh.node());
        let _ = node.cards.set(cards); // For the first time.
        let fabric = VerbsFabric(node);
        fabric
            .0
            .job
            .enforce_losses("verbs up", fabric.revoker(), timeout)?;
        Ok(fabric)
    }

    /// Returns what takes a lost node's access away. The mesh has one already; tests use this without a loss.
    #[doc(hidden)]
    pub fn revoker(&self) -> Arc<dyn Revoke> {
        Arc::new(Revoker {
            node: Arc::downgrade(&self.0),
            bell: self.0.bell.clone(),
        })
    }

    /// Returns the mesh that the fabric was built from.
    pub fn mesh(&self) -> &Mesh {
        &self.0.job.mesh
    }

    /// Returns the device, port and address in use.
    pub fn choice(&self) -> &Choice {
        &self.0.device.choice
    }

    /// Returns true if flushes are reads of length zero, and false if they read a word.
    pub fn flushes_by_zero_length_reads(&self) -> bool {
        self.0
            .cards
            .get()
            .is_some_and(|cards| cards.iter().all(|card| card.zero_length_reads))
    }

    /// Returns whether the library says that the words of one write to this node are placed from low to high addresses; `None`
    /// if the library is too old to say anything. It says nothing about two writes, so nothing here relies on it.
    ///
    /// # Errors
    /// Fails if a queue pair towards this node itself cannot be made.
    pub fn places_words_of_a_write_in_order(&self) -> Result<Option<bool>> {
        Ok(self.queue_pair(self.node())?.places_words_of_a_write_in_order())
    }

    /// Returns the number of queue pairs that this node has made and that are not destroyed yet.
    pub fn queue_pairs(&self) -> usize {
        self.0.poller().queue_pairs()
    }

    /// Registers `len` bytes of the user's own memory from `start`, for local and remote access, until the last
    /// clone or slice of the result is dropped.
    ///
    /// # Errors
    /// Returns [`FabricError::Os`] when the device or the limit on locked memory refuses.
    ///
    /// # Safety
    /// As long as any clone or slice of the result exists: the bytes stay mapped and writable, and this process
    /// accesses them only through the result or by atomic operations, because peers change them at any time.
    #[allow(unsafe_code)]
    pub unsafe fn register(&self, start: NonNull<u8>, len: usize) -> Result<VerbsMemory> {
        // SAFETY: mapped as long as registered, by the caller's promise.
        let registration = unsafe { Registration::new(&self.0.device, start.as_ptr(), len) }?;
        // SAFETY: the caller's promise.
        Ok(unsafe { VerbsMemory::of_user(registration, start, len) })
    }
}

impl fmt::Debug for VerbsFabric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerbsFabric")
            .field("node", &self.0.job.mesh.node())
            .field("device", &self.0.device.choice)
            .finish_non_exhaustive()
    }
}

/// Opens the first candidate that can be opened.
fn open(config: &VerbsConfig) -> Result<Device> {
    let api = config.provider.api()?;
    let mut failed = None;
    for choice in choose(config)? {
        match Device::open(api, choice.clone(), config) {
            Ok(device) => return Ok(device),
            Err(error) => {
                tracing::warn!("{choice}: {error}");
                failed.get_or_insert(error);
            }
        }
    }
    Err(failed.unwrap_or_else(|| FabricError::Config("no RDMA device to open".to_owned())))
}

/// Connects this node to itself, and tries a read of length zero. Returns true if the device supports it.
/// Some devices refuse it, or answer with an error.
fn try_loop_back(node: &Arc<Node>, card: &Card) -> Result<bool> {
    for zero_length in [true, false] {
        let flush = node.flush_for(card, zero_length);
        let queue = node.connect(node.job.mesh.node(), card, flush)?;
        let mut qp = VerbsQueuePair::new(Arc::clone(node), queue, flush);
        match flush_once(node, &mut qp) {
            Ok(()) => return Ok(zero_length),
            Err(error) if zero_length => {
                tracing::info!("{}: flushing by reads of a word: {error}", node.job.mesh.node());
            }
            Err(error) => return Err(error),
        }
    }
    unreachable!("the second round returns")
}

fn flush_once(node: &Node, qp: &mut VerbsQueuePair) -> Result<()> {
    let deadline = node.job.platform.now().after(LOOP_BACK_PATIENCE);
    let _ = qp.read_nothing(Work::signaled(WorkRequestId(0)))?;
    let mut completions = Vec::new();
    let mut backoff = node.job.backoff();
    loop {
        node.poller().poll(
            &node.device,
            &node.job.mesh,
            node.service.mailbox(),
            &mut completions,
        )?;
        match completions.pop().map(|completion| completion.status) {
            Some(CompletionStatus::Success) => return Ok(()),
            Some(CompletionStatus::Failed(error)) => return Err(*error),
            None if node.job.platform.now() >= deadline => {
                return Err(FabricError::Timeout {
                    what: format!("a read of this node's own memory through {}", node.device.choice),
                    after: LOOP_BACK_PATIENCE,
                });
            }
            None => {
                backoff.pause();
            }
        }
    }
}

impl Fabric for VerbsFabric {
    type Platform = Std;
    type Memory = VerbsMemory;
    type Remote = VerbsRemote;
    type QueuePair = VerbsQueuePair;
    type Control = Mesh;

    #[inline]
    fn caps(&self) -> &Caps {
        &self.0.caps
    }

    #[inline]
    fn platform(&self) -> &Std {
        &self.0.job.platform
    }

    fn control(&self) -> &Mesh {
        &self.0.job.mesh
    }

    fn allocate(&self, len: usize, kind: MemoryKind) -> Result<VerbsMemory> {
        match kind {
            MemoryKind::Host => Ok(VerbsMemory::of_block(self.0.heap.allocate(len)?, len)),
            MemoryKind::Device if self.0.caps.device_memory_bytes == 0 => {
                Err(FabricError::Unsupported(format!(
                    "device memory: {} has none, use `MemoryKind::Host`",
                    self.0.device.choice
                )))
            }
            MemoryKind::Device => Ok(VerbsMemory::of_device(
                DeviceMemory::allocate(&self.0.device, len)?,
                len,
            )),
        }
    }

    fn export(&self, memory: &VerbsMemory) -> RegionKey {
        RegionKey {
            arena: 0,
            address: memory.device_address(),
            len: memory.len() as u64,
            rkey: memory.rkey(),
        }
    }

    fn import(&self, peer: NodeId, key: &RegionKey) -> Result<VerbsRemote> {
        self.0.card(peer)?;
        self.0.job.mesh.check_alive(peer)?;
        let len = usize::try_from(key.len)
            .ok()
            .filter(|_| key.address.checked_add(key.len).is_some())
            .ok_or_else(|| FabricError::Refused(format!("the region key is not one that {peer} exported")))?;
        Ok(VerbsRemote::new(peer, key.address, len, key.rkey))
    }

    fn queue_pair(&self, peer: NodeId) -> Result<VerbsQueuePair> {
        let node = &self.0;
        let card = node.card(peer)?;
        node.job.mesh.check_alive(peer)?;
        let flush = node.flush_for(
            card,
            card.zero_length_reads && node.card(node.job.mesh.node())?.zero_length_reads,
        );
        let queue = node.connect(peer, card, flush)?;
        Ok(VerbsQueuePair::new(Arc::clone(node), queue, flush))
    }

    #[inline]
    fn poll(&self, completions: &mut Vec<Completion>) -> Result<usize> {
        let node = &*self.0;
        let mut poller = match node.poller.try_lock() {
            Ok(poller) => poller,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Another thread is polling, and reports the completions.
            Err(TryLockError::WouldBlock) => return Ok(0),
        };
        poller.poll(&node.device, &node.job.mesh, node.service.mailbox(), completions)
    }

    #[inline]
    fn wait<T>(&self, wait: Wait<'_>, ready: impl FnMut() -> Option<T>) -> Result<T> {
        self.0.job.wait(wait, self.0.or_outage(wait.peers, ready))?
    }

    #[inline]
    fn wait_within<T>(
        &self,
        wait: Wait<'_>,
        within: Duration,
        ready: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        self.0
            .job
            .wait_within(wait, within, self.0.or_outage(wait.peers, ready))?
    }

    #[inline]
    fn wait_for_completion<T>(&self, wait: Wait<'_>, ready: impl FnMut() -> Option<T>) -> Result<T> {
        self.0
            .job
            .wait_by_bell(wait, None, self.0.or_outage(wait.peers, ready))?
    }

    fn doorbell(&self) -> Option<Arc<dyn Doorbell>> {
        let bell = self.0.bell.clone()?;
        Some(bell)
    }

    fn prefer_large_pages<T>(memory: &[MaybeUninit<T>]) {
        loco_host::pages::prefer_large(memory);
    }

    #[inline]
    fn cpu_fence(&self) {
        word::full_fence();
    }
}
