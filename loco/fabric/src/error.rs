//! The error of this crate. Each variant names the object of the failure and the remedy.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::NodeId;

/// A result with [`FabricError`].
pub type Result<T, E = FabricError> = std::result::Result<T, E>;

/// The operating system's error, or an equivalent where a library answers in words. Its
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

/// Compares causes. They are equal if they have the same number of the system, or else the same kind and the
/// same words.
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

/// Copies the error. The system's errors cannot be cloned, so the copy has the number, or kind and words.
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

/// A failure below the objects. [`Debug`](fmt::Debug) prints it as [`Display`](fmt::Display) does, with its causes,
/// because that is what the user sees of an error that `main` returns.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FabricError {
    /// The peer has left the job, or was lost: its process died, its control connection broke, or it was silent for too
    /// long.
    #[error("{0} is lost: its process ended or its control connection broke")]
    PeerLost(NodeId),
    /// This node's peers have declared it lost, since it was silent for too long (stopped, or cut off). They
    /// have revoked its access. None of its operations takes effect at others any more, not even those under
    /// way. Every later call of this node that needs others fails with this error. See
    /// [`Membership`](crate::Membership).
    #[error(
        "this node is cut off: its peers have declared it lost, as it was silent for too long; end the process and \
         start it again"
    )]
    DeclaredLost,
    /// A wait reached its deadline.
    #[error("timed out after {after:?} waiting for {what}")]
    Timeout {
        /// A description of the wait.
        what: String,
        /// The time after which it gave up.
        after: Duration,
    },
    /// The job has no such peer.
    #[error("{0} is not part of this job")]
    UnknownPeer(NodeId),
    /// An access is not within its region.
    #[error("range {offset}..{} is outside the region of {region_len} bytes", .offset.saturating_add(*.len))]
    OutOfRange {
        /// The first byte.
        offset: usize,
        /// The number of bytes.
        len: usize,
        /// The length of the region.
        region_len: usize,
    },
    /// The offset of a word access is not a multiple of its size.
    #[error("offset {offset} is not aligned to the word size {align}")]
    Misaligned {
        /// The offset.
        offset: usize,
        /// The required alignment in bytes.
        align: usize,
    },
    /// The send queue has no free slot: poll for completions, then post again. Nothing was posted.
    #[error("the send queue towards {0} is full: poll completions and post again")]
    QueueFull(NodeId),
    /// Registered memory ran out.
    #[error("out of registered memory: {requested} bytes asked, {available} available; {remedy}")]
    OutOfMemory {
        /// The bytes asked for.
        requested: usize,
        /// The bytes left under the limit.
        available: usize,
        /// The configuration to change.
        remedy: String,
    },
    /// The fabric or device cannot do this.
    #[error("not supported by this fabric: {0}")]
    Unsupported(String),
    /// The configuration is bad: hosts file, environment or parameters.
    #[error("{0}")]
    Config(String),
    /// A remote node refused this node, or this node refused a remote one.
    #[error("refused: {0}")]
    Refused(String),
    /// An operation completed with an error.
    #[error("{operation} towards {peer} failed: {status}; {cause}")]
    Operation {
        /// The operation (`put`, `get`, ...).
        operation: &'static str,
        /// The peer.
        peer: NodeId,
        /// The completion status as the fabric names it.
        status: String,
        /// The likely cause and the remedy.
        cause: String,
    },
    /// An operating system call failed.
    #[error("{what}: {source}")]
    Os {
        /// The action that was attempted, with the remedy where one is known.
        what: String,
        /// The system's error.
        source: Cause,
    },
}

/// Makes [`Debug`] of errors print them as [`write_with_causes`] does, because that is what the user sees of an error that `main`
/// returns.
#[macro_export]
macro_rules! debug_as_display {
    ($error:ty) => {
        impl ::core::fmt::Debug for $error {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                $crate::write_with_causes(f, self)
            }
        }
    };
}

debug_as_display!(FabricError);

/// Writes an error and its causes. Leaves out a cause whose text the error's own ends with already.
///
/// # Errors
/// Returns the errors of `f`.
pub fn write_with_causes(f: &mut impl fmt::Write, error: &dyn std::error::Error) -> fmt::Result {
    let mut written = error.to_string();
    f.write_str(&written)?;
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !written.contains(&text) {
            write!(f, ": {text}")?;
            written = text;
        }
        cause = error.source();
    }
    Ok(())
}

impl FabricError {
    /// Makes an [`Os`](FabricError::Os) error from the attempted action and the system's error.
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
    fn debug_is_display_with_the_causes() {
        let error = FabricError::os("opening the door", &io::Error::from_raw_os_error(2));
        assert_eq!(format!("{error:?}"), error.to_string());

        #[derive(Debug, thiserror::Error)]
        #[error("no dinner")]
        struct Outer(#[source] FabricError);
        let mut text = String::new();
        assert_eq!(write_with_causes(&mut text, &Outer(error.clone())), Ok(()));
        assert_eq!(text, format!("no dinner: {error}"));
    }

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
