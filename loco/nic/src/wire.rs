//! Messages between the NICs of a world: a header of fixed size, and data.

use std::io;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::ffi::{IBV_WC_GENERAL_ERR, RawGid};

/// What every header begins with. Its last byte is the version of the format.
const MAGIC: u32 = u32::from_le_bytes(*b"lnc\x02");
/// The size of a header.
pub(crate) const HEADER: usize = size_of::<Header>();
/// The longest message.
pub(crate) const MESSAGE_MAX: u64 = 1 << 30;

/// Queue pairs have numbers of 24 bits.
const NUMBERS: u32 = 1 << 24;

/// Kinds of messages.
pub(crate) mod kind {
    /// The first message in each direction.
    pub(crate) const HELLO: u8 = 1;
    pub(crate) const WRITE: u8 = 2;
    pub(crate) const SEND: u8 = 3;
    pub(crate) const READ: u8 = 4;
    /// Compare and swap.
    pub(crate) const SWAP: u8 = 5;
    /// Fetch and add.
    pub(crate) const ADD: u8 = 6;
    /// The answer to a request. Its status is that of the requester's completion.
    pub(crate) const ANSWER: u8 = 7;
    /// It asks for nothing but that the other host acknowledges it.
    pub(crate) const PROBE: u8 = 8;
}

/// Flags of requests, of which an answer has `UNHURRIED` only.
pub(crate) mod flag {
    pub(crate) const IMMEDIATE: u8 = 1;
    pub(crate) const SOLICITED: u8 = 2;
    pub(crate) const INVALIDATE: u8 = 4;
    /// The sender waits for no answer.
    pub(crate) const UNRELIABLE: u8 = 8;
    pub(crate) const DATAGRAM: u8 = 16;
    /// The sender looks for the answer when it wants to know: one that says no more than success need not wake it.
    pub(crate) const UNHURRIED: u8 = 32;
    /// All of them.
    pub(crate) const KNOWN: u8 = 63;
}

/// The header of a message. Numbers are of the host's order. A host of another order is refused by the first of them.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Header {
    magic: u32,
    pub kind: u8,
    pub flags: u8,
    pub status: u8,
    /// How often the sender tries again when there is no receive; 7 is without end.
    pub rnr_retry: u8,
    pub from: u32,
    pub to: u32,
    /// The number of the request within its queue pair.
    pub seq: u64,
    pub addr: u64,
    /// The first operand of an atomic, or the key of a datagram.
    pub first: u64,
    /// The second operand of an atomic.
    pub second: u64,
    pub key: u32,
    pub immediate: u32,
    /// For how many microseconds the sender waits for a queue pair that does not answer; 0 is without end.
    pub patience: u32,
    /// The number of bytes that a read asks for.
    pub wanted: u32,
    /// The number of bytes that follow.
    pub len: u64,
    /// The sender's GID, in a datagram.
    pub gid: RawGid,
}

impl Header {
    /// Makes a header without data.
    pub fn new(kind: u8, from: u32, to: u32, seq: u64) -> Header {
        Header {
            magic: MAGIC,
            kind,
            flags: 0,
            status: 0,
            rnr_retry: 0,
            from,
            to,
            seq,
            addr: 0,
            first: 0,
            second: 0,
            key: 0,
            immediate: 0,
            patience: 0,
            wanted: 0,
            len: 0,
            gid: [0; 16],
        }
    }

    /// Returns whether a flag is set.
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Reads a header. Returns an error that says what is wrong with it: nothing of a sender is believed before.
    pub fn read(bytes: &[u8]) -> Result<Header, &'static str> {
        let (header, _) = Header::read_from_prefix(bytes).map_err(|_| "a header is cut short")?;
        if header.magic != MAGIC {
            return Err("this is no message of a NIC of this version");
        }
        if !(kind::HELLO..=kind::PROBE).contains(&header.kind) {
            return Err("a message is of no known kind");
        }
        if header.from >= NUMBERS || header.to >= NUMBERS {
            return Err("a message names a queue pair that cannot be");
        }
        if header.flags & !flag::KNOWN != 0 || header.rnr_retry > 7 {
            return Err("a message has flags that are not known");
        }
        if u32::from(header.status) > IBV_WC_GENERAL_ERR {
            return Err("a message has a status that is not known");
        }
        if header.len > MESSAGE_MAX || u64::from(header.wanted) > MESSAGE_MAX {
            return Err("a message is longer than any may be");
        }
        let has_data = matches!(header.kind, kind::WRITE | kind::SEND | kind::ANSWER);
        if header.len > 0 && !has_data {
            return Err("a message has data that its kind has not");
        }
        Ok(header)
    }
}

/// A message.
#[derive(Debug)]
pub(crate) struct Message {
    pub header: Header,
    pub data: Vec<u8>,
}

/// Cuts whole messages off what has come.
///
/// # Errors
/// Fails at what is no message.
pub(crate) fn take_off(input: &mut Vec<u8>, messages: &mut Vec<Message>) -> io::Result<()> {
    let mut at = 0;
    while input.len() - at >= HEADER {
        let header =
            Header::read(&input[at..]).map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))?;
        let len = usize::try_from(header.len).map_err(io::Error::other)?;
        if input.len() - at - HEADER < len {
            break;
        }
        let data = input[at + HEADER..at + HEADER + len].to_vec();
        messages.push(Message { header, data });
        at += HEADER + len;
    }
    input.drain(..at);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn garbage_is_refused() {
        assert!(Header::read(&[0; HEADER]).is_err());
        assert!(Header::read(&[0xff; HEADER]).is_err());
        assert!(Header::read(Header::new(kind::READ, 1, 2, 3).as_bytes()).is_ok());
        assert!(Header::read(&Header::new(kind::READ, 1, 2, 3).as_bytes()[1..]).is_err());
        let wrong = |change: fn(&mut Header)| {
            let mut header = Header::new(kind::READ, 1, 2, 3);
            change(&mut header);
            assert!(Header::read(header.as_bytes()).is_err());
        };
        wrong(|header| header.kind = 0);
        wrong(|header| header.kind = 9);
        wrong(|header| header.len = 1);
        wrong(|header| header.from = 1 << 24);
        wrong(|header| header.to = u32::MAX);
        wrong(|header| header.flags = 64);
        wrong(|header| header.rnr_retry = 8);
        wrong(|header| header.status = 200);
        wrong(|header| header.wanted = u32::MAX);
        wrong(|header| {
            header.kind = kind::WRITE;
            header.len = MESSAGE_MAX + 1;
        });
    }
}
