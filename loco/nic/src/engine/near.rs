//! The connection to a NIC of this host: shared memory for messages, and a socket and bells beside it.
//!
//! The one that connects makes the [`Ring`] and sends it with its hello, and its bell, which is the `eventfd` on which its thread
//! sleeps. The other answers with its own. After that the socket says only that the other process has ended; until the bell has
//! come, a byte on the socket stands for it. [`Link`](super::link::Link) keeps what has no room in the ring.
//!
//! A connection keeps two descriptors: the socket and the other side's bell. No call takes more than what had come when it began, so
//! that a neighbour that goes on writing keeps nobody else waiting.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::fs::OFlags;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use zerocopy::IntoBytes as _;

use super::ring::{Ring, Wake};
use crate::wire::{HEADER, Header, Message, kind, take_off};

/// The byte that stands for a bell.
const RING_THE_BELL: u8 = 1;
/// The most descriptors that come with a hello.
const DESCRIPTORS: usize = 2;
/// The most pieces of a hello, or bells, that are taken from the socket at once.
const PIECES: usize = 16;

/// What is said when a connection begins: a hello in this process's name, and its bell.
pub(super) struct Greeting<'g> {
    pub hello: Header,
    pub bell: BorrowedFd<'g>,
}

enum Role {
    /// This side has connected to the process with this number.
    Asks(u32),
    /// This side answers a hello with its own, and its bell. `None` once it has.
    Serves(Option<(Header, OwnedFd)>),
}

/// A connection to a NIC of this host.
pub(super) struct Near {
    stream: UnixStream,
    /// There is none until the other side, which has connected, has said hello.
    ring: Option<Ring>,
    /// The other side's bell, once it is known.
    bell: Option<OwnedFd>,
    /// Who is to answer, or what this side answers.
    role: Role,
    /// What has come of the other side's hello, and the descriptors with it. `None` once it is whole.
    hello: Option<(Vec<u8>, Vec<OwnedFd>)>,
}

