//! Bringing a mesh up over TCP: of two nodes the one with the higher id connects, the other accepts.

use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use loco_fabric::{Control, FabricError, NodeId, Platform, Result, Std, Time};
use loco_trace::waits::{self, Stage};

use super::Mesh;
use super::accept::Acceptor;
use super::door::Door;
use super::handshake::{self, Claim, Credentials, HandshakeError, Nodes, Purpose, Refusal};
use super::introduction::{self, Introduction};
use super::registration::{Heard, Registration, Watched, is_end};
use super::rendezvous::{Rendezvous, Word, listener_for, noise};
use super::sockets::{Retries, connect_within};
use super::state::State;
use super::system::{StopOnDrop, spawn};
use super::wire::Wire;
use crate::hosts::{Address, Hosts};
use crate::job::{Job, Meeting};
use crate::shown::show;

/// What a node waits for that connects, as others see it.
const ALL_NODES: &str = "all nodes of the job";
/// The time between two looks whether a rendezvous is needed any more.
const LOOK: Duration = Duration::from_millis(5);
/// The time that is left to the connecting threads after the deadline to say why they failed.
const REPORT: Duration = Duration::from_millis(300);
/// The longest wait for the word which node ended first, once a peer is seen to be gone. The word comes at once where all
/// processes run; without it the peer itself is named.
const EXPLANATION: Duration = Duration::from_secs(5);

impl Mesh {
    /// Connects to all other nodes of `job` and returns once every node is connected to every other.
    ///
    /// A node that ends meanwhile is lost at once: its connections are watched as soon as they are made, and so is the
    /// rendezvous, if there is one. With a hosts file, nobody notices the end of a node that has not connected to any other.
    /// A node that reaches its deadline leaves, and tells the others which node was missing: they count that node as lost.
    ///
    /// # Errors
    /// Returns [`FabricError::Timeout`] naming the nodes that are missing and why; [`FabricError::Refused`] when a
    /// peer does not take us as part of its job (secret, job id, id, nodes, version); [`FabricError::Config`] on every node
    /// when timeouts of nodes do not fit one another; [`FabricError::Os`] when this node cannot listen, or the name of a
    /// host has no address; [`FabricError::PeerLost`] when a node goes away meanwhile.
    pub fn connect(job: &Job) -> Result<Mesh> {
        let start = Std.now();
        let deadline = start.after(job.timeouts.connect);
        let page = show(&job.id, job.node, job.nodes.len())?;
        if job.nodes_max() == 1 && !matches!(job.meeting, Meeting::Launcher(_)) {
            return Mesh::unconnected(job, page).map(|(mesh, _)| mesh);
        }
        let others: Vec<_> = job
            .nodes
            .iter()
            .copied()
            .filter(|&node| node != job.node)
            .collect();
        let times = (Duration::ZERO, Some(job.timeouts.connect));
        let _arriving = waits::begin(job.node, Stage::SetUp, ALL_NODES, &others, times, false);
        let credentials = Credentials {
            job: job.id.clone(),
            secret: job.secret.clone(),
        };
        let mut server = None;
        let (listener, addresses, registration) = match &job.meeting {
            Meeting::Hosts(hosts) => (listen_at_own(hosts, job.node)?, resolved(hosts)?, None),
            Meeting::Launcher(at) => meet(at, job, &credentials, deadline)?,
            Meeting::Node(at) => {
                if job.nodes.first() == Some(&job.node) {
                    server = Some(serve(at, job, deadline)?);
                }
                let met = meet(at, job, &credentials, deadline);
                if let (Some(server), Err(FabricError::PeerLost(_))) = (&server, &met) {
                    tell_the_others(server);
                }
                met?
            }
        };
        let (mesh, wire) = Mesh::unconnected(job, page)?;
        // A node listens before it registers. Nodes of a hosts file may not have started yet.
        let all_listen = registration.is_some();
        let connecting = Arc::new(Connecting {
            state: Arc::clone(&mesh.end().state),
            wire: Arc::clone(&wire),
            unreached: Mutex::default(),
            heard: OnceLock::new(),
            stop: AtomicBool::new(false),
        });
        let hearing = Arc::clone(&connecting);
        let mut watched = registration
            .map(|registration| registration.watch(job.node, move |heard| hearing.hear(&heard), deadline))
            .transpose()?;
        let door = match job.nodes_max() > job.nodes.len() {
            true => Some(Arc::new(Door::new(wire, &job.nodes, addresses.clone())?)),
            false => None,
        };
        let acceptor = accept_higher(listener, job, &credentials, Arc::clone(&connecting), door.clone())?;
        let connected = connecting
            .connect(job, &credentials, &addresses, all_listen, start, deadline)
            .and_then(|()| {
                if door.is_some() {
                    // Before any node can join: what is promised of joins holds where losses are agreed on.
                    connecting.state.expose();
                }
                introduce(job, &mesh, &connecting.wire, deadline)
            })
            .map_err(|error| match error {
                FabricError::PeerLost(seen) => {
                    FabricError::PeerLost(connecting.first_ended(seen, watched.as_mut()))
                }
                error => error,
            });
        let lost = match &connected {
            Err(FabricError::PeerLost(lost)) => Some(*lost),
            Err(FabricError::Timeout { .. }) => connecting.give_up_missing(),
            _ => None,
        };
        if let Some(mut watched) = watched {
            match (&connected, lost) {
                (Ok(()), _) => watched.say(&Word::Connected),
                (_, Some(lost)) => watched.say(&Word::Lost(lost.0)),
                _ => {}
            }
        }
        // A node that finds nobody at this address takes this node for one that has ended. The rendezvous can tell it the
        // reason now.
        match (door, &connected) {
            (Some(door), Ok(())) => {
                door.open();
                mesh.end().keep_door(door, acceptor);
            }
            _ => drop(acceptor),
        }
        if let (Some(server), Ok(()) | Err(FabricError::PeerLost(_))) = (&server, &connected) {
            serve_the_others(server, &mesh);
        }
        connected.map(|()| mesh)
    }
}

