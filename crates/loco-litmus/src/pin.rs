//! Which processor runs a thread of a test.
//!
//! Relies on the system's affinity. Processors that this process may not use at its start are never used. Used by the node.

use std::cell::Cell;
use std::sync::OnceLock;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::stress::Pin;

thread_local! {
    /// What the thread was last told.
    static LAST: Cell<Pin> = const { Cell::new(Pin::Free) };
}

/// Returns the processors that this process may use.
fn processors() -> &'static (CpuSet, Vec<usize>) {
    static ALL: OnceLock<(CpuSet, Vec<usize>)> = OnceLock::new();
    ALL.get_or_init(|| {
        let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
        let list = (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect();
        (set, list)
    })
}

/// Puts the calling thread, the `index`-th of its host, where `pin` says. A system that refuses leaves it where it is: placement makes
/// outcomes likelier and is no condition of a result.
pub fn apply(pin: Pin, index: usize) {
    if LAST.replace(pin) == pin {
        return;
    }
    let (all, list) = processors();
    let wanted = match pin {
        _ if list.is_empty() => return,
        Pin::Free => *all,
        Pin::Together => only(list[0]),
        Pin::Apart => only(list[index % list.len()]),
    };
    let _refused = sched_setaffinity(None, &wanted);
}

fn only(cpu: usize) -> CpuSet {
    let mut set = CpuSet::new();
    set.set(cpu);
    set
}
