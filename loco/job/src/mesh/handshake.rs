//! The handshake: two processes make sure that they belong to the same job before anything else is said.
//!
//! Both sides send a hello: magic, protocol version, and a digest of the job's id. Then they go through the handshake of
//! [`noise`](super::noise) under the job's secret, with the hello as its prologue. Over the resulting encrypted
//! connection, the connecting side claims who it is and whom it wants, and the accepting side agrees or says why not.
//!
//! A process that does not know the secret is refused, and receives no claim. A recorded handshake is of no use
//! later, and a secret that gets out later does not open recorded connections. What a neighbour on the network can still do is in
//! `docs/launching.md`.
//!
//! Used by [`accept`](super::accept), [`connect`](super::connect), [`rendezvous`](super::rendezvous), and [`entering`](super::entering).

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use loco_fabric::{NodeId, Platform, Std, Time};
use serde::{Deserialize, Serialize};

use super::noise::{Handshake, digest};
use super::session::{Session, read_exact, read_message, write_all, write_message};
use crate::secret::Secret;

/// Version of everything that goes over control connections.
pub(super) const PROTOCOL_VERSION: u16 = 7;
/// Longest claim or answer, in bytes.
const CLAIM_BYTES_MAX: usize = 1024;
/// The longest time for which a stranger may keep this process busy.
pub(super) const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(5);

const MAGIC: [u8; 4] = *b"LOCO";
/// The bytes of the digest of a job's id, which tells jobs apart.
const JOB_BYTES: usize = 16;

/// The things that both sides must share.
#[derive(Clone)]
pub(crate) struct Credentials {
    pub(crate) job: String,
    pub(crate) secret: Secret,
}

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Purpose {
    /// The connection between two nodes; `to` is the accepting one.
    Peer { to: u16 },
    /// The registration at the rendezvous; `port` is the port at which the node listens.
    Register { port: u16 },
    /// The request of a process to join, which has drawn `key` for this attempt. It has no id and knows no nodes yet.
    Ask { key: u64 },
    /// The connection between a node that joins, which the member `by` has let in under `key` and which listens at `port`, and the member
    /// `to`, which accepts.
    Enter { to: u16, by: u16, key: u64, port: u16 },
}

/// The claim of the connecting side: who it is, and what it wants.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Claim {
    pub(super) node: u16,
    pub(super) nodes: Nodes,
    pub(super) purpose: Purpose,
}

/// The nodes of a job, in the form in which two processes compare them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Nodes {
    pub(super) count: u32,
    /// How many ids the job has room for. The rendezvous does not know.
    room: u32,
    /// A digest of the ids.
    ids: [u8; JOB_BYTES],
}

impl Nodes {
    pub(super) fn of(nodes: &[NodeId], room: usize) -> Result<Nodes, snow::Error> {
        let ids: Vec<u8> = nodes.iter().flat_map(|node| node.0.to_le_bytes()).collect();
        let digest = digest(b"loco job's nodes", &ids)?;
        let mut ids = [0; JOB_BYTES];
        ids.copy_from_slice(&digest[..JOB_BYTES]);
        Ok(Nodes {
            // Ids have 16 bits, so it fits.
            count: u32::try_from(nodes.len()).unwrap_or(u32::MAX),
            room: u32::try_from(room).unwrap_or(u32::MAX),
            ids,
        })
    }

    /// Refuses a process whose job has other nodes, `theirs`, than this one's.
    pub(super) fn check(&self, theirs: &Nodes) -> Result<(), Refusal> {
        if self.count != theirs.count {
            return Err(Refusal::Nodes(self.count));
        }
        if self.ids != theirs.ids {
            return Err(Refusal::NodeIds);
        }
        Ok(())
    }

    /// Refuses a process whose job has other nodes, or another room.
    pub(super) fn check_with_room(&self, theirs: &Nodes) -> Result<(), Refusal> {
        self.check(theirs)?;
        match self.room == theirs.room {
            true => Ok(()),
            false => Err(Refusal::Room(self.room)),
        }
    }
}

/// The reason why a claim is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub(super) enum Refusal {
    #[error("the secrets differ; give all nodes the same one")]
    Secret,
    #[error("it has no node {0}")]
    UnknownNode(u16),
    #[error("it is not node {0}; check the addresses")]
    NotMe(u16),
    #[error("node {0} is connected already; ids must be unique")]
    Duplicate(u16),
    #[error("its job has another number of nodes, {0}")]
    Nodes(u32),
    #[error("its job has as many nodes, but other ids; give all nodes the same hosts file")]
    NodeIds,
    #[error("it does not serve this purpose")]
    Purpose,
    #[error("its job has room for {0} nodes; set LOCO_NODES_MAX alike on all nodes")]
    Room(u32),
    #[error(
        "its job has a fixed number of nodes; start it with room for more (`loco run --nodes-max`, LOCO_NODES_MAX)"
    )]
    Fixed,
    #[error("it does not expect this node now")]
    NotNow,
    #[error("it will not let this node in any more, which was let in by a node that is gone")]
    NoLonger,
    #[error("it has lost this node, which did not connect in time (LOCO_CONNECT_TIMEOUT_MS) or was silent")]
    Late,
}

