//! The error of the command line, and its exit code.

use std::io;

use loco::fabric::FabricError;
use loco_app::OutputError;

/// A failure of a subcommand itself, before or beside the failures of nodes, which are exit codes.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// Bad input that the argument parser cannot see.
    #[error("{0}")]
    Usage(String),
    /// The program of a node cannot be started.
    #[error("cannot start `{program}`: {source}")]
    Start {
        /// The program as it was given.
        program: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The system refused something.
    #[error("{what}: {source}")]
    Os {
        /// The attempted action.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// A file cannot be read.
    #[error("{what}: {source}")]
    File {
        /// The attempted action, with the file's name.
        what: String,
        /// The system's reason.
        source: io::Error,
    },
    /// Standard output cannot be written any more.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The fabric failed.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// An object failed.
    #[error(transparent)]
    Object(#[from] loco::Error),
    /// The check at the end of a measurement failed.
    #[error("the check at the end of the measurement failed: {0}")]
    Check(String),
    /// The bank failed.
    #[error(transparent)]
    Transfer(#[from] loco_transfer::TransferError),
    /// Litmus tests could not be run, or their results not be read.
    #[error(transparent)]
    Litmus(#[from] loco_litmus::Error),
    /// The key-value workload failed.
    #[error(transparent)]
    Kv(#[from] loco_kv::KvError),
}

impl CliError {
    /// Returns the exit code that a shell would report: 127 for a program that is not there, 126 for one that
    /// cannot run, 2 for bad usage, 141 if the reader of the output is gone; else 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            CliError::Start { source, .. } if source.kind() == io::ErrorKind::NotFound => 127,
            CliError::Start { .. } => 126,
            CliError::Usage(_) | CliError::File { .. } | CliError::Fabric(FabricError::Config(_)) => 2,
            CliError::Output(error) => error.exit_code(),
            CliError::Transfer(error) => error.exit_code(),
            CliError::Kv(error) => error.exit_code(),
            CliError::Litmus(
                loco_litmus::Error::Input(_)
                | loco_litmus::Error::File { .. }
                | loco_litmus::Error::Fabric(FabricError::Config(_)),
            ) => 2,
            CliError::Litmus(_) => 1,
            CliError::Os { .. } | CliError::Fabric(_) | CliError::Object(_) | CliError::Check(_) => 1,
        }
    }

    /// Returns a closure for `map_err` that names the action attempted.
    pub fn os<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> CliError {
        move |source| CliError::Os {
            what,
            source: source.into(),
        }
    }
}
