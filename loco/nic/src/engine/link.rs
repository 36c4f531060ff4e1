//! A connection to another NIC of the world, which carries messages in order. It never waits.
//!
//! To one of this host it is [`near`](super::near); to one of another host, an encrypted connection over TCP, which takes a while
//! to come about. Only such a one may fall silent.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::time::Duration;

use rustix::net::{RecvFlags, SendFlags};
use zerocopy::IntoBytes as _;

use super::near::Near;
use crate::wire::{Header, Message, flag, kind, take_off};

/// So many times at most, bytes of another host are taken at once.
const READS: usize = 16;
/// A link with so many bytes to write takes no more requests for now.
const BACKLOG: usize = 4 << 20;

/// The `ioctl` for the number of bytes that a socket has not sent. (`libc` has the one for those that are not acknowledged.)
const SIOCOUTQNSD: libc::Ioctl = 0x894b;

/// How bytes travel.
enum Way {
    /// To a process of this host.
    Here(Box<Near>),
    /// To a process of another host.
    There(Box<loco_job::Link>),
    /// To a process of another host, to which somebody connects meanwhile.
    Coming,
}

/// How long nothing has been acknowledged that is on its way to another host.
struct Silence {
    /// Bytes that were acknowledged at the last look.
    acknowledged: u64,
    /// Since when no more were, although some are on their way.
    since: Option<u64>,
}

/// A connection to another NIC.
pub(crate) struct Link {
    way: Way,
    input: Vec<u8>,
    /// Bytes that wait until the other side reads, from `written` on. While the link comes about, they are not encrypted.
    output: Vec<u8>,
    written: usize,
    /// Bytes that were ever given to the socket.
    given: u64,
    silence: Silence,
    /// When the other side was last heard or spoken to, and when the link is looked after next.
    pub spoken_at: u64,
    pub look_at: u64,
    /// Since when the link comes about.
    pub begun_at: u64,
    /// The number of the process at the other end, once it is known.
    pub peer: Option<u32>,
}

impl Link {
    fn of(way: Way, now: u64) -> Link {
        Link {
            way,
            input: Vec::new(),
            output: Vec::new(),
            written: 0,
            given: 0,
            silence: Silence {
                acknowledged: 0,
                since: None,
            },
            spoken_at: now,
            look_at: now,
            begun_at: now,
            peer: None,
        }
    }

    /// Makes a link of a connection to a process of this host.
    pub fn here(near: Near, now: u64) -> Link {
        Link::of(Way::Here(Box::new(near)), now)
    }

    /// Makes a link of a connection to a process of another host.
    ///
    /// # Errors
    /// Fails when the connection cannot be made non-blocking.
    pub fn there(connection: loco_job::Link, now: u64) -> io::Result<Link> {
        connection.stream().set_nonblocking(true)?;
        Ok(Link::of(Way::There(Box::new(connection)), now))
    }

    /// Makes a link that comes about later. What is sent waits for it.
    pub fn coming(now: u64) -> Link {
        Link::of(Way::Coming, now)
    }

    /// Gives a link that was to come about its connection, and sends what waits.
    ///
    /// # Errors
    /// Fails as [`Link::there`] and [`Link::flush`] do.
    pub fn has_come(&mut self, mut connection: loco_job::Link) -> io::Result<()> {
        connection.stream().set_nonblocking(true)?;
        self.output = connection.seal(&self.output)?;
        self.way = Way::There(Box::new(connection));
        self.flush()
    }

    /// Returns true until it has a connection.
    pub fn is_coming(&self) -> bool {
        matches!(self.way, Way::Coming)
    }

    /// Returns the connection to another host.
    fn far(&self) -> Option<&TcpStream> {
        match &self.way {
            Way::There(connection) => Some(connection.stream()),
            Way::Here(_) | Way::Coming => None,
        }
    }

    /// Returns true if the other side is of another host, and is connected.
    pub fn is_far(&self) -> bool {
        self.far().is_some()
    }

