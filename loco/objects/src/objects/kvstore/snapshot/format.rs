//! The format of a snapshot. It knows bytes and streams, and nothing of stores.
//!
//! A file has a header, blocks of records, and an end. The numbers of the format are little-endian.
//!
//! | part | bytes |
//! |---|---|
//! | header | magic (8), version (4), length of every key (4), length of every value (4), byte order (4), identity (8), checksum (8) |
//! | block | length of the records (4), number of records (4), checksum (8), records |
//! | end | a block with no records, whose bytes are the number of keys (8) and of blocks (8) |
//! | record | length of the key (4), key, length of the value (4), value |
//!
//! A length of all ones in the header says that lengths differ; only then do records have them. Checksums are XXH3 of 64 bits. That
//! of a block covers its head and its records. Its seed is the file's identity plus the block's number, so a block of
//! another file, or from another place, does not pass. The end tells a whole file from one that was cut between blocks, and nothing may follow it.

use std::io::{self, Read, Write};

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// The version that this code writes and reads.
const VERSION: u32 = 1;
const MAGIC: [u8; 8] = *b"LOCOKV\x1a\n";
/// A number that machines of different byte order write differently. Plain values are in the order of their machine.
const ORDER: u32 = 0x0102_0304;
/// The mark of keys, or values, whose lengths differ.
const ANY: u32 = u32::MAX;
const HEADER_BYTES: usize = 40;
const HEAD_BYTES: usize = 16;
const END_BYTES: usize = 16;
/// The bytes of records from which on a block is written.
const BLOCK_BYTES: usize = 1 << 18;

/// A failure to read or write a snapshot.
#[derive(Debug)]
pub(super) enum Failure {
    Io(io::Error),
    /// The file is not a whole snapshot of this kind.
    Bad {
        offset: u64,
        reason: String,
    },
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Io(error)
    }
}

type Result<T> = std::result::Result<T, Failure>;

/// The length of every key or value, if all have one.
pub(super) type Length = Option<usize>;

/// The lengths of the keys and values of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) key: Length,
    pub(super) value: Length,
}

/// Writes a snapshot.
pub(super) struct Writer<W> {
    out: W,
    shape: Shape,
    identity: u64,
    records: Vec<u8>,
    count: u32,
    keys: u64,
    blocks: u64,
    bytes: u64,
}

impl<W: Write> Writer<W> {
    /// Writes the header. `identity` differs between files.
    pub(super) fn new(mut out: W, shape: Shape, identity: u64) -> io::Result<Writer<W>> {
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(&MAGIC);
        header[8..12].copy_from_slice(&VERSION.to_le_bytes());
        header[12..16].copy_from_slice(&length_word(shape.key)?.to_le_bytes());
        header[16..20].copy_from_slice(&length_word(shape.value)?.to_le_bytes());
        header[20..24].copy_from_slice(&ORDER.to_ne_bytes());
        header[24..32].copy_from_slice(&identity.to_le_bytes());
        let checksum = xxh3_64(&header[..32]);
        header[32..].copy_from_slice(&checksum.to_le_bytes());
        out.write_all(&header)?;
        Ok(Writer {
            out,
            shape,
            identity,
            records: Vec::with_capacity(BLOCK_BYTES),
            count: 0,
            keys: 0,
            blocks: 0,
            bytes: HEADER_BYTES as u64,
        })
    }

    /// Adds a record.
    pub(super) fn add(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        for (part, length) in [(key, self.shape.key), (value, self.shape.value)] {
            match length {
                Some(length) => debug_assert_eq!(part.len(), length, "the header says so"),
                None => self.records.extend(fits(part.len())?.to_le_bytes()),
            }
            self.records.extend(part);
        }
        self.count += 1;
        self.keys += 1;
        // A record takes no byte if keys and values take none. There is one key then.
        if self.records.len() >= BLOCK_BYTES {
            self.write_records()?;
        }
        Ok(())
    }

    /// Writes what is left, and the end. Returns the stream, the number of keys and the bytes of the file.
    pub(super) fn finish(mut self) -> io::Result<(W, u64, u64)> {
        if self.count > 0 {
            self.write_records()?;
        }
        self.records.extend(self.keys.to_le_bytes());
        self.records.extend(self.blocks.to_le_bytes());
        self.write_records()?;
        Ok((self.out, self.keys, self.bytes))
    }

