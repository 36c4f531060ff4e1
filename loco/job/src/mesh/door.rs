//! The members' side of a node that joins: it asks any of them, and connects with all.
//!
//! The member that lets nodes in answers with an index and the addresses of all members. Every member then takes a connection of the
//! newcomer, once it has heard of it ([`joins`](super::agreement)). What happens to newcomers that die on the way:
//!
//! * The one that let it in keeps the connection on which it asked. It loses a newcomer that closes it before it is connected, and
//!   closes it when it leaves itself. To a newcomer that is lost meanwhile it says so: that one must not take it for the end of this node.
//! * Every member loses one that does not connect within [`Timeouts::connect`](crate::Timeouts::connect).
//! * One that is connected is watched like any peer.
//!
//! So it costs the members its index, and nobody else joins meanwhile.
//!
//! Relies on [`accept`](super::accept) for connections and on [`wire`](super::wire). Used by `connect` and `entering`, in jobs with
//! room for more nodes. The newcomer's side is [`entering`](super::entering).

use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use loco_fabric::{FabricError, NodeId, Platform, Result, Std, Time};

use super::admission::{Admission, Answer, Place};
use super::agreement::{Newcomer, NotNow};
use super::handshake::{Claim, HANDSHAKE_PATIENCE, HandshakeError, Nodes, Purpose, Refusal};
use super::introduction::{self, Introduction};
use super::rendezvous::noise;
use super::session::Session;
use super::view::view_number;
use super::wire::Wire;
use crate::hosts::Address;

/// Longest introduction, in bytes.
const INTRODUCTION_BYTES_MAX: usize = 1024;

/// Lets nodes into the job of a member.
pub(super) struct Door {
    wire: Arc<Wire>,
    /// The nodes that the job began with.
    first: Vec<NodeId>,
    nodes: Nodes,
    /// Where members listen, this one included, as this one knows it.
    addresses: Mutex<BTreeMap<NodeId, Address>>,
    /// Set once this node is in and the job has begun.
    is_open: AtomicBool,
    asking: Mutex<Asking>,
}

/// The connections of those that were let in and may not be connected yet.
#[derive(Default)]
struct Asking {
    /// By index.
    streams: BTreeMap<usize, TcpStream>,
    /// No more are kept: this node leaves.
    is_over: bool,
}

impl Door {
    /// Makes the door of a member of a job that began with `first`, and knows where other members listen. It is closed.
    ///
    /// # Errors
    /// Fails if there is no memory for a digest.
    pub(super) fn new(
        wire: Arc<Wire>,
        first: &[NodeId],
        addresses: BTreeMap<NodeId, Address>,
    ) -> Result<Door> {
        Ok(Door {
            nodes: Nodes::of(first, wire.state.nodes().len()).map_err(noise)?,
            wire,
            first: first.to_vec(),
            addresses: Mutex::new(addresses),
            is_open: AtomicBool::new(false),
            asking: Mutex::default(),
        })
    }

    /// Answers those that ask, from now on.
    pub(super) fn open(&self) {
        // Relaxed: who asks too early asks again.
        self.is_open.store(true, Ordering::Relaxed);
    }

