//! A queue pair. It checks an operation and executes it at once.

use std::sync::Arc;

use loco_fabric::{
    Control, FabricError, Local, NodeId, Posted, QueuePair, RemoteMemory, Result, Target, WordOp, Work,
};
use loco_host::word;

use crate::bell::Bell;
use crate::gate::Slot;
use crate::memory::{ShmMemory, ShmRemote};
use crate::node::Node;

/// A queue pair of the shared-memory fabric.
#[derive(Debug)]
pub struct ShmQueuePair {
    node: Arc<Node>,
    peer: NodeId,
    /// The number of departures at the last check. A change asks for another check of `peer`.
    departures_seen: u64,
    peer_gone: bool,
    /// The slot of the gate. It is set around every access that changes a peer's memory.
    slot: Slot,
    /// The peer's doorbell. It is rung after every access that changes the peer's memory.
    bell: Bell,
}

impl ShmQueuePair {
    pub(super) fn new(node: Arc<Node>, peer: NodeId) -> Result<ShmQueuePair> {
        let slot = node.gate.slot()?;
        let bell = node.bell_of(peer)?;
        Ok(ShmQueuePair {
            node,
            peer,
            departures_seen: 0,
            peer_gone: false,
            slot,
            bell,
        })
    }

    /// Fails if `remote` is not the peer's memory, or the peer is known to be gone.
    #[inline(always)]
    fn check(&mut self, remote: &ShmRemote) -> Result<()> {
        if remote.node() != self.peer {
            return Err(self.foreign(remote));
        }
        self.check_alive()
    }

    #[inline(always)]
    fn check_alive(&mut self) -> Result<()> {
        if self.node.job.mesh.departures() != self.departures_seen {
            self.look_at_peer();
        }
        if self.peer_gone {
            return Err(self.why_gone());
        }
        Ok(())
    }

    #[cold]
    fn why_gone(&self) -> FabricError {
        let lost = FabricError::PeerLost(self.peer);
        self.node.job.mesh.check_in().err().unwrap_or(lost)
    }

    #[cold]
    fn look_at_peer(&mut self) {
        self.departures_seen = self.node.job.mesh.departures();
        self.peer_gone = self.node.job.mesh.is_gone(self.peer);
    }

    #[cold]
    fn foreign(&self, remote: &ShmRemote) -> FabricError {
        FabricError::Config(format!(
            "memory of {} on a queue pair towards {}: each peer needs its own queue pair",
            remote.node(),
            self.peer
        ))
    }

    #[cold]
    fn too_long(&self, len: usize) -> FabricError {
        FabricError::Unsupported(format!(
            "{len} bytes inline: at most {} go, put the rest from registered memory",
            self.node.caps.inline_bytes_max
        ))
    }

    /// Executes a read-modify-write, which `execute` makes of the word and returns the old value of.
    #[inline]
    fn atomic(
        &mut self,
        target: Target<'_, ShmRemote>,
        result: Local<'_, ShmMemory>,
        execute: impl FnOnce(&ShmRemote, usize) -> Result<u64>,
    ) -> Result<Posted> {
        target.remote.span().check_word(target.offset)?;
        result.memory.span().check_word(result.offset)?;
        if result.len != 8 {
            return Err(not_a_word(result.len));
        }
        self.check(target.remote)?;
        let section = self.slot.enter()?;
        // The operation is a full fence by itself, so it comes after all earlier operations. (LOCO'26 Fig. 10
        // has no read-modify-writes. Ours come after the queue pair's earlier puts and before its later
        // operations.)
        let old = execute(target.remote, target.offset)?;
        drop(section);
        self.bell.ring_if_awaited();
        result.memory.span().store_word(result.offset, old)?;
        Ok(Posted::Done)
    }
}

#[cold]
fn not_a_word(len: usize) -> FabricError {
    FabricError::Unsupported(format!(
        "a result of {len} bytes: that of an atomic operation has 8"
    ))
}

impl QueuePair for ShmQueuePair {
    type Memory = ShmMemory;
    type Remote = ShmRemote;

    fn peer(&self) -> NodeId {
        self.peer
    }

    #[inline]
    fn put(&mut self, src: Local<'_, ShmMemory>, dst: Target<'_, ShmRemote>, _work: Work) -> Result<Posted> {
        src.memory.span().check(src.offset, src.len)?;
        dst.remote.span().check(dst.offset, src.len)?;
        self.check(dst.remote)?;
        // This thread's earlier stores come before the NIC's read of the source (LOCO'26 Fig. 10, B6).
        let section = self.slot.enter()?;
        word::full_fence();
        let from = src.memory.span();
        dst.remote
            .span()
            .copy_from(dst.offset, from, src.offset, src.len)?;
        drop(section);
        self.bell.ring_if_awaited();
        Ok(Posted::Done)
    }

