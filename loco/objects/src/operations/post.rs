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
            ..work
        };
        match self.attempt(operation, work) {
            Ok(Attempt::Done) => Ok(0),
            Ok(Attempt::Pending(seq)) => Ok(seq),
            Ok(Attempt::WindowFull) | Err(FabricError::QueueFull(_)) => self.post_when_free(operation, work),
            Err(error) => Err(self.operations_failed(&[operation.peer()], error.into())),
        }
    }

    /// Records an operation that is under way in the timeline, if that is on.
    #[inline]
    fn show(&self, operation: &Operation<'_, F>) {
        if timeline::is_on() {
            let (node, peer) = (self.node_id(), operation.peer());
            timeline::posted(node, operation.name(), peer, operation.bytes());
        }
    }

    #[inline]
    fn attempt(&self, operation: &Operation<'_, F>, work: Work) -> Result<Attempt, FabricError> {
        let attempt = match self.attempt_as_it_is(operation, work) {
            Err(error @ FabricError::Unsupported(_)) => self.attempt_from_block(operation, work, error),
            attempt => attempt,
        };
        if let Ok(Attempt::Done | Attempt::Pending(_)) = attempt {
            self.counts().operations(operation.kind(), 1, operation.bytes());
        }
        if let Ok(Attempt::Pending(_)) = attempt {
            self.show(operation);
        }
        attempt
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
                Ok(Attempt::Done) => Some(Ok(0)),
                Ok(Attempt::Pending(seq)) => Some(Ok(seq)),
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