    /// Ends the connections of those that were let in and are not connected yet, as this node leaves. They hear of its end by that, and no
    /// thread waits for them any more.
    pub(super) fn shut(&self) {
        let mut asking = self.asking();
        asking.is_over = true;
        for stream in std::mem::take(&mut asking.streams).into_values() {
            // Fails when the other side was faster.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Returns the nodes of the job, in the form in which a newcomer shows that it knows them.
    pub(super) fn nodes(&self) -> Nodes {
        self.nodes
    }

    /// Returns the address at which this node listens.
    pub(super) fn own_address(&self) -> Option<Address> {
        self.addresses().get(&self.wire.state.node()).cloned()
    }

    fn addresses(&self) -> MutexGuard<'_, BTreeMap<NodeId, Address>> {
        // A panic elsewhere leaves it whole.
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn asking(&self) -> MutexGuard<'_, Asking> {
        // A panic elsewhere leaves it whole.
        self.asking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses a process that this node does not wait for.
    pub(super) fn judge(&self, claim: &Claim) -> Result<(), Refusal> {
        let state = &self.wire.state;
        match claim.purpose {
            Purpose::Ask { .. } if self.is_open.load(Ordering::Relaxed) => Ok(()),
            Purpose::Ask { .. } => Err(Refusal::NotNow),
            Purpose::Enter { to, by, key, .. } => {
                self.nodes.check_with_room(&claim.nodes)?;
                if to != state.node().0 {
                    return Err(Refusal::NotMe(to));
                }
                let index = state.index(claim.from());
                let index = index.map_err(|_| Refusal::UnknownNode(claim.node))?;
                let by = state.index(NodeId(by)).map_err(|_| Refusal::UnknownNode(by))?;
                match state.expects(index, key) {
                    true => Ok(()),
                    false => Err(state.why_not_expected(index, key, by)),
                }
            }
            Purpose::Peer { .. } | Purpose::Register { .. } => Err(Refusal::Purpose),
        }
    }

    /// Goes on with a process that was let through.
    pub(super) fn welcome(&self, claim: &Claim, session: Session) {
        match claim.purpose {
            Purpose::Ask { key } => self.answer(key, session),
            Purpose::Enter { port, .. } => {
                if let Err(error) = self.let_in(claim.from(), port, session) {
                    tracing::warn!(node = %self.wire.state.node(), newcomer = %claim.from(), %error, "a node that joins is not connected");
                }
            }
            Purpose::Peer { .. } | Purpose::Register { .. } => {}
        }
    }

    /// Answers a process that asks to join. Loses it if it goes before it is connected.
    fn answer(&self, key: u64, mut session: Session) {
        let mut proposed = Err(NotNow::Over);
        self.wire
            .agree(|own, actions| proposed = own.propose(key, actions));
        let answer = match &proposed {
            Ok(newcomer) => Answer::Admitted(self.admission(newcomer)),
            Err(why) => self.refusal(*why),
        };
        let written = session.write(&answer, Std.now().after(HANDSHAKE_PATIENCE));
        let Ok(newcomer) = proposed else {
            return;
        };
        let node = self.wire.state.nodes()[newcomer.index];
        tracing::info!(by = %self.wire.state.node(), newcomer = %node, "a node is let in");
        let has_ended = written.is_err()
            || !self.keep(newcomer.index, &session.stream)
            || self.wait_for_end(newcomer.index, key, &mut session);
        let mut asking = self.asking();
        asking.streams.remove(&newcomer.index);
        let is_over = asking.is_over;
        drop(asking);
        // A node that leaves accuses nobody: the others wait for the newcomer on their own.
        if has_ended && !is_over {
            self.wire.lose_if_expected(newcomer.index, key);
        }
    }

    /// Waits for the end of the connection on which the newcomer at `index` has asked: it says nothing, and closes once it is in or gives
    /// up. Returns false once it is lost, which is for the I/O thread to say: that does not count the time in which this process did
    /// not run.
    fn wait_for_end(&self, index: usize, key: u64, session: &mut Session) -> bool {
        let turn = self.wire.timeouts.connect.min(HANDSHAKE_PATIENCE);
        loop {
            match session.read::<()>(0, Std.now().after(turn)) {
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
                _ => return true,
            }
            if self.asking().is_over {
                return true;
            }
            if !self.wire.state.is_on_its_way(index, key) {
                // A sponsor that was declared lost itself knows nothing of what the others think of the newcomer.
                if !self.wire.state.is_known(index) && !self.wire.state.is_out() {
                    // Fails when it has ended, too.
                    let _ = session.write(&Refusal::Late, Std.now().after(HANDSHAKE_PATIENCE));
                }
                return false;
            }
        }
    }

    /// Keeps the connection of the newcomer at `index` for [`shut`](Door::shut). Returns false if that was called.
    fn keep(&self, index: usize, stream: &TcpStream) -> bool {
        let mut asking = self.asking();
        if !asking.is_over {
            match stream.try_clone() {
                Ok(stream) => drop(asking.streams.insert(index, stream)),
                // There is no descriptor: the end of this node does not hasten that of the connection.
                Err(error) => tracing::warn!(%error, "the connection of a node that joins is not kept"),
            }
        }
        !asking.is_over
    }

    fn refusal(&self, why: NotNow) -> Answer {
        let nodes = self.wire.state.nodes();
        match why {
            NotNow::Sponsor(sponsor) => match self.addresses().get(&nodes[sponsor]) {
                Some(address) => Answer::Ask(Place::of(address)),
                None => Answer::Later,
            },
            NotNow::Busy => Answer::Later,
            NotNow::Full => Answer::Full(u32::try_from(nodes.len()).unwrap_or(u32::MAX)),
            NotNow::Over => Answer::Over,
        }
    }

    fn admission(&self, newcomer: &Newcomer) -> Admission {
        let nodes = self.wire.state.nodes();
        let addresses = self.addresses();
        // Indices are below the number of ids, which have 16 bits.
        let number = |index| u32::try_from(index).unwrap_or(u32::MAX);
        let place = |&member: &usize| Some((number(member), Place::of(addresses.get(&nodes[member])?)));
        Admission {
            first: self.first.iter().map(|node| node.0).collect(),
            room: number(nodes.len()),
            index: number(newcomer.index),
            view: view_number(newcomer.epoch),
            members: newcomer.members.iter().filter_map(place).collect(),
        }
    }

    /// Takes the connection of a newcomer that listens at `port`.
    fn let_in(&self, node: NodeId, port: u16, mut session: Session) -> Result<()> {
        let by = Std.now().after(HANDSHAKE_PATIENCE);
        let host = session
            .stream
            .peer_addr()
            .map(|address| address.ip().to_canonical());
        let host = host.map_err(|error| FabricError::os("asking for the address of a peer", &error))?;
        let address = Address::from(std::net::SocketAddr::new(host, port));
        self.addresses().insert(node, address);
        let own = Introduction::of_process(&self.wire.timeouts);
        let its = hear_introduction(&mut session, by).map_err(|error| lost_in(node, &error))?;
        tell_introduction(&mut session, &own, by).map_err(|error| lost_in(node, &error))?;
        introduce(&self.wire, node, session, &own, &its)?;
        tracing::info!(node = %self.wire.state.node(), newcomer = %node, "connected with a node that joins");
        Ok(())
    }
}

fn lost_in(node: NodeId, error: &HandshakeError) -> FabricError {
    FabricError::Refused(format!("{node}: {error}"))
}

/// Sends this node's introduction on the connection between a newcomer and a member.
pub(super) fn tell_introduction(
    session: &mut Session,
    own: &Introduction,
    by: Time,
) -> Result<(), HandshakeError> {
    Ok(session.write(own, by)?)
}

/// Hears the introduction of the other side.
pub(super) fn hear_introduction(session: &mut Session, by: Time) -> Result<Introduction, HandshakeError> {
    Ok(session.read(INTRODUCTION_BYTES_MAX, by)?)
}

/// Hands over the connection with `node`, if the settings of both sides fit. Both come to the same result.
///
/// # Errors
/// Returns [`FabricError::Config`] if they do not.
pub(super) fn introduce(
    wire: &Arc<Wire>,
    node: NodeId,
    session: Session,
    own: &Introduction,
    its: &Introduction,
) -> Result<()> {
    let both = [(wire.state.node(), own.clone()), (node, its.clone())];
    introduction::check(&both, wire.state.nodes().len())?;
    wire.attach(node, session);
    if let (Ok(index), Some(process)) = (wire.state.index(node), its.process_seen_by(own)) {
        wire.watch_process(index, process);
    }
    Ok(())
}
