//! Handles on registered memory: this node's, one word of it, and a peer's.

/// Registered memory of this node.
pub type TcpMemory = loco_host::heap::HeapMemory;

/// An aligned word of registered memory. Loads and stores are single instructions.
pub type TcpCell<W> = loco_host::heap::HeapCell<W>;

/// A peer's memory: its place in the peer's one mapping.
pub type TcpRemote = loco_host::heap::HeapRemote;
