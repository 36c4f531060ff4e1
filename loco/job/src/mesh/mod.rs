//! The control plane as programs use it: [`Mesh`], every node connected to every other.
//!
//! It is one type with two implementations: queues between nodes of one process (tests), and TCP between processes.
//! Fabrics are built from a mesh: they exchange their bring-up data by [`Mesh::allgather`], and hand the mesh on to
//! objects as their [`Control`].
//!
//! From the bottom: `agreement` (who is in, without I/O), `parcel` (what travels), `system` (threads, time left), `state` (what
//! one node knows), `in_process` (the nodes of one process), `noise`
//! (encryption) and `session` (an encrypted connection), `frame`, `words`, `wire` and `attach` (parcels over connections), `link` (a session for the data of a fabric), `handshake`, `sockets`, `accept`, `rendezvous`
//! and `registration` (its two sides), `introduction` (what nodes tell one another first), and `connect`, which brings a
//! mesh up.
//!
//! Whatever nodes say to one another and to the rendezvous is encrypted and authenticated under the job's secret. If an
//! attacker on the network changes, repeats or leaves out a byte, the node notices, and counts the peer as lost.
//! `docs/launching.md` lists what such an attacker can still do: above all, cut connections, and access the data path as
//! far as the fabric permits.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::{fmt, thread};

use loco_fabric::{Control, FabricError, NodeId, PeerState, Result, Time};
use loco_trace::waits::OwnPage;

use crate::job::Job;

mod accept;
pub mod agreement;
mod attach;
mod connect;
mod connection;
mod frame;
mod handshake;
mod in_process;
mod introduction;
mod link;
mod noise;
mod parcel;
mod registration;
mod rendezvous;
mod session;
#[cfg(test)]
mod set_up_tests;
mod sockets;
mod state;
mod system;
#[cfg(test)]
mod tests;
mod watch;
mod wire;
mod words;

pub use agreement::Revoked;
pub use link::Link;
pub use parcel::PAYLOAD_BYTES_MAX;
pub use rendezvous::{Departures, Rendezvous};
pub use state::Revoke;

use frame::Frame;
use in_process::Neighbours;
use parcel::Parcel;
#[cfg(test)]
use session::Session;
use state::State;
use system::spawn;
use wire::Wire;

/// One node's end of a full mesh of control connections. Clones are handles on the same end.
///
/// When the last handle is dropped the node says goodbye ([`PeerState::Left`] to its peers), unless the thread is
/// panicking: then its peers see it [`PeerState::Lost`], as they do when the process ends without either.
#[derive(Clone)]
pub struct Mesh(Arc<End>);

struct End {
    state: Arc<State>,
    link: Way,
    /// The process of the node. A process that was forked from it has this end, too, and has no part in the job.
    process: u32,
    /// What others see of the node's waits.
    _page: Option<OwnPage>,
}

/// The way of bytes to the peers.
enum Way {
    InProcess(Arc<Neighbours>),
    /// Connections, and the thread that serves them, to be joined.
    Tcp(Arc<Wire>, Mutex<Option<thread::JoinHandle<()>>>),
}

impl Mesh {
    /// Returns the ends of `n` nodes of this process, with ids `0..n`.
    ///
    /// # Errors
    /// Returns [`FabricError::Config`] when `n` is zero or more than there are ids.
    pub fn in_process(n: usize) -> Result<Vec<Mesh>> {
        let count = u16::try_from(n).ok().filter(|&count| count > 0);
        let count = count.ok_or_else(|| {
            FabricError::Config(format!("a job of {n} nodes: it takes 1 to {} nodes", u16::MAX))
        })?;
        let nodes: Arc<[NodeId]> = (0..count).map(NodeId).collect();
        let states: Box<[_]> = nodes
            .iter()
            .map(|&node| Arc::new(State::new(node, Arc::clone(&nodes))))
            .collect();
        let neighbours = Arc::new(Neighbours::new(states));
        let end = |state: &Arc<State>| {
            Mesh(Arc::new(End {
                state: Arc::clone(state),
                link: Way::InProcess(Arc::clone(&neighbours)),
                process: std::process::id(),
                _page: None,
            }))
        };
        Ok(neighbours.states().iter().map(end).collect())
    }

