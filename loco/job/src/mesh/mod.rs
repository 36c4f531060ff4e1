//! The control plane as programs use it: [`Mesh`], every node connected to every other.
//!
//! It is one type with two implementations: queues between nodes of one process (tests), and TCP between processes.
//! Fabrics are built from a mesh: they exchange their bring-up data by [`Mesh::allgather`], and hand the mesh on to
//! objects as their [`Control`].
//!
//! From the bottom: `agreement` (who is in, and the views, without I/O), `parcel` (what travels), `system` (threads, time left), `view` (the members
//! at a time), `presence` (who takes part in a view), `revokers` (the fabrics), `arrivals` (what waits to be taken), `state` (what
//! one node knows) and `newcomers` (of those that join), `in_process` (the nodes of one process), `noise`
//! (encryption) and `session` (an encrypted connection), `frame`, `words`, `wire` and `attach` (parcels over connections), `link` (a session for the data of a fabric), `handshake`, `sockets`, `accept`, `rendezvous`
//! and `registration` (its two sides), `introduction` (what nodes tell one another first), `connect`, which brings a
//! mesh up, and `door`, `asking` and `entering`, the two sides of a node that joins later.
//!
//! Whatever nodes say to one another and to the rendezvous is encrypted and authenticated under the job's secret. If an
//! attacker on the network changes, repeats or leaves out a byte, the node notices, and counts the peer as lost.
//! `docs/launching.md` lists what such an attacker can still do: above all, cut connections, and access the data path as
//! far as the fabric permits.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::{fmt, thread};

use loco_fabric::{Control, FabricError, NodeId, PeerState, Platform, Result, Std, Time};
use loco_trace::waits::OwnPage;

use crate::hosts::Address;
use crate::job::Job;
use crate::timeouts::Timeouts;

mod accept;
mod admission;
pub mod agreement;
mod arrivals;
mod asking;
mod attach;
mod closing;
mod connect;
mod connection;
mod door;
mod entering;
mod frame;
mod handshake;
mod in_process;
mod introduction;
#[cfg(test)]
mod join_tests;
mod link;
mod newcomers;
mod noise;
mod parcel;
mod presence;
mod registration;
mod rendezvous;
mod revokers;
mod session;
#[cfg(test)]
mod set_up_tests;
mod sockets;
#[cfg(test)]
mod sponsor_tests;
mod state;
mod system;
#[cfg(test)]
mod tests;
mod view;
mod watch;
mod wire;
mod words;

pub use agreement::Revoked;
pub use link::Link;
pub use parcel::PAYLOAD_BYTES_MAX;
pub use rendezvous::{Departures, Rendezvous};
pub use revokers::Revoke;
pub use view::View;

use accept::Acceptor;
use agreement::Agreement;
use arrivals::Closing;
use door::Door;
use frame::Frame;
use in_process::Neighbours;
use parcel::{Closed, Parcel};
use presence::Presence;
#[cfg(test)]
use session::Session;
use state::State;
use system::spawn;
use view::Scope;
use wire::Wire;

/// One node's end of a full mesh of control connections, among the members of one [`View`]. Clones are handles on the same end.
///
/// A job whose number of nodes is fixed has one view, of all its nodes. Where nodes may [join](Mesh::join), each that comes or goes makes
/// [another](Mesh::next_view), and [`of_view`](Mesh::of_view) gives the mesh of its members. Messages and contributions are of one view,
/// and so is a fabric that is built from its mesh. A loss is one of the job as a whole. A node may leave one view, and go on in others.
///
/// When the last handle of the last view is dropped or closed the node says goodbye ([`PeerState::Left`] to its peers), unless the
/// thread is panicking: then its peers see it [`PeerState::Lost`], as they do when the process ends without either.
#[derive(Clone)]
pub struct Mesh(Arc<Part>);

/// The part of an end in one view.
struct Part {
    end: Arc<End>,
    scope: Arc<Scope>,
    presence: Arc<Presence>,
}

