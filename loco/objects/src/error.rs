//! The error of this crate. Each variant names the object of the failure and the remedy.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use loco_fabric::{FabricError, NodeId, Time};

/// A result with [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure in the manager, a channel or an object. [`Debug`](fmt::Debug) prints it as [`Display`](fmt::Display) does,
/// with its causes, because that is what the user sees of an error that `main` returns. `{:#?}` prints its parts.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The fabric refused or failed: a deadline, an access out of range. Never the loss of a peer, which is
    /// [`PeerLost`](Error::PeerLost).
    #[error(transparent)]
    Fabric(FabricError),
    /// A call reached its deadline. The documentation of each call says what it leaves behind.
    #[error("{}: {reason}", how_late(*after, *limit))]
    Timeout {
        /// The full name of the object, or a description of what was waited for.
        what: String,
        /// What was missing, in words.
        reason: String,
        /// The nodes that were waited for, as far as they are known.
        nodes: Vec<NodeId>,
        /// The time from the beginning of the call to its end.
        after: Duration,
        /// The time that the call had, from its beginning to its deadline.
        limit: Duration,
    },
    /// A closure that the program gave to this crate panicked.
    #[error("{whose} panicked: {message}")]
    Panicked {
        /// A description of the closure.
        whose: String,
        /// The message of the panic.
        message: String,
    },
    /// Two endpoints of one name do not fit together. Both nodes report it.
    #[error(
        "channel `{channel}` differs between nodes in {what}: {here} has {ours}, {peer} has {theirs}; \
         make both endpoints with the same type, sizes and participants"
    )]
    Mismatch {
        /// The full name of the channel.
        channel: String,
        /// The part that differs: type, participants, a region.
        what: String,
        /// The reporting node.
        here: NodeId,
        /// This node's version.
        ours: String,
        /// The other node.
        peer: NodeId,
        /// The other node's version.
        theirs: String,
    },
    /// A peer's endpoint could not connect to ours.
    #[error("{peer} could not connect its endpoint of channel `{channel}`: {reason}")]
    Refused {
        /// The full name of the channel.
        channel: String,
        /// The peer.
        peer: NodeId,
        /// The peer's error.
        reason: String,
    },
    /// Peers did not make their endpoint in time.
    #[error(
        "channel `{channel}` is not ready after {}: no matching endpoint yet at {}; \
         every participant must make a channel of that name",
        rounded(*after),
        NodeId::list(missing.iter().copied())
    )]
    NotReady {
        /// The full name of the channel.
        channel: String,
        /// The participants that have not connected.
        missing: Vec<NodeId>,
        /// The time waited.
        after: Duration,
    },
    /// A node that the call needed is lost.
    #[error(
        "{node}{} is lost: its process ended or its control connection broke; go on without it, or start the job again",
        waited_by(object.as_deref())
    )]
    PeerLost {
        /// The lost node.
        node: NodeId,
        /// The description of the wait that needed it, if it was a wait: in most cases the full name of the channel.
        object: Option<String>,
    },
    /// An object was used before its channel was connected to that peer.
    #[error("region `{region}` is not connected to {peer} yet: call `wait_for_ready` first")]
    NotConnected {
        /// The full name of the region.
        region: String,
        /// The peer.
        peer: NodeId,
    },
    /// An access does not fit its region.
    #[error(
        "region `{region}`: {reason}; take an offset inside of the region, for a word a multiple of its size"
    )]
    BadPlace {
        /// The full name of the region.
        region: String,
        /// The error of the fabric, which has the place.
        reason: FabricError,
    },
    /// The channel does not declare this region, or it is not offered here.
    #[error("channel `{channel}` declares no region `{region}` here: declare it before `join`")]
    UnknownRegion {
        /// The full name of the channel.
        channel: String,
        /// The region that was asked for.
        region: String,
    },
    /// This node already has a channel of that name.
    #[error("{node} already has a channel `{channel}`: drop it first, or take another name")]
    DuplicateChannel {
        /// The full name of the channel.
        channel: String,
        /// This node.
        node: NodeId,
    },
    /// The name would be ambiguous.
    #[error(
        "`{name}` cannot name a channel or region, as it is empty or contains `/` or `.`: take another name"
    )]
    BadName {
        /// The name.
        name: String,
    },
    /// The node does not take part in the channel.
    #[error(
        "{node} is not a participant of channel `{channel}`: name a node that is, or make the channel among more nodes"
    )]
    NotParticipant {
        /// The full name of the channel.
        channel: String,
        /// The node.
        node: NodeId,
    },
    /// Only another node may do this operation.
    #[error("only {owner} may {what} of `{channel}`, not {node}: leave the call to {owner}")]
    NotOwner {
        /// The operation attempted.
        what: &'static str,
        /// The full name of the channel.
        channel: String,
        /// The node that may do it.
        owner: NodeId,
        /// The node that tried.
        node: NodeId,
    },
    /// The value or message does not fit.
    #[error("{what}: {len} bytes do not fit into {max} bytes; make it larger, or take less")]
    TooLarge {
        /// A description of what was to be stored.
        what: String,
        /// The size in bytes.
        len: usize,
        /// The limit in bytes.
        max: usize,
    },
    /// A value stayed torn for as long as the reader was willing to retry.
    #[error("`{channel}` stayed torn until the deadline: its writer is stuck or died while writing")]
    Torn {
        /// The full name of the channel.
        channel: String,
    },
    /// The node that held a lock is lost, and the lock's policy is to fail.
    #[error(
        "{node} was lost while it held lock `{lock}`: what the lock protects may be half done; \
         make the lock with `OnLoss::Recover` to be given it all the same"
    )]
    HolderLost {
        /// The full name of the lock.
        lock: String,
        /// The holder.
        node: NodeId,
    },
    /// There are more threads than work request ids can name.
    #[error("this node has no thread index left ({max} in use): drop `Thread`s that are done")]
    TooManyThreads {
        /// The limit.
        max: usize,
    },
    /// A file is not a whole snapshot that fits the store. The store is as it was.
    #[error(
        "snapshot `{}` is refused at byte {offset}: {reason}; nothing was restored from it, so take an earlier one",
        path.display()
    )]
    BadSnapshot {
        /// The file.
        path: PathBuf,
        /// The place in the file, in bytes from its beginning.
        offset: u64,
        /// The mistake at that place.
        reason: String,
    },
    /// A parameter is outside its range.
    #[error("{0}")]
    Config(String),
    /// The manager is shut down.
    #[error("the manager of this node is shut down: make calls before `loco::run` returns")]
    Closed,
}

