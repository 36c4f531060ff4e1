//! Copies parts of states. States have most of their parts in common.

use std::sync::Arc;

/// Makes `mine` the same as `theirs`, and leaves the reference count alone if they are the same already. Explorers on
/// several processors would otherwise contend for the counts of the parts that nearly all states have in common.
pub(crate) fn share<T: ?Sized>(mine: &mut Arc<T>, theirs: &Arc<T>) {
    if !Arc::ptr_eq(mine, theirs) {
        mine.clone_from(theirs);
    }
}

/// Makes `mine` the same as `theirs`, as [`share`] does.
pub(crate) fn share_any<T>(mine: &mut Option<Arc<T>>, theirs: &Option<Arc<T>>) {
    match (mine, theirs) {
        (Some(mine), Some(theirs)) => share(mine, theirs),
        (mine, theirs) => mine.clone_from(theirs),
    }
}
