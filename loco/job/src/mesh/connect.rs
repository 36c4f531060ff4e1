//! Bringing a mesh up over TCP: of two nodes the one with the higher id connects, the other accepts.

use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use loco_fabric::{FabricError, NodeId, Platform, Result, Std, Time};

use super::Mesh;
use super::accept::Acceptor;
use super::handshake::{self, Claim, Credentials, Purpose, Refusal};
use super::rendezvous::{Rendezvous, listener_for, register_at};
use super::session::Session;
use super::sockets::{connect_within, count};
use super::system::spawn;
use crate::hosts::{Address, Hosts};
use crate::job::{Job, Meeting};

/// First and longest pause between attempts: peers start at different times.
const RETRY_MIN: Duration = Duration::from_millis(5);
const RETRY_MAX: Duration = Duration::from_millis(200);
/// The time that is left to the connecting threads after the deadline to say why they failed.
const REPORT: Duration = Duration::from_millis(300);

impl Mesh {
    /// Connects to all other nodes of `job` and returns once every node is connected to every other.
    ///
    /// # Errors
    /// Returns [`FabricError::Timeout`] naming the nodes that are missing and why; [`FabricError::Refused`] when a
    /// peer does not take us as part of its job (secret, job id, id, version); [`FabricError::Os`] when this node
    /// cannot listen; [`FabricError::PeerLost`] when a node goes away meanwhile.
    pub fn connect(job: &Job) -> Result<Mesh> {
        let deadline = Std.now().after(job.timeouts.connect);
        let sessions = sessions(job, deadline)?;
        let mesh = Mesh::over(job, sessions)?;
        mesh.allgather("mesh", &[], deadline)?;
        Ok(mesh)
    }
}

/// The outcome of an attempt to connect.
enum Arrival {
    /// The connection with this node is there.
    Connected(NodeId, Session),
    /// The connection will not come.
    Unreached {
        peer: NodeId,
        why: String,
        is_final: bool,
    },
}

/// Connects to all other nodes of `job`. Returns the connections by node.
fn sessions(job: &Job, deadline: Time) -> Result<BTreeMap<NodeId, Session>> {
    let start = Std.now();
    if job.nodes.len() == 1 && !matches!(job.meeting, Meeting::Launcher(_)) {
        return Ok(BTreeMap::new());
    }
    let credentials = Credentials {
        job: job.id.clone(),
        secret: job.secret.clone(),
    };
    let (listener, addresses) = match &job.meeting {
        Meeting::Hosts(hosts) => (listen_at_own(hosts, job.node)?, hosts.iter().map(owned).collect()),
        Meeting::Launcher(at) => meet(at, job, &credentials, deadline)?,
        Meeting::Node(at) => {
            let server = (job.nodes.first() == Some(&job.node))
                .then(|| serve(at, job, deadline))
                .transpose()?;
            let met = meet(at, job, &credentials, deadline)?;
            // We have been told, so the others are being told, too: let it finish.
            server.map(thread::JoinHandle::join);
            met
        }
    };
    let (sender, arrivals) = mpsc::channel();
    let _acceptor = accept_higher(listener, job, &credentials, sender.clone())?;
    let stop = StopOnDrop(Arc::new(AtomicBool::new(false)));
    connect_to_lower(job, &credentials, &addresses, deadline, &stop.0, &sender)?;
    collect(job, start, deadline, &arrivals)
}

fn collect(
    job: &Job,
    start: Time,
    deadline: Time,
    arrivals: &mpsc::Receiver<Arrival>,
) -> Result<BTreeMap<NodeId, Session>> {
    let mut sessions = BTreeMap::new();
    let mut unreached = BTreeMap::new();
    loop {
        let missing = job
            .nodes
            .iter()
            .filter(|&node| *node != job.node && !sessions.contains_key(node));
        let mut missing = missing.peekable();
        if missing.peek().is_none() {
            return Ok(sessions);
        }
        match arrivals.recv_timeout(deadline.after(REPORT).since(Std.now())) {
            Ok(Arrival::Connected(peer, session)) => drop(sessions.insert(peer, session)),
            Ok(Arrival::Unreached {
                why, is_final: true, ..
            }) => return Err(FabricError::Refused(why)),
            Ok(Arrival::Unreached { peer, why, .. }) => drop(unreached.insert(peer, why)),
            Err(_) => {
                let reason = |node: &NodeId| match unreached.get(node) {
                    Some(why) => why.clone(),
                    None => format!("{node} (it has not connected)"),
                };
                return Err(FabricError::Timeout {
                    what: missing.map(reason).collect::<Vec<_>>().join(", "),
                    after: Std.now().since(start),
                });
            }
        }
    }
}

fn owned((node, address): (NodeId, &Address)) -> (NodeId, Address) {
    (node, address.clone())
}

