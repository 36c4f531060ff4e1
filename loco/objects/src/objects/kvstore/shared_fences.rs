//! The fences between the values of updates and the release of their locks, which the updates of a thread share.
//!
//! The failure of an operation is told to one fence alone (`fence`). So the values that a thread has posted to a node together have one fence,
//! whose outcome all of their locks ask for.
//!
//! Relies on the fences that are begun. Used by `under_way`.

use loco_fabric::{Fabric, NodeId};
use smallvec::SmallVec;

use crate::operations::ack::AckKey;
use crate::{Result, Thread, fence};

/// Fences under way.
pub(super) type Fences<F> = SmallVec<[(NodeId, AckKey<F>); 2]>;
/// The fences that the machines of a thread have begun together.
pub(super) type BegunFences<F> = SmallVec<[Begun<F>; 4]>;

/// A fence that some machine of a thread has begun.
pub(super) struct Begun<F: Fabric> {
    to: NodeId,
    fence: Result<AckKey<F>>,
    /// Set if it is that of some machine's values.
    of_values: bool,
}

/// Returns true if the fences of a machine have ended, successfully or not.
pub(super) fn have_ended<F: Fabric>(fences: &Fences<F>, announced: &Option<AckKey<F>>) -> bool {
    let mut all = fences.iter().map(|(_, fence)| fence).chain(announced);
    all.all(AckKey::query)
}

/// Returns the fence towards `node`, of a machine's values if `of_values`. Begins it if none of the machines has.
pub(super) fn fence_towards<F: Fabric>(
    thread: &Thread<F>,
    node: NodeId,
    of_values: bool,
    begun: &mut BegunFences<F>,
) -> Result<AckKey<F>> {
    if let Some(begun) = begun.iter_mut().find(|begun| begun.to == node) {
        begun.of_values |= of_values;
        return begun.fence.clone();
    }
    let fence = fence::begin(thread, node);
    begun.push(Begun {
        to: node,
        fence: fence.clone(),
        of_values,
    });
    fence
}

/// Returns true if the fence towards `node` is that of some machine's values.
pub(super) fn is_of_values<F: Fabric>(node: NodeId, begun: &BegunFences<F>) -> bool {
    begun.iter().any(|begun| begun.to == node && begun.of_values)
}
