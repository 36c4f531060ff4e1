//! The shared queue: operations that a lost node leaves half done are skipped.

use loco::fabric::{Control as _, Fabric as _, NodeId, PeerState};
use loco::{Popped, Pushed, SharedQueue};
use loco_sim::spec::{Operation, Violation};
use loco_sim::{World, call};

use crate::{Body, Fabric, complete, crashes, patiently, populate};

type Queue = SharedQueue<u64, Fabric>;

/// Checks that every popped value was pushed, is popped once, and comes in the order in which its node
/// pushed.
fn in_order(operations: &[Operation]) -> Result<(), Violation> {
    let pops: Vec<&Operation> = operations.iter().filter(|o| o.name == "pop").collect();
    let mut newest = 0;
    for pop in pops {
        let Some(value) = pop.result.as_ref().and_then(|r| r.parse::<u64>().ok()) else {
            continue;
        };
        if value <= newest {
            return Err(Violation {
                what: "values of one node are popped once, in their order",
                calls: vec![pop.to_string()],
            });
        }
        newest = value;
    }
    Ok(())
}

/// Makes a world in which one node pushes 1, 2, ... and the other pops as often. The queue lives on node
/// `home`.
fn push_and_pop(home: u16, times: u64) -> impl Fn(&mut World) + Sync {
    move |world| {
        let pushes: Body<Queue> = Box::new(move |queue, thread| {
            for value in 1..=times {
                let push = || patiently(|| queue.push(thread, value));
                let shown = |pushed: &loco::Result<Pushed<u64>>| if pushed.is_ok() { "" } else { "lost" };
                let _: Pushed<u64> = call(format!("push {value}"), push, shown)?;
            }
            Ok(())
        });
        let pops: Body<Queue> = Box::new(move |queue, thread| {
            for _ in 0..times {
                let shown = |popped: &loco::Result<Option<u64>>| match popped {
                    Ok(Some(value)) => value.to_string(),
                    Ok(None) => "nothing".to_owned(),
                    Err(error) => error.to_string(),
                };
                // A thread that waits for a node that is gone goes on without it.
                let gone = || thread.fabric().control().peer_state(NodeId(1)) != PeerState::Alive;
                let pop = || match queue.pop(thread) {
                    Err(error) if error.is_timeout() && gone() => Ok(None),
                    Err(error) if error.is_timeout() => patiently(|| queue.pop(thread)).map(Popped::value),
                    popped => popped.map(Popped::value),
                };
                call("pop", pop, shown)?;
            }
            Ok(())
        });
        let make = move |manager: &_| Queue::new(manager, "queue", NodeId(home), 2).unwrap();
        populate(world, make, vec![vec![pops], vec![pushes]], in_order);
    }
}

#[test]
fn a_queue_whose_pusher_may_stop_anywhere() {
    complete(
        "queue at the popping node, one push, one pop, 1 crash",
        crashes(1),
        push_and_pop(0, 1),
    );
}

#[test]
fn a_queue_whose_home_may_stop_anywhere() {
    complete(
        "queue at the pushing node, one push, one pop, 1 crash",
        crashes(1),
        push_and_pop(1, 1),
    );
}
