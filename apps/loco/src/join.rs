//! The node of `loco run --join`: a process that joins a running job, at the addresses of the job's hosts file.
//!
//! The process asks the members itself. So their refusals, with the reasons, are its errors.

use loco::fabric::{FabricChoice, Hosts, NodeId, var};

use crate::error::CliError;
use crate::launcher::Node;
use crate::run::set;

/// Returns a node that is to join the job of `hosts`.
///
/// The members give it its id: the one here stands for it.
pub fn that_joins(hosts: &Hosts, fabric: FabricChoice) -> Node {
    let members: Vec<_> = hosts.iter().map(|(_, address)| address.to_string()).collect();
    Node {
        id: NodeId(0),
        unset: vec![
            var::HOSTS,
            var::HOSTS_TEXT,
            var::LAUNCHER,
            var::NODE,
            var::NODES,
            var::NODES_MAX,
            var::RENDEZVOUS,
        ],
        set: vec![(var::JOIN, members.join(",")), (var::FABRIC, fabric.to_string())],
        departures: None,
        remote: None,
    }
}

/// Refuses `option` where there is no secret that the nodes of a job could share with those that join it.
pub fn require_secret(option: &str) -> Result<(), CliError> {
    if set(var::SECRET)?.is_some() || set(var::SECRET_FILE)?.is_some() {
        return Ok(());
    }
    Err(CliError::Usage(format!(
        "{option} needs the secret that the job and the nodes that join it share: set {} or {}, the same for all",
        var::SECRET,
        var::SECRET_FILE
    )))
}
