//! What `--json` prints: one line a result, with the machine's facts.

use serde::Serialize;

use crate::error::CliError;
use crate::machine::Machine;

/// One result of `loco bench` or `loco demo`.
#[derive(Clone, Debug, Serialize)]
pub struct Record<P, R> {
    /// What was done, e.g. `put`.
    pub name: &'static str,
    /// Version of this program.
    pub version: &'static str,
    /// The fabric in use, by its own name.
    pub fabric: String,
    /// The machine it was done on.
    pub machine: Machine,
    /// The parameters it was done with.
    pub parameters: P,
    /// The results; units are part of the names.
    pub results: R,
}

impl<P: Serialize, R: Serialize> Record<P, R> {
    /// A result of this program on this machine.
    pub fn new(name: &'static str, fabric: impl Into<String>, parameters: P, results: R) -> Record<P, R> {
        Record {
            name,
            version: env!("CARGO_PKG_VERSION"),
            fabric: fabric.into(),
            machine: Machine::this(),
            parameters,
            results,
        }
    }

    /// Gives the record as one line of JSON.
    ///
    /// # Errors
    /// [`CliError::Os`] when a value cannot be JSON, such as a map with keys that are not text.
    pub fn line(&self) -> Result<String, CliError> {
        serde_json::to_string(self).map_err(CliError::os("writing a result as JSON"))
    }
}
