//! The newcomer's side of a join: it asks members until one lets it in, connects with all of them, and waits until it is in.
//!
//! Relies on [`admission`](super::admission) and [`door`](super::door), the members' side. Used by programs, through
//! [`Mesh::join`].

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use loco_fabric::{FabricError, NodeId, Platform, Result, Std, Time};
use loco_trace::waits::{self, Stage};

use super::Mesh;
use super::accept::Acceptor;
use super::admission::{ANSWER_BYTES_MAX, Admission, Answer};
use super::agreement::Newcomer;
use super::door::{Door, hear_introduction, introduce, tell_introduction};
use super::handshake::{
    self, Claim, Credentials, HANDSHAKE_PATIENCE, HandshakeError, Nodes, Purpose, Refusal,
};
use super::introduction::Introduction;
use super::rendezvous::listener_for;
use super::session::Session;
use super::sockets::connect_within;
use super::state::State;
use super::system::spawn;
use super::wire::Wire;
use super::{End, View};
use crate::hosts::Address;
use crate::job;
use crate::join::Join;
use crate::secret::random;
use crate::shown::show;

/// What a node waits for that joins, as others see it.
const MEMBERS: &str = "the members of the job";
/// First and longest pause between attempts.
const RETRY_MIN: Duration = Duration::from_millis(5);
const RETRY_MAX: Duration = Duration::from_millis(200);
/// The most members that are asked one after the other, each named by the one before.
const HOPS_MAX: usize = 4;

impl Mesh {
    /// Joins a running job that has room for more nodes ([`JobBuilder::nodes_max`](crate::JobBuilder::nodes_max)), and returns the mesh
    /// of the view that this makes.
    ///
    /// This node gets an id that no node has had, is connected with all members, and is known to them: their
    /// [`next_view`](Mesh::next_view) has it. Its loss is found and agreed like that of any other. Nodes come in one after the other. A
    /// process that ran as a node before and was lost joins as a new one. Its old self stays shut out.
    ///
    /// It takes [`Timeouts::connect`](crate::Timeouts::connect) at most, and some seconds to say goodbye if it fails. Members that go
    /// meanwhile are waited for until their loss is agreed. Where that takes the place with it that this node was given, it asks for
    /// another, so that its id may be higher than expected. A message of this node may reach a member before its view does.
    ///
    /// # Errors
    /// Returns [`FabricError::Refused`], with the remedy, when the secrets, job ids or versions differ; when the job has used all its ids,
    /// is over or has a fixed number of nodes. Returns
    /// [`FabricError::Timeout`] naming the members that were not reached; [`FabricError::Config`] when timeouts do not fit those of a member, or `join`
    /// cannot work; [`FabricError::Os`] when this node cannot listen, or the name of a host has no address.
    pub fn join(join: &Join) -> Result<Mesh> {
        let (id, secret) = job::identity(join.id.clone(), join.secret.clone())?;
        join.timeouts.check()?;
        let credentials = Credentials { job: id, secret };
        let start = Std.now();
        let deadline = start.after(join.timeouts.connect);
        loop {
            match join_once(join, &credentials, start, deadline) {
                Ok(mesh) => return Ok(mesh),
                Err(NotIn::Ever(error)) => return Err(error),
                Err(NotIn::Yet(why)) if deadline.since(Std.now()) <= RETRY_MAX => {
                    return Err(late(why, start));
                }
                Err(NotIn::Yet(why)) => tracing::info!(%why, "asking to be let in again"),
            }
            thread::sleep(RETRY_MAX);
        }
    }
}

