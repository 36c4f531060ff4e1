//! How the nodes agree on a fabric: what each can use, and the best that all can.
//!
//! Whether two processes can map each other's memory shows only when they try. Shared memory is therefore one of the
//! answers for nodes of one host, and `fabric` goes on to [`network`] where the nodes find that they cannot.
//!
//! Relies on the fabrics' own tests of what a host can do, and on set-up messages. Used by `fabric`.

use std::time::Duration;

use loco_fabric::{FabricError, NodeId, Result};
use loco_host::membership::Membership;
use loco_job::{Mesh, process_namespace};
use serde::{Deserialize, Serialize};

use crate::choice::FabricChoice;
use crate::config::AnyConfig;

/// The time that the nodes wait for one another to agree on a fabric.
pub(crate) const CHOICE_TIMEOUT: Duration = Duration::from_secs(30);

/// The version of [`Ability`] and of the rules by which the best fabric is taken.
const VERSION: u32 = 2;

/// A node's message to the others before they agree on a fabric.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Ability {
    /// Whether it can use verbs.
    verbs: bool,
    /// Its provider of libfabric for an RDMA device, or nothing.
    ofi_rdma: String,
    /// An identifier that is equal for processes that can open one another's memory.
    host: String,
}

/// Returns the fabric that all nodes can use, and the reason: a collective call.
pub(crate) fn agree(mesh: &Mesh, config: &AnyConfig) -> Result<FabricChoice> {
    let own = Ability {
        verbs: can_use_verbs(mesh.node(), config),
        ofi_rdma: ofi_rdma(mesh.node(), config),
        host: process_namespace().unwrap_or_default(),
    };
    // Under the name of the choice: a node with another choice brings its fabric up instead, and all hear of that.
    let auto = FabricChoice::Auto.to_string();
    let all = Membership::new(mesh.clone()).exchange(&auto, VERSION, &own, CHOICE_TIMEOUT)?;
    let (choice, reason) = best(&all)?;
    tracing::info!("{}: fabric {choice}: {reason}", mesh.node());
    Ok(choice)
}

/// Returns the best fabric that all of these nodes can use, and the reason.
fn best(all: &[Ability]) -> Result<(FabricChoice, &'static str)> {
    let same = |of: fn(&Ability) -> &str| all.windows(2).all(|two| of(&two[0]) == of(&two[1]));
    let provider = all.first().map_or("", |first| first.ofi_rdma.as_str());
    if all.iter().all(|node| node.verbs) {
        return Ok((FabricChoice::Verbs, "every node has a usable RDMA device"));
    }
    if !provider.is_empty() && same(|node| &node.ofi_rdma) {
        let choice = FabricChoice::Ofi(Some(provider.parse()?));
        return Ok((
            choice,
            "every node has this provider of libfabric for its RDMA device",
        ));
    }
    if same(|node| &node.host) {
        return Ok((FabricChoice::Shm, "all nodes run on one host"));
    }
    Ok((
        network()?,
        "the nodes run on several hosts, and not all have an RDMA device",
    ))
}

/// Returns the fabric that joins any hosts.
pub(crate) fn network() -> Result<FabricChoice> {
    match cfg!(feature = "tcp") {
        true => Ok(FabricChoice::Tcp),
        false => Ok(FabricChoice::Ofi(Some("tcp".parse()?))),
    }
}

fn can_use_verbs(node: NodeId, config: &AnyConfig) -> bool {
    #[cfg(feature = "verbs")]
    let usable = loco_verbs::usable(&config.verbs);
    #[cfg(not(feature = "verbs"))]
    let usable = {
        let _ = config;
        Err::<(), _>(absent("verbs"))
    };
    if let Err(error) = &usable {
        tracing::info!("{node}: no verbs: {error}");
    }
    usable.is_ok()
}

/// Returns the name of the provider of libfabric for an RDMA device, or nothing. libfabric is loaded only where the kernel
/// knows of such a device.
fn ofi_rdma(node: NodeId, config: &AnyConfig) -> String {
    let devices = ["/sys/class/infiniband", "/sys/class/cxi", "/sys/class/hfi1"];
    let has_entries = |path: &&str| std::fs::read_dir(path).is_ok_and(|mut dir| dir.next().is_some());
    if !devices.iter().any(has_entries) {
        return String::new();
    }
    #[cfg(feature = "ofi")]
    let name = loco_ofi::usable_rdma(&config.ofi).map(|provider| provider.name);
    #[cfg(not(feature = "ofi"))]
    let name = {
        let _ = config;
        Err::<String, _>(absent("ofi"))
    };
    name.unwrap_or_else(|error| {
        tracing::info!("{node}: no libfabric for an RDMA device: {error}");
        String::new()
    })
}

/// Returns the error for a fabric that this build does not have.
#[cold]
#[cfg_attr(
    all(feature = "shm", feature = "verbs", feature = "tcp", feature = "ofi"),
    allow(dead_code)
)]
pub(crate) fn absent(name: &str) -> FabricError {
    FabricError::Unsupported(format!(
        "this program was built without the fabric `{name}`: build it with the feature `{name}`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(verbs: bool, ofi_rdma: &str, host: &str) -> Ability {
        Ability {
            verbs,
            ofi_rdma: ofi_rdma.to_owned(),
            host: host.to_owned(),
        }
    }

    #[test]
    fn auto_takes_the_best_that_all_have() {
        let chosen = |all: &[Ability]| best(all).unwrap().0.to_string();
        let (here, there) = (node(true, "cxi", "here"), node(true, "cxi", "there"));
        assert_eq!(chosen(&[here.clone(), there.clone()]), "verbs");
        let plain = |ofi, host| node(false, ofi, host);
        assert_eq!(chosen(&[plain("cxi", "here"), there.clone()]), "ofi:cxi");
        assert_eq!(chosen(&[plain("efa", "here"), there.clone()]), "tcp");
        assert_eq!(chosen(&[plain("", "here"), there]), "tcp");
        assert_eq!(chosen(&[plain("", "here"), here]), "shm");
        assert_eq!(chosen(&[plain("", "here")]), "shm");
    }
}
