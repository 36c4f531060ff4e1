//! Collective operations (MPI's, on values of one type). The n-th calls of all participants belong together: a broadcast returns
//! the root's value of this call, a gather the value of each participant in ascending order of the nodes, a reduction what
//! combining these gives. A call that was late has taken part with its first value, and only the same call continues it. A call
//! that needs a lost node fails.

use loco::fabric::{Lock as _, NodeId};
use loco::{Collective, ErrorKind, Manager, Parent as _, Participants, Result, SharedVar, Thread};
use loco_sim::{ModelMutex, World, call};

use crate::methods::did;
use crate::named_world::NamedWorld;
use crate::stage::{Fabric, Stage, must, unless_lost, until_in_time};

/// A value of `N` words.
type Work<const N: usize> = Collective<[u64; N], Fabric>;

struct Objects<const N: usize> {
    /// The threads of a node use it in turn. The mutex is the model's, so that the explorer sees which thread used it.
    work: ModelMutex<Option<Work<N>>>,
    baton: SharedVar<u64, Fabric>,
}

/// Returns a maker of the object among these nodes. Another node makes one of its own, so that every node has one.
fn make<const N: usize>(
    nodes: &'static [u16],
) -> impl Fn(&Manager<Fabric>) -> Result<Objects<N>> + Clone + Send + 'static {
    move |manager| {
        let inside = Participants::of(nodes.iter().map(|&node| NodeId(node)));
        let work = match inside.contains(manager.node()) {
            true => Collective::new(&manager.among(&inside), "work")?,
            false => Collective::new(&manager.among([manager.node()]), "alone")?,
        };
        Ok(Objects {
            work: loco::fabric::Lock::new(Some(work)),
            baton: SharedVar::new(manager, "baton")?,
        })
    }
}

/// A call of every participant, with the position of its root among the participants.
#[derive(Clone, Copy)]
enum Call {
    Broadcast(usize),
    Gather(usize),
    AllGather,
    Reduce(usize),
    AllReduce,
}

/// Returns the value that `node` gives in the round.
fn value<const N: usize>(round: u64, node: u16) -> [u64; N] {
    [100 * round + u64::from(node); N]
}

/// Combines values so that the order of them shows.
fn append<const N: usize>(so_far: [u64; N], next: [u64; N]) -> [u64; N] {
    std::array::from_fn(|i| 1000 * so_far[i] + next[i])
}

/// Makes a call of the round once, with this value, and checks its result.
fn once<const N: usize>(
    work: &mut Work<N>,
    thread: &Thread<Fabric>,
    what: Call,
    round: u64,
    nodes: &[u16],
    mine: [u64; N],
) -> Result<()> {
    let me = thread.node_id().0;
    let all: Vec<[u64; N]> = nodes.iter().map(|&node| value(round, node)).collect();
    let all_in_one = || all[1..].iter().fold(all[0], |so_far, &next| append(so_far, next));
    let is_root = |root: usize| nodes[root] == me;
    match what {
        Call::Broadcast(root) => {
            did("Collective::broadcast");
            let got = work.broadcast(thread, NodeId(nodes[root]), mine)?;
            // The root gets what it gave first.
            assert_eq!(got, all[root], "the root's value of round {round}");
        }
        Call::Gather(root) => {
            did("Collective::gather");
            let got = work.gather(thread, NodeId(nodes[root]), mine)?;
            let expected = is_root(root).then_some(all);
            assert_eq!(got, expected, "the values of round {round}");
        }
        Call::AllGather => {
            did("Collective::all_gather");
            assert_eq!(work.all_gather(thread, mine)?, all, "the values of round {round}");
        }
        Call::Reduce(root) => {
            did("Collective::reduce");
            let got = work.reduce(thread, NodeId(nodes[root]), mine, append)?;
            let expected = is_root(root).then(all_in_one);
            assert_eq!(got, expected, "the values of round {round}, combined");
        }
        Call::AllReduce => {
            did("Collective::all_reduce");
            let got = work.all_reduce(thread, mine, append)?;
            assert_eq!(got, all_in_one(), "the values of round {round}, combined");
        }
    }
    Ok(())
}