    /// Makes the end of a node of `job` that is connected to no other yet, and the wire to which connections are attached.
    fn unconnected(job: &Job, page: Option<OwnPage>) -> Result<(Mesh, Arc<Wire>)> {
        let state = Arc::new(State::new(job.node(), job.nodes().into()));
        let (wire, watch) = Wire::new(Arc::clone(&state), job.timeouts())?;
        let wire = Arc::new(wire);
        let served = Arc::clone(&wire);
        let thread = spawn("loco-mesh", move || served.run(watch))?;
        let link = Way::Tcp(Arc::clone(&wire), Mutex::new(Some(thread)));
        let end = End {
            state,
            link,
            process: std::process::id(),
            _page: page,
        };
        Ok((Mesh(Arc::new(end)), wire))
    }

    /// Returns this node.
    #[inline]
    pub fn node(&self) -> NodeId {
        self.0.state.node()
    }

    /// Returns all nodes of the job, this one included, in ascending order.
    #[inline]
    pub fn nodes(&self) -> &[NodeId] {
        self.0.state.nodes()
    }

    /// Gives `bytes` to every node and returns what every node gave, this one included, in the order of
    /// [`nodes`](Mesh::nodes). This is a collective call: the n-th call with a label on one node meets the n-th call
    /// with that label on all others. Only one thread of a node may therefore be in a call with a given label at a
    /// time. The call is independent of the stream of [`Control::send`].
    ///
    /// # Errors
    /// Returns [`FabricError::PeerLost`] when a node is gone that has not contributed, with the node that was lost first:
    /// others go because of that loss; [`FabricError::Timeout`] at
    /// `deadline`, naming the nodes that are missing; [`FabricError::Config`] when `bytes` is longer than
    /// [`PAYLOAD_BYTES_MAX`].
    pub fn allgather(&self, label: &str, bytes: &[u8], deadline: Time) -> Result<Vec<(NodeId, Vec<u8>)>> {
        check_len(label.len() + bytes.len())?;
        self.0.check_process()?;
        let state = &self.0.state;
        let round = state.begin_gather(label);
        let sent = state.nodes().iter().try_for_each(|&to| {
            let parcel = Parcel::Gather { label, round, bytes };
            match self.0.send(to, parcel, Some(deadline)) {
                // It may be gone because of the loss of another one, which its last words name. The wait tells.
                Err(FabricError::PeerLost(_)) => Ok(()),
                sent => sent,
            }
        });
        let gathered = sent.and_then(|()| state.wait_gather(label, round, deadline));
        state.end_gather(label, round);
        self.0.parcels_taken();
        gathered
    }

    /// Returns how many calls of [`allgather`](Mesh::allgather) with this label this node has begun.
    pub fn gathers_begun(&self, label: &str) -> u64 {
        self.0.state.begun(label)
    }

    /// Waits until more than `known` peers have left or were lost, and returns how many have: what
    /// [`departures`](Control::departures) returns at that time, so `known` or less at `deadline`.
    pub fn wait_for_departures(&self, known: u64, deadline: Time) -> u64 {
        self.0.state.wait_for_departures(known, deadline)
    }

    /// Registers `revoker`, which from now on revokes the access of lost nodes before their loss is reported. The fabric
    /// that is built from this mesh calls this. Until there is a revoker, a loss is reported as soon as it is seen.
    pub fn add_revoker(&self, revoker: Arc<dyn Revoke>) {
        self.0.state.add_revoker(revoker);
    }

    /// Registers `look`, which returns whether the peers have revoked this node's access. With a `look` that reads this in
    /// the fabric's memory, [`declared_lost`](Control::declared_lost) is true from the moment of the revocation. Only the
    /// first call counts.
    pub fn look_for_revocation(&self, look: impl Fn() -> bool + Send + Sync + 'static) {
        self.0.state.look_for_revocation(Box::new(look));
    }

    /// Records that this node was declared lost. The fabric calls this when it finds that the peers have revoked this
    /// node's access.
    pub fn declare_out(&self) {
        self.0.state.declare_out();
    }

