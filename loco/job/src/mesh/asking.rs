//! The first steps of a node that joins: it asks members until one lets it in.
//!
//! Relies on [`admission`](super::admission) for the answers of members. Used by [`entering`](super::entering), which goes on from
//! there.

use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener;

use loco_fabric::{FabricError, NodeId, Platform, Result, Std, Time};

use super::admission::{ANSWER_BYTES_MAX, Admission, Answer, Place};
use super::agreement::Newcomer;
use super::handshake::{self, Claim, Credentials, HANDSHAKE_PATIENCE, HandshakeError};
use super::rendezvous::{listener_for, listener_on_all_interfaces};
use super::session::Session;
use super::sockets::{Retries, connect_within};
use crate::hosts::Address;
use crate::job;
use crate::join::Join;

/// The most members that are asked one after the other, each named by the one before.
const HOPS_MAX: usize = 4;

/// The reason why a process is not let in by one member.
enum NotBy {
    /// Nobody listens there, or who does leaves.
    Nobody(String),
    /// The member may do so soon.
    Yet(String),
    /// Who listens there does not let it in. It may be no member: an address may have been given to another process.
    Refused(FabricError),
    /// The job does not let it in.
    Ever(FabricError),
}

/// Asks members until one lets this process in. An address that does not do costs nothing as long as another does.
///
/// # Errors
/// Returns [`FabricError::Timeout`] at the deadline, with what each member has said last. Once no address is worth another attempt,
/// returns the reason of the first that has one of its own, else that the job is over.
pub(super) fn ask(
    join: &Join,
    credentials: &Credentials,
    key: u64,
    start: Time,
    deadline: Time,
) -> Result<Asked> {
    let mut retries = Retries::until(deadline);
    loop {
        let (mut nobody, mut yet, mut refused) = (Vec::new(), Vec::new(), Vec::new());
        for member in &join.members {
            match ask_from(member, credentials, key, deadline) {
                Ok(asked) => return Ok(asked),
                Err(NotBy::Nobody(why)) => nobody.push(why),
                Err(NotBy::Yet(why)) => yet.push(why),
                Err(NotBy::Refused(error)) => refused.push(error),
                Err(NotBy::Ever(error)) => return Err(error),
            }
        }
        if yet.is_empty() {
            let is_over = || {
                FabricError::Refused(format!(
                    "{}: the job is over, is not up yet, or has a fixed number of nodes; start it with room for more (`loco run --nodes-max`, LOCO_NODES_MAX)",
                    nobody.join(", ")
                ))
            };
            return Err(refused.into_iter().next().unwrap_or_else(is_over));
        }
        if retries.are_over() {
            yet.extend(nobody);
            yet.extend(refused.iter().map(ToString::to_string));
            return Err(late(yet.join(", "), start));
        }
        retries.pause();
    }
}

