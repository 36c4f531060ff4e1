//! The border between a model thread and the scheduler: the requests of a thread and the replies that it
//! gets.
//!
//! A thread is a deterministic function of its replies. Everything that could make two runs of a thread
//! differ passes this border, so the list of its replies describes a thread's past (see
//! [`crate::state::behaviour`]).

use std::sync::Arc;

use loco_fabric::{NodeId, ThreadKind};
use mowgli::machine::NODES_MAX;
use smallvec::SmallVec;

use crate::fabric::blame::Blame;

/// A word of model memory, named by its position in the address space of the thread that allocated it. The
/// name does not depend on how threads interleave. [`crate::state`] maps the words in use to words of the
/// machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct VirtualWord(pub(crate) u64);

impl VirtualWord {
    /// Returns the first word of a thread.
    pub(crate) fn base(thread: u16) -> u64 {
        u64::from(thread) << 40
    }

    /// Returns the thread that allocated the word.
    pub(crate) fn owner(self) -> u16 {
        (self.0 >> 40) as u16
    }
}

/// A lock, named like a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LockId(pub(crate) u64);

/// The mode in which a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LockMode {
    Exclusive,
    Shared,
}

/// A read-modify-write of a word that the threads of one node share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Rmw {
    Swap(u64),
    /// Adds. Wraps at the width of the word.
    Add {
        add: u64,
        mask: u64,
    },
    Or(u64),
    And(u64),
    CompareExchange {
        current: u64,
        new: u64,
    },
}

impl Rmw {
    /// Returns the value to store when `old` was found, or `None` if nothing is stored.
    pub(crate) fn apply(self, old: u64) -> Option<u64> {
        match self {
            Rmw::Swap(new) => Some(new),
            Rmw::Add { add, mask } => Some(old.wrapping_add(add) & mask),
            Rmw::Or(bits) => Some(old | bits),
            Rmw::And(bits) => Some(old & bits),
            Rmw::CompareExchange { current, new } => (old == current).then_some(new),
        }
    }
}

/// An access to a word by a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Access {
    Load,
    Store(u64),
    Rmw(Rmw),
}

impl Access {
    /// Returns the request for this access to the word.
    pub(crate) fn to(self, word: VirtualWord) -> Request {
        match self {
            Access::Load => Request::Load { word },
            Access::Store(value) => Request::Store { word, value },
            Access::Rmw(rmw) => Request::Rmw { word, rmw },
        }
    }
}

/// A remote operation on one word. "Local" and "remote" are seen from the owner of the queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum NicOp {
    Put {
        dst: VirtualWord,
        src: VirtualWord,
    },
    /// A put whose value travels in the work request.
    PutInline {
        dst: VirtualWord,
        value: u64,
    },
    Get {
        dst: VirtualWord,
        src: VirtualWord,
    },
    FetchAdd {
        dst: VirtualWord,
        target: VirtualWord,
        add: u64,
    },
    CompareSwap {
        dst: VirtualWord,
        target: VirtualWord,
        expected: u64,
        new: u64,
    },
    Fence,
}

/// A set of nodes. Node numbers are below 64 ([`mowgli::machine::NODES_MAX`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct NodeSet(u64);

impl NodeSet {
    pub(crate) fn of(nodes: impl IntoIterator<Item = u16>) -> NodeSet {
        nodes.into_iter().collect()
    }

    pub(crate) fn insert(&mut self, node: u16) {
        self.0 |= 1 << (node % NODES_MAX);
    }

    pub(crate) fn contains(self, node: u16) -> bool {
        self.0 & 1 << (node % NODES_MAX) != 0
    }

    pub(crate) fn common(self, other: NodeSet) -> NodeSet {
        NodeSet(self.0 & other.0)
    }

    pub(crate) fn first(self) -> Option<u16> {
        (self.0 != 0).then(|| self.0.trailing_zeros() as u16)
    }

    pub(crate) fn len(self) -> u32 {
        self.0.count_ones()
    }

    pub(crate) fn from_bits(bits: u64) -> NodeSet {
        NodeSet(bits)
    }

    pub(crate) fn bits(self) -> u64 {
        self.0
    }
}

impl FromIterator<u16> for NodeSet {
    fn from_iter<I: IntoIterator<Item = u16>>(nodes: I) -> NodeSet {
        let mut set = NodeSet::default();
        nodes.into_iter().for_each(|node| set.insert(node));
        set
    }
}

/// The time at which a wait gives up, in nanoseconds of its node's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Deadline {
    Never,
    At(u64),
    /// A duration that starts when the wait begins.
    Within(u64),
}

