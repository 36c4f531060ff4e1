//! Tests atomics of the fabric against those of the target's own processor.
//!
//! Used by the suite of every fabric; it says something where a fabric's atomics are of the processor, too.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};

use loco_fabric::{Atomicity, Fabric, Memory, QueuePair, WordCell};

use super::{Poster, World, allocate, local, share, target, together, wait_word};

/// Checks that remote atomics are atomic against the CPU's, where the fabric says so.
pub fn atomics_with_cpu_accesses<W: World>() {
    const ADDS: u64 = 300;
    let [a, b] = &W::nodes(2)[..] else { unreachable!() };
    if a.caps().atomicity != Atomicity::Glob {
        return;
    }
    let (there, remote) = share(b, a, 64);
    /// Ends the CPU's part, also where the remote one fails.
    struct Over<'o>(&'o AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, SeqCst);
        }
    }
    let (over, cpu_adds) = (AtomicBool::new(false), AtomicU64::new(0));
    let remote_side = || {
        let _over = Over(&over);
        let result = allocate(a, 8);
        let mut poster = Poster::new(a, b.node());
        for _ in 0..ADDS {
            poster.complete(|qp, work| qp.fetch_add(target(&remote, 0), 1, local(&result, 0, 8), work));
        }
    };
    let cpu_side = || {
        let cell = there.cell::<u64>(0).unwrap();
        // As long as the others last, so that they meet.
        while !over.load(SeqCst) {
            let mut value = cell.load();
            while let Err(found) = cell.compare_exchange(value, value + 1) {
                value = found;
            }
            cpu_adds.fetch_add(1, SeqCst);
        }
    };
    together(vec![Box::new(remote_side), Box::new(cpu_side)]);
    wait_word(b, &there, 0, |sum| sum == ADDS + cpu_adds.load(SeqCst));
}
