//! Fences do the least that is enough (LOCO'25 5.3), which is counted, and enough, which is observed.

use std::sync::Arc;

use crate::common::{Shared, run_on_shm};
use crate::counting::{Counting, Counts};
use loco::fabric::{NodeId, ShmConfig, Tier};
use loco::{AckKey, Barrier, Manager, Result, SharedRegion, Thread, fence};
use loco_test_networks::deferred::Nic;

type Counted = Counting<Shared>;

/// The things that node 0 works with.
struct Kit<'a> {
    manager: &'a Manager<Counted>,
    region: &'a SharedRegion<Counted>,
    thread: &'a Thread<Counted>,
    counts: &'a Counts,
}

impl Kit<'_> {
    fn put(&self, node: u16) -> Result<AckKey<Counted>> {
        self.thread
            .put_inline(&[1; 8], self.region.target(NodeId(node), 0)?)
    }

    fn get(&self, node: u16) -> Result<()> {
        let target = self.region.target(NodeId(node), 0)?;
        self.thread.mem_ref(8)?.get(target)?.wait().map(drop)
    }

    /// Flushes and CPU fences that `fence` takes.
    fn cost(&self, fence: impl FnOnce() -> Result<()>) -> Result<(u64, u64)> {
        let (flushes, cpu) = self.counts.fences();
        fence()?;
        let after = self.counts.fences();
        Ok((after.0 - flushes, after.1 - cpu))
    }
}

/// Three nodes; node 0 runs `body`.
fn on_node_0(nic: Option<Nic>, body: impl Fn(Kit<'_>) -> Result<()> + Sync) {
    run_on_shm(3, &ShmConfig::default(), nic.as_ref(), |inner| {
        let counts = Arc::new(Counts::default());
        let manager = Manager::new(Counting {
            inner,
            counts: counts.clone(),
        })?;
        let region = SharedRegion::new(&manager, "r", 64)?;
        let end = Barrier::new(&manager, "end")?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        if manager.node().0 == 0 {
            body(Kit {
                manager: &manager,
                region: &region,
                thread: &thread,
                counts: &counts,
            })?;
        }
        end.wait(&thread)
    });
}

#[test]
fn with_nothing_outstanding_they_cost_nothing() {
    for nic in [
        None,
        Some(Nic::deferred(3)),
        Some(Nic::deferred(3).tier(Tier::Unordered)),
    ] {
        on_node_0(nic, |kit| {
            assert_eq!(kit.cost(|| fence::pair(kit.thread, NodeId(1)))?, (0, 0));
            assert_eq!(kit.cost(|| fence::thread(kit.thread))?, (0, 0));
            // The global fence orders CPU stores too (stamp aGF), at least by a CPU fence.
            assert_eq!(kit.cost(|| fence::towards(kit.thread, &[NodeId(1)]))?, (0, 1));
            Ok(())
        });
    }
}

#[test]
fn puts_placed_when_posted_cost_a_cpu_fence() {
    on_node_0(None, |kit| {
        kit.put(1)?.forget();
        kit.put(2)?.forget();
        assert_eq!(kit.cost(|| fence::thread(kit.thread))?, (0, 1));
        assert_eq!(kit.cost(|| fence::thread(kit.thread))?, (0, 0), "once");
        Ok(())
    });
}

#[test]
fn puts_cost_one_flush_per_peer() {
    on_node_0(Some(Nic::deferred(4)), |kit| {
        for _ in 0..10 {
            kit.put(1)?.forget();
            kit.put(2)?.forget();
        }
        assert_eq!(kit.cost(|| fence::pair(kit.thread, NodeId(1)))?, (1, 0));
        assert_eq!(kit.cost(|| fence::thread(kit.thread))?, (1, 0), "node 2 only");
        assert_eq!(kit.cost(|| fence::thread(kit.thread))?, (0, 0));
        kit.put(1)?.wait(kit.thread)?;
        assert_eq!(
            kit.cost(|| fence::thread(kit.thread))?,
            (1, 0),
            "completion is not placement"
        );
        Ok(())
    });
}

#[test]
fn a_later_read_is_fence_enough() {
    on_node_0(Some(Nic::deferred(5)), |kit| {
        kit.put(1)?.forget();
        kit.get(1)?;
        assert_eq!(
            kit.cost(|| fence::pair(kit.thread, NodeId(1)))?,
            (0, 0),
            "a get waited for"
        );
        kit.put(1)?.forget();
        let buffer = kit.thread.mem_ref(8)?;
        let pending = buffer.get(kit.region.target(NodeId(1), 0)?)?;
        assert_eq!(
            kit.cost(|| fence::pair(kit.thread, NodeId(1)))?,
            (0, 0),
            "a get under way"
        );
        assert!(pending.query(), "the fence waited for it");
        kit.get(1)?;
        kit.put(1)?.forget();
        assert_eq!(
            kit.cost(|| fence::pair(kit.thread, NodeId(1)))?,
            (1, 0),
            "a put after the get"
        );
        Ok(())
    });
}

#[test]
fn all_threads_scope_flushes_for_every_thread_that_needs_it() {
    on_node_0(Some(Nic::deferred(6)), |kit| {
        let others = [kit.manager.thread()?, kit.manager.thread()?];
        for other in &others {
            other
                .put_inline(&[2; 8], kit.region.target(NodeId(2), 8)?)?
                .forget();
        }
        kit.put(1)?.forget();
        assert_eq!(kit.cost(|| fence::all_threads(kit.thread))?.0, 3);
        assert_eq!(
            kit.cost(|| fence::all_threads(kit.thread))?.0,
            0,
            "all are placed now"
        );
        assert_eq!(
            kit.cost(|| fence::thread(&others[0]))?,
            (0, 0),
            "known to their owners too"
        );
        Ok(())
    });
}

#[test]
fn a_fence_places() {
    for seed in 0..4 {
        on_node_0(Some(Nic::deferred(seed)), |kit| {
            let reader = kit.manager.thread()?;
            for round in 1..=100_u64 {
                let data = round.to_ne_bytes();
                kit.thread
                    .put_inline(&data, kit.region.target(NodeId(1), 16)?)?
                    .forget();
                fence::pair(kit.thread, NodeId(1))?;
                // Another queue pair: nothing but the fence orders its get after the put.
                let seen = reader
                    .mem_ref(8)?
                    .get(kit.region.target(NodeId(1), 16)?)?
                    .wait()?
                    .word(0)?;
                assert_eq!(seen, round);
            }
            Ok(())
        });
    }
}

#[test]
fn untracked_puts_ask_for_no_completion() {
    on_node_0(Some(Nic::deferred(7)), |kit| {
        let counts = kit.counts;
        assert_eq!(counts.puts.load(std::sync::atomic::Ordering::SeqCst), 0);
        kit.put(1)?.forget();
        assert_eq!(counts.signaled.load(std::sync::atomic::Ordering::SeqCst), 1);
        let target = kit.region.target(NodeId(1), 0)?;
        kit.thread.put_inline_untracked(&[1; 8], target)?;
        assert_eq!(counts.puts.load(std::sync::atomic::Ordering::SeqCst), 2);
        assert_eq!(counts.signaled.load(std::sync::atomic::Ordering::SeqCst), 1);
        Ok(())
    });
}
