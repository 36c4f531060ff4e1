//! The words under loom have the orders of the contract: a full fence where one is promised, and a store that a load may overtake.

use loco_fabric::{AtomicCell, Platform};
use loco_loom::{Loom, run};

type U64 = <Loom as Platform>::AtomicU64;

/// Two words, and what each thread found in that of the other.
struct Buffers {
    words: [U64; 2],
    seen: [U64; 2],
}

fn buffers() -> Buffers {
    Buffers {
        words: [U64::new(0), U64::new(0)],
        seen: [U64::new(1), U64::new(1)],
    }
}

fn one_saw_the_other(buffers: &Buffers) {
    let saw = |index: usize| buffers.seen[index].load() == 1;
    assert!(saw(0) || saw(1), "both overtook their stores");
}

fn fenced_store(buffers: &Buffers, own: usize) {
    buffers.words[own].store_fence(1);
    buffers.seen[own].store(buffers.words[1 - own].load());
}

fn plain_store(buffers: &Buffers, own: usize) {
    buffers.words[own].store(1);
    buffers.seen[own].store(buffers.words[1 - own].load());
}

#[test]
fn a_load_does_not_overtake_a_fenced_store_within_3_preemptions() {
    let threads: [fn(&Buffers); 2] = [|b| fenced_store(b, 0), |b| fenced_store(b, 1)];
    run(3, buffers, threads, one_saw_the_other);
}

#[test]
#[should_panic = "both overtook their stores"]
fn a_load_may_overtake_a_store_within_3_preemptions() {
    let threads: [fn(&Buffers); 2] = [|b| plain_store(b, 0), |b| plain_store(b, 1)];
    run(3, buffers, threads, one_saw_the_other);
}