/// Asks to be let in, and comes in unless the place that it is given is lost.
fn join_once(join: &Join, credentials: &Credentials, start: Time, deadline: Time) -> Result<Mesh, NotIn> {
    let key = u64::from_ne_bytes(random()?);
    let asked = ask(join, credentials, key, start, deadline)?;
    let ids = asked.admission.ids()?;
    let newcomer = asked.admission.newcomer(key);
    let node = ids[newcomer.index];
    let sponsor = newcomer.members.first().map(|&sponsor| ids[sponsor]);
    let page = show(&credentials.job, node, newcomer.members.len() + 1)?;
    let members = asked.members(&ids)?;
    let others: Vec<_> = members.keys().copied().collect();
    let times = (Duration::ZERO, Some(join.timeouts.connect));
    let _arriving = waits::begin(node, Stage::SetUp, MEMBERS, &others, times, false);

    let state = State::joining(newcomer, ids.into());
    state.expose();
    let (end, wire) = End::unconnected(state, &join.timeouts, page)?;
    let mut addresses = members.clone();
    addresses.insert(node, asked.own_address()?);
    let door = Arc::new(Door::new(Arc::clone(&wire), &asked.admission.first(), addresses)?);
    let entering = Arc::new(Entering {
        wire,
        nodes: door.nodes(),
        sponsor: sponsor.ok_or_else(contradiction)?,
        key,
        port: asked.port()?,
        credentials: credentials.clone(),
        unreached: Mutex::default(),
        failed: Mutex::default(),
        stop: AtomicBool::new(false),
    });
    let (judging, welcoming) = (Arc::clone(&door), Arc::clone(&door));
    let acceptor = Acceptor::start(
        asked.listener,
        credentials.clone(),
        move |claim| judging.judge(claim),
        move |claim, session| welcoming.welcome(&claim, session),
    )?;
    end.keep_door(Arc::clone(&door), acceptor);
    let view = entering.enter(members, start, deadline)?;
    door.open();
    // The connection on which this node has asked closes now.
    Ok(Mesh::part(&end, view)?)
}

/// Says that this node was not let in in time.
fn late(why: String, start: Time) -> FabricError {
    FabricError::Timeout {
        what: format!("a member to let this node in ({why})"),
        after: Std.now().since(start),
    }
}

/// Says that a member has sent what no member sends.
fn contradiction() -> FabricError {
    FabricError::Refused("a member contradicts itself: build all nodes from the same sources".to_owned())
}

impl Admission {
    /// Returns the nodes that the job began with.
    fn first(&self) -> Vec<NodeId> {
        self.first.iter().map(|&id| NodeId(id)).collect()
    }

    /// Returns the ids that the job has room for.
    pub(super) fn ids(&self) -> Result<Vec<NodeId>> {
        let members = self.members.iter().map(|&(member, _)| member);
        let is_sound = members.clone().all(|member| member < self.index) && members.is_sorted();
        match is_sound && !self.first.is_empty() && self.index < self.room && self.first.is_sorted() {
            true => job::ids(&self.first(), self.room as usize),
            false => Err(contradiction()),
        }
    }

    fn newcomer(&self, key: u64) -> Newcomer {
        Newcomer {
            index: self.index as usize,
            key,
            members: self.members.iter().map(|&(member, _)| member as usize).collect(),
        }
    }
}

/// What a process has that was let in.
struct Asked {
    admission: Admission,
    /// The member that let it in, as it was reached.
    at: Address,
    /// Open until the process is in: when it closes before, the process has given up.
    session: Session,
    /// Where later newcomers will connect.
    listener: TcpListener,
}

impl Asked {
    fn port(&self) -> Result<u16> {
        let address = self.listener.local_addr();
        let address =
            address.map_err(|error| FabricError::os("asking for the port of a listener", &error))?;
        Ok(address.port())
    }

    /// Returns the address at which this process listens, by the interface on which it reached the member.
    fn own_address(&self) -> Result<Address> {
        let local = self.session.stream.local_addr();
        let local = local.map_err(|error| FabricError::os("asking for an address of this host", &error))?;
        Ok(Address::from(std::net::SocketAddr::new(
            local.ip().to_canonical(),
            self.port()?,
        )))
    }

    fn members(&self, ids: &[NodeId]) -> Result<BTreeMap<NodeId, Address>> {
        let members = self.admission.members.iter();
        let member = |(index, place): &(u32, super::admission::Place)| {
            Ok((ids[*index as usize], place.seen_from(&self.at)?))
        };
        members.map(member).collect()
    }
}

/// The reason why a process is not let in.
enum NotIn {
    /// It may be otherwise soon.
    Yet(String),
    /// Trying again does not help.
    Ever(FabricError),
}

