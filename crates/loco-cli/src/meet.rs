//! How a process of `loco demo` or `loco bench` becomes a node: by its environment, as any program's would.

use loco::fabric::{AnyConfig, AnyFabric, Job, Mesh};

use crate::error::CliError;

/// Meets the other nodes and brings the fabric up that `LOCO_FABRIC` names.
///
/// # Errors
/// [`CliError::Fabric`] when the environment describes no job, a node does not come, or the fabric cannot be used.
pub fn fabric() -> Result<AnyFabric, CliError> {
    let mesh = Mesh::connect(&Job::from_env()?)?;
    Ok(AnyFabric::new(mesh, AnyConfig::from_env()?)?)
}
