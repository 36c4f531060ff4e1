//! One-sided operations of a node: posting them, tracking their end, and ordering them. Channels and objects
//! are built from this, and use nothing else of the fabric.
//!
//! From the bottom up: [`slots`] and [`completion`] record which operations ended, an [`ack`] key names a set of operations ([`ack_waits`] waits for them),
//! [`queues`] are the queue pairs of one thread and their outstanding operations, [`network`] is the state that the
//! threads of a node share, a [`thread`](mod@thread) posts and waits, a [`fence`] orders. By [`raw`] a thread posts
//! on memory that callers vouch for. [`mem_ref`], [`put_op`], [`region`] and [`words`] are tools for objects. What a thread has under way beyond a call is [`under_way`], kept as [`machines`], and a [`block`] is its memory. [`post`] has the
//! ways in which one operation is posted.
//! [`published`] orders the writes of a place that has one writing node. [`exclusive`] guards a value that one thread
//! at a time uses while it waits for the network. [`timing`] is the time of a call. [`shown`] is what others see of waits and locks, [`counts`] what is counted. [`panics`] keeps the panics of the program's closures with their owners.

pub(crate) mod ack;
pub(crate) mod ack_waits;
pub(crate) mod block;
pub(crate) mod completion;
pub(crate) mod counts;
pub(crate) mod exclusive;
pub mod fence;
pub(crate) mod machines;
pub(crate) mod mem_ref;
pub(crate) mod network;
pub(crate) mod operation;
pub(crate) mod panics;
pub(crate) mod peers;
pub(crate) mod platform;
pub(crate) mod pool;
pub(crate) mod post;
pub(crate) mod published;
pub(crate) mod put_op;
pub(crate) mod queues;
pub mod raw;
pub(crate) mod region;
pub(crate) mod shown;
pub(crate) mod slots;
pub(crate) mod thread;
pub(crate) mod timing;
pub(crate) mod under_way;
pub(crate) mod word_ops;
pub(crate) mod words;