impl From<FabricError> for NotIn {
    fn from(error: FabricError) -> NotIn {
        NotIn::Ever(error)
    }
}

/// The reason why a process is not let in by one member.
enum NotBy {
    /// Nobody listens there, or who does leaves.
    Nobody(String),
    /// The member may do so soon.
    Yet(String),
    /// The job does not let it in.
    Ever(FabricError),
}

/// Asks members until one lets this process in.
fn ask(join: &Join, credentials: &Credentials, key: u64, start: Time, deadline: Time) -> Result<Asked> {
    for member in &join.members {
        // A name without an address is an error at once.
        member.resolve()?;
    }
    let mut pause = RETRY_MIN;
    loop {
        let (mut nobody, mut yet) = (Vec::new(), Vec::new());
        for member in &join.members {
            match ask_from(member, credentials, key, deadline) {
                Ok(asked) => return Ok(asked),
                Err(NotBy::Nobody(why)) => nobody.push(why),
                Err(NotBy::Yet(why)) => yet.push(why),
                Err(NotBy::Ever(error)) => return Err(error),
            }
        }
        if yet.is_empty() {
            return Err(FabricError::Refused(format!(
                "{}: the job is over, or has a fixed number of nodes; start it with room for more (LOCO_NODES_MAX)",
                nobody.join(", ")
            )));
        }
        if deadline.since(Std.now()) <= pause {
            return Err(late(yet.join(", "), start));
        }
        thread::sleep(pause);
        pause = (pause * 2).min(RETRY_MAX);
    }
}

/// Asks the member at an address, and those that it names.
fn ask_from(first: &Address, credentials: &Credentials, key: u64, deadline: Time) -> Result<Asked, NotBy> {
    let mut at = first.clone();
    for hop in 0..HOPS_MAX {
        let asked = connect_within(&at, deadline).and_then(|stream| {
            let mut session = handshake::connect(stream, credentials, &Claim::asking(key), deadline)?;
            let answer: Answer = session.read(ANSWER_BYTES_MAX, deadline)?;
            Ok((session, answer))
        });
        let (session, answer) = match asked {
            Ok(asked) => asked,
            // The member that was named may have gone, and its loss is not agreed yet.
            Err(error) if error.is_refused_connection() && hop == 0 => {
                return Err(NotBy::Nobody(format!("nobody listens at {at}")));
            }
            Err(error) if error.is_final() || matches!(error, HandshakeError::OtherJob) => {
                return Err(NotBy::Ever(FabricError::Refused(format!("{at}: {error}"))));
            }
            Err(error) => return Err(NotBy::Yet(format!("{at}: {error}"))),
        };
        match answer {
            Answer::Admitted(admission) => {
                // Later newcomers reach this process as it reaches the members.
                let listener = listener_for(&at).map_err(|error| {
                    NotBy::Ever(FabricError::os("listening for later nodes".to_owned(), &error))
                })?;
                return Ok(Asked {
                    admission,
                    at,
                    session,
                    listener,
                });
            }
            Answer::Ask(place) => at = place.seen_from(&at).map_err(NotBy::Ever)?,
            Answer::Later => {
                return Err(NotBy::Yet(format!(
                    "{at}: another node joins, or a loss is being agreed on"
                )));
            }
            Answer::Full(room) => {
                return Err(NotBy::Ever(FabricError::Refused(format!(
                    "{at}: the job has used all of its {room} ids, one for each node and each attempt to join; start it with room for more \
                     (LOCO_NODES_MAX)"
                ))));
            }
            Answer::Over => return Err(NotBy::Nobody(format!("the node at {at} leaves"))),
        }
    }
    Err(NotBy::Yet(format!(
        "{first}: the members do not agree on who lets nodes in"
    )))
}

/// The connections of a node that joins, under construction.
struct Entering {
    wire: Arc<Wire>,
    nodes: Nodes,
    /// The member that has let this node in.
    sponsor: NodeId,
    key: u64,
    /// The port at which this node listens.
    port: u16,
    credentials: Credentials,
    /// The last failures to connect with members.
    unreached: Mutex<BTreeMap<NodeId, String>>,
    /// The reason why this node does not come in.
    failed: Mutex<Option<NotIn>>,
    /// Set when the threads are to end at their next attempt.
    stop: AtomicBool,
}

