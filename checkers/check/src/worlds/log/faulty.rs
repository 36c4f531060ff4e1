//! Worlds in which waits are late and nodes are lost.

use loco::fabric::{Control as _, Fabric as _, NodeId, Peers};
use loco::{Log, LogConfig, Thread};
use loco_sim::{World, call, spec};

use super::{Step, Steps, bytes, config, make, value};
use crate::named_world::NamedWorld;
use crate::stage::{Fabric, LATE, Stage, UNKNOWN, known, outcome, timeouts_max, unless_lost};

/// The values that each node appends, by node. Each node then reads until it has the values of all nodes, but for those
/// that are gone.
type Values = &'static [&'static [u64]];

/// Appends a value once. Returns `None` if a node is lost on which the call depends, and `Some(false)` if it is late.
fn append<const N: usize>(log: &Log<Fabric>, thread: &Thread<Fabric>, value: u64) -> Option<bool> {
    let record = bytes::<N>(value);
    let appended = call(
        format!("append {value}"),
        || log.append(thread, &record),
        outcome(UNKNOWN, u64::to_string),
    );
    match appended {
        Err(error) if error.is_timeout() => Some(false),
        appended => unless_lost(appended).map(|_| true),
    }
}

/// Reads a record. Returns `None` if this node is lost, and `Some(None)` if there was none in time.
fn read<const N: usize>(log: &Log<Fabric>, thread: &Thread<Fabric>) -> Option<Option<u64>> {
    let mut record = Vec::new();
    let read = call(
        "read",
        || {
            let position = log.read_into(thread, &mut record)?;
            Ok((position, value::<N>(&record)))
        },
        outcome(LATE, |(position, value)| format!("{position} {value}")),
    );
    match read {
        Err(error) if error.is_timeout() => Some(None),
        read => unless_lost(read).map(|(_, value)| Some(value)),
    }
}

/// Returns true if nothing is missing but values of nodes that this one knows to be gone.
fn has_all(thread: &Thread<Fabric>, values: Values, seen: &[u64]) -> bool {
    let is_gone = |node: u16| thread.fabric().control().is_gone(NodeId(node));
    (0..).zip(values).all(|(node, of_node)| {
        let has = of_node.iter().all(|value| seen.contains(value));
        has || (node != thread.node_id().0 && is_gone(node))
    })
}

/// Appends the node's values and reads all there are, until the node is lost.
fn take_part<const N: usize>(log: &Log<Fabric>, thread: &Thread<Fabric>, values: Values) -> Option<()> {
    for &value in values[usize::from(thread.node_id().0)] {
        // A record that is late is appended by a later call, or when its reader leads.
        append::<N>(log, thread, value)?;
    }
    read_all::<N>(log, thread, values)
}

/// Reads all there are of `values`, until the node is lost.
fn read_all<const N: usize>(log: &Log<Fabric>, thread: &Thread<Fabric>, values: Values) -> Option<()> {
    let mut seen = Vec::new();
    let mut late = 0;
    // Of three nodes, one that has everything waits for more all the same: it may have to lead, so that another has it, too.
    let stays = values.len() > 2;
    while stays || !has_all(thread, values, &seen) {
        match read::<N>(log, thread)? {
            Some(value) => {
                seen.push(value);
                late = 0;
            }
            None if has_all(thread, values, &seen) => break,
            None => {
                late += 1;
                assert!(
                    late <= timeouts_max(),
                    "what is missing never comes: {seen:?} of {values:?}"
                );
            }
        }
    }
    Some(())
}

/// Makes a world in which every node appends its values and reads all there are. Waits may be late, and nodes may be lost.
fn all_take_part<const N: usize>(config: LogConfig, values: Values) -> impl Fn(&mut World) {
    const NODES: &[u16] = &[0, 1, 2];
    move |world| {
        let nodes = &NODES[..values.len()];
        let mut stage = Stage::new(world, nodes.len() as u16, 1, make(nodes, config.clone()));
        stage.each("node", nodes.iter().copied(), move |objects, thread, _| {
            take_part::<N>(objects.log(), thread, values)
        });
        stage.promise(|calls| spec::log(&known(calls)));
    }
}

