//! A connection to another NIC of the world, which carries messages in order. It never waits.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{RecvFlags, SendFlags};
use zerocopy::IntoBytes as _;

use crate::wire::{HEADER, Header, Message};

/// A link with so many bytes to write takes no more requests for now.
const BACKLOG: usize = 4 << 20;

/// A connection to another NIC.
pub(crate) struct Link {
    stream: UnixStream,
    input: Vec<u8>,
    /// Bytes that wait until the other side reads, from `written` on.
    output: Vec<u8>,
    written: usize,
    /// The number of the process at the other end, once it is known.
    pub peer: Option<u32>,
}

impl Link {
    /// Makes a link of a connection.
    ///
    /// # Errors
    /// Fails when the connection cannot be made non-blocking.
    pub fn new(stream: UnixStream) -> io::Result<Link> {
        stream.set_nonblocking(true)?;
        Ok(Link {
            stream,
            input: Vec::new(),
            output: Vec::new(),
            written: 0,
            peer: None,
        })
    }

    /// Returns true if it has bytes that wait for the other side to read.
    pub fn is_blocked(&self) -> bool {
        self.written < self.output.len()
    }

    /// Returns true if so much waits that requests should wait, too.
    pub fn is_crowded(&self) -> bool {
        self.output.len() - self.written > BACKLOG
    }

    /// Sends a message, or keeps what cannot be sent now.
    ///
    /// # Errors
    /// Fails when the other side is gone.
    pub fn send(&mut self, header: &Header, data: &[u8]) -> io::Result<()> {
        let mut header = *header;
        header.len = data.len() as u64;
        let head = header.as_bytes();
        if self.is_blocked() {
            self.output.extend_from_slice(head);
            self.output.extend_from_slice(data);
            return Ok(());
        }
        let parts = [io::IoSlice::new(head), io::IoSlice::new(data)];
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let sent = rustix::net::sendmsg(&self.stream, &parts, &mut Default::default(), flags);
        let sent = match sent {
            Ok(sent) => sent,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => 0,
            Err(error) => return Err(error.into()),
        };
        self.output.extend_from_slice(&head[sent.min(HEADER)..]);
        self.output
            .extend_from_slice(&data[sent.saturating_sub(HEADER)..]);
        Ok(())
    }

    /// Sends what waits, as far as the other side reads.
    ///
    /// # Errors
    /// Fails when the other side is gone.
    pub fn flush(&mut self) -> io::Result<()> {
        while self.is_blocked() {
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match rustix::net::send(&self.stream, &self.output[self.written..], flags) {
                Ok(sent) => self.written += sent,
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        self.output.clear();
        self.written = 0;
        Ok(())
    }

    /// Takes the messages that have come, into `messages`, by way of a buffer. Returns false when the other side has closed the
    /// connection.
    ///
    /// # Errors
    /// Fails when the other side is gone, or sends what is no message.
    pub fn receive(&mut self, buffer: &mut [u8], messages: &mut Vec<Message>) -> io::Result<bool> {
        loop {
            match rustix::net::recv(&self.stream, &mut *buffer, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Ok(false),
                Ok((got, _)) => {
                    self.input.extend_from_slice(&buffer[..got]);
                    self.cut(messages)?;
                    if got < buffer.len() {
                        return Ok(true);
                    }
                }
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Cuts whole messages off the input.
    fn cut(&mut self, messages: &mut Vec<Message>) -> io::Result<()> {
        let mut at = 0;
        while self.input.len() - at >= HEADER {
            let header = Header::read(&self.input[at..])
                .map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))?;
            let len = usize::try_from(header.len).map_err(io::Error::other)?;
            if self.input.len() - at - HEADER < len {
                break;
            }
            let data = self.input[at + HEADER..at + HEADER + len].to_vec();
            messages.push(Message { header, data });
            at += HEADER + len;
        }
        self.input.drain(..at);
        Ok(())
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
