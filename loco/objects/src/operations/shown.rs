//! What is shown to those who look at a job from outside: who holds a lock, and waits that consist of several.
//!
//! A single wait is shown by the fabric, which sees how long it lasts.

use std::time::Duration;

use loco_fabric::{NodeId, Time};
use loco_trace::waits::{self, SHOWN_AFTER, Shown, Stage, Waiting};

/// Returns true if this thread runs an asynchronous call.
#[inline]
fn is_task() -> bool {
    #[cfg(feature = "async")]
    return loco_host::fiber::running();
    #[cfg(not(feature = "async"))]
    false
}

/// Shows that this thread holds a lock.
#[inline]
pub(crate) fn hold(lock: &Shown) {
    if lock.is_seen() {
        lock.hold(is_task());
    }
}

/// Shows a wait of a thread of `node` for `nodes`, which consists of several waits and has lasted from `begin` to `now`, if that is
/// long. If `shown` is shown already, it goes on, perhaps for other nodes. An asynchronous call shows the single waits.
#[cold]
pub(crate) fn wait_of_several(
    shown: &mut Waiting,
    (node, what): (NodeId, &str),
    nodes: &[NodeId],
    (begin, now, deadline): (Time, Time, Time),
) {
    if shown.is_seen() {
        shown.look();
        waits::await_nodes(nodes.iter().copied());
    } else if now.since(begin) >= SHOWN_AFTER && !is_task() {
        let left = (deadline != Time::NEVER).then(|| deadline.since(now));
        *shown = waits::begin(node, Stage::Use, what, nodes, (now.since(begin), left), false);
    }
}

/// Shows that a thread of `node` has waited for so long until `what` is set up on `nodes`.
#[cold]
pub(crate) fn set_up(
    node: NodeId,
    what: &str,
    nodes: &[NodeId],
    waited: Duration,
    left: Option<Duration>,
) -> Waiting {
    waits::begin(node, Stage::SetUp, what, nodes, (waited, left), is_task())
}
