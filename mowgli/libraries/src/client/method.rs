//! The methods that clients call, each with its library, parameters and result.
//!
//! One table, [`Method::signature`], serves the parser, the printer, generators, and the code that runs
//! clients. Names are the papers', with the library as suffix where two libraries share a name. Libraries
//! without a definition in the papers are ours; [`Library::source`] says which.

use serde::{Deserialize, Serialize};

/// A library. Its methods share objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Library {
    /// RDMA^WAIT: words, each on one node.
    RdmaWait,
    /// Shared variables: a word with a copy on every node.
    SharedVariable,
    /// Barriers among threads.
    Barrier,
    /// Ring buffers: one writer, several readers.
    RingBuffer,
    /// Mixed-size writes: locations of several words, each on one node.
    MixedSize,
    /// Mixed-size shared variables (MSW-Broadcast): several words with a copy on every node.
    MixedVariable,
    /// Owned variables: a copy on every node, stored to by the threads of one.
    Owned,
    /// Shared state tables: a row for each node, stored to by its threads.
    Sst,
    /// Atomic variables: a word on one node, reached by read-modify-writes from every node.
    Atomic,
    /// Locks.
    Lock,
    /// Shared queues.
    Queue,
    /// Key-value stores.
    Store,
    /// Fences by scope, without objects.
    Fence,
}

impl Library {
    /// Every library.
    pub const ALL: [Library; 13] = [
        Library::RdmaWait,
        Library::SharedVariable,
        Library::Barrier,
        Library::RingBuffer,
        Library::MixedSize,
        Library::MixedVariable,
        Library::Owned,
        Library::Sst,
        Library::Atomic,
        Library::Lock,
        Library::Queue,
        Library::Store,
        Library::Fence,
    ];

    /// Returns the word that declares an object of the library; `None` for words, which the init block
    /// places, and for the fences, which have no objects.
    pub const fn keyword(self) -> Option<&'static str> {
        Some(match self {
            Library::RdmaWait | Library::Fence => return None,
            Library::SharedVariable => "sv",
            Library::Barrier => "barrier",
            Library::RingBuffer => "ring",
            Library::MixedSize => "mixed",
            Library::MixedVariable => "msv",
            Library::Owned => "owned",
            Library::Sst => "sst",
            Library::Atomic => "atomic",
            Library::Lock => "lock",
            Library::Queue => "queue",
            Library::Store => "store",
        })
    }

    /// Returns the word that stands for the library in the options of commands.
    pub fn word(self) -> &'static str {
        match self {
            Library::Fence => "fences",
            other => other.keyword().unwrap_or("words"),
        }
    }

    /// Returns the library that a word stands for.
    pub fn by_word(word: &str) -> Option<Library> {
        Library::ALL.into_iter().find(|library| library.word() == word)
    }

    /// Returns the library's name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Library::RdmaWait => "RDMA^WAIT",
            Library::SharedVariable => "shared variable",
            Library::Barrier => "barrier",
            Library::RingBuffer => "ring buffer",
            Library::MixedSize => "mixed-size writes",
            Library::MixedVariable => "mixed-size shared variable",
            Library::Owned => "owned variable",
            Library::Sst => "shared state table",
            Library::Atomic => "atomic variable",
            Library::Lock => "lock",
            Library::Queue => "shared queue",
            Library::Store => "key-value store",
            Library::Fence => "fences",
        }
    }

    /// Returns the layer of the library's implementations in LOCO'26 Fig. 1, from 0 at the top. An implementation calls those of later
    /// layers.
    pub const fn layer(self) -> u8 {
        match self {
            Library::RdmaWait => 2,
            Library::SharedVariable | Library::MixedSize => 1,
            _ => 0,
        }
    }

    /// Returns the methods of the library that clients call.
    pub fn methods(self) -> impl Iterator<Item = Method> {
        let of_library = move |m: &Method| m.library() == self && m.is_of_clients();
        Method::ALL.iter().copied().filter(of_library)
    }

    /// Returns the place where the library is specified.
    pub const fn source(self) -> &'static str {
        match self {
            Library::RdmaWait => "LOCO'26 Def. F.2",
            Library::SharedVariable => "LOCO'26 Def. 3.8",
            Library::Barrier => "LOCO'26 Def. 4.1",
            Library::RingBuffer => "LOCO'26 Def. 5.2",
            Library::MixedSize => "LOCO'26 Def. G.11",
            Library::MixedVariable => "LOCO'26 Def. 3.8 on tuples (G.6.1)",
            _ => "ours",
        }
    }
}

