//! The buffers of the machine: store buffers, and queue pairs with their pipe and write-back buffers.
//!
//! Relies on [`smallvec`], so that short buffers do not allocate. One layout serves both pipelines: the four main buffers of the
//! concrete queue pair, merged in order, are the pipe of the simplified one (RDMA-TSO'24 Def. B.4). So a concrete queue pair
//! is a pipe with three boundaries. The rules are in [`super::simplified`] and [`super::concrete`].

use smallvec::SmallVec;

use super::ops::{Addr, MessagePart, Post, RemoteOp};
use crate::model::Tier;
use crate::models::tiers::announces_earlier;
use crate::program::Value;

/// A FIFO buffer, oldest entry first. Cloning into an existing buffer reuses its storage.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fifo<T: Copy>(SmallVec<[T; 4]>);

impl<T: Copy> Fifo<T> {
    pub(crate) fn new() -> Self {
        Fifo(SmallVec::new())
    }

    pub(crate) fn push(&mut self, item: T) {
        self.0.push(item);
    }

    pub(crate) fn remove(&mut self, index: usize) -> Option<T> {
        (index < self.0.len()).then(|| self.0.remove(index))
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        self.remove(0)
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.0.retain(|item| keep(item));
    }
}

impl<T: Copy> std::ops::Deref for Fifo<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: Copy> std::ops::DerefMut for Fifo<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

impl<T: Copy> Clone for Fifo<T> {
    fn clone(&self) -> Self {
        Fifo(SmallVec::from_slice(&self.0))
    }

    fn clone_from(&mut self, source: &Self) {
        self.0.clear();
        self.0.extend_from_slice(&source.0);
    }
}

/// The function by which an RMW computes the value that it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Rmw {
    Add(Value),
    CompareSwap { expected: Value, new: Value },
    Swap(Value),
}

impl Rmw {
    /// Returns the value written when `old` is read, or `None` if the operation does not write.
    pub(crate) fn write(self, old: Value) -> Option<Value> {
        match self {
            Rmw::Add(add) => Some(old.wrapping_add(add)),
            Rmw::CompareSwap { expected, new } => (old == expected).then_some(new),
            Rmw::Swap(new) => Some(new),
        }
    }
}

/// The source of a put's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    Word(Addr),
    Constant(Value),
}

/// The stage of a remote operation: the entries of RDMA-TSO'24 Fig. 5 and of `docs/rmw.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    /// `ybar := x`
    Put { dst: Addr, src: Source },
    /// `ybar := v`
    PutValue { dst: Addr, value: Value },
    /// `ack_p`
    Ack,
    /// `x := ybar`
    Get { dst: Addr, src: Addr },
    /// `x := v`
    Value { dst: Addr, value: Value },
    /// `x := rmw ybar`
    Rmw { dst: Addr, target: Addr, rmw: Rmw },
    /// `x := v; ybar := v'`: the operation has read and not written. It holds the atomic unit.
    Executing {
        dst: Addr,
        old: Value,
        target: Addr,
        new: Value,
    },
    /// `rfence`
    Fence,
    /// The result of a get or read-modify-write is on its way to memory, and the operation has yet to complete. Only where the
    /// network reorders.
    Done,
}

impl Stage {
    /// Returns the first stage of an operation.
    pub(crate) fn of(op: RemoteOp) -> Stage {
        match op {
            RemoteOp::Put { dst, src } => Stage::Put {
                dst,
                src: Source::Word(src),
            },
            RemoteOp::PutValue { dst, value } => Stage::Put {
                dst,
                src: Source::Constant(value),
            },
            // Its local read was made by the CPU that posted it.
            RemoteOp::PutInline { dst, value } => Stage::PutValue { dst, value },
            RemoteOp::Get { dst, src } => Stage::Get { dst, src },
            RemoteOp::FetchAdd { dst, target, add } => Stage::Rmw {
                dst,
                target,
                rmw: Rmw::Add(add),
            },
            RemoteOp::CompareSwap {
                dst,
                target,
                expected,
                new,
            } => Stage::Rmw {
                dst,
                target,
                rmw: Rmw::CompareSwap { expected, new },
            },
            RemoteOp::Swap { dst, target, new } => Stage::Rmw {
                dst,
                target,
                rmw: Rmw::Swap(new),
            },
            RemoteOp::Fence => Stage::Fence,
        }
    }
}

/// An operation on its way through the store buffer and the pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Entry {
    pub(crate) stage: Stage,
    pub(crate) tag: u64,
    pub(crate) signaled: bool,
    /// [`Post::transfer`](super::Post::transfer).
    pub(crate) transfer: u32,
    /// Whether the operation asks for strong order, and its *epoch*: how many operations that asked for it came before or are it.
    /// Writes of smaller epochs are the earlier writes that a strong operation waits for.
    pub(crate) order: (bool, u16),
    /// [`Post::message`](super::Post::message), until its remote write is issued.
    pub(crate) message: Option<MessagePart>,
}