fn listen_at_own(hosts: &Hosts, node: NodeId) -> Result<TcpListener> {
    let own = hosts.address(node).ok_or(FabricError::UnknownPeer(node))?;
    TcpListener::bind(&*own.resolve()?).map_err(|e| {
        let what = match e.kind() {
            io::ErrorKind::AddrNotAvailable => {
                format!("{own}, the address of {node}, is not of this machine")
            }
            _ => format!("{node} listening at {own}"),
        };
        FabricError::os(what, &e)
    })
}

/// Registers at the rendezvous with a listener of our own.
fn meet(
    at: &Address,
    job: &Job,
    credentials: &Credentials,
    deadline: Time,
) -> Result<(TcpListener, BTreeMap<NodeId, Address>)> {
    let failed = |e: &io::Error| FabricError::os("listening for peers".to_owned(), e);
    let listener = listener_for(at).map_err(|e| failed(&e))?;
    let port = listener.local_addr().map_err(|e| failed(&e))?.port();
    let addresses = register_at(at, job, credentials, port, deadline)?;
    Ok((listener, addresses))
}

/// Serves the rendezvous in a thread of the lowest node.
fn serve(at: &Address, job: &Job, deadline: Time) -> Result<thread::JoinHandle<()>> {
    let rendezvous = Rendezvous::bind(at)?;
    let job = job.clone();
    spawn("loco-rendezvous", move || {
        if let Err(error) = rendezvous.serve(&job.id, &job.secret, &job.nodes, deadline) {
            tracing::warn!(%error, "the rendezvous ended");
        }
    })
}

/// Takes the connections of the nodes with higher ids.
fn accept_higher(
    listener: TcpListener,
    job: &Job,
    credentials: &Credentials,
    sender: mpsc::Sender<Arrival>,
) -> Result<Acceptor> {
    let (own, nodes) = (job.node, job.nodes.clone());
    let accepted = Mutex::new(Vec::new());
    let judge = move |claim: &Claim| {
        if claim.nodes != count(&nodes) {
            return Err(Refusal::Nodes(count(&nodes)));
        }
        match claim.purpose {
            Purpose::Peer { to } if to != own.0 => return Err(Refusal::NotMe(to)),
            Purpose::Peer { .. } => {}
            Purpose::Register { .. } => return Err(Refusal::Purpose),
        }
        if claim.from() <= own || !nodes.contains(&claim.from()) {
            return Err(Refusal::UnknownNode(claim.node));
        }
        let mut accepted = accepted.lock().unwrap_or_else(PoisonError::into_inner);
        if accepted.contains(&claim.node) {
            return Err(Refusal::Duplicate(claim.node));
        }
        accepted.push(claim.node);
        Ok(())
    };
    Acceptor::start(listener, credentials.clone(), judge, move |claim, session| {
        // Nobody listens any more when everybody needed has come.
        drop(sender.send(Arrival::Connected(claim.from(), session)));
    })
}

/// Starts a thread for each node with a lower id.
fn connect_to_lower(
    job: &Job,
    credentials: &Credentials,
    addresses: &BTreeMap<NodeId, Address>,
    deadline: Time,
    stop: &Arc<AtomicBool>,
    sender: &mpsc::Sender<Arrival>,
) -> Result<()> {
    for peer in job.nodes.iter().copied().filter(|&node| node < job.node) {
        let address = addresses
            .get(&peer)
            .cloned()
            .ok_or(FabricError::UnknownPeer(peer))?;
        let claim = Claim {
            node: job.node.0,
            nodes: count(&job.nodes),
            purpose: Purpose::Peer { to: peer.0 },
        };
        let (credentials, sender, stop) = (credentials.clone(), sender.clone(), Arc::clone(stop));
        spawn("loco-connector", move || {
            let arrival = reach(peer, &address, &credentials, &claim, deadline, &stop);
            drop(sender.send(arrival));
        })?;
    }
    Ok(())
}

/// Ends the connecting threads at their next attempt.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        // Relaxed: only hastens the end.
        self.0.store(true, Ordering::Relaxed);
    }
}

fn reach(
    peer: NodeId,
    address: &Address,
    credentials: &Credentials,
    claim: &Claim,
    deadline: Time,
    stop: &AtomicBool,
) -> Arrival {
    let mut pause = RETRY_MIN;
    let mut earlier = None;
    loop {
        let attempt = connect_within(address, deadline)
            .and_then(|stream| handshake::connect(stream, credentials, claim, deadline));
        let error = match attempt {
            Ok(session) => return Arrival::Connected(peer, session),
            Err(error) => error,
        };
        // An attempt that the deadline cut short tells less than the one before.
        let error = match earlier.take() {
            Some(earlier) if deadline.since(Std.now()).is_zero() => earlier,
            _ => error,
        };
        // Relaxed: only hastens the end.
        let over = deadline.since(Std.now()) <= pause || stop.load(Ordering::Relaxed);
        if error.is_final() || over {
            return Arrival::Unreached {
                peer,
                why: format!("{peer} at {address}: {error}"),
                is_final: error.is_final(),
            };
        }
        earlier = Some(error);
        thread::sleep(pause);
        pause = (pause * 2).min(RETRY_MAX);
    }
}