/// Waits until the rendezvous that this node serves is not needed any more: the others take its end for that of this node
/// until they are connected. Once some peer is gone, it is needed for [a while](tell_the_others) only.
fn serve_the_others(server: &Serving, mesh: &Mesh) {
    while server.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) && mesh.departures() == 0 {}
    tell_the_others(server);
}

/// Gives the rendezvous that this node serves time to tell the others who is lost, also those that come a little later.
fn tell_the_others(server: &Serving) {
    // The end of the rendezvous is an error, too.
    let _ = server.recv_timeout(EXPLANATION);
}

/// Exchanges what nodes must know of one another before anything else, and checks that it fits.
fn introduce(job: &Job, mesh: &Mesh, wire: &Wire, deadline: Time) -> Result<()> {
    let own = Introduction::of_process(&job.timeouts);
    let all = mesh
        .allgather("mesh", &own.to_bytes()?, deadline)?
        .into_iter()
        .map(|(node, bytes)| Ok((node, Introduction::from_bytes(node, &bytes)?)))
        .collect::<Result<Vec<_>>>()?;
    if let Err(error) = introduction::check(&all, job.nodes_max()) {
        // All come to this outcome, once they have heard all. A node that left before would be one that is lost.
        let _ = mesh.allgather("mesh", &[], deadline);
        return Err(error);
    }
    for (index, (_, its)) in all.iter().enumerate() {
        if let Some(process) = its.process_seen_by(&own) {
            wire.watch_process(index, process);
        }
    }
    Ok(())
}

/// The connections of a node under construction.
struct Connecting {
    state: Arc<State>,
    wire: Arc<Wire>,
    /// The peers to which no attempt to connect has succeeded, and the last failure.
    unreached: Mutex<BTreeMap<NodeId, Unreached>>,
    /// The node of which the rendezvous has said that it has ended; none if the rendezvous has ended without a word.
    heard: OnceLock<Option<NodeId>>,
    /// Set when the connecting threads are to end at their next attempt.
    stop: AtomicBool,
}

/// The reason why a connection is not there.
struct Unreached {
    why: String,
    kind: Failure,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Failure {
    /// There was no time left to try again.
    Late,
    /// The peer does not take this node as part of its job, or the other way round.
    Refused,
    /// The peer listened, and does no longer.
    Ended,
}

impl Connecting {
    /// Connects to all other nodes.
    fn connect(
        self: &Arc<Self>,
        job: &Job,
        credentials: &Credentials,
        addresses: &BTreeMap<NodeId, Address>,
        all_listen: bool,
        start: Time,
        deadline: Time,
    ) -> Result<()> {
        let _stop = StopOnDrop(&self.stop);
        connect_to_lower(job, credentials, addresses, all_listen, deadline, self)?;
        self.wait(start, deadline)
    }

    /// Waits until all other nodes are connected.
    fn wait(&self, start: Time, deadline: Time) -> Result<()> {
        let outcome = self.state.wait_until(deadline.after(REPORT), |gone| {
            if self.missing().is_empty() {
                return Some(Ok(()));
            }
            let ended = || self.find(|node, its| (its.kind == Failure::Ended).then_some(node));
            if let Some(peer) = gone.or_else(ended) {
                return Some(Err(FabricError::PeerLost(peer)));
            }
            let refused = self.find(|_, its| (its.kind == Failure::Refused).then(|| its.why.clone()));
            refused.map(|why| Err(FabricError::Refused(why)))
        });
        outcome.unwrap_or_else(|| Err(self.late(start)))
    }

