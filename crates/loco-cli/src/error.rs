//! The error of the command line: what failed, and the exit code that says so.

use std::io;

use loco::fabric::FabricError;
use loco_app::OutputError;

/// What a subcommand can fail with before or beside the nodes' own failures, which are exit codes.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// Bad input that the argument parser cannot see.
    #[error("{0}")]
    Usage(String),
    /// The program of a node cannot be started.
    #[error("cannot start `{program}`: {source}")]
    Start {
        /// The program, as it was given.
        program: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The system refused something.
    #[error("{what}: {source}")]
    Os {
        /// What was attempted.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// Standard output takes no more.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The fabric failed.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// An object failed.
    #[error(transparent)]
    Object(#[from] loco::Error),
    /// What was measured did not do what it should.
    #[error("the check at the end of the measurement failed: {0}")]
    Check(String),
    /// The bank failed.
    #[error(transparent)]
    Transfer(#[from] loco_transfer::TransferError),
    /// The key-value workload failed.
    #[error(transparent)]
    Kv(#[from] loco_kv::KvError),
}

impl CliError {
    /// Gives the exit code that a shell would: 127 and 126 for a program that is not there or cannot run, 2 for bad usage, 141 if the
    /// reader of the output is gone; else 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            CliError::Start { source, .. } if source.kind() == io::ErrorKind::NotFound => 127,
            CliError::Start { .. } => 126,
            CliError::Usage(_) | CliError::Fabric(FabricError::Config(_)) => 2,
            CliError::Output(error) => error.exit_code(),
            CliError::Transfer(error) => error.exit_code(),
            CliError::Kv(error) => error.exit_code(),
            CliError::Os { .. } | CliError::Fabric(_) | CliError::Object(_) | CliError::Check(_) => 1,
        }
    }

    /// Makes a closure for `map_err` that says what was attempted.
    pub fn os<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> CliError {
        move |source| CliError::Os {
            what,
            source: source.into(),
        }
    }
}