    fn write_records(&mut self) -> io::Result<()> {
        let mut head = [0; HEAD_BYTES];
        head[..4].copy_from_slice(&fits(self.records.len())?.to_le_bytes());
        head[4..8].copy_from_slice(&self.count.to_le_bytes());
        let checksum = checksum(self.identity, self.blocks, &head, &self.records);
        head[8..].copy_from_slice(&checksum.to_le_bytes());
        self.out.write_all(&head)?;
        self.out.write_all(&self.records)?;
        self.bytes += (HEAD_BYTES + self.records.len()) as u64;
        self.blocks += 1;
        self.records.clear();
        self.count = 0;
        Ok(())
    }
}

/// Reads a snapshot, block by block.
pub(super) struct Reader<R> {
    from: R,
    shape: Shape,
    identity: u64,
    /// The bytes of the file, so that no length in it is believed that is beyond them.
    bytes: u64,
    offset: u64,
    keys: u64,
    blocks: u64,
    records: Vec<u8>,
}

impl<R: Read> Reader<R> {
    /// Reads the header of a file of `bytes` bytes.
    pub(super) fn new(from: R, bytes: u64) -> Result<Reader<R>> {
        let mut reader = Reader {
            from,
            shape: Shape {
                key: None,
                value: None,
            },
            identity: 0,
            bytes,
            offset: 0,
            keys: 0,
            blocks: 0,
            records: Vec::new(),
        };
        let mut header = [0; HEADER_BYTES];
        let (magic, rest) = header.split_at_mut(MAGIC.len());
        reader.fill(magic)?;
        if *magic != MAGIC {
            return Err(bad(0, "it is no snapshot of a key-value store"));
        }
        reader.fill(rest)?;
        let version = word(&header, 8);
        if version != VERSION {
            return Err(bad(
                8,
                format!("it has version {version} of the format, and this program reads {VERSION}"),
            ));
        }
        if long(&header, 32) != xxh3_64(&header[..32]) {
            return Err(bad(32, "the header does not fit its checksum"));
        }
        if header[20..24] != ORDER.to_ne_bytes() {
            return Err(bad(20, "it is from a machine of another byte order"));
        }
        let length = |offset| match word(&header, offset) {
            ANY => None,
            length => Some(length as usize),
        };
        reader.shape = Shape {
            key: length(12),
            value: length(16),
        };
        reader.identity = long(&header, 24);
        Ok(reader)
    }

    /// Returns the lengths of keys and values.
    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    /// Returns the number of keys that were read.
    pub(super) fn keys(&self) -> u64 {
        self.keys
    }

    /// Reads a block and calls `each` with the key, the value and the offset of each record. Returns false, and
    /// calls nothing, at the end of a whole file.
    pub(super) fn block(&mut self, mut each: impl FnMut(&[u8], &[u8], u64) -> Result<()>) -> Result<bool> {
        let begin = self.offset;
        let mut head = [0; HEAD_BYTES];
        self.fill(&mut head)?;
        let (len, count) = (word(&head, 0), word(&head, 4));
        if u64::from(len) > self.bytes - self.offset {
            return Err(bad(
                begin,
                format!(
                    "a block of {len} bytes begins, and the file has {} more: it is cut, or altered",
                    self.bytes - self.offset
                ),
            ));
        }
        let mut records = std::mem::take(&mut self.records);
        records.resize(len as usize, 0);
        self.fill(&mut records)?;
        if checksum(self.identity, self.blocks, &head, &records) != long(&head, 8) {
            return Err(bad(
                begin,
                format!("the block that begins here, of {len} bytes, does not fit its checksum"),
            ));
        }
        if count == 0 {
            return self.end(begin, &records).map(|()| false);
        }
        self.blocks += 1;
        let mut rest = &records[..];
        for _ in 0..count {
            let at = self.offset - rest.len() as u64;
            let key = take(&mut rest, self.shape.key).ok_or_else(|| short(at))?;
            let value = take(&mut rest, self.shape.value).ok_or_else(|| short(at))?;
            each(key, value, at)?;
        }
        if !rest.is_empty() {
            return Err(bad(
                self.offset - rest.len() as u64,
                "bytes follow the last record of a block",
            ));
        }
        self.keys += u64::from(count);
        self.records = records;
        Ok(true)
    }