/// Makes a call of the round, and again if it is late, with another value that is to be ignored.
fn made<const N: usize>(
    work: &mut Work<N>,
    thread: &Thread<Fabric>,
    what: Call,
    round: u64,
    nodes: &[u16],
) -> Result<()> {
    let mut mine = value(round, thread.node_id().0);
    until_in_time(|| {
        let made = once(work, thread, what, round, nodes, mine);
        mine = [u64::MAX; N];
        made
    })
}

/// Makes a world in which each of the participants makes the calls, by `threads` threads in turn.
fn rounds<const N: usize>(
    nodes: &'static [u16],
    threads: usize,
    calls: &'static [Call],
) -> impl Fn(&mut World) {
    move |world| {
        let count = nodes.iter().max().map_or(2, |&last| 2.max(last + 1));
        let mut stage = Stage::new(world, count, threads, make::<N>(nodes));
        for &node in nodes {
            stage.in_turn(
                node,
                0..threads,
                &format!("node {node}"),
                |objects| &objects.baton,
                calls.len() as u64,
                move |objects, thread, round| {
                    let taken = objects.work.lock().take();
                    let Some(mut work) = taken else {
                        panic!("another thread has it");
                    };
                    let what = calls[round as usize - 1];
                    must(made(&mut work, thread, what, round, nodes));
                    *objects.work.lock() = Some(work);
                },
            );
        }
    }
}

/// Makes a world in which each of the participants makes the calls until one fails because a node is lost. A call that returns has
/// the values of all. After the loss every call fails for it.
fn lost<const N: usize>(nodes: &'static [u16], calls: &'static [Call]) -> impl Fn(&mut World) {
    move |world| {
        let mut stage = Stage::new(world, nodes.len() as u16, 1, make::<N>(nodes));
        stage.each("node", nodes.iter().copied(), move |objects, thread, _| {
            let mut work = objects.work.lock().take()?;
            for (round, &what) in (1..).zip(calls) {
                if unless_lost(made(&mut work, thread, what, round, nodes)).is_none() {
                    let later = made(&mut work, thread, Call::AllReduce, round + 1, nodes);
                    assert!(unless_lost(later).is_none(), "a call after a loss");
                    return None;
                }
            }
            Some(())
        });
    }
}

/// Makes a world in which node 0 makes one call and node 1 another. The one that waits for the other is told.
fn different(world: &mut World) {
    const NODES: &[u16] = &[0, 1];
    let mut stage = Stage::new(world, 2, 1, make::<1>(NODES));
    stage.run(0, 0, "gathers", |objects, thread| {
        let mut work = objects.work.lock().take()?;
        let gathered = work.all_gather(thread, [1]);
        let kind = gathered.err().map(|error| error.kind());
        assert_eq!(kind, Some(ErrorKind::Usage), "the other node makes another call");
        Some(())
    });
    stage.run(1, 0, "gives", |objects, thread| {
        let mut work = objects.work.lock().take()?;
        assert_eq!(must(work.gather(thread, NodeId(0), [2])), None);
        Some(())
    });
}

/// Builds a world in which a node whose call was late makes another call first, which is refused.
fn refused_after_late(world: &mut World) {
    const NODES: &[u16] = &[0, 1];
    let mut stage = Stage::new(world, 2, 1, make::<1>(NODES));
    stage.each("node", 0..2, |objects, thread, me| {
        let mut work = objects.work.lock().take()?;
        let mut late = 0;
        while let Err(error) = once(&mut work, thread, Call::AllGather, 1, NODES, value(1, me)) {
            assert!(error.is_timeout(), "{error}");
            late += 1;
            let other = work.gather(thread, NodeId(me), [7]);
            let kind = other.err().map(|error| error.kind());
            assert_eq!(kind, Some(ErrorKind::Usage), "it continues no other call");
            let other = work.broadcast(thread, NodeId(me), [7]);
            let kind = other.err().map(|error| error.kind());
            assert_eq!(kind, Some(ErrorKind::Usage), "it continues no other call");
        }
        assert!(late <= 1, "one wait may be late");
        must(made(&mut work, thread, Call::Broadcast(0), 2, NODES));
        Some(())
    });
}