impl Entering {
    /// Connects with all members, and waits until this node is in.
    fn enter(
        self: &Arc<Self>,
        members: BTreeMap<NodeId, Address>,
        start: Time,
        deadline: Time,
    ) -> Result<View, NotIn> {
        let others: Vec<_> = members.keys().copied().collect();
        for (member, address) in members {
            let entering = Arc::clone(self);
            spawn("loco-entering", move || {
                entering.reach(member, &address, deadline)
            })?;
        }
        let state = &self.wire.state;
        let entered = state.wait_until_in(deadline, || {
            let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner).take();
            let lost = || NotIn::Yet("the members have lost this node before it was in".to_owned());
            failed.or_else(|| state.is_out().then(lost))
        });
        // Relaxed: only hastens the end.
        self.stop.store(true, Ordering::Relaxed);
        entered.unwrap_or_else(|| Err(NotIn::Ever(self.late(&others, Std.now().since(start)))))
    }

    fn late(&self, members: &[NodeId], after: Duration) -> FabricError {
        let unreached = self.unreached.lock().unwrap_or_else(PoisonError::into_inner);
        let is_missing = |member: &&NodeId| !matches!(self.wire.state.index(**member), Ok(index) if self.wire.is_attached(index));
        let reason = |member: &NodeId| match unreached.get(member) {
            Some(why) => format!("{member} ({why})"),
            None => member.to_string(),
        };
        let missing: Vec<_> = members.iter().filter(is_missing).map(reason).collect();
        FabricError::Timeout {
            what: match missing.is_empty() {
                true => "the members to agree that this node is in".to_owned(),
                false => missing.join(", "),
            },
            after,
        }
    }

    fn fail(&self, why: NotIn) {
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
        self.wire.state.notify();
    }

    /// Connects with a member, trying until the deadline, or until the member is gone.
    fn reach(&self, member: NodeId, address: &Address, deadline: Time) {
        let mut pause = RETRY_MIN;
        let is_over = || {
            let is_shunned = |index| self.wire.state.is_shunned(index);
            self.stop.load(Ordering::Relaxed) || self.wire.state.index(member).is_ok_and(is_shunned)
        };
        while !is_over() {
            match self.try_to_reach(member, address, deadline) {
                Ok(Ok(())) => return,
                Ok(Err(error)) => return self.fail(NotIn::Ever(error)),
                Err(error) if error.is_final() => {
                    let why = format!("{member} at {address}: {error}");
                    return self.fail(match error {
                        HandshakeError::Refused(Refusal::NoLonger) => NotIn::Yet(why),
                        _ => NotIn::Ever(FabricError::Refused(why)),
                    });
                }
                Err(error) => {
                    let mut unreached = self.unreached.lock().unwrap_or_else(PoisonError::into_inner);
                    unreached.insert(member, format!("at {address}: {error}"));
                }
            }
            if deadline.since(Std.now()) <= pause {
                return;
            }
            thread::sleep(pause);
            pause = (pause * 2).min(RETRY_MAX);
        }
    }

    fn try_to_reach(
        &self,
        member: NodeId,
        address: &Address,
        deadline: Time,
    ) -> Result<Result<()>, HandshakeError> {
        // A member that is stopped keeps nobody for longer.
        let by = deadline.min(Std.now().after(HANDSHAKE_PATIENCE));
        let claim = Claim {
            node: self.wire.state.node().0,
            nodes: self.nodes,
            purpose: Purpose::Enter {
                to: member.0,
                by: self.sponsor.0,
                key: self.key,
                port: self.port,
            },
        };
        let stream = connect_within(address, by)?;
        let mut session = handshake::connect(stream, &self.credentials, &claim, by)?;
        let own = Introduction::of_process(&self.wire.timeouts);
        tell_introduction(&mut session, &own, by)?;
        let its = hear_introduction(&mut session, by)?;
        Ok(introduce(&self.wire, member, session, &own, &its))
    }
}
