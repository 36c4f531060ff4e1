//! Makes a process of `loco demo` or `loco bench` a node by its environment, as in any program.

use loco::fabric::{AnyFabric, Job, Mesh};

use crate::error::CliError;

/// Meets the other nodes and opens the fabric that `LOCO_FABRIC` names.
///
/// # Errors
/// Returns [`CliError::Fabric`] when the environment describes no job, a node does not come, or the fabric
/// cannot be used.
pub fn fabric() -> Result<AnyFabric, CliError> {
    let mesh = Mesh::connect(&Job::from_env()?)?;
    Ok(AnyFabric::from_env(mesh)?)
}
