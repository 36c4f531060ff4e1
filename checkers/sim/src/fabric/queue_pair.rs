//! Queue pairs of the model: each word of a transfer is an operation of the machine, with the requests of the transfer. The
//! words of one transfer have a number in common, and the machine places them in any order. The value of an inline put travels
//! in the work request: the NIC reads no memory for it.
//!
//! Relies on [`super::memory`] for the words. Used by [`super::ModelFabric`].

use loco_fabric::{FabricError, Local, NodeId, Posted, QueuePair, Result, Target, Work};

use crate::fabric::WORD;
use crate::fabric::coroutine::{self, ask};
use crate::fabric::memory::{ModelMemory, ModelRemote, word_of};
use crate::fabric::request::{NicOp, Reply, Request, VirtualWord};

/// A queue pair of the model. A fence over a node's threads posts operations on behalf of another thread than
/// the owner. They need the owner's store buffer to be empty, as it is under a lock.
#[derive(Debug)]
pub struct ModelQueuePair {
    pub(super) owner: u16,
    pub(super) node: NodeId,
    pub(super) peer: NodeId,
    pub(super) scratch: VirtualWord,
}

impl ModelQueuePair {
    fn post(&self, ops: impl IntoIterator<Item = NicOp>, work: Work) -> Result<Posted> {
        let request = |op, signaled, strong, transfer| {
            let posted = ask(Request::Post {
                owner: self.owner,
                peer: self.peer.0,
                op,
                tag: work.id.0,
                signaled,
                strong,
                transfer,
            });
            match posted {
                Reply::Lost(node) if node == self.node.0 => Err(FabricError::DeclaredLost),
                Reply::Lost(node) => Err(FabricError::PeerLost(NodeId(node))),
                _ => Ok(()),
            }
        };
        if work.fenced {
            request(NicOp::Fence, false, false, 0)?;
        }
        let mut ops = ops.into_iter().peekable();
        let Some(first) = ops.next() else {
            return Ok(Posted::Done);
        };
        // An operation of one word needs no number.
        let transfer = ops.peek().map_or(0, |_| coroutine::fresh_transfer());
        let mut next = Some(first);
        while let Some(op) = next {
            next = ops.next();
            request(op, work.signaled && next.is_none(), work.strong, transfer)?;
        }
        Ok(Posted::Pending)
    }

    fn check_peer(&self, target: &Target<'_, ModelRemote>) -> Result<()> {
        if target.remote.node == self.peer {
            return Ok(());
        }
        Err(FabricError::Config(format!(
            "{} posted to a queue pair towards {}",
            target.remote.node, self.peer
        )))
    }

    fn one_word(memory: &ModelMemory, offset: usize) -> Result<VirtualWord> {
        memory.words(offset, WORD).map(|_| memory.word(offset))
    }
}

impl QueuePair for ModelQueuePair {
    type Memory = ModelMemory;
    type Remote = ModelRemote;

    fn peer(&self) -> NodeId {
        self.peer
    }

    fn put(
        &mut self,
        src: Local<'_, ModelMemory>,
        dst: Target<'_, ModelRemote>,
        work: Work,
    ) -> Result<Posted> {
        self.check_peer(&dst)?;
        let from = src.memory.words(src.offset, src.len)?;
        let to = dst.remote.memory.words(dst.offset, src.len)?;
        self.post(from.zip(to).map(|(src, dst)| NicOp::Put { dst, src }), work)
    }

    fn put_inline(&mut self, data: &[u8], dst: Target<'_, ModelRemote>, work: Work) -> Result<Posted> {
        self.check_peer(&dst)?;
        if data.len() > 64 {
            return Err(FabricError::Unsupported(format!(
                "inline put of {} bytes, at most 64",
                data.len()
            )));
        }
        let to = dst.remote.memory.words(dst.offset, data.len())?;
        let values = data.chunks_exact(WORD).map(word_of);
        self.post(
            values.zip(to).map(|(value, dst)| NicOp::PutInline { dst, value }),
            work,
        )
    }

    fn get(
        &mut self,
        dst: Local<'_, ModelMemory>,
        src: Target<'_, ModelRemote>,
        work: Work,
    ) -> Result<Posted> {
        self.check_peer(&src)?;
        let to = dst.memory.words(dst.offset, dst.len)?;
        let from = src.remote.memory.words(src.offset, dst.len)?;
        self.post(to.zip(from).map(|(dst, src)| NicOp::Get { dst, src }), work)
    }

    fn fetch_add(
        &mut self,
        target: Target<'_, ModelRemote>,
        add: u64,
        result: Local<'_, ModelMemory>,
        work: Work,
    ) -> Result<Posted> {
        self.check_peer(&target)?;
        let op = NicOp::FetchAdd {
            dst: Self::one_word(result.memory, result.offset)?,
            target: Self::one_word(&target.remote.memory, target.offset)?,
            add,
        };
        self.post([op], work)
    }

    fn compare_swap(
        &mut self,
        target: Target<'_, ModelRemote>,
        expected: u64,
        new: u64,
        result: Local<'_, ModelMemory>,
        work: Work,
    ) -> Result<Posted> {
        self.check_peer(&target)?;
        let op = NicOp::CompareSwap {
            dst: Self::one_word(result.memory, result.offset)?,
            target: Self::one_word(&target.remote.memory, target.offset)?,
            expected,
            new,
        };
        self.post([op], work)
    }

    fn flush(&mut self, work: Work) -> Result<Posted> {
        let (dst, src) = (self.scratch, VirtualWord(self.scratch.0 + 1));
        // A read places the earlier writes if it asks to come after them.
        self.post([NicOp::Get { dst, src }], work.strong())
    }
}
