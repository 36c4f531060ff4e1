//! How the connections are made: every node listens for a while, and connects to the nodes before it.
//!
//! The nodes give one another their addresses and a share of a secret over the mesh, which is encrypted and authenticated
//! under the job's. A connection is used only when the other side has shown that it knows the shares of all. Once all
//! connections are made nobody listens any more, so a node that was shut out cannot come back.
//!
//! Relies on `loco_job` for the handshake, and on `stream`. Used by `fabric`.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use loco_fabric::{Control, FabricError, NodeId, Platform, Result, Std, Time};
use loco_host::membership::Membership;
use loco_job::{Link, Mesh, Secret};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

use crate::config::TcpConfig;
use crate::stream::Stream;

/// The version of [`Card`], of the handshake and of frames.
pub(crate) const BRING_UP_VERSION: u32 = 1;
/// The time between two looks at who is gone.
const LOOK: Duration = Duration::from_millis(20);
/// The longest time for which a stranger may keep a thread of this process busy.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(5);
/// The most handshakes at a time.
const HANDSHAKES_MAX: usize = 128;

/// The data that a node tells the others at set-up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Card {
    /// The address at which it listens, if it names one.
    address: Option<IpAddr>,
    port: u16,
    pub(crate) encrypt: bool,
    /// The length of its memory.
    pub(crate) len: u64,
    /// Distinguishes this run's keys from those of another.
    pub(crate) token: u32,
    /// Its share of the secret of the connections.
    share: [u8; 32],
}

/// The listener of this node, whose address the others get in its card.
pub(crate) struct SetUpListener {
    listener: TcpListener,
}

impl SetUpListener {
    /// Listens.
    pub(crate) fn open(mesh: &Mesh, config: &TcpConfig) -> Result<SetUpListener> {
        let ip = config.address.unwrap_or_else(|| own_address(mesh));
        let listener = TcpListener::bind((ip, 0)).map_err(|error| {
            FabricError::os(
                format!("listening at {ip} (set LOCO_TCP_ADDRESS to an address of this host)"),
                &error,
            )
        })?;
        Ok(SetUpListener { listener })
    }

    /// Returns what the others must know.
    pub(crate) fn card(&self, config: &TcpConfig, len: u64) -> Result<Card> {
        let port = self.listener.local_addr().map(|address| address.port());
        let token: [u8; 4] = loco_job::random()?;
        Ok(Card {
            address: config.address,
            port: port.map_err(|error| FabricError::os("asking for the port of a listener", &error))?,
            encrypt: config.encrypt,
            len,
            token: u32::from_ne_bytes(token),
            share: loco_job::random()?,
        })
    }

    /// Connects this node with all others, whose cards are in the order of the mesh's nodes: a collective call.
    ///
    /// # Errors
    /// Returns [`FabricError::PeerLost`] and [`FabricError::Timeout`] when a node does not take part.
    pub(crate) fn connect(
        self,
        job: &Membership,
        cards: &[Card],
        timeout: Duration,
    ) -> Result<Vec<Option<Stream>>> {
        let mesh = &job.mesh;
        let deadline = Std.now().after(timeout);
        let secret = Secret::new(cards.iter().flat_map(|card| card.share).collect::<Vec<u8>>())?;
        let encrypt = cards.first().is_some_and(|card| card.encrypt);
        let own = mesh.node().position_in(mesh.nodes())?;
        let mut streams: Vec<Option<Stream>> = mesh.nodes().iter().map(|_| None).collect();
        let later = mesh.nodes().len() - own - 1;
        let (accepted, arrivals) = channel();
        let (over, stopped) = channel::<()>();
        std::thread::scope(|scope| {
            let purpose = purpose(mesh.node());
            if later > 0 {
                let (secret, listener) = (&secret, &self.listener);
                scope.spawn(move || accept(listener, secret, &purpose, deadline, &accepted, &stopped));
            }
            let made = (|| {
                for (index, card) in cards.iter().enumerate().take(own) {
                    let link = reach(mesh, mesh.nodes()[index], card, &secret, deadline)?;
                    streams[index] = Some(Stream::new(link, encrypt));
                }
                let mut missing = later;
                while missing > 0 {
                    let absent = |streams: &[Option<Stream>]| {
                        let nodes = mesh.nodes().iter().zip(streams).skip(own + 1);
                        nodes
                            .filter(|(_, stream)| stream.is_none())
                            .map(|(&node, _)| node)
                            .collect::<Vec<_>>()
                    };
                    match arrivals.recv_timeout(LOOK) {
                        Ok((node, link)) => {
                            let index = node.position_in(mesh.nodes())?;
                            // A node that comes again has not heard that it was let in.
                            if index > own && streams[index].replace(Stream::new(link, encrypt)).is_none() {
                                missing -= 1;
                            }
                        }
                        Err(RecvTimeoutError::Timeout) => {}
                        Err(RecvTimeoutError::Disconnected) => std::thread::sleep(LOOK),
                    }
                    if missing > 0 {
                        let absent = absent(&streams);
                        check(mesh, &absent, deadline, timeout)?;
                    }
                }
                Ok(())
            })();
            drop(over);
            made
        })?;
        for stream in streams.iter().flatten() {
            let socket = stream.socket();
            socket
                .set_nonblocking(true)
                .and_then(|()| socket.set_nodelay(true))
                .map_err(|error| FabricError::os("setting up a data connection", &error))?;
        }
        Ok(streams)
    }
}

