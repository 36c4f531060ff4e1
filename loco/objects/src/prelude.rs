//! The names that most programs use, to be imported together: `use loco::prelude::*;`.

pub use crate::fabric::NodeId;
pub use crate::{
    AckKey, AtomicArray, AtomicVar, Barrier, Collective, Error, ErrorKind, KvConfig, KvStore, LockConfig,
    Manager, Msw, OwnedVar, Parent, Participants, Popped, Pushed, RingBuffer, RingConfig, SharedQueue,
    SharedRegion, SharedVar, Sst, TasLock, Thread, TicketLock, WideOwnedVar, fence,
};