impl Entry {
    pub(crate) fn new(post: Post) -> Entry {
        let Post {
            op,
            tag,
            signaled,
            transfer,
            strong,
            message,
            ..
        } = post;
        Entry {
            stage: Stage::of(op),
            tag,
            signaled: signaled && !matches!(op, RemoteOp::Fence),
            transfer,
            order: (strong && !matches!(op, RemoteOp::Fence), 0),
            message,
        }
    }

    /// Returns the word that says whether the receive is posted, if the entry takes one.
    pub(crate) fn receive(&self) -> Option<Addr> {
        match self.message? {
            MessagePart::Data { entry, .. } => Some(entry),
            MessagePart::Completion { entry } => entry,
        }
    }

    /// Returns whether the receive that the entry takes, if it takes one, is posted.
    pub(crate) fn is_received(&self, memory: &[Value]) -> bool {
        self.receive()
            .is_none_or(|word| memory.get(word.0 as usize).is_some_and(|&posted| posted != 0))
    }

    /// Returns the word of the completion that comes after the entry's data, if the entry is the data of a message.
    pub(crate) fn completed_by(&self) -> Option<Addr> {
        match self.message {
            Some(MessagePart::Data { done, .. }) => Some(done),
            _ => None,
        }
    }

    /// Returns whether a wait for its tag still waits for this entry: a put until its remote write is buffered (it is
    /// an acknowledgement then), any other operation until it leaves the pipe.
    pub(crate) fn is_outstanding(&self) -> bool {
        !matches!(self.stage, Stage::Ack | Stage::Fence | Stage::Done)
    }
}

/// An entry of a store buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Delayed {
    Store { loc: Addr, value: Value },
    Remote { peer: u16, entry: Entry },
}

/// A write in `wb_R`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RemoteWrite {
    pub(crate) dst: Addr,
    pub(crate) value: Value,
    /// True for the write of an RMW, whose arrival in memory frees the atomic unit.
    pub(crate) atomic: bool,
    /// [`Post::transfer`](super::Post::transfer).
    pub(crate) transfer: u32,
    /// True if it is placed after the writes of smaller epochs.
    pub(crate) strong: bool,
    /// See [`Entry::order`].
    pub(crate) epoch: u16,
    /// The completion that is placed after the write, if the write is the data of a message.
    pub(crate) before: Option<Addr>,
}

/// An entry of `wb_L`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LocalBack {
    Write {
        dst: Addr,
        value: Value,
        tag: u64,
    },
    /// `cn`
    Notification {
        tag: u64,
    },
}

/// The boundaries of the four main buffers within the pipe, for the concrete pipeline: `rsp_L` is `..rsp`,
/// `out_R` is `rsp..out`, `in_R` is `out..inbox`, `req_L` the rest. All zero in the simplified pipeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Bounds {
    pub(crate) rsp: u16,
    pub(crate) out: u16,
    pub(crate) inbox: u16,
}

/// A queue pair.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct QueuePair {
    pub(crate) peer: u16,
    pub(crate) bounds: Bounds,
    pub(crate) pipe: Fifo<Entry>,
    pub(crate) wb_r: Fifo<RemoteWrite>,
    pub(crate) wb_l: Fifo<LocalBack>,
}

impl QueuePair {
    pub(crate) fn new(peer: u16) -> QueuePair {
        QueuePair {
            peer,
            bounds: Bounds::default(),
            pipe: Fifo::new(),
            wb_r: Fifo::new(),
            wb_l: Fifo::new(),
        }
    }

    /// Puts a posted operation into the pipe. On [`Tier::Ibta`] every operation is placed after the earlier writes, so the request is
    /// dropped.
    pub(crate) fn post(&mut self, mut entry: Entry, tier: Tier) {
        let announces =
            matches!(entry.message, Some(MessagePart::Completion { .. })) && announces_earlier(tier);
        let strong = (entry.order.0 || announces) && tier != Tier::Ibta;
        let newest = self.pipe.last().map(|e| (e.order.1, e.transfer));
        let unplaced = || self.wb_r.iter().map(|w| (w.epoch, w.transfer));
        let newest = newest
            .or_else(|| unplaced().max_by_key(|&(epoch, transfer)| (epoch, transfer == entry.transfer)));
        let (epoch, transfer) = newest.unwrap_or_default();
        // The words of one transfer do not wait for one another.
        let opens = strong && (transfer != entry.transfer || transfer == 0);
        entry.order = (strong, epoch + u16::from(opens));
        self.pipe.push(entry);
    }

