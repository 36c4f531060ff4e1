//! The introduction that each node sends to all others once they are connected: the settings that must fit one another, and
//! its process.
//!
//! Used by `connect` and `door`.

use std::os::fd::OwnedFd;
use std::time::Duration;

use loco_fabric::{FabricError, NodeId, Result};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::{Deserialize, Serialize};

use super::connection::heartbeat_interval;
use crate::kernel::process_namespace;
use crate::timeouts::Timeouts;
use crate::var;

/// A node's introduction.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Introduction {
    heartbeat_interval: Duration,
    silence: Duration,
    silence_same_host: Duration,
    process: u32,
    /// Equal for nodes that know one another's processes by the same ids. Empty if the system does not tell.
    host: String,
}

impl Introduction {
    /// Returns the introduction of this process.
    pub(super) fn of_process(timeouts: &Timeouts) -> Introduction {
        Introduction {
            heartbeat_interval: timeouts.heartbeat_interval,
            silence: timeouts.silence,
            silence_same_host: timeouts.silence_same_host,
            process: std::process::id(),
            host: process_namespace().unwrap_or_default(),
        }
    }

    pub(super) fn to_bytes(&self) -> Result<Vec<u8>> {
        postcard::to_stdvec(self).map_err(|error| FabricError::Config(error.to_string()))
    }

    /// Reads the introduction of `node`.
    pub(super) fn from_bytes(node: NodeId, bytes: &[u8]) -> Result<Introduction> {
        postcard::from_bytes(bytes).map_err(|_| {
            FabricError::Config(format!(
                "{node} runs another version: build all nodes from the same sources"
            ))
        })
    }

    /// Returns the process of the node, if it is on the host of `own` and another than its process.
    pub(super) fn process_seen_by(&self, own: &Introduction) -> Option<OwnedFd> {
        if self.host.is_empty() || self.host != own.host || self.process == own.process {
            return None;
        }
        let pid = Pid::from_raw(i32::try_from(self.process).ok()?)?;
        // Without it (before Linux 5.3) the end of the connection must do.
        pidfd_open(pid, PidfdFlags::empty()).ok()
    }
}

/// Fails unless every node sends signs of life often enough for every other, in a job with `room` for so many. All nodes come to
/// the same outcome.
pub(super) fn check(all: &[(NodeId, Introduction)], room: usize) -> Result<()> {
    for (sender, its) in all {
        let every = |silence| heartbeat_interval(its.heartbeat_interval, silence, room);
        let (far, near) = (every(its.silence), every(its.silence_same_host));
        for (listener, theirs) in all.iter().filter(|(listener, _)| listener != sender) {
            for (every, patience, name) in [
                (far, theirs.silence, var::SILENCE_MS),
                (near, theirs.silence_same_host, var::SILENCE_SAME_HOST_MS),
            ] {
                if patience / 2 < every {
                    return Err(FabricError::Config(format!(
                        "{sender} sends a sign of life every {every:?}, but {listener} takes a peer for lost that is silent \
                         for {patience:?}: set {} and {name} alike on all nodes",
                        var::HEARTBEAT_MS
                    )));
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(heartbeat_ms: u64, silence_ms: u64) -> Introduction {
        Introduction::of_process(
            &Timeouts::default()
                .heartbeat_interval(Duration::from_millis(heartbeat_ms))
                .silence(Duration::from_millis(silence_ms)),
        )
    }

    #[test]
    fn timeouts_that_do_not_fit_are_named_with_their_nodes() {
        let all = |last: Introduction| [(NodeId(0), of(100, 1000)), (NodeId(4), last)];
        assert_eq!(check(&all(of(100, 1000)), 2), Ok(()));
        // Different, and yet they fit.
        assert_eq!(check(&all(of(500, 2000)), 2), Ok(()));
        let error = check(&all(of(900, 2000)), 2).unwrap_err().to_string();
        assert_eq!(
            error,
            "node 4 sends a sign of life every 900ms, but node 0 takes a peer for lost that is silent for 1s: set \
             LOCO_HEARTBEAT_MS and LOCO_SILENCE_MS alike on all nodes"
        );
        let error = check(&all(of(10, 150)), 2).unwrap_err().to_string();
        assert!(error.starts_with("node 0 sends"), "{error}");
    }

    #[test]
    fn the_longest_times_are_compared() {
        let timeouts = Timeouts::default().heartbeat_interval(Duration::MAX);
        let its = || Introduction::of_process(&timeouts.silence(Duration::MAX));
        let error = check(&[(NodeId(0), its()), (NodeId(1), its())], 2).unwrap_err();
        assert!(error.to_string().contains("LOCO_HEARTBEAT_MS"), "{error}");
    }

    #[test]
    fn a_process_is_its_own_neighbour_only_if_it_is_another() {
        let own = of(100, 1000);
        assert!(own.process_seen_by(&own).is_none());
        let other = Introduction {
            process: std::os::unix::process::parent_id(),
            ..own.clone()
        };
        assert!(other.process_seen_by(&own).is_some());
        let elsewhere = Introduction {
            host: "elsewhere".to_owned(),
            ..other
        };
        assert!(elsewhere.process_seen_by(&own).is_none());
    }
}