/// The kind of an [`enum@Error`], by which a program decides what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A node that was needed is lost: [`Error::lost_peer`] names it.
    PeerLost,
    /// A deadline passed. The documentation of each call says what it leaves behind.
    Timeout,
    /// Nodes disagree about a channel: its type, sizes or participants.
    Mismatch,
    /// The call does not fit the object, the node or the parameters. It is a mistake in the program.
    Usage,
    /// The other nodes count this node as lost and go on without it. Whatever it does has no effect on them any more: end the
    /// process. Every call that needs other nodes returns this from then on, so the lists of errors at the calls do not
    /// repeat it.
    DeclaredLost,
    /// Registered memory, thread indices or another resource ran out.
    Exhausted,
    /// The fabric or device cannot do this.
    Unsupported,
    /// The operating system or the device refused. [`Error::os_error`] has its error.
    System,
    /// A node refused another one's connection to the job, or to an endpoint.
    Refused,
    /// The data that the object protects or holds may be incomplete, because a node was lost, or is stuck, while it changed
    /// them.
    Poisoned,
    /// A file is damaged, or not what the call takes it for.
    BadFile,
    /// The manager of this node is shut down.
    Closed,
    /// A closure that the program gave to this crate panicked.
    Panicked,
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            return loco_fabric::write_with_causes(f, self);
        }
        f.debug_struct("Error")
            .field("kind", &self.kind())
            .field("object", &self.object())
            .field("lost_peer", &self.lost_peer())
            .field("awaited", &self.awaited())
            .field("os_error", &self.os_error())
            .field("message", &self.to_string())
            .finish()
    }
}

