//! Other hosts of the world: how this process comes to theirs, and how theirs come to it.
//!
//! The launcher of each host dispatches its connections ([`loco_host::dispatch`]). What processes of two hosts say to each other is encrypted and
//! authenticated under the world's secret, as the control connections of a job are: who does not know it, says nothing that is
//! heard, and reads and writes no memory.

use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;

use loco_fabric::{Platform as _, Std};
use loco_host::dispatch::{
    self, ConnectRequest, Destination, HostTable, PendingConnections, REQUEST_PATIENCE,
};
use loco_job::{Link, Secret};

use crate::log;
use crate::threads::spawn;
use crate::world::{PREFIX, PROCESSES};

/// What the one who connects says after the handshake.
const PRESENT: u8 = 1;

/// The other hosts, and the secret that all of them know.
#[derive(Debug)]
pub(crate) struct Abroad {
    /// All hosts of the world.
    pub hosts: HostTable,
    secret: Secret,
}

impl Abroad {
    /// Reads what the launcher says of the hosts.
    pub fn read(hosts: &str, own: Option<u64>) -> Result<Abroad, String> {
        let own = own.and_then(|own| usize::try_from(own).ok());
        let own = own.ok_or("LOCO_NIC_HOSTS is set, and LOCO_NIC_HOST, the index of this one, is not")?;
        let secret = Secret::of_process().map_err(|error| error.to_string())?;
        Ok(Abroad {
            hosts: HostTable::parse(hosts, own, PROCESSES)
                .map_err(|error| format!("LOCO_NIC_HOSTS: {error}"))?,
            secret: secret.ok_or("a world of several hosts needs LOCO_SECRET or LOCO_SECRET_FILE")?,
        })
    }

    /// Returns the host of a process, unless it is this one.
    pub fn host_of(&self, number: u32) -> Option<usize> {
        let host = self.hosts.host_of(number);
        host.filter(|host| *host != self.hosts.own())
    }

    /// Returns the host with an address, unless it is this one.
    pub fn host_at(&self, address: IpAddr) -> Option<usize> {
        let host = self.hosts.host_at(address);
        host.filter(|host| *host != self.hosts.own())
    }

    /// Connects to a process of another host. Waits no longer than `patience`.
    ///
    /// # Errors
    /// As [`HostTable::connect`], and when the process does not know the secret.
    pub fn connect(&self, host: usize, destination: Destination, patience: Duration) -> io::Result<Link> {
        let deadline = Std.now().after(patience);
        let (stream, request) = self.hosts.connect(host, destination, patience)?;
        let mut link =
            Link::connect(stream, &self.secret, &purpose(&request), deadline).map_err(explained)?;
        link.write(&PRESENT, deadline)?;
        let stream = link.stream();
        stream.set_read_timeout(None)?;
        stream.set_write_timeout(None)?;
        Ok(link)
    }

    /// Begins to accept connections for a place. `accepted` is given each whose other side knows the secret, in a thread of its own.
    ///
    /// # Errors
    /// Fails when the folder cannot be written.
    pub fn accept(
        &'static self,
        folder: &File,
        place: u32,
        accepted: impl Fn(Link, Destination) + Send + Sync + 'static,
    ) -> io::Result<()> {
        let listener = UnixListener::bind(dispatch::socket_path(folder, PREFIX, place, dispatch::SOCKET))?;
        let accepted = Arc::new(accepted);
        let inside = Arc::new(PendingConnections::default());
        spawn("loco-nic-accept", move || {
            loop {
                let (stream, request) = match dispatch::accept(&listener) {
                    Ok(came) => came,
                    Err(error) => {
                        log::say(format_args!("cannot accept a connection: {error}"));
                        // There may be no descriptors for now.
                        std::thread::sleep(Duration::from_millis(20));
                        continue;
                    }
                };
                let from = stream
                    .peer_addr()
                    .map_or_else(|_| "nowhere".to_owned(), |from| from.to_string());
                let sent_away = |why: &dyn std::fmt::Display| {
                    log::say(format_args!("closed a connection from {from}: {why}"));
                };
                let Some(counted) = inside.one_more() else {
                    sent_away(&"too many connections are pending");
                    continue;
                };
                let (accepted, came_from) = (Arc::clone(&accepted), from.clone());
                let started = spawn("loco-nic-peer", move || {
                    let met = self.meet(stream, &request);
                    drop(counted);
                    match met {
                        Ok(link) => accepted(link, request.destination),
                        Err(why) => log::say(format_args!("closed a connection from {came_from}: {why}")),
                    }
                });
                if let Err(error) = started {
                    sent_away(&error);
                }
            }
        })
    }

    fn meet(&self, stream: std::net::TcpStream, request: &ConnectRequest) -> io::Result<Link> {
        let deadline = Std.now().after(REQUEST_PATIENCE);
        stream.set_nonblocking(false)?;
        let link = Link::accept(stream, &self.secret, &purpose(request), deadline);
        let explained = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof => error,
            _ => explained(error),
        };
        let mut link = link.map_err(explained)?;
        // One who only repeats what another has said gets no further.
        let _: u8 = link.read(deadline).map_err(explained)?;
        link.stream().set_read_timeout(None)?;
        link.stream().set_write_timeout(None)?;
        Ok(link)
    }

    /// Returns the address of this host.
    pub fn own_address(&self) -> IpAddr {
        self.hosts.own_address().ip()
    }
}

/// Returns what both sides of a connection authenticate beside their secret.
fn purpose(request: &ConnectRequest) -> Vec<u8> {
    [&b"loco nic, version 1"[..], &request.bytes()].concat()
}

/// Says what to do about a side that does not know the secret. One that was visited closes the connection.
fn explained(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => io::Error::new(
            io::ErrorKind::InvalidData,
            "it does not know the world's secret (LOCO_SECRET or LOCO_SECRET_FILE must be the same on all hosts)",
        ),
        _ => error,
    }
}

/// Returns whether connecting has failed because nobody is there, rather than because nothing is heard of the host.
pub(crate) fn is_nobody(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

/// Returns whom one who connects to an address wants to see.
pub(crate) fn at_port(space: u32, address: SocketAddr) -> Destination {
    Destination::Port {
        space: u16::try_from(space).unwrap_or(0),
        address,
    }
}
