//! The operations of a synchronous fabric: loads, stores and locked instructions of the poster's own processor on the memory
//! of a peer, as `loco-shm` executes them.
//!
//! A store waits in the store buffer of the thread that posted it, and the next access of the thread may come before it. Where
//! the fabric executes a full fence, so does this. The words of a put are stored from the last to the first and those of a read
//! are loaded from the first to the last, as `loco-host` copies short pieces. (It copies the words of pieces of 256 bytes and more
//! in other orders, which worlds do not have.)
//!
//! Where nodes may be lost, each access comes with the question whether the peer can be reached. `loco-shm` asks once for an
//! operation and keeps the node from being shut out until the operation is done. Here a loss may come between two words, which
//! allows more.

use loco_fabric::{NodeId, Posted, Result, WordOp};

use crate::fabric::coroutine::ask;
use crate::fabric::lost;
use crate::fabric::memory::ModelMemory;
use crate::fabric::platform::value;
use crate::fabric::request::{Access, Reply, Request, Rmw, VirtualWord};

/// The way to the memory of a peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Direct {
    pub(super) node: NodeId,
    pub(super) peer: NodeId,
    /// Nodes may be lost.
    pub(super) lossy: bool,
}

impl Direct {
    /// Accesses a word of the peer, if it can be reached.
    fn access(self, word: VirtualWord, access: Access) -> Result<u64> {
        let peer = self.peer.0;
        let reply = ask(match self.lossy {
            true => Request::Direct { peer, word, access },
            false => access.to(word),
        });
        match reply {
            Reply::Lost(node) => Err(lost(self.node, node)),
            reply => Ok(value(reply)),
        }
    }

    fn store(self, word: VirtualWord, value: u64) -> Result<()> {
        self.access(word, Access::Store(value)).map(drop)
    }

    /// Copies words of this node to the peer.
    pub(super) fn put(self, words: impl Iterator<Item = (VirtualWord, VirtualWord)>) -> Result<Posted> {
        ask(Request::Fence);
        for (src, dst) in words {
            self.store(dst, value(ask(Request::Load { word: src })))?;
        }
        Ok(Posted::Done)
    }

    /// Stores bytes at the peer.
    pub(super) fn write(self, memory: &ModelMemory, offset: usize, data: &[u8]) -> Result<Posted> {
        for piece in memory.pieces(offset, data.len())?.rev() {
            let old = match piece.is_whole() {
                true => 0,
                false => self.access(piece.word, Access::Load)?,
            };
            self.store(piece.word, piece.merged(old, data))?;
        }
        Ok(Posted::Done)
    }

    /// Copies words of the peer to this node.
    pub(super) fn get(self, words: impl Iterator<Item = (VirtualWord, VirtualWord)>) -> Result<Posted> {
        ask(Request::Fence);
        for (dst, src) in words {
            let value = self.access(src, Access::Load)?;
            ask(Request::Store { word: dst, value });
        }
        Ok(Posted::Done)
    }

    /// Loads bytes of the peer, without a fence.
    pub(super) fn read(self, memory: &ModelMemory, offset: usize, out: &mut [u8]) -> Result<()> {
        for piece in memory.pieces(offset, out.len())? {
            piece.copy_out(self.access(piece.word, Access::Load)?, out);
        }
        Ok(())
    }

    /// Executes an operation on a word of the peer, and returns the old value.
    pub(super) fn word(self, word: VirtualWord, op: WordOp) -> Result<u64> {
        let access = match op {
            WordOp::Get => {
                ask(Request::Fence);
                Access::Load
            }
            WordOp::FetchAdd(add) => Access::Rmw(Rmw::Add { add, mask: u64::MAX }),
            WordOp::CompareSwap { expected, new } => Access::Rmw(Rmw::CompareExchange {
                current: expected,
                new,
            }),
        };
        self.access(word, access)
    }

    /// Executes a read-modify-write of a word of the peer, and stores the old value in a word of this node.
    pub(super) fn rmw(self, word: VirtualWord, op: WordOp, result: VirtualWord) -> Result<Posted> {
        let value = self.word(word, op)?;
        ask(Request::Store { word: result, value });
        Ok(Posted::Done)
    }

    /// Empties the store buffer of the thread, in which the earlier puts are, if the peer can be reached.
    pub(super) fn flush(self) -> Result<Posted> {
        if self.lossy
            && let Reply::Lost(node) = ask(Request::Reach { peer: self.peer.0 })
        {
            return Err(lost(self.node, node));
        }
        ask(Request::Fence);
        Ok(Posted::Done)
    }
}
