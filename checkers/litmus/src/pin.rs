//! Places the threads of a test on processors.
//!
//! Relies on the system's affinity. Processors that this process may not use at its start are never used. Used by the node.

use std::cell::Cell;
use std::sync::OnceLock;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::stress::Pin;

thread_local! {
    /// The choice that was last applied to the thread.
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

/// Puts the calling thread, the `index`-th of its host, where `pin` says. If the system refuses, the thread stays
/// where it is: placement makes outcomes likelier, and results do not depend on it.
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
        Pin::Near => numa_nodes().first().map_or(*all, |near| within(near, all)),
        Pin::Far => numa_nodes().last().map_or(*all, |far| within(far, all)),
    };
    let _refused = sched_setaffinity(None, &wanted);
}

/// Returns the processors of each NUMA node that has any, as far as the system says. The result is empty on a host
/// with one node.
pub fn numa_nodes() -> &'static [CpuSet] {
    static NODES: OnceLock<Vec<CpuSet>> = OnceLock::new();
    NODES.get_or_init(|| {
        let folder = |number: usize| format!("/sys/devices/system/node/node{number}/cpulist");
        let lists = (0..CpuSet::MAX_CPU).map_while(|number| std::fs::read_to_string(folder(number)).ok());
        let nodes: Vec<CpuSet> = lists.filter_map(|list| processors_of(&list)).collect();
        if nodes.len() > 1 { nodes } else { Vec::new() }
    })
}

/// Parses the kernel's list of processors, `0-3,8`. `None` if it names none.
fn processors_of(list: &str) -> Option<CpuSet> {
    let mut set = CpuSet::new();
    for range in list.trim().split(',') {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        for cpu in from.parse::<usize>().ok()?..=to.parse().ok()? {
            if cpu < CpuSet::MAX_CPU {
                set.set(cpu);
            }
        }
    }
    (set.count() > 0).then_some(set)
}

/// Returns the processors of a NUMA node that this process may use, or all where it may use none of them.
fn within(node: &CpuSet, all: &CpuSet) -> CpuSet {
    let mut set = CpuSet::new();
    for cpu in (0..CpuSet::MAX_CPU).filter(|&cpu| node.is_set(cpu) && all.is_set(cpu)) {
        set.set(cpu);
    }
    if set.count() > 0 { set } else { *all }
}

fn only(cpu: usize) -> CpuSet {
    let mut set = CpuSet::new();
    set.set(cpu);
    set
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_read_as_the_kernel_writes_them() {
        let of = |list: &str| {
            let set = processors_of(list)?;
            Some((0..20).filter(|&cpu| set.is_set(cpu)).collect::<Vec<_>>())
        };
        assert_eq!(of("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(of("5"), Some(vec![5]));
        assert_eq!(of("\n"), None, "a node of memory only");
    }

    #[test]
    fn a_node_without_a_processor_of_ours_leaves_all() {
        assert_eq!(within(&only(7), &only(1)), only(1));
        let mut both = only(7);
        both.set(1);
        assert_eq!(within(&both, &only(1)), only(1));
    }
}
