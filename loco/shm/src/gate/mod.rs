//! The gate between a node and its peers' memory, by which survivors revoke a lost node's access.
//!
//! Peers' memory is mapped, so only a node's own code can hold its stores back. A node that was merely
//! stopped would otherwise finish its store when it goes on. That code therefore checks a word that the
//! others can set, *revoked*, in a section around every remote store and read-modify-write:
//!
//! ```text
//! node's thread                    a survivor
//! slot = 1                         append the node to the log (fails if the log has the survivor)
//! (compiler fence)                 revoked = 1
//! if revoked: slot = 0, error      membarrier: a full fence on every processor that runs a registered process
//! store                            wait until each slot was seen to be 0
//! slot = 0                         the node can no longer affect anybody
//! ```
//!
//! The fence between the node's store to its slot and its load of `revoked` is executed by the survivor,
//! which is rare. The section itself costs only two plain stores and a load (asymmetric fences, as in hazard
//! pointers of production systems). If the survivor sees a slot at 0 after the barrier, a thread that enters
//! later sees `revoked`. If a slot stays at 1, the thread was stopped between the check and the store. The
//! survivor then kills its process by its pidfd, and the store that it had begun ends with it. A node of the
//! survivor's own process cannot be killed: then the survivor waits.
//!
//! The *log* lists the lost nodes, in an order on which all agree. An entry is made by compare-and-swap in
//! shared memory, once for each node, and only by nodes that are not in the log themselves. Of two nodes that
//! suspect each other, the first to enter the other stays. The only clock here is the patience before a kill,
//! on which safety does not depend.
//!
//! The steps of both sides are in `protocol`, over any kind of words. Here they are words of an arena; in `model`, a test,
//! they are those of loom.

mod protocol;

#[cfg(test)]
#[allow(unsafe_code)]
mod model;

use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::sync::atomic::{Ordering, compiler_fence};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use loco_fabric::{FabricError, NodeId, Result, WordCell};
use loco_host::HugePages;
use loco_host::span::{Span, SpanCell};
use loco_host::word;
use loco_job::{Mesh, Revoked};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use rustix::thread::{MembarrierCommand, membarrier};

use crate::arena::{Arena, ArenaId, GATE_INDEX, Token};
use crate::bell::Bell;
use protocol::{FENCE, GateWord, OUT};

/// The offset of the word `revoked`.
const REVOKED: usize = 0;
/// The offset of the number of slots that were ever used.
const SLOTS_USED: usize = 64;
/// The offset of the node's doorbell.
const BELL: usize = 128;
/// The offset of the log, which has a word for each entry. Only the gate of the lowest node uses it.
const LOG: usize = 4096;
/// The number of entries of the log: as many as there can be nodes.
const LOG_LEN: usize = 1 << 16;
/// The offset of the slots, each on a line of its own.
const SLOTS: usize = LOG + 8 * LOG_LEN;
const LINE: usize = 64;
/// The maximum number of slots, and so of queue pairs of a node.
const SLOTS_MAX: usize = 1 << 16;
const LEN: usize = SLOTS + LINE * SLOTS_MAX;

/// The time that a thread may stay in a section before its process is killed. It is much longer than any
/// store takes, and long enough for the thread to be scheduled on a machine with more work than cores.
const PATIENCE: Duration = Duration::from_secs(1);

type Cell = SpanCell<u64, Arena>;

impl GateWord for Cell {
    #[inline(always)]
    fn load(&self) -> u64 {
        WordCell::load(self)
    }

    #[inline(always)]
    fn store(&self, value: u64) {
        WordCell::store(self, value);
    }

    fn fetch_add(&self, add: u64) -> u64 {
        WordCell::fetch_add(self, add)
    }

    fn compare_exchange(&self, current: u64, new: u64) -> std::result::Result<u64, u64> {
        WordCell::compare_exchange(self, current, new)
    }

    /// Keeps the compiler from moving the accesses. The processor's fence is executed by [`heavy_fence`].
    #[inline(always)]
    fn light_fence(&self) {
        compiler_fence(Ordering::SeqCst);
    }

    fn full_fence(&self) {
        word::full_fence();
    }
}

