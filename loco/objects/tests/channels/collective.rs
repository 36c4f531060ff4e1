//! Collective operations over every fabric: values, participants, threads that take turns, timeouts and loss.

use crate::common::{ALL, Cluster};
use loco::fabric::NodeId;
use loco::prelude::*;
use loco::{Result, fence};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Larger than any fabric sends inline.
#[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Large {
    words: [u64; 200],
}

fn large(value: u64) -> Large {
    Large {
        words: std::array::from_fn(|i| value * 1000 + i as u64),
    }
}

#[test]
fn every_operation_gives_everybody_its_result() {
    for cluster in ALL {
        cluster.run(3, |manager| {
            let mut work = Collective::<u64, _>::new(&manager, "work")?;
            let end = Barrier::new(&manager, "end")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            let me = manager.node();
            for round in 0..50 {
                let value = |node: NodeId| round * 10 + u64::from(node.0);
                let root = NodeId((round % 3) as u16);
                let all: Vec<u64> = manager.nodes().iter().map(|&node| value(node)).collect();
                let sum: u64 = all.iter().sum();
                assert_eq!(work.broadcast(&thread, root, value(me))?, value(root));
                assert_eq!(work.all_gather(&thread, value(me))?, all);
                let gathered = work.gather(&thread, root, value(me))?;
                assert_eq!(gathered, (me == root).then(|| all.clone()));
                let reduced = work.reduce(&thread, root, value(me), |a, b| a + b)?;
                assert_eq!(reduced, (me == root).then_some(sum));
                assert_eq!(work.all_reduce(&thread, value(me), |a, b| a + b)?, sum);
            }
            end.wait(&thread)
        });
    }
}

/// Rooted operations wait for nobody, so that one node may be ahead of the others: a slot must not be written before it has
/// been read.
#[test]
fn nobody_overtakes_by_a_round_too_many() {
    for cluster in ALL {
        cluster.run(3, |manager| {
            let mut work = Collective::<Large, _>::new(&manager, "work")?;
            let end = Barrier::new(&manager, "end")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            let root = manager.nodes()[1];
            for round in 0..100 {
                assert_eq!(work.broadcast(&thread, root, large(round))?, large(round));
            }
            for round in 0..100 {
                let gathered = work.gather(&thread, root, large(round))?;
                assert_eq!(gathered, (manager.node() == root).then(|| vec![large(round); 3]));
            }
            end.wait(&thread)
        });
    }
}

#[test]
fn some_nodes_among_themselves() {
    Cluster::Deferred(4).run(4, |manager| {
        let some = [NodeId(1), NodeId(3)];
        let mut work = some
            .contains(&manager.node())
            .then(|| Collective::<u16, _>::new(&manager.among(some), "work"))
            .transpose()?;
        let end = Barrier::new(&manager, "end")?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        if let Some(work) = &mut work {
            let mine = manager.node().0;
            assert_eq!(work.all_gather(&thread, mine)?, [1, 3]);
            let outside = work
                .broadcast(&thread, NodeId(0), mine)
                .expect_err("no participant");
            assert!(matches!(outside, Error::NotParticipant { .. }), "{outside}");
        }
        end.wait(&thread)
    });
}

/// Puts of two threads are not ordered by the network: the rows must be.
#[test]
fn threads_of_a_node_take_turns() {
    for cluster in ALL {
        cluster.run(2, |manager| {
            let mut work = Collective::<u64, _>::new(&manager, "work")?;
            let end = Barrier::new(&manager, "end")?;
            manager.wait_for_ready()?;
            let threads = [manager.thread()?, manager.thread()?, manager.thread()?];
            for round in 0..300 {
                let thread = &threads[(round % 3) as usize];
                let value = round + u64::from(manager.node().0);
                assert_eq!(work.all_gather(thread, value)?, [round, round + 1]);
            }
            end.wait(&threads[0])
        });
    }
}

#[test]
fn a_call_that_timed_out_is_gone_on_with() {
    for cluster in ALL {
        cluster.run(2, |manager| {
            let mut work = Collective::<u64, _>::new(&manager, "work")?;
            let late = Barrier::new(&manager, "late")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            if manager.node().0 == 0 {
                thread.set_deadline(Some(thread.now()));
                let early = work.all_gather(&thread, 7).expect_err("the other one waits");
                assert!(early.is_timeout(), "{early}");
                let other = work.broadcast(&thread, NodeId(0), 7).expect_err("another call");
                assert_eq!(other.kind(), ErrorKind::Usage, "{other}");
                thread.set_deadline(None);
                late.wait(&thread)?;
                // The first value has been sent: this one is not.
                assert_eq!(work.all_gather(&thread, 99)?, [7, 8]);
            } else {
                late.wait(&thread)?;
                assert_eq!(work.all_gather(&thread, 8)?, [7, 8]);
            }
            let next = work.all_reduce(&thread, 1, |a, b| a + b)?;
            assert_eq!(next, 2);
            late.wait(&thread)
        });
    }
}

#[test]
fn loss_is_said_and_the_others_go_on_without() {
    for cluster in ALL {
        cluster.run(3, |manager| {
            let mut all = Collective::<u64, _>::new(&manager, "all")?;
            let left = [NodeId(0), NodeId(2)];
            let mut survivors = left
                .contains(&manager.node())
                .then(|| Collective::<u64, _>::new(&manager.among(left), "survivors"))
                .transpose()?;
            let ready = Barrier::new(&manager, "ready")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            assert_eq!(all.all_gather(&thread, 1)?, [1, 1, 1]);
            ready.wait(&thread)?;
            let Some(survivors) = &mut survivors else {
                fence::thread(&thread)?;
                manager.fabric().mesh().fail();
                return Ok(());
            };
            let error = all.all_gather(&thread, 2).expect_err("node 1 is gone");
            assert_eq!(error.lost_peer(), Some(NodeId(1)), "{error}");
            assert!(error.is_peer_lost());
            assert!(all.all_gather(&thread, 2).is_err(), "nor does it come back");
            assert_eq!(survivors.all_gather(&thread, 3)?, [3, 3]);
            Ok(())
        });
    }
}

#[test]
fn nodes_that_call_different_operations_are_told() {
    Cluster::Synchronous.run(2, |manager| {
        let mut work = Collective::<u64, _>::new(&manager, "work")?;
        let end = Barrier::new(&manager, "end")?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        let outcome: Result<()> = match manager.node().0 {
            0 => work.all_gather(&thread, 1).map(drop),
            _ => work.broadcast(&thread, NodeId(0), 1).map(drop),
        };
        let error = outcome.expect_err("they do not meet");
        assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
        end.wait(&thread)
    });
}

#[test]
fn values_of_different_sizes_do_not_fit() {
    Cluster::Synchronous.run(2, |manager| {
        let error = if manager.node().0 == 0 {
            let _work = Collective::<u64, _>::new(&manager, "work")?;
            manager.wait_for_ready()
        } else {
            let _work = Collective::<u32, _>::new(&manager, "work")?;
            manager.wait_for_ready()
        };
        let error = error.expect_err("8 bytes and 4");
        assert_eq!(
            (error.kind(), error.object()),
            (ErrorKind::Mismatch, Some("work"))
        );
        Ok(())
    });
}