/// Fails if one of the `absent` nodes is gone, or the time is over.
fn check(mesh: &Mesh, absent: &[NodeId], deadline: Time, timeout: Duration) -> Result<()> {
    mesh.check_in()?;
    if let Some(&gone) = absent.iter().find(|&&node| mesh.is_gone(node)) {
        return Err(FabricError::PeerLost(gone));
    }
    if Std.now() < deadline {
        return Ok(());
    }
    Err(FabricError::Timeout {
        what: format!(
            "the data connection of {} (set LOCO_TCP_ADDRESS on it to an address that the others reach)",
            NodeId::list(absent.iter().copied())
        ),
        after: timeout,
    })
}

/// Returns the address of this node's ends of its control connections, or the one that stands for all if they differ.
fn own_address(mesh: &Mesh) -> IpAddr {
    let mut own = mesh
        .nodes()
        .iter()
        .filter_map(|&peer| Some(mesh.addresses(peer)?.0));
    let Some(first) = own.next() else {
        return Ipv4Addr::LOCALHOST.into();
    };
    let rest: Vec<IpAddr> = own.collect();
    match rest.iter().all(|&other| other == first) {
        true => first,
        false if rest.iter().all(IpAddr::is_ipv4) && first.is_ipv4() => Ipv4Addr::UNSPECIFIED.into(),
        // It takes connections of IPv4, too.
        false => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// Connects to `peer`, which may not listen at once if its host is slow.
fn reach(mesh: &Mesh, peer: NodeId, card: &Card, secret: &Secret, deadline: Time) -> Result<Link> {
    let ip = card
        .address
        .or_else(|| Some(mesh.addresses(peer)?.1))
        .unwrap_or(Ipv4Addr::LOCALHOST.into());
    let at = SocketAddr::new(ip, card.port);
    loop {
        let error = match handshake(at, mesh.node(), peer, secret, deadline) {
            Ok(link) => return Ok(link),
            Err(error) => error,
        };
        mesh.check_alive(peer)?;
        let is_final = error.kind() == io::ErrorKind::InvalidData || Std.now() >= deadline;
        if is_final {
            return Err(FabricError::os(
                format!(
                    "connecting to {peer} at {at} for data (set LOCO_TCP_ADDRESS on it to an address that this host reaches)"
                ),
                &error,
            ));
        }
        std::thread::sleep(LOOK);
    }
}

fn handshake(at: SocketAddr, own: NodeId, peer: NodeId, secret: &Secret, deadline: Time) -> io::Result<Link> {
    let left = deadline.since(Std.now()).clamp(LOOK, HANDSHAKE_PATIENCE);
    let stream = TcpStream::connect_timeout(&at, left)?;
    stream.set_nodelay(true)?;
    let mut link = Link::connect(stream, secret, &purpose(peer), deadline)?;
    link.write(&own.0, deadline)?;
    // The other side may have given this connection up meanwhile.
    match link.read(deadline)? {
        true => Ok(link),
        false => Err(io::ErrorKind::ConnectionRefused.into()),
    }
}

/// Returns what both sides of a connection to `node` authenticate.
fn purpose(node: NodeId) -> Vec<u8> {
    format!("loco tcp data, version {BRING_UP_VERSION}, to {node}").into_bytes()
}

/// Accepts connections, and hands on those of nodes that know the secret, until told to stop.
fn accept(
    listener: &TcpListener,
    secret: &Secret,
    purpose: &[u8],
    deadline: Time,
    accepted: &Sender<(NodeId, Link)>,
    stopped: &Receiver<()>,
) {
    if let Err(error) = listener.set_nonblocking(true) {
        tracing::error!("listening for data connections: {error}");
        return;
    }
    let hear = |stream: TcpStream, accepted: Sender<(NodeId, Link)>| {
        let deadline = deadline.min(Std.now().after(HANDSHAKE_PATIENCE));
        let heard = (|| {
            stream.set_nonblocking(false)?;
            stream.set_nodelay(true)?;
            let mut link = Link::accept(stream, secret, purpose, deadline)?;
            let node: u16 = link.read(deadline)?;
            link.write(&true, deadline)?;
            Ok::<_, io::Error>((NodeId(node), link))
        })();
        match heard {
            // Nobody hears it any more when this node has given up.
            Ok(arrival) => drop(accepted.send(arrival)),
            Err(error) => tracing::warn!("a connection for data was refused: {error}"),
        }
    };
    std::thread::scope(|scope| {
        let mut handshakes = Vec::new();
        while let Err(std::sync::mpsc::TryRecvError::Empty) = stopped.try_recv() {
            handshakes.retain(|handshake: &std::thread::ScopedJoinHandle<'_, ()>| !handshake.is_finished());
            match listener.accept() {
                Ok((stream, _)) if handshakes.len() < HANDSHAKES_MAX => {
                    let accepted = accepted.clone();
                    let hear = &hear;
                    handshakes.push(scope.spawn(move || hear(stream, accepted)));
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let look = Timespec {
                        tv_sec: 0,
                        tv_nsec: LOOK.subsec_nanos().into(),
                    };
                    // An interruption ends it as time does.
                    let _ = poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&look));
                }
                Err(error) => {
                    tracing::debug!("accepting a data connection: {error}");
                    std::thread::sleep(LOOK);
                }
            }
        }
    });
}
