//! The rendezvous, by which nodes find one another that do not know one another's addresses. Each node sends its address to
//! the server, which sends all addresses to every node once all have registered. The launcher or the lowest node serves it.
//!
//! Each node keeps its connection with the rendezvous until it is connected to all others, and then says so. If a connection
//! closes before that, its node has ended, and the server notifies all others at once: a node that waits for a connection of
//! the one that ended could not see that itself.
//!
//! The side of the nodes is [`registration`](super::registration).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use loco_fabric::{FabricError, NodeId, Platform, Result, Std, Time};
use rustix::event::epoll::EventFlags;
use rustix::event::{EventfdFlags, eventfd};
use serde::{Deserialize, Serialize};

use super::accept::Acceptor;
use super::handshake::{Claim, Credentials, Nodes, Purpose, Refusal};
use super::session::Session;
use super::sockets::is_gone;
use super::watch::Watch;
use crate::hosts::Address;
use crate::secret::Secret;

/// Longest table, in bytes: enough for all the nodes that there can be.
pub(super) const TABLE_BYTES_MAX: usize = 4 << 20;
/// The time that one node may take to read the table.
pub(super) const WRITE_PATIENCE: Duration = Duration::from_secs(5);

/// The bytes of a [`Word`] at most.
const WORD_BYTES_MAX: usize = 16;
/// The longest wait at a time.
const WAIT_MAX: Duration = Duration::from_secs(3600);

/// The server of a rendezvous, bound to its address but not yet serving.
pub struct Rendezvous {
    listener: TcpListener,
    address: SocketAddr,
    departures: Departures,
    events: mpsc::Receiver<Event>,
}

/// Tells a rendezvous which nodes have ended, for a launcher that sees its processes end.
#[derive(Clone)]
pub struct Departures {
    events: mpsc::Sender<Event>,
    /// Wakes the server.
    wake: Arc<OwnedFd>,
}

impl fmt::Debug for Departures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Departures(..)")
    }
}

impl Departures {
    /// Reports that `node` has ended. If the nodes are not all connected yet, they never will be. The server therefore
    /// notifies the nodes that wait at once, and each later one when it registers.
    pub fn tell(&self, node: NodeId) {
        self.send(Event::Departed(node));
    }

    fn send(&self, event: Event) {
        // Nobody listens any more when all are connected.
        drop(self.events.send(event));
        // Fails only when the counter is full, and then the server is awake.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

/// An event that wakes the server.
enum Event {
    Arrived(Claim, Session),
    Departed(NodeId),
}

/// A notice of the server to a registered node.
#[derive(Serialize, Deserialize)]
pub(super) enum Notice {
    /// These nodes have not come yet.
    Missing(Vec<u16>),
    /// All nodes are here, each with its host and port. A node without a host is on the host of the
    /// rendezvous.
    Complete(Vec<(u16, Option<IpAddr>, u16)>),
    /// Another process has registered as this node and is still there.
    Duplicate,
    /// This node has ended before all were connected.
    Departed(u16),
    /// The server waits no longer.
    Late,
}

/// A message of a node that has got the addresses. After either of the first two it sends nothing more.
#[derive(Serialize, Deserialize)]
pub(super) enum Word {
    /// It is connected to all others.
    Connected,
    /// It ends because it has found that this node has.
    Lost(u16),
    /// It sees this node gone, and waits to hear which node ended first.
    Sees(u16),
}

struct Registered {
    session: Session,
    /// The host, or none if the node came over the loopback interface: then it is on this host, whatever name
    /// others have for that.
    host: Option<IpAddr>,
    port: u16,
}

impl Rendezvous {
    /// Listens at a free port of the loopback interface: all nodes are on this host.
    ///
    /// # Errors
    /// Returns [`FabricError::Os`].
    pub fn on_loopback() -> Result<Rendezvous> {
        // A host may have only one of them.
        Rendezvous::listen(&[
            SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            SocketAddr::from((Ipv6Addr::LOCALHOST, 0)),
        ])
    }

    /// Listens at `address`: at that very interface if it is given by number, at all interfaces if by name (a host's
    /// own name often leads to its loopback interface only).
    ///
    /// # Errors
    /// Returns [`FabricError::Os`], saying which address is not free or not of this host.
    pub fn bind(address: &Address) -> Result<Rendezvous> {
        if let Ok(ip) = address.host().parse::<IpAddr>() {
            return Rendezvous::listen(&[SocketAddr::new(ip, address.port())]);
        }
        if address.is_loopback() {
            return Rendezvous::listen(&address.resolve()?);
        }
        Rendezvous::listen(&[
            SocketAddr::from((Ipv6Addr::UNSPECIFIED, address.port())),
            SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port())),
        ])
    }