    /// Checks the end of the file, a block that begins at `begin`.
    fn end(&mut self, begin: u64, counts: &[u8]) -> Result<()> {
        if counts.len() != END_BYTES || [long(counts, 0), long(counts, 8)] != [self.keys, self.blocks] {
            return Err(bad(
                begin,
                format!(
                    "the end does not fit the {} keys in {} blocks before it",
                    self.keys, self.blocks
                ),
            ));
        }
        // The file may have grown since its length was read.
        let mut more = [0];
        if self.offset != self.bytes || self.from.read(&mut more)? != 0 {
            return Err(bad(self.offset, "bytes follow the end"));
        }
        Ok(())
    }

    fn fill(&mut self, out: &mut [u8]) -> Result<()> {
        match self.from.read_exact(out) {
            Ok(()) => {
                self.offset += out.len() as u64;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(bad(self.bytes, "it ends here, in the middle: it is cut"))
            }
            Err(error) => Err(error.into()),
        }
    }
}

pub(super) fn bad(offset: u64, reason: impl Into<String>) -> Failure {
    Failure::Bad {
        offset,
        reason: reason.into(),
    }
}

fn short(at: u64) -> Failure {
    bad(at, "a record is longer than its block")
}

/// Takes the next key or value from `rest`.
fn take<'a>(rest: &mut &'a [u8], length: Length) -> Option<&'a [u8]> {
    let length = match length {
        Some(length) => length,
        None => {
            let (word, after) = rest.split_first_chunk()?;
            *rest = after;
            u32::from_le_bytes(*word) as usize
        }
    };
    let (part, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(part)
}

fn checksum(identity: u64, block: u64, head: &[u8; HEAD_BYTES], records: &[u8]) -> u64 {
    let mut state = Xxh3::with_seed(identity.wrapping_add(block));
    state.update(&head[..8]);
    state.update(records);
    state.digest()
}

fn length_word(length: Length) -> io::Result<u32> {
    length.map_or(Ok(ANY), fits)
}

fn fits(length: usize) -> io::Result<u32> {
    let fits = u32::try_from(length).ok().filter(|&length| length != ANY);
    fits.ok_or_else(|| {
        let text = format!("{length} bytes of keys and values together; a snapshot takes less than 4 GiB");
        io::Error::new(io::ErrorKind::InvalidInput, text)
    })
}

fn word(bytes: &[u8], offset: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_le_bytes(word)
}

