//! Messages between two connection managers: a header of fixed size, and private data.

use std::io;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::line::Line;
use crate::ffi::RawGid;

const MAGIC: u32 = u32::from_le_bytes(*b"lcm\x01");
/// The most private data.
pub(super) const PRIVATE_MAX: usize = 255;

/// Kinds of messages.
pub(super) mod kind {
    pub(in crate::cm) const REQUEST: u8 = 1;
    pub(in crate::cm) const REPLY: u8 = 2;
    pub(in crate::cm) const READY: u8 = 3;
    pub(in crate::cm) const REJECT: u8 = 4;
    pub(in crate::cm) const DISCONNECT: u8 = 5;
    pub(in crate::cm) const DISCONNECTED: u8 = 6;
}

/// The header of a message.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Frame {
    magic: u32,
    pub kind: u8,
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub retry_count: u8,
    pub rnr_retry_count: u8,
    /// The number of bytes of private data that follow.
    pub len: u8,
    /// The port space.
    pub space: u16,
    pub qpn: u32,
    pub qkey: u32,
    pub gid: RawGid,
    /// The sender's socket address, as it is in memory, and the receiver's.
    pub source: [u8; 28],
    pub target: [u8; 28],
}

/// A message.
#[derive(Clone, Debug)]
pub(super) struct Letter {
    pub frame: Frame,
    pub private: Vec<u8>,
}

impl Letter {
    /// Makes a message that says nothing but what it is.
    pub fn new(kind: u8) -> Letter {
        let frame = Frame {
            magic: MAGIC,
            kind,
            responder_resources: 0,
            initiator_depth: 0,
            retry_count: 0,
            rnr_retry_count: 0,
            len: 0,
            space: 0,
            qpn: 0,
            qkey: 0,
            gid: [0; 16],
            source: [0; 28],
            target: [0; 28],
        };
        Letter {
            frame,
            private: Vec::new(),
        }
    }

    /// Sends the message.
    ///
    /// # Errors
    /// Fails when the other side is gone.
    pub fn send(&self, line: &Line) -> io::Result<()> {
        let mut frame = self.frame;
        frame.len = u8::try_from(self.private.len()).map_err(io::Error::other)?;
        let mut bytes = frame.as_bytes().to_vec();
        bytes.extend_from_slice(&self.private);
        line.send(&bytes)
    }

    /// Waits for a message.
    ///
    /// # Errors
    /// Fails when the other side is gone, or sends what is no message.
    pub fn receive(line: &Line) -> io::Result<Letter> {
        let mut bytes = [0; size_of::<Frame>()];
        line.read_exact(&mut bytes)?;
        let frame = Frame::read_from_bytes(&bytes).map_err(|_| io::Error::other("a message is cut short"))?;
        if frame.magic != MAGIC || !(kind::REQUEST..=kind::DISCONNECTED).contains(&frame.kind) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "this is no message of a connection manager of this version",
            ));
        }
        let mut private = vec![0; usize::from(frame.len)];
        line.read_exact(&mut private)?;
        Ok(Letter { frame, private })
    }
}
