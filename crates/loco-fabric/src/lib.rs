//! The fabric contract of LOCO: what object code may rely on, and all it may rely on.
//!
//! [`Fabric`] gives registered memory, queue pairs with one-sided operations, completions, one waiting primitive, and
//! the platform (threads, clock, locks, control plane) through which the threads of one node affect one another.
//! Nothing here moves bytes. `loco` is written against it; `loco-shm` and `loco-verbs` implement it on real machines,
//! `loco-sim` on the operational RDMA model, and `loco-conformance` tests an implementation.

#![forbid(unsafe_code)]

mod contract;
mod control;
mod error;
mod ids;
mod membership;
mod platform;

pub use contract::{
    Atomicity, Caps, Completion, CompletionStatus, Fabric, Local, Memory, MemoryKind, Peers, Posted,
    QueuePair, RegionKey, RemoteMemory, Seen, Target, Wait, Word, WordCell, WordOp, Work,
};
pub use control::{Control, PeerState};
pub use error::{Cause, FabricError, Result};
pub use ids::{NodeId, Time, WorkRequestId};
pub use membership::Membership;
pub use platform::{AtomicCell, Lock, Platform, RwLock, Std, Task, ThreadKind};
