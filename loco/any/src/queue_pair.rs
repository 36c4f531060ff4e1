//! A queue pair.

use loco_fabric::{Local, NodeId, Posted, QueuePair, Result, Target, WordOp, Work};
#[cfg(feature = "ofi")]
use loco_ofi::OfiQueuePair;
#[cfg(feature = "shm")]
use loco_shm::ShmQueuePair;
#[cfg(feature = "tcp")]
use loco_tcp::TcpQueuePair;
#[cfg(feature = "verbs")]
use loco_verbs::VerbsQueuePair;

#[cfg(feature = "model")]
use crate::erased::ErasedQueuePair;
use crate::foreign::mixed;
use crate::memory::{AnyMemory, AnyRemote};

either! {
    /// A queue pair.
    AnyQueuePair, ShmQueuePair, VerbsQueuePair, TcpQueuePair, OfiQueuePair, ErasedQueuePair
}

/// Expands an operation with a local and a remote side, for the fabric to which all of its parts belong.
macro_rules! operation {
    ($qp:expr, $local:expr, $target:expr, |$q:ident, $l:ident, $t:ident| $call:expr) => {
        match ($qp, $local.memory, $target.remote) {
            #[cfg(feature = "shm")]
            (AnyQueuePair::Shm($q), AnyMemory::Shm(memory), AnyRemote::Shm(remote)) => {
                let ($l, $t) = operation!(sides memory, remote, $local, $target);
                $call
            }
            #[cfg(feature = "verbs")]
            (AnyQueuePair::Verbs($q), AnyMemory::Verbs(memory), AnyRemote::Verbs(remote)) => {
                let ($l, $t) = operation!(sides memory, remote, $local, $target);
                $call
            }
            #[cfg(feature = "tcp")]
            (AnyQueuePair::Tcp($q), AnyMemory::Tcp(memory), AnyRemote::Tcp(remote)) => {
                let ($l, $t) = operation!(sides memory, remote, $local, $target);
                $call
            }
            #[cfg(feature = "ofi")]
            (AnyQueuePair::Ofi($q), AnyMemory::Ofi(memory), AnyRemote::Ofi(remote)) => {
                let ($l, $t) = operation!(sides memory, remote, $local, $target);
                $call
            }
            #[cfg(feature = "model")]
            (AnyQueuePair::Model($q), AnyMemory::Model(memory), AnyRemote::Model(remote)) => {
                let ($l, $t) = operation!(sides memory, remote, $local, $target);
                $call
            }
            #[allow(unreachable_patterns)] // With one fabric there is no other.
            _ => Err(mixed()),
        }
    };
    (sides $memory:ident, $remote:ident, $local:expr, $target:expr) => {
        (
            Local { memory: $memory, offset: $local.offset, len: $local.len },
            Target { remote: $remote, offset: $target.offset },
        )
    };
}

impl QueuePair for AnyQueuePair {
    type Memory = AnyMemory;
    type Remote = AnyRemote;

    fn peer(&self) -> NodeId {
        each!(self, qp => qp.peer())
    }

    #[inline]
    fn put(&mut self, src: Local<'_, AnyMemory>, dst: Target<'_, AnyRemote>, work: Work) -> Result<Posted> {
        operation!(self, src, dst, |qp, src, dst| qp.put(src, dst, work))
    }

    // This must be inlined, as the put over shared memory must be (see `ShmQueuePair::put_inline`): a call in between
    // would hide the length of the data, and take as long as the put.
    #[inline(always)]
    fn put_inline(&mut self, data: &[u8], dst: Target<'_, AnyRemote>, work: Work) -> Result<Posted> {
        let offset = dst.offset;
        match (self, dst.remote) {
            #[cfg(feature = "shm")]
            (AnyQueuePair::Shm(qp), AnyRemote::Shm(remote)) => {
                qp.put_inline(data, Target { remote, offset }, work)
            }
            #[cfg(feature = "verbs")]
            (AnyQueuePair::Verbs(qp), AnyRemote::Verbs(remote)) => {
                qp.put_inline(data, Target { remote, offset }, work)
            }
            #[cfg(feature = "tcp")]
            (AnyQueuePair::Tcp(qp), AnyRemote::Tcp(remote)) => {
                qp.put_inline(data, Target { remote, offset }, work)
            }
            #[cfg(feature = "ofi")]
            (AnyQueuePair::Ofi(qp), AnyRemote::Ofi(remote)) => {
                qp.put_inline(data, Target { remote, offset }, work)
            }
            #[cfg(feature = "model")]
            (AnyQueuePair::Model(qp), AnyRemote::Model(remote)) => {
                qp.put_inline(data, Target { remote, offset }, work)
            }
            #[allow(unreachable_patterns)] // With one fabric there is no other.
            _ => Err(mixed()),
        }
    }