impl From<FabricError> for Error {
    fn from(error: FabricError) -> Error {
        match error {
            FabricError::PeerLost(node) => Error::PeerLost { node, object: None },
            error => Error::Fabric(error),
        }
    }
}

/// Returns what a message says of the wait that needed a lost node.
fn waited_by(object: Option<&str>) -> String {
    object.map_or_else(String::new, |object| format!(", for which `{object}` waited,"))
}

/// Returns the beginning of the message of a call that had `limit` and failed after `after`.
fn how_late(after: Duration, limit: Duration) -> String {
    if limit.is_zero() {
        return "timed out at once, as its deadline had passed already".to_owned();
    }
    // Nobody waits for a century: such a call has no deadline, and was given up.
    if limit.as_secs() > 100 * 365 * 24 * 3600 {
        return format!("was given up after {}", rounded(after));
    }
    format!("timed out after {} (limit {})", rounded(after), rounded(limit))
}

/// Returns a duration in words, without digits that nobody reads: rounded to milliseconds from 10 ms on, and to
/// microseconds from 10 µs on.
fn rounded(duration: Duration) -> String {
    let nanos = match duration.as_nanos() {
        nanos if nanos >= 10_000_000 => (nanos + 500_000) / 1_000_000 * 1_000_000,
        nanos if nanos >= 10_000 => (nanos + 500) / 1000 * 1000,
        nanos => nanos,
    };
    format!(
        "{:?}",
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    )
}

/// Returns "node 2 has" or "nodes 1, 2 have".
pub(crate) fn have(nodes: &[NodeId]) -> String {
    let verb = if nodes.len() == 1 { "has" } else { "have" };
    format!("{} {verb}", NodeId::list(nodes.iter().copied()))
}

impl Error {
    /// Returns the error of a call that began at `begin`, waited for `what`, and found at `now` that its `deadline` had
    /// passed.
    #[cold]
    pub(crate) fn timeout(what: &str, begin: Time, deadline: Time, now: Time) -> Error {
        Error::Timeout {
            what: what.to_owned(),
            reason: format!("waiting for {what}"),
            nodes: Vec::new(),
            after: now.since(begin),
            limit: deadline.since(begin),
        }
    }

    /// Returns this error with the nodes that were waited for and what they have not done, if it is a timeout.
    #[cold]
    pub(crate) fn because(self, awaited: &[NodeId], because: impl Into<String>) -> Error {
        match self {
            Error::Timeout {
                what, after, limit, ..
            } => Error::Timeout {
                what,
                reason: because.into(),
                nodes: awaited.to_vec(),
                after,
                limit,
            },
            error => error,
        }
    }

    /// Returns this error with the time since `begin`, if it is a timeout of a step of a call that began then.
    #[cold]
    pub(crate) fn since(self, begin: Time, deadline: Time, now: Time) -> Error {
        match self {
            Error::Timeout {
                what, reason, nodes, ..
            } => Error::Timeout {
                what,
                reason,
                nodes,
                after: now.since(begin),
                limit: deadline.since(begin),
            },
            Error::Fabric(FabricError::Timeout { what, .. }) => Error::timeout(&what, begin, deadline, now),
            error => error,
        }
    }

