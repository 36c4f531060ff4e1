//! One TCP port of a host, over which processes of other hosts connect to those that have [`places`] in a folder.
//!
//! A process connects to that port, and says to whom it wants a connection: [`ConnectRequest`]. The host's [`Dispatcher`] finds that process
//! by its files in the folder, and hands the connection over to it, through a socket in the folder: [`pass`], [`accept`]. The
//! dispatcher knows no secret, and sees nothing of what the two say after that. It is the receiving process that makes sure whom it
//! talks to.
//!
//! A request is not trusted. A connection on which another message comes, or none, is closed after [`REQUEST_PATIENCE`], and so is any
//! while [`PENDING_MAX`] others are pending.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg, sockopt,
};

use crate::places;

/// The time in which a request must arrive.
pub const REQUEST_PATIENCE: Duration = Duration::from_secs(5);
/// The number of connections that may be pending at a port, or at one process, at once.
pub const PENDING_MAX: usize = 64;
/// The kind of the socket over which a process gets its connections.
pub const SOCKET: &str = "accept";
/// The most hosts of a world.
pub const HOSTS_MAX: usize = 64;

/// The time for which connecting to a port at which nobody listens is tried again: one dispatcher may follow another.
const CLOSED_PATIENCE: Duration = Duration::from_secs(1);
/// The pause before another attempt.
const PAUSE: Duration = Duration::from_millis(20);
/// The time without traffic after which the system probes whether the other end lives, and the time between two
/// probes.
const LOOK: Duration = Duration::from_secs(1);
const LOOKS: u32 = 3;
/// The time in milliseconds after which a connection ends because what was sent on it is not acknowledged.
const UNHEARD_MS: u32 = 30_000;

const MAGIC: [u8; 4] = *b"lnd\x01";
const REQUEST_BYTES: usize = 36;
const TO_PROCESS: u16 = 1;
const TO_PORT: u16 = 2;

/// The answers of a dispatcher to a request.
mod answer {
    pub(super) const PASSED: u8 = 1;
    pub(super) const NOBODY: u8 = 2;
    pub(super) const OTHER_HOSTS: u8 = 3;
}

/// The addresses of the hosts of a world, and which numbers the processes behind each have. Numbers are unique in the world, and
/// places in the folder of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostTable {
    at: Vec<SocketAddr>,
    own: usize,
    numbers: u32,
}

impl HostTable {
    /// Makes the table of the hosts whose dispatchers listen at these addresses; `own` is the index of this one. `numbers` is how many
    /// processes all of them may have.
    ///
    /// # Errors
    /// Returns what is wrong, in words: more than 64 hosts, two at one address, or an index without a host.
    pub fn new(at: Vec<SocketAddr>, own: usize, numbers: u32) -> Result<HostTable, String> {
        if own >= at.len() {
            return Err(format!("there is no host {own} among {}", at.len()));
        }
        if at.len() > HOSTS_MAX {
            return Err(format!("{} hosts are more than {HOSTS_MAX}", at.len()));
        }
        for (index, address) in at.iter().enumerate() {
            if at[..index].iter().any(|other| other.ip() == address.ip()) {
                return Err(format!("two hosts have the address {}", address.ip()));
            }
        }
        Ok(HostTable { at, own, numbers })
    }

    /// Reads what [`text`](HostTable::text) has written.
    ///
    /// # Errors
    /// Returns the errors of [`HostTable::new`], and a text for what [`text`](HostTable::text) cannot have written.
    pub fn parse(text: &str, own: usize, numbers: u32) -> Result<HostTable, String> {
        let at: Result<Vec<SocketAddr>, String> = text
            .split_whitespace()
            .map(|word| {
                word.parse()
                    .map_err(|_| format!("`{word}` is no address with a port"))
            })
            .collect();
        HostTable::new(at?, own, numbers)
    }

    /// Writes the addresses as one line.
    pub fn text(&self) -> String {
        let words: Vec<String> = self.at.iter().map(SocketAddr::to_string).collect();
        words.join(" ")
    }

    /// Returns the index of this host.
    pub fn own(&self) -> usize {
        self.own
    }

    /// Returns the address at which this host's dispatcher listens.
    pub fn own_address(&self) -> SocketAddr {
        self.at[self.own]
    }

    /// Returns how many numbers each host has. Places are numbers below it.
    pub fn numbers_each(&self) -> u32 {
        // There are at most `HOSTS_MAX`.
        self.numbers / u32::try_from(self.at.len()).unwrap_or(u32::MAX)
    }

    /// Returns the number of the process at a place of this host.
    pub fn number(&self, place: u32) -> u32 {
        u32::try_from(self.own).unwrap_or(0) * self.numbers_each() + place
    }