    /// Returns the addresses of this node's and of the peer's end of their control connection. `None` between nodes of one
    /// process, and where the connection is gone.
    pub fn addresses(&self, peer: NodeId) -> Option<(IpAddr, IpAddr)> {
        let Way::Tcp(wire, _) = &self.0.link else {
            return None;
        };
        let stream = &wire.connections[self.0.state.index(peer).ok()?].get()?.stream;
        let ip = |address: std::io::Result<std::net::SocketAddr>| Some(address.ok()?.ip().to_canonical());
        Some((ip(stream.local_addr())?, ip(stream.peer_addr())?))
    }

    /// Cuts this node off as if its process had been killed: it says no goodbye, its peers see it lost, and
    /// it sees all of them lost. This is for tests of what a loss does.
    pub fn fail(&self) {
        self.0.cut(PeerState::Lost);
    }
}

impl Control for Mesh {
    #[inline]
    fn node(&self) -> NodeId {
        Mesh::node(self)
    }

    #[inline]
    fn nodes(&self) -> &[NodeId] {
        Mesh::nodes(self)
    }

    fn send(&self, to: NodeId, payload: &[u8]) -> Result<()> {
        check_len(payload.len())?;
        self.0.send(to, Parcel::Message(payload), None)
    }

    fn receive(&self, deadline: Option<Time>) -> Result<Option<(NodeId, Vec<u8>)>> {
        self.0.check_process()?;
        let message = self.0.state.receive(deadline);
        self.0.parcels_taken();
        Ok(message)
    }

    fn peer_state(&self, node: NodeId) -> PeerState {
        self.0.state.peer_state(node)
    }

    #[inline]
    fn departures(&self) -> u64 {
        self.0.state.departures()
    }

    #[inline]
    fn declared_lost(&self) -> bool {
        self.0.state.is_out()
    }

    fn close(&self) {
        self.0.cut(PeerState::Left);
    }
}

impl End {
    /// Fails in a process that was forked from the node's: it would speak for the node, with another state.
    fn check_process(&self) -> Result<()> {
        if std::process::id() == self.process {
            return Ok(());
        }
        Err(FabricError::Unsupported(format!(
            "{} in a process that was forked from its own: let the child execute another program, or fork before the node \
             starts",
            self.state.node()
        )))
    }

    fn send(&self, to: NodeId, parcel: Parcel<'_>, deadline: Option<Time>) -> Result<()> {
        self.check_process()?;
        let index = self.state.index(to)?;
        if self.state.is_closed() || self.state.peer_state(to) != PeerState::Alive {
            return Err(FabricError::PeerLost(to));
        }
        if to == self.state.node() {
            return self.state.deliver_when_room(index, parcel, deadline);
        }
        match &self.link {
            Way::InProcess(neighbours) => {
                let from = self.state.own_index();
                neighbours.states()[index].deliver_when_room(from, parcel, deadline)
            }
            Way::Tcp(wire, _) => wire.send(index, &Frame::Parcel(parcel), deadline),
        }
    }

    fn parcels_taken(&self) {
        if let Way::Tcp(wire, _) = &self.link {
            wire.parcels_taken();
        }
    }

    /// Leaves the mesh; the peers see `how`. The first call decides.
    fn cut(&self, how: PeerState) {
        if self.check_process().is_err() || !self.state.close() {
            return;
        }
        match &self.link {
            Way::InProcess(neighbours) => neighbours.leave(self.state.own_index(), how),
            Way::Tcp(wire, _) => wire.leave(how),
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if self.check_process().is_err() {
            // The I/O thread is not in this process.
            return;
        }
        self.cut(if thread::panicking() {
            PeerState::Lost
        } else {
            PeerState::Left
        });
        if let Way::Tcp(_, thread) = &self.link {
            // Ends once the goodbyes are read, or soon; a panic in it has been reported by the loss of all peers.
            let thread = thread.lock().unwrap_or_else(PoisonError::into_inner).take();
            let _ = thread.map(thread::JoinHandle::join);
        }
    }
}

impl fmt::Debug for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mesh")
            .field("node", &self.node())
            .field("nodes", &self.nodes())
            .field("departures", &self.departures())
            .finish_non_exhaustive()
    }
}

fn check_len(len: usize) -> Result<()> {
    if len <= PAYLOAD_BYTES_MAX {
        return Ok(());
    }
    Err(FabricError::Config(format!(
        "a set-up message of {len} bytes is over the limit of {PAYLOAD_BYTES_MAX}: move data by put and get"
    )))
}
