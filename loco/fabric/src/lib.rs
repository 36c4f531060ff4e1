//! The fabric contract of LOCO: everything that object code may rely on.
//!
//! A [`Fabric`] has registered memory, queue pairs with one-sided operations, completions, and one waiting
//! primitive. It also has the platform (threads, clock, locks) and the control plane, through which the
//! threads of one node and the nodes affect one another. Nothing here moves bytes. `loco` is written against
//! this contract. `loco-shm` and `loco-verbs` implement it on real machines, and `loco-sim` on the
//! operational RDMA model. `loco-conformance` tests an implementation.

#![forbid(unsafe_code)]

mod completion;
mod contract;
mod control;
mod doorbell;
mod error;
mod ids;
mod membership;
mod memory;
mod order;
mod platform;
mod settings;
mod wait;

pub use completion::{Completion, CompletionStatus};
pub use contract::{
    Atomicity, Caps, Fabric, Local, MemoryKind, Posted, QueuePair, RegionKey, Seen, Target, WordOp, Work,
};
pub use control::{Control, PeerState};
pub use doorbell::{Armed, Doorbell};
pub use error::{Cause, FabricError, Result, write_with_causes};
pub use ids::{NodeId, Time, WorkRequestId};
pub use membership::Membership;
pub use memory::{Memory, RemoteMemory, Word, WordCell};
pub use order::{Cost, Known, Order, Tier, UnknownTier};
pub use platform::{AtomicCell, Lock, Platform, RwLock, Std, Task, ThreadKind};
pub use wait::{Peers, Wait};
