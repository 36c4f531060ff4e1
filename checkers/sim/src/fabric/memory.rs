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

    /// Cuts `len` bytes from `offset` at the bounds of words.
    pub(super) fn pieces(
        &self,
        offset: usize,
        len: usize,
    ) -> Result<impl DoubleEndedIterator<Item = Piece> + use<>> {
        self.check(offset, len)?;
        let (first, begin) = (self.first.0, self.offset + offset);
        let end = begin + len;
        let words = match len {
            0 => 0..0,
            _ => begin / WORD..end.div_ceil(WORD),
        };
        Ok(words.map(move |word| {
            let from = begin.max(word * WORD);
            Piece {
                word: VirtualWord(first + word as u64),
                begin: from - word * WORD,
                len: end.min((word + 1) * WORD) - from,
                at: from - begin,
            }
        }))
    }
}

/// A part of a range of bytes that lies in one word.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) word: VirtualWord,
    /// Its first byte within the word, and its length.
    begin: usize,
    len: usize,
    /// Its first byte within the range.
    at: usize,
}

impl Piece {
    /// Returns whether it is the whole word.
    pub(super) fn is_whole(self) -> bool {
        self.len == WORD
    }

    /// Returns the word with the bytes of the range in place of its own. `old` does not matter if the piece is the whole word.
    pub(super) fn merged(self, old: u64, data: &[u8]) -> u64 {
        let mut bytes = old.to_le_bytes();
        bytes[self.begin..][..self.len].copy_from_slice(&data[self.at..][..self.len]);
        u64::from_le_bytes(bytes)
    }

    /// Copies the bytes of the word to their place in the range.
    pub(super) fn copy_out(self, word: u64, out: &mut [u8]) {
        out[self.at..][..self.len].copy_from_slice(&word.to_le_bytes()[self.begin..][..self.len]);
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
        for piece in self.pieces(offset, out.len())? {
            piece.copy_out(value(ask(Request::Load { word: piece.word })), out);
        }
        Ok(())
    }

    fn write(&self, offset: usize, data: &[u8]) -> Result<()> {
        for piece in self.pieces(offset, data.len())? {
            let word = piece.word;
            let old = match piece.is_whole() {
                true => 0,
                false => value(ask(Request::Load { word })),
            };
            ask(Request::Store {
                word,
                value: piece.merged(old, data),
            });
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
