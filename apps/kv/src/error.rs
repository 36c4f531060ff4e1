//! The error of this crate.

use loco_app::OutputError;

/// A result with [`KvError`].
pub type Result<T, E = KvError> = std::result::Result<T, E>;

/// A failure of the service.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KvError {
    /// A parameter is out of its range.
    #[error("{0}")]
    Usage(String),
    /// An object failed: a node is gone, or the network.
    #[error(transparent)]
    Object(#[from] loco::Error),
    /// A lookup found a value that nobody wrote.
    #[error("key {key:#x} has the value {found:?}, which nobody gave it")]
    Wrong {
        /// The key.
        key: u64,
        /// The value found.
        found: Option<u64>,
    },
    /// Commands cannot be read.
    #[error("reading commands: {0}")]
    Input(#[source] std::io::Error),
    /// Standard output cannot be written any more.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The system refused something.
    #[error("{what}: {source}")]
    Os {
        /// The action that was attempted.
        what: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The result cannot be written.
    #[error("writing the result: {0}")]
    Json(#[from] serde_json::Error),
}

impl From<loco::fabric::FabricError> for KvError {
    fn from(error: loco::fabric::FabricError) -> KvError {
        KvError::Object(error.into())
    }
}

impl KvError {
    /// Returns 2 for bad usage, 141 if the output's reader is gone, and else 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            KvError::Usage(_) | KvError::Object(loco::Error::Config(_)) => 2,
            KvError::Output(error) => error.exit_code(),
            _ => 1,
        }
    }
}
