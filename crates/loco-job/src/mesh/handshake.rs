//! How two processes make sure that they belong to the same job before anything else is said.
//!
//! Both sides send a greeting (magic, protocol version, a fresh nonce). The connecting side then claims who it is and
//! whom it wants, with HMAC-SHA-256 under the job's secret over version, both nonces and the claim; the accepting side
//! answers with its own code over the same, or with the reason why it refuses.
//!
//! What this gives: a process that does not know the secret is not let in, neither side reveals the secret, and a
//! recorded handshake is of no use later. What it does not give: what follows on the connection is neither encrypted
//! nor authenticated frame by frame, so who can change traffic between the hosts can change messages. One-sided
//! operations are protected by what the fabric has and by nothing here.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use loco_fabric::{FabricError, NodeId, Platform, Result, Std, Time};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::secret::{Secret, random};

/// Version of everything that goes over control connections.
pub(super) const PROTOCOL_VERSION: u16 = 2;
/// Longest claim or answer, in bytes.
const CLAIM_BYTES_MAX: usize = 1024;
/// Longest that a stranger may keep us busy.
pub(super) const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(5);

const MAGIC: [u8; 4] = *b"LOCO";
const NONCE_BYTES: usize = 32;
const GREETING_BYTES: usize = MAGIC.len() + 2 + NONCE_BYTES;

/// What both sides must share.
#[derive(Clone)]
pub(crate) struct Credentials {
    pub(crate) job: String,
    pub(crate) secret: Secret,
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Purpose {
    /// To be the connection between two nodes; `to` is the accepting one.
    Peer { to: u16 },
    /// To tell the rendezvous at which port the node listens.
    Register { port: u16 },
}

/// Who the connecting side says it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Claim {
    pub(super) job: String,
    pub(super) node: u16,
    pub(super) nodes: u32,
    pub(super) purpose: Purpose,
}

#[derive(Serialize, Deserialize)]
struct Sealed {
    claim: Vec<u8>,
    code: Code,
}

#[derive(Serialize, Deserialize)]
enum Answer {
    Accepted(Code),
    Refused(Refusal),
}

type Code = [u8; 32];

/// Why a claim is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub(super) enum Refusal {
    #[error("it belongs to another job")]
    Job,
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
    #[error("it does not serve this purpose")]
    Purpose,
}

/// Why a handshake did not lead to a connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum HandshakeError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("it does not speak the protocol of this program")]
    Stranger,
    #[error("it speaks protocol version {theirs}, this program version {PROTOCOL_VERSION}")]
    Version { theirs: u16 },
    #[error("it refuses: {0}")]
    Refused(Refusal),
    #[error("it does not know the secret, although it accepted")]
    Impostor,
    #[error("{0}")]
    Ours(#[from] FabricError),
}

impl HandshakeError {
    /// True if trying again cannot help. A node of another job may give way to the right one, a connection may come
    /// up later; a wrong secret stays wrong.
    pub(super) fn is_final(&self) -> bool {
        match self {
            HandshakeError::Io(_) | HandshakeError::Stranger | HandshakeError::Refused(Refusal::Job) => false,
            HandshakeError::Version { .. }
            | HandshakeError::Refused(_)
            | HandshakeError::Impostor
            | HandshakeError::Ours(_) => true,
        }
    }
}

/// The connecting side: convinces whoever accepts and is convinced.
pub(super) fn connect(
    stream: &TcpStream,
    credentials: &Credentials,
    claim: &Claim,
    deadline: Time,
) -> Result<(), HandshakeError> {
    let (ours, theirs) = greet(stream, deadline)?;
    let bytes = postcard::to_stdvec(claim).map_err(|_| HandshakeError::Stranger)?;
    let code = |side| seal(&credentials.secret, side, &ours, &theirs, &bytes);
    let sealed = Sealed {
        claim: bytes.clone(),
        code: finish(code(Side::Connecting)),
    };
    write_block(stream, &sealed, deadline)?;
    match read_block(stream, CLAIM_BYTES_MAX, deadline)? {
        Answer::Accepted(answer) => code(Side::Accepting)
            .verify_slice(&answer)
            .map_err(|_| HandshakeError::Impostor),
        Answer::Refused(why) => Err(HandshakeError::Refused(why)),
    }
}

