//! LOCO: composable objects over network memory.
//!
//! A *channel* is an object with an endpoint on each participating node, made with the same name everywhere. It puts
//! memory of its nodes to a common use by one-sided operations, and may be made of other channels. What channels
//! promise is stated in terms of the memory model of LOCO'26 (RDMA^WAIT, the stamp order of its Fig. 10); what they
//! rely on is the fabric contract of [`fabric`], nothing else, so that the same code runs over shared memory, over
//! RDMA verbs and under a model checker.
//!
//! | object | what it is |
//! |---|---|
//! | [`SharedRegion`] | raw memory on every participant |
//! | [`SharedVar`] | a word replicated on every participant, broadcast to chosen nodes (`sv`) |
//! | [`OwnedVar`] | a register of one word that one node writes and the others read |
//! | [`WideOwnedVar`] | the same for values of any size |
//! | [`Msw`] | locations of any size whose reads fail cleanly when torn |
//! | [`Sst`] | a table of owned variables, one per participant |
//! | [`Barrier`] | nobody leaves before everybody has arrived |
//! | [`AtomicVar`] | a word with one home, read-modify-writes from everywhere |
//! | [`AtomicArray`] | many such words, striped over the participants |
//! | [`TicketLock`], [`TasLock`] | mutual exclusion among threads of all nodes |
//! | [`SharedQueue`] | a bounded FIFO among all nodes |
//! | [`KvStore`] | a linearizable map over the memory of all nodes |
//! | [`RingBuffer`] | a queue from one writer to readers on any nodes, each of which gets every message |
//!
//! The way in: a [`Manager`] per node, a [`Thread`] per thread, objects by name, [`Manager::wait_for_ready`], then use.
//! To write an object of one's own: [`Channel`], and the guide `docs/writing-a-channel.md`.

#![forbid(unsafe_code)]

mod ack;
mod atomic_array;
mod atomic_var;
mod barrier;
mod channel;
mod config;
mod error;
pub mod fence;
mod home;
mod kvstore;
mod lock_guard;
mod manager;
mod memref;
mod msw;
mod node;
mod owned;
mod participants;
mod platform;
mod put_op;
mod queues;
mod region;
mod ring_buffer;
mod sealed;
mod setup;
mod shared_queue;
mod shared_region;
mod shared_var;
mod sst;
mod tas_lock;
pub mod testing;

mod thread;
mod ticket_lock;
mod tracker;
mod value;
mod wide_owned;
mod word_ops;
mod words;

pub use loco_fabric as fabric;

pub use ack::{AckFuture, AckKey};
pub use atomic_array::AtomicArray;
pub use atomic_var::AtomicVar;
pub use barrier::Barrier;
pub use channel::{Channel, ChannelBuilder, ChannelRef, Parent};
pub use config::{Config, Polling};
pub use error::{Error, Result};
#[doc(hidden)]
pub use kvstore::Defect;
pub use kvstore::{Bytes, Encode, Inserted, KvConfig, KvStats, KvStore, PendingGet};
pub use lock_guard::{LockConfig, LockGuard, OnLoss, Unlock};
pub use manager::Manager;
pub use memref::{MemRef, Pending};
pub use msw::Msw;
pub use owned::OwnedVar;
pub use participants::Participants;
pub use put_op::PutOp;
pub use region::Region;
pub use ring_buffer::{RingBuffer, RingConfig, RingReader, RingWriter};
#[doc(hidden)]
pub use shared_queue::QueueDefect;
pub use shared_queue::{Popped, Pushed, SharedQueue};
pub use shared_region::SharedRegion;
pub use shared_var::SharedVar;
pub use sst::Sst;
pub use tas_lock::TasLock;
pub use thread::{Flags, Operation, Thread};
pub use ticket_lock::TicketLock;
pub use value::{AtomicValue, Value};
pub use wide_owned::WideOwnedVar;

/// Compiles and runs the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/writing-a-channel.md")]
pub struct WritingAChannel;
