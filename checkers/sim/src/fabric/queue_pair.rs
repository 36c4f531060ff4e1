//! Queue pairs of the model: each word of a transfer is an operation of the machine, with the requests of the transfer. The
//! words of one transfer have a number in common, and the machine places them in any order. The value of an inline put travels
//! in the work request: the NIC reads no memory for it. On a synchronous fabric nothing is posted ([`super::direct`]).
//!
//! Relies on [`super::memory`] for the words. Used by [`super::ModelFabric`].

use loco_fabric::{FabricError, Local, NodeId, Posted, QueuePair, Result, Target, WordOp, Work};

use crate::fabric::coroutine::{self, ask};
use crate::fabric::direct::Direct;
use crate::fabric::memory::{ModelMemory, ModelRemote, word_of};
use crate::fabric::request::{NicOp, Reply, Request, VirtualWord};
use crate::fabric::{WORD, lost};

/// A queue pair of the model. A fence over a node's threads posts operations on behalf of another thread than
/// the owner. They need the owner's store buffer to be empty, as it is under a lock.
#[derive(Debug)]
pub struct ModelQueuePair {
    pub(super) owner: u16,
    pub(super) node: NodeId,
    pub(super) peer: NodeId,
    pub(super) inline_bytes_max: usize,
    pub(super) way: Way,
}

/// How operations reach the peer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    /// They are posted. Two words that nobody else knows are both ends of a flush.
    Posted(VirtualWord),
    /// The poster's processor carries them out at once.
    Direct(Direct),
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
                Reply::Lost(node) => Err(lost(self.node, node)),
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

    /// Returns the word that a read-modify-write changes, and the one for the old value.
    fn words_of_rmw(
        &self,
        target: &Target<'_, ModelRemote>,
        result: &Local<'_, ModelMemory>,
    ) -> Result<(VirtualWord, VirtualWord)> {
        self.check_peer(target)?;
        let result = Self::one_word(result.memory, result.offset)?;
        Ok((Self::one_word(&target.remote.memory, target.offset)?, result))
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
        match self.way {
            Way::Direct(direct) => direct.put(from.zip(to)),
            Way::Posted(_) => self.post(from.zip(to).map(|(src, dst)| NicOp::Put { dst, src }), work),
        }
    }

    fn put_inline(&mut self, data: &[u8], dst: Target<'_, ModelRemote>, work: Work) -> Result<Posted> {
        self.check_peer(&dst)?;
        if data.len() > self.inline_bytes_max {
            return Err(FabricError::Unsupported(format!(
                "inline put of {} bytes, at most {}",
                data.len(),
                self.inline_bytes_max
            )));
        }
        if let Way::Direct(direct) = self.way {
            return direct.write(&dst.remote.memory, dst.offset, data);
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
        match self.way {
            Way::Direct(direct) => direct.get(to.zip(from)),
            Way::Posted(_) => self.post(to.zip(from).map(|(dst, src)| NicOp::Get { dst, src }), work),
        }
    }

    fn fetch_add(
        &mut self,
        target: Target<'_, ModelRemote>,
        add: u64,
        result: Local<'_, ModelMemory>,
        work: Work,
    ) -> Result<Posted> {
        let (target, dst) = self.words_of_rmw(&target, &result)?;
        match self.way {
            Way::Direct(direct) => direct.rmw(target, WordOp::FetchAdd(add), dst),
            Way::Posted(_) => self.post([NicOp::FetchAdd { dst, target, add }], work),
        }
    }

    fn compare_swap(
        &mut self,
        target: Target<'_, ModelRemote>,
        expected: u64,
        new: u64,
        result: Local<'_, ModelMemory>,
        work: Work,
    ) -> Result<Posted> {
        let (target, dst) = self.words_of_rmw(&target, &result)?;
        let op = NicOp::CompareSwap {
            dst,
            target,
            expected,
            new,
        };
        match self.way {
            Way::Direct(direct) => direct.rmw(target, WordOp::CompareSwap { expected, new }, dst),
            Way::Posted(_) => self.post([op], work),
        }
    }

    fn flush(&mut self, work: Work) -> Result<Posted> {
        match self.way {
            Way::Direct(direct) => direct.flush(),
            Way::Posted(dst) => {
                let src = VirtualWord(dst.0 + 1);
                // A read places the earlier writes if it asks to come after them.
                self.post([NicOp::Get { dst, src }], work.strong())
            }
        }
    }

    fn word_at_once(&mut self, target: Target<'_, ModelRemote>, op: WordOp) -> Result<Option<u64>> {
        let Way::Direct(direct) = self.way else {
            return Ok(None);
        };
        self.check_peer(&target)?;
        let word = Self::one_word(&target.remote.memory, target.offset)?;
        direct.word(word, op).map(Some)
    }

    fn read_at_once(&mut self, src: Target<'_, ModelRemote>, out: &mut [u8]) -> Result<()> {
        let Way::Direct(direct) = self.way else {
            return Err(FabricError::Unsupported(
                "reads at once: gets of this fabric have to be posted".into(),
            ));
        };
        self.check_peer(&src)?;
        direct.read(&src.remote.memory, src.offset, out)
    }
}
