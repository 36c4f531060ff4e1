//! The newcomer's side of a join, once a member has let it in: it connects with all members, and waits until it is in.
//!
//! Relies on [`asking`](super::asking), which comes before, and on [`door`](super::door), the members' side. Used by programs,
//! through [`Mesh::join`].

use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use loco_fabric::{FabricError, NodeId, Platform, Result, Std, Time};
use loco_trace::waits::{self, Stage};

use super::Mesh;
use super::accept::Acceptor;
use super::asking::{ask, contradiction, late};
use super::door::{Door, hear_introduction, introduce, tell_introduction};
use super::handshake::{
    self, Claim, Credentials, HANDSHAKE_PATIENCE, HandshakeError, Nodes, Purpose, Refusal,
};
use super::introduction::Introduction;
use super::session::Session;
use super::sockets::{RETRY_MAX, Retries, connect_within};
use super::state::State;
use super::system::{StopOnDrop, spawn};
use super::wire::Wire;
use super::{End, View};
use crate::hosts::Address;
use crate::job;
use crate::join::Join;
use crate::secret::random;
use crate::shown::show;

/// The reason why members lose a node that has reached all of them.
const LOST: &str = "the members have lost this node before it was in: it was silent for too long (LOCO_SILENCE_MS, \
                    LOCO_SILENCE_SAME_HOST_MS), or took too long to connect (LOCO_CONNECT_TIMEOUT_MS)";