/// Executes a full fence on every processor that runs a registered process.
fn heavy_fence() {
    if let Err(error) = membarrier(MembarrierCommand::GlobalExpedited) {
        // Then no node relies on it (`OwnGate::fence_by_itself`), and the survivor has fenced its own accesses.
        tracing::debug!("membarrier: {error}");
    }
}

/// A node's gate, mapped into this process.
#[derive(Debug)]
pub(crate) struct Gate {
    span: Span<Arena>,
    revoked: Cell,
}

impl Gate {
    /// Returns the node's doorbell.
    pub(crate) fn bell(&self) -> Result<Bell> {
        Ok(Bell::new(self.span.cell(BELL)?))
    }

    /// Returns true if the node's kernel has a barrier for all processors.
    pub(crate) fn has_barrier(&self) -> bool {
        GateWord::load(&self.revoked) & FENCE == 0
    }
}

/// A queue pair's part of its node's gate.
#[derive(Debug)]
pub(crate) struct Slot {
    gate: Arc<OwnGate>,
    busy: Cell,
    revoked: Cell,
    index: usize,
}

/// This node's own gate, with the list of its free slots.
#[derive(Debug)]
pub(crate) struct OwnGate {
    mesh: Mesh,
    gate: Gate,
    free: Mutex<Vec<usize>>,
}

/// A section in which the node accesses a peer's memory. It ends when dropped.
pub(crate) struct Section<'a>(&'a Slot);

impl Gate {
    fn over(arena: Arc<Arena>) -> Result<Gate> {
        let span = crate::memory::whole(arena);
        Ok(Gate {
            revoked: span.cell(REVOKED)?,
            span,
        })
    }

    /// Maps the gate of `peer`, process `pid`.
    pub(crate) fn open(token: Token, peer: NodeId, pid: u32, fd: u32) -> Result<Gate> {
        let id = ArenaId {
            token,
            index: GATE_INDEX,
        };
        Gate::over(Arena::open(id, peer, pid, fd)?)
    }

    fn word(&self, offset: usize) -> Result<Cell> {
        self.span.cell(offset)
    }
}

impl OwnGate {
    /// Makes this node's gate.
    pub(crate) fn create(token: Token, mesh: Mesh) -> Result<OwnGate> {
        let id = ArenaId {
            token,
            index: GATE_INDEX,
        };
        let node = mesh.node();
        let gate = Gate::over(Arena::create(id, node, LEN, HugePages::Never)?)?;
        let barrier = membarrier(MembarrierCommand::RegisterGlobalExpedited);
        // Survivors use the barrier, too: a process may be kept from it that could register for it.
        if let Err(error) = barrier.and_then(|()| membarrier(MembarrierCommand::GlobalExpedited)) {
            tracing::info!("{node}: membarrier: {error}; every remote store takes a fence instead");
            gate.revoked.store_fence(FENCE);
        }
        Ok(OwnGate {
            mesh,
            gate,
            free: Mutex::default(),
        })
    }

    /// Makes every section execute its own fence: some node of the job cannot execute the barrier for all processors.
    /// Called before any node can be shut out.
    pub(crate) fn fence_by_itself(&self) {
        self.gate.revoked.store_fence(FENCE);
    }

    /// Lets the mesh tell from now on whether the peers have shut this node out.
    pub(crate) fn show_revocation(&self) {
        let revoked = self.gate.revoked.clone();
        self.mesh
            .look_for_revocation(move || GateWord::load(&revoked) & OUT != 0);
    }

    /// Returns the gate.
    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Records that the others have shut this node out. All its operations fail from now on.
    #[cold]
    fn out(&self) -> FabricError {
        self.mesh.declare_out();
        FabricError::DeclaredLost
    }

    /// Returns the descriptor by which peers find the gate.
    pub(crate) fn descriptor(&self) -> u32 {
        self.gate.span.keep().descriptor().unwrap_or(u32::MAX)
    }

    /// Returns a slot for one thread's queue pair.
    pub(crate) fn slot(self: &Arc<Self>) -> Result<Slot> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let index = match free {
            Some(index) => index,
            None => {
                let index = protocol::take_slot(&self.gate.word(SLOTS_USED)?);
                let index = usize::try_from(index).unwrap_or(usize::MAX);
                if index >= SLOTS_MAX {
                    return Err(FabricError::Unsupported(format!(
                        "more than {SLOTS_MAX} queue pairs of one node"
                    )));
                }
                index
            }
        };
        Ok(Slot {
            gate: Arc::clone(self),
            busy: self.gate.word(SLOTS + index * LINE)?,
            revoked: self.gate.revoked.clone(),
            index,
        })
    }
}

