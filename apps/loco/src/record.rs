//! The output of `--json`: one line for each result, with the machine's facts.

use serde::Serialize;

use crate::error::CliError;
use crate::machine::Machine;

/// A result of `loco bench` or `loco demo`.
#[derive(Clone, Debug, Serialize)]
pub struct Record<P, R> {
    /// The name of the operation, e.g. `put`.
    pub name: &'static str,
    /// The version of this program.
    pub version: &'static str,
    /// The name of the fabric in use.
    pub fabric: String,
    /// The machine of the measurement.
    pub machine: Machine,
    /// The parameters of the measurement.
    pub parameters: P,
    /// The results. Their names contain the units.
    pub results: R,
}

impl<P: Serialize, R: Serialize> Record<P, R> {
    /// Returns a result of this program on this machine.
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

    /// Returns the record as one line of JSON.
    ///
    /// # Errors
    /// Returns [`CliError::Os`] when a value cannot be JSON, such as a map with keys that are not text.
    pub fn line(&self) -> Result<String, CliError> {
        serde_json::to_string(self).map_err(CliError::os("writing a result as JSON"))
    }
}