    /// Returns the place of a number of this host.
    pub fn place(&self, number: u32) -> Option<u32> {
        (self.host_of(number) == Some(self.own)).then(|| number % self.numbers_each())
    }

    /// Returns the host of a number.
    pub fn host_of(&self, number: u32) -> Option<usize> {
        let host = usize::try_from(number / self.numbers_each()).ok()?;
        (host < self.at.len()).then_some(host)
    }

    /// Returns the host with an address.
    pub fn host_at(&self, address: IpAddr) -> Option<usize> {
        let address = address.to_canonical();
        self.at
            .iter()
            .position(|host| host.ip().to_canonical() == address)
    }

    /// Asks the dispatcher of a host for a connection to a destination, and returns it.
    ///
    /// # Errors
    /// Fails with [`NotFound`](io::ErrorKind::NotFound) when no process of that host has the destination, with
    /// [`InvalidData`](io::ErrorKind::InvalidData) when the host has another list of hosts or is no host of a world,
    /// with [`TimedOut`](io::ErrorKind::TimedOut) when it does not answer within `patience`, and with the system's
    /// error when connecting fails. Nothing is left behind then.
    pub fn connect(
        &self,
        host: usize,
        destination: Destination,
        patience: Duration,
    ) -> io::Result<(TcpStream, ConnectRequest)> {
        let request = ConnectRequest {
            hosts: self.count(),
            from: index(self.own),
            to: index(host),
            destination,
        };
        let begun = Instant::now();
        let Some(&address) = self.at.get(host) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        loop {
            let left = patience.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Err(silent(address));
            }
            let error = match connect_once(address, &request, left) {
                Ok(stream) => return Ok((stream, request)),
                Err(error) => error,
            };
            let again = match error.kind() {
                io::ErrorKind::ConnectionRefused => begun.elapsed() < CLOSED_PATIENCE,
                // Too many are pending, or the dispatcher has just ended.
                io::ErrorKind::UnexpectedEof
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::Interrupted => true,
                _ => false,
            };
            if !again {
                return Err(error);
            }
            thread::sleep(PAUSE);
        }
    }

    fn count(&self) -> u16 {
        index(self.at.len())
    }
}

/// Returns a small number in the form in which it is sent.
fn index(of: usize) -> u16 {
    u16::try_from(of).unwrap_or(u16::MAX)
}

fn silent(address: SocketAddr) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("{address} does not answer"))
}

fn connect_once(address: SocketAddr, request: &ConnectRequest, patience: Duration) -> io::Result<TcpStream> {
    let begun = Instant::now();
    let mut stream = TcpStream::connect_timeout(&address, patience)?;
    tend(&stream)?;
    stream.write_all(&request.bytes())?;
    let mut said = [0];
    read_all(&stream, &mut said, begun + patience)?;
    let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("{address} {what}"));
    match said[0] {
        answer::PASSED => Ok(stream),
        answer::NOBODY => Err(io::ErrorKind::NotFound.into()),
        answer::OTHER_HOSTS => Err(invalid("has another list of hosts; give all hosts the same file")),
        _ => Err(invalid("is no dispatcher of a world of this version")),
    }
}

/// Lets a connection send at once, and end by itself when the other host is gone.
fn tend(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, LOOK)?;
    sockopt::set_tcp_keepintvl(stream, LOOK)?;
    sockopt::set_tcp_keepcnt(stream, LOOKS)?;
    sockopt::set_tcp_user_timeout(stream, UNHEARD_MS)?;
    Ok(())
}

/// Fills a buffer, however slowly the other side writes, but not past a time.
fn read_all(mut stream: &TcpStream, mut to: &mut [u8], until: Instant) -> io::Result<()> {
    while !to.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it says nothing"));
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(to) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(got) => to = &mut to[got..],
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Where a connection is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// The process with this number.
    Process(u32),
    /// The process that listens on a port of a port space, at this address.
    Port {
        /// The port space.
        space: u16,
        /// The address and the port.
        address: SocketAddr,
    },
}

/// The first message on a connection. Both sides know it, and can authenticate it to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectRequest {
    /// The number of hosts in the sender's world.
    pub hosts: u16,
    /// The sender's host.
    pub from: u16,
    /// The host that the sender takes the receiver for.
    pub to: u16,
    /// Where the connection is to end.
    pub destination: Destination,
}

