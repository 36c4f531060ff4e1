//! The border between a model thread and the scheduler: what a thread asks for, and what it is told.
//!
//! A thread is a deterministic function of the replies it has had. Everything that could make two runs of it differ
//! goes through here, so that a thread's past is the list of its replies (see [`crate::state::behaviour`]).

use std::sync::Arc;

use loco_fabric::{NodeId, ThreadKind};
use mowgli::machine::NODES_MAX;
use smallvec::SmallVec;

/// A word of model memory by its position in the address space of the thread that allocated it, which does not depend on
/// how threads interleave. [`crate::state`] maps those that are used to words of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct VirtualWord(pub(crate) u64);

impl VirtualWord {
    /// Words of one thread start here.
    pub(crate) fn base(thread: u16) -> u64 {
        u64::from(thread) << 40
    }
}

/// A lock, named like a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LockId(pub(crate) u64);

/// How a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LockMode {
    Exclusive,
    Shared,
}

/// Read-modify-writes of words that the threads of one node share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Rmw {
    Swap(u64),
    /// Wraps where the word does.
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
    /// The value stored when `old` was found; nothing if none is.
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

/// A remote operation on one word. Local and remote are as seen from the owner of the queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum NicOp {
    Put {
        dst: VirtualWord,
        src: VirtualWord,
    },
    PutValue {
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

    pub(crate) fn without(self, node: u16) -> NodeSet {
        NodeSet(self.0 & !(1 << (node % NODES_MAX)))
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

/// When a wait gives up, in nanoseconds of its node's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Deadline {
    Never,
    At(u64),
    /// From when the wait begins.
    Within(u64),
}

/// A message to the history of an execution.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Note {
    /// An object call begins.
    Call(Arc<str>),
    /// The thread's last call returns.
    Return(Arc<str>),
    /// Anything else; not ordered with other threads.
    Mark(Arc<str>),
}

/// What a thread asks for. It stops until the scheduler replies.
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
    /// `owner` is the thread whose queue pair it is.
    Post {
        owner: u16,
        peer: u16,
        op: NicOp,
        tag: u64,
        signaled: bool,
    },
    /// All notifications that this node can take now.
    Poll,
    /// A wait begins; its condition is evaluated next.
    WaitBegin {
        what: Arc<str>,
        deadline: Deadline,
        /// Those whose loss ends it.
        peers: NodeSet,
    },
    /// The condition held.
    WaitEnd,
    /// The condition did not hold: stop until something it looked at has changed. Reply: evaluate it again, or how the
    /// wait has ended.
    Park,
    /// The node's clock.
    Now,
    /// Nodes that this one knows to be lost. Reply: as bits.
    Lost,
    /// Whether this node can reach the peer.
    Reach {
        peer: u16,
    },
    Lock {
        lock: LockId,
        mode: LockMode,
    },
    /// Reply: 1 if taken.
    TryLock {
        lock: LockId,
    },
    Unlock {
        lock: LockId,
        mode: LockMode,
    },
    /// A new thread of this node, whose body has been handed to the run. Reply: its number.
    Spawn {
        node: u16,
        kind: Kind,
        name: Arc<str>,
    },
    Join {
        thread: u16,
    },
    Send {
        to: NodeId,
        payload: Arc<[u8]>,
    },
    /// Reply: sender and payload, or nothing once closed.
    Receive,
    /// No more set-up messages for this node.
    Close,
    Note(Note),
    /// The body returned, or panicked with this message.
    End(Result<(), Arc<str>>),
}

/// [`ThreadKind`] with the traits that keys need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Worker,
    Service,
}

impl From<ThreadKind> for Kind {
    fn from(kind: ThreadKind) -> Kind {
        match kind {
            ThreadKind::Worker => Kind::Worker,
            ThreadKind::Service => Kind::Service,
        }
    }
}

/// An operation that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Completed {
    pub(crate) tag: u64,
    pub(crate) peer: u16,
    /// It did not complete: the peer is lost.
    pub(crate) failed: bool,
}

/// What a thread is told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reply {
    Unit,
    Value(u64),
    /// Operations that have ended.
    Completions(SmallVec<[Completed; 2]>),
    /// The deadline of the wait has passed.
    Expired,
    /// This node is lost, and the call fails for it: the own node if it has been cut off.
    Lost(u16),
    /// A set-up message; nothing once the control plane is closed.
    Message(Option<(u16, Arc<[u8]>)>),
    /// Calls that each thread had finished when this one began (real-time order of a history).
    Finished(SmallVec<[u16; 4]>),
    /// No reply to a thread: names the past of a wait that goes on with this request.
    Resumed(Arc<Request>),
    /// The execution is being dismantled: run no further.
    Dismantled,
}
