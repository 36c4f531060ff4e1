//! The rendezvous, where nodes meet that do not know one another's addresses. Each tells its address to one
//! place, which tells all of them to everybody once everybody is there. It is served by the launcher or by
//! the lowest node.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use loco_fabric::{FabricError, NodeId, Platform, Result, Std, Time};
use serde::{Deserialize, Serialize};

use super::accept::Acceptor;
use super::handshake::{self, Claim, Credentials, HandshakeError, Purpose, Refusal};
use super::session::Session;
use super::sockets::{connect_within, count, is_gone};
use crate::hosts::Address;
use crate::job::Job;
use crate::secret::Secret;

/// Longest table, in bytes: enough for all the nodes that there can be.
const TABLE_BYTES_MAX: usize = 4 << 20;
/// The time that one node may take to read the table.
const WRITE_PATIENCE: Duration = Duration::from_secs(5);
/// The pause between attempts to reach a server that is not there yet.
const RETRY: Duration = Duration::from_millis(20);

/// A place to meet, bound but not yet serving.
pub struct Rendezvous {
    listener: TcpListener,
    address: SocketAddr,
    departures: Departures,
    events: mpsc::Receiver<Event>,
}

/// Tells a rendezvous which nodes have ended, for a launcher that sees its processes end.
#[derive(Clone, Debug)]
pub struct Departures(mpsc::Sender<Event>);

impl Departures {
    /// Says that `node` has ended. If the nodes have not all met yet they never will: those that wait are told at once, and
    /// those that come later when they come.
    pub fn tell(&self, node: NodeId) {
        // Nobody listens any more when all have met.
        drop(self.0.send(Event::Departed(node)));
    }
}

/// An event that wakes the server.
enum Event {
    Arrived(Claim, Session),
    Departed(NodeId),
}

/// The news that the server tells a registered node.
#[derive(Serialize, Deserialize)]
enum News {
    /// These nodes have not come yet.
    Missing(Vec<u16>),
    /// All nodes are here, each with its host and port. A node without a host is on the host of the
    /// rendezvous.
    Complete(Vec<(u16, Option<IpAddr>, u16)>),
    /// Another process has registered as this node and is still there.
    Duplicate,
    /// This node has ended before all had met.
    Departed(u16),
}

