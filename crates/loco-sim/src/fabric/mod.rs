//! The model fabric: the fabric contract on the operational machine.
//!
//! Memory is the machine's memory in words of eight bytes; CPU accesses and posted operations are the machine's actions. A
//! transfer of several words is one operation for each, in ascending order, of which the last carries the
//! completion. Narrower CPU stores read the word and write it back, so two threads that store to different bytes of
//! one word at the same time are not modelled.

pub(crate) mod coroutine;
pub(crate) mod platform;
pub(crate) mod request;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use loco_fabric::{
    Atomicity, Caps, Completion, CompletionStatus, Control, Fabric, FabricError, Local, Memory, MemoryKind,
    NodeId, PeerState, Posted, QueuePair, RegionKey, RemoteMemory, Result, Seen, Target, Time, Wait, Word,
    WordCell, Work, WorkRequestId,
};

use crate::fabric::coroutine::{ask, current};
use crate::fabric::platform::{ModelPlatform, allocate, outside, value};
use crate::fabric::request::{NicOp, Reply, Request, Rmw, VirtualWord};

/// Bytes of a model word.
const WORD: usize = 8;

/// One node's model fabric. Made by [`World::node`](crate::World::node).
#[derive(Clone, Debug)]
pub struct ModelFabric {
    node: NodeId,
    nodes: Arc<[NodeId]>,
    caps: Arc<Caps>,
    platform: ModelPlatform,
    control: ModelControl,
}

impl ModelFabric {
    pub(crate) fn new(node: u16, nodes: u16, glob: bool) -> ModelFabric {
        ModelFabric {
            node: NodeId(node),
            nodes: (0..nodes).map(NodeId).collect(),
            caps: Arc::new(Caps {
                name: "model".into(),
                inline_bytes_max: 64,
                atomicity: if glob { Atomicity::Glob } else { Atomicity::Hca },
                puts_placed_on_post: false,
                synchronous: false,
                device_memory_bytes: 0,
            }),
            platform: ModelPlatform,
            control: ModelControl { nodes },
        }
    }
}

impl Fabric for ModelFabric {
    type Platform = ModelPlatform;
    type Memory = ModelMemory;
    type Remote = ModelRemote;
    type QueuePair = ModelQueuePair;
    type Control = ModelControl;

    fn node(&self) -> NodeId {
        self.node
    }

    fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn platform(&self) -> &ModelPlatform {
        &self.platform
    }

    fn control(&self) -> &ModelControl {
        &self.control
    }

    fn allocate(&self, len: usize, kind: MemoryKind) -> Result<ModelMemory> {
        if kind == MemoryKind::Device {
            return Err(FabricError::Unsupported(
                "device memory on the model fabric".into(),
            ));
        }
        Ok(ModelMemory {
            first: allocate(len.div_ceil(WORD) as u64),
            offset: 0,
            len,
        })
    }

    fn export(&self, memory: &ModelMemory) -> RegionKey {
        RegionKey {
            arena: 0,
            address: memory.first.0 * WORD as u64 + memory.offset as u64,
            len: memory.len as u64,
            rkey: 0,
        }
    }

    fn import(&self, peer: NodeId, key: &RegionKey) -> Result<ModelRemote> {
        if !self.nodes.contains(&peer) {
            return Err(FabricError::UnknownPeer(peer));
        }
        let memory = ModelMemory {
            first: VirtualWord(key.address / WORD as u64),
            offset: (key.address % WORD as u64) as usize,
            len: key.len as usize,
        };
        Ok(ModelRemote { node: peer, memory })
    }

    fn queue_pair(&self, peer: NodeId) -> Result<ModelQueuePair> {
        if !self.nodes.contains(&peer) {
            return Err(FabricError::UnknownPeer(peer));
        }
        let (owner, _) = current().ok_or_else(|| outside("a queue pair"))?;
        // Both ends of a flush: words that nobody else knows.
        Ok(ModelQueuePair {
            owner,
            peer,
            scratch: allocate(2),
        })
    }

    fn poll(&self, completions: &mut Vec<Completion>) -> Result<usize> {
        match ask(Request::Poll) {
            Reply::Completions(tags) => {
                completions.extend(tags.iter().map(|&(tag, peer)| Completion {
                    id: WorkRequestId(tag),
                    peer: NodeId(peer),
                    status: CompletionStatus::Success,
                }));
                Ok(tags.len())
            }
            _ => Ok(0),
        }
    }

    fn wait<T>(&self, wait: Wait<'_>, mut ready: impl FnMut() -> Option<T>) -> Result<T> {
        if ask(Request::WaitBegin {
            what: wait.what.into(),
        }) == Reply::Dismantled
        {
            return Err(outside("a wait"));
        }
        loop {
            if let Some(result) = ready() {
                ask(Request::WaitEnd);
                return Ok(result);
            }
            if ask(Request::Park) == Reply::Dismantled {
                return Err(outside("a wait"));
            }
        }
    }

