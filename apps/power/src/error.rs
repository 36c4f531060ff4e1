//! The error of this crate.

use loco_app::OutputError;

/// Result with [`PowerError`].
pub type Result<T, E = PowerError> = std::result::Result<T, E>;

/// What can go wrong in the power application.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PowerError {
    /// A parameter out of its range.
    #[error("{name} is {value}: {remedy}")]
    Parameter {
        /// Its name.
        name: &'static str,
        /// What was given.
        value: String,
        /// What it should be.
        remedy: &'static str,
    },
    /// Standard output takes no more.
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
    /// 141 if the output's reader is gone, 1 else.
    pub fn exit_code(&self) -> u8 {
        match self {
            PowerError::Output(error) => error.exit_code(),
            _ => 1,
        }
    }
}
