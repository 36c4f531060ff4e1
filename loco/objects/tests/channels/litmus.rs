//! The litmus-like examples of LOCO'26 that the first objects decide, run many times on every fabric: a forbidden
//! outcome never shows. That the model allows no other outcome is checked elsewhere; here the shipped code runs on
//! real threads.

use crate::common::{ALL, Cluster};
use loco::fabric::{Fabric, NodeId};
use loco::{Barrier, Manager, Parent as _, Participants, Result, SharedVar, Thread, fence};

const ROUNDS: u64 = 200;

/// The things that each test needs: variables, a barrier between rounds, a thread.
type Kit<F, const N: usize> = ([SharedVar<u64, F>; N], Barrier<F>, Thread<F>);

/// Makes variables `names` and the rest.
fn set_up<F: Fabric, const N: usize>(manager: &Manager<F>, names: [&str; N]) -> Result<Kit<F, N>> {
    let mut variables = Vec::new();
    for name in names {
        variables.push(SharedVar::new(manager, name)?);
    }
    let rounds = Barrier::new(manager, "rounds")?;
    manager.wait_for_ready()?;
    let variables = variables.try_into().ok().expect("as many as names");
    Ok((variables, rounds, manager.thread()?))
}

/// Values of round `r` are `r`, so that nothing is reset: 0 in the paper is "less than `r`" here.
fn each_round(
    cluster: Cluster,
    n: usize,
    node: impl Fn(Manager<crate::common::Net>) -> Result<Vec<u64>> + Sync,
    forbidden: impl Fn(u64, &[u64]) -> bool,
) {
    let results = cluster.run(n, node);
    for (r, i) in (1..=ROUNDS).zip(0..) {
        let row: Vec<u64> = results.iter().map(|node| node[i]).collect();
        assert!(!forbidden(r, &row), "{cluster:?}, round {r}: {row:?}");
    }
}

/// Fig. 5: store buffering with a global fence; (0, 0) is forbidden.
#[test]
fn fig5_store_buffering_with_global_fence() {
    for cluster in ALL {
        each_round(
            cluster,
            2,
            |manager| {
                let ([x, y], rounds, thread) = set_up(&manager, ["x", "y"])?;
                let me = manager.node();
                let other = [NodeId(1 - me.0)];
                let (mine, theirs) = if me.0 == 0 { (&x, &y) } else { (&y, &x) };
                (1..=ROUNDS)
                    .map(|r| {
                        rounds.wait(&thread)?;
                        mine.write(r);
                        mine.broadcast_to(&thread, &other)?.forget();
                        fence::towards(&thread, &other)?;
                        let read = theirs.read();
                        rounds.wait(&thread)?;
                        Ok(read)
                    })
                    .collect()
            },
            |r, row| row.iter().all(|&read| read < r),
        );
    }
}

/// Fig. 6: after a barrier both see the other's put; only (1, 1) is allowed.
#[test]
fn fig6_barrier() {
    for cluster in ALL {
        each_round(
            cluster,
            2,
            |manager| {
                let ([x, y], z, thread) = set_up(&manager, ["x", "y"])?;
                let me = manager.node();
                let (mine, theirs) = if me.0 == 0 { (&x, &y) } else { (&y, &x) };
                (1..=ROUNDS)
                    .map(|r| {
                        mine.write(r);
                        mine.broadcast(&thread)?.forget();
                        z.wait(&thread)?;
                        let read = theirs.read();
                        z.wait(&thread)?;
                        Ok(read)
                    })
                    .collect()
            },
            |r, row| row != [r, r],
        );
    }
}

/// Fig. 9a: message passing by a broadcast; who sees the flag sees the data. (a, b) = (1, 0) is forbidden.
#[test]
fn fig9a_message_passing() {
    for cluster in ALL {
        each_round(
            cluster,
            3,
            |manager| {
                let ([z, x], rounds, thread) = set_up(&manager, ["z", "x"])?;
                (1..=ROUNDS)
                    .map(|r| {
                        let mut seen = r;
                        if manager.node().0 == 0 {
                            z.write(r);
                            z.broadcast_to(&thread, &[NodeId(1)])?.forget();
                            x.write(r);
                            x.broadcast_to(&thread, &[NodeId(1), NodeId(2)])?.forget();
                        } else if manager.node().0 == 1 {
                            x.wait_until(&thread, |flag| flag == r)?;
                            seen = z.read();
                        }
                        rounds.wait(&thread)?;
                        Ok(seen)
                    })
                    .collect()
            },
            |r, row| row.iter().any(|&seen| seen != r),
        );
    }
}

/// Fig. 12, strong variant (4.3): nodes 0 and 1 meet in one barrier, 1 and 2 in another; what node 0 put at node 2
/// before the first is visible there after the second.
#[test]
fn fig12_barriers_are_transitive() {
    for cluster in ALL {
        each_round(
            cluster,
            3,
            |manager| {
                let me = manager.node();
                let group = |a: u16, b: u16| Participants::of([NodeId(a), NodeId(b)]);
                let b1 = (me.0 <= 1)
                    .then(|| Barrier::new(&manager.among(&group(0, 1)), "b1"))
                    .transpose()?;
                let b2 = (me.0 >= 1)
                    .then(|| Barrier::new(&manager.among(&group(1, 2)), "b2"))
                    .transpose()?;
                let ([x], rounds, thread) = set_up(&manager, ["x"])?;
                (1..=ROUNDS)
                    .map(|r| {
                        if me.0 == 0 {
                            x.write(r);
                            x.broadcast_to(&thread, &[NodeId(2)])?.forget();
                        }
                        for barrier in [&b1, &b2].into_iter().flatten() {
                            barrier.wait(&thread)?;
                        }
                        let seen = if me.0 == 2 { x.read() } else { r };
                        rounds.wait(&thread)?;
                        Ok(seen)
                    })
                    .collect()
            },
            |r, row| row.iter().any(|&seen| seen != r),
        );
    }
}
