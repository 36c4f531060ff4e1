//! A barrier over shared variables, one for each node, that count the node's arrivals (LOCO'26 Fig. 7).

use loco::fabric::NodeId;
use loco::{Manager, SharedRegion, SharedVar, Thread, fence};
use loco_sim::World;

use crate::{Fabric, Site, found, passes, passes_as_far_as_seen, site, takes_preemptions};

type Sv = SharedVar<u64, Fabric>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mistake {
    None,
    /// Arrives without completing its puts.
    NoFence,
    /// Arrives without completing its puts. Counts on while a put of the counter may not have read it yet.
    ReusedCounter,
    /// Completes its puts by their completions.
    Completion,
    /// The NIC writes its own counter back to it, and nothing fences.
    LoopBack,
    /// Like `LoopBack`, but with the global fence.
    FencedLoopBack,
    /// Leaves when the next node has arrived, not when all have.
    OneNeighbour,
    /// Arrives before the fence.
    FenceAfterArrival,
}

struct Objects {
    flags: Vec<Sv>,
    counters: Vec<Sv>,
}

impl Objects {
    fn new(manager: &Manager<Fabric>) -> Objects {
        let variables = |name: &str| {
            (0..manager.nodes().len())
                .map(|i| SharedVar::new(manager, &format!("{name}{i}")).unwrap())
                .collect()
        };
        Objects {
            flags: variables("flag"),
            counters: variables("counter"),
        }
    }

    fn wait(&self, thread: &Thread<Fabric>, key: loco::AckKey<Fabric>, mistake: Mistake) {
        let me = usize::from(thread.node_id().0);
        match mistake {
            Mistake::NoFence | Mistake::ReusedCounter | Mistake::LoopBack | Mistake::FenceAfterArrival => {}
            Mistake::Completion => key.wait(thread).unwrap(),
            _ => fence::thread(thread).unwrap(),
        }
        let mine = &self.counters[me];
        let round = mine.read() + 1;
        mine.write(round);
        let loops_back = matches!(mistake, Mistake::LoopBack | Mistake::FencedLoopBack);
        let nodes: Vec<NodeId> = (0..self.counters.len() as u16)
            .map(NodeId)
            .filter(|&node| node != thread.node_id() || loops_back)
            .collect();
        let sent = mine.broadcast_to(thread, &nodes).unwrap();
        if matches!(mistake, Mistake::NoFence | Mistake::LoopBack) {
            // The fence of the next round would have the same effect.
            sent.wait(thread).unwrap();
        }
        if mistake == Mistake::FenceAfterArrival {
            fence::thread(thread).unwrap();
        }
        for (node, counter) in self.counters.iter().enumerate() {
            let next = (me + 1) % self.counters.len();
            if mistake != Mistake::OneNeighbour || node == next {
                counter.wait_until(thread, |count| count >= round).unwrap();
            }
        }
    }
}

/// Makes a world in which each node puts its flag at the others before each round, and sees the others' flags
/// after it.
fn world(nodes: usize, rounds: u64, mistake: Mistake) -> impl Fn(&mut World) + Sync {
    move |world| {
        for me in 0..nodes {
            let at = world.node(site(Objects::new));
            world.thread(&at, &format!("node{me}"), move |site: &Site<Objects>| {
                let thread = site.thread();
                let objects = &site.objects;
                for round in 1..=rounds {
                    objects.flags[me].write(round);
                    let key = objects.flags[me].broadcast(&thread).unwrap();
                    objects.wait(&thread, key, mistake);
                    for flag in &objects.flags {
                        assert!(flag.read() >= round, "a put before the barrier is seen after it");
                    }
                }
            });
        }
    }
}

#[test]
fn the_barrier_passes() {
    passes("barrier", world(2, 2, Mistake::None));
}

#[test]
fn barrier_without_the_global_fence() {
    // Counter and flag use one queue pair: only a third node can see the difference.
    found("barrier without fence", 2, through_a_third(Mistake::NoFence));
}

#[test]
fn barrier_whose_fence_waits_for_completions() {
    found(
        "barrier with completions",
        2,
        through_a_third(Mistake::Completion),
    );
}

#[test]
fn barrier_that_fences_after_it_has_arrived() {
    found(
        "fence after arrival",
        2,
        through_a_third(Mistake::FenceAfterArrival),
    );
}

#[test]
fn the_barrier_passes_through_a_third_node() {
    passes("barrier, third node", through_a_third(Mistake::None));
}

/// Counter and flag use one queue pair, so nothing here needs the fence.
#[test]
fn the_unfenced_barrier_passes() {
    passes("unfenced barrier", world(2, 2, Mistake::NoFence));
}

#[test]
fn unfenced_barrier_that_reuses_its_counter() {
    found("reused counter", 4, world(2, 2, Mistake::ReusedCounter));
    takes_preemptions("reused counter", 2, world(2, 2, Mistake::ReusedCounter));
}

#[test]
fn unfenced_barrier_that_loops_its_own_counter_back() {
    found("loop-back", 3, world(2, 2, Mistake::LoopBack));
}

/// The loop-back is not a bug here, and so none is found. It can harm only by placing an old count over a
/// newer one. The newer count is stored in the next round, after the fence. The fence covers all of the
/// thread's queue pairs, also the one towards its own node: its flush is a read on that queue pair, which
/// forces the earlier put into memory. When the newer count is stored, no put of the older one is therefore
/// under way. Without the fence the mistake is found (above).
#[test]
fn a_fenced_barrier_may_loop_its_own_counter_back() {
    passes_as_far_as_seen("fenced loop-back", world(2, 2, Mistake::FencedLoopBack));
}

#[test]
fn barrier_that_waits_for_one_neighbour() {
    found("one neighbour", 2, world(3, 1, Mistake::OneNeighbour));
}

/// Makes a world in which node 0 puts at node 2 and all meet. Node 1 may hear of node 0's arrival before node
/// 2 does; it then gets the word from node 2.
fn through_a_third(mistake: Mistake) -> impl Fn(&mut World) + Sync {
    move |world| {
        for me in 0..3u16 {
            let make = |manager: &Manager<Fabric>| {
                let data = SharedRegion::new(manager, "data", 8).unwrap();
                (Objects::new(manager), data)
            };
            let at = world.node(site(make));
            type Both = (Objects, SharedRegion<Fabric>);
            world.thread(&at, &format!("node{me}"), move |site: &Site<Both>| {
                let thread = site.thread();
                let (objects, data) = &site.objects;
                let there = data.target(NodeId(2), 0).unwrap();
                let key = match me {
                    0 => thread.put_inline(&1u64.to_le_bytes(), there).unwrap(),
                    _ => loco::AckKey::done(),
                };
                objects.wait(&thread, key, mistake);
                if me == 1 {
                    let there = data.target(NodeId(2), 0).unwrap();
                    let got = thread.mem_ref(8).unwrap().get(there).unwrap().wait().unwrap();
                    assert_eq!(
                        got.word(0).unwrap(),
                        1,
                        "a put before the barrier is seen after it"
                    );
                }
            });
        }
    }
}