struct End {
    state: Arc<State>,
    link: Way,
    /// Lets nodes in, in a job with room for them.
    door: Mutex<Option<(Arc<Door>, Acceptor)>>,
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
            let end = End {
                state: Arc::clone(state),
                link: Way::InProcess(Arc::clone(&neighbours)),
                door: Mutex::default(),
                process: std::process::id(),
                _page: None,
            };
            Mesh::part(&Arc::new(end), View::first(&nodes))
        };
        neighbours.states().iter().map(end).collect()
    }

    /// Makes the end of a node of `job` that is connected to no other yet, and the wire to which connections are attached.
    fn unconnected(job: &Job, page: Option<OwnPage>) -> Result<(Mesh, Arc<Wire>)> {
        let state = State::with_room(job.node(), job.ids().into(), job.nodes().len());
        let (end, wire) = End::unconnected(state, job.timeouts(), page)?;
        Ok((Mesh::part(&end, View::first(job.nodes()))?, wire))
    }

    /// Makes the part of an end in one view.
    fn part(end: &Arc<End>, view: View) -> Result<Mesh> {
        let scope = Scope::of(view, end.state.nodes())?;
        let presence = end.state.open_view(scope.number()).ok_or_else(|| {
            FabricError::Config(format!(
                "{} has closed view {}, and does not come back into it: take the next view",
                end.state.node(),
                scope.number()
            ))
        })?;
        let end = Arc::clone(end);
        Ok(Mesh(Arc::new(Part { end, scope, presence })))
    }

    /// Returns this node.
    #[inline]
    pub fn node(&self) -> NodeId {
        self.end().state.node()
    }

    /// Returns the members of the mesh's view, this node included, in ascending order: all nodes of a job whose number of nodes is
    /// fixed.
    #[inline]
    pub fn nodes(&self) -> &[NodeId] {
        self.0.scope.nodes()
    }

    fn end(&self) -> &Arc<End> {
        &self.0.end
    }

    /// Waits for the first view with a number above `known`, and returns it. So a program that begins with the number of the view that it
    /// has gets every later view, in their order. Returns none at `deadline`, and once this node has left or was
    /// [declared lost](Control::declared_lost), as no more views come to it.
    ///
    /// A view comes when a node has [joined](Mesh::join), [announced that it leaves](Mesh::announce_leave), left or was lost: all members of
    /// it that live get it. None comes to this node after one without it, and then the call returns none at once.
    pub fn next_view(&self, known: u32, deadline: Time) -> Option<View> {
        self.end().state.next_view(known, deadline)
    }

    /// Tells the members of the job that this node is going to leave, and waits until they have agreed on a view without it, which is returned. Further
    /// calls tell nobody again, and wait as well. Returns none at `deadline`, and once this node has left or was
    /// [declared lost](Control::declared_lost).
    ///
    /// Until the node closes or drops the meshes of earlier views it takes part in these, so that others can take over what it has. No later view comes
    /// to it, and it lets nobody join. If it goes before that view has come, it has left, or is lost, as without this call, and that makes a view without
    /// it as well. An announcement cannot be taken back.
    ///
    /// The agreement waits for a node that is about to join, at most for the time that it has to connect
    /// ([`Timeouts::connect`](crate::Timeouts::connect)), and for losses that are being agreed on. It does not wait for the members' programs.
    ///
    /// # Errors
    /// Returns [`FabricError::Config`] where the job's number of nodes is fixed, so that it has one view.
    pub fn announce_leave(&self, deadline: Time) -> Result<Option<View>> {
        self.end().check_process()?;
        match &self.end().link {
            Way::Tcp(wire, _) if self.end().state.grows() => wire.agree(Agreement::announce),
            _ => {
                return Err(FabricError::Config(
                    "this job has a fixed number of nodes, and one view: start it with room for more (`loco run --nodes-max`, \
                     LOCO_NODES_MAX), or let the node leave without an announcement"
                        .to_owned(),
                ));
            }
        }
        Ok(self.end().state.view_without_own(deadline))
    }

    /// Returns true once a view without this node has come, which had [announced that it leaves](Mesh::announce_leave).
    pub fn is_let_go(&self) -> bool {
        self.end().state.view_without_own(Std.now()).is_some()
    }

    /// Returns the number of the mesh's view.
    pub fn view_number(&self) -> u32 {
        self.0.scope.number()
    }

    /// Returns the mesh of the members of `view`, with messages and contributions of its own. A fabric that is built from it reaches
    /// them. What others have sent in this view before is there.
    ///
    /// The mesh that this was called on goes on beside it. The node leaves the job when no mesh of it is left. When it drops or closes the
    /// mesh of one view and goes on in others, its peers find it [`PeerState::Left`] in that view, behind what it has sent there, and in no
    /// other; [`PeerState::Lost`] if the thread is panicking that drops it.
    ///
    /// # Errors
    /// Returns [`FabricError::Config`] if this node had a mesh of the view and has dropped or closed it, and for a view that it has not
    /// had. One of another job with the same number and members is taken for its own.
    pub fn of_view(&self, view: &View) -> Result<Mesh> {
        self.end().check_process()?;
        if !self.end().state.has_had(view) {
            return Err(FabricError::Config(format!(
                "{} has had no view {} of {}: take those that `Mesh::next_view` returns",
                self.node(),
                view.number(),
                NodeId::list(view.members().iter().copied())
            )));
        }
        Mesh::part(self.end(), view.clone())
    }

    /// Returns true if this node had a mesh of `view` and has dropped or closed it, so that it does not come back into it.
    pub fn has_closed(&self, view: &View) -> bool {
        self.end().state.is_closed(view.number())
    }

    /// Returns the address at which this node lets others [join](Mesh::join) its job, as it knows it. `None` where the job's number of nodes is
    /// fixed, and once it has left.
    pub fn joined_at(&self) -> Option<Address> {
        let door = self.end().door.lock().unwrap_or_else(PoisonError::into_inner);
        door.as_ref().and_then(|(door, _)| door.own_address())
    }

    /// Gives `bytes` to every node of the mesh's view and returns what every node gave, this one included, in the order of
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
        self.end().check_process()?;
        let (state, scope) = (&self.end().state, &self.0.scope);
        let view = scope.number();
        let round = state.begin_gather(view, label);
        let sent = scope.nodes().iter().try_for_each(|&to| {
            let parcel = Parcel::Gather {
                view,
                label,
                round,
                bytes,
            };
            match self.send_parcel(to, parcel, Some(deadline)) {
                // It may be gone because of the loss of another one, which its last words name. The wait tells.
                Err(FabricError::PeerLost(_)) => Ok(()),
                sent => sent,
            }
        });
        let gathered = sent.and_then(|()| state.wait_gather(scope, label, round, deadline));
        state.end_gather(view, label, round);
        self.end().parcels_taken();
        gathered
    }

    fn send_parcel(&self, to: NodeId, parcel: Parcel<'_>, deadline: Option<Time>) -> Result<()> {
        let position = to.position_in(self.nodes())?;
        let index = self.0.scope.indices()[position];
        self.end().send(&self.0, index, parcel, deadline)
    }

    /// Returns how many calls of [`allgather`](Mesh::allgather) with this label this node has begun.
    pub fn gathers_begun(&self, label: &str) -> u64 {
        self.end().state.begun(self.view_number(), label)
    }

    /// Waits until more than `known` peers have left, were lost, or have closed the mesh's view, and returns how many have: what
    /// [`departures`](Control::departures) returns at that time, so `known` or less at `deadline`.
    pub fn wait_for_departures(&self, known: u64, deadline: Time) -> u64 {
        self.end()
            .state
            .wait_for_departures(&self.0.presence, known, deadline)
    }

    /// Registers `revoker`, which from now on revokes the access of lost nodes before their loss is reported. The fabric
    /// that is built from this mesh calls this. Until there is a revoker, a loss is reported as soon as it is seen.
    pub fn add_revoker(&self, revoker: Arc<dyn Revoke>) {
        let scope = Arc::clone(&self.0.scope);
        self.end().state.add_revoker(scope, revoker);
    }

    /// Registers `look`, which returns whether the peers have revoked this node's access. With a `look` that reads this in
    /// the fabric's memory, [`declared_lost`](Control::declared_lost) is true from the moment of the revocation. In a job of a fixed number
    /// of nodes only the first call counts. In one that nodes join, the look of each fabric does until the mesh of its view is dropped.
    pub fn look_for_revocation(&self, look: impl Fn() -> bool + Send + Sync + 'static) {
        self.end()
            .state
            .look_for_revocation(self.view_number(), Box::new(look));
    }

    /// Records that this node was declared lost. The fabric calls this when it finds that the peers have revoked this
    /// node's access.
    pub fn declare_out(&self) {
        self.end().state.declare_out();
    }

    /// Returns the addresses of this node's and of the peer's end of their control connection. `None` between nodes of one
    /// process, and where the connection is gone.
    pub fn addresses(&self, peer: NodeId) -> Option<(IpAddr, IpAddr)> {
        let Way::Tcp(wire, _) = &self.end().link else {
            return None;
        };
        let connection = wire.connections[self.end().state.index(peer).ok()?].get()?;
        let (own, its) = connection.addresses()?;
        Some((own.ip().to_canonical(), its.ip().to_canonical()))
    }

    /// Cuts this node off as if its process had been killed: it says no goodbye, its peers see it lost, and
    /// it sees all of them lost. This is for tests of what a loss does.
    pub fn fail(&self) {
        self.end().cut(PeerState::Lost);
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if self.end.check_process().is_err() {
            return;
        }
        match self.end.state.close_view(self.scope.number(), false) {
            Closing::Nothing => {}
            Closing::View => self.end.say_closed(&self.scope, end_of_thread()),
            Closing::Job => self.end.leave(),
        }
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
        let view = self.view_number();
        self.send_parcel(to, Parcel::Message { view, payload }, None)
    }

    fn receive(&self, deadline: Option<Time>) -> Result<Option<(NodeId, Vec<u8>)>> {
        self.end().check_process()?;
        let message = self.end().state.receive(self.view_number(), deadline);
        self.end().parcels_taken();
        Ok(message)
    }

    fn peer_state(&self, node: NodeId) -> PeerState {
        let (state, presence) = (&self.end().state, &self.0.presence);
        let closed = presence
            .is_closed_by_any()
            .then(|| state.index(node).ok())
            .flatten();
        match closed.and_then(|index| presence.closed_how(index)) {
            Some(how) => how.peer_state(),
            None => state.peer_state(node),
        }
    }

    #[inline]
    fn departures(&self) -> u64 {
        self.0.presence.departures()
    }

    #[inline]
    fn declared_lost(&self) -> bool {
        self.end().state.is_out()
    }

    fn close(&self) {
        let end = self.end();
        if end.check_process().is_err() {
            return;
        }
        match end.state.close_view(self.view_number(), true) {
            Closing::Nothing => {}
            Closing::View => end.say_closed(&self.0.scope, end_of_thread()),
            Closing::Job => end.leave(),
        }
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

    /// Makes the end with this state that is connected to no other yet, and the wire to which connections are attached.
    fn unconnected(
        state: State,
        timeouts: &Timeouts,
        page: Option<OwnPage>,
    ) -> Result<(Arc<End>, Arc<Wire>)> {
        let state = Arc::new(state);
        let (wire, watch) = Wire::new(Arc::clone(&state), timeouts)?;
        let wire = Arc::new(wire);
        let served = Arc::clone(&wire);
        let thread = spawn("loco-mesh", move || served.run(watch))?;
        let end = End {
            state,
            link: Way::Tcp(Arc::clone(&wire), Mutex::new(Some(thread))),
            door: Mutex::default(),
            process: std::process::id(),
            _page: page,
        };
        Ok((Arc::new(end), wire))
    }

    /// Sends a parcel of a view to the node at `index`.
    fn send(&self, part: &Part, index: usize, parcel: Parcel<'_>, deadline: Option<Time>) -> Result<()> {
        self.check_process()?;
        let to = self.state.nodes()[index];
        let is_gone = self.state.peer_state(to) != PeerState::Alive || part.presence.is_closed_by(index);
        if is_gone || self.state.is_closed(part.scope.number()) {
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

    /// Keeps the door by which others join, until this node leaves.
    fn keep_door(&self, door: Arc<Door>, acceptor: Acceptor) {
        let mut kept = self.door.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = Some((door, acceptor));
    }

    /// Tells the members of a view that this node takes no part in it any more.
    fn say_closed(&self, scope: &Scope, how: Closed) {
        match &self.link {
            Way::Tcp(wire, _) => wire.say_closed(scope, how),
            // Nodes of one process have one view: who closes it leaves.
            Way::InProcess(_) => {}
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
        // Whoever is half way in hears of the end from its connection.
        let door = self.door.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((door, acceptor)) = door {
            door.shut();
            drop(acceptor);
        }
        match &self.link {
            Way::InProcess(neighbours) => neighbours.leave(self.state.own_index(), how),
            Way::Tcp(wire, _) => wire.leave(how),
        }
    }

    /// Leaves the mesh, with a goodbye unless the thread is panicking.
    fn leave(&self) {
        self.cut(end_of_thread().peer_state());
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if self.check_process().is_err() {
            // The I/O thread is not in this process, nor is that of the door, whose descriptors this process shares.
            let door = self.door.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(door.take());
            return;
        }
        self.leave();
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

/// Returns what others are to find of a node whose mesh is dropped or closed now.
fn end_of_thread() -> Closed {
    match thread::panicking() {
        true => Closed::Lost,
        false => Closed::Left,
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
