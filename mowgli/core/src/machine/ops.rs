//! The actions that a thread can ask of the machine, the remote operations, and the answers.
//!
//! Relies on nothing. Used by [`super::Machine::issue`], by the interpreter of programs in [`crate::explore`], and by the model fabric of
//! `loco-sim`, which runs object code on the machine.

use crate::program::Value;

/// Index of a word of memory. Words are numbered densely, in the order of [`super::Machine::add_location`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Addr(pub u32);

/// The queue pair that joins `thread` to the node `peer`. The machine makes it when it is first used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QpId {
    /// The thread that posts to it.
    pub thread: u16,
    /// The node at its other end (may be the thread's own node).
    pub peer: u16,
}

/// A remote operation. *Local* words belong to the issuing thread's node, *remote* ones to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RemoteOp {
    /// `dst := src`, from a local word to a remote one.
    Put {
        /// Remote destination.
        dst: Addr,
        /// Local source, read by the NIC some time after the operation was issued.
        src: Addr,
    },
    /// `dst := value`. The NIC still makes the local read of a put, from a fresh word that nobody writes: like any other local
    /// read it waits until the queue pair's earlier local writes are flushed (PCIe guarantee).
    PutValue {
        /// Remote destination.
        dst: Addr,
        /// The value.
        value: Value,
    },
    /// `dst := value`, where the value travels in the work request. The NIC reads no local memory and waits for no flush.
    PutInline {
        /// Remote destination.
        dst: Addr,
        /// The value.
        value: Value,
    },
    /// `dst := src`, from a remote word to a local one.
    Get {
        /// Local destination.
        dst: Addr,
        /// Remote source.
        src: Addr,
    },
    /// Remote fetch-and-add (wrapping); the old value goes to local `dst` (`docs/rmw.md`).
    FetchAdd {
        /// Local destination of the old value.
        dst: Addr,
        /// Remote target.
        target: Addr,
        /// Addend.
        add: Value,
    },
    /// Remote compare-and-swap; the old value goes to local `dst` (`docs/rmw.md`).
    CompareSwap {
        /// Local destination of the old value.
        dst: Addr,
        /// Remote target.
        target: Addr,
        /// Expected value.
        expected: Value,
        /// New value.
        new: Value,
    },
    /// Remote exchange; the old value goes to local `dst` (`docs/rmw.md`).
    Swap {
        /// Local destination of the old value.
        dst: Addr,
        /// Remote target.
        target: Addr,
        /// New value.
        new: Value,
    },
    /// Remote fence (`rfence`): later operations of the queue pair wait for the responses of earlier ones.
    Fence,
}

/// A remote operation with the peer of its queue pair and the way in which its completion is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Post {
    /// Node at the other end.
    pub peer: u16,
    /// The operation.
    pub op: RemoteOp,
    /// The caller's name for the operation (work identifier), for [`Action::Wait`] and
    /// [`Issued::Completion`].
    pub tag: u64,
    /// True if the operation takes effect at the peer after the earlier writes of its queue pair have been placed there (strong order;
    /// `docs/ordering-models.md`). [`Tier::Ibta`](crate::model::Tier::Ibta) orders it so anyway. Ignored for fences.
    pub strong: bool,
    /// True if completion leaves a notification for [`Action::Poll`]. Unsignaled operations can still be
    /// waited for by tag. Ignored for fences, which have no completion.
    pub signaled: bool,
    /// The transfer of which the operation moves one word, as a number of the caller's choice; 0 for an operation of its own. The words
    /// of a transfer are posted one after another, to different destinations, with the same requests. They are placed in any order,
    /// since nothing orders the words of one put. Transfers that follow one another in a queue pair need different numbers.
    pub transfer: u32,
    /// The part of a message that the operation is, if it is one.
    pub message: Option<MessagePart>,
}

/// A part of a message: a put of its data, and behind it an inlined put of its receive completion (`docs/litmus.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessagePart {
    /// The data. They take a receive.
    Data {
        /// The word that is not 0 once the receive is posted.
        entry: Addr,
        /// The word that the completion writes, after the data are placed.
        done: Addr,
    },
    /// The completion.
    Completion {
        /// The word that is not 0 once the receive is posted, if the message has no data to take it.
        entry: Option<Addr>,
    },
}

/// An action of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// CPU store to a local word.
    Store {
        /// Destination.
        loc: Addr,
        /// Value.
        value: Value,
    },
    /// CPU load from a local word; answers [`Issued::Value`].
    Load {
        /// Source.
        loc: Addr,
    },
    /// CPU compare-and-swap of a local word; answers [`Issued::Value`] with the old value. Blocked while the
    /// thread's store buffer holds anything, remote operations included.
    Cas {
        /// Local word.
        loc: Addr,
        /// Expected value.
        expected: Value,
        /// New value.
        new: Value,
    },
    /// CPU exchange of a local word; answers [`Issued::Value`] with the old value. Blocked like [`Action::Cas`].
    Swap {
        /// Local word.
        loc: Addr,
        /// New value.
        new: Value,
    },
    /// CPU memory fence. Blocked like [`Action::Cas`].
    Mfence,
    /// Posts a remote operation.
    Post(Post),
    /// `poll(peer)`: takes the oldest completion notification of the queue pair; answers
    /// [`Issued::Completion`]. Blocked while the head of `wb_L` is not a notification.
    Poll {
        /// The peer.
        peer: u16,
    },
    /// `wait(tag)` of RDMA^WAIT: blocked while an operation of this thread with this tag is outstanding
    /// ([`super::Machine::is_outstanding`]). Takes no notification.
    Wait {
        /// The tag.
        tag: u64,
    },
}

/// The answer to an action that was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Issued {
    /// Nothing.
    Done,
    /// The value that a load or CAS read.
    Value(Value),
    /// The tag of the operation whose notification a poll took.
    Completion(u64),
}

/// The reason why an action was not carried out. The machine is unchanged.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IssueError {
    /// The action is not enabled now. It may be enabled after other steps.
    #[error("blocked: needs other machine steps first")]
    Blocked,
    /// The word does not exist; it must be added first.
    #[error("no word {0:?}: add it with add_location")]
    UnknownWord(Addr),
    /// The thread does not exist; it must be added first.
    #[error("no thread {0}: add it with add_thread")]
    UnknownThread(usize),
    /// The peer's number is too large.
    #[error("peer {peer}: node numbers must be below {max}", max = super::NODES_MAX)]
    UnknownNode {
        /// The peer.
        peer: u16,
    },
}

crate::debug_as_display!(IssueError);
