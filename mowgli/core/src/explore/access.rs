//! The resources that a move may access (words of memory, atomic units and write-back buffers) as bit sets.
//!
//! Relies on [`crate::machine`]. Used by [`super::code`] for what the rest of a thread may access and by [`super::reduce`] to
//! tell which moves may interact.

use crate::machine::{Addr, MessagePart, QpId};

/// A set of resources read and a set of resources written, as bit sets: words of memory, atomic units, and
/// write-back buffers. Several resources may share a bit, which only makes more moves seem to interact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Access {
    pub(super) reads: u128,
    pub(super) writes: u128,
}

impl Access {
    pub(super) const NONE: Access = Access { reads: 0, writes: 0 };

    pub(super) fn read(loc: Addr) -> Access {
        Access {
            reads: word(loc),
            writes: 0,
        }
    }

    pub(super) fn write(loc: Addr) -> Access {
        Access {
            reads: 0,
            writes: word(loc),
        }
    }

    /// Returns the accesses of a put, except its read of the source, which the caller adds. Its local read
    /// needs `wb_L` flushed, and its write goes to `wb_R`.
    pub(super) fn put(thread: u16, peer: u16, dst: Addr) -> Access {
        let qp = QpId { thread, peer };
        Access {
            reads: wb_l(qp),
            writes: wb_r(qp) | word(dst),
        }
    }

    /// Returns the access of a part of a message to the receive queue.
    pub(super) fn receive(message: Option<MessagePart>) -> Access {
        match message {
            Some(MessagePart::Data { entry, .. } | MessagePart::Completion { entry: Some(entry) }) => {
                Access::read(entry)
            }
            _ => Access::NONE,
        }
    }

    pub(super) fn get(thread: u16, peer: u16, dst: Addr, src: Addr) -> Access {
        let qp = QpId { thread, peer };
        Access {
            reads: word(src) | wb_r(qp),
            writes: wb_l(qp) | word(dst),
        }
    }

    pub(super) fn rmw(thread: u16, peer: u16, dst: Addr, target: Addr) -> Access {
        let qp = QpId { thread, peer };
        Access {
            reads: word(target),
            writes: word(target) | unit(peer) | wb_r(qp) | wb_l(qp) | word(dst),
        }
    }

    pub(super) fn and(self, other: Access) -> Access {
        Access {
            reads: self.reads | other.reads,
            writes: self.writes | other.writes,
        }
    }

    pub(super) fn conflicts(self, other: Access) -> bool {
        self.writes & (other.reads | other.writes) != 0 || self.reads & other.writes != 0
    }
}

pub(super) fn word(loc: Addr) -> u128 {
    1 << (loc.0 % 64)
}

pub(super) fn unit(peer: u16) -> u128 {
    1 << (64 + peer % 16)
}

pub(super) fn wb_l(qp: QpId) -> u128 {
    1 << (80 + (qp.thread * 5 + qp.peer) % 24)
}

pub(super) fn wb_r(qp: QpId) -> u128 {
    1 << (104 + (qp.thread * 5 + qp.peer) % 24)
}
