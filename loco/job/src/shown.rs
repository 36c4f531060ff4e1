//! Shows a node to those who look at its job from outside: its timeline, if the environment asks for one, and what its threads wait for.

use std::path::Path;

use loco_fabric::{FabricError, NodeId, Result};
use loco_trace::waits::OwnPage;
use loco_trace::{timeline, waits};

use crate::var;

/// Begins the timeline of `node`, one of `nodes` of the job with this id, if [`var::TRACE`] asks for it, and makes the page of its waits. Without the page the node works all the
/// same.
///
/// # Errors
/// Returns [`FabricError::Config`] if the timeline cannot be written.
pub(crate) fn show(job: &str, node: NodeId, nodes: usize) -> Result<Option<OwnPage>> {
    if let Some(folder) = std::env::var_os(var::TRACE).filter(|folder| !folder.is_empty()) {
        let folder = Path::new(&folder);
        timeline::start(folder, node).map_err(|error| {
            FabricError::Config(format!(
                "the timeline cannot be written to the folder {} ({}): {error}",
                folder.display(),
                var::TRACE
            ))
        })?;
    }
    let page = waits::start(job, node, nodes);
    Ok(page
        .inspect_err(|error| tracing::info!(%error, "`loco top` will not see this node"))
        .ok())
}
