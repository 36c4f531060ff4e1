//! Handles on registered memory: this node's, one word of it, and a peer's.

/// Registered memory of this node.
pub type OfiMemory = loco_host::heap::HeapMemory;

/// An aligned word of registered memory. Loads and stores are single instructions.
pub type OfiCell<W> = loco_host::heap::HeapCell<W>;

/// A peer's memory: its place in the peer's one mapping.
pub type OfiRemote = loco_host::heap::HeapRemote;
