//! The barrier: nobody passes before all have arrived, even if a wait has timed out and is tried again.

use loco::{Barrier, SharedVar};
use loco_sim::{World, call, spec};

use crate::{Body, Fabric, complete, completed, crashes, expiries, patiently, populate, sampled};

struct Parts {
    flags: Vec<SharedVar<u64, Fabric>>,
    barrier: Barrier<Fabric>,
}

/// Makes a world in which each node puts its round at the others before each barrier, and finds theirs after
/// it.
fn rounds(nodes: u16, rounds: u64) -> impl Fn(&mut World) + Sync {
    move |world| {
        let body = |node: u16| -> Vec<Body<Parts>> {
            vec![Box::new(move |parts, thread| {
                let mine = &parts.flags[usize::from(node)];
                for round in 1..=rounds {
                    mine.write(round);
                    mine.broadcast(thread)?.forget();
                    let wait = || patiently(|| parts.barrier.wait(thread));
                    call("wait", wait, |outcome| if outcome.is_ok() { "" } else { "lost" })?;
                    for flag in &parts.flags {
                        assert!(
                            flag.read() >= round,
                            "what was put before the barrier is seen after it"
                        );
                    }
                }
                Ok(())
            })]
        };
        let make = move |manager: &_| Parts {
            flags: (0..nodes)
                .map(|node| SharedVar::new(manager, &format!("flag{node}")).unwrap())
                .collect(),
            barrier: Barrier::new(manager, "barrier").unwrap(),
        };
        populate(world, make, (0..nodes).map(body).collect(), |operations| {
            spec::barrier(&completed(operations))
        });
    }
}

#[test]
fn a_wait_that_timed_out_and_is_tried_again_is_the_same_round() {
    complete("barrier, 2 nodes, 1 round, 1 expiry", expiries(1), rounds(2, 1));
    sampled(
        "barrier, 2 nodes, 2 rounds, 2 expiries",
        4,
        2_000,
        expiries(2),
        rounds(2, 2),
    );
}

#[test]
fn a_barrier_of_two_nodes_with_one_crash_anywhere() {
    complete("barrier, 2 nodes, 1 round, 1 crash", crashes(1), rounds(2, 1));
}
