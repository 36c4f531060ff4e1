//! LOCO: composable objects over network memory.
//!
//! A *channel* is an object with an endpoint on each participating node, made with the same name everywhere.
//! A channel uses memory of its nodes by one-sided operations, and may consist of other channels. The promises of channels
//! are stated in terms of the memory model of LOCO'26 (RDMA^WAIT). Channels rely only on the fabric contract of [`fabric`],
//! which orders the operations of a queue pair only where that is asked for. The same code therefore runs over shared
//! memory, over RDMA verbs, over libfabric and under a model checker.
//!
//! | I want | so I use |
//! |---|---|
//! | all nodes to be at the same point | [`Barrier`] |
//! | each node to tell the others its state, a word or two | [`Sst`]; for one node that tells, [`OwnedVar`], or [`WideOwnedVar`] for values of any size |
//! | a word that every node has a copy of and reads for nothing | [`SharedVar`] (`sv` of LOCO'26) |
//! | a counter, or a word that all nodes change | [`AtomicVar`]; for many, [`AtomicArray`] |
//! | only one thread of all nodes in a section | [`TicketLock`], which is fair; [`TasLock`], which combines sections of one node |
//! | to hand work to whichever node is free | [`SharedQueue`] |
//! | to send every message to every reader, in order | [`RingBuffer`] |
//! | a map that all nodes read and change | [`KvStore`] |
//! | records in one order on all nodes, which outlive the loss of a node | [`Log`] |
//! | to broadcast, gather or reduce values | [`Collective`] |
//! | large values whose reader may find them torn, and must know | [`Msw`] |
//! | plain memory of every node, to build on | [`SharedRegion`], with [`Thread`]'s operations and [`fence`] |
//! | an object of my own | [`Channel`], and the guide `docs/writing-a-channel.md` |
//! | to call objects from `async` code | `asynchronous` (feature `async`) |
//! | to see what the library logs | `log_to_stderr` (feature `log`), or any subscriber of `tracing` |
//! | counters for Prometheus and other exporters | `metrics` (feature `metrics`) |
//! | to choose the network, or see which are there | [`fabric::FabricChoice`], `loco fabrics` |
//! | to know what an error leaves behind | [`Error`], and *After a timeout* at each method |
//!
//! A program starts with [`run`], which makes it a node of its job:
//!
//! ```no_run
#![doc = include_str!("../examples/hello.rs")]
//! ```
//!
//! Programs to copy from: `examples/hello.rs` above; `examples/news.rs`, which broadcasts messages; `examples/stock.rs`, a
//! key-value store; `examples/heat.rs`, a simulation whose nodes exchange the edges of their pieces; `examples/counters.rs`, whose
//! counters Prometheus scrapes; `examples/visitors.rs`, whose nodes join a running job and leave it.
//!
//! To use objects: make a [`Manager`] per node, a [`Thread`] per thread and the objects by name, then call
//! [`Manager::wait_for_ready`]. To write a new object: see [`Channel`] and the guide
//! `docs/writing-a-channel.md`.

#![forbid(unsafe_code)]

#[cfg(feature = "async")]
pub mod asynchronous;
mod channels;
mod config;
mod error;
#[cfg(feature = "log")]
mod logging;
#[cfg(feature = "metrics")]
pub mod metrics;
mod objects;
mod operations;
pub mod prelude;
mod run;
#[cfg(all(feature = "shm", any(test, feature = "testing")))]
pub mod testing;

/// The layers below the objects: the fabric contract, the job and its mesh, and the fabrics of this build.
pub mod fabric {
    pub use loco_any::{
        AnyCell, AnyConfig, AnyFabric, AnyMemory, AnyQueuePair, AnyRemote, FabricChoice, HugePages,
        ProviderName,
    };
    pub use loco_fabric::*;
    pub use loco_job::{
        Address, Departures, Environment, Hosts, Job, JobBuilder, Join, Meeting, Mesh, Missed,
        PAYLOAD_BYTES_MAX, PORT_BASE, Rendezvous, Secret, Timeouts, View, var,
    };
    #[cfg(feature = "ofi")]
    pub use loco_ofi as ofi;
    #[cfg(feature = "shm")]
    pub use loco_shm::{ShmCell, ShmConfig, ShmFabric, ShmMemory, ShmQueuePair, ShmRemote};
    #[cfg(feature = "tcp")]
    pub use loco_tcp::{
        ORDER as TCP_ORDER, TcpCell, TcpConfig, TcpFabric, TcpMemory, TcpQueuePair, TcpRemote,
    };
    #[cfg(feature = "verbs")]
    pub use loco_verbs as verbs;
}

/// Runs calls that a program may interrupt: for interfaces to languages whose handlers of signals do not run while a call waits.
pub use loco_host::interrupt::interruptible;

pub use channels::channel::{Channel, ChannelBuilder, ChannelRef};
pub use channels::manager::Manager;
pub use channels::parent::{Among, Parent};
pub use channels::participants::Participants;
pub use config::{Config, Polling};
pub use error::{Error, ErrorKind, Result};
#[cfg(feature = "log")]
pub use logging::log_to_stderr;
pub use objects::barrier::Barrier;
pub use objects::collective::Collective;
pub use objects::kvstore::{
    Bytes, Encode, Inserted, KvConfig, KvStats, KvStore, PendingGet, PendingUpdate, Restored, Snapshot,
};
pub use objects::locks::guard::{LockConfig, LockGuard, OnLoss, Unlock};
pub use objects::locks::tas_lock::TasLock;
pub use objects::locks::ticket_lock::TicketLock;
pub use objects::log::{Log, LogConfig};
pub use objects::ring_buffer::{RingBuffer, RingConfig, RingReader, RingWriter};
pub use objects::shared_queue::{Popped, Pushed, SharedQueue};
pub use objects::variables::atomic_array::AtomicArray;
pub use objects::variables::atomic_var::AtomicVar;
pub use objects::variables::msw::Msw;
pub use objects::variables::owned_var::OwnedVar;
pub use objects::variables::shared_region::SharedRegion;
pub use objects::variables::shared_var::SharedVar;
pub use objects::variables::sst::Sst;
pub use objects::variables::value::{AtomicValue, Value};
pub use objects::variables::wide_owned_var::WideOwnedVar;
pub use operations::ack::{AckFuture, AckKey};
pub use operations::fence;
pub use operations::mem_ref::{MemRef, Pending};
pub use operations::put_op::PutOp;
pub use operations::raw;
pub use operations::region::Region;
pub use operations::thread::Thread;
pub use run::{Session, Startup, run};

/// The crate whose traits make a type a [`Value`].
pub use zerocopy;

/// Compiles the tour.
#[cfg(all(doctest, feature = "async"))]
#[doc = include_str!("../../../docs/async.md")]
pub struct AsynchronousCalls;

/// Compiles and runs the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/writing-a-channel.md")]
pub struct WritingAChannel;

/// Compiles and runs the guide of the log.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/log.md")]
pub struct LogGuide;
