//! A node that is lost turns into `PeerLost` for those that wait for it, and for nobody else. That it is not `Timeout`
//! shows that they hear of it in bounded time.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{self, ALL, Cluster, Net};
use loco::fabric::{Control as _, NodeId, PeerState};
use loco::{
    Barrier, Channel, Manager, Parent as _, Participants, Result, SharedRegion, SharedVar, Thread, fence,
};

/// Ends the node as a crash would, once its arrival in the last barrier has reached everybody: until then its
/// peers may rightly find it lost in that one.
fn die(manager: &Manager<Net>, thread: &Thread<Net>) -> Result<()> {
    fence::thread(thread)?;
    manager.fabric().mesh().fail();
    Ok(())
}

#[test]
fn in_set_up() {
    Cluster::Synchronous.run(3, |manager| {
        if manager.node().0 == 2 {
            manager.fabric().mesh().fail();
            return Ok(());
        }
        let bar = Barrier::new(&manager, "bar")?;
        let survivors = Participants::of([NodeId(0), NodeId(1)]);
        let end = Barrier::new(&manager.among(&survivors), "end")?;
        let error = bar.channel().wait_for_ready().expect_err("node 2 never makes it");
        assert_eq!(error.lost_peer(), Some(NodeId(2)));
        end.channel().wait_for_ready()?;
        end.wait(&manager.thread()?)
    });
}

/// Waits until node 0 has said by the barrier `told` that it heard of the loss.
fn wait_until_told(manager: &Manager<Net>) -> Result<()> {
    let told = Barrier::new(&manager.among([NodeId(0), NodeId(2)]), "told")?;
    told.channel().wait_for_ready()?;
    told.wait(&manager.thread()?)
}

#[test]
fn in_set_up_behind_a_channel_of_others() {
    Cluster::Synchronous.run(3, |manager| {
        match manager.node().0 {
            // It waits for `a` of node 2, which makes it never, and for `b` of node 1, which is dead.
            0 => {
                let _a = Barrier::new(&manager.among([NodeId(0), NodeId(2)]), "a")?;
                let _b = Barrier::new(&manager.among([NodeId(0), NodeId(1)]), "b")?;
                let error = manager.wait_for_ready().expect_err("node 1 never makes `b`");
                assert_eq!(error.lost_peer(), Some(NodeId(1)));
            }
            1 => {
                manager.fabric().mesh().fail();
                return Ok(());
            }
            _ => {}
        }
        wait_until_told(&manager)
    });
}

#[test]
fn in_set_up_after_it_met_some_of_the_others() {
    // Node 1 dies once node 0 is connected to it. Node 2 has not met it and makes its endpoint only later.
    let met = Arc::new(std::sync::Barrier::new(2));
    Cluster::Synchronous.run(3, |manager| {
        let meet = met.clone();
        let builder = || Channel::builder(&manager, "all").region("data", 8);
        match manager.node().0 {
            0 => {
                let all = builder()
                    .on_connect(move |_, _| {
                        meet.wait();
                        Ok(())
                    })
                    .join()?;
                let error = all.wait_for_ready().expect_err("node 1 dies in set-up");
                assert_eq!(error.lost_peer(), Some(NodeId(1)));
            }
            1 => {
                let _all = builder().join()?;
                meet.wait();
                manager.fabric().mesh().fail();
                return Ok(());
            }
            _ => {}
        }
        wait_until_told(&manager)
    });
}

#[test]
fn in_a_barrier() {
    for cluster in ALL {
        cluster.run(3, |manager| {
            let bar = Barrier::new(&manager, "bar")?;
            let survivors = Participants::of([NodeId(0), NodeId(2)]);
            let end = (manager.node().0 != 1)
                .then(|| Barrier::new(&manager.among(&survivors), "end"))
                .transpose()?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            bar.wait(&thread)?;
            let Some(end) = end else {
                return die(&manager, &thread);
            };
            let error = bar.wait(&thread).expect_err("node 1 is gone");
            assert_eq!(error.lost_peer(), Some(NodeId(1)), "{cluster:?}");
            end.wait_unfenced(&thread)
        });
    }
}

