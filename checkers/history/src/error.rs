//! The error of this crate.

/// Result with [`HistoryError`].
pub type Result<T, E = HistoryError> = std::result::Result<T, E>;

/// An error of reading or writing a recorded history. A verdict is never an error.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// Reading or writing failed.
    #[error("history file: {0}")]
    Io(#[from] std::io::Error),
    /// A line that is not a record of this history's types.
    #[error("line {line} is not a record of this history: {source}; was it written with other types?")]
    Malformed {
        /// Line number, from 1.
        line: usize,
        /// The message of the parser.
        source: serde_json::Error,
    },
    /// A response whose invocation is missing, or a second response to one.
    #[error("line {line} responds to invocation {id}, which is unknown or already has a response")]
    Unmatched {
        /// Line number, from 1.
        line: usize,
        /// The invocation named.
        id: u64,
    },
    /// An operation that responds before it is invoked: the clocks of invocation and response differ.
    #[error(
        "operation {index} responds at {responded}, before its invocation at {invoked}: \
         use one clock for all threads"
    )]
    TimeRunsBackwards {
        /// Index in the history.
        index: usize,
        /// Time of the invocation.
        invoked: u64,
        /// Time of the response.
        responded: u64,
    },
}

impl std::fmt::Debug for HistoryError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}
