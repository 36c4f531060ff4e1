//! Small types that all parts share: node ids, work request ids, points in time.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A node: one process (or one simulated machine) with its own registered memory. The hosts file or the
/// launcher chooses ids. They need not be contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId(pub u16);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0)
    }
}

impl NodeId {
    /// Lists nodes for messages: `node 1`, or `nodes 1, 4`.
    pub fn list(nodes: impl IntoIterator<Item = NodeId>) -> String {
        let ids: Vec<_> = nodes.into_iter().map(|node| node.0.to_string()).collect();
        let noun = if ids.len() == 1 { "node" } else { "nodes" };
        format!("{noun} {}", ids.join(", "))
    }
}

/// A work request id (WRID), which names one posted operation from posting to completion. The fabric returns
/// it in the [`Completion`](crate::Completion) and gives it no other meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkRequestId(pub u64);

/// A point in time of the fabric's clock, in nanoseconds since an arbitrary origin of this node. It can be
/// compared only with times of the same node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// The time that never comes. A wait with this deadline ends only by its condition or by a loss. Even dropping the
    /// future of an asynchronous call does not end it.
    pub const NEVER: Time = Time(u64::MAX);

    /// The last time before [`NEVER`](Time::NEVER). A wait with this deadline may take any time too, but ends when the
    /// future of its asynchronous call is dropped.
    pub const LAST: Time = Time(u64::MAX - 1);

    /// Returns this time plus `duration`, at most [`LAST`](Time::LAST). No duration leads to [`NEVER`](Time::NEVER).
    pub fn after(self, duration: Duration) -> Time {
        if self == Time::NEVER {
            return self;
        }
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Time(self.0.saturating_add(nanos)).min(Time::LAST)
    }

    /// Returns the duration since `earlier`, or zero if that is later.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_duration_leads_to_never() {
        for begin in [Time(0), Time(1 << 40), Time::LAST] {
            for duration in [Duration::from_nanos(u64::MAX), Duration::MAX] {
                assert_eq!(begin.after(duration), Time::LAST);
            }
        }
        assert_eq!(Time::NEVER.after(Duration::ZERO), Time::NEVER);
        assert_eq!(Time(1).after(Duration::from_nanos(2)), Time(3));
    }
}