/// What a node waits for that joins, as others see it.
const MEMBERS: &str = "the members of the job";
/// The longest word of a sponsor that has lost this node, in bytes.
const REFUSAL_BYTES_MAX: usize = 64;

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
    /// another, so that its id may be higher than expected. If all of them end, it ends with that reason. If all live, and they lose this
    /// node, which did not reach one of them, it ends with the name of that one: another place would be lost alike. If it reached all, it
    /// was silent, and asks for one other place. A message of this node may reach a member before its view does.
    ///
    /// # Errors
    /// Returns [`FabricError::Refused`], with the remedy, when the secrets, job ids or versions differ; when the job has used all its ids,
    /// is over or has a fixed number of nodes; when its members have lost this node twice, although it reached all of them. Returns
    /// [`FabricError::Timeout`] naming the members that were not reached; [`FabricError::Config`] when timeouts do not fit those of a member, or `join` cannot work; [`FabricError::Os`] when this node
    /// cannot listen, or the name of a host has no address. Of several addresses, the one with such a reason counts only once no other
    /// may do.
    pub fn join(join: &Join) -> Result<Mesh> {
        let (id, secret) = job::identity(join.id.clone(), join.secret.clone())?;
        join.timeouts.check()?;
        let credentials = Credentials { job: id, secret };
        let start = Std.now();
        let deadline = start.after(join.timeouts.connect);
        let mut is_again = false;
        loop {
            let why = match join_once(join, &credentials, start, deadline) {
                Ok(mesh) => return Ok(mesh),
                Err(NotIn::Ever(error)) => return Err(error),
                Err(NotIn::Yet(why)) => why,
                Err(NotIn::Once(why)) if !is_again => {
                    is_again = true;
                    why
                }
                Err(NotIn::Once(why)) => {
                    let why = format!("{why}; it was so twice, and each attempt uses up an id");
                    return Err(FabricError::Refused(why));
                }
            };
            if deadline.since(Std.now()) <= RETRY_MAX {
                return Err(late(why, start));
            }
            tracing::info!(%why, "asking to be let in again");
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
        is_lost: AtomicBool::new(false),
        has_sponsor_ended: AtomicBool::new(false),
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
    let _asked = SponsorSession::watch(asked.session, &entering, deadline)?;
    let view = entering.enter(members, start, deadline)?;
    door.open();
    Ok(Mesh::part(&end, view)?)
}

/// The reason why a process is not let in.
enum NotIn {
    /// A member has gone, so that it may be otherwise soon.
    Yet(String),
    /// No member has gone, so that it would use up all ids if it went on. It may be otherwise at the next attempt.
    Once(String),
    /// Trying again does not help.
    Ever(FabricError),
}

impl From<FabricError> for NotIn {
    fn from(error: FabricError) -> NotIn {
        NotIn::Ever(error)
    }
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
    unreached: Mutex<BTreeMap<NodeId, Unreached>>,
    /// The reason why this node does not come in.
    failed: Mutex<Option<NotIn>>,
    /// Set once a member has said that it has lost this node.
    is_lost: AtomicBool,
    /// Set once the connection has ended on which the sponsor was asked.
    has_sponsor_ended: AtomicBool,
    /// Set when the threads are to end at their next attempt.
    stop: AtomicBool,
}

/// The connection on which this node has asked, while it comes in. It closes when this is dropped, which tells the sponsor that this node
/// is in or has given up.
struct SponsorSession {
    stream: TcpStream,
    hearing: Option<thread::JoinHandle<()>>,
}

impl SponsorSession {
    /// Hears from now on what the sponsor says, and whether it ends.
    fn watch(session: Session, entering: &Arc<Entering>, deadline: Time) -> Result<SponsorSession> {
        let stream = session.stream.try_clone();
        let stream =
            stream.map_err(|error| FabricError::os("watching the member that lets this node in", &error))?;
        let entering = Arc::clone(entering);
        let hearing = spawn("loco-asked", move || entering.hear_sponsor(session, deadline))?;
        Ok(SponsorSession {
            stream,
            hearing: Some(hearing),
        })
    }
}

impl Drop for SponsorSession {
    fn drop(&mut self) {
        // Fails when the other side was faster.
        let _ = self.stream.shutdown(Shutdown::Both);
        if let Some(hearing) = self.hearing.take() {
            let _ = hearing.join();
        }
    }
}

/// Returns true if no member answers like this a node that its sponsor has let in. The system has given the member's port to another
/// process, maybe of another run of the same program, and the loss of the member is not agreed yet.
fn is_of_somebody_else(error: &HandshakeError) -> bool {
    matches!(
        error,
        HandshakeError::OtherJob
            | HandshakeError::Stranger
            | HandshakeError::Version { .. }
            | HandshakeError::Refused(
                Refusal::NotMe(_)
                    | Refusal::Secret
                    | Refusal::Fixed
                    | Refusal::Nodes(_)
                    | Refusal::NodeIds
                    | Refusal::Room(_)
                    | Refusal::Purpose
                    | Refusal::UnknownNode(_)
            )
    )
}

/// The reason why a member is not connected.
struct Unreached {
    why: String,
    finding: Finding,
}

/// The state of a member that is not connected, as its address shows it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Finding {
    /// Nobody listens there, or somebody else does.
    Absent,
    /// Nothing is known.
    Silent,
    /// The member lives, and has lost this node.
    Lost,
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
        let _stop = StopOnDrop(&self.stop);
        for (member, address) in members {
            let entering = Arc::clone(self);
            spawn("loco-entering", move || {
                entering.reach(member, &address, deadline)
            })?;
        }
        let entered = self
            .wire
            .state
            .wait_until_in(deadline, |left| self.why_not(left, &others, start));
        entered.unwrap_or_else(|| Err(NotIn::Ever(self.late(&others, start))))
    }

    /// Returns the reason why this node does not come in, if there is one. The members at the indices `left` are those with which it
    /// may.
    fn why_not(&self, left: &[usize], members: &[NodeId], start: Time) -> Option<NotIn> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Relaxed: what was told before comes with the notice.
        let has_sponsor_ended = self.has_sponsor_ended.load(Ordering::Relaxed);
        let is_lost = self.is_lost.load(Ordering::Relaxed) || self.wire.state.is_out();
        // Of a sponsor that is connected, the agreement tells.
        let is_ended_sponsor = |index: usize| {
            has_sponsor_ended
                && self.wire.state.nodes()[index] == self.sponsor
                && !self.wire.is_attached(index)
        };
        // The address of a member that lives may be wrong as seen from here. So addresses count only once the sponsor has ended, which
        // each attempt to join begins with: otherwise a node that is wrongly placed would use up all ids.
        let has_ended = |&index: &usize| {
            is_ended_sponsor(index) || has_sponsor_ended && self.finding(index) == Some(Finding::Absent)
        };
        let is_alone = || {
            let reason = || NotIn::Yet("all members that it was to join have ended".to_owned());
            left.iter().all(has_ended).then(reason)
        };
        let lost = || {
            let is_gone = left.len() < members.len() || left.iter().any(|&index| is_ended_sponsor(index));
            if is_gone {
                let why = "a member has gone, and the others have lost this node";
                return Some(NotIn::Yet(why.to_owned()));
            }
            let mut findings = Vec::new();
            for &index in left.iter().filter(|&&index| !self.wire.is_attached(index)) {
                // None while this node tries to reach it for the first time.
                findings.push(self.finding(index)?);
            }
            Some(match findings.iter().all(|&finding| finding == Finding::Lost) {
                true => NotIn::Once(LOST.to_owned()),
                // Whoever asks again comes to the same end, and uses up an id each time.
                false => NotIn::Ever(self.late(members, start)),
            })
        };
        failed.or_else(|| is_lost.then(lost).flatten()).or_else(is_alone)
    }

    /// Returns what the address of the member at an index has shown last, if that member is not connected.
    fn finding(&self, index: usize) -> Option<Finding> {
        let unreached = self.unreached.lock().unwrap_or_else(PoisonError::into_inner);
        let member = self.wire.state.nodes()[index];
        let finding = unreached.get(&member).map(|its| its.finding);
        finding.filter(|_| !self.wire.is_attached(index))
    }

    /// Hears what the sponsor says on the connection on which it was asked: at most that it has lost this node. It closes it when it ends.
    fn hear_sponsor(&self, mut session: Session, deadline: Time) {
        // Relaxed: the notice comes behind it.
        match session.read::<Refusal>(REFUSAL_BYTES_MAX, deadline) {
            Ok(_) => self.is_lost.store(true, Ordering::Relaxed),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return,
            Err(_) => self.has_sponsor_ended.store(true, Ordering::Relaxed),
        }
        self.wire.state.notify();
    }

    /// Says which members were not reached.
    fn late(&self, members: &[NodeId], start: Time) -> FabricError {
        let unreached = self.unreached.lock().unwrap_or_else(PoisonError::into_inner);
        let is_missing = |member: &&NodeId| !matches!(self.wire.state.index(**member), Ok(index) if self.wire.is_attached(index));
        let reason = |member: &NodeId| match unreached.get(member) {
            Some(Unreached { why, .. }) => format!("{member} ({why})"),
            None => member.to_string(),
        };
        let missing: Vec<_> = members.iter().filter(is_missing).map(reason).collect();
        FabricError::Timeout {
            what: match missing.is_empty() {
                true => "the members to agree that this node is in".to_owned(),
                false => missing.join(", "),
            },
            after: Std.now().since(start),
        }
    }

    /// Keeps the reason why this node does not come in. One that is final stays.
    fn fail(&self, why: NotIn) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(*failed, Some(NotIn::Ever(_))) {
            *failed = Some(why);
        }
        drop(failed);
        self.wire.state.notify();
    }

    fn unreached(&self, member: NodeId, unreached: Unreached) {
        let mut all = self.unreached.lock().unwrap_or_else(PoisonError::into_inner);
        let has_lost = unreached.finding == Finding::Lost;
        all.insert(member, unreached);
        drop(all);
        if has_lost {
            self.is_lost.store(true, Ordering::Relaxed);
        }
        self.wire.state.notify();
    }

    /// Connects with a member, trying at least once, until the deadline or until the member is gone.
    fn reach(&self, member: NodeId, address: &Address, deadline: Time) {
        let mut retries = Retries::until(deadline);
        let is_gone = || {
            let is_shunned = |index| self.wire.state.is_shunned(index);
            self.wire.state.index(member).is_ok_and(is_shunned)
        };
        let mut is_first = true;
        while !self.stop.load(Ordering::Relaxed) && (is_first || !is_gone()) {
            is_first = false;
            match self.try_to_reach(member, address, deadline) {
                Ok(Ok(())) => return,
                Ok(Err(error)) => return self.fail(NotIn::Ever(error)),
                Err(HandshakeError::Refused(why @ Refusal::NoLonger)) => {
                    let why = format!("{member} at {address}: {why}");
                    // A sponsor that is stopped has not ended, and another run of the program at this address knows nothing of it.
                    return self.fail(match self.has_sponsor_ended.load(Ordering::Relaxed) {
                        true => NotIn::Yet(why),
                        false => NotIn::Once(why),
                    });
                }
                Err(error) if error.is_final() && !is_of_somebody_else(&error) => {
                    let why = format!("{member} at {address}: {error}");
                    return self.fail(NotIn::Ever(FabricError::Refused(why)));
                }
                Err(error) => {
                    let finding = match &error {
                        HandshakeError::Refused(Refusal::Late) => Finding::Lost,
                        _ if error.is_refused_connection() || is_of_somebody_else(&error) => Finding::Absent,
                        _ => Finding::Silent,
                    };
                    let why = format!("at {address}: {error}");
                    self.unreached(member, Unreached { why, finding });
                }
            }
            if retries.are_over() {
                return;
            }
            retries.pause();
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