/// Asks the member at an address, and those that it names. Each has [`HANDSHAKE_PATIENCE`] to answer: a member that is stopped still
/// takes connections, or rather its system does, and would keep this process after the others have lost it.
fn ask_from(first: &Address, credentials: &Credentials, key: u64, deadline: Time) -> Result<Asked, NotBy> {
    // A name without an address stays so, while a connection may come up later.
    first.resolve().map_err(NotBy::Refused)?;
    let mut at = first.clone();
    for hop in 0..HOPS_MAX {
        let by = deadline.min(Std.now().after(HANDSHAKE_PATIENCE));
        let asked = connect_within(&at, by).and_then(|stream| {
            let mut session = handshake::connect(stream, credentials, &Claim::asking(key), by)?;
            let answer: Answer = session.read(ANSWER_BYTES_MAX, by)?;
            Ok((session, answer))
        });
        let (session, answer) = match asked {
            Ok(asked) => asked,
            // The member that was named may have gone, and its loss is not agreed yet. Another process may have its port.
            Err(error) if hop > 0 => return Err(NotBy::Yet(format!("{at}: {error}"))),
            Err(error) if error.is_refused_connection() => {
                return Err(NotBy::Nobody(format!("nobody listens at {at}")));
            }
            Err(error) if error.is_final() || matches!(error, HandshakeError::OtherJob) => {
                return Err(NotBy::Refused(FabricError::Refused(format!("{at}: {error}"))));
            }
            Err(error) => return Err(NotBy::Yet(format!("{at}: {error}"))),
        };
        match answer {
            Answer::Admitted(admission) => {
                let listener = listen(&admission, &at).map_err(|error| {
                    NotBy::Ever(FabricError::os("listening for later nodes".to_owned(), &error))
                })?;
                return Ok(Asked {
                    admission,
                    at,
                    session,
                    listener,
                });
            }
            Answer::Ask(place) => at = place.seen_from(&at).map_err(NotBy::Refused)?,
            Answer::Later => {
                return Err(NotBy::Yet(format!(
                    "{at}: another node joins, or a loss or a view is being agreed on"
                )));
            }
            Answer::Full(room) => {
                return Err(NotBy::Ever(FabricError::Refused(format!(
                    "{at}: the job has used all of its {room} ids, one for each node and each attempt to join; start it with room for more \
                     (`loco run --nodes-max`, LOCO_NODES_MAX)"
                ))));
            }
            Answer::Over => return Err(NotBy::Nobody(format!("the node at {at} leaves"))),
        }
    }
    Err(NotBy::Yet(format!(
        "{first}: the members do not agree on who lets nodes in"
    )))
}

/// Returns a listener for later newcomers, which may be on any host that a member is known to be on. The one that was reached `at` a
/// loopback address may have members on other hosts.
fn listen(admission: &Admission, at: &Address) -> io::Result<TcpListener> {
    let is_here = |(_, place): &(u32, Place)| place.seen_from(at).is_ok_and(|at| at.is_loopback());
    match admission.members.iter().all(is_here) {
        true => listener_for(at),
        false => listener_on_all_interfaces(),
    }
}

impl Admission {
    /// Returns the nodes that the job began with.
    pub(super) fn first(&self) -> Vec<NodeId> {
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

    pub(super) fn newcomer(&self, key: u64) -> Newcomer {
        Newcomer {
            index: self.index as usize,
            key,
            members: self.members.iter().map(|&(member, _)| member as usize).collect(),
            epoch: self.view as usize,
        }
    }
}

/// What a process has that was let in.
pub(super) struct Asked {
    pub(super) admission: Admission,
    /// The member that let it in, as it was reached.
    at: Address,
    /// Open until the process is in. When it closes before, the process has given up, or the member has ended.
    pub(super) session: Session,
    /// Where later newcomers will connect.
    pub(super) listener: TcpListener,
}

impl Asked {
    pub(super) fn port(&self) -> Result<u16> {
        let address = self.listener.local_addr();
        let address =
            address.map_err(|error| FabricError::os("asking for the port of a listener", &error))?;
        Ok(address.port())
    }

    /// Returns the address at which this process listens, by the interface on which it reached the member.
    pub(super) fn own_address(&self) -> Result<Address> {
        let local = self.session.stream.local_addr();
        let local = local.map_err(|error| FabricError::os("asking for an address of this host", &error))?;
        Ok(Address::from(std::net::SocketAddr::new(
            local.ip().to_canonical(),
            self.port()?,
        )))
    }

    pub(super) fn members(&self, ids: &[NodeId]) -> Result<BTreeMap<NodeId, Address>> {
        let members = self.admission.members.iter();
        let member = |(index, place): &(u32, Place)| Ok((ids[*index as usize], place.seen_from(&self.at)?));
        members.map(member).collect()
    }
}

/// Says that this node was not let in in time.
pub(super) fn late(why: String, start: Time) -> FabricError {
    FabricError::Timeout {
        what: format!("a member to let this node in ({why})"),
        after: Std.now().since(start),
    }
}

/// Says that a member has sent what no member sends.
pub(super) fn contradiction() -> FabricError {
    FabricError::Refused("a member contradicts itself: build all nodes from the same sources".to_owned())
}
