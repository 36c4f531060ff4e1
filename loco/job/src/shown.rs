//! Shows a node to those who look at its job from outside: its timeline, if the environment asks for one, and what its threads wait for.

use std::path::Path;

use loco_fabric::{FabricError, Result};
use loco_trace::waits::OwnPage;
use loco_trace::{timeline, waits};

use crate::job::Job;
use crate::var;

/// Begins the node's timeline, if [`var::TRACE`] asks for it, and makes the page of its waits. Without the page the node works all the
/// same.
///
/// # Errors
/// Returns [`FabricError::Config`] if the timeline cannot be written.
pub(crate) fn show(job: &Job) -> Result<Option<OwnPage>> {
    if let Some(folder) = std::env::var_os(var::TRACE).filter(|folder| !folder.is_empty()) {
        let folder = Path::new(&folder);
        timeline::start(folder, job.node).map_err(|error| {
            FabricError::Config(format!(
                "the timeline cannot be written to the folder {} ({}): {error}",
                folder.display(),
                var::TRACE
            ))
        })?;
    }
    let page = waits::start(&job.id, job.node, job.nodes.len());
    Ok(page
        .inspect_err(|error| tracing::info!(%error, "`loco top` will not see this node"))
        .ok())
}