    /// Returns the descriptor, once there is one.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.way {
            Way::Here(near) => Some(near.descriptor()),
            Way::There(connection) => Some(connection.stream().as_fd()),
            Way::Coming => None,
        }
    }

    /// Returns for how long, in nanoseconds, the other host has acknowledged nothing although something is on its way to it. A
    /// host acknowledges by itself, also for a process that does not read.
    pub fn silence(&mut self, now: u64) -> u64 {
        let Some(stream) = self.far() else { return 0 };
        let kept = queued(stream, libc::TIOCOUTQ);
        let unsent = queued(stream, SIOCOUTQNSD);
        let acknowledged = self.given.saturating_sub(kept);
        // What is not sent waits for this host, whose link may be down, unless the other has no room for it.
        let is_due = kept > unsent || unsent > 0 && has_room(stream);
        if !is_due || acknowledged != self.silence.acknowledged {
            self.silence = Silence {
                acknowledged,
                since: is_due.then_some(now),
            };
            return 0;
        }
        now.saturating_sub(*self.silence.since.get_or_insert(now))
    }

    /// Returns whether nothing is on its way.
    pub fn is_quiet(&self) -> bool {
        self.far()
            .is_none_or(|stream| queued(stream, libc::TIOCOUTQ) == 0)
    }

    /// Lets nothing of what was sent reach the other host any more.
    pub fn cut(&self) {
        if let Some(stream) = self.far() {
            // Closing it then resets it.
            let _ = rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO));
        }
    }

    /// Returns true if it has bytes that wait for the other side to read.
    pub fn is_blocked(&self) -> bool {
        self.written < self.output.len()
    }

    /// Returns true if so much waits that requests should wait, too.
    pub fn is_crowded(&self) -> bool {
        match &self.way {
            Way::Here(_) => self.is_blocked(),
            Way::There(_) | Way::Coming => self.output.len() - self.written > BACKLOG,
        }
    }

    /// Returns true while it takes no requests of a process of this host, since that one does not take the answers to earlier ones.
    pub fn holds_back(&self) -> bool {
        self.is_blocked() && self.near().is_some_and(|near| !near.asks())
    }

    /// Returns the connection to a process of this host, if it is one.
    pub fn near(&self) -> Option<&Near> {
        match &self.way {
            Way::Here(near) => Some(near),
            Way::There(_) | Way::Coming => None,
        }
    }

    /// Leaves the shared memory to the parent of this process, which is a child of `fork` and has it not.
    pub fn leave_memory(&mut self) {
        if let Way::Here(near) = &mut self.way {
            near.leave_memory();
        }
    }

    /// Sends a message, or keeps what cannot be sent now.
    ///
    /// # Errors
    /// Fails when the other side is gone.
    pub fn send(&mut self, header: &Header, data: &[u8]) -> io::Result<()> {
        let mut header = *header;
        header.len = data.len() as u64;
        let head = header.as_bytes();
        match &mut self.way {
            Way::Here(near) => {
                let urgent = !header.has(flag::UNHURRIED) || header.kind != kind::ANSWER;
                let was_blocked = self.written < self.output.len();
                if was_blocked || !near.send([head, data], urgent)? {
                    self.output.extend_from_slice(head);
                    self.output.extend_from_slice(data);
                    return if was_blocked { Ok(()) } else { self.flush() };
                }
                Ok(())
            }
            Way::There(connection) => {
                let was_blocked = self.written < self.output.len();
                let sealed = connection.seal(&[head, data].concat())?;
                self.output.extend_from_slice(&sealed);
                if was_blocked { Ok(()) } else { self.flush() }
            }
            Way::Coming => {
                self.output.extend_from_slice(head);
                self.output.extend_from_slice(data);
                Ok(())
            }
        }
    }

    /// Sends what waits, as far as the other side reads.
    ///
    /// # Errors
    /// Fails when the other side is gone.
    pub fn flush(&mut self) -> io::Result<()> {
        while self.is_blocked() {
            if let Way::Here(near) = &mut self.way {
                let waits = &self.output[self.written..];
                let sent = near.send_some(waits)?;
                self.written += sent;
                if self.is_blocked() {
                    return Ok(());
                }
                break;
            }
            let Some(socket) = self.descriptor() else {
                return Ok(());
            };
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match rustix::net::send(socket, &self.output[self.written..], flags) {
                Ok(sent) => {
                    self.written += sent;
                    self.given += sent as u64;
                }
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        self.output.clear();
        self.written = 0;
        Ok(())
    }

    /// Takes the messages that have come, into `messages`. Those of another host come by way of a buffer. Returns false when the other
    /// side has closed the connection. What goes on coming is left for the next call.
    ///
    /// # Errors
    /// Fails when the other side is gone, or sends what is no message.
    pub fn receive(&mut self, buffer: &mut [u8], messages: &mut Vec<Message>) -> io::Result<bool> {
        let holds_back = self.holds_back();
        let connection = match &mut self.way {
            Way::Here(near) => {
                let goes_on = near.hear(messages)?;
                // What it wrote before its end has come.
                if !holds_back || !goes_on {
                    near.receive(&mut self.input, messages)?;
                }
                return Ok(goes_on);
            }
            Way::There(connection) => connection,
            Way::Coming => return Ok(true),
        };
        for _ in 0..READS {
            match rustix::net::recv(connection.stream(), &mut *buffer, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Ok(false),
                Ok((got, _)) => {
                    connection.open(&buffer[..got], &mut self.input)?;
                    take_off(&mut self.input, messages)?;
                    if got < buffer.len() {
                        return Ok(true);
                    }
                }
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    /// Takes the messages that have come from a process of this host without asking the system for anything.
    ///
    /// # Errors
    /// Fails when the other side sends what is no message.
    pub fn receive_near(&mut self, messages: &mut Vec<Message>) -> io::Result<()> {
        if self.holds_back() {
            return Ok(());
        }
        match &mut self.way {
            Way::Here(near) => near.receive(&mut self.input, messages),
            Way::There(_) | Way::Coming => Ok(()),
        }
    }
}

/// Returns what the system says of the bytes that a socket keeps.
#[allow(unsafe_code)]
fn queued(stream: &TcpStream, what: libc::Ioctl) -> u64 {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the descriptor is open, and both requests write an `int`.
    let asked = unsafe { libc::ioctl(stream.as_raw_fd(), what, &raw mut bytes) };
    if asked == 0 {
        u64::try_from(bytes).unwrap_or(0)
    } else {
        0
    }
}

/// Returns whether the other host takes more. Kernels before 5.16 do not say so.
#[allow(unsafe_code)]
fn has_room(stream: &TcpStream) -> bool {
    let mut info: libc::tcp_info = crate::ffi::zeroed();
    let mut len = libc::socklen_t::try_from(size_of::<libc::tcp_info>()).unwrap_or(0);
    // SAFETY: the descriptor is open, and there is room for as many bytes as `len` says.
    let asked = unsafe {
        let to = (&raw mut info).cast();
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            to,
            &raw mut len,
        )
    };
    asked == 0 && info.tcpi_snd_wnd > 0
}
