//! Posting of one operation: at once, when there is room again, or by a block of the thread's pool.
//!
//! The last is for puts of bytes that the fabric does not put inline. A fabric refuses them and has then posted nothing, so the
//! short path asks for no limit. Some cards put nothing inline. There every such put goes by a block, and objects need not know.

use loco_fabric::{Fabric, FabricError, Local, Memory, Peers, Work};

use loco_trace::timeline;

use crate::Result;
use crate::operations::ack::AckKey;
use crate::operations::counts::Count;
use crate::operations::operation::{Flags, Operation, target};
use crate::operations::queues::Attempt;
use crate::operations::thread::Thread;

impl<F: Fabric> Thread<F> {
    /// Posts an operation. Returns the sequence number if it is pending and tracked, else 0.
    #[inline]
    pub(crate) fn post_work(&self, operation: &Operation<'_, F>, flags: Flags, work: Work) -> Result<u64> {
        let work = Work {
            fenced: flags.fenced,
            strong: flags.strong,
            more: flags.more,
            lazy: flags.lazy,
            ..work
        };
        match self.attempt(operation, work) {
            Ok(Attempt::Done) => Ok(self.counted(operation)),
            Ok(Attempt::Pending(seq)) => Ok(self.shown(operation, seq)),
            Ok(Attempt::WindowFull) | Err(FabricError::QueueFull(_)) => self.post_when_free(operation, work),
            Err(error) => Err(self.operations_failed(&[operation.peer()], error.into())),
        }
    }

    /// Counts an operation that is done, and returns the number of those.
    #[inline]
    fn counted(&self, operation: &Operation<'_, F>) -> u64 {
        self.counts().operations(operation.kind(), 1, operation.bytes());
        0
    }

    /// Counts an operation that is under way, records it in the timeline, if that is on, and returns its number. Callers do this in their
    /// last step: an operation that is done when it is posted must not pass a test for it, which costs it its inlining.
    #[inline]
    fn shown(&self, operation: &Operation<'_, F>, seq: u64) -> u64 {
        self.counted(operation);
        if timeline::is_on() {
            let (node, peer) = (self.node_id(), operation.peer());
            timeline::posted(node, operation.name(), peer, operation.bytes());
        }
        seq
    }

    #[inline]
    fn attempt(&self, operation: &Operation<'_, F>, work: Work) -> Result<Attempt, FabricError> {
        match self.attempt_as_it_is(operation, work) {
            Err(error @ FabricError::Unsupported(_)) => self.attempt_from_block(operation, work, error),
            attempt => attempt,
        }
    }

    #[inline]
    fn attempt_as_it_is(&self, operation: &Operation<'_, F>, work: Work) -> Result<Attempt, FabricError> {
        let (peer, kind) = (operation.peer(), operation.kind());
        self.with_queues(|queues| {
            queues.post(self.fabric(), peer, kind, work, |queue, work| {
                operation.post(queue, work)
            })
        })
    }

    /// Tries again to post until there is room. A poll may make room without showing a completion, if only
    /// untracked operations ended. Only another attempt to post can therefore tell.
    #[cold]
    #[inline(never)]
    fn post_when_free(&self, operation: &Operation<'_, F>, work: Work) -> Result<u64> {
        let peer = operation.peer();
        let posted = self.wait_completion(Peers::One(peer), Some(self.deadline()), || {
            self.counts().add(Count::PostsAgain, 1);
            match self.attempt(operation, work) {
                Ok(Attempt::Done) => Some(Ok(self.counted(operation))),
                Ok(Attempt::Pending(seq)) => Some(Ok(self.shown(operation, seq))),
                Ok(Attempt::WindowFull) | Err(FabricError::QueueFull(_)) => None,
                Err(error) => Some(Err(error.into())),
            }
        });
        posted.map_err(|error| self.operations_failed(&[peer], error))
    }

    /// Posts an operation that the fabric has refused with `error`, if that is a put of bytes beyond the fabric's limit which
    /// fit in a block of the pool. The put is signaled, so that the block is free when the put has read it.
    #[cold]
    #[inline(never)]
    fn attempt_from_block(
        &self,
        operation: &Operation<'_, F>,
        work: Work,
        error: FabricError,
    ) -> Result<Attempt, FabricError> {
        let block_bytes = self.network().block_bytes();
        let Operation::PutInline(data, dst) = operation else {
            return Err(error);
        };
        if data.len() <= self.fabric().caps().inline_bytes_max || data.len() > block_bytes {
            return Err(error);
        }
        let mut pool = self.pool().borrow_mut();
        let block = pool.block(self.fabric(), block_bytes)?;
        let posted = block.write(0, data).and_then(|()| {
            let src = Local {
                memory: &block,
                offset: 0,
                len: data.len(),
            };
            let work = Work {
                signaled: true,
                ..work
            };
            self.attempt_as_it_is(&Operation::Put(src, target(dst)), work)
        });
        match posted {
            Ok(Attempt::Pending(seq)) => {
                let mut key = AckKey::done();
                key.insert(self.window(), seq, operation.peer());
                pool.keep(key, block, true);
            }
            _ => pool.give_back(block),
        }
        posted
    }
}