    /// Takes note of what the rendezvous has said first.
    fn hear(&self, heard: &Heard) {
        let lost = match *heard {
            Heard::Departed(lost) => Some(lost),
            // Once the connection with that node is made, it tells: the node may leave as others do, because of a loss.
            Heard::Nothing(server) => server.filter(|&server| self.missing().contains(&server)),
        };
        // This is called once.
        let _ = self.heard.set(lost);
        if let Some(lost) = lost {
            self.wire
                .suspect_node(lost, "the rendezvous says that it has ended");
        }
        self.state.notify();
    }

    /// Returns the node that is the reason why `seen` is gone. That one may have ended because of the loss of another, and
    /// this node may see the ends in any order. The rendezvous, if there is one, knows the first.
    fn first_ended(&self, seen: NodeId, rendezvous: Option<&mut Watched>) -> NodeId {
        let until = Std.now().after(EXPLANATION);
        let told = match rendezvous {
            Some(rendezvous) => {
                rendezvous.say(&Word::Sees(seen.0));
                let heard = |_| self.heard.get().copied();
                self.state.wait_until(until, heard).flatten()
            }
            // A peer that it was connected to has said why it leaves, and so will others.
            None => self.state.wait_until(until, |gone| gone),
        };
        let first = told.or_else(|| self.state.first_gone()).unwrap_or(seen);
        self.wire
            .suspect_node(first, "it ended before all nodes were connected");
        first
    }

    /// Takes the nodes that have not come in time for lost, and returns the first. The job cannot begin without them, so this
    /// node leaves: the others, which wait too, get the reason, and do not take this node for the one that is missing.
    fn give_up_missing(&self) -> Option<NodeId> {
        let missing = self.missing();
        for &node in &missing {
            self.wire.suspect_node(node, "it did not come in time");
        }
        missing.first().copied()
    }

    fn missing(&self) -> Vec<NodeId> {
        let is_missing = |&(index, _): &(usize, &NodeId)| {
            index != self.state.own_index() && self.state.is_known(index) && !self.wire.is_attached(index)
        };
        let nodes = self.state.nodes().iter().enumerate();
        nodes.filter(is_missing).map(|(_, &node)| node).collect()
    }

    fn find<T>(&self, of: impl Fn(NodeId, &Unreached) -> Option<T>) -> Option<T> {
        let unreached = self.unreached.lock().unwrap_or_else(PoisonError::into_inner);
        unreached
            .iter()
            .find_map(|(&node, unreached)| of(node, unreached))
    }

    fn late(&self, start: Time) -> FabricError {
        let reason = |node: NodeId| {
            let why = self.find(|other, unreached| (other == node).then(|| unreached.why.clone()));
            why.unwrap_or_else(|| format!("{node} (it has not connected)"))
        };
        FabricError::Timeout {
            what: self
                .missing()
                .into_iter()
                .map(reason)
                .collect::<Vec<_>>()
                .join(", "),
            after: Std.now().since(start),
        }
    }