/// Makes a world in which every node appends its values to a log for which all nodes must live. After a loss nothing is committed.
fn all_must_live(values: Values) -> impl Fn(&mut World) {
    const NODES: &[u16] = &[0, 1];
    move |world| {
        let config = config(2, 1).members_min(values.len());
        let mut stage = Stage::new(world, 2, 1, make(NODES, config));
        stage.each("node", NODES.iter().copied(), move |objects, thread, me| {
            let log = objects.log();
            for &value in values[usize::from(me)] {
                let bereft = thread.fabric().control().departures() > 0;
                let appended = append::<1>(log, thread, value)?;
                assert!(
                    !(bereft && appended),
                    "one node commits {value}, and two must live"
                );
            }
            read_all::<1>(log, thread, values)
        });
        stage.promise(|calls| spec::log(&known(calls)));
    }
}

/// Makes a world in which two threads of node 0 append and read in turn, and one of node 1 reads. A pass of the leader that is late
/// is taken up by the other thread.
fn late_in_turn(count: u64) -> impl Fn(&mut World) {
    const NODES: &[u16] = &[0, 1];
    move |world| {
        let mut stage = Stage::new(world, 2, 2, make(NODES, config(1, 1)));
        stage.in_turn(
            0,
            0..2,
            "node 0",
            |objects| &objects.baton,
            2 * count,
            |objects, thread, number| match number % 2 {
                1 => {
                    let _ = append::<1>(objects.log(), thread, number);
                }
                _ => while let Some(None) = read::<1>(objects.log(), thread) {},
            },
        );
        stage.run(1, 0, "reads", move |objects, thread| {
            for _ in 0..count {
                while read::<1>(objects.log(), thread)?.is_none() {}
            }
            Some(())
        });
        stage.promise(|calls| spec::log(&known(calls)));
    }
}

/// Makes a world of three nodes in which threads take their steps once. A thread ends when a step is late or a node is lost on which
/// it depends. Small enough that two crashes can be explored.
fn once<const N: usize>(config: LogConfig, steps: Steps) -> impl Fn(&mut World) {
    const NODES: &[u16] = &[0, 1, 2];
    move |world| {
        let mut stage = Stage::new(world, 3, 1, make(NODES, config.clone()));
        for &(node, steps) in steps {
            stage.run(node, 0, &format!("node {node}"), move |objects, thread| {
                for &step in steps {
                    let (log, thread) = (objects.log(), thread);
                    let done = match step {
                        Step::Append(value) => append::<N>(log, thread, value)?,
                        Step::Read(count) => (0..count)
                            .map(|_| read::<N>(log, thread))
                            .all(|read| matches!(read, Some(Some(_)))),
                    };
                    done.then_some(())?;
                }
                Some(())
            });
        }
        stage.promise(|calls| spec::log(&known(calls)));
    }
}

/// Builds a world in which node 0 commits a record and may stop before all have heard of that. Node 2 waits for the record once node 1 has
/// read it. Node 1 leads when node 0 is lost, and appends nothing.
fn told_half(world: &mut World) {
    const NODES: &[u16] = &[0, 1, 2];
    let mut stage = Stage::new(world, 3, 1, make(NODES, config(1, 1)));
    stage.run(0, 0, "appends", |objects, thread| {
        append::<1>(objects.log(), thread, 1)
    });
    stage.run(1, 0, "tells", |objects, thread| {
        let log = objects.log();
        // There is none if node 0 was lost too early.
        if read::<1>(log, thread)?.is_some() {
            objects.baton.write(1);
            unless_lost(objects.baton.broadcast(thread))?.forget();
            assert_eq!(read::<1>(log, thread)?, None, "there is one record");
        }
        Some(())
    });
    stage.run(2, 0, "is told", |objects, thread| {
        let read_by_another = || (objects.baton.read() == 1).then_some(());
        let told = || thread.wait_until("node 1", Peers::These(&[NodeId(1)]), read_by_another);
        // Never, if node 0 was lost too early.
        if told().is_ok() {
            let mut late = 0;
            while read::<1>(objects.log(), thread)?.is_none() {
                late += 1;
                assert!(late <= timeouts_max(), "another node has read it");
            }
        }
        Some(())
    });
    stage.promise(|calls| spec::log(&known(calls)));
}

