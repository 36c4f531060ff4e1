//! The error of this crate.

use loco_app::OutputError;

/// A result with [`PowerError`].
pub type Result<T, E = PowerError> = std::result::Result<T, E>;

/// A failure of the power application.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PowerError {
    /// A parameter is out of its range.
    #[error("{name} is {value}: {remedy}")]
    Parameter {
        /// The parameter's name.
        name: &'static str,
        /// The value that was given.
        value: String,
        /// The values that are allowed.
        remedy: &'static str,
    },
    /// Standard output cannot be written any more.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The CSV file could not be written.
    #[error("writing the CSV file: {0}")]
    Io(#[from] std::io::Error),
    /// The plot could not be drawn.
    #[error("drawing the plot: {0}")]
    Plot(String),
    /// The exchange of duty cycles and voltages failed.
    #[error("exchange with the other side: {0}")]
    Link(String),
}

impl PowerError {
    /// Returns 141 if the output's reader is gone, and else 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            PowerError::Output(error) => error.exit_code(),
            _ => 1,
        }
    }
}
