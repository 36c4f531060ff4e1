//! A queue pair. It checks an operation, and hands it to the link; those towards this node itself are executed at once.

use std::sync::Arc;

use loco_fabric::{
    Control, Doorbell, FabricError, Local, NodeId, Posted, QueuePair, RemoteMemory, Result, Target, Work,
};
use loco_host::word;
use smallvec::SmallVec;

use crate::frame::Kind;
use crate::memory::{TcpMemory, TcpRemote};
use crate::node::Node;
use crate::queue::Op;

/// A queue pair of the TCP fabric.
pub struct TcpQueuePair {
    node: Arc<Node>,
    peer: NodeId,
    peer_index: usize,
    /// The number of the queue pair on the link. `None` towards this node itself.
    index: Option<u32>,
    /// The number of departures known when the peer was last seen alive.
    departures_seen: u64,
}

impl TcpQueuePair {
    pub(crate) fn new(node: Arc<Node>, peer: NodeId) -> Result<TcpQueuePair> {
        let peer_index = node.index(peer)?;
        let index = node.shared.with_link(peer_index, |link| link.add());
        Ok(TcpQueuePair {
            node,
            peer,
            peer_index,
            index,
            departures_seen: 0,
        })
    }

    fn check_alive(&mut self) -> Result<()> {
        let mesh = &self.node.shared.job.mesh;
        let departures = mesh.departures();
        if departures != self.departures_seen {
            mesh.check_alive(self.peer)?;
            self.departures_seen = departures;
        }
        Ok(())
    }

    fn check_remote(&self, target: &Target<'_, TcpRemote>) -> Result<()> {
        let node = target.remote.node();
        if node == self.peer {
            return Ok(());
        }
        let peer = self.peer;
        Err(FabricError::Config(format!(
            "memory of {node} used on a queue pair towards {peer}"
        )))
    }

    /// Posts an operation, `data` being those of an inline put.
    fn post(&mut self, op: Op, data: &[u8], Work { more, lazy, .. }: Work) -> Result<Posted> {
        self.check_alive()?;
        let shared = &self.node.shared;
        let Some(index) = self.index else {
            self.execute(&op, data)?;
            return Ok(Posted::Done);
        };
        let depth = self.node.config.queue_depth;
        shared.post(self.peer_index, lazy && !more, |link| {
            link.post(index, op, data, more || lazy, depth)
        })?;
        Ok(Posted::Pending)
    }

    /// Executes an operation on this node's own memory. It takes effect after the earlier accesses of this thread and before
    /// its later ones.
    fn execute(&self, op: &Op, data: &[u8]) -> Result<()> {
        let memory = &self.node.shared.memory;
        // Places come from memory of this node, which fits its address space.
        let place = usize::try_from(op.place).unwrap_or(usize::MAX);
        word::full_fence();
        match (op.kind, &op.local) {
            (Kind::Put, Some((src, offset))) => memory.copy_from(place, src.span(), *offset, op.len)?,
            (Kind::Put, None) => memory.write(place, data)?,
            (Kind::Get, Some((dst, offset))) => dst.span().copy_from(*offset, memory, place, op.len)?,
            (Kind::FetchAdd, Some((result, offset))) => {
                let old = memory.fetch_add(place, op.operands[0])?;
                result.span().write(*offset, &old.to_ne_bytes())?;
            }
            (Kind::CompareSwap, Some((result, offset))) => {
                let old = memory.compare_swap(place, op.operands[0], op.operands[1])?;
                result.span().write(*offset, &old.to_ne_bytes())?;
            }
            _ => {}
        }
        // An operation towards this node ends the sleeps of those who wait for its effect. The ring has a full fence.
        self.node.shared.ring();
        Ok(())
    }

    fn atomic(
        &mut self,
        kind: Kind,
        target: &Target<'_, TcpRemote>,
        operands: &[u64],
        result: &Local<'_, TcpMemory>,
        work: Work,
    ) -> Result<Posted> {
        self.check_remote(target)?;
        if result.len != 8 {
            return Err(FabricError::OutOfRange {
                offset: result.offset,
                len: result.len,
                region_len: 8,
            });
        }
        result.memory.span().check_word(result.offset)?;
        let place = target.remote.word_place(target.offset)?;
        let local = Some((result.memory.clone(), result.offset));
        let op = Op {
            operands: SmallVec::from_slice(operands),
            ..operation(kind, place, 8, local, work)
        };
        self.post(op, &[], work)
    }
}