fn long(bytes: &[u8], offset: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Record = (Vec<u8>, Vec<u8>);

    const ANY_SHAPE: Shape = Shape {
        key: None,
        value: None,
    };

    fn written(shape: Shape, identity: u64, records: &[Record]) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new(), shape, identity).unwrap();
        for (key, value) in records {
            writer.add(key, value).unwrap();
        }
        let (bytes, keys, count) = writer.finish().unwrap();
        assert_eq!((keys, count), (records.len() as u64, bytes.len() as u64));
        bytes
    }

    fn read(bytes: &[u8]) -> Result<(Shape, Vec<Record>)> {
        let mut reader = Reader::new(bytes, bytes.len() as u64)?;
        let mut records = Vec::new();
        while reader.block(|key, value, at| {
            assert!(at < bytes.len() as u64);
            records.push((key.to_vec(), value.to_vec()));
            Ok(())
        })? {}
        assert_eq!(reader.keys(), records.len() as u64);
        Ok((reader.shape(), records))
    }

    fn offset_of_refusal(bytes: &[u8]) -> u64 {
        match read(bytes) {
            Err(Failure::Bad { offset, reason }) => {
                assert!(!reason.is_empty());
                offset
            }
            other => panic!("{} bytes: {other:?}", bytes.len()),
        }
    }

    /// Two kinds of files: of many blocks, and of one. Each with what it has.
    fn files() -> Vec<Vec<u8>> {
        let long: Vec<Record> = (0..700_u32)
            .map(|i| (i.to_le_bytes().to_vec(), vec![i as u8; 1000]))
            .collect();
        let fixed = Shape {
            key: Some(4),
            value: Some(1000),
        };
        let short = [(vec![], vec![]), (b"key".to_vec(), b"value".to_vec())];
        vec![
            written(fixed, 7, &long),
            written(ANY_SHAPE, 8, &short),
            written(ANY_SHAPE, 9, &[]),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            records in proptest::collection::vec((any::<Vec<u8>>(), any::<Vec<u8>>()), 0..50),
            identity in any::<u64>(),
        ) {
            let (shape, found) = read(&written(ANY_SHAPE, identity, &records)).unwrap();
            prop_assert_eq!((shape, found), (ANY_SHAPE, records));
        }

        #[test]
        fn any_bytes_are_refused_without_a_panic(bytes in any::<Vec<u8>>(), begin in 0..HEADER_BYTES) {
            prop_assert!(read(&bytes).is_err());
            let mut header = files()[1][..begin].to_vec();
            header.extend(bytes);
            prop_assert!(read(&header).is_err());
        }
    }

    #[test]
    fn files_of_many_blocks_and_of_none_are_read() {
        let [many, one, none] = &files()[..] else {
            unreachable!()
        };
        let (shape, records) = read(many).unwrap();
        assert_eq!((shape.key, records.len()), (Some(4), 700));
        assert_eq!(
            records[300],
            (300_u32.to_le_bytes().to_vec(), vec![300_u32 as u8; 1000])
        );
        assert_eq!(read(one).unwrap().1.len(), 2);
        assert_eq!(read(none).unwrap().1.len(), 0);
    }

    /// Every bit of the small files, and bits all over the large one: more than five thousand files in all, beside those of the
    /// other tests.
    #[test]
    fn a_flipped_bit_is_found() {
        let mut altered = 0;
        for file in files() {
            let bits = file.len() * 8;
            let step = (bits / 1500).max(1) | 1;
            for bit in (0..bits).step_by(step).chain(0..HEADER_BYTES * 8) {
                let mut bytes = file.clone();
                bytes[bit / 8] ^= 1 << (bit % 8);
                let offset = offset_of_refusal(&bytes);
                assert!(offset <= file.len() as u64, "bit {bit}: {offset}");
                altered += 1;
            }
        }
        assert!(altered > 3000, "{altered}");
    }

    #[test]
    fn a_cut_file_is_found_with_the_place_of_the_cut() {
        for file in files() {
            let step = (file.len() / 1500).max(1);
            for len in (0..file.len()).step_by(step) {
                let offset = offset_of_refusal(&file[..len]);
                assert!(offset <= len as u64, "cut at {len}: {offset}");
            }
        }
    }

    #[test]
    fn a_grown_file_is_found() {
        for file in files() {
            for more in [&[0][..], &[7; 100], &file] {
                assert_eq!(offset_of_refusal(&[&file[..], more].concat()), file.len() as u64);
            }
        }
    }

    #[test]
    fn blocks_of_another_file_or_place_are_found() {
        let record = |i: u8| (vec![i], vec![i; BLOCK_BYTES]);
        let shape = ANY_SHAPE;
        let [a, b] = [7, 8].map(|identity| written(shape, identity, &[record(1), record(2)]));
        let block = (a.len() - HEADER_BYTES - HEAD_BYTES - END_BYTES) / 2;
        let second = HEADER_BYTES + block;
        // The first block of the other file, which has the same records.
        let mut mixed = a.clone();
        mixed[HEADER_BYTES..second].copy_from_slice(&b[HEADER_BYTES..second]);
        assert_eq!(offset_of_refusal(&mixed), HEADER_BYTES as u64);
        let swapped = [
            &a[..HEADER_BYTES],
            &a[second..second + block],
            &a[HEADER_BYTES..second],
            &a[second + block..],
        ];
        assert_eq!(offset_of_refusal(&swapped.concat()), HEADER_BYTES as u64);
        // A block is missing, or twice there.
        let without = [&a[..second], &a[second + block..]].concat();
        assert_eq!(offset_of_refusal(&without), second as u64);
        let twice = [&a[..second], &a[HEADER_BYTES..]].concat();
        assert_eq!(offset_of_refusal(&twice), second as u64);
    }

    #[test]
    fn another_version_or_byte_order_is_named() {
        let file = files().remove(1);
        let with = |offset: usize, word: [u8; 4]| {
            let mut bytes = file.clone();
            bytes[offset..offset + 4].copy_from_slice(&word);
            let checksum = xxh3_64(&bytes[..32]);
            bytes[32..40].copy_from_slice(&checksum.to_le_bytes());
            match read(&bytes) {
                Err(Failure::Bad { offset, reason }) => (offset, reason),
                other => panic!("{other:?}"),
            }
        };
        let (offset, reason) = with(8, 2_u32.to_le_bytes());
        assert!(offset == 8 && reason.contains("version 2"), "{reason}");
        let (offset, reason) = with(20, ORDER.swap_bytes().to_ne_bytes());
        assert!(offset == 20 && reason.contains("byte order"), "{reason}");
    }
}