#[test]
fn survivors_go_on_without_it() {
    for cluster in ALL {
        cluster.run(3, |manager| {
            let survivors = Participants::of([NodeId(0), NodeId(1)]);
            let all = Barrier::new(&manager, "all")?;
            let two = (manager.node().0 != 2)
                .then(|| Barrier::new(&manager.among(&survivors), "two"))
                .transpose()?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            all.wait(&thread)?;
            let Some(two) = two else {
                return die(&manager, &thread);
            };
            // One fence may report what was under way to node 2; after that it is nobody's concern.
            let lost = all.wait(&thread).expect_err("node 2 is gone");
            assert_eq!(lost.lost_peer(), Some(NodeId(2)), "{cluster:?}");
            let _ = fence::thread(&thread);
            for _ in 0..100 {
                two.wait(&thread)?;
            }
            Ok(())
        });
    }
}

#[test]
fn who_has_arrived_may_leave() {
    // The last barrier of a program: some are gone before others have noticed that everybody arrived.
    for cluster in ALL {
        for _ in 0..20 {
            cluster.run(3, |manager| {
                let bar = Barrier::new(&manager, "bar")?;
                manager.wait_for_ready()?;
                bar.wait(&manager.thread()?)
            });
        }
    }
}

#[test]
fn who_leaves_has_placed_what_it_posted_although_others_have_left() {
    const EARLY: [u16; 3] = [0, 1, 2];
    for cluster in ALL {
        let words = cluster.run(5, |manager| {
            let region = SharedRegion::new(&manager, "r", 8)?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            let left = |node| manager.fabric().mesh().peer_state(NodeId(node)) == PeerState::Left;
            let read = || {
                let mut word = [0; 8];
                region.read(0, &mut word).map(|()| u64::from_ne_bytes(word))
            };
            match manager.node().0 {
                3 => {
                    let put = |to| {
                        let target = region.target(NodeId(to), 0)?;
                        thread.put_inline(&1u64.to_ne_bytes(), target).map(drop)
                    };
                    EARLY.into_iter().try_for_each(put)?;
                    common::wait_until("they have left", || EARLY.into_iter().all(left));
                    put(4)?;
                }
                4 => common::wait_until("node 3 has left", || left(3)),
                _ => common::wait_until("node 3 has put", || read().is_ok_and(|word| word == 1)),
            }
            read()
        });
        assert_eq!(words[4], 1, "{cluster:?}");
    }
}

#[test]
fn outstanding_operations_fail() {
    for cluster in ALL {
        cluster.run(2, |manager| {
            let bar = Barrier::new(&manager, "bar")?;
            let region = SharedRegion::new(&manager, "r", 8)?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            bar.wait(&thread)?;
            if manager.node().0 == 1 {
                return die(&manager, &thread);
            }
            let lost = loop {
                let outcome = region
                    .target(NodeId(1), 0)
                    .and_then(|target| thread.put_inline(&[1; 8], target))
                    .and_then(|key| key.wait(&thread))
                    .and_then(|()| fence::pair(&thread, NodeId(1)));
                if let Err(error) = outcome {
                    break error.lost_peer();
                }
            };
            assert_eq!(lost, Some(NodeId(1)), "{cluster:?}");
            Ok(())
        });
    }
}

#[test]
fn a_wait_has_a_deadline() {
    for cluster in ALL {
        cluster.run(2, |manager| {
            let x = SharedVar::<u64, _>::new(&manager, "x")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            thread.set_deadline(Some(thread.now().after(Duration::from_millis(200))));
            let error = x.wait_until(&thread, |x| x == 1).expect_err("nobody writes");
            assert!(error.is_timeout() || error.lost_peer().is_some(), "{error}");
            Ok(())
        });
    }
}