    fn listen(addresses: &[SocketAddr]) -> Result<Rendezvous> {
        let what = || format!("listening for the nodes of the job at {addresses:?}");
        let listener = TcpListener::bind(addresses).map_err(|e| FabricError::os(what(), &e))?;
        let address = listener.local_addr().map_err(|e| FabricError::os(what(), &e))?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|e| FabricError::os("creating an eventfd".to_owned(), &e.into()))?;
        let (sender, events) = mpsc::channel();
        Ok(Rendezvous {
            listener,
            address,
            departures: Departures {
                events: sender,
                wake: Arc::new(wake),
            },
            events,
        })
    }

    /// Returns the means by which a launcher tells which nodes have ended.
    pub fn departures(&self) -> Departures {
        self.departures.clone()
    }

    /// Returns the address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until all of `nodes` are connected to one another, or `deadline` has passed. Where a node
    /// [has ended](Departures) before that, or closed its connection, it serves until all others have been notified.
    ///
    /// # Errors
    /// Returns [`FabricError::PeerLost`] for the first node that ended; [`FabricError::Timeout`] naming the nodes that did
    /// not come or did not get connected; [`FabricError::Os`].
    pub fn serve(self, job: &str, secret: &Secret, nodes: &[NodeId], deadline: Time) -> Result<()> {
        let start = Std.now();
        let credentials = Credentials {
            job: job.to_owned(),
            secret: secret.clone(),
        };
        let (departures, wake) = (self.departures.clone(), self.departures.wake);
        let (known, all) = (nodes.to_vec(), Nodes::of(nodes, nodes.len()).map_err(noise)?);
        let judge = move |claim: &Claim| {
            all.check(&claim.nodes)?;
            if !known.contains(&claim.from()) {
                return Err(Refusal::UnknownNode(claim.node));
            }
            match claim.purpose {
                Purpose::Register { .. } => Ok(()),
                Purpose::Peer { .. } | Purpose::Ask { .. } | Purpose::Enter { .. } => Err(Refusal::Purpose),
            }
        };
        let _acceptor = Acceptor::start(self.listener, credentials, judge, move |claim, session| {
            departures.send(Event::Arrived(claim, session));
        })?;
        let watch = Watch::new(nodes.len(), &*wake)
            .map_err(|e| FabricError::os("preparing to wait for nodes".to_owned(), &e))?;
        let mut server = Server {
            nodes,
            registered: BTreeMap::new(),
            connected: BTreeSet::new(),
            ended: BTreeSet::new(),
            departed: None,
            met: false,
            watch,
        };
        while !server.is_done() {
            let left = deadline.since(Std.now());
            if left.is_zero() {
                server.tell(&Notice::Late);
                return Err(server.late(Std.now().since(start)));
            }
            let woken = server.watch.wait(left.min(WAIT_MAX));
            if woken.map_err(|e| FabricError::os("waiting for nodes".to_owned(), &e))? {
                let _ = rustix::io::read(&wake, &mut [0; 8]);
            }
            for index in server.watch.ready_descriptors().to_vec() {
                server.hear(nodes[index]);
            }
            while let Ok(event) = self.events.try_recv() {
                match event {
                    Event::Arrived(claim, session) => server.register(&claim, session),
                    Event::Departed(node) if nodes.contains(&node) => server.ended(node),
                    Event::Departed(_) => {}
                }
            }
        }
        match server.departed {
            Some(node) => Err(FabricError::PeerLost(node)),
            None => Ok(()),
        }
    }
}

/// The server's knowledge of the nodes.
struct Server<'a> {
    nodes: &'a [NodeId],
    /// The nodes that have come, are still there, and are not connected to all others yet.
    registered: BTreeMap<NodeId, Registered>,
    connected: BTreeSet<NodeId>,
    /// The nodes that ended without having been connected.
    ended: BTreeSet<NodeId>,
    /// The first of these.
    departed: Option<NodeId>,
    /// True once all have registered and have been sent the addresses.
    met: bool,
    watch: Watch,
}

