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

use crate::rung::Rung;
use crate::stage::Fabric;

use faulty::{
    Patience, combined_late, late, late_alone, late_keeper, lost, lost_after_try, lost_alone, lost_before,
    lost_while_held,
};
use holders::{Ask, PLAIN, Shape, combined, holders, tries, tries_again};
use lock::Lock;

const TWICE: Shape = Shape {
    acquisitions: 2,
    ..PLAIN
};
const THREE: Shape = Shape { nodes: 3, ..PLAIN };
const TWO_THREADS: Shape = Shape { threads: 2, ..PLAIN };

fn rungs<L: Lock>() -> Vec<Rung> {
    use OnLoss::{Poison, Recover};
    use Patience::{GivesUp, Patient};
    vec![
        Rung::new("two-nodes", holders::<L>(PLAIN)),
        Rung::new("two-nodes-glob", holders::<L>(PLAIN)).glob(),
        Rung::new(
            "pair",
            holders::<L>(Shape {
                scope: Scope::Pair,
                data: 1,
                ..PLAIN
            }),
        ),
        Rung::new(
            "node-scope",
            holders::<L>(Shape {
                scope: |_| Scope::AllThreads,
                data: 1,
                ..PLAIN
            }),
        ),
        Rung::new(
            "memory",
            holders::<L>(Shape {
                data: 1,
                from_memory: true,
                ..PLAIN
            }),
        ),
        Rung::new(
            "dropped",
            holders::<L>(Shape {
                ask: Ask::Drop,
                data: 1,
                ..PLAIN
            }),
        ),
        Rung::new(
            "until",
            holders::<L>(Shape {
                ask: Ask::Until,
                home: 1,
                ..PLAIN
            }),
        ),
        Rung::new(
            "tries",
            holders::<L>(Shape {
                ask: Ask::Try,
                acquisitions: 2,
                ..PLAIN
            }),
        ),
        Rung::new("try-again", tries_again::<L>).small(),
        Rung::new("try-when-free", tries::<L>),
        Rung::new(
            "twice",
            holders::<L>(Shape {
                acquisitions: 2,
                ..PLAIN
            }),
        ),
        Rung::new("expiry", late::<L>(TWICE, Patient)).expiries(1),
        Rung::new("give-up", late::<L>(PLAIN, GivesUp)).expiries(1),
        Rung::new(
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
        Rung::new("alone-expiry", late_alone::<L>).expiries(1),
        Rung::new("alone-suspicion", lost_alone::<L>).suspicion(),
        Rung::new("crash", lost::<L>(PLAIN, Recover)).crash(),
        Rung::new("crash-while-held", lost_while_held::<L>(THREE, NodeId(2))).crash(),
        Rung::new(
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
        Rung::new("crash-poison", lost::<L>(PLAIN, Poison)).crash(),
        Rung::new("crash-of-three", lost::<L>(THREE, Recover)).crash(),
        Rung::new("crash-of-three-poison", lost::<L>(THREE, Poison)).crash(),
        Rung::new("suspicion", lost::<L>(PLAIN, Recover)).suspicion(),
        Rung::new("suspicion-of-three", lost::<L>(THREE, Recover)).suspicion(),
        Rung::new("two-threads-suspicion", lost::<L>(TWO_THREADS, Recover)).suspicion(),
        Rung::new("two-threads-give-up", late::<L>(TWO_THREADS, GivesUp)).expiries(1),
        Rung::new(
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
        Rung::new("two-threads-impatient", late::<L>(TWO_THREADS, Patience::None)).expiries(1),
        Rung::new("crash-twice", lost::<L>(TWICE, Recover)).crash(),
        Rung::new("two-threads-crash", lost::<L>(TWO_THREADS, Recover)).crash(),
        Rung::new("crash-after-try", lost_after_try::<L>).crash(),
        Rung::new("two-threads", holders::<L>(Shape { threads: 2, ..PLAIN })),
        Rung::new("two-threads-glob", holders::<L>(Shape { threads: 2, ..PLAIN })).glob(),
        Rung::new(
            "two-threads-no-hand-over",
            holders::<L>(Shape {
                threads: 2,
                hand_overs: 0,
                data: 1,
                ..PLAIN
            }),
        ),
        Rung::new(
            "two-threads-one-hand-over",
            holders::<L>(Shape {
                threads: 2,
                hand_overs: 1,
                home: 1,
                ..PLAIN
            }),
        ),
        Rung::new(
            "three-nodes",
            holders::<L>(Shape {
                nodes: 3,
                data: 2,
                ..PLAIN
            }),
        ),
        Rung::new(
            "three-nodes-data-apart",
            holders::<L>(Shape {
                nodes: 3,
                data: 1,
                home: 2,
                ..PLAIN
            }),
        ),
        Rung::new(
            "two-threads-twice",
            holders::<L>(Shape {
                threads: 2,
                acquisitions: 2,
                hand_overs: 1,
                ..PLAIN
            }),
        ),
        Rung::new(
            "two-threads-tries",
            holders::<L>(Shape {
                threads: 2,
                ask: Ask::Try,
                ..PLAIN
            }),
        ),
    ]
}

/// Returns the rungs of the ticket lock.
pub(crate) fn ticket_rungs() -> Vec<Rung> {
    let mut all = rungs::<TicketLock<Fabric>>();
    let keeper = |name, threads, tries| {
        let world = late_keeper::<TicketLock<Fabric>>(threads, tries);
        Rung::new(name, world).idle().small()
    };
    let before = |name, tries| Rung::new(name, lost_before::<TicketLock<Fabric>>(tries)).crash();
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
    all
}

/// Returns the rungs of the test-and-set lock.
pub(crate) fn tas_rungs() -> Vec<Rung> {
    let mut all = rungs::<TasLock<Fabric>>();
    all.push(super::last_nodes::tas_lock());
    all.push(Rung::new("combine", combined(1)));
    all.push(Rung::new("combine-two-threads", combined(2)));
    all.push(Rung::new("combine-expiry", combined_late).expiries(1));
    all
}
