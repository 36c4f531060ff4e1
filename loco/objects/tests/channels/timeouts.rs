//! What a timeout says: how long the whole call took, its limit, and whom it waited for.

use std::time::Duration;

use crate::common::net::{
    Barrier, Collective, Manager, RingBuffer, SharedQueue, TasLock, Thread, TicketLock,
};
use crate::common::{ALL, Net};
use loco::fabric::NodeId;
use loco::fence::Scope;
use loco::{Error, Result};

/// The time that the calls have.
const LIMIT: Duration = Duration::from_millis(150);

/// Makes a call that runs into its deadline. Checks the time that its error tells, the nodes, and the words.
fn late<T>(thread: &Thread<Net>, nodes: &[u16], words: &str, mut call: impl FnMut() -> Result<T>) {
    let mut told = String::new();
    // On a host that is busy the call may begin long after its deadline was set, but not every time.
    for _ in 0..20 {
        let begin = thread.now();
        thread.set_deadline(Some(begin.after(LIMIT)));
        let error = call().map(drop).expect_err("it must run into its deadline");
        thread.set_deadline(None);
        let took = thread.now().since(begin);
        told = error.to_string();
        let Error::Timeout { after, limit, .. } = &error else {
            panic!("{told}");
        };
        assert!(
            *limit <= *after && *after <= took && *limit <= LIMIT,
            "{told}: took {took:?}"
        );
        let ids: Vec<u16> = error.awaited().iter().map(|node| node.0).collect();
        assert_eq!(ids, nodes, "{told}");
        assert!(told.contains(words), "{told}");
        if *limit >= LIMIT / 2 {
            return;
        }
    }
    panic!("the limit is {LIMIT:?}: {told}");
}

fn on_node_0(body: impl Fn(&Manager<Net>, &Thread<Net>, &dyn Fn() -> Result<()>) -> Result<()> + Sync) {
    for cluster in ALL {
        cluster.run(3, |manager| {
            let thread = manager.thread()?;
            let end = Barrier::new(&manager, "end")?;
            let meet = || end.wait(&thread);
            body(&manager, &thread, &meet)
        });
    }
}

#[test]
fn a_barrier_and_a_collective_name_who_has_not_come() {
    on_node_0(|manager, thread, meet| {
        let bar = Barrier::new(manager, "b")?;
        let mut all = Collective::<u64>::new(manager, "all")?;
        manager.wait_for_ready()?;
        match manager.node() {
            NodeId(0) => {
                late(thread, &[1, 2], "nodes 1, 2 have not arrived at b", || {
                    bar.wait(thread)
                });
                late(
                    thread,
                    &[1, 2],
                    "nodes 1, 2 have not made the call on collective all",
                    || all.all_gather(thread, 1),
                );
                meet()?;
                meet()?;
                late(thread, &[2], "node 2 has not arrived at b", || {
                    bar.wait_unfenced(thread)
                });
                late(thread, &[2], "node 2 has not made the call", || {
                    all.all_gather(thread, 1)
                });
                meet()?;
            }
            NodeId(1) => {
                meet()?;
                late(thread, &[2], "node 2 has not arrived at b", || bar.wait(thread));
                late(thread, &[2], "node 2 has not made the call", || {
                    all.all_gather(thread, 1)
                });
                meet()?;
                meet()?;
            }
            _ => {
                meet()?;
                meet()?;
                meet()?;
            }
        }
        bar.wait(thread)?;
        all.all_gather(thread, 1)?;
        meet()
    });
}

#[test]
fn locks_name_their_holder() {
    on_node_0(|manager, thread, meet| {
        let home = manager.nodes()[2];
        let tas = TasLock::new(manager, "tas", home)?;
        let ticket = TicketLock::new(manager, "ticket", home)?;
        manager.wait_for_ready()?;
        if manager.node() == NodeId(1) {
            let guards = (
                tas.lock(thread, Scope::Thread)?,
                ticket.lock(thread, Scope::Thread)?,
            );
            meet()?;
            meet()?;
            // Another thread of the holder's node.
            let other = manager.thread()?;
            late(&other, &[1], "a thread of node 1 holds lock", || {
                tas.lock(&other, Scope::Thread)
            });
            late(&other, &[1], "a thread of node 1 holds lock", || {
                ticket.lock(&other, Scope::Thread)
            });
            guards.0.release()?;
            guards.1.release()?;
        } else {
            meet()?;
            late(thread, &[1], "node 1 holds lock tas", || {
                tas.lock(thread, Scope::Thread)
            });
            late(thread, &[1], "node 1 holds lock ticket", || {
                ticket.lock(thread, Scope::Thread)
            });
            meet()?;
        }
        meet()?;
        tas.lock(thread, Scope::Thread)?.release()?;
        ticket.lock(thread, Scope::Thread)?.release()?;
        meet()
    });
}

#[test]
fn queues_and_rings_say_what_is_missing() {
    on_node_0(|manager, thread, meet| {
        let queue = SharedQueue::<u64>::new(manager, "q", manager.nodes()[1], 1)?;
        let ring = RingBuffer::new(manager, "r", manager.nodes()[0], 64)?;
        manager.wait_for_ready()?;
        if manager.node() == NodeId(0) {
            let mut writer = ring.writer()?;
            late(thread, &[], "queue q stayed empty", || queue.pop(thread));
            assert!(queue.push(thread, 1)?.is_done());
            late(thread, &[], "queue q stayed full", || queue.push(thread, 2));
            writer.submit(thread, &[1; 56])?;
            meet()?;
            late(
                thread,
                &[2],
                "node 2 has not acknowledged messages of ring buffer r",
                || writer.submit(thread, &[2; 56]),
            );
            return meet();
        }
        let mut reader = ring.reader()?;
        if manager.node() == NodeId(1) {
            assert_eq!(reader.receive(thread)?, [1; 56]);
            late(
                thread,
                &[0],
                "node 0 has submitted no message to ring buffer r",
                || reader.receive(thread),
            );
        }
        meet()?;
        meet()
    });
}