impl Server<'_> {
    /// Returns true if every node is connected, or knows that it never will be.
    fn is_done(&self) -> bool {
        let is_told = |node| self.departed.is_some() && self.registered.contains_key(node);
        let is_done = |node| self.connected.contains(node) || self.ended.contains(node) || is_told(node);
        self.nodes.iter().all(is_done)
    }

    fn missing(&self) -> impl Iterator<Item = NodeId> {
        let here = |node: &NodeId| self.registered.contains_key(node) || self.connected.contains(node);
        self.nodes.iter().copied().filter(move |node| !here(node))
    }

    fn late(&self, after: Duration) -> FabricError {
        let what = match self.met {
            false => format!("{} to register", NodeId::list(self.missing())),
            true => format!(
                "{} to get connected to all others",
                NodeId::list(self.registered.keys().copied())
            ),
        };
        FabricError::Timeout { what, after }
    }

    fn register(&mut self, claim: &Claim, mut session: Session) {
        let (node, Purpose::Register { port }) = (claim.from(), claim.purpose) else {
            return;
        };
        let earlier = self.registered.get(&node);
        if earlier.is_some_and(|earlier| !is_gone(&earlier.session.stream)) || self.connected.contains(&node)
        {
            tracing::warn!(%node, "refused a second registration: ids must be unique");
            // A process that does not wait for the answer does not need it.
            let _ = session.write(&Notice::Duplicate, Std.now().after(WRITE_PATIENCE));
            return;
        }
        if earlier.is_some() {
            self.ended(node);
        }
        let host = session.stream.peer_addr().ok();
        let host = host.map(|address| address.ip().to_canonical());
        let host = host.filter(|ip| !ip.is_loopback());
        tracing::debug!(%node, ?host, port, "registered");
        self.listen(node, &session, EventFlags::IN | EventFlags::RDHUP);
        self.registered.insert(node, Registered { session, host, port });
        if let Some(departed) = self.departed {
            tell_one(node, &mut self.registered, &Notice::Departed(departed.0));
            return;
        }
        let missing: Vec<_> = self.missing().map(|node| node.0).collect();
        if !missing.is_empty() {
            self.tell(&Notice::Missing(missing));
            return;
        }
        let entry = |(node, r): (&NodeId, &Registered)| (node.0, r.host, r.port);
        let table = self.registered.iter().map(entry).collect();
        self.met = true;
        self.tell(&Notice::Complete(table));
    }

    /// Hears a word of a registered node, or its end without one.
    fn hear(&mut self, node: NodeId) {
        let Some(registered) = self.registered.get_mut(&node) else {
            return;
        };
        let said = registered
            .session
            .read(WORD_BYTES_MAX, Std.now().after(WRITE_PATIENCE));
        match said {
            Ok(Word::Lost(lost)) => {
                // Its own end comes after that of the other, which is the one to name, even if that was connected.
                if self.nodes.contains(&NodeId(lost)) {
                    self.depart(NodeId(lost));
                }
                self.ended(node);
            }
            Ok(Word::Connected) => {
                if let Some(registered) = self.registered.remove(&node) {
                    self.listen(node, &registered.session, EventFlags::empty());
                }
                self.connected.insert(node);
            }
            Ok(Word::Sees(gone)) => {
                // A connected node says nothing here when it ends, and its peers know its end from its connections. Of any
                // other, this server sees the end itself, with the reason.
                if self.connected.contains(&NodeId(gone)) {
                    self.depart(NodeId(gone));
                }
            }
            Err(error) => {
                tracing::debug!(%node, %error, "a node ended before all were connected");
                self.ended(node);
            }
        }
    }

    /// Takes note that a node has ended, and tells the others, unless it was connected: then they see it themselves.
    fn ended(&mut self, node: NodeId) {
        if let Some(registered) = self.registered.remove(&node) {
            self.listen(node, &registered.session, EventFlags::empty());
        }
        if self.connected.contains(&node) {
            return;
        }
        self.ended.insert(node);
        self.depart(node);
    }

    /// Tells the others that a node has ended, if it is the first.
    fn depart(&mut self, node: NodeId) {
        if self.departed.is_none() {
            self.departed = Some(node);
            self.tell(&Notice::Departed(node.0));
        }
    }

    fn listen(&mut self, node: NodeId, session: &Session, wanted: EventFlags) {
        if let Ok(index) = self.nodes.binary_search(&node) {
            self.watch.listen(index, &session.stream, wanted);
        }
    }

    /// Tells all registered nodes. The lowest one comes last: this may be its process, which may end once it knows.
    fn tell(&mut self, notice: &Notice) {
        let nodes: Vec<_> = self.registered.keys().rev().copied().collect();
        for node in nodes {
            tell_one(node, &mut self.registered, notice);
        }
    }
}

/// Tells one node. One that does not listen is noticed by its connection.
fn tell_one(node: NodeId, registered: &mut BTreeMap<NodeId, Registered>, notice: &Notice) {
    let Some(registered) = registered.get_mut(&node) else {
        return;
    };
    if let Err(error) = registered.session.write(notice, Std.now().after(WRITE_PATIENCE)) {
        tracing::warn!(%node, %error, "a registered node does not listen");
    }
}

/// Returns the error of the encryption's own set-up.
pub(super) fn noise(error: snow::Error) -> FabricError {
    FabricError::Config(format!("encryption: {error}"))
}

/// Returns a listener for the peers of a node that will tell its port to the rendezvous at `address`.
pub(super) fn listener_for(address: &Address) -> io::Result<TcpListener> {
    if address.is_loopback() {
        return TcpListener::bind(
            &*address
                .resolve()
                .map_err(io::Error::other)?
                .iter()
                .map(|a| SocketAddr::new(a.ip(), 0))
                .collect::<Vec<_>>(),
        );
    }
    listener_on_all_interfaces()
}

/// Returns a listener that processes of other hosts can reach.
pub(super) fn listener_on_all_interfaces() -> io::Result<TcpListener> {
    TcpListener::bind(
        &[
            SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
            SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        ][..],
    )
}
