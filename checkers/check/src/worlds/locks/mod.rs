//! The locks (LOCO'25 5.4). One thread of all nodes holds a lock at a time. The next holder sees what the holder did
//! while it held the lock, to the memory of whichever node, as far as the scope of the release says. A try never
//! waits.
//!
//! The worlds keep a counter under the lock: each holder reads it, finds the number of acquisitions before its own, and
//! puts the number after. A lock that is held twice, or released before the put is placed, shows up as a number that two
//! holders found.

mod faulty;
mod holders;
mod lock;

use loco::fabric::NodeId;
use loco::fence::Scope;
use loco::{OnLoss, TasLock, TicketLock};

use crate::named_world::NamedWorld;
use crate::stage::Fabric;

use faulty::{
    Patience, combined_late, late, late_alone, late_keeper, late_keeper_beside, lost, lost_after_try,
    lost_alone, lost_before, lost_beside, lost_keeper, lost_while_held,
};
use holders::{
    Ask, PLAIN, Shape, after_turns, combined, handed_over, holders, reads_under_way, tries, tries_again,
};
use lock::Lock;

pub(super) use lock::distinct;

const TWICE: Shape = Shape {
    acquisitions: 2,
    ..PLAIN
};
const THREE: Shape = Shape { nodes: 3, ..PLAIN };
const TWO_THREADS: Shape = Shape { threads: 2, ..PLAIN };

fn worlds<L: Lock>() -> Vec<NamedWorld> {
    use OnLoss::{Poison, Recover};
    use Patience::{GivesUp, Patient};
    vec![
        NamedWorld::new("two-nodes", holders::<L>(PLAIN)),
        NamedWorld::new("two-nodes-glob", holders::<L>(PLAIN)).glob(),
        NamedWorld::new(
            "pair",
            holders::<L>(Shape {
                scope: Scope::Pair,
                data: 1,
                ..PLAIN
            }),
        ),
        NamedWorld::new(
            "node-scope",
            holders::<L>(Shape {
                scope: |_| Scope::AllThreads,
                data: 1,
                ..PLAIN
            }),
        ),
        NamedWorld::new(
            "memory",
            holders::<L>(Shape {
                data: 1,
                from_memory: true,
                ..PLAIN
            }),
        ),
        NamedWorld::new(
            "dropped",
            holders::<L>(Shape {
                ask: Ask::Drop,
                data: 1,
                ..PLAIN
            }),
        ),
        NamedWorld::new(
            "until",
            holders::<L>(Shape {
                ask: Ask::Until,
                home: 1,
                ..PLAIN
            }),
        ),
        NamedWorld::new(
            "tries",
            holders::<L>(Shape {
                ask: Ask::Try,
                acquisitions: 2,
                ..PLAIN
            }),
        ),
        NamedWorld::new("try-again", tries_again::<L>).small(),
        NamedWorld::new("handed-over", handed_over::<L>).small(),
        NamedWorld::new("reads-under-way", reads_under_way::<L>).small(),
        NamedWorld::new("crash-beside", lost_beside::<L>).crash().small(),
        NamedWorld::new("try-when-free", tries::<L>),
        NamedWorld::new(
            "twice",
            holders::<L>(Shape {
                acquisitions: 2,
                ..PLAIN
            }),
        ),
        NamedWorld::new("expiry", late::<L>(TWICE, Patient)).expiries(1),
        NamedWorld::new("link-cut", late::<L>(PLAIN, Patient)).link_cut(1),
        NamedWorld::new("give-up", late::<L>(PLAIN, GivesUp)).expiries(1),
        NamedWorld::new(
            "impatient",
            late::<L>(
                Shape {
                    acquisitions: 5,
                    ..PLAIN
                },
                Patience::None,
            ),
        )
        .expiries(1),
        NamedWorld::new("alone-expiry", late_alone::<L>).expiries(1),
        NamedWorld::new("alone-suspicion", lost_alone::<L>)
            .suspicion()
            .sampled(),
        NamedWorld::new("crash", lost::<L>(PLAIN, Recover)).crash(),
        NamedWorld::new("crash-while-held", lost_while_held::<L>(THREE, NodeId(2))).crash(),
        NamedWorld::new(
            "crash-after-giving-up",
            lost_while_held::<L>(
                Shape {
                    home: 1,
                    data: 1,
                    ..PLAIN
                },
                NodeId(0),
            ),
        )
        .crash()
        .expiries(1),
        NamedWorld::new("crash-poison", lost::<L>(PLAIN, Poison)).crash(),
        NamedWorld::new("crash-of-three", lost::<L>(THREE, Recover)).crash(),
        NamedWorld::new("crash-of-three-poison", lost::<L>(THREE, Poison)).crash(),
        NamedWorld::new("suspicion", lost::<L>(PLAIN, Recover)).suspicion(),
        NamedWorld::new("suspicion-of-three", lost::<L>(THREE, Recover)).suspicion(),
        NamedWorld::new("two-threads-suspicion", lost::<L>(TWO_THREADS, Recover)).suspicion(),
        NamedWorld::new("two-threads-give-up", late::<L>(TWO_THREADS, GivesUp)).expiries(1),
        NamedWorld::new(
            "impatient-of-three",
            late::<L>(
                Shape {
                    acquisitions: 2,
                    ..THREE
                },
                Patience::None,
            ),
        )
        .expiries(1),
        NamedWorld::new("two-threads-impatient", late::<L>(TWO_THREADS, Patience::None)).expiries(1),
        NamedWorld::new("crash-twice", lost::<L>(TWICE, Recover)).crash(),
        NamedWorld::new("two-threads-crash", lost::<L>(TWO_THREADS, Recover)).crash(),
        NamedWorld::new("crash-after-try", lost_after_try::<L>).crash(),
        NamedWorld::new("two-threads", holders::<L>(Shape { threads: 2, ..PLAIN })),
        NamedWorld::new("two-threads-glob", holders::<L>(Shape { threads: 2, ..PLAIN })).glob(),
        NamedWorld::new(
            "two-threads-no-hand-over",
            holders::<L>(Shape {
                threads: 2,
                hand_overs: 0,
                data: 1,
                ..PLAIN
            }),
        ),
        NamedWorld::new(
            "two-threads-one-hand-over",
            holders::<L>(Shape {
                threads: 2,
                hand_overs: 1,
                home: 1,
                ..PLAIN
            }),
        ),
        NamedWorld::new(
            "three-nodes",
            holders::<L>(Shape {
                nodes: 3,
                data: 2,
                ..PLAIN
            }),
        ),
        NamedWorld::new(
            "three-nodes-data-apart",
            holders::<L>(Shape {
                nodes: 3,
                data: 1,
                home: 2,
                ..PLAIN
            }),
        ),
        NamedWorld::new(
            "two-threads-twice",
            holders::<L>(Shape {
                threads: 2,
                acquisitions: 2,
                hand_overs: 1,
                ..PLAIN
            }),
        ),
        NamedWorld::new(
            "two-threads-tries",
            holders::<L>(Shape {
                threads: 2,
                ask: Ask::Try,
                ..PLAIN
            }),
        ),
    ]
}

