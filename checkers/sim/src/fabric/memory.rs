//! Registered memory of the model: the node's own memory, in words that its CPU accesses, and a peer's
//! memory.
//!
//! Relies on [`crate::fabric::coroutine`] to ask for each access. Used by [`super::ModelFabric`] and its queue pairs.

use loco_fabric::{FabricError, Memory, NodeId, RemoteMemory, Result, Word, WordCell};

use crate::fabric::WORD;
use crate::fabric::coroutine::ask;
use crate::fabric::platform::value;
use crate::fabric::request::{Request, Rmw, VirtualWord};

/// Returns the word that eight bytes hold.
pub(super) fn word_of(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |word, &byte| word << 8 | u64::from(byte))
}
/// Registered memory of the model: a range of bytes over words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelMemory {
    pub(super) first: VirtualWord,
    pub(super) offset: usize,
    pub(super) len: usize,
}

impl ModelMemory {
    fn check(&self, offset: usize, len: usize) -> Result<()> {
        if offset.checked_add(len).is_some_and(|end| end <= self.len) {
            return Ok(());
        }
        Err(FabricError::OutOfRange {
            offset,
            len,
            region_len: self.len,
        })
    }

    /// Returns the word that holds byte `offset`.
    pub(crate) fn word(&self, offset: usize) -> VirtualWord {
        VirtualWord(self.first.0 + ((self.offset + offset) / WORD) as u64)
    }

    /// Returns the words of a transfer. A transfer consists of whole words.
    pub(super) fn words(
        &self,
        offset: usize,
        len: usize,
    ) -> Result<impl Iterator<Item = VirtualWord> + use<>> {
        self.check(offset, len)?;
        if !(self.offset + offset).is_multiple_of(WORD) || !len.is_multiple_of(WORD) {
            return Err(FabricError::Misaligned {
                offset: self.offset + offset,
                align: WORD,
            });
        }
        let first = self.word(offset).0;
        Ok((0..(len / WORD) as u64).map(move |i| VirtualWord(first + i)))
    }
}

impl Memory for ModelMemory {
    type Cell<W: Word> = ModelCell;

    fn len(&self) -> usize {
        self.len
    }

    fn slice(&self, offset: usize, len: usize) -> Result<ModelMemory> {
        self.check(offset, len)?;
        Ok(ModelMemory {
            first: self.first,
            offset: self.offset + offset,
            len,
        })
    }

    fn cell<W: Word>(&self, offset: usize) -> Result<ModelCell> {
        self.check(offset, W::BYTES)?;
        let byte = (self.offset + offset) % WORD;
        if !byte.is_multiple_of(W::BYTES) {
            return Err(FabricError::Misaligned {
                offset,
                align: W::BYTES,
            });
        }
        Ok(ModelCell {
            word: self.word(offset),
            shift: 8 * byte as u32,
        })
    }

    fn read(&self, offset: usize, out: &mut [u8]) -> Result<()> {
        self.check(offset, out.len())?;
        let mut done = 0;
        while done < out.len() {
            let at = self.offset + offset + done;
            let part = (WORD - at % WORD).min(out.len() - done);
            let word = VirtualWord(self.first.0 + (at / WORD) as u64);
            let bytes = value(ask(Request::Load { word })).to_le_bytes();
            out[done..done + part].copy_from_slice(&bytes[at % WORD..][..part]);
            done += part;
        }
        Ok(())
    }

    fn write(&self, offset: usize, data: &[u8]) -> Result<()> {
        self.check(offset, data.len())?;
        let mut done = 0;
        while done < data.len() {
            let at = self.offset + offset + done;
            let part = (WORD - at % WORD).min(data.len() - done);
            let word = VirtualWord(self.first.0 + (at / WORD) as u64);
            let mut bytes = [0; WORD];
            if part < WORD {
                bytes = value(ask(Request::Load { word })).to_le_bytes();
            }
            bytes[at % WORD..][..part].copy_from_slice(&data[done..done + part]);
            ask(Request::Store {
                word,
                value: u64::from_le_bytes(bytes),
            });
            done += part;
        }
        Ok(())
    }
}

/// A word, or a part of one.
#[derive(Clone, Debug)]
pub struct ModelCell {
    word: VirtualWord,
    shift: u32,
}

impl ModelCell {
    fn mask<W: Word>(&self) -> u64 {
        (u64::MAX >> (64 - 8 * W::BYTES)) << self.shift
    }

    fn merge<W: Word>(&self, word: u64, part: W) -> u64 {
        (word & !self.mask::<W>()) | (part.to_u64() << self.shift)
    }
}

impl<W: Word> WordCell<W> for ModelCell {
    fn load(&self) -> W {
        W::from_u64(value(ask(Request::Load { word: self.word })) >> self.shift)
    }

    fn store(&self, part: W) {
        let word = self.word;
        let old = if W::BYTES < WORD {
            value(ask(Request::Load { word }))
        } else {
            0
        };
        ask(Request::Store {
            word,
            value: self.merge(old, part),
        });
    }

    fn store_fence(&self, part: W) {
        self.store(part);
        ask(Request::Fence);
    }

    fn compare_exchange(&self, expected: W, new: W) -> Result<W, W> {
        let word = self.word;
        let mut old = if W::BYTES < WORD {
            value(ask(Request::Load { word }))
        } else {
            0
        };
        loop {
            let (from, to) = (self.merge(old, expected), self.merge(old, new));
            let rmw = Rmw::CompareExchange {
                current: from,
                new: to,
            };
            let found = value(ask(Request::Rmw { word, rmw }));
            let part = W::from_u64(found >> self.shift);
            if found == from {
                return Ok(part);
            }
            if part != expected {
                return Err(part);
            }
            // Only another part of the word has changed: try again with the value found.
            old = found;
        }
    }

    fn fetch_add(&self, add: W) -> W {
        if W::BYTES == WORD {
            let rmw = Rmw::Add {
                add: add.to_u64(),
                mask: u64::MAX,
            };
            return W::from_u64(value(ask(Request::Rmw { word: self.word, rmw })));
        }
        let mut old: W = self.load();
        while let Err(found) =
            self.compare_exchange(old, W::from_u64(old.to_u64().wrapping_add(add.to_u64())))
        {
            old = found;
        }
        old
    }
}

/// A peer's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelRemote {
    pub(super) node: NodeId,
    pub(super) memory: ModelMemory,
}

impl RemoteMemory for ModelRemote {
    fn node(&self) -> NodeId {
        self.node
    }

    fn len(&self) -> usize {
        self.memory.len
    }

    fn slice(&self, offset: usize, len: usize) -> Result<ModelRemote> {
        Ok(ModelRemote {
            node: self.node,
            memory: self.memory.slice(offset, len)?,
        })
    }
}