/// The accepting side: hears who connects and asks `judge`, who is asked only about claims that know the secret.
pub(super) fn accept(
    stream: &TcpStream,
    credentials: &Credentials,
    deadline: Time,
    judge: impl FnOnce(&Claim) -> Result<(), Refusal>,
) -> Result<Claim, HandshakeError> {
    let (ours, theirs) = greet(stream, deadline)?;
    let sealed: Sealed = read_block(stream, CLAIM_BYTES_MAX, deadline)?;
    let claim: Claim = postcard::from_bytes(&sealed.claim).map_err(|_| HandshakeError::Stranger)?;
    let code = |side| seal(&credentials.secret, side, &theirs, &ours, &sealed.claim);
    let verdict = if claim.job != credentials.job {
        Err(Refusal::Job)
    } else if code(Side::Connecting).verify_slice(&sealed.code).is_err() {
        Err(Refusal::Secret)
    } else {
        judge(&claim)
    };
    let answer = match &verdict {
        Ok(()) => Answer::Accepted(finish(code(Side::Accepting))),
        Err(why) => Answer::Refused(why.clone()),
    };
    write_block(stream, &answer, deadline)?;
    verdict.map(|()| claim).map_err(HandshakeError::Refused)
}

#[derive(Clone, Copy)]
enum Side {
    Connecting,
    Accepting,
}

type Nonce = [u8; NONCE_BYTES];

/// Exchanges greetings: our nonce and theirs.
fn greet(stream: &TcpStream, deadline: Time) -> Result<(Nonce, Nonce), HandshakeError> {
    let ours = random::<NONCE_BYTES>()?;
    let mut greeting = Vec::with_capacity(GREETING_BYTES);
    greeting.extend_from_slice(&MAGIC);
    greeting.extend_from_slice(&PROTOCOL_VERSION.to_le_bytes());
    greeting.extend_from_slice(&ours);
    write_all(stream, &greeting, deadline)?;
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
    let mut theirs = [0; NONCE_BYTES];
    read_exact(stream, &mut theirs, deadline)?;
    Ok((ours, theirs))
}

/// The code over everything said so far. The side is part of it, so that no code can be sent back as an answer.
fn seal(secret: &Secret, side: Side, connecting: &Nonce, accepting: &Nonce, claim: &[u8]) -> Hmac<Sha256> {
    // HMAC takes keys of any length.
    let mut mac = match Hmac::<Sha256>::new_from_slice(secret.bytes()) {
        Ok(mac) => mac,
        Err(never) => unreachable!("{never}"),
    };
    mac.update(match side {
        Side::Connecting => b"loco control, connecting",
        Side::Accepting => b"loco control, accepting!",
    });
    mac.update(&PROTOCOL_VERSION.to_le_bytes());
    mac.update(connecting);
    mac.update(accepting);
    mac.update(claim);
    mac
}

fn finish(mac: Hmac<Sha256>) -> Code {
    mac.finalize().into_bytes().into()
}

/// Writes a length and a value.
pub(super) fn write_block(stream: &TcpStream, value: &impl Serialize, deadline: Time) -> io::Result<()> {
    let bytes = postcard::to_stdvec(value).map_err(io::Error::other)?;
    let len = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    let mut block = len.to_le_bytes().to_vec();
    block.extend_from_slice(&bytes);
    write_all(stream, &block, deadline)
}

/// Reads a value of at most `bytes_max`.
pub(super) fn read_block<T: DeserializeOwned>(
    stream: &TcpStream,
    bytes_max: usize,
    deadline: Time,
) -> Result<T, HandshakeError> {
    let mut len = [0; 4];
    read_exact(stream, &mut len, deadline)?;
    let len = u32::from_le_bytes(len) as usize;
    if len > bytes_max {
        return Err(HandshakeError::Stranger);
    }
    let mut bytes = vec![0; len];
    read_exact(stream, &mut bytes, deadline)?;
    postcard::from_bytes(&bytes).map_err(|_| HandshakeError::Stranger)
}

fn left(deadline: Time) -> io::Result<Duration> {
    let left = deadline.since(Std.now());
    if left.is_zero() {
        return Err(io::Error::new(io::ErrorKind::TimedOut, "it does not answer"));
    }
    Ok(left)
}

fn write_all(mut stream: &TcpStream, bytes: &[u8], deadline: Time) -> io::Result<()> {
    stream.set_write_timeout(Some(left(deadline)?))?;
    stream.write_all(bytes)
}

fn read_exact(mut stream: &TcpStream, bytes: &mut [u8], deadline: Time) -> io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        stream.set_read_timeout(Some(left(deadline)?))?;
        match stream.read(&mut bytes[filled..]) {
            Ok(0) => {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "it closed the connection",
                ));
            }
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {} // `left` decides.
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// For logs and errors: the node a claim speaks of.
impl Claim {
    pub(super) fn from(&self) -> NodeId {
        NodeId(self.node)
    }
}
