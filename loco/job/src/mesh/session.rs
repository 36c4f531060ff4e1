//! A connection between two processes that have shaken hands. Reading and writing with a deadline are here,
//! too; the handshake needs them as well.
//!
//! A [`Session`] is used by one thread that waits, for the end of the handshake and for the rendezvous. The
//! connection of a node with a peer then goes on in [`wire`](super::wire), which takes the session apart.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use loco_fabric::{Platform, Std, Time};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::noise::{Handshake, LENGTH_BYTES, Opener, Sealer};

/// The length before a value, little-endian.
const VALUE_LENGTH_BYTES: usize = 4;

/// An encrypted and authenticated connection.
pub(super) struct Session {
    pub(super) stream: TcpStream,
    pub(super) sealer: Sealer,
    pub(super) opener: Opener,
}

impl Session {
    /// Takes over `stream`, on which both messages of `handshake` have been exchanged.
    pub(super) fn new(stream: TcpStream, handshake: Handshake) -> Result<Session, snow::Error> {
        let (sealer, opener) = handshake.finish()?;
        Ok(Session {
            stream,
            sealer,
            opener,
        })
    }

    /// Writes a value.
    pub(super) fn write(&mut self, value: &impl Serialize, deadline: Time) -> io::Result<()> {
        write_value(&self.stream, &mut self.sealer, value, deadline)
    }

    /// Reads a value of at most `bytes_max`.
    ///
    /// # Errors
    /// See [`read_value`].
    pub(super) fn read<T: DeserializeOwned>(&mut self, bytes_max: usize, deadline: Time) -> io::Result<T> {
        read_value(&self.stream, &mut self.opener, bytes_max, deadline)
    }

    /// Reads one record and appends what it carries to `plain`.
    #[cfg(test)]
    pub(super) fn read_record(&mut self, plain: &mut Vec<u8>, deadline: Time) -> io::Result<()> {
        read_record(&self.stream, &mut self.opener, plain, deadline)
    }
}

/// Writes a value on one direction of a session.
pub(super) fn write_value(
    stream: &TcpStream,
    sealer: &mut Sealer,
    value: &impl Serialize,
    deadline: Time,
) -> io::Result<()> {
    let bytes = postcard::to_stdvec(value).map_err(io::Error::other)?;
    let len = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    let mut plain = len.to_le_bytes().to_vec();
    plain.extend_from_slice(&bytes);
    let sealed = sealer.seal(&plain).map_err(io::Error::other)?;
    write_all(stream, &sealed, deadline)
}

/// Reads a value of at most `bytes_max` from one direction of a session.
///
/// # Errors
/// Returns [`InvalidData`](io::ErrorKind::InvalidData) when the other side did not send what came, or when it is
/// no such value.
pub(super) fn read_value<T: DeserializeOwned>(
    stream: &TcpStream,
    opener: &mut Opener,
    bytes_max: usize,
    deadline: Time,
) -> io::Result<T> {
    let no_value = || {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "it does not speak the protocol of this program",
        )
    };
    let mut plain = Vec::new();
    loop {
        if let Some((len, bytes)) = plain.split_first_chunk::<VALUE_LENGTH_BYTES>() {
            let len = u32::from_le_bytes(*len) as usize;
            // The last record of a value holds nothing else.
            if len > bytes_max || bytes.len() > len {
                return Err(no_value());
            }
            if bytes.len() == len {
                return postcard::from_bytes(bytes).map_err(|_| no_value());
            }
        }
        read_record(stream, opener, &mut plain, deadline)?;
    }
}

fn read_record(
    stream: &TcpStream,
    opener: &mut Opener,
    plain: &mut Vec<u8>,
    deadline: Time,
) -> io::Result<()> {
    let record = framed(&read_message(stream, deadline)?)?;
    let forged = |e| io::Error::new(io::ErrorKind::InvalidData, e);
    opener.open(&record, plain).map(drop).map_err(forged)
}

/// Writes a message of Noise behind its length.
pub(super) fn write_message(stream: &TcpStream, message: &[u8], deadline: Time) -> io::Result<()> {
    write_all(stream, &framed(message)?, deadline)
}

/// Reads a message of Noise and the length before it.
pub(super) fn read_message(stream: &TcpStream, deadline: Time) -> io::Result<Vec<u8>> {
    let mut length = [0; LENGTH_BYTES];
    read_exact(stream, &mut length, deadline)?;
    let mut message = vec![0; usize::from(u16::from_le_bytes(length))];
    read_exact(stream, &mut message, deadline)?;
    Ok(message)
}

fn framed(message: &[u8]) -> io::Result<Vec<u8>> {
    let length = u16::try_from(message.len()).map_err(io::Error::other)?;
    Ok([&length.to_le_bytes(), message].concat())
}

fn left(deadline: Time) -> io::Result<Duration> {
    let left = deadline.since(Std.now());
    if left.is_zero() {
        return Err(io::Error::new(io::ErrorKind::TimedOut, "it does not answer"));
    }
    Ok(left)
}

/// Writes all of `bytes`, however slowly the other side reads, but not past `deadline`.
pub(super) fn write_all(mut stream: &TcpStream, mut bytes: &[u8], deadline: Time) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(left(deadline)?))?;
        let written = stream.write(bytes);
        bytes = &bytes[unless_again(written)?..];
    }
    Ok(())
}

/// Fills `bytes`, however slowly the other side writes, but not past `deadline`.
pub(super) fn read_exact(mut stream: &TcpStream, bytes: &mut [u8], deadline: Time) -> io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        stream.set_read_timeout(Some(left(deadline)?))?;
        let read = stream.read(&mut bytes[filled..]);
        if matches!(read, Ok(0)) {
            let closed = "it closed the connection";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, closed));
        }
        filled += unless_again(read)?;
    }
    Ok(())
}

/// Turns an error that is worth trying again into "no bytes moved". Whether there is time to try again is
/// decided by [`left`].
fn unless_again(moved: io::Result<usize>) -> io::Result<usize> {
    match moved {
        Err(e) if matches!(e.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => Ok(0),
        moved => moved,
    }
}
