//! The shared state table (LOCO'25 5.1.2): one owned variable for each participant. Each row is a register of its
//! own. A pushed row is seen with the puts that the pushing thread posted before. Waiting for each row sees every
//! row.

use loco::fabric::NodeId;
use loco::{Manager, Result, SharedVar, Sst};
use loco_sim::spec::{Operation, Violation, single_writer};
use loco_sim::{World, call};

use crate::methods::did;
use crate::named_world::NamedWorld;
use crate::stage::{Fabric, Stage, must, on_part, unless_excused, unless_lost, until_in_time};

struct Objects {
    table: Sst<u64, Fabric>,
    data: Vec<SharedVar<u64, Fabric>>,
    baton: SharedVar<u64, Fabric>,
}

fn make(manager: &Manager<Fabric>) -> Result<Objects> {
    Ok(Objects {
        table: Sst::new(manager, "table")?,
        data: (0..manager.nodes().len())
            .map(|i| SharedVar::new(manager, &format!("data{i}")))
            .collect::<Result<_>>()?,
        baton: SharedVar::new(manager, "baton")?,
    })
}

/// Makes a world in which each node stores and pushes its row `rounds` times, by its threads in turn, and reads the
/// others' rows.
fn rows(count: u16, rounds: u64, threads: usize, tracked: bool) -> impl Fn(&mut World) {
    move |world| {
        let mut stage = Stage::new(world, count, 2, make);
        for me in 0..count {
            let name = format!("node {me}");

            stage.in_turn(
                me,
                0..threads,
                &name,
                |o| &o.baton,
                rounds,
                move |objects, thread, value| {
                    let table = &objects.table;
                    let write = || {
                        did("Sst::store_mine");
                        must(table.store_mine(value));
                        if tracked {
                            did("Sst::push");
                            must(table.push(thread)).forget();
                        } else {
                            did("Sst::push_untracked");
                            must(table.push_untracked(thread));
                        }
                    };
                    call(format!("write{me} {value}"), write, |()| "");
                    did("Sst::mine");
                    assert_eq!(must(table.mine()).load(), value, "a node reads its own row");
                    if value == rounds {
                        for node in (0..count).filter(|&node| node != me) {
                            did("Sst::row");
                            let read = || must(table.row(NodeId(node))).load();
                            call(format!("read{node}"), read, u64::to_string);
                            call(format!("read{node}"), read, u64::to_string);
                        }
                    }
                },
            );
        }
        stage.promise(move |calls| (0..count).try_for_each(|row| of_row(calls, row)));
    }
}

/// Checks the calls on one row as those on a variable.
pub(crate) fn of_row(calls: &[Operation], row: u16) -> std::result::Result<(), Violation> {
    single_writer(&on_part(calls, &row.to_string()), "0")
}

/// Makes a world in which every node broadcasts its data, then says so in its row. A node that has waited for each
/// row sees the data of each.
fn wait_for_each(count: u16, rounds: u64, threads: usize) -> impl Fn(&mut World) {
    move |world| {
        let mut stage = Stage::new(world, count, 2, make);
        for me in 0..count {
            let name = format!("node {me}");

            stage.in_turn(
                me,
                0..threads,
                &name,
                |o| &o.baton,
                rounds,
                move |objects, thread, round| {
                    let mine = &objects.data[usize::from(me)];
                    mine.write(round);
                    must(mine.broadcast(thread)).forget();
                    must(objects.table.store_mine(round));
                    must(objects.table.push(thread)).forget();
                    did("Sst::wait_for_each");
                    must(objects.table.wait_for_each(thread, |row| row >= round));
                    did("Sst::rows");
                    for row in must(objects.table.rows()) {
                        assert!(row.load() >= round, "every row has been waited for");
                    }
                    if threads == 1 {
                        for data in &objects.data {
                            assert!(data.read() >= round, "puts before the push are seen with it");
                        }
                    }
                },
            );
        }
    }
}

/// Makes a world in which every node reports in its row and waits for all. A node may be lost. Only the loss of a
/// node whose row has not arrived fails the wait.
fn lost(count: u16) -> impl Fn(&mut World) {
    move |world| {
        let mut stage = Stage::new(world, count, 1, make);
        stage.each("node", 0..count, |objects, thread, _| {
            let table = &objects.table;
            must(table.store_mine(1));
            unless_lost(table.push_untracked(thread));
            let waited = until_in_time(|| table.wait_for_each(thread, |row| row == 1));
            unless_excused(waited, |node| {
                let row = must(table.row(node)).load();
                assert_eq!(row, 0, "its row has arrived, so its loss is no matter");
            })?;
            for row in must(table.rows()) {
                assert_eq!(row.load(), 1, "every row has been waited for");
            }
            Some(())
        });
    }
}

/// Builds a world in which node 1 stores its row without pushing it, says so, and stores again. Node 0 pulls that row, and its own.
fn pulled(world: &mut World) {
    let mut stage = Stage::new(world, 2, 1, make);
    stage.run(1, 0, "stores", |objects, thread| {
        must(objects.table.store_mine(1));
        objects.data[1].write(1);
        must(objects.data[1].broadcast(thread)).forget();
        must(objects.table.store_mine(2));
    });
    stage.run(0, 0, "pulls", |objects, thread| {
        must(objects.table.store_mine(7));
        must(objects.data[1].wait_until(thread, |data| data == 1));
        let row = must(objects.table.row(NodeId(1)));
        let first = must(row.pull(thread));
        assert!((1..=2).contains(&first), "stored before the pull: {first}");
        let second = must(row.pull(thread));
        assert!((first..=2).contains(&second), "{second} after {first}");
        let mine = must(must(objects.table.mine()).pull(thread));
        assert_eq!(mine, 7, "a node pulls its own row");
    });
}

/// Returns the worlds of the table.
pub(crate) fn worlds() -> Vec<NamedWorld> {
    vec![
        NamedWorld::new("wait-for-each", wait_for_each(2, 1, 1)),
        NamedWorld::new("rows", rows(2, 1, 1, true)),
        NamedWorld::new("rows-twice", rows(2, 2, 1, true)),
        NamedWorld::new("crash", lost(2)).crash(),
        NamedWorld::new("crash-of-three", lost(3)).crash(),
        NamedWorld::new("suspicion-of-three", lost(3)).suspicion(),
        NamedWorld::new("pull", pulled),
        super::last_nodes::sst(),
        NamedWorld::new("two-threads", rows(2, 2, 2, true)),
        NamedWorld::new("untracked", rows(2, 2, 1, false)),
        NamedWorld::new("two-threads-untracked", rows(2, 2, 2, false)),
        NamedWorld::new("wait-twice", wait_for_each(2, 2, 1)),
        NamedWorld::new("wait-twice-two-threads", wait_for_each(2, 2, 2)),
        NamedWorld::new("wait-three-nodes", wait_for_each(3, 1, 1)),
        NamedWorld::new("three-nodes", rows(3, 1, 1, true)),
    ]
}