/// The last word to a node.
enum Meeting {
    Table(BTreeMap<NodeId, Address>),
    Departed(NodeId),
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
        Rendezvous::listen(&[SocketAddr::from((Ipv4Addr::LOCALHOST, 0))])
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
        let (sender, events) = mpsc::channel();
        Ok(Rendezvous {
            listener,
            address,
            departures: Departures(sender),
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

    /// Serves until all of `nodes` have registered and been told, or `deadline` has passed. Where a node
    /// [has ended](Departures) before that, it serves until all others have been told so.
    ///
    /// # Errors
    /// Returns [`FabricError::PeerLost`] for a node that ended; [`FabricError::Timeout`] naming the nodes that did
    /// not come; [`FabricError::Os`].
    pub fn serve(self, job: &str, secret: &Secret, nodes: &[NodeId], deadline: Time) -> Result<()> {
        let start = Std.now();
        let credentials = Credentials {
            job: job.to_owned(),
            secret: secret.clone(),
        };
        let Departures(sender) = self.departures;
        let known = nodes.to_vec();
        let judge = move |claim: &Claim| {
            if !known.contains(&claim.from()) {
                return Err(Refusal::UnknownNode(claim.node));
            }
            if claim.nodes != count(&known) {
                return Err(Refusal::Nodes(count(&known)));
            }
            match claim.purpose {
                Purpose::Register { .. } => Ok(()),
                Purpose::Peer { .. } => Err(Refusal::Purpose),
            }
        };
        let _acceptor = Acceptor::start(self.listener, credentials, judge, move |claim, session| {
            // Nobody listens any more when all have come.
            drop(sender.send(Event::Arrived(claim, session)));
        })?;
        let mut registered = BTreeMap::new();
        let mut departed = None;
        loop {
            let missing: Vec<_> = nodes
                .iter()
                .filter(|node| !registered.contains_key(*node))
                .collect();
            if missing.is_empty() {
                break;
            }
            match self.events.recv_timeout(deadline.since(Std.now())) {
                Ok(Event::Arrived(claim, session)) => register(&mut registered, &claim, session),
                Ok(Event::Departed(node)) if nodes.contains(&node) => {
                    // It may have registered; its successor, if it has one, will be told like the others.
                    registered.remove(&node);
                    departed = departed.or(Some(node));
                }
                Ok(Event::Departed(_)) => {}
                Err(_) => {
                    return Err(FabricError::Timeout {
                        what: format!("{} to register", NodeId::list(missing.into_iter().copied())),
                        after: Std.now().since(start),
                    });
                }
            }
            let missing: Vec<_> = nodes
                .iter()
                .filter(|node| !registered.contains_key(*node))
                .map(|node| node.0)
                .collect();
            if let Some(node) = departed {
                tell(&mut registered, &News::Departed(node.0));
                if missing == [node.0] {
                    return Err(FabricError::PeerLost(node));
                }
            } else if !missing.is_empty() {
                tell(&mut registered, &News::Missing(missing));
            }
        }
        let table = registered
            .iter()
            .map(|(node, r)| (node.0, r.host, r.port))
            .collect();
        tell(&mut registered, &News::Complete(table));
        Ok(())
    }
}

fn register(registered: &mut BTreeMap<NodeId, Registered>, claim: &Claim, mut session: Session) {
    let (node, Purpose::Register { port }) = (claim.from(), claim.purpose) else {
        return;
    };
    if registered
        .get(&node)
        .is_some_and(|earlier| !is_gone(&earlier.session.stream))
    {
        tracing::warn!(%node, "refused a second registration: ids must be unique");
        // A process that does not wait for the answer does not need it.
        let _ = session.write(&News::Duplicate, Std.now().after(WRITE_PATIENCE));
        return;
    }
    let host = session.stream.peer_addr().ok();
    let host = host.map(|address| address.ip().to_canonical());
    let host = host.filter(|ip| !ip.is_loopback());
    tracing::debug!(%node, ?host, port, "registered");
    registered.insert(node, Registered { session, host, port });
}

/// Tells all registered nodes. A node that does not listen is noticed when the connections between nodes are
/// made.
fn tell(registered: &mut BTreeMap<NodeId, Registered>, news: &News) {
    for (node, r) in registered {
        if let Err(error) = r.session.write(news, Std.now().after(WRITE_PATIENCE)) {
            tracing::warn!(%node, %error, "a registered node does not listen");
        }
    }
}

/// Registers this node, which listens at `port`, and waits for the table of all nodes. This is the client's
/// side.
pub(super) fn register_at(
    address: &Address,
    job: &Job,
    credentials: &Credentials,
    port: u16,
    deadline: Time,
) -> Result<BTreeMap<NodeId, Address>> {
    let start = Std.now();
    let claim = Claim {
        node: job.node.0,
        nodes: count(&job.nodes),
        purpose: Purpose::Register { port },
    };
    let mut missing = None;
    loop {
        let error = match attempt(address, credentials, &claim, deadline, &mut missing) {
            Ok(Meeting::Table(table)) => return Ok(table),
            Ok(Meeting::Departed(node)) => return Err(FabricError::PeerLost(node)),
            Err(error) => error,
        };
        if error.is_final() {
            return Err(FabricError::Refused(format!(
                "by the rendezvous at {address}: {error}"
            )));
        }
        if deadline.since(Std.now()) <= RETRY {
            return Err(FabricError::Timeout {
                what: match missing {
                    Some(missing) => format!(
                        "{} to come to the rendezvous at {address}",
                        NodeId::list(missing.into_iter())
                    ),
                    None => format!("the rendezvous at {address} ({error})"),
                },
                after: Std.now().since(start),
            });
        }
        thread::sleep(RETRY);
    }
}

fn attempt(
    address: &Address,
    credentials: &Credentials,
    claim: &Claim,
    deadline: Time,
    missing: &mut Option<Vec<NodeId>>,
) -> Result<Meeting, HandshakeError> {
    let stream = connect_within(address, deadline)?;
    let server = stream.peer_addr()?.ip().to_canonical();
    let mut session = handshake::connect(stream, credentials, claim, deadline)?;
    loop {
        match session.read(TABLE_BYTES_MAX, deadline)? {
            News::Missing(nodes) => {
                let nodes: Vec<_> = nodes.into_iter().map(NodeId).collect();
                tracing::info!(
                    node = claim.node,
                    "waiting for {}",
                    NodeId::list(nodes.iter().copied())
                );
                *missing = Some(nodes);
            }
            News::Duplicate => return Err(HandshakeError::Refused(Refusal::Duplicate(claim.node))),
            News::Departed(node) => return Ok(Meeting::Departed(NodeId(node))),
            News::Complete(table) => {
                let entry = |(node, host, port): (u16, Option<IpAddr>, u16)| {
                    (NodeId(node), SocketAddr::new(host.unwrap_or(server), port).into())
                };
                return Ok(Meeting::Table(table.into_iter().map(entry).collect()));
            }
        }
    }
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
    TcpListener::bind(
        &[
            SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
            SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        ][..],
    )
}