    /// Returns what the error is about.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Fabric(error) => kind_of(error),
            Error::PeerLost { .. } => ErrorKind::PeerLost,
            Error::Mismatch { .. } => ErrorKind::Mismatch,
            Error::Refused { .. } => ErrorKind::Refused,
            Error::NotReady { .. } | Error::Timeout { .. } => ErrorKind::Timeout,
            Error::Panicked { .. } => ErrorKind::Panicked,
            Error::NotConnected { .. }
            | Error::BadPlace { .. }
            | Error::UnknownRegion { .. }
            | Error::DuplicateChannel { .. }
            | Error::BadName { .. }
            | Error::NotParticipant { .. }
            | Error::NotOwner { .. }
            | Error::TooLarge { .. }
            | Error::Config(_) => ErrorKind::Usage,
            Error::Torn { .. } | Error::HolderLost { .. } => ErrorKind::Poisoned,
            Error::TooManyThreads { .. } => ErrorKind::Exhausted,
            Error::BadSnapshot { .. } => ErrorKind::BadFile,
            Error::Closed => ErrorKind::Closed,
        }
    }

    /// Returns the full name of the channel or lock that the error is about, if it is about one. For a wait that timed
    /// out or lost a peer, returns the description of what the wait was for.
    pub fn object(&self) -> Option<&str> {
        match self {
            Error::Mismatch { channel, .. }
            | Error::Refused { channel, .. }
            | Error::NotReady { channel, .. }
            | Error::UnknownRegion { channel, .. }
            | Error::DuplicateChannel { channel, .. }
            | Error::NotParticipant { channel, .. }
            | Error::NotOwner { channel, .. }
            | Error::Torn { channel } => Some(channel),
            Error::NotConnected { region, .. } | Error::BadPlace { region, .. } => {
                Some(region.split('.').next().unwrap_or(region))
            }
            Error::HolderLost { lock, .. } => Some(lock),
            Error::PeerLost { object, .. } => object.as_deref(),
            Error::Fabric(FabricError::Timeout { what, .. }) | Error::Timeout { what, .. } => Some(what),
            Error::Fabric(_)
            | Error::Panicked { .. }
            | Error::BadName { .. }
            | Error::TooLarge { .. }
            | Error::TooManyThreads { .. }
            | Error::BadSnapshot { .. }
            | Error::Config(_)
            | Error::Closed => None,
        }
    }

    /// Returns true if a node that was needed is lost.
    pub fn is_peer_lost(&self) -> bool {
        self.kind() == ErrorKind::PeerLost
    }

    /// Returns true if this node itself was declared lost: the others go on without it.
    pub fn is_declared_lost(&self) -> bool {
        self.kind() == ErrorKind::DeclaredLost
    }

    /// Returns the operating system's error, if that is what failed. Its `raw_os_error` is the number.
    pub fn os_error(&self) -> Option<&io::Error> {
        match self {
            Error::Fabric(FabricError::Os { source, .. }) => Some(source.io_error()),
            _ => None,
        }
    }

    /// Returns the node whose loss this error reports, if it reports one.
    pub fn lost_peer(&self) -> Option<NodeId> {
        match self {
            Error::PeerLost { node, .. } => Some(*node),
            _ => None,
        }
    }

    /// Returns the nodes for which a call waited until its deadline, as far as they are known.
    pub fn awaited(&self) -> &[NodeId] {
        match self {
            Error::Timeout { nodes, .. } | Error::NotReady { missing: nodes, .. } => nodes,
            _ => &[],
        }
    }

    /// Returns true if a deadline passed, and the call may be made again. A value that stayed [`Torn`](Error::Torn) is
    /// [`Poisoned`](ErrorKind::Poisoned) instead: its writer may be gone, and then it does not help to try again.
    pub fn is_timeout(&self) -> bool {
        self.kind() == ErrorKind::Timeout
    }
}