/// A record in the history of an execution.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Note {
    /// An object call begins.
    Call(Arc<str>),
    /// The thread's last call returns.
    Return(Arc<str>),
    /// Any other record. Marks of different threads are not ordered.
    Mark(Arc<str>),
}

/// A request of a thread. The thread stops until the scheduler replies.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Request {
    Load {
        word: VirtualWord,
    },
    Store {
        word: VirtualWord,
        value: u64,
    },
    Rmw {
        word: VirtualWord,
        rmw: Rmw,
    },
    Fence,
    /// Accesses a word of the peer as the other requests do, unless this node or the peer is lost. Asked for on a synchronous
    /// fabric where nodes may be lost.
    Direct {
        peer: u16,
        word: VirtualWord,
        access: Access,
    },
    /// Posts an operation to the queue pair of thread `owner`.
    Post {
        owner: u16,
        peer: u16,
        op: NicOp,
        tag: u64,
        signaled: bool,
        /// Asks for strong order.
        strong: bool,
        /// The transfer of which the operation moves a word, or 0 ([`mowgli::machine::Post::transfer`]).
        transfer: u32,
    },
    /// Takes all notifications that this node can take now.
    Poll,
    /// A wait begins; its condition is evaluated next.
    WaitBegin {
        what: Arc<str>,
        deadline: Deadline,
        /// The nodes whose loss ends the wait.
        peers: NodeSet,
    },
    /// The condition held.
    WaitEnd,
    /// Reports that the condition did not hold, and stops until something that it looked at has changed. The
    /// reply says to evaluate it again, or how the wait has ended.
    Park,
    /// Reads the node's clock.
    Now,
    /// Asks for the nodes that this node knows to be lost. The reply is a number with a bit for each.
    Lost,
    /// Asks whether this node can reach the peer.
    Reach {
        peer: u16,
    },
    Lock {
        lock: LockId,
        mode: LockMode,
    },
    /// Tries to take a lock. The reply is 1 if it was taken.
    TryLock {
        lock: LockId,
    },
    Unlock {
        lock: LockId,
        mode: LockMode,
    },
    /// Starts a new thread of this node, whose body has been handed to the run. The reply is its number.
    Spawn {
        node: u16,
        kind: ModelThreadKind,
        name: Arc<str>,
    },
    Join {
        thread: u16,
    },
    Send {
        to: NodeId,
        payload: Arc<[u8]>,
    },
    /// Takes the next set-up message. The reply has its sender and payload, or is empty once the control
    /// plane is closed.
    Receive,
    /// Ends the set-up messages of this node.
    Close,
    Note(Note),
    /// Asks whether a fault has happened so far. The reply is 1 if one has.
    Faulted,
    /// Asks whether what an error of this node blames has happened. The reply is 1 if it has.
    HasHappened(Blame),
    /// Ends the process of this node, with all of its threads: the node stops for good.
    Leave,
    /// Ends the thread: its body returned, or panicked with this message.
    End(Result<(), Arc<str>>),
}

/// [`ThreadKind`] with the traits that keys need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ModelThreadKind {
    Worker,
    Service,
}

impl From<ThreadKind> for ModelThreadKind {
    fn from(kind: ThreadKind) -> ModelThreadKind {
        match kind {
            ThreadKind::Worker => ModelThreadKind::Worker,
            ThreadKind::Service => ModelThreadKind::Service,
        }
    }
}

/// An operation that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Completed {
    pub(crate) tag: u64,
    pub(crate) peer: u16,
    /// Set if the operation did not complete because its peer is lost.
    pub(crate) failed: bool,
}

/// The scheduler's answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reply {
    Unit,
    Value(u64),
    /// Operations that have ended.
    Completions(SmallVec<[Completed; 2]>),
    /// The deadline of the wait has passed.
    Expired,
    /// The call fails because the node with this number is lost. The number is that of the caller's own node if
    /// the caller's node has been cut off.
    Lost(u16),
    /// A set-up message; `None` once the control plane is closed.
    Message(Option<(u16, Arc<[u8]>)>),
    /// The number of calls that each thread had finished when this call began (real-time order of a history).
    Finished(SmallVec<[u16; 4]>),
    /// Names the first past of a thread that this one starts. No thread receives it as a reply.
    Started(u16),
    /// Names the past of a wait that goes on with this request. No thread receives it as a reply.
    Resumed(Arc<Request>),
    /// The execution is being dismantled: the thread must not run any further.
    Dismantled,
}
