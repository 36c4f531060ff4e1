//! A queue pair. It checks an operation, and hands it to the engine.

use std::sync::Arc;

use loco_fabric::{
    Atomicity, Control, FabricError, Local, NodeId, Posted, QueuePair, RemoteMemory, Result, Target, Work,
};
use smallvec::SmallVec;

use crate::memory::{OfiMemory, OfiRemote};
use crate::node::Node;
use crate::port::Verb;
use crate::queue::Op;

/// A queue pair of the libfabric fabric.
pub struct OfiQueuePair {
    node: Arc<Node>,
    peer: NodeId,
    index: u32,
    /// Whether the peer is this node itself, and its operations are done at once.
    done_here: bool,
    /// The peer's word that flushes read.
    scratch: u64,
    /// The number of departures known when the peer was last seen alive.
    departures_seen: u64,
}

impl OfiQueuePair {
    pub(crate) fn new(node: Arc<Node>, peer: NodeId) -> Result<OfiQueuePair> {
        let (scratch, peer_index) = (node.card(peer)?.scratch, node.index(peer)?);
        let (index, done_here) = {
            let mut engine = node.shared.engine();
            (engine.add(peer, peer_index), engine.carries_out(peer_index))
        };
        Ok(OfiQueuePair {
            node,
            peer,
            index,
            done_here,
            scratch,
            departures_seen: 0,
        })
    }

    fn check_alive(&mut self) -> Result<()> {
        let job = &self.node.shared.job;
        let departures = job.mesh.departures();
        if departures != self.departures_seen {
            job.mesh.check_alive(self.peer)?;
            self.departures_seen = departures;
        }
        Ok(())
    }

    fn check_remote(&self, target: &Target<'_, OfiRemote>) -> Result<()> {
        let node = target.remote.node();
        if node == self.peer {
            return Ok(());
        }
        let peer = self.peer;
        Err(FabricError::Config(format!(
            "memory of {node} used on a queue pair towards {peer}"
        )))
    }

    fn post(&mut self, op: Op) -> Result<Posted> {
        self.check_alive()?;
        let shared = &self.node.shared;
        let mut engine = shared.engine();
        if self.done_here {
            engine.carry_out(&op)?;
            return Ok(Posted::Done);
        }
        let before = engine.is_waiting();
        engine.post(self.index, op, self.node.config.queue_depth)?;
        let wake = !before && engine.is_waiting();
        drop(engine);
        if wake {
            shared.waker.wake();
        }
        Ok(Posted::Pending)
    }

    fn atomic(
        &mut self,
        name: &'static str,
        verb: Verb,
        target: &Target<'_, OfiRemote>,
        operands: (u64, u64),
        result: &Local<'_, OfiMemory>,
        work: Work,
    ) -> Result<Posted> {
        self.check_remote(target)?;
        if self.node.caps.atomicity == Atomicity::None {
            return Err(FabricError::Unsupported(format!(
                "the provider `{}` has no remote atomics",
                self.node.provider.name
            )));
        }
        if result.len != 8 {
            return Err(FabricError::OutOfRange {
                offset: result.offset,
                len: result.len,
                region_len: 8,
            });
        }
        result.memory.span().check_word(result.offset)?;
        let place = target.remote.word_place(target.offset)?;
        self.post(Op {
            operands,
            local: Some((result.memory.clone(), result.offset)),
            ..Op::new(name, verb, place, 8, work)
        })
    }
}

/// Returns an operation without local side.
impl QueuePair for OfiQueuePair {
    type Memory = OfiMemory;
    type Remote = OfiRemote;

    fn peer(&self) -> NodeId {
        self.peer
    }

    fn put(&mut self, src: Local<'_, OfiMemory>, dst: Target<'_, OfiRemote>, work: Work) -> Result<Posted> {
        self.check_remote(&dst)?;
        src.memory.span().check(src.offset, src.len)?;
        let place = dst.remote.place(dst.offset, src.len)?;
        self.post(Op {
            local: Some((src.memory.clone(), src.offset)),
            ..Op::new("put", Verb::Write, place, src.len, work)
        })
    }

    fn put_inline(&mut self, data: &[u8], dst: Target<'_, OfiRemote>, work: Work) -> Result<Posted> {
        self.check_remote(&dst)?;
        let max = self.node.caps.inline_bytes_max;
        if data.len() > max {
            return Err(FabricError::Unsupported(format!(
                "an inline put of {} bytes: the limit is {max}, put longer data from registered memory",
                data.len()
            )));
        }
        let place = dst.remote.place(dst.offset, data.len())?;
        self.post(Op {
            data: SmallVec::from_slice(data),
            ..Op::new("put", Verb::Write, place, data.len(), work)
        })
    }

    fn get(&mut self, dst: Local<'_, OfiMemory>, src: Target<'_, OfiRemote>, work: Work) -> Result<Posted> {
        self.check_remote(&src)?;
        dst.memory.span().check(dst.offset, dst.len)?;
        let place = src.remote.place(src.offset, dst.len)?;
        self.post(Op {
            local: Some((dst.memory.clone(), dst.offset)),
            ..Op::new("get", Verb::Read, place, dst.len, work)
        })
    }

    fn fetch_add(
        &mut self,
        target: Target<'_, OfiRemote>,
        add: u64,
        result: Local<'_, OfiMemory>,
        work: Work,
    ) -> Result<Posted> {
        self.atomic("fetch_add", Verb::FetchAdd, &target, (add, 0), &result, work)
    }

    fn compare_swap(
        &mut self,
        target: Target<'_, OfiRemote>,
        expected: u64,
        new: u64,
        result: Local<'_, OfiMemory>,
        work: Work,
    ) -> Result<Posted> {
        self.atomic(
            "compare_swap",
            Verb::CompareSwap,
            &target,
            (new, expected),
            &result,
            work,
        )
    }

    fn flush(&mut self, work: Work) -> Result<Posted> {
        // The read need not be held back. It completes after all earlier operations, and where the provider's order does not
        // let it come after their writes, their own completions say that they are placed (`Mapping::needs_delivery`).
        self.post(Op::new("flush", Verb::Read, self.scratch, 8, work))
    }
}

impl Drop for OfiQueuePair {
    fn drop(&mut self) {
        self.node.shared.engine().retire(self.index);
    }
}