    // This must be inlined. When the compiler knows the length of the data, a put of a word is a handful of
    // instructions. Otherwise it is a call that passes everything through memory, which takes as long as the
    // message.
    #[inline(always)]
    fn put_inline(&mut self, data: &[u8], dst: Target<'_, ShmRemote>, _work: Work) -> Result<Posted> {
        if data.len() > self.node.caps.inline_bytes_max {
            return Err(self.too_long(data.len()));
        }
        dst.remote.span().check(dst.offset, data.len())?;
        self.check(dst.remote)?;
        let section = self.slot.enter()?;
        dst.remote.span().write(dst.offset, data)?;
        drop(section);
        self.bell.ring_if_awaited();
        Ok(Posted::Done)
    }

    #[inline(always)]
    fn put_inline_each(
        &mut self,
        pieces: &[(usize, &[u8])],
        remote: &ShmRemote,
        _strong_last: bool,
    ) -> Result<()> {
        // The stores keep the order of the pieces, whether it was asked for or not (TSO).
        self.check(remote)?;
        let max = self.node.caps.inline_bytes_max;
        // Dropped after the section, on an early return too: then for the pieces before the one that failed.
        let _ring = self.bell.ring_when_dropped();
        let _section = self.slot.enter()?;
        let write = |&(offset, data): &(usize, &[u8])| match data.len() {
            len if len > max => Err(self.too_long(len)),
            _ => remote.span().write(offset, data),
        };
        // A caller's list of three stays in registers if it is taken apart here.
        if let [first, second, third] = pieces {
            write(first)?;
            write(second)?;
            return write(third);
        }
        pieces.iter().try_for_each(write)
    }

    #[inline(always)] // as `put_inline`
    fn get(&mut self, dst: Local<'_, ShmMemory>, src: Target<'_, ShmRemote>, _work: Work) -> Result<Posted> {
        dst.memory.span().check(dst.offset, dst.len)?;
        src.remote.span().check(src.offset, dst.len)?;
        self.check(src.remote)?;
        // This thread's stores and the queue pair's puts come before the NIC's remote read (Fig. 10, B8 and
        // G8).
        self.slot.check()?;
        word::full_fence();
        let from = src.remote.span();
        dst.memory
            .span()
            .copy_from(dst.offset, from, src.offset, dst.len)?;
        Ok(Posted::Done)
    }

    #[inline]
    fn fetch_add(
        &mut self,
        target: Target<'_, ShmRemote>,
        add: u64,
        result: Local<'_, ShmMemory>,
        _work: Work,
    ) -> Result<Posted> {
        self.atomic(target, result, |remote, offset| {
            remote.span().fetch_add(offset, add)
        })
    }

    #[inline]
    fn compare_swap(
        &mut self,
        target: Target<'_, ShmRemote>,
        expected: u64,
        new: u64,
        result: Local<'_, ShmMemory>,
        _work: Work,
    ) -> Result<Posted> {
        self.atomic(target, result, |remote, offset| {
            remote.span().compare_swap(offset, expected, new)
        })
    }

    #[inline]
    fn flush(&mut self, _work: Work) -> Result<Posted> {
        self.check_alive()?;
        self.slot.check()?;
        // Puts are stores of this thread, so they are placed when its store buffer is empty.
        word::full_fence();
        Ok(Posted::Done)
    }

    #[inline(always)] // as `put_inline`
    fn word_at_once(&mut self, target: Target<'_, ShmRemote>, op: WordOp) -> Result<Option<u64>> {
        self.check(target.remote)?;
        let span = target.remote.span();
        let section = self.slot.enter()?;
        // Each operation is ordered like the method above with the same name.
        let old = match op {
            WordOp::Get => {
                word::full_fence();
                span.load_word(target.offset)
            }
            WordOp::FetchAdd(add) => span.fetch_add(target.offset, add),
            WordOp::CompareSwap { expected, new } => span.compare_swap(target.offset, expected, new),
        }?;
        drop(section);
        if !matches!(op, WordOp::Get) {
            self.bell.ring_if_awaited();
        }
        Ok(Some(old))
    }

    #[inline(always)] // as `put_inline`
    fn read_at_once(&mut self, src: Target<'_, ShmRemote>, out: &mut [u8]) -> Result<()> {
        self.check(src.remote)?;
        self.slot.check()?;
        src.remote.span().read(src.offset, out)
    }
}
