//! The fabric contract of LOCO, and the fabrics that move bytes.
//!
//! [`Fabric`] is all that object code may rely on: registered memory, queue pairs with one-sided operations,
//! completions, one waiting primitive, and the platform (threads, clock, locks, control plane) through which
//! the threads of one node affect one another. `loco` is written against it; `loco-sim` implements it on the
//! operational RDMA model.

#![deny(unsafe_code)]

mod any;
mod contract;
mod control;
mod error;
mod host;
mod hosts;
mod ids;
mod launch;
mod mesh;
mod platform;
mod shm;
pub mod verbs;

pub use any::{AnyCell, AnyConfig, AnyFabric, AnyMemory, AnyQueuePair, AnyRemote, FabricChoice};
pub use contract::{
    Atomicity, Caps, Completion, CompletionStatus, Fabric, Local, Memory, MemoryKind, Peers, Posted,
    QueuePair, RegionKey, RemoteMemory, Seen, Target, Wait, Word, WordCell, WordOp, Work,
};
pub use control::{Control, PeerState};
pub use error::{FabricError, Result};
pub use host::HugePages;
pub use hosts::{Address, Hosts, PORT_BASE};
pub use ids::{NodeId, Time, WorkRequestId};
pub use launch::{Environment, Job, JobBuilder, Meeting, Secret, Timeouts, var};
pub use mesh::{Mesh, PAYLOAD_BYTES_MAX, Rendezvous};
pub use platform::{AtomicCell, Lock, Platform, RwLock, Std, Task, ThreadKind};
pub use shm::{Nic, ShmCell, ShmConfig, ShmFabric, ShmMemory, ShmQueuePair, ShmRemote};
