//! The TCP fabric: one-sided operations over plain sockets, for hosts without RDMA.
//!
//! Every two nodes have one connection, made at set-up. Operations of all queue pairs towards a peer travel on it as requests,
//! in the order in which they were posted, and are executed in that order; so are the answers. The network therefore has the
//! order of InfiniBand (tier `ibta`), strong order costs nothing, and a flush is a request with an empty answer. A put has no
//! answer at all: its source is copied when it is sent.
//!
//! **Who executes.** A node executes what its peers ask for: a thread of the program that waits does so, between two looks at
//! what it waits for, and a service thread while no thread waits. Nothing is handed from thread to thread. Read-modify-writes
//! are locked instructions of this node's processors, so they are atomic against those of its threads, too.
//!
//! **Who writes.** Whoever posts writes to the socket at once, unless an answer of the peer is on its way: then what is posted
//! is written with the next look of a waiting thread, or when the answer comes, together with whatever was posted since. All
//! that a look has executed is answered by one write. What is posted lazily is written with whatever comes next, or by the next
//! look; while a thread sleeps by the sockets, where no look may come, it is written at once.
//!
//! **Who sleeps.** A waiting thread spins for a moment, and then sleeps until a socket is readable. Of several, one sleeps by
//! the sockets and the others by the doorbell, which rings when anything has come. A thread that waits in the background
//! naps instead while others look.
//!
//! The modules from the bottom:
//!
//! - `config`: options;
//! - `memory`: registered memory, which is [`loco_host::heap`]'s;
//! - `frame`: requests and answers as bytes;
//! - `stream`: the bytes of a connection, encrypted or not;
//! - `queue`: operations under way;
//! - `link`: a connection with a peer, which posts, executes, answers and completes;
//! - `set_up`: the connections are made;
//! - `shared`: all of a node that its threads share: links, reports, sleepers;
//! - `background`: how threads wait that work in the background;
//! - `service`: the service thread;
//! - `node`: the state that the handles of a node share;
//! - `queue_pair`: posting;
//! - `fabric`: the fabric itself.

#![deny(unsafe_code)]

mod background;
mod config;
mod fabric;
mod frame;
mod link;
mod memory;
mod node;
mod queue;
mod queue_pair;
mod service;
mod set_up;
mod shared;
mod stream;

pub use config::TcpConfig;
pub use fabric::{ORDER, TcpFabric};
pub use memory::{TcpCell, TcpMemory, TcpRemote};
pub use queue_pair::TcpQueuePair;