impl ConnectRequest {
    /// Returns the message in the form in which it is sent.
    pub fn bytes(&self) -> [u8; REQUEST_BYTES] {
        let (kind, number, space, port, ip) = match self.destination {
            Destination::Process(number) => (TO_PROCESS, number, 0, 0, Ipv6Addr::UNSPECIFIED),
            Destination::Port { space, address } => {
                let ip = match address.ip() {
                    IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                    IpAddr::V6(ip) => ip,
                };
                (TO_PORT, 0, space, address.port(), ip)
            }
        };
        let mut bytes = [0; REQUEST_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        for (at, value) in [self.hosts, self.from, self.to, kind].into_iter().enumerate() {
            bytes[4 + 2 * at..6 + 2 * at].copy_from_slice(&value.to_le_bytes());
        }
        bytes[12..16].copy_from_slice(&number.to_le_bytes());
        bytes[16..18].copy_from_slice(&space.to_le_bytes());
        bytes[18..20].copy_from_slice(&port.to_le_bytes());
        bytes[20..].copy_from_slice(&ip.octets());
        bytes
    }

    /// Reads what [`bytes`](ConnectRequest::bytes) has written.
    ///
    /// # Errors
    /// Returns what is wrong, in words.
    pub fn read(bytes: &[u8; REQUEST_BYTES]) -> Result<ConnectRequest, &'static str> {
        if bytes[..4] != MAGIC {
            return Err("it does not speak as a NIC of this version");
        }
        let short = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let mut ip = [0; 16];
        ip.copy_from_slice(&bytes[20..]);
        let destination = match short(10) {
            TO_PROCESS => {
                Destination::Process(u32::from_le_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]))
            }
            TO_PORT => Destination::Port {
                space: short(16),
                address: SocketAddr::new(IpAddr::V6(ip.into()).to_canonical(), short(18)),
            },
            _ => return Err("its destination is of no kind that is known"),
        };
        Ok(ConnectRequest {
            hosts: short(4),
            from: short(6),
            to: short(8),
            destination,
        })
    }
}

/// Returns the kind of the file of a process that listens on a port of a port space. Its lines are the addresses.
pub fn port_file(space: u32, port: u16) -> String {
    format!("port-{space:x}-{port}")
}

/// Returns the files of the processes that listen on a port, each with its place.
pub fn on_port(folder: &Path, prefix: &str, space: u32, port: u16) -> Vec<(u32, PathBuf)> {
    let kind = port_file(space, port);
    let names = places::names(folder, prefix).unwrap_or_default();
    names
        .iter()
        .filter_map(|name| {
            let (place, of) = places::parsed(prefix, name)?;
            (of == kind).then(|| (place, folder.join(name)))
        })
        .collect()
}

/// Returns whether the file of a process that listens names this address.
pub fn has_address(file: &Path, address: IpAddr) -> bool {
    places::read(file).lines().any(|line| line.parse() == Ok(address))
}

/// Returns the path of a socket in a folder, through the opened folder: short enough for the address of a socket.
pub fn socket_path(opened: &File, prefix: &str, place: u32, kind: &str) -> PathBuf {
    let name = places::named(prefix, place, kind);
    format!("/proc/self/fd/{}/{name}", opened.as_raw_fd()).into()
}

/// Accepts the connections from other hosts, and hands them over to the processes of this one.
#[derive(Debug)]
pub struct Dispatcher {
    /// The hosts.
    pub hosts: HostTable,
    /// The folder of the processes of this host.
    pub folder: PathBuf,
    /// The beginning of the names of their files.
    pub prefix: &'static str,
}

impl Dispatcher {
    /// Begins to listen.
    ///
    /// # Errors
    /// Fails with [`AddrInUse`](io::ErrorKind::AddrInUse) when another program listens there, and with the system's
    /// other errors of listening.
    pub fn open(&self) -> io::Result<TcpListener> {
        TcpListener::bind(self.hosts.own_address())
    }

    /// Dispatches connections, for ever. Calls `say` with the reason for each that it closes.
    pub fn serve(self: &Arc<Self>, listener: &TcpListener, say: impl Fn(String) + Send + Sync + 'static) {
        let say = Arc::new(say);
        let pending = Arc::new(PendingConnections::default());
        loop {
            let (stream, from) = match listener.accept() {
                Ok(came) => came,
                Err(_) => {
                    // There may be no descriptors for now.
                    thread::sleep(PAUSE);
                    continue;
                }
            };
            let Some(counted) = pending.one_more() else {
                say(format!(
                    "closed a connection from {from}: too many connections are pending"
                ));
                continue;
            };
            let (dispatcher, said) = (Arc::clone(self), Arc::clone(&say));
            let started = thread::Builder::new()
                .name("loco-dispatch".to_owned())
                .spawn(move || {
                    let _counted = counted;
                    if let Err(why) = dispatcher.hear(&stream) {
                        said(format!("closed a connection from {from}: {why}"));
                    }
                });
            if let Err(error) = started {
                say(format!("closed a connection from {from}: {error}"));
            }
        }
    }

