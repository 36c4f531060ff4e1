//! Queue pairs of a type that is not known here.

use loco_fabric::{Local, NodeId, Posted, QueuePair, Result, Target, WordOp, Work};

use super::Of;
use super::memory::{ErasedMemory, ErasedRemote, local, target};

/// The object-safe form of [`QueuePair`].
trait DynQueuePair: Send {
    fn peer(&self) -> NodeId;
    fn put(
        &mut self,
        src: Local<'_, ErasedMemory>,
        dst: Target<'_, ErasedRemote>,
        work: Work,
    ) -> Result<Posted>;
    fn put_inline(&mut self, data: &[u8], dst: Target<'_, ErasedRemote>, work: Work) -> Result<Posted>;
    fn put_inline_each(
        &mut self,
        pieces: &[(usize, &[u8])],
        remote: &ErasedRemote,
        strong: bool,
    ) -> Result<()>;
    fn get(
        &mut self,
        dst: Local<'_, ErasedMemory>,
        src: Target<'_, ErasedRemote>,
        work: Work,
    ) -> Result<Posted>;
    /// Posts an operation on a word. `op` is no [`WordOp::Get`].
    fn word(
        &mut self,
        at: Target<'_, ErasedRemote>,
        op: WordOp,
        result: Local<'_, ErasedMemory>,
        work: Work,
    ) -> Result<Posted>;
    fn flush(&mut self, work: Work) -> Result<Posted>;
    fn word_at_once(&mut self, at: Target<'_, ErasedRemote>, op: WordOp) -> Result<Option<u64>>;
    fn read_at_once(&mut self, src: Target<'_, ErasedRemote>, out: &mut [u8]) -> Result<()>;
}

impl<Q: QueuePair> DynQueuePair for Of<Q> {
    fn peer(&self) -> NodeId {
        self.0.peer()
    }

    fn put(
        &mut self,
        src: Local<'_, ErasedMemory>,
        dst: Target<'_, ErasedRemote>,
        work: Work,
    ) -> Result<Posted> {
        self.0.put(local(&src)?, target(&dst)?, work)
    }

    fn put_inline(&mut self, data: &[u8], dst: Target<'_, ErasedRemote>, work: Work) -> Result<Posted> {
        self.0.put_inline(data, target(&dst)?, work)
    }

    fn put_inline_each(
        &mut self,
        pieces: &[(usize, &[u8])],
        remote: &ErasedRemote,
        strong: bool,
    ) -> Result<()> {
        self.0.put_inline_each(pieces, remote.get()?, strong)
    }

    fn get(
        &mut self,
        dst: Local<'_, ErasedMemory>,
        src: Target<'_, ErasedRemote>,
        work: Work,
    ) -> Result<Posted> {
        self.0.get(local(&dst)?, target(&src)?, work)
    }

    fn word(
        &mut self,
        at: Target<'_, ErasedRemote>,
        op: WordOp,
        result: Local<'_, ErasedMemory>,
        work: Work,
    ) -> Result<Posted> {
        let (at, result) = (target(&at)?, local(&result)?);
        match op {
            WordOp::Get => self.0.get(result, at, work),
            WordOp::FetchAdd(add) => self.0.fetch_add(at, add, result, work),
            WordOp::CompareSwap { expected, new } => self.0.compare_swap(at, expected, new, result, work),
        }
    }

    fn flush(&mut self, work: Work) -> Result<Posted> {
        self.0.flush(work)
    }

    fn word_at_once(&mut self, at: Target<'_, ErasedRemote>, op: WordOp) -> Result<Option<u64>> {
        self.0.word_at_once(target(&at)?, op)
    }

    fn read_at_once(&mut self, src: Target<'_, ErasedRemote>, out: &mut [u8]) -> Result<()> {
        self.0.read_at_once(target(&src)?, out)
    }
}

/// A queue pair of any type.
pub struct ErasedQueuePair(Box<dyn DynQueuePair>);

impl ErasedQueuePair {
    pub(super) fn new<Q: QueuePair>(queue_pair: Q) -> ErasedQueuePair {
        ErasedQueuePair(Box::new(Of(queue_pair)))
    }
}

impl QueuePair for ErasedQueuePair {
    type Memory = ErasedMemory;
    type Remote = ErasedRemote;

    fn peer(&self) -> NodeId {
        self.0.peer()
    }

    fn put(
        &mut self,
        src: Local<'_, ErasedMemory>,
        dst: Target<'_, ErasedRemote>,
        work: Work,
    ) -> Result<Posted> {
        self.0.put(src, dst, work)
    }

    fn put_inline(&mut self, data: &[u8], dst: Target<'_, ErasedRemote>, work: Work) -> Result<Posted> {
        self.0.put_inline(data, dst, work)
    }

    fn put_inline_each(
        &mut self,
        pieces: &[(usize, &[u8])],
        remote: &ErasedRemote,
        strong_last: bool,
    ) -> Result<()> {
        self.0.put_inline_each(pieces, remote, strong_last)
    }

    fn get(
        &mut self,
        dst: Local<'_, ErasedMemory>,
        src: Target<'_, ErasedRemote>,
        work: Work,
    ) -> Result<Posted> {
        self.0.get(dst, src, work)
    }

    fn fetch_add(
        &mut self,
        target: Target<'_, ErasedRemote>,
        add: u64,
        result: Local<'_, ErasedMemory>,
        work: Work,
    ) -> Result<Posted> {
        self.0.word(target, WordOp::FetchAdd(add), result, work)
    }

    fn compare_swap(
        &mut self,
        target: Target<'_, ErasedRemote>,
        expected: u64,
        new: u64,
        result: Local<'_, ErasedMemory>,
        work: Work,
    ) -> Result<Posted> {
        let op = WordOp::CompareSwap { expected, new };
        self.0.word(target, op, result, work)
    }

    fn flush(&mut self, work: Work) -> Result<Posted> {
        self.0.flush(work)
    }

    fn word_at_once(&mut self, target: Target<'_, ErasedRemote>, op: WordOp) -> Result<Option<u64>> {
        self.0.word_at_once(target, op)
    }

    fn read_at_once(&mut self, src: Target<'_, ErasedRemote>, out: &mut [u8]) -> Result<()> {
        self.0.read_at_once(src, out)
    }
}