/// Returns what an error of the fabric is about.
fn kind_of(error: &FabricError) -> ErrorKind {
    match error {
        FabricError::PeerLost(_) => ErrorKind::PeerLost,
        FabricError::DeclaredLost => ErrorKind::DeclaredLost,
        FabricError::Timeout { .. } => ErrorKind::Timeout,
        FabricError::UnknownPeer(_)
        | FabricError::OutOfRange { .. }
        | FabricError::Misaligned { .. }
        | FabricError::Config(_) => ErrorKind::Usage,
        FabricError::QueueFull(_) | FabricError::OutOfMemory { .. } => ErrorKind::Exhausted,
        FabricError::Unsupported(_) => ErrorKind::Unsupported,
        FabricError::Refused(_) => ErrorKind::Refused,
        // `FabricError` may grow. Any other variant is a failure below us.
        _ => ErrorKind::System,
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn missing_nodes_are_named_as_people_do() {
        let error = Error::NotReady {
            channel: "bar".to_owned(),
            missing: vec![NodeId(1), NodeId(2)],
            after: Duration::from_secs(1),
        };
        assert!(
            error.to_string().contains("endpoint yet at nodes 1, 2;"),
            "{error}"
        );
        assert_eq!((error.kind(), error.object()), (ErrorKind::Timeout, Some("bar")));
        assert!(error.is_timeout());
    }

    #[test]
    fn a_timeout_says_how_long_the_call_took_and_who_was_missing() {
        let ms = |ms: u64| Time(ms * 1_000_000);
        let late = Error::timeout("bar", ms(5), ms(1005), ms(1006));
        assert_eq!(
            late.to_string(),
            "timed out after 1.001s (limit 1s): waiting for bar"
        );
        let nodes = [NodeId(1), NodeId(2)];
        let named = late.because(&nodes, format!("{} not arrived at bar", have(&nodes)));
        assert_eq!(
            named.to_string(),
            "timed out after 1.001s (limit 1s): nodes 1, 2 have not arrived at bar"
        );
        assert_eq!((named.awaited(), named.object()), (&nodes[..], Some("bar")));
        assert!(named.is_timeout());
        let step = Error::from(FabricError::Timeout {
            what: "bar".to_owned(),
            after: Duration::from_nanos(30_335),
        });
        let whole = step.since(ms(0), ms(1000), ms(1000));
        assert_eq!(
            whole.to_string(),
            "timed out after 1s (limit 1s): waiting for bar"
        );
        assert_eq!(
            Error::timeout("bar", ms(1), ms(0), ms(2)).to_string(),
            "timed out at once, as its deadline had passed already: waiting for bar"
        );
    }

    #[test]
    fn debug_is_what_a_main_should_print() {
        let error = Error::DuplicateChannel {
            channel: "bar".to_owned(),
            node: NodeId(1),
        };
        assert_eq!(format!("{error:?}"), error.to_string());
        let system = Error::from(FabricError::os(
            "mapping memory",
            &io::Error::from_raw_os_error(13),
        ));
        assert_eq!(format!("{system:?}"), system.to_string());
        let parts = format!("{error:#?}");
        assert!(parts.contains("kind: Usage") && parts.contains("bar"), "{parts}");
    }

    #[test]
    fn what_may_stay_half_done_is_no_timeout() {
        let torn = Error::Torn {
            channel: "var".to_owned(),
        };
        assert_eq!((torn.kind(), torn.object()), (ErrorKind::Poisoned, Some("var")));
        assert!(!torn.is_timeout() && !torn.is_peer_lost());

        let late = Error::from(FabricError::Timeout {
            what: "var".to_owned(),
            after: Duration::from_secs(1),
        });
        assert_eq!(late.kind(), ErrorKind::Timeout);
        assert!(late.is_timeout());
    }

    #[test]
    fn predicates_and_causes() {
        let lost = Error::from(FabricError::PeerLost(NodeId(3)));
        assert!(lost.is_peer_lost() && !lost.is_timeout());
        assert_eq!((lost.lost_peer(), lost.object()), (Some(NodeId(3)), None));
        assert!(
            lost.to_string().starts_with("node 3 is lost: its process ended"),
            "{lost}"
        );

        let waited = Error::PeerLost {
            node: NodeId(3),
            object: Some("bar".to_owned()),
        };
        assert!(
            waited.is_peer_lost() && waited.to_string().contains("node 3, for which `bar` waited"),
            "{waited}"
        );
        assert_eq!(
            (waited.lost_peer(), waited.object()),
            (Some(NodeId(3)), Some("bar"))
        );

        let out = Error::from(FabricError::DeclaredLost);
        assert!(out.is_declared_lost() && !out.is_peer_lost() && !lost.is_declared_lost());
        assert_eq!(out.kind(), ErrorKind::DeclaredLost);
        assert_eq!((out.lost_peer(), out.os_error().is_none()), (None, true));

        let refused = io::Error::from_raw_os_error(13);
        let system = Error::from(FabricError::os("mapping memory", &refused));
        assert_eq!(system.kind(), ErrorKind::System);
        assert_eq!(system.os_error().and_then(io::Error::raw_os_error), Some(13));
        assert!(system.source().is_some_and(|cause| cause.source().is_some()));
    }
}