    /// Returns the place in `wb_L` of its write number `n`, the oldest being number 0.
    pub(crate) fn local_write(&self, n: usize) -> Option<usize> {
        let writes = self.wb_l.iter().enumerate();
        let mut writes = writes.filter(|(_, e)| matches!(e, LocalBack::Write { .. }));
        writes.nth(n).map(|(at, _)| at)
    }

    /// Returns the destination of write number `n` of `wb_L`.
    pub(crate) fn local_destination(&self, n: usize) -> Option<Addr> {
        match self.wb_l[self.local_write(n)?] {
            LocalBack::Write { dst, .. } => Some(dst),
            LocalBack::Notification { .. } => None,
        }
    }

    /// Returns whether `wb_L` holds a write.
    pub(crate) fn has_local_write(&self) -> bool {
        self.local_write(0).is_some()
    }

    /// Returns how many of the oldest writes of `wb_R` may reach memory next: the oldest one, and those behind it that are
    /// words of the same transfer.
    pub(crate) fn placeable(&self) -> usize {
        let Some(first) = self.wb_r.first() else {
            return 0;
        };
        let of_one = |w: &&RemoteWrite| w.transfer == first.transfer && first.transfer != 0;
        1 + self.wb_r[1..].iter().take_while(of_one).count()
    }

    /// Returns whether nothing is under way; notifications may be left.
    pub(crate) fn is_idle(&self) -> bool {
        self.pipe.is_empty() && self.wb_r.is_empty() && !self.has_local_write()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pipe.is_empty() && self.wb_r.is_empty() && self.wb_l.is_empty()
    }

    /// Returns whether an operation with this tag is outstanding in the sense of `wait`.
    pub(crate) fn is_outstanding(&self, tag: u64) -> bool {
        self.pipe.iter().any(|e| e.tag == tag && e.is_outstanding())
            || self
                .wb_l
                .iter()
                .any(|e| matches!(e, LocalBack::Write { tag: t, .. } if *t == tag))
    }

    /// Returns `(M ◁ wb_R)(loc)`, where `memory` is `M(loc)`.
    pub(crate) fn through_wb_r(&self, loc: Addr, memory: Value) -> Value {
        self.wb_r
            .iter()
            .rev()
            .find(|w| w.dst == loc)
            .map_or(memory, |w| w.value)
    }

    /// Returns `(M ◁ wb_L)(loc)`, where `memory` is `M(loc)`.
    pub(crate) fn through_wb_l(&self, loc: Addr, memory: Value) -> Value {
        let newest = self.wb_l.iter().rev().find_map(|e| match *e {
            LocalBack::Write { dst, value, .. } if dst == loc => Some(value),
            _ => None,
        });
        newest.unwrap_or(memory)
    }
}

impl Clone for QueuePair {
    fn clone(&self) -> QueuePair {
        QueuePair {
            peer: self.peer,
            bounds: self.bounds,
            pipe: self.pipe.clone(),
            wb_r: self.wb_r.clone(),
            wb_l: self.wb_l.clone(),
        }
    }

    fn clone_from(&mut self, source: &QueuePair) {
        self.peer = source.peer;
        self.bounds = source.bounds;
        self.pipe.clone_from(&source.pipe);
        self.wb_r.clone_from(&source.wb_r);
        self.wb_l.clone_from(&source.wb_l);
    }
}

/// The machine's state of a thread: its store buffer and its queue pairs, ordered by peer.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct ThreadState {
    pub(crate) store_buffer: Fifo<Delayed>,
    pub(crate) queue_pairs: Vec<QueuePair>,
}

impl ThreadState {
    pub(crate) fn new() -> ThreadState {
        ThreadState {
            store_buffer: Fifo::new(),
            queue_pairs: Vec::new(),
        }
    }

    pub(crate) fn queue_pair(&self, peer: u16) -> Option<&QueuePair> {
        self.queue_pairs.iter().find(|q| q.peer == peer)
    }

    pub(crate) fn queue_pair_mut(&mut self, peer: u16) -> Option<&mut QueuePair> {
        self.queue_pairs.iter_mut().find(|q| q.peer == peer)
    }

    /// Returns the queue pair, made if it does not exist.
    pub(crate) fn queue_pair_or_new(&mut self, peer: u16) -> &mut QueuePair {
        let at = self.queue_pairs.partition_point(|q| q.peer < peer);
        if self.queue_pairs.get(at).is_none_or(|q| q.peer != peer) {
            self.queue_pairs.insert(at, QueuePair::new(peer));
        }
        &mut self.queue_pairs[at]
    }
}

impl Clone for ThreadState {
    fn clone(&self) -> ThreadState {
        ThreadState {
            store_buffer: self.store_buffer.clone(),
            queue_pairs: self.queue_pairs.clone(),
        }
    }

    fn clone_from(&mut self, source: &ThreadState) {
        self.store_buffer.clone_from(&source.store_buffer);
        self.queue_pairs.clone_from(&source.queue_pairs);
    }
}