/// The reason why a handshake did not lead to a connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum HandshakeError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("it does not speak the protocol of this program")]
    Stranger,
    #[error(
        "it speaks protocol version {theirs}, this program version {PROTOCOL_VERSION}; build all nodes from the same sources"
    )]
    Version { theirs: u16 },
    #[error(
        "it belongs to another job; check the address, and give all nodes of a job the same id (LOCO_JOB)"
    )]
    OtherJob,
    #[error("it refuses: {0}")]
    Refused(Refusal),
    #[error("it does not know the secret, although it answered as if it did")]
    Impostor,
    #[error("encryption: {0}")]
    Noise(#[from] snow::Error),
}

impl HandshakeError {
    /// Returns true if trying again cannot help. A node of another job may give way to the right one, a
    /// connection may come up later; a wrong secret stays wrong.
    pub(super) fn is_final(&self) -> bool {
        match self {
            // Invalid data came over an authenticated connection, which the other side may think established.
            HandshakeError::Io(error) => error.kind() == io::ErrorKind::InvalidData,
            HandshakeError::Stranger
            | HandshakeError::OtherJob
            | HandshakeError::Refused(Refusal::NotNow | Refusal::Late) => false,
            HandshakeError::Version { .. }
            | HandshakeError::Refused(_)
            | HandshakeError::Impostor
            | HandshakeError::Noise(_) => true,
        }
    }

    /// Returns true if nobody listens at the address.
    pub(super) fn is_refused_connection(&self) -> bool {
        matches!(self, HandshakeError::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused)
    }
}

/// Shakes hands as the connecting side: convinces the side that accepts, and is convinced.
pub(super) fn connect(
    stream: TcpStream,
    credentials: &Credentials,
    claim: &Claim,
    deadline: Time,
) -> Result<Session, HandshakeError> {
    let prologue = exchange_hellos(&stream, credentials, deadline)?;
    let mut handshake = Handshake::connecting(&credentials.secret, &prologue)?;
    write_message(&stream, &handshake.say()?, deadline)?;
    let answer = read_message(&stream, deadline)?;
    if answer.is_empty() {
        return Err(HandshakeError::Refused(Refusal::Secret));
    }
    handshake.hear(&answer).map_err(|_| HandshakeError::Impostor)?;
    let mut session = Session::new(stream, handshake)?;
    session.write(claim, deadline)?;
    let verdict: Result<(), Refusal> = session.read(CLAIM_BYTES_MAX, deadline)?;
    verdict.map_err(HandshakeError::Refused)?;
    Ok(session)
}

/// Shakes hands as the accepting side: hears who connects, and asks `judge` about claims of those that know
/// the secret, and of nobody else.
pub(super) fn accept(
    stream: TcpStream,
    credentials: &Credentials,
    deadline: Time,
    judge: impl FnOnce(&Claim) -> Result<(), Refusal>,
) -> Result<(Claim, Session), HandshakeError> {
    let prologue = exchange_hellos(&stream, credentials, deadline)?;
    let mut handshake = Handshake::accepting(&credentials.secret, &prologue)?;
    let message = read_message(&stream, deadline)?;
    if handshake.hear(&message).is_err() {
        // There is no key for an answer yet, so an empty one stands for this refusal. Whoever can change what is sent
        // can make it up, and could as well have cut the connection.
        write_message(&stream, &[], deadline)?;
        return Err(HandshakeError::Refused(Refusal::Secret));
    }
    write_message(&stream, &handshake.say()?, deadline)?;
    let mut session = Session::new(stream, handshake)?;
    let claim: Claim = session.read(CLAIM_BYTES_MAX, deadline)?;
    let verdict = judge(&claim);
    // The peer knows the secret, so it is no stranger whose time is short. The answer has a time of its own, because the
    // judge has let the node in, and would take its next attempt for another node with the same id.
    session.write(&verdict, Std.now().after(HANDSHAKE_PATIENCE))?;
    verdict.map_err(HandshakeError::Refused)?;
    Ok((claim, session))
}

/// Exchanges hellos and returns the hello, which is the same on both sides.
fn exchange_hellos(
    stream: &TcpStream,
    credentials: &Credentials,
    deadline: Time,
) -> Result<Vec<u8>, HandshakeError> {
    let job = digest(b"loco control job", credentials.job.as_bytes())?;
    let job = &job[..JOB_BYTES];
    let hello = [&MAGIC[..], &PROTOCOL_VERSION.to_le_bytes(), job].concat();
    write_all(stream, &hello, deadline)?;
    let mut magic = [0; MAGIC.len()];
    read_exact(stream, &mut magic, deadline)?;
    if magic != MAGIC {
        return Err(HandshakeError::Stranger);
    }
    let mut version = [0; 2];
    read_exact(stream, &mut version, deadline)?;
    let version = u16::from_le_bytes(version);
    if version != PROTOCOL_VERSION {
        return Err(HandshakeError::Version { theirs: version });
    }
    let mut theirs = [0; JOB_BYTES];
    read_exact(stream, &mut theirs, deadline)?;
    if theirs != *job {
        return Err(HandshakeError::OtherJob);
    }
    Ok(hello)
}

/// The node that a claim speaks of.
impl Claim {
    /// Returns the claim of a process that asks to join.
    pub(super) fn asking(key: u64) -> Claim {
        Claim {
            node: 0,
            nodes: Nodes::default(),
            purpose: Purpose::Ask { key },
        }
    }

    pub(super) fn from(&self) -> NodeId {
        NodeId(self.node)
    }
}
