//! The list of the store's worlds, with the calls that their threads make.

use super::{
    Call, Script, There, batches, calls, calls_with, copies, cuts, deleted_late, faulty, faulty_of, freed,
    lengths, moves, reports, snapshots, started, taken_over, unhurried,
};
use crate::named_world::NamedWorld;

/// Returns the worlds of the store.
pub(crate) fn worlds() -> Vec<NamedWorld> {
    use Call::{
        Delete, Get, GetInto, GetLastOfWindow, GetMany, GetStart, GetWindow, Insert, InsertBatch, InsertMany,
        Update, UpdateBatch, UpdateDropped, UpdateDroppedLater, UpdateMany, UpdateThree, UpdatesStarted,
    };
    use copies::Step::{self, AwaitLoss, AwaitWhole, Make};
    const INSERT: Script<Call, 2> = [(0, &[Insert(1, 10)]), (1, &[Get(1), Get(1)])];
    const UPDATE: Script<Call, 2> = [(0, &[Insert(1, 10), Update(1, 11)]), (1, &[Get(1)])];
    const DELETE: Script<Call, 2> = [(0, &[Insert(1, 10), Delete(1)]), (1, &[Get(1), Get(1)])];
    const REUSE: Script<Call, 2> = [(0, &[Insert(1, 10), Delete(1), Insert(2, 20)]), (1, &[Get(1)])];
    const AGAIN: Script<Call, 2> = [
        (0, &[Insert(1, 10), Delete(1), Insert(1, 12)]),
        (1, &[Get(1), Get(1)]),
    ];
    const WRITERS: Script<Call, 2> = [(0, &[Insert(1, 10)]), (1, &[Insert(1, 20)])];
    const REMOTE: Script<Call, 2> = [(0, &[Insert(1, 10), Get(1)]), (1, &[Update(1, 20), Delete(1)])];
    const READS: Script<Call, 2> = [
        (0, &[Insert(1, 10)]),
        (1, &[GetStart(1), GetInto(1), GetMany(1, 2)]),
    ];
    const KEYS: Script<Call, 2> = [(0, &[Insert(1, 10), Get(2)]), (1, &[Insert(2, 20), Get(1)])];
    const FULL: Script<Call, 2> = [(0, &[Insert(1, 10), Insert(2, 20)]), (1, &[Get(1), Get(2)])];
    const LIFE: Script<Call, 2> = [
        (0, &[Insert(1, 10), Update(1, 11), Delete(1)]),
        (1, &[Get(1), Get(1)]),
    ];
    const THREADS: Script<Call, 3> = [(0, &[Insert(1, 10)]), (0, &[Insert(1, 11)]), (1, &[Get(1)])];
    const THIRD: Script<Call, 3> = [(0, &[Insert(1, 10)]), (1, &[Get(1)]), (2, &[Get(1)])];
    const ONE: &[There] = &[(0, 1, 10)];
    const OTHERS: &[There] = &[(1, 1, 10)];
    const CHANGED: Script<Call, 2> = [(0, &[Get(1), Get(1)]), (1, &[Update(1, 20)])];
    // The lock is on node 0, so its release does not wait for puts to node 1.
    const CHANGED_THERE: Script<Call, 2> = [(1, &[Get(1), Get(1)]), (0, &[Update(1, 20)])];
    const CHANGERS: Script<Call, 3> = [
        (0, &[Update(1, 30)]),
        (1, &[Update(1, 20), Get(1)]),
        (0, &[Get(1)]),
    ];
    const DELETED: Script<Call, 3> = [(0, &[Get(1)]), (1, &[Delete(1)]), (1, &[Get(1), Get(1)])];
    const THIRDS: Script<Call, 3> = [(0, &[Delete(1)]), (1, &[Get(1)]), (2, &[Get(1)])];
    const STARTED: Script<Call, 2> = [
        (0, &[Update(1, 20)]),
        (1, &[GetStart(1), GetInto(1), GetMany(1, 2)]),
    ];
    const WINDOW: Script<Call, 2> = [(0, &[Update(1, 20)]), (1, &[GetWindow(1), GetWindow(1)])];
    const WINDOW_LAST: Script<Call, 2> = [(0, &[Update(1, 20)]), (1, &[GetLastOfWindow(1)])];
    // A node that is out is told, and does not say that the key is not there.
    const MISSED: Script<Call, 2> = [(0, &[Insert(1, 10)]), (1, &[Get(1), GetWindow(1)])];
    const MISSED_UPDATE: Script<Call, 2> =
        [(0, &[InsertMany(1, 2, 10)]), (1, &[UpdateMany(1, 2, 20), Get(1)])];
    const SWAPPED: Script<Call, 2> = [
        (0, &[Delete(1), Insert(2, 20)]),
        (1, &[Get(1), Delete(1), Get(2)]),
    ];
    const MENDED: Script<Call, 2> = [(0, &[Get(1), Update(1, 30), Get(1)]), (1, &[Update(1, 20)])];
    // Node 2 finds the value of node 0 torn when node 1 is lost.
    const TORN_ONCE: Script<Call, 2> = [(1, &[Update(1, 20)]), (2, &[Get(1)])];
    const TORN: Script<Call, 2> = [(1, &[Update(1, 20)]), (2, &[Get(1), Get(1)])];
    const OWNED: Script<Call, 2> = [(0, &[Get(1), Get(1)]), (1, &[Update(1, 20)])];
    const AFTER: Script<Call, 2> = [(0, &[Insert(1, 10)]), (1, &[Update(1, 20), Get(1)])];
    const ANEW: Script<Call, 2> = [(0, &[Insert(1, 10), Insert(1, 11)]), (1, &[Get(1)])];
    // A change that was left half done is in doubt for the next holder of the lock and for each later one, on this node and on others.
    const DOUBT: Script<Call, 2> = [
        (0, &[Update(1, 30), Update(1, 40), Get(1)]),
        (1, &[Insert(1, 10)]),
    ];
    const OWN_DOUBT: Script<Call, 2> = [
        (0, &[Insert(1, 10), Update(1, 20)]),
        (1, &[Update(1, 30), Get(1)]),
    ];
    const DOUBT_OF_MANY: Script<Call, 2> = [
        (0, &[UpdateMany(1, 2, 30), UpdateMany(1, 2, 40), Get(1)]),
        (1, &[InsertMany(1, 2, 10)]),
    ];
    // The doubt about key 1 outlives another change under the lock, which is done.
    const DOUBT_AND_CHANGE: Script<Call, 2> = [
        (0, &[Insert(2, 20), Update(1, 30), Get(1)]),
        (1, &[Insert(1, 10)]),
    ];
    const DOUBT_OF_THREADS: Script<Call, 3> =
        [(0, &[Insert(1, 10)]), (0, &[Update(1, 20), Get(1)]), (1, &[])];
    const ALONE: Script<Call, 2> = [
        (0, &[Update(1, 30), Get(1)]),
        (1, &[Delete(1), Insert(1, 20), Get(1)]),
    ];
    const MOVED: Script<Call, 2> = [(0, &[Get(1), Get(1)]), (1, &[Delete(1), Insert(1, 20)])];
    // Node 0's delete clears the valid bit of a slot on node 1, which may still be under way when the slot is used again.
    const MARKED: Script<Call, 2> = [(0, &[Delete(1)]), (1, &[Delete(1), Insert(2, 20), Get(2)])];
    // The slot of key 1 is key 2's when node 1, which has not heard of that, deletes key 1. The keys have locks of their own.
    const REUSED: Script<Call, 2> = [(0, &[Delete(1), Insert(2, 20), Get(2)]), (1, &[Delete(1)])];
    // The other node acknowledges both keys one after the other.
    const BATCH_ALONE: Script<Call, 1> = [(0, &[InsertMany(1, 2, 10)])];
    const MANY: Script<Call, 2> = [(0, &[InsertMany(1, 2, 10)]), (1, &[UpdateMany(1, 2, 20), Get(3)])];
    // A batch that is fenced towards its last key only would leave the first behind.
    const APART: &[There] = &[(1, 1, 10), (2, 2, 20)];
    const BATCH_THERE: Script<Call, 3> = [(1, &[Get(1), Get(1)]), (0, &[UpdateBatch(1, 2, 30)]), (2, &[])];
    const BATCH_WRITERS: Script<Call, 2> = [(0, &[InsertBatch(1, 10)]), (1, &[Insert(1, 20)])];
    // The second thread of node 0 waits in the line of the first, whose lock and keys it needs.
    const BATCH_THREADS: Script<Call, 3> = [
        (0, &[InsertBatch(1, 10), Get(1)]),
        (0, &[InsertBatch(2, 20), Get(2)]),
        (1, &[]),
    ];
    // Whoever takes the locks of several keys takes them in one order. Each key is inserted once.
    const CROSSED: Script<Call, 2> = [(0, &[InsertMany(1, 2, 10)]), (1, &[InsertMany(2, 1, 20)])];
    // Each node writes a key of its own and one of the other.
    const EACH: &[There] = &[(0, 1, 10), (1, 2, 20)];
    const UPDATES_CROSSED: Script<Call, 2> = [
        (0, &[UpdateMany(1, 2, 30), Get(2)]),
        (1, &[UpdateMany(2, 1, 40), Get(1)]),
    ];
    const UPDATE_THREADS: Script<Call, 3> = [
        (0, &[UpdateMany(1, 2, 30)]),
        (0, &[UpdateMany(2, 1, 40)]),
        (1, &[UpdateMany(2, 1, 50)]),
    ];
    const FROM_AFAR: Script<Call, 2> = [
        (0, &[Delete(2), Get(2), Get(1)]),
        (1, &[Delete(1), Get(1), Get(2)]),
    ];
    const BATCH_DELETES: Script<Call, 2> = [
        (0, &[UpdateMany(1, 2, 30)]),
        (1, &[Delete(1), Insert(1, 40), Get(2)]),
    ];
    // Both keys are on the node that reads them, and have locks of their own: the lock of one is with the writer, so that its release
    // places nothing there.
    const BOTH_THERE: &[There] = &[(1, 1, 10), (1, 2, 20)];
    const UPDATES_THERE: Script<Call, 2> = [(0, &[UpdateMany(1, 2, 30)]), (1, &[Get(1), Get(2)])];
    const UPDATES_APART: Script<Call, 3> = [(0, &[UpdateMany(1, 2, 30)]), (1, &[Get(1)]), (2, &[Get(2)])];
    // Both locks are with the writer and the values elsewhere, so that no release places them.
    const LOCKS_HERE: &[There] = &[(1, 1, 10), (1, 4, 20)];
    const UPDATES_LOCKS_HERE: Script<Call, 2> = [(0, &[UpdateMany(1, 4, 30)]), (1, &[Get(1), Get(4)])];
    const UPDATE_LOCKS_HERE: Script<Call, 2> = [(0, &[UpdateMany(1, 4, 30)]), (1, &[Update(1, 40), Get(1)])];
    const LOCKS_HERE_OF_THREE: &[There] = &[(1, 4, 10), (2, 6, 20)];
    const UPDATES_LOCKS_HERE_OF_THREE: Script<Call, 3> =
        [(0, &[UpdateMany(4, 6, 30)]), (1, &[Get(4)]), (2, &[Get(6)])];
    // Both locks and both values are where the other writer is.
    const LOCKS_THERE: &[There] = &[(1, 2, 10), (1, 3, 20)];
    // Keys 2 and 3 have one lock, which is where key 2 is. Key 3 is elsewhere, and key 1 has another lock.
    const GROUP: &[There] = &[(1, 2, 10), (2, 3, 20), (1, 1, 30)];
    const UPDATES_OF_A_GROUP: Script<Call, 2> = [(0, &[UpdateThree([2, 3, 1], 40)]), (2, &[Get(3)])];
    const UPDATES_LOCKS_THERE: Script<Call, 2> =
        [(0, &[UpdateMany(2, 3, 30)]), (1, &[Update(2, 40), Get(2)])];
    const LATE_UPDATES: Script<Call, 2> =
        [(0, &[UpdateMany(2, 3, 30), Update(2, 40)]), (1, &[Update(2, 50)])];
    const LOST_LOCKS: Script<Call, 2> = [(0, &[UpdateMany(2, 3, 30)]), (1, &[Update(2, 40)])];
    // Node 1 must not take the tickets of node 0 for those of node 2, which is lost. The locks and values are on node 1.
    const LOCKS_AT_ONE: &[There] = &[(1, 2, 10), (1, 14, 20)];
    const THIRD_LOST: Script<Call, 3> = [(0, &[UpdateMany(2, 14, 30)]), (1, &[Update(2, 40)]), (2, &[])];
    const THIRD_LOST_AGAIN: Script<Call, 3> = [
        (0, &[UpdateMany(2, 14, 30), Update(2, 50)]),
        (1, &[Update(2, 40)]),
        (2, &[]),
    ];
    const UPDATES_AND_DELETE: Script<Call, 2> = [
        (0, &[UpdateMany(1, 2, 30)]),
        (1, &[Delete(1), Insert(1, 40), Get(1)]),
    ];
    // Each thread has two updates under way, which need two locks, in opposite orders, or one.
    const WINDOWS: Script<Call, 2> = [
        (0, &[UpdatesStarted(1, 2, 30)]),
        (1, &[UpdatesStarted(2, 1, 40), Get(1)]),
    ];
    const WINDOWS_OF_THREADS: Script<Call, 3> = [
        (0, &[UpdatesStarted(1, 2, 30)]),
        (0, &[UpdatesStarted(2, 1, 40)]),
        (1, &[]),
    ];
    // Each node is served a ticket by the other while it gives up.
    const LATE_WINDOWS: Script<Call, 2> =
        [(0, &[UpdatesStarted(1, 2, 30)]), (1, &[UpdatesStarted(2, 1, 40)])];
    // Either may be lost, or node 2, which waits for nothing and is waited for.
    const WINDOWS_OF_SURVIVORS: Script<Call, 3> = [
        (0, &[UpdatesStarted(1, 2, 30)]),
        (1, &[UpdatesStarted(2, 1, 40)]),
        (2, &[]),
    ];
    const DROPPED: Script<Call, 2> = [(0, &[Update(1, 30), Get(1)]), (1, &[UpdateDropped(1, 20)])];
    const DROPPED_LATER: Script<Call, 2> = [(0, &[Update(1, 30), Get(1)]), (1, &[UpdateDroppedLater(1, 20)])];
    const LOST_BATCH: Script<Call, 2> = [(0, &[InsertMany(1, 2, 10), Get(1)]), (1, &[Get(2), Get(1)])];
    const LOST_UPDATES: Script<Call, 2> = [(0, &[UpdateMany(1, 2, 30), Get(2)]), (1, &[Get(1), Get(1)])];
    const LOST_OF_THREE: Script<Call, 3> = [
        (0, &[Insert(1, 10), Get(2)]),
        (1, &[Insert(2, 20)]),
        (2, &[Get(1)]),
    ];
    const COPY_ALONE: Script<Call, 1> = [(0, &[Get(1), Update(1, 20), Get(1)])];
    // Node 0 has the first copy, and node 1 the other one.
    const COPY_OWNED: Script<Call, 2> = [(1, &[Get(1), Get(1)]), (0, &[Update(1, 20)])];
    const COPY_INSERT: Script<Call, 2> = [(0, &[Insert(1, 10)]), (1, &[GetStart(1), Insert(1, 20), Get(1)])];
    const COPY_DELETE: Script<Call, 2> = [(0, &[GetWindow(1), Update(1, 20), Get(1)]), (1, &[Delete(1)])];
    // The first copy is on node 2, the other on node 0.
    const AT_THIRD: &[There] = &[(2, 1, 10)];
    const COPY_READER: Script<Call, 3> = [(0, &[Update(1, 20)]), (1, &[Get(1), Get(1)]), (2, &[])];
    // Of three copies node 2 has the last, and may be lost between the marks of a delete. Node 0 may be lost later.
    const COPY_HALF_DELETED: Script<Call, 3> = [(2, &[Delete(1)]), (0, &[Update(1, 20)]), (1, &[Get(1)])];
    // The lock and the first copy are on node 0, which does nothing.
    const COPY_LOCK: Script<Call, 2> = [(1, &[Update(1, 20)]), (2, &[Update(1, 30), Get(1)])];
    // Node 0 has the first copy, node 1 the other one, and node 2 room for another.
    const AGAIN_READ: Script<Step, 1> = [(2, &[AwaitLoss, AwaitWhole, Make(Get(1))])];
    const AGAIN_WRITE: Script<Step, 1> = [(2, &[AwaitLoss, Make(Update(1, 20)), AwaitWhole, Make(Get(1))])];
    const AGAIN_LATE: Script<Step, 1> = [(2, &[AwaitLoss, Make(Update(1, 20)), Make(Get(1)), Make(Get(1))])];
    const AGAIN_DELETE: Script<Step, 1> = [(
        2,
        &[
            AwaitLoss,
            Make(Delete(1)),
            Make(Insert(1, 30)),
            AwaitWhole,
            Make(Get(1)),
        ],
    )];
    vec![
        NamedWorld::new("batch-alone", calls::<1, 1>((2, 1), BATCH_ALONE)).small(),
        NamedWorld::new("insert", calls::<1, 2>((1, 1), INSERT)),
        NamedWorld::new("update", calls::<1, 2>((1, 1), UPDATE)),
        NamedWorld::new("delete", calls::<1, 2>((1, 1), DELETE)),
        NamedWorld::new("reads", calls::<1, 2>((1, 1), READS)),
        NamedWorld::new("writers", calls::<1, 2>((1, 1), WRITERS)),
        NamedWorld::new("remote-writes", calls::<1, 2>((1, 1), REMOTE)),
        NamedWorld::new("reuse", calls::<1, 2>((1, 1), REUSE)),
        NamedWorld::new("again", calls::<1, 2>((1, 1), AGAIN)),
        NamedWorld::new("two-keys", calls::<1, 2>((1, 2), KEYS)),
        NamedWorld::new("full", calls::<1, 2>((1, 2), FULL)),
        NamedWorld::new("wide-insert", calls::<3, 2>((1, 1), INSERT)),
        NamedWorld::new("wide-update", calls::<3, 2>((1, 1), UPDATE)),
        NamedWorld::new("wide-reuse", calls::<3, 2>((1, 1), REUSE)),
        NamedWorld::new("changed", calls_with::<1, 2>((1, 1), ONE, CHANGED)),
        NamedWorld::new("changed-there", calls_with::<1, 2>((1, 1), OTHERS, CHANGED_THERE)),
        NamedWorld::new("changed-wide", calls_with::<3, 2>((1, 1), ONE, CHANGED)),
        NamedWorld::new("changed-from-memory", calls_with::<9, 2>((1, 1), ONE, CHANGED)),
        NamedWorld::new("changers", calls_with::<1, 3>((1, 1), ONE, CHANGERS)),
        NamedWorld::new("deleted", calls_with::<1, 3>((1, 1), ONE, DELETED)),
        NamedWorld::new("deleted-of-three", calls_with::<1, 3>((1, 1), ONE, THIRDS)),
        // Short enough to be inline on the weakest fabric, without the words before it.
        NamedWorld::new("changed-at-the-bound", calls_with::<8, 2>((1, 1), ONE, CHANGED)),
        NamedWorld::new("started-wide", calls_with::<3, 2>((1, 1), ONE, STARTED)),
        NamedWorld::new("window", calls_with::<1, 2>((1, 1), ONE, WINDOW)),
        NamedWorld::new("window-wide", calls_with::<3, 2>((1, 1), ONE, WINDOW)),
        NamedWorld::new("window-last", calls_with::<3, 2>((1, 1), ONE, WINDOW_LAST)),
        NamedWorld::new("swapped", calls_with::<1, 2>((1, 2), ONE, SWAPPED)),
        NamedWorld::new("batch-twice", batches::batch_twice),
        NamedWorld::new("batch-across", batches::batch_across),
        NamedWorld::new("update-twice", batches::update_twice),
        NamedWorld::new("batch-there", calls_with::<1, 3>((1, 1), APART, BATCH_THERE)),
        NamedWorld::new("batch-against-insert", calls::<1, 2>((1, 1), BATCH_WRITERS)),
        NamedWorld::new("insert-after-turns", batches::insert_after_turns).small(),
        NamedWorld::new("batches-of-threads", calls::<1, 3>((2, 1), BATCH_THREADS)).small(),
        NamedWorld::new("batches-crossed", calls::<1, 2>((2, 2), CROSSED)),
        NamedWorld::new(
            "updates-there",
            calls_with::<1, 2>((2, 2), BOTH_THERE, UPDATES_THERE),
        )
        .small(),
        NamedWorld::new(
            "updates-locks-here",
            calls_with::<1, 2>((2, 4), LOCKS_HERE, UPDATES_LOCKS_HERE),
        )
        .small(),
        NamedWorld::new(
            "updates-locks-here-of-three",
            calls_with::<1, 3>((1, 6), LOCKS_HERE_OF_THREE, UPDATES_LOCKS_HERE_OF_THREE),
        )
        .small(),
        NamedWorld::new(
            "updates-one-lock",
            calls_with::<1, 3>((1, 1), APART, UPDATES_APART),
        )
        .small(),
        NamedWorld::new(
            "updates-of-a-group",
            calls_with::<1, 2>((2, 2), GROUP, UPDATES_OF_A_GROUP),
        )
        .small(),
        NamedWorld::new(
            "update-locks-here",
            calls_with::<1, 2>((2, 4), LOCKS_HERE, UPDATE_LOCKS_HERE),
        )
        .small(),
        NamedWorld::new(
            "updates-locks-there",
            calls_with::<1, 2>((2, 4), LOCKS_THERE, UPDATES_LOCKS_THERE),
        )
        .small(),
        NamedWorld::new("updates-apart", calls_with::<1, 3>((1, 2), APART, UPDATES_APART)),
        NamedWorld::new(
            "updates-and-delete",
            calls_with::<1, 2>((2, 2), BOTH_THERE, UPDATES_AND_DELETE),
        )
        .small(),
        NamedWorld::new(
            "updates-crossed",
            calls_with::<1, 2>((1, 2), EACH, UPDATES_CROSSED),
        )
        .small(),
        NamedWorld::new(
            "updates-from-memory",
            calls_with::<9, 2>((1, 2), EACH, UPDATES_CROSSED),
        ),
        NamedWorld::new(
            "updates-of-threads",
            calls_with::<1, 3>((1, 2), EACH, UPDATE_THREADS),
        ),
        NamedWorld::new("windows", calls_with::<1, 2>((1, 2), EACH, WINDOWS)).small(),
        NamedWorld::new("windows-one-lock", calls_with::<1, 2>((1, 1), EACH, WINDOWS)).small(),
        NamedWorld::new(
            "windows-of-threads",
            calls_with::<1, 3>((1, 2), EACH, WINDOWS_OF_THREADS),
        ),
        NamedWorld::new("started-in-order", started::in_order).small(),
        NamedWorld::new("started-beside-calls", started::beside_calls).small(),
        NamedWorld::new("started-beside-inserts", started::beside_inserts).small(),
        NamedWorld::new("late-windows", started::late).small(),
        NamedWorld::new("started-in-two-stores", started::in_two_stores).small(),
        NamedWorld::new("started-dropped", calls_with::<1, 2>((1, 1), ONE, DROPPED)).small(),
        NamedWorld::new(
            "started-dropped-later",
            calls_with::<1, 2>((1, 1), ONE, DROPPED_LATER),
        )
        .small(),
        NamedWorld::new("crash-windows", faulty_of::<1, 2>((1, 2), EACH, WINDOWS)).crash(),
        NamedWorld::new("expiry-windows", faulty_of::<1, 2>((1, 2), EACH, WINDOWS)).expiries(1),
        NamedWorld::new("expiries-windows", faulty_of::<1, 2>((1, 2), EACH, LATE_WINDOWS))
            .expiries(2)
            .small(),
        NamedWorld::new(
            "crash-of-three-windows",
            unhurried::<1, 3>((1, 2), EACH, WINDOWS_OF_SURVIVORS),
        )
        .crash()
        .small(),
        NamedWorld::new("suspicion-windows", faulty_of::<1, 2>((1, 1), EACH, WINDOWS)).suspicion(),
        NamedWorld::new("deleted-from-afar", calls_with::<1, 2>((1, 2), EACH, FROM_AFAR)),
        NamedWorld::new(
            "batch-and-delete",
            calls_with::<1, 2>((1, 2), EACH, BATCH_DELETES),
        ),
        super::super::last_nodes::kv(),
        NamedWorld::new("window-of-two", reports::windows).small(),
        NamedWorld::new("updates-one-lock-two-nodes", reports::two_nodes_under_a_lock).small(),
        NamedWorld::new("expiry-beside-a-report", reports::beside)
            .expiries(1)
            .small(),
        NamedWorld::new("late-updates-of-two-keys", reports::impatient)
            .idle()
            .small(),
        NamedWorld::new("crash-past-a-loss", reports::past_a_loss)
            .crash()
            .sampled(),
        NamedWorld::new("crash-torn-by-a-third", reports::torn_by_a_third)
            .crash()
            .small(),
        NamedWorld::new("copies-crash-second-lock", moves::second_lock)
            .crash()
            .small(),
        NamedWorld::new("copies-crash-last-copy", moves::last_copy)
            .crash()
            .small(),
        NamedWorld::new("copies-crash-first-copy", moves::first_copy)
            .crash()
            .small(),
        NamedWorld::new("copies-crash-moved-lock", moves::moved_lock)
            .crash()
            .small(),
        NamedWorld::new("copies-crash-overtaken", moves::overtaken)
            .crash()
            .small(),
        NamedWorld::new("copies-crash-made-again", moves::made_again)
            .crash()
            .small(),
        NamedWorld::new("copies", copies::calls::<1, 2>(OTHERS, CHANGED_THERE)),
        NamedWorld::new("copies-crash-alone", copies::calls::<1, 1>(OTHERS, COPY_ALONE)).crash(),
        NamedWorld::new("copies-crash-owner", copies::calls::<1, 2>(OTHERS, OWNED))
            .crash()
            .sampled(),
        NamedWorld::new("copies-crash-writer", copies::calls::<2, 2>(ONE, COPY_OWNED)).crash(),
        NamedWorld::new("copies-crash-holder", copies::calls::<2, 2>(ONE, CHANGED))
            .crash()
            .sampled(),
        NamedWorld::new("copies-crash-insert", copies::calls::<1, 2>(&[], COPY_INSERT)).crash(),
        NamedWorld::new("copies-crash-delete", copies::calls::<1, 2>(OTHERS, COPY_DELETE)).crash(),
        NamedWorld::new(
            "copies-crash-reader",
            copies::calls::<1, 3>(AT_THIRD, COPY_READER),
        )
        .crash()
        .sampled(),
        NamedWorld::new("copies-crash-lock", copies::calls::<1, 2>(ONE, COPY_LOCK))
            .crash()
            .sampled(),
        NamedWorld::new(
            "copies-crash-of-three",
            copies::calls_on::<1, 3>(3, ONE, COPY_HALF_DELETED),
        )
        .crashes(2),
        NamedWorld::new("copies-again-read", copies::again::<2, 1>(ONE, AGAIN_READ))
            .crashes(2)
            .sampled(),
        NamedWorld::new("copies-again-write", copies::again::<2, 1>(ONE, AGAIN_WRITE))
            .crashes(2)
            .sampled(),
        NamedWorld::new("copies-again-late", copies::again::<2, 1>(ONE, AGAIN_LATE))
            .crashes(2)
            .sampled(),
        NamedWorld::new("copies-again-delete", copies::again::<1, 1>(ONE, AGAIN_DELETE))
            .crashes(2)
            .sampled(),
        NamedWorld::new("copies-suspicion", copies::calls::<1, 3>(AT_THIRD, COPY_READER)).suspicion(),
        NamedWorld::new("crash", faulty::<1, 2>(&[], UPDATE)).crash(),
        NamedWorld::new("crash-batch", faulty_of::<1, 2>((2, 2), &[], LOST_BATCH)).crash(),
        NamedWorld::new("crash-updates", faulty_of::<1, 2>((1, 2), EACH, LOST_UPDATES)).crash(),
        NamedWorld::new(
            "crash-updates-crossed",
            faulty_of::<1, 2>((1, 2), EACH, UPDATES_CROSSED),
        )
        .crash(),
        NamedWorld::new(
            "crash-updates-locks",
            faulty_of::<1, 2>((2, 4), LOCKS_THERE, LOST_LOCKS),
        )
        .crash()
        .small(),
        NamedWorld::new(
            "crash-of-three-updates",
            faulty_of::<1, 3>((2, 6), LOCKS_AT_ONE, THIRD_LOST),
        )
        .crash()
        .small(),
        NamedWorld::new(
            "crash-of-three-updates-again",
            faulty_of::<1, 3>((2, 6), LOCKS_AT_ONE, THIRD_LOST_AGAIN),
        )
        .crash()
        .small(),
        NamedWorld::new(
            "expiry-updates-again",
            faulty_of::<1, 2>((2, 4), LOCKS_THERE, LATE_UPDATES),
        )
        .expiries(1)
        .small(),
        NamedWorld::new("expiry-updates", faulty_of::<1, 2>((1, 2), EACH, UPDATES_CROSSED)).expiries(1),
        NamedWorld::new("crash-of-three", faulty::<1, 3>(&[], LOST_OF_THREE)).crash(),
        NamedWorld::new("expiry-batch", faulty_of::<1, 2>((2, 2), &[], LOST_BATCH)).expiries(1),
        NamedWorld::new("crash-doubt", faulty::<1, 2>(&[], DOUBT)).crash(),
        NamedWorld::new(
            "crash-doubt-of-many",
            faulty_of::<1, 2>((2, 2), &[], DOUBT_OF_MANY),
        )
        .crash(),
        NamedWorld::new(
            "expiry-doubt-of-many",
            faulty_of::<1, 2>((2, 2), &[], DOUBT_OF_MANY),
        )
        .expiries(1)
        .small(),
        NamedWorld::new("expiry-doubt-and-change", faulty::<1, 2>(&[], DOUBT_AND_CHANGE))
            .expiries(1)
            .small(),
        NamedWorld::new("expiry-reused", faulty_of::<1, 2>((1, 2), ONE, REUSED))
            .expiries(1)
            .sampled()
            .small(),
        NamedWorld::new("crash-torn-once", faulty::<1, 2>(ONE, TORN_ONCE))
            .crash()
            .small(),
        NamedWorld::new("expiry-doubt", faulty::<1, 2>(&[], DOUBT)).expiries(1),
        NamedWorld::new("expiry-own-doubt", faulty::<1, 2>(&[], OWN_DOUBT)).expiries(1),
        NamedWorld::new("expiry-doubt-of-threads", faulty::<1, 3>(&[], DOUBT_OF_THREADS))
            .expiries(1)
            .sampled(),
        NamedWorld::new("crash-writers", faulty::<1, 2>(&[], WRITERS)).crash(),
        NamedWorld::new("crash-update", faulty::<3, 2>(ONE, MENDED)).crash(),
        NamedWorld::new("crash-torn", faulty::<3, 2>(ONE, TORN)).crash(),
        NamedWorld::new("crash-owner", faulty::<1, 2>(OTHERS, OWNED)).crash(),
        NamedWorld::new("crash-taken-over", taken_over).crash(),
        NamedWorld::new("crash-moved", faulty::<1, 2>(ONE, MOVED)).crash(),
        NamedWorld::new("expiry", faulty::<1, 2>(&[], DELETE)).expiries(1),
        NamedWorld::new("link-cut", faulty::<1, 2>(&[], UPDATE)).link_cut(1),
        NamedWorld::new("expiry-after", faulty::<1, 2>(&[], AFTER)).expiries(1),
        NamedWorld::new("expiry-anew", faulty::<1, 2>(&[], ANEW)).expiries(1),
        NamedWorld::new("suspicion", faulty::<1, 2>(&[], WRITERS)).suspicion(),
        NamedWorld::new("suspicion-missed", faulty::<1, 2>(&[], MISSED)).suspicion(),
        NamedWorld::new("suspicion-updates", faulty_of::<1, 2>((2, 1), &[], MISSED_UPDATE))
            .suspicion()
            .small(),
        NamedWorld::new("suspicion-moved", faulty::<1, 2>(ONE, MOVED)).suspicion(),
        NamedWorld::new("suspicion-alone", faulty::<1, 2>(ONE, ALONE))
            .suspicion()
            .glob(),
        NamedWorld::new("expiry-from-memory", faulty::<9, 2>(ONE, CHANGED)).expiries(1),
        NamedWorld::new("expiry-late-delete", deleted_late).expiries(1),
        NamedWorld::new("expiry-late-mark", faulty::<1, 2>(OTHERS, MARKED)).expiries(1),
        NamedWorld::new("freed", freed),
        NamedWorld::new("cut", cuts::in_order(1, 2)),
        NamedWorld::new("cut-back", cuts::in_order(2, 1)),
        NamedWorld::new("cut-twice", cuts::twice),
        NamedWorld::new("cut-gap", cuts::with_a_gap),
        NamedWorld::new("cut-batch", cuts::across_a_batch),
        NamedWorld::new("cut-changes", cuts::come_and_gone),
        NamedWorld::new("cut-crash", cuts::lost).crash(),
        NamedWorld::new("cut-late", cuts::left_behind).expiries(1),
        NamedWorld::new("snapshot", snapshots::in_order(1, 2)).small(),
        NamedWorld::new("snapshot-back", snapshots::in_order(2, 1)),
        NamedWorld::new("snapshot-batch", snapshots::across_a_batch).small(),
        NamedWorld::new("longer", lengths::longer),
        NamedWorld::new("more-than-a-window", lengths::many).long(),
        NamedWorld::new("batches", batches::batches),
        NamedWorld::new("batch-writers", calls::<1, 2>((2, 2), MANY)),
        NamedWorld::new("life", calls::<1, 2>((1, 1), LIFE)),
        NamedWorld::new("two-threads", calls::<1, 3>((2, 1), THREADS)),
        NamedWorld::new("three-nodes", calls::<1, 3>((1, 1), THIRD)),
        NamedWorld::new("reads-wide", calls::<3, 2>((1, 1), READS)),
        NamedWorld::new("insert-glob", calls::<1, 2>((1, 1), LIFE)).glob(),
    ]
}
