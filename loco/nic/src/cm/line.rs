//! The connection of two connection managers: a socket in the folder, or an encrypted connection to another host.
//!
//! A child of `fork` shares the socket with its parent, whose connection it is: the child says nothing there, and does not end it.

use std::io::{self, Read as _};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;

use loco_job::Link;
use rustix::net::SendFlags;

use crate::child::is_child;
use crate::events::lock;

/// A connection. One thread reads it, and any may write.
pub(super) enum Line {
    /// To a process of this host.
    Here(UnixStream),
    /// To a process of another host.
    There(There),
}

/// A connection to a process of another host.
pub(super) struct There {
    stream: TcpStream,
    link: Mutex<Link>,
    /// Held while something is sealed and written, so that records go out in their order.
    writing: Mutex<()>,
    /// What has come, and is not taken yet.
    came: Mutex<Vec<u8>>,
}

impl Line {
    /// Makes a connection to another host.
    ///
    /// # Errors
    /// Fails when the process may open no more descriptors.
    pub fn there(link: Link) -> io::Result<Line> {
        let stream = link.stream().try_clone()?;
        stream.set_nonblocking(false)?;
        Ok(Line::There(There {
            stream,
            link: Mutex::new(link),
            writing: Mutex::new(()),
            came: Mutex::new(Vec::new()),
        }))
    }

    /// Writes bytes.
    ///
    /// # Errors
    /// Fails when the other side is gone, and in a child of `fork`.
    pub fn send(&self, bytes: &[u8]) -> io::Result<()> {
        if is_child() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        match self {
            Line::Here(stream) => send_all(stream.as_fd(), bytes),
            Line::There(there) => {
                let _writing = lock(&there.writing);
                let sealed = lock(&there.link).seal(bytes)?;
                send_all(there.stream.as_fd(), &sealed)
            }
        }
    }

    /// Waits for so many bytes.
    ///
    /// # Errors
    /// Fails when the other side is gone, or something has come that it did not send.
    pub fn read_exact(&self, to: &mut [u8]) -> io::Result<()> {
        let there = match self {
            Line::Here(stream) => return { stream }.read_exact(to),
            Line::There(there) => there,
        };
        let mut came = lock(&there.came);
        let mut buffer = [0; 4096];
        while came.len() < to.len() {
            match (&there.stream).read(&mut buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(got) => lock(&there.link).open(&buffer[..got], &mut came)?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        to.copy_from_slice(&came[..to.len()]);
        came.drain(..to.len());
        Ok(())
    }

    /// Ends the connection, also for a thread that waits for it. In a child of `fork`, it goes on: it is the parent's.
    pub fn shut(&self) {
        if is_child() {
            return;
        }
        let _ = match self {
            Line::Here(stream) => stream.shutdown(Shutdown::Both),
            Line::There(there) => there.stream.shutdown(Shutdown::Both),
        };
    }
}

/// Writes all bytes. Without the flag, a peer that is gone would end the program by a signal.
fn send_all(to: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::net::send(to, bytes, SendFlags::NOSIGNAL) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