fn garbage(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Returns whether a descriptor is an `eventfd` to which one may write without waiting.
fn is_bell(descriptor: &OwnedFd) -> bool {
    use std::os::fd::AsRawFd as _;
    let name = std::fs::read_link(format!("/proc/self/fd/{}", descriptor.as_raw_fd()));
    let never_waits = rustix::fs::fcntl_getfl(descriptor).is_ok_and(|flags| flags.contains(OFlags::NONBLOCK));
    never_waits && name.is_ok_and(|name| name.as_os_str() == "anon_inode:[eventfd]")
}

impl Near {
    /// Says hello to the NIC of process `peer`, to which this one has connected.
    ///
    /// # Errors
    /// Fails when there is no memory for the ring, or the other side is gone.
    pub fn connected(stream: UnixStream, peer: u32, greeting: &Greeting<'_>) -> io::Result<Near> {
        stream.set_nonblocking(true)?;
        let (ring, memory) = Ring::make()?;
        greet(&stream, &greeting.hello, &[memory.as_fd(), greeting.bell])?;
        Ok(Near {
            stream,
            ring: Some(ring),
            bell: None,
            role: Role::Asks(peer),
            hello: Some((Vec::new(), Vec::new())),
        })
    }

    /// Takes a connection in, whose hello is to come.
    ///
    /// # Errors
    /// Fails when no descriptor is left.
    pub fn accepted(stream: UnixStream, greeting: &Greeting<'_>) -> io::Result<Near> {
        stream.set_nonblocking(true)?;
        Ok(Near {
            stream,
            ring: None,
            bell: None,
            role: Role::Serves(Some((greeting.hello, greeting.bell.try_clone_to_owned()?))),
            hello: Some((Vec::new(), Vec::new())),
        })
    }

    /// Returns the socket.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Returns true for the side that has connected, to which only answers come.
    pub fn asks(&self) -> bool {
        matches!(self.role, Role::Asks(_))
    }

    /// Forgets the ring, whose memory is not mapped in a child of `fork`: what is there now may be another's.
    pub fn leave_memory(&mut self) {
        std::mem::forget(self.ring.take());
    }

    /// Puts parts of a message into the ring, if there is room for all of them. Returns false if there is not.
    ///
    /// # Errors
    /// Fails when the other side breaks the rules, or has not said hello.
    pub fn send(&mut self, parts: [&[u8]; 2], urgent: bool) -> io::Result<bool> {
        let Some(ring) = &mut self.ring else {
            return Err(garbage("a message has nobody to go to"));
        };
        if ring.room()? < parts[0].len() + parts[1].len() {
            return Ok(false);
        }
        parts.iter().for_each(|part| ring.write(part));
        if ring.publish(urgent) {
            self.ring_bell();
        }
        Ok(true)
    }

    /// Puts as many bytes into the ring as there is room for, and returns their number. If it is not all, the bell rings when there
    /// is room.
    ///
    /// # Errors
    /// Fails as [`send`](Near::send) does.
    pub fn send_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(ring) = &mut self.ring else {
            return Err(garbage("a message has nobody to go to"));
        };
        let mut sent = 0;
        while sent < bytes.len() {
            let part = ring.room()?.min(bytes.len() - sent);
            if part == 0 && ring.ask_for_room()? {
                break;
            }
            ring.write(&bytes[sent..sent + part]);
            sent += part;
        }
        // Also if there was no room at all: the ring may be full of what has woken nobody, and nothing wakes for bytes that wait outside.
        if !bytes.is_empty() && ring.publish(true) {
            self.ring_bell();
        }
        Ok(sent)
    }

    /// Wakes the other side's thread.
    fn ring_bell(&self) {
        if let Some(ring) = &self.ring {
            ring.rings_on(rustix::thread::sched_getcpu());
        }
        let rung = match &self.bell {
            Some(bell) => rustix::io::write(bell, &1_u64.to_ne_bytes()),
            None => {
                let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
                rustix::net::send(&self.stream, &[RING_THE_BELL], flags)
            }
        };
        // If the other side is gone, the socket says so. If it is full of bells, one of them is heard.
        let _ = rung;
    }

    /// Takes the messages that have come by the ring until now. `input` has the beginning of one that has not come whole. What comes
    /// meanwhile is left for the next call.
    ///
    /// # Errors
    /// Fails when the other side sends what is no message.
    pub fn receive(&mut self, input: &mut Vec<u8>, messages: &mut Vec<Message>) -> io::Result<()> {
        let Some(ring) = &mut self.ring else { return Ok(()) };
        let come = ring.come()?;
        let mut left = come;
        while left > 0 {
            if input.is_empty() && left >= HEADER {
                let mut head = [0; HEADER];
                ring.peek(0, &mut head);
                let header = Header::read(&head).map_err(garbage)?;
                let len = usize::try_from(header.len).map_err(io::Error::other)?;
                if left - HEADER >= len {
                    let mut data = vec![0; len];
                    ring.peek(HEADER, &mut data);
                    ring.consume(HEADER + len);
                    left -= HEADER + len;
                    messages.push(Message { header, data });
                    continue;
                }
            }
            let start = input.len();
            input.resize(start + left, 0);
            ring.peek(0, &mut input[start..]);
            ring.consume(left);
            left = 0;
            take_off(input, messages)?;
        }
        if come > 0 && ring.is_room_wanted() {
            self.ring_bell();
        }
        Ok(())
    }

    /// Takes what has come over the socket: a hello, and bells. Returns false when the other side is gone. More pieces than a few are
    /// left for the next call.
    ///
    /// # Errors
    /// Fails when the other side sends what is neither.
    pub fn hear(&mut self, messages: &mut Vec<Message>) -> io::Result<bool> {
        let mut buffer = [0; HEADER];
        for _ in 0..PIECES {
            let room = self
                .hello
                .as_ref()
                .map_or(HEADER, |(come, _)| HEADER - come.len());
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
            let mut descriptors = RecvAncillaryBuffer::new(&mut space);
            let mut into = [IoSliceMut::new(&mut buffer[..room])];
            let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
            let come = match rustix::net::recvmsg(&self.stream, &mut into, &mut descriptors, flags) {
                // Those that were let in are closed with the buffer.
                Ok(message) if message.flags.contains(ReturnFlags::CTRUNC) => {
                    return Err(garbage(
                        "a hello comes with more descriptors than belong to it, or than this process may open (see `ulimit -n`)",
                    ));
                }
                Ok(message) if message.bytes > 0 => message.bytes,
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(true),
                // It has ended, maybe without having read what this side said.
                Ok(_) | Err(_) => return Ok(false),
            };
            let Some((hello, with)) = &mut self.hello else {
                if buffer[..come].iter().any(|byte| *byte != RING_THE_BELL) {
                    return Err(garbage("this is no bell"));
                }
                continue;
            };
            hello.extend_from_slice(&buffer[..come]);
            for message in descriptors.drain() {
                if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                    with.extend(descriptors);
                }
            }
            if with.len() > DESCRIPTORS {
                return Err(garbage("a hello comes with more descriptors than belong to it"));
            }
            if hello.len() == HEADER {
                let header = Header::read(hello).map_err(garbage)?;
                let with = std::mem::take(with);
                self.hello = None;
                if self.has_greeted(&header, with)? {
                    messages.push(Message {
                        header,
                        data: Vec::new(),
                    });
                }
            }
        }
        Ok(true)
    }

    /// Takes the other side's hello, and answers it if it has connected. Returns true if this side learns from it who it is.
    fn has_greeted(&mut self, header: &Header, mut with: Vec<OwnedFd>) -> io::Result<bool> {
        if header.kind != kind::HELLO {
            return Err(garbage("a message came before a hello"));
        }
        self.bell = with.pop().filter(is_bell);
        if self.bell.is_none() {
            return Err(garbage("a hello comes without a bell"));
        }
        match &mut self.role {
            Role::Asks(peer) if header.from == *peer => Ok(false),
            Role::Asks(_) => Err(garbage("a hello is in another's name")),
            Role::Serves(answer) => {
                let memory = with
                    .pop()
                    .ok_or_else(|| garbage("a hello comes without a ring"))?;
                self.ring = Some(Ring::join(&memory)?);
                if let Some((hello, bell)) = answer.take() {
                    // One that has ended already has left messages, and needs no answer.
                    let _ = greet(&self.stream, &hello, &[bell.as_fd()]);
                }
                Ok(true)
            }
        }
    }

    /// Says what to be woken for.
    pub fn wake_for(&self, wake: Wake) {
        if let Some(ring) = &self.ring {
            ring.wake_for(wake);
        }
    }

    /// Returns on which processor the other side was when it last rang, once.
    pub fn rang_on(&self) -> Option<usize> {
        self.ring.as_ref()?.rang_on()
    }

    /// Returns whether nothing has come by the ring. What cannot be counts as something.
    pub fn is_empty(&self) -> bool {
        self.ring
            .as_ref()
            .is_none_or(|ring| ring.come().is_ok_and(|come| come == 0))
    }
}

/// Sends a hello with descriptors.
fn greet(stream: &UnixStream, hello: &Header, with: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut descriptors = SendAncillaryBuffer::new(&mut space);
    descriptors.push(SendAncillaryMessage::ScmRights(with));
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let sent = rustix::net::sendmsg(stream, &[IoSlice::new(hello.as_bytes())], &mut descriptors, flags)?;
    if sent < HEADER {
        // The socket is new, and has room for thousands of bytes.
        return Err(io::ErrorKind::WriteZero.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
