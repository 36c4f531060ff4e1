//! The error of this crate.

use loco_app::OutputError;

/// Result with [`TransferError`].
pub type Result<T, E = TransferError> = std::result::Result<T, E>;

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// A parameter out of its range.
    #[error("{0}")]
    Usage(String),
    /// An object failed: a node is gone, or the network.
    #[error(transparent)]
    Object(#[from] loco::Error),
    /// Money was made or lost: the locks do not exclude, or a transfer was cut short.
    #[error("the accounts hold {found}, they began with {expected}: the transfers were not atomic")]
    Total {
        /// At the end.
        found: i64,
        /// At the start.
        expected: i64,
    },
    /// Standard output takes no more.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The result is no JSON.
    #[error("writing the result: {0}")]
    Json(#[from] serde_json::Error),
}

impl From<loco::fabric::FabricError> for TransferError {
    fn from(error: loco::fabric::FabricError) -> TransferError {
        TransferError::Object(error.into())
    }
}

impl TransferError {
    /// 2 for bad usage, 141 if the output's reader is gone, 1 else.
    pub fn exit_code(&self) -> u8 {
        match self {
            TransferError::Usage(_) | TransferError::Object(loco::Error::Config(_)) => 2,
            TransferError::Output(error) => error.exit_code(),
            _ => 1,
        }
    }
}
