//! Requests and answers as bytes: a header of fixed length, and what it says that follows.
//!
//! Answers need no number: they come in the order of the requests. Relies on nothing. Used by `link`.

/// The bytes of a header.
pub(crate) const HEADER_BYTES: usize = 16;
/// The most bytes of data in one frame. Longer operations are cut into pieces.
pub(crate) const PIECE_BYTES_MAX: usize = 64 << 10;
/// The bytes of the longest frame.
pub(crate) const FRAME_BYTES_MAX: usize = HEADER_BYTES + PIECE_BYTES_MAX;

/// The meaning of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Write the bytes that follow. It has no answer.
    Put = 1,
    /// Answer with `len` bytes.
    Get = 2,
    /// Add the word that follows, and answer with the old one.
    FetchAdd = 3,
    /// Swap in the second of the words that follow if the first is there, and answer with the old one.
    CompareSwap = 4,
    /// Answer with nothing.
    Flush = 5,
    /// The answer to the oldest request that has none: `len` bytes follow.
    Answer = 6,
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    /// The bytes of data of a put, a get or an answer.
    pub(crate) len: usize,
    /// The place in the target's mapping.
    pub(crate) place: u64,
}

/// A frame that no node of this version sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

impl Header {
    /// Appends the header.
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        debug_assert!(self.len <= PIECE_BYTES_MAX);
        #[allow(clippy::cast_possible_truncation)] // At most `PIECE_BYTES_MAX`.
        let first = self.kind as u64 | (self.len as u64) << 32;
        bytes.extend_from_slice(&first.to_le_bytes());
        bytes.extend_from_slice(&self.place.to_le_bytes());
    }

    /// Reads a header.
    pub(crate) fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Header, Malformed> {
        let half = |at: usize| {
            let mut half = [0; 8];
            half.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(half)
        };
        let (first, place) = (half(0), half(8));
        let kinds = [
            Kind::Put,
            Kind::Get,
            Kind::FetchAdd,
            Kind::CompareSwap,
            Kind::Flush,
            Kind::Answer,
        ];
        let kind = kinds.into_iter().find(|&kind| kind as u64 == first & 0xffff_ffff);
        let len = usize::try_from(first >> 32).unwrap_or(usize::MAX);
        match kind {
            Some(kind) if len <= PIECE_BYTES_MAX => Ok(Header { kind, len, place }),
            _ => Err(Malformed),
        }
    }

    /// Returns the number of bytes that follow.
    pub(crate) fn body_bytes(&self) -> usize {
        match self.kind {
            Kind::Put | Kind::Answer => self.len,
            Kind::FetchAdd => 8,
            Kind::CompareSwap => 16,
            Kind::Get | Kind::Flush => 0,
        }
    }
}

/// Returns the length of the next piece of an operation of which `left` bytes from `place` are left. Pieces end between
/// aligned words, so that no word is in two of them.
pub(crate) fn piece(place: u64, left: usize) -> usize {
    #[allow(clippy::cast_possible_truncation)] // Below 8.
    let phase = (place % 8) as usize;
    left.min(PIECE_BYTES_MAX - phase)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_they_are_written() {
        for (kind, body) in [
            (Kind::Put, 300),
            (Kind::Get, 0),
            (Kind::FetchAdd, 8),
            (Kind::CompareSwap, 16),
            (Kind::Flush, 0),
            (Kind::Answer, 300),
        ] {
            let header = Header {
                kind,
                len: 300,
                place: 1 << 40 | 7,
            };
            let mut bytes = Vec::new();
            header.encode(&mut bytes);
            let bytes: [u8; HEADER_BYTES] = bytes.try_into().unwrap();
            assert_eq!(Header::decode(&bytes), Ok(header));
            assert_eq!(header.body_bytes(), body);
        }
    }

    #[test]
    fn what_no_node_sends_is_refused() {
        assert_eq!(Header::decode(&[0; HEADER_BYTES]), Err(Malformed));
        assert_eq!(Header::decode(&[0xff; HEADER_BYTES]), Err(Malformed));
        let mut long = [0; HEADER_BYTES];
        (long[0], long[6]) = (1, 2); // 128 KiB
        assert_eq!(Header::decode(&long), Err(Malformed));
    }

    #[test]
    fn pieces_end_between_words() {
        for start in 0..16 {
            let (mut place, mut left) = (start, 3 * PIECE_BYTES_MAX + 5);
            while left > 0 {
                let len = piece(place, left);
                assert!(len > 0 && len <= PIECE_BYTES_MAX);
                place += len as u64;
                left -= len;
                assert!(left == 0 || place.is_multiple_of(8), "{start}");
            }
        }
    }
}