/// The kind of a method's argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Param {
    /// An object of the library.
    Object(Library),
    /// A number, by an expression.
    Number,
    /// A message or mixed-size value: an expression, or `[e1, e2]`.
    Message,
    /// A work identifier of the thread; `_` is one that nothing waits for.
    Work,
    /// A node.
    Node,
    /// A set of nodes: `{1, 2}`.
    Nodes,
}

/// The form of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The method's name in texts.
    pub name: &'static str,
    /// The method's library.
    pub library: Library,
    /// The kinds of its arguments.
    pub params: &'static [Param],
    /// True if the method returns a value. A call without a value cannot be assigned to a register.
    pub returns: bool,
    /// A description of the method in one line.
    pub about: &'static str,
}

macro_rules! methods {
    ($($(#[doc = $doc:literal])+ $method:ident = $name:literal $library:ident ($($param:expr),*) $returns:literal;)+) => {
        /// A method.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Method {
            $($(#[doc = $doc])+ $method,)+
        }

        impl Method {
            /// Every method.
            pub const ALL: &'static [Method] = &[$(Method::$method),+];

            /// Returns the method's form.
            pub const fn signature(self) -> Signature {
                match self {
                    $(Method::$method => Signature {
                        name: $name,
                        library: Library::$library,
                        params: &[$($param),*],
                        returns: $returns,
                        about: concat!($($doc),+),
                    },)+
                }
            }
        }
    };
}

use Param::{Message, Node, Nodes, Number, Object, Work};

const WORD: Param = Object(Library::RdmaWait);
const SV: Param = Object(Library::SharedVariable);
const BARRIER: Param = Object(Library::Barrier);
const RING: Param = Object(Library::RingBuffer);
const MIXED: Param = Object(Library::MixedSize);
const MIXED_VARIABLE: Param = Object(Library::MixedVariable);
const OWNED: Param = Object(Library::Owned);
const SST: Param = Object(Library::Sst);
const ATOMIC: Param = Object(Library::Atomic);
const LOCK: Param = Object(Library::Lock);
const QUEUE: Param = Object(Library::Queue);
const STORE: Param = Object(Library::Store);

methods! {
    /// `write(x, v)`: CPU write of a word of the thread's node.
    Write = "write" RdmaWait (WORD, Number) false;
    /// `read(x)`: CPU read of a word of the thread's node.
    Read = "read" RdmaWait (WORD) true;
    /// `cas(x, v1, v2)`: CPU compare-and-swap of a word of the thread's node; returns the old value.
    Cas = "cas" RdmaWait (WORD, Number, Number) true;
    /// `mfence()`: CPU fence.
    Mfence = "mfence" RdmaWait () false;
    /// `get(x, y, d)`: remote word `y` to local word `x`.
    Get = "get" RdmaWait (WORD, WORD, Work) false;
    /// `put(x, y, d)`: local word `y` to remote word `x`.
    Put = "put" RdmaWait (WORD, WORD, Work) false;
    /// `rfaa(x, y, v, d)`: remote fetch-and-add of `v` to word `y`; the old value is stored in local word
    /// `x`. Ours.
    RemoteFaa = "rfaa" RdmaWait (WORD, WORD, Number, Work) false;
    /// `rcas(x, y, v1, v2, d)`: remote compare-and-swap of word `y`; the old value is stored in local word
    /// `x`. Ours.
    RemoteCas = "rcas" RdmaWait (WORD, WORD, Number, Number, Work) false;
    /// `strong put(x, y, d)`: as `put`, placed after the earlier writes towards its node
    /// (`docs/ordering-models.md`). Ours.
    StrongPut = "strong put" RdmaWait (WORD, WORD, Work) false;
    /// `strong get(x, y, d)`: as `get`, reads after the earlier writes towards its node are placed. Ours.
    StrongGet = "strong get" RdmaWait (WORD, WORD, Work) false;
    /// `strong rfaa(x, y, v, d)`: as `rfaa`, after the earlier writes towards its node are placed. Ours.
    StrongRemoteFaa = "strong rfaa" RdmaWait (WORD, WORD, Number, Work) false;
    /// `strong rcas(x, y, v1, v2, d)`: as `rcas`, after the earlier writes towards its node are placed. Ours.
    StrongRemoteCas = "strong rcas" RdmaWait (WORD, WORD, Number, Number, Work) false;
    /// `wait(d)`: waits for the thread's earlier operations of RDMA^WAIT with identifier `d`.
    Wait = "wait" RdmaWait (Work) false;
    /// `poll(n)`: waits for the thread's oldest operation towards node `n` that has not been polled. Of RDMA^TSO: it has
    /// executions below `I_W` only.
    Poll = "poll" RdmaWait (Node) false;
    /// `set_is_empty(d)`: the check of `I_W` that nothing with this identifier is outstanding.
    SetIsEmpty = "set_is_empty" RdmaWait (Work) false;
    /// `rfence(n)`: remote fence towards node `n`; does not block the CPU.
    Rfence = "rfence" RdmaWait (Node) false;

    /// `write_sv(x, v)`: writes the copy of the thread's node.
    WriteSv = "write_sv" SharedVariable (SV, Number) false;
    /// `read_sv(x)`: reads the copy of the thread's node.
    ReadSv = "read_sv" SharedVariable (SV) true;
    /// `bcast_sv(x, d, {n1, ..})`: copies the node's value of `x` to the nodes, which may include its own.
    BcastSv = "bcast_sv" SharedVariable (SV, Work, Nodes) false;
    /// `strong bcast_sv(x, d, {n1, ..})`: as `bcast_sv`; on each node the copy is placed after the thread's earlier
    /// writes towards it. Ours.
    StrongBcastSv = "strong bcast_sv" SharedVariable (SV, Work, Nodes) false;
    /// `wait_sv(d)`: waits until the thread's earlier broadcasts with identifier `d` have read their source.
    WaitSv = "wait_sv" SharedVariable (Work) false;
    /// `gf_sv({n1, ..})`: global fence, after which the thread's earlier operations towards the nodes are
    /// finished.
    GfSv = "gf_sv" SharedVariable (Nodes) false;

    /// `barrier(x)`: global fence, then waits for all participants of `x`.
    Barrier = "barrier" Barrier (BARRIER) false;
    /// `barrier_unfenced(x)`: waits for all participants of `x`, without the fence. Ours.
    BarrierUnfenced = "barrier_unfenced" Barrier (BARRIER) false;

    /// `submit(x, v)`: adds a message for every reader; false if the ring is full.
    Submit = "submit" RingBuffer (RING, Message) true;
    /// `receive(x)`: the thread's next message, or `bot`.
    Receive = "receive" RingBuffer (RING) true;

    /// `write_msw(x, v)`: CPU write of a mixed-size location of the thread's node.
    WriteMsw = "write_msw" MixedSize (MIXED, Message) false;
    /// `try_read_msw(x)`: reads a mixed-size location of the thread's node; `bot` if it was torn.
    TryReadMsw = "try_read_msw" MixedSize (MIXED) true;
    /// `get_msw(x, y, d)`: remote `y` to local `x`.
    GetMsw = "get_msw" MixedSize (MIXED, MIXED, Work) false;
    /// `put_msw(x, y, d)`: local `y` to remote `x`.
    PutMsw = "put_msw" MixedSize (MIXED, MIXED, Work) false;
    /// `wait_msw(d)`: waits for the thread's earlier mixed-size operations with identifier `d`.
    WaitMsw = "wait_msw" MixedSize (Work) false;

    /// `write_msv(x, v)`: writes the copy of the thread's node.
    WriteMsv = "write_msv" MixedVariable (MIXED_VARIABLE, Message) false;
    /// `try_read_msv(x)`: reads the copy of the thread's node; `bot` if it was torn.
    TryReadMsv = "try_read_msv" MixedVariable (MIXED_VARIABLE) true;
    /// `bcast_msv(x, d, {n1, ..})`: copies the node's value of `x` to the nodes, which may include its own.
    BcastMsv = "bcast_msv" MixedVariable (MIXED_VARIABLE, Work, Nodes) false;
    /// `wait_msv(d)`: waits until the thread's earlier broadcasts with identifier `d` have read their source.
    WaitMsv = "wait_msv" MixedVariable (Work) false;

    /// `store_owned(x, v)`: writes the owner's copy; on another node, never returns.
    StoreOwned = "store_owned" Owned (OWNED, Number) false;
    /// `load_owned(x)`: reads the copy of the thread's node.
    LoadOwned = "load_owned" Owned (OWNED) true;
    /// `push_owned(x, d)`: copies the owner's value to all other nodes; on another node, never returns.
    PushOwned = "push_owned" Owned (OWNED, Work) false;
    /// `pull_owned(x)`: the owner's value, fetched from its node; the copy of the thread's node stays as it is.
    PullOwned = "pull_owned" Owned (OWNED) true;
    /// `wait_owned(d)`: waits until pushes with identifier `d` have read their source.
    WaitOwned = "wait_owned" Owned (Work) false;

    /// `store_sst(x, v)`: writes the row of the thread's node.
    StoreSst = "store_sst" Sst (SST, Number) false;
    /// `load_sst(x, n)`: reads the thread's node's copy of the row of node `n`.
    LoadSst = "load_sst" Sst (SST, Node) true;
    /// `push_sst(x, d)`: copies the own row to all other nodes.
    PushSst = "push_sst" Sst (SST, Work) false;
    /// `wait_sst(d)`: waits for pushes with identifier `d`.
    WaitSst = "wait_sst" Sst (Work) false;

    /// `read_atomic(x)`: the value.
    ReadAtomic = "read_atomic" Atomic (ATOMIC) true;
    /// `write_atomic(x, v)`: sets the value.
    WriteAtomic = "write_atomic" Atomic (ATOMIC, Number) false;
    /// `swap_atomic(x, v)`: sets the value; returns the old one.
    SwapAtomic = "swap_atomic" Atomic (ATOMIC, Number) true;
    /// `cas_atomic(x, v1, v2)`: compare-and-swap; returns the old value.
    CasAtomic = "cas_atomic" Atomic (ATOMIC, Number, Number) true;
    /// `faa_atomic(x, v)`: fetch-and-add; returns the old value.
    FaaAtomic = "faa_atomic" Atomic (ATOMIC, Number) true;

    /// `lock(x)`: takes the lock.
    Lock = "lock" Lock (LOCK) false;
    /// `try_lock(x)`: takes the lock if nobody holds it, and returns whether it did. It may fail without a
    /// reason.
    TryLock = "try_lock" Lock (LOCK) true;
    /// `unlock(x)`: fences the thread's operations towards all nodes, then gives the lock back. A thread
    /// without the lock never returns from it.
    Unlock = "unlock" Lock (LOCK) false;
    /// `unlock_unfenced(x)`: gives the lock back without the fence. A thread without the lock never returns
    /// from it.
    UnlockUnfenced = "unlock_unfenced" Lock (LOCK) false;

    /// `push_queue(x, v)`: adds a value; false if the queue is full or closed.
    PushQueue = "push_queue" Queue (QUEUE, Number) true;
    /// `pop_queue(x)`: the oldest value, or `bot` if the queue is empty.
    PopQueue = "pop_queue" Queue (QUEUE) true;
    /// `close_queue(x)`: no push succeeds from now on.
    CloseQueue = "close_queue" Queue (QUEUE) false;

    /// `insert_kv(x, k, v)`: adds a key; false if it is there.
    InsertKv = "insert_kv" Store (STORE, Number, Number) true;
    /// `update_kv(x, k, v)`: changes a key's value; false if it is not there.
    UpdateKv = "update_kv" Store (STORE, Number, Number) true;
    /// `delete_kv(x, k)`: removes a key; false if it is not there.
    DeleteKv = "delete_kv" Store (STORE, Number) true;
    /// `get_kv(x, k)`: a key's value, or `bot`.
    GetKv = "get_kv" Store (STORE, Number) true;

    /// `fence_pair(n)`: the thread's earlier operations towards node `n` are finished and placed.
    FencePair = "fence_pair" Fence (Node) false;
    /// `fence_thread()`: the thread's earlier operations towards all nodes are finished and placed.
    FenceThread = "fence_thread" Fence () false;
    /// `fence_node()`: the global fence of LOCO'25 5.3, of all threads of the node; specified only for the operations of
    /// the calling thread.
    FenceNode = "fence_node" Fence () false;
}

impl Method {
    /// Returns whether the method is of a library that clients compose. Of the others, polls may stand in clients of words alone, and the
    /// rest is for implementations.
    pub const fn is_of_clients(self) -> bool {
        !matches!(self, Method::Poll | Method::SetIsEmpty)
    }

    /// Returns the method's name in texts.
    pub const fn name(self) -> &'static str {
        self.signature().name
    }

    /// Returns the method without its request for strong order.
    #[must_use]
    pub const fn plain(self) -> Method {
        match self {
            Method::StrongPut => Method::Put,
            Method::StrongGet => Method::Get,
            Method::StrongRemoteFaa => Method::RemoteFaa,
            Method::StrongRemoteCas => Method::RemoteCas,
            Method::StrongBcastSv => Method::BcastSv,
            other => other,
        }
    }

    /// Returns whether the method asks for strong order.
    pub fn is_strong(self) -> bool {
        self.plain() != self
    }

    /// Returns the method with a request for strong order, if there is one.
    pub fn asking(self) -> Option<Method> {
        let all = Method::ALL.iter().copied();
        all.into_iter().find(|m| m.is_strong() && m.plain() == self)
    }

    /// Returns the method's library.
    pub const fn library(self) -> Library {
        self.signature().library
    }

    /// Returns the method called `name`.
    pub fn by_name(name: &str) -> Option<Method> {
        let of_clients = |m: &Method| m.is_of_clients() || *m == Method::Poll;
        Method::ALL
            .iter()
            .copied()
            .find(|m| of_clients(m) && m.name() == name)
    }
}