    /// Time passes for nobody here: the explorer reports who waits in vain.
    fn wait_within<T>(
        &self,
        wait: Wait<'_>,
        _within: Duration,
        ready: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        self.wait(wait, ready)
    }

    /// Until the memory differs from what was seen, whenever that is: any number of looks in between would have found the
    /// same, so nothing is left out.
    fn pause(&self, wait: Wait<'_>, _: Duration, seen: &Seen<'_, ModelRemote>) -> Result<()> {
        let words = seen.at.remote.memory.words(seen.at.offset, seen.bytes.len())?;
        let words: Vec<(VirtualWord, u64)> = words.zip(seen.bytes.chunks_exact(WORD).map(word_of)).collect();
        self.wait(wait, || {
            let differs = |&(word, old): &(VirtualWord, u64)| value(ask(Request::Load { word })) != old;
            words.iter().any(differs).then_some(())
        })
    }

    fn cpu_fence(&self) {
        ask(Request::Fence);
    }
}

fn word_of(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |word, &byte| word << 8 | u64::from(byte))
}

/// Registered memory of the model: a range of bytes over words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelMemory {
    first: VirtualWord,
    offset: usize,
    len: usize,
}

impl ModelMemory {
    fn check(&self, offset: usize, len: usize) -> Result<()> {
        if offset.checked_add(len).is_some_and(|end| end <= self.len) {
            return Ok(());
        }
        Err(FabricError::OutOfRange {
            offset,
            len,
            region_len: self.len,
        })
    }

    /// The word that holds byte `offset`.
    pub(crate) fn word(&self, offset: usize) -> VirtualWord {
        VirtualWord(self.first.0 + ((self.offset + offset) / WORD) as u64)
    }

    /// The words of a transfer, which must be whole words.
    fn words(&self, offset: usize, len: usize) -> Result<impl Iterator<Item = VirtualWord> + use<>> {
        self.check(offset, len)?;
        if !(self.offset + offset).is_multiple_of(WORD) || !len.is_multiple_of(WORD) {
            return Err(FabricError::Misaligned {
                offset: self.offset + offset,
                align: WORD,
            });
        }
        let first = self.word(offset).0;
        Ok((0..(len / WORD) as u64).map(move |i| VirtualWord(first + i)))
    }
}

impl Memory for ModelMemory {
    type Cell<W: Word> = ModelCell;

    fn len(&self) -> usize {
        self.len
    }

    fn slice(&self, offset: usize, len: usize) -> Result<ModelMemory> {
        self.check(offset, len)?;
        Ok(ModelMemory {
            first: self.first,
            offset: self.offset + offset,
            len,
        })
    }

    fn cell<W: Word>(&self, offset: usize) -> Result<ModelCell> {
        self.check(offset, W::BYTES)?;
        let byte = (self.offset + offset) % WORD;
        if !byte.is_multiple_of(W::BYTES) {
            return Err(FabricError::Misaligned {
                offset,
                align: W::BYTES,
            });
        }
        Ok(ModelCell {
            word: self.word(offset),
            shift: 8 * byte as u32,
        })
    }

    fn read(&self, offset: usize, out: &mut [u8]) -> Result<()> {
        self.check(offset, out.len())?;
        let mut done = 0;
        while done < out.len() {
            let at = self.offset + offset + done;
            let part = (WORD - at % WORD).min(out.len() - done);
            let word = VirtualWord(self.first.0 + (at / WORD) as u64);
            let bytes = value(ask(Request::Load { word })).to_le_bytes();
            out[done..done + part].copy_from_slice(&bytes[at % WORD..][..part]);
            done += part;
        }
        Ok(())
    }

    fn write(&self, offset: usize, data: &[u8]) -> Result<()> {
        self.check(offset, data.len())?;
        let mut done = 0;
        while done < data.len() {
            let at = self.offset + offset + done;
            let part = (WORD - at % WORD).min(data.len() - done);
            let word = VirtualWord(self.first.0 + (at / WORD) as u64);
            let mut bytes = [0; WORD];
            if part < WORD {
                bytes = value(ask(Request::Load { word })).to_le_bytes();
            }
            bytes[at % WORD..][..part].copy_from_slice(&data[done..done + part]);
            ask(Request::Store {
                word,
                value: u64::from_le_bytes(bytes),
            });
            done += part;
        }
        Ok(())
    }
}

/// One word, or a part of one.
#[derive(Clone, Debug)]
pub struct ModelCell {
    word: VirtualWord,
    shift: u32,
}

impl ModelCell {
    fn mask<W: Word>(&self) -> u64 {
        (u64::MAX >> (64 - 8 * W::BYTES)) << self.shift
    }

    fn merge<W: Word>(&self, word: u64, part: W) -> u64 {
        (word & !self.mask::<W>()) | (part.to_u64() << self.shift)
    }
}