    #[inline]
    fn put_inline_each(
        &mut self,
        pieces: &[(usize, &[u8])],
        remote: &AnyRemote,
        strong_last: bool,
    ) -> Result<()> {
        match (self, remote) {
            #[cfg(feature = "shm")]
            (AnyQueuePair::Shm(qp), AnyRemote::Shm(remote)) => {
                qp.put_inline_each(pieces, remote, strong_last)
            }
            #[cfg(feature = "verbs")]
            (AnyQueuePair::Verbs(qp), AnyRemote::Verbs(remote)) => {
                qp.put_inline_each(pieces, remote, strong_last)
            }
            #[cfg(feature = "tcp")]
            (AnyQueuePair::Tcp(qp), AnyRemote::Tcp(remote)) => {
                qp.put_inline_each(pieces, remote, strong_last)
            }
            #[cfg(feature = "ofi")]
            (AnyQueuePair::Ofi(qp), AnyRemote::Ofi(remote)) => {
                qp.put_inline_each(pieces, remote, strong_last)
            }
            #[cfg(feature = "model")]
            (AnyQueuePair::Model(qp), AnyRemote::Model(remote)) => {
                qp.put_inline_each(pieces, remote, strong_last)
            }
            #[allow(unreachable_patterns)] // With one fabric there is no other.
            _ => Err(mixed()),
        }
    }

    #[inline]
    fn get(&mut self, dst: Local<'_, AnyMemory>, src: Target<'_, AnyRemote>, work: Work) -> Result<Posted> {
        operation!(self, dst, src, |qp, dst, src| qp.get(dst, src, work))
    }

    #[inline]
    fn fetch_add(
        &mut self,
        target: Target<'_, AnyRemote>,
        add: u64,
        result: Local<'_, AnyMemory>,
        work: Work,
    ) -> Result<Posted> {
        operation!(self, result, target, |qp, result, target| qp
            .fetch_add(target, add, result, work))
    }

    #[inline]
    fn compare_swap(
        &mut self,
        target: Target<'_, AnyRemote>,
        expected: u64,
        new: u64,
        result: Local<'_, AnyMemory>,
        work: Work,
    ) -> Result<Posted> {
        operation!(self, result, target, |qp, result, target| {
            qp.compare_swap(target, expected, new, result, work)
        })
    }

    #[inline]
    fn flush(&mut self, work: Work) -> Result<Posted> {
        each!(self, qp => qp.flush(work))
    }

    #[inline]
    fn word_at_once(&mut self, target: Target<'_, AnyRemote>, op: WordOp) -> Result<Option<u64>> {
        let offset = target.offset;
        match (self, target.remote) {
            #[cfg(feature = "shm")]
            (AnyQueuePair::Shm(qp), AnyRemote::Shm(remote)) => qp.word_at_once(Target { remote, offset }, op),
            #[cfg(feature = "verbs")]
            (AnyQueuePair::Verbs(qp), AnyRemote::Verbs(remote)) => {
                qp.word_at_once(Target { remote, offset }, op)
            }
            #[cfg(feature = "tcp")]
            (AnyQueuePair::Tcp(qp), AnyRemote::Tcp(remote)) => qp.word_at_once(Target { remote, offset }, op),
            #[cfg(feature = "ofi")]
            (AnyQueuePair::Ofi(qp), AnyRemote::Ofi(remote)) => qp.word_at_once(Target { remote, offset }, op),
            #[cfg(feature = "model")]
            (AnyQueuePair::Model(qp), AnyRemote::Model(remote)) => {
                qp.word_at_once(Target { remote, offset }, op)
            }
            #[allow(unreachable_patterns)] // With one fabric there is no other.
            _ => Err(mixed()),
        }
    }

    #[inline]
    fn read_at_once(&mut self, src: Target<'_, AnyRemote>, out: &mut [u8]) -> Result<()> {
        let offset = src.offset;
        match (self, src.remote) {
            #[cfg(feature = "shm")]
            (AnyQueuePair::Shm(qp), AnyRemote::Shm(remote)) => {
                qp.read_at_once(Target { remote, offset }, out)
            }
            #[cfg(feature = "verbs")]
            (AnyQueuePair::Verbs(qp), AnyRemote::Verbs(remote)) => {
                qp.read_at_once(Target { remote, offset }, out)
            }
            #[cfg(feature = "tcp")]
            (AnyQueuePair::Tcp(qp), AnyRemote::Tcp(remote)) => {
                qp.read_at_once(Target { remote, offset }, out)
            }
            #[cfg(feature = "ofi")]
            (AnyQueuePair::Ofi(qp), AnyRemote::Ofi(remote)) => {
                qp.read_at_once(Target { remote, offset }, out)
            }
            #[cfg(feature = "model")]
            (AnyQueuePair::Model(qp), AnyRemote::Model(remote)) => {
                qp.read_at_once(Target { remote, offset }, out)
            }
            #[allow(unreachable_patterns)] // With one fabric there is no other.
            _ => Err(mixed()),
        }
    }
}