/// Returns an operation of which nothing is sent yet.
fn operation(kind: Kind, place: u64, len: usize, local: Option<(TcpMemory, usize)>, work: Work) -> Op {
    Op {
        kind,
        id: work.id,
        signaled: work.signaled,
        fenced: work.fenced,
        place,
        len,
        local,
        data: SmallVec::new(),
        operands: SmallVec::new(),
        sent: 0,
        is_sent: false,
        answers: 0,
        failed: None,
    }
}

impl QueuePair for TcpQueuePair {
    type Memory = TcpMemory;
    type Remote = TcpRemote;

    fn peer(&self) -> NodeId {
        self.peer
    }

    fn put(&mut self, src: Local<'_, TcpMemory>, dst: Target<'_, TcpRemote>, work: Work) -> Result<Posted> {
        self.check_remote(&dst)?;
        src.memory.span().check(src.offset, src.len)?;
        let place = dst.remote.place(dst.offset, src.len)?;
        let local = Some((src.memory.clone(), src.offset));
        self.post(operation(Kind::Put, place, src.len, local, work), &[], work)
    }

    fn put_inline(&mut self, data: &[u8], dst: Target<'_, TcpRemote>, work: Work) -> Result<Posted> {
        self.check_remote(&dst)?;
        let max = self.node.caps.inline_bytes_max;
        if data.len() > max {
            return Err(FabricError::Unsupported(format!(
                "an inline put of {} bytes: the limit is {max}, put longer data from registered memory",
                data.len()
            )));
        }
        let place = dst.remote.place(dst.offset, data.len())?;
        self.post(operation(Kind::Put, place, data.len(), None, work), data, work)
    }

    fn put_inline_each(
        &mut self,
        pieces: &[(usize, &[u8])],
        remote: &TcpRemote,
        _strong_last: bool,
    ) -> Result<()> {
        // They are placed in their order anyway, and sent together.
        let last = pieces.iter().rposition(|(_, data)| !data.is_empty());
        for (index, &(offset, data)) in pieces
            .iter()
            .enumerate()
            .filter(|(_, (_, data))| !data.is_empty())
        {
            let work = Work {
                more: Some(index) != last,
                ..Work::unsignaled()
            };
            let _: Posted = self.put_inline(data, Target { remote, offset }, work)?;
        }
        Ok(())
    }

    fn get(&mut self, dst: Local<'_, TcpMemory>, src: Target<'_, TcpRemote>, work: Work) -> Result<Posted> {
        self.check_remote(&src)?;
        dst.memory.span().check(dst.offset, dst.len)?;
        let place = src.remote.place(src.offset, dst.len)?;
        let local = Some((dst.memory.clone(), dst.offset));
        self.post(operation(Kind::Get, place, dst.len, local, work), &[], work)
    }

    fn fetch_add(
        &mut self,
        target: Target<'_, TcpRemote>,
        add: u64,
        result: Local<'_, TcpMemory>,
        work: Work,
    ) -> Result<Posted> {
        self.atomic(Kind::FetchAdd, &target, &[add], &result, work)
    }

    fn compare_swap(
        &mut self,
        target: Target<'_, TcpRemote>,
        expected: u64,
        new: u64,
        result: Local<'_, TcpMemory>,
        work: Work,
    ) -> Result<Posted> {
        self.atomic(Kind::CompareSwap, &target, &[expected, new], &result, work)
    }

    fn flush(&mut self, work: Work) -> Result<Posted> {
        self.post(operation(Kind::Flush, 0, 0, None, work), &[], work)
    }
}

impl Drop for TcpQueuePair {
    fn drop(&mut self) {
        if let Some(index) = self.index {
            self.node
                .shared
                .with_link(self.peer_index, |link| link.retire(index));
        }
    }
}