impl<W: Word> WordCell<W> for ModelCell {
    fn load(&self, _order: Ordering) -> W {
        W::from_u64(value(ask(Request::Load { word: self.word })) >> self.shift)
    }

    fn store(&self, part: W, order: Ordering) {
        let word = self.word;
        let old = if W::BYTES < WORD {
            value(ask(Request::Load { word }))
        } else {
            0
        };
        ask(Request::Store {
            word,
            value: self.merge(old, part),
        });
        if order == Ordering::SeqCst {
            ask(Request::Fence);
        }
    }

    fn compare_exchange(&self, expected: W, new: W) -> Result<W, W> {
        let word = self.word;
        let mut old = if W::BYTES < WORD {
            value(ask(Request::Load { word }))
        } else {
            0
        };
        loop {
            let (from, to) = (self.merge(old, expected), self.merge(old, new));
            let rmw = Rmw::CompareExchange {
                current: from,
                new: to,
            };
            let found = value(ask(Request::Rmw { word, rmw }));
            let part = W::from_u64(found >> self.shift);
            if found == from {
                return Ok(part);
            }
            if part != expected {
                return Err(part);
            }
            // Only the rest of the word was different: try again with what is there.
            old = found;
        }
    }

    fn fetch_add(&self, add: W) -> W {
        if W::BYTES == WORD {
            let rmw = Rmw::Add(add.to_u64());
            return W::from_u64(value(ask(Request::Rmw { word: self.word, rmw })));
        }
        let mut old: W = self.load(Ordering::Relaxed);
        while let Err(found) =
            self.compare_exchange(old, W::from_u64(old.to_u64().wrapping_add(add.to_u64())))
        {
            old = found;
        }
        old
    }
}

/// A peer's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelRemote {
    node: NodeId,
    memory: ModelMemory,
}

impl RemoteMemory for ModelRemote {
    fn node(&self) -> NodeId {
        self.node
    }

    fn len(&self) -> usize {
        self.memory.len
    }

    fn slice(&self, offset: usize, len: usize) -> Result<ModelRemote> {
        Ok(ModelRemote {
            node: self.node,
            memory: self.memory.slice(offset, len)?,
        })
    }
}

/// A queue pair of the model. Operations posted by another thread than its owner (a fence over a node's threads) need
/// that thread's store buffer to be empty, as it is under a lock.
#[derive(Debug)]
pub struct ModelQueuePair {
    owner: u16,
    peer: NodeId,
    scratch: VirtualWord,
}

impl ModelQueuePair {
    fn post(&self, ops: impl IntoIterator<Item = NicOp>, work: Work) -> Posted {
        let request = |op, signaled| {
            ask(Request::Post {
                owner: self.owner,
                peer: self.peer.0,
                op,
                tag: work.id.0,
                signaled,
            });
        };
        if work.fenced {
            request(NicOp::Fence, false);
        }
        let mut ops = ops.into_iter().peekable();
        let mut any = false;
        while let Some(op) = ops.next() {
            any = true;
            request(op, work.signaled && ops.peek().is_none());
        }
        if any { Posted::Pending } else { Posted::Done }
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
        Ok(self.post(from.zip(to).map(|(src, dst)| NicOp::Put { dst, src }), work))
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
        Ok(self.post(
            values.zip(to).map(|(value, dst)| NicOp::PutValue { dst, value }),
            work,
        ))
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
        Ok(self.post(to.zip(from).map(|(dst, src)| NicOp::Get { dst, src }), work))
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
        Ok(self.post([op], work))
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
        Ok(self.post([op], work))
    }

    fn flush(&mut self, work: Work) -> Result<Posted> {
        let (dst, src) = (self.scratch, VirtualWord(self.scratch.0 + 1));
        Ok(self.post([NicOp::Get { dst, src }], work))
    }
}

/// Set-up messages of the model: delivered in the order in which they were sent, never lost.
#[derive(Clone, Copy, Debug)]
pub struct ModelControl {
    nodes: u16,
}

impl Control for ModelControl {
    fn send(&self, to: NodeId, payload: &[u8]) -> Result<()> {
        if to.0 >= self.nodes {
            return Err(FabricError::UnknownPeer(to));
        }
        ask(Request::Send {
            to,
            payload: payload.into(),
        });
        Ok(())
    }

    fn receive(&self, _deadline: Option<Time>) -> Result<Option<(NodeId, Vec<u8>)>> {
        match ask(Request::Receive) {
            Reply::Message(message) => Ok(message.map(|(from, payload)| (NodeId(from), payload.to_vec()))),
            _ => Ok(None),
        }
    }

    fn peer_state(&self, _node: NodeId) -> PeerState {
        PeerState::Alive
    }

    fn departures(&self) -> u64 {
        0
    }

    fn close(&self) {
        ask(Request::Close);
    }
}
