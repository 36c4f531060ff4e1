//! The uses of sockets that connecting nodes and the rendezvous share.

use std::io;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use loco_fabric::{Platform, Std, Time};

use super::handshake::HandshakeError;
use crate::hosts::Address;

/// Longest attempt to connect: a host that drops packets must not use up the deadline.
const ATTEMPT_MAX: Duration = Duration::from_secs(3);
/// First and longest pause between attempts: processes start at different times.
const RETRY_MIN: Duration = Duration::from_millis(5);
pub(super) const RETRY_MAX: Duration = Duration::from_millis(200);

/// The pauses between attempts to reach another process. Each is twice as long as the one before, within bounds.
pub(super) struct Retries {
    pause: Duration,
    deadline: Time,
}

impl Retries {
    pub(super) fn until(deadline: Time) -> Retries {
        Retries {
            pause: RETRY_MIN,
            deadline,
        }
    }

    /// Returns true if the next attempt would come too late.
    pub(super) fn are_over(&self) -> bool {
        self.deadline.since(Std.now()) <= self.pause
    }

    /// Waits before the next attempt.
    pub(super) fn pause(&mut self) {
        thread::sleep(self.pause);
        self.pause = (self.pause * 2).min(RETRY_MAX);
    }
}

/// Tries to connect, once at each address of the host, until one answers.
pub(super) fn connect_within(address: &Address, deadline: Time) -> Result<TcpStream, HandshakeError> {
    let mut last = None;
    // The name was resolved before, so an error here passes.
    for to in address.resolve().map_err(io::Error::other)? {
        let left = deadline.since(Std.now()).min(ATTEMPT_MAX);
        if left.is_zero() {
            break;
        }
        match TcpStream::connect_timeout(&to, left) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = Some(error),
        }
    }
    let late = || io::Error::new(io::ErrorKind::TimedOut, "no time was left to try");
    Err(last.unwrap_or_else(late).into())
}

/// Returns true if the other side has closed.
pub(super) fn is_gone(stream: &TcpStream) -> bool {
    let peek = |stream: &TcpStream| {
        stream.set_nonblocking(true)?;
        let peeked = stream.peek(&mut [0]);
        stream.set_nonblocking(false)?;
        peeked
    };
    match peek(stream) {
        Ok(n) => n == 0,
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
    }
}