/// Returns the worlds of the ticket lock.
pub(crate) fn ticket_worlds() -> Vec<NamedWorld> {
    let mut all = worlds::<TicketLock<Fabric>>();
    let keeper = |name, threads, tries| {
        let world = late_keeper::<TicketLock<Fabric>>(threads, tries);
        NamedWorld::new(name, world).idle().small()
    };
    let before = |name, tries| NamedWorld::new(name, lost_before::<TicketLock<Fabric>>(tries)).crash();
    all.splice(
        0..0,
        [
            keeper("late-keeper", 1, false),
            keeper("late-keeper-tries", 1, true),
            before("crash-before", false),
            before("crash-before-tries", true),
        ],
    );
    all.push(keeper("late-keepers", 2, false));
    let beside = |name, again| {
        let world = late_keeper_beside::<TicketLock<Fabric>>(again);
        NamedWorld::new(name, world).idle().small()
    };
    all.push(NamedWorld::new("after-turns", after_turns::<TicketLock<Fabric>>).small());
    all.push(
        NamedWorld::new("crash-of-keeper-expiry", lost_keeper::<TicketLock<Fabric>>)
            .crash()
            .expiries(1)
            .sampled(),
    );
    all.push(beside("late-keeper-beside", false));
    all.push(beside("late-keeper-beside-again", true));
    all
}

/// Returns the worlds of the test-and-set lock.
pub(crate) fn tas_worlds() -> Vec<NamedWorld> {
    let mut all = worlds::<TasLock<Fabric>>();
    all.push(super::last_nodes::tas_lock());
    all.push(NamedWorld::new("combine", combined(1)));
    all.push(NamedWorld::new("combine-two-threads", combined(2)));
    all.push(NamedWorld::new("combine-expiry", combined_late).expiries(1));
    all
}