/// Returns the worlds with late waits and losses.
pub(super) fn worlds() -> Vec<NamedWorld> {
    const ONE: Values = &[&[1], &[]];
    const TWO: Values = &[&[1, 2], &[]];
    const BOTH: Values = &[&[1], &[2]];
    const OTHER: Values = &[&[], &[1, 2]];
    const AFTER: Values = &[&[1, 2], &[3]];
    const LAST_OF_THREE: Values = &[&[], &[], &[1]];
    const ENDS_OF_THREE: Values = &[&[1], &[], &[2]];
    // The last node must have what the first has acknowledged, also when the second is lost with it.
    const ACKNOWLEDGED: Steps = &[(0, &[Step::Append(1)]), (2, &[Step::Append(2)])];
    // The second leader must not write over what the first has left at the third.
    const INHERITED: Steps = &[
        (0, &[Step::Read(1)]),
        (1, &[Step::Append(1)]),
        (2, &[Step::Append(2), Step::Read(2)]),
    ];
    vec![
        NamedWorld::new("crash-one", all_take_part::<1>(config(1, 1), ONE))
            .crash()
            .small(),
        NamedWorld::new("crash", all_take_part::<1>(config(1, 1), BOTH))
            .crash()
            .small(),
        NamedWorld::new("crashes-acknowledged", once::<1>(config(2, 1), ACKNOWLEDGED))
            .crashes(2)
            .small(),
        NamedWorld::new("crash-told-half", told_half).crash().small(),
        NamedWorld::new("crash-two", all_take_part::<1>(config(1, 1), TWO)).crash(),
        NamedWorld::new("crash-other", all_take_part::<1>(config(2, 1), OTHER)).crash(),
        NamedWorld::new("crash-after", all_take_part::<1>(config(4, 1), AFTER)).crash(),
        NamedWorld::new("crash-memory", all_take_part::<9>(config(1, 9), ONE)).crash(),
        NamedWorld::new("crash-members", all_must_live(BOTH)).crash(),
        NamedWorld::new("suspicion", all_take_part::<1>(config(2, 1), BOTH)).suspicion(),
        NamedWorld::new("expiry", all_take_part::<1>(config(2, 1), BOTH))
            .expiries(1)
            .idle(),
        NamedWorld::new("link-cut", all_take_part::<1>(config(1, 1), ONE))
            .link_cut(1)
            .idle(),
        NamedWorld::new("expiry-other", all_take_part::<1>(config(2, 1), OTHER))
            .expiries(1)
            .idle(),
        NamedWorld::new("expiry-in-turn", late_in_turn(2))
            .expiries(1)
            .idle(),
        NamedWorld::new(
            "crash-of-three-other",
            all_take_part::<1>(config(1, 1), LAST_OF_THREE),
        )
        .crash(),
        NamedWorld::new(
            "crash-of-three-both",
            all_take_part::<1>(config(2, 1), ENDS_OF_THREE),
        )
        .crash(),
        NamedWorld::new(
            "suspicion-of-three",
            all_take_part::<1>(config(2, 1), ENDS_OF_THREE),
        )
        .suspicion(),
        NamedWorld::new(
            "crashes-of-three",
            all_take_part::<1>(config(2, 1), ENDS_OF_THREE),
        )
        .crashes(2),
        NamedWorld::new("crashes-inherited", once::<1>(config(2, 1), INHERITED)).crashes(2),
    ]
}