    fn hear(&self, mut stream: &TcpStream) -> io::Result<()> {
        tend(stream)?;
        let mut bytes = [0; REQUEST_BYTES];
        read_all(stream, &mut bytes, Instant::now() + REQUEST_PATIENCE).map_err(|error| {
            match error.kind() {
                io::ErrorKind::UnexpectedEof => io::Error::other("it sent no request"),
                _ => error,
            }
        })?;
        let request = ConnectRequest::read(&bytes).map_err(io::Error::other)?;
        let own = index(self.hosts.own);
        if request.hosts != self.hosts.count()
            || request.to != own
            || request.from == own
            || request.from >= request.hosts
        {
            let _ = stream.write_all(&[answer::OTHER_HOSTS]);
            return Err(io::Error::other(format!(
                "it is host {} of {} and wants host {}; this is host {own} of {}: the lists of hosts differ",
                request.from,
                request.hosts,
                request.to,
                self.hosts.count()
            )));
        }
        let opened = File::open(&self.folder)?;
        let passed = self.candidates(&request.destination).into_iter().any(|place| {
            let path = socket_path(&opened, self.prefix, place, SOCKET);
            pass(&path, stream, &request).is_ok()
        });
        // The sender speaks next, so nobody has read or written since the connection was handed over.
        stream.write_all(&[if passed { answer::PASSED } else { answer::NOBODY }])
    }

    /// Returns the places of the processes that may have the destination.
    fn candidates(&self, destination: &Destination) -> Vec<u32> {
        match *destination {
            Destination::Process(number) => self.hosts.place(number).into_iter().collect(),
            Destination::Port { space, address } => {
                on_port(&self.folder, self.prefix, u32::from(space), address.port())
                    .into_iter()
                    .filter(|(_, file)| has_address(file, address.ip()))
                    .map(|(place, _)| place)
                    .collect()
            }
        }
    }
}

/// Hands a connection over to the process that accepts them at a socket.
///
/// # Errors
/// Fails when no process accepts at that socket.
pub fn pass(socket: &Path, stream: &TcpStream, request: &ConnectRequest) -> io::Result<()> {
    let to = UnixStream::connect(socket)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut with = SendAncillaryBuffer::new(&mut space);
    let descriptors = [stream.as_fd()];
    with.push(SendAncillaryMessage::ScmRights(&descriptors));
    let bytes = request.bytes();
    let sent = sendmsg(&to, &[IoSlice::new(&bytes)], &mut with, SendFlags::NOSIGNAL)?;
    if sent == bytes.len() {
        Ok(())
    } else {
        Err(io::ErrorKind::WriteZero.into())
    }
}

/// Returns the next connection that was handed over.
///
/// # Errors
/// Fails when the system has no descriptor left, or when what came on the socket is no connection.
pub fn accept(listener: &UnixListener) -> io::Result<(TcpStream, ConnectRequest)> {
    let (from, _) = listener.accept()?;
    from.set_read_timeout(Some(REQUEST_PATIENCE))?;
    let mut bytes = [0; REQUEST_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut with = RecvAncillaryBuffer::new(&mut space);
    let got = recvmsg(
        &from,
        &mut [IoSliceMut::new(&mut bytes)],
        &mut with,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let descriptors = with.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    let invalid = |why| io::Error::new(io::ErrorKind::InvalidData, why);
    if got.bytes != bytes.len() {
        return Err(invalid("no request came with the connection"));
    }
    let request = ConnectRequest::read(&bytes).map_err(invalid)?;
    let stream = descriptors.ok_or_else(|| invalid("no connection came with the request"))?;
    Ok((TcpStream::from(stream), request))
}

/// Counts the connections that are pending at one place, [`PENDING_MAX`] at most.
#[derive(Debug, Default)]
pub struct PendingConnections(AtomicUsize);

/// Counts as one of [`PendingConnections`] until it is dropped.
#[derive(Debug)]
pub struct PendingConnection(Arc<PendingConnections>);

impl PendingConnections {
    /// Counts one more, or returns `None` if there are [`PENDING_MAX`].
    pub fn one_more(self: &Arc<Self>) -> Option<PendingConnection> {
        let count = |now: usize| (now < PENDING_MAX).then_some(now + 1);
        let counted = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count);
        counted.is_ok().then(|| PendingConnection(Arc::clone(self)))
    }
}

impl Drop for PendingConnection {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[path = "dispatch_tests.rs"]
mod tests;