/// Returns the world in which both nodes gather the values of both and show them.
pub(super) fn shown() -> NamedWorld {
    NamedWorld::new("all-gather", |world| {
        let mut stage = Stage::new(world, 2, 1, make::<1>(&[0, 1]));
        stage.each("node", 0..2, |objects, thread, me| {
            let mut work = objects.work.lock().take()?;
            for round in 1..=2 {
                let gather = || must(work.all_gather(thread, value(round, me)));
                call("gather", gather, |all| format!("{all:?}"));
            }
            Some(())
        });
    })
}

/// Returns the worlds of collective operations.
pub(crate) fn worlds() -> Vec<NamedWorld> {
    use Call::{AllGather, AllReduce, Broadcast, Gather, Reduce};
    const TWO: &[u16] = &[0, 1];
    const THREE: &[u16] = &[0, 1, 2];
    // No prefix of the nodes, so that positions and ids differ.
    const LAST: &[u16] = &[1, 2];
    // Rooted calls wait for nobody, so a node may be ahead. The slots of a round are used again two rounds later.
    const AHEAD: &[Call] = &[Broadcast(0), Broadcast(0), Broadcast(0)];
    const COLLECT: &[Call] = &[Gather(0), Gather(0), Gather(0)];
    const TO_AND_FRO: &[Call] = &[Broadcast(0), Gather(0), Broadcast(1)];
    const ALL: &[Call] = &[AllGather, AllGather];
    const REDUCE: &[Call] = &[Reduce(1), AllReduce];
    vec![
        NamedWorld::new("all-gather", rounds::<1>(TWO, 1, ALL)),
        NamedWorld::new("broadcast", rounds::<1>(TWO, 1, &[Broadcast(0), Broadcast(1)])),
        NamedWorld::new("gather", rounds::<1>(TWO, 1, &[Gather(1), Gather(0)])),
        NamedWorld::new("reduce", rounds::<1>(TWO, 1, REDUCE)),
        NamedWorld::new("different", different),
        NamedWorld::new("ahead", rounds::<1>(TWO, 1, AHEAD)),
        NamedWorld::new("collect", rounds::<1>(TWO, 1, COLLECT)),
        NamedWorld::new("to-and-fro", rounds::<1>(TWO, 1, TO_AND_FRO)),
        NamedWorld::new("wide", rounds::<3>(TWO, 1, AHEAD)),
        NamedWorld::new("memory", rounds::<9>(TWO, 1, AHEAD)),
        NamedWorld::new("memory-collect", rounds::<9>(TWO, 1, COLLECT)),
        NamedWorld::new("last-nodes", rounds::<1>(LAST, 1, TO_AND_FRO)),
        NamedWorld::new("expiry", rounds::<1>(TWO, 1, ALL)).expiries(1),
        NamedWorld::new("expiry-to-and-fro", rounds::<1>(TWO, 1, TO_AND_FRO)).expiries(1),
        NamedWorld::new("expiry-refused", refused_after_late).expiries(1),
        NamedWorld::new("crash", lost::<1>(TWO, &[AllGather, Broadcast(1), Gather(0)])).crash(),
        NamedWorld::new("crash-of-three", lost::<1>(THREE, &[Broadcast(1), Gather(0)])).crash(),
        // A node waits for a root that has stopped for the loss of the third.
        NamedWorld::new(
            "crash-of-three-again",
            lost::<1>(THREE, &[Broadcast(1), Broadcast(1)]),
        )
        .crash(),
        NamedWorld::new("suspicion", lost::<1>(TWO, &[Gather(1), Broadcast(0)])).suspicion(),
        NamedWorld::new(
            "two-threads",
            rounds::<1>(TWO, 2, &[AllGather, Gather(0), AllGather]),
        ),
        NamedWorld::new("two-threads-ahead", rounds::<1>(TWO, 2, AHEAD)),
        NamedWorld::new("two-threads-memory", rounds::<9>(TWO, 2, AHEAD)),
        NamedWorld::new("two-threads-expiry", rounds::<1>(TWO, 2, ALL)).expiries(1),
        NamedWorld::new("three-nodes", rounds::<1>(THREE, 1, &[Gather(1), Broadcast(2)])),
        NamedWorld::new("three-nodes-all", rounds::<1>(THREE, 1, ALL)),
    ]
}