impl Slot {
    /// Begins a section, in which a peer's memory may be changed. Fails for ever once the node is out.
    #[inline(always)]
    pub(crate) fn enter(&self) -> Result<Section<'_>> {
        if protocol::enter(&self.busy, &self.revoked) {
            return Ok(Section(self));
        }
        Err(self.gate.out())
    }

    /// Fails once the node is out. For operations that change no peer's memory.
    #[inline(always)]
    pub(crate) fn check(&self) -> Result<()> {
        if GateWord::load(&self.revoked) & OUT != 0 {
            return Err(self.gate.out());
        }
        Ok(())
    }
}

impl Drop for Section<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        protocol::leave(&self.0.busy);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut free = self.gate.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.push(self.index);
    }
}

/// A peer, as needed to shut it out.
#[derive(Debug)]
pub(crate) struct Peer {
    gate: Gate,
    /// The pidfd of its process, unless that is this one.
    process: Option<OwnedFd>,
}

impl Peer {
    /// Returns a pidfd of process `pid` of `node`, or `None` if it is this process.
    pub(crate) fn process(node: NodeId, pid: u32) -> Result<Option<OwnedFd>> {
        if pid == std::process::id() {
            return Ok(None);
        }
        let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let raw = raw.ok_or(FabricError::PeerLost(node))?;
        match pidfd_open(raw, PidfdFlags::empty()) {
            Ok(process) => Ok(Some(process)),
            Err(rustix::io::Errno::SRCH) => Err(FabricError::PeerLost(node)),
            Err(error) => Err(FabricError::os(
                format!("opening process {pid} of {node} (pidfd_open, Linux 5.3)"),
                &error.into(),
            )),
        }
    }

    /// Returns a peer with this gate.
    pub(crate) fn new(gate: Gate, process: Option<OwnedFd>) -> Peer {
        Peer { gate, process }
    }

    /// Returns the peer's gate.
    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }
}

/// Shuts the peer at `victim` out on behalf of the node at `own`; both are indices in the job's nodes. `log`
/// is the gate of the lowest node. Returns when no thread of the peer can change any memory but its own.
pub(crate) fn shut_out(log: &Gate, own: usize, victim: usize, peer: &Peer) -> Result<Revoked> {
    if !protocol::enter_log(|index| log.word(LOG + 8 * index), LOG_LEN, own, victim)? {
        return Ok(Revoked::WeAreOut);
    }
    let gate = &peer.gate;
    let slot = |index: u64| match usize::try_from(index) {
        Ok(index) if index < SLOTS_MAX => gate.word(SLOTS + index * LINE).map(Some),
        _ => Ok(None),
    };
    let mut patience = Some(Instant::now());
    let busy = || {
        if has_ended(peer.process.as_ref()) {
            return ControlFlow::Break(());
        }
        if patience.is_some_and(|since| since.elapsed() > PATIENCE) {
            patience = None;
            peer.kill();
        }
        std::thread::sleep(Duration::from_micros(100));
        ControlFlow::Continue(())
    };
    protocol::shut(&gate.revoked, heavy_fence, &gate.word(SLOTS_USED)?, slot, busy)?;
    // The gate is one for all peers.
    Ok(Revoked::DoneForAll)
}

impl Peer {
    /// Kills the peer's process, which was stopped in the middle of a store. Nothing else can make it
    /// harmless.
    fn kill(&self) {
        let Some(process) = &self.process else { return };
        match pidfd_send_signal(process, Signal::KILL) {
            Ok(()) => tracing::warn!("killed a lost node that was stopped in the middle of an operation"),
            Err(error) => tracing::error!("killing a lost node: {error}; waiting for it"),
        }
    }
}

/// Returns true if a process has ended, so that it executes nothing more. This process, which is `None`, has not.
pub(crate) fn has_ended(process: Option<&OwnedFd>) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let Some(process) = process else {
        return false;
    };
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let mut fds = [PollFd::new(process, PollFlags::IN)];
    matches!(poll(&mut fds, Some(&at_once)), Ok(n) if n > 0)
}
