//! The error of this crate.

use loco_app::OutputError;

/// A result with [`TransferError`].
pub type Result<T, E = TransferError> = std::result::Result<T, E>;

/// A failure of a run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// A parameter is out of its range.
    #[error("{0}")]
    Usage(String),
    /// An object failed: a node is gone, or the network.
    #[error(transparent)]
    Object(#[from] loco::Error),
    /// Money was made or lost: the locks do not exclude, or a transfer was cut short.
    #[error("the accounts hold {found}, they began with {expected}: the transfers were not atomic")]
    Total {
        /// The sum at the end.
        found: i64,
        /// The sum at the start.
        expected: i64,
    },
    /// An account has less than nothing: a transfer took what another had taken since it looked. The locks do not exclude.
    #[error("account {account} holds {money}: a transfer took money that was not there")]
    Overdrawn {
        /// The number of the account.
        account: usize,
        /// The money in it.
        money: i64,
    },
    /// Standard output cannot be written any more.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The result cannot be written as JSON.
    #[error("writing the result: {0}")]
    Json(#[from] serde_json::Error),
}

impl From<loco::fabric::FabricError> for TransferError {
    fn from(error: loco::fabric::FabricError) -> TransferError {
        TransferError::Object(error.into())
    }
}

impl TransferError {
    /// Returns 2 for bad usage, 141 if the output's reader is gone, and else 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            TransferError::Usage(_) | TransferError::Object(loco::Error::Config(_)) => 2,
            TransferError::Output(error) => error.exit_code(),
            _ => 1,
        }
    }
}
