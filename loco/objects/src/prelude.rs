//! The names that most programs and channels use, to be imported together: `use loco::prelude::*;`. Only
//! [`Result`](crate::Result) is not among them, since it would hide that of the standard library.

pub use crate::fabric::{Fabric, Memory, NodeId, Peers, Target, WordCell};
pub use crate::fence::Scope;
pub use crate::raw::Flags;
pub use crate::{
    AckKey, AtomicArray, AtomicVar, Barrier, Bytes, Channel, Collective, Config, Error, ErrorKind, Inserted,
    KvConfig, KvStore, LockConfig, Log, LogConfig, Manager, Msw, OnLoss, OwnedVar, Parent, Participants,
    Popped, Pushed, PutOp, RingBuffer, RingConfig, RingReader, RingWriter, SharedQueue, SharedRegion,
    SharedVar, Sst, Startup, TasLock, Thread, TicketLock, WideOwnedVar, fence,
};
