//! The objects: channels with a purpose. Each is built from channels and operations, and from objects before it.

pub(crate) mod barrier;
pub(crate) mod collective;
pub(crate) mod kvstore;
pub(crate) mod locks;
pub(crate) mod log;
pub(crate) mod ring_buffer;
pub(crate) mod shared_queue;
pub(crate) mod variables;
