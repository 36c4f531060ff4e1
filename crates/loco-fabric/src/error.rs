//! The error of this crate: each variant names the thing and the remedy.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::NodeId;

/// Result with [`FabricError`].
pub type Result<T, E = FabricError> = std::result::Result<T, E>;

/// The operating system's answer, or what stands for it where a library answers in words. Its
/// [`source`](std::error::Error::source) is the [`io::Error`], whose
/// [`raw_os_error`](io::Error::raw_os_error) is the system's number.
#[derive(Debug, Clone)]
pub struct Cause(Arc<io::Error>);

impl Cause {
    /// Returns the error itself.
    pub fn io_error(&self) -> &io::Error {
        &self.0
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Cause {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.0)
    }
}

/// Causes are equal if they are the same number of the system, or else of the same kind and in the same words.
impl PartialEq for Cause {
    fn eq(&self, other: &Cause) -> bool {
        match (self.0.raw_os_error(), other.0.raw_os_error()) {
            (None, None) => self.0.kind() == other.0.kind() && self.to_string() == other.to_string(),
            (mine, theirs) => mine == theirs,
        }
    }
}

impl Eq for Cause {}

impl From<io::Error> for Cause {
    fn from(error: io::Error) -> Cause {
        Cause(Arc::new(error))
    }
}

/// Copies the error, which the system's errors are not made for: number, or kind and words.
impl From<&io::Error> for Cause {
    fn from(error: &io::Error) -> Cause {
        match error.raw_os_error() {
            Some(number) => io::Error::from_raw_os_error(number).into(),
            None => io::Error::new(error.kind(), error.to_string()).into(),
        }
    }
}

impl From<String> for Cause {
    fn from(words: String) -> Cause {
        io::Error::other(words).into()
    }
}

impl From<&str> for Cause {
    fn from(words: &str) -> Cause {
        words.to_owned().into()
    }
}

/// What can go wrong below the objects.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FabricError {
    /// The peer's process died, left, or its control connection broke.
    #[error("{0} is lost: its process ended or its control connection broke")]
    PeerLost(NodeId),
    /// This node's peers have declared it lost, since it was silent for too long (stopped, or cut off). They have revoked
    /// its access: none of its operations takes effect at others any more, those under way included, and every later
    /// call of this node that needs others fails with this error. See [`Membership`](crate::Membership).
    #[error(
        "this node is cut off: its peers have declared it lost, as it was silent for too long; end the process and \
         start it again"
    )]
    DeclaredLost,
    /// A wait ran past its deadline.
    #[error("timed out after {after:?} waiting for {what}")]
    Timeout {
        /// What was waited for.
        what: String,
        /// How long.
        after: Duration,
    },
    /// No such peer in this job.
    #[error("{0} is not part of this job")]
    UnknownPeer(NodeId),
    /// An access that does not lie within its region.
    #[error("range {offset}..{} is outside the region of {region_len} bytes", .offset.saturating_add(*.len))]
    OutOfRange {
        /// First byte.
        offset: usize,
        /// Bytes.
        len: usize,
        /// Length of the region.
        region_len: usize,
    },
    /// A word access whose offset is not a multiple of its size.
    #[error("offset {offset} is not aligned to the word size {align}")]
    Misaligned {
        /// First byte.
        offset: usize,
        /// Required alignment in bytes.
        align: usize,
    },
    /// The send queue has no free slot: poll for completions, then post again. Nothing was posted.
    #[error("the send queue towards {0} is full: poll completions and post again")]
    QueueFull(NodeId),
    /// Registered memory ran out.
    #[error("out of registered memory: {requested} bytes asked, {available} available; {remedy}")]
    OutOfMemory {
        /// Bytes asked for.
        requested: usize,
        /// Bytes left under the limit.
        available: usize,
        /// What to change.
        remedy: String,
    },
    /// The fabric or device cannot do this.
    #[error("not supported by this fabric: {0}")]
    Unsupported(String),
    /// Bad configuration: hosts file, environment, parameters.
    #[error("{0}")]
    Config(String),
    /// A remote side refused us, or we refused it.
    #[error("refused: {0}")]
    Refused(String),
    /// An operation completed with an error.
    #[error("{operation} towards {peer} failed: {status}; {cause}")]
    Operation {
        /// The operation (`put`, `get`, ...).
        operation: &'static str,
        /// The peer.
        peer: NodeId,
        /// Completion status as the fabric names it.
        status: String,
        /// Likely cause and remedy.
        cause: String,
    },
    /// An operating system call failed.
    #[error("{what}: {source}")]
    Os {
        /// What was attempted, with the remedy where one is known.
        what: String,
        /// The system's answer.
        source: Cause,
    },
}

impl FabricError {
    /// Makes an [`Os`](FabricError::Os) error of what was attempted and the system's answer.
    pub fn os(what: impl Into<String>, error: &io::Error) -> FabricError {
        FabricError::Os {
            what: what.into(),
            source: error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn the_cause_of_a_system_error_is_reached() {
        let error = FabricError::os("opening the door", &io::Error::from_raw_os_error(2));
        assert!(
            error.to_string().starts_with("opening the door: No such file"),
            "{error}"
        );
        let mut cause = error.source();
        let number = loop {
            let Some(error) = cause else { break None };
            if let Some(error) = error.downcast_ref::<io::Error>() {
                break error.raw_os_error();
            }
            cause = error.source();
        };
        assert_eq!(number, Some(2));
        assert_eq!(error, error.clone());
    }
}
