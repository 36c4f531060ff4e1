//! The node of `loco run --join`: a process that joins a running job, at the addresses of the job's hosts file.
//!
//! The process asks the members itself. So their refusals, with the reasons, are its errors.

use loco::fabric::{FabricChoice, Hosts, NodeId, var};

use crate::launcher::Node;

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
