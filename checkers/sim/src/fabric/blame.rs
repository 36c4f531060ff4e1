//! Judges the errors of programs that run with faults: which fault an error blames for the program's end, and whether it is excused, as that
//! fault has happened to the node that it names.
//!
//! Used by [`World::program_with_faults`](crate::World::program_with_faults).

use loco_fabric::NodeId;

/// The fault that an error reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Blame {
    /// A node is lost. An excuse if this very node has stopped, or was declared lost, or its program has ended after a fault.
    Loss(NodeId),
    /// A node is lost, and the error does not say which: an object is left in a state that the lost node alone could mend. An excuse if
    /// any node is lost.
    SomeLoss,
    /// The node itself was declared lost. An excuse if it was.
    OwnLoss,
    /// A deadline has passed. An excuse if a wait of the node itself has ended by its deadline.
    Deadline,
}