    fn unreached(&self, peer: NodeId, why: String, kind: Failure) {
        let mut unreached = self.unreached.lock().unwrap_or_else(PoisonError::into_inner);
        unreached.insert(peer, Unreached { why, kind });
        drop(unreached);
        self.state.notify();
    }
}

/// Returns the addresses of all nodes. A host whose name has no address is an error at once, on every node, and not when
/// the node is missed.
fn resolved(hosts: &Hosts) -> Result<BTreeMap<NodeId, Address>> {
    let resolve = |(node, address): (NodeId, &Address)| match address.resolve() {
        Ok(_) => Ok((node, address.clone())),
        Err(FabricError::Os { what, source }) => Err(FabricError::Os {
            what: format!("{what}, the host of {node}"),
            source,
        }),
        Err(error) => Err(error),
    };
    hosts.iter().map(resolve).collect()
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

/// Registers at the rendezvous with a listener of our own. Returns the addresses of all nodes, too.
fn meet(
    at: &Address,
    job: &Job,
    credentials: &Credentials,
    deadline: Time,
) -> Result<(TcpListener, BTreeMap<NodeId, Address>, Option<Registration>)> {
    let failed = |e: &io::Error| FabricError::os("listening for peers".to_owned(), e);
    let listener = listener_for(at).map_err(|e| failed(&e))?;
    let port = listener.local_addr().map_err(|e| failed(&e))?.port();
    let (addresses, registration) = Registration::at(at, job, credentials, port, deadline)?;
    Ok((listener, addresses, Some(registration)))
}

/// A rendezvous that a thread serves: the channel is disconnected when that ends, and never carries anything.
type Serving = mpsc::Receiver<()>;

/// Serves the rendezvous in a thread of the lowest node.
fn serve(at: &Address, job: &Job, deadline: Time) -> Result<Serving> {
    let rendezvous = Rendezvous::bind(at)?;
    let job = job.clone();
    let (until_end, serving) = mpsc::channel();
    spawn("loco-rendezvous", move || {
        let _until_end: mpsc::Sender<()> = until_end;
        if let Err(error) = rendezvous.serve(&job.id, &job.secret, &job.nodes, deadline) {
            tracing::warn!(%error, "the rendezvous ended");
        }
    })?;
    Ok(serving)
}

/// Takes the connections of the nodes with higher ids.
fn accept_higher(
    listener: TcpListener,
    job: &Job,
    credentials: &Credentials,
    connecting: Arc<Connecting>,
    door: Option<Arc<Door>>,
) -> Result<Acceptor> {
    let (own, nodes) = (job.node, job.nodes.clone());
    let all = Nodes::of(&nodes, job.nodes_max()).map_err(noise)?;
    let accepted = Mutex::new(Vec::new());
    let judging = door.clone();
    let judge = move |claim: &Claim| {
        match (claim.purpose, &judging) {
            (Purpose::Ask { .. } | Purpose::Enter { .. }, Some(door)) => return door.judge(claim),
            (Purpose::Ask { .. } | Purpose::Enter { .. }, None) => return Err(Refusal::Fixed),
            _ => all.check_with_room(&claim.nodes)?,
        }
        match claim.purpose {
            Purpose::Peer { to } if to != own.0 => return Err(Refusal::NotMe(to)),
            Purpose::Peer { .. } => {}
            _ => return Err(Refusal::Purpose),
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
    Acceptor::start(
        listener,
        credentials.clone(),
        judge,
        move |claim, session| match (claim.purpose, &door) {
            (Purpose::Ask { .. } | Purpose::Enter { .. }, Some(door)) => door.welcome(&claim, session),
            _ => connecting.wire.attach(claim.from(), session),
        },
    )
}

/// Starts a thread for each node with a lower id.
fn connect_to_lower(
    job: &Job,
    credentials: &Credentials,
    addresses: &BTreeMap<NodeId, Address>,
    all_listen: bool,
    deadline: Time,
    connecting: &Arc<Connecting>,
) -> Result<()> {
    let nodes = Nodes::of(&job.nodes, job.nodes_max()).map_err(noise)?;
    for peer in job.nodes.iter().copied().filter(|&node| node < job.node) {
        let address = addresses
            .get(&peer)
            .cloned()
            .ok_or(FabricError::UnknownPeer(peer))?;
        let claim = Claim {
            node: job.node.0,
            nodes,
            purpose: Purpose::Peer { to: peer.0 },
        };
        let (credentials, connecting) = (credentials.clone(), Arc::clone(connecting));
        spawn("loco-connector", move || {
            let to = Destination {
                peer,
                address,
                listens: all_listen,
            };
            reach(to, &credentials, &claim, deadline, &connecting);
        })?;
    }
    Ok(())
}

/// A peer to connect to.
struct Destination {
    peer: NodeId,
    address: Address,
    /// It is known to listen. If nobody does at its address, it has ended.
    listens: bool,
}

/// Connects to a peer, trying until the deadline.
fn reach(
    mut to: Destination,
    credentials: &Credentials,
    claim: &Claim,
    deadline: Time,
    connecting: &Connecting,
) {
    let mut retries = Retries::until(deadline);
    let mut earlier = None;
    loop {
        let attempt = connect_within(&to.address, deadline)
            .and_then(|stream| handshake::connect(stream, credentials, claim, deadline));
        let error = match attempt {
            Ok(session) => return connecting.wire.attach(to.peer, session),
            Err(error) => error,
        };
        let has_ended = to.listens && error.is_refused_connection();
        // It was there, and went in the middle of the handshake.
        to.listens |= matches!(&error, HandshakeError::Io(error) if is_end(error));
        // An attempt that the deadline cut short tells less than the one before.
        let error = match earlier.take() {
            Some(earlier) if deadline.since(Std.now()).is_zero() => earlier,
            _ => error,
        };
        // Relaxed: only hastens the end.
        let is_over = retries.are_over() || connecting.stop.load(Ordering::Relaxed);
        if error.is_final() || has_ended || is_over {
            let kind = match () {
                () if has_ended => Failure::Ended,
                () if error.is_final() => Failure::Refused,
                () => Failure::Late,
            };
            let why = format!("{} at {}: {error}", to.peer, to.address);
            return connecting.unreached(to.peer, why, kind);
        }
        earlier = Some(error);
        retries.pause();
    }
}
