//! The shared variable (LOCO'26 3.4) and the SST (LOCO'25 5.1.2): words that are replicated by puts.

use loco::{AckKey, Channel, Manager, Region, Thread};
use loco_sim::World;

use crate::words::{WORD_BYTES, load, put, store, wait_until};
use crate::{Fabric, Site, found, passes, site};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mistake {
    None,
    /// Writes again while the broadcast may not have read the word yet (LOCO'26 Fig. 9c).
    NoWait,
    /// Returns a broadcast's key that covers the last of its puts only.
    KeyOfTheLast,
    /// Broadcasts to the own node too (LOCO'26 4.2).
    ToItself,
    /// Pushes the table as this node knows it instead of its own row.
    WholeTable,
    /// Stages each row in one word. An earlier put may not have read that word yet.
    SharedStaging,
}

/// One or several words on every node, and one word to stage them in.
struct Table {
    _channel: Channel<Fabric>,
    rows: Region<Fabric>,
    staging: Region<Fabric>,
}

impl Table {
    fn new(manager: &Manager<Fabric>) -> Table {
        let channel = Channel::builder(manager, "table")
            .kind("test table")
            .region("rows", 2 * WORD_BYTES)
            .region("staging", WORD_BYTES)
            .join()
            .unwrap();
        let region = |name| channel.region(name).unwrap().clone();
        Table {
            rows: region("rows"),
            staging: region("staging"),
            _channel: channel,
        }
    }

    /// Puts this node's copy of `row` at the others. The key says when the NIC has read the row.
    fn broadcast_to(
        &self,
        thread: &Thread<Fabric>,
        row: usize,
        nodes: std::ops::Range<u16>,
        mistake: Mistake,
    ) -> AckKey<Fabric> {
        let me = thread.node_id().0;
        let mut key = AckKey::done();
        for node in nodes.filter(|&node| node != me || mistake == Mistake::ToItself) {
            let from = if mistake == Mistake::SharedStaging {
                store(&self.staging, 0, load(&self.rows, row));
                (&self.staging, 0)
            } else {
                (&self.rows, row)
            };
            let one = put(thread, from, (&self.rows, row), node);
            if mistake == Mistake::KeyOfTheLast {
                std::mem::replace(&mut key, one).forget();
            } else {
                key.unite(one);
            }
            if mistake == Mistake::WholeTable {
                put(thread, (&self.rows, 1 - row), (&self.rows, 1 - row), node).forget();
            }
        }
        key
    }
}

/// Returns a world of `nodes` nodes that each run `body` with their number.
fn world(
    nodes: u16,
    body: impl Fn(u16, &Table, &Thread<Fabric>) + Copy + Send + Sync + 'static,
) -> impl Fn(&mut World) + Sync {
    move |world| {
        for node in 0..nodes {
            let at = world.node(site(Table::new));
            world.thread(&at, &format!("node{node}"), move |site: &Site<Table>| {
                body(node, &site.objects, &site.thread());
            });
        }
    }
}

/// Node 0 broadcasts 1 to two others, waits, and writes 2 for itself. Nobody else sees the 2.
fn broadcast(mistake: Mistake) -> impl Fn(&mut World) + Sync {
    world(3, move |node, table, thread| {
        if node == 0 {
            store(&table.rows, 0, 1);
            let key = table.broadcast_to(thread, 0, 0..3, mistake);
            match mistake {
                Mistake::NoWait => key.forget(),
                _ => key.wait(thread).unwrap(),
            }
            store(&table.rows, 0, 2);
            assert_eq!(load(&table.rows, 0), 2, "nobody else writes it");
        } else {
            wait_until(thread, || load(&table.rows, 0) != 0);
            assert_eq!(load(&table.rows, 0), 1, "what was broadcast");
        }
    })
}

/// Makes a world in which each of two nodes stores its row twice and pushes it. No row is ever seen to go
/// back.
fn rows(mistake: Mistake) -> impl Fn(&mut World) + Sync {
    world(2, move |node, table, thread| {
        let (mine, theirs) = (usize::from(node), usize::from(1 - node));
        store(&table.rows, mine, 1);
        table.broadcast_to(thread, mine, 0..2, mistake).forget();
        wait_until(thread, || load(&table.rows, theirs) != 0);
        assert_eq!(
            load(&table.rows, mine),
            1,
            "the own row, which nobody else writes"
        );
        store(&table.rows, mine, 2);
        assert_eq!(load(&table.rows, mine), 2, "the own row goes on");
    })
}

/// Makes a world in which node 0 has two rows, and pushes both.
fn fields(mistake: Mistake) -> impl Fn(&mut World) + Sync {
    world(2, move |node, table, thread| {
        if node == 0 {
            for (row, value) in [(0, 10), (1, 20)] {
                store(&table.rows, row, value);
                table.broadcast_to(thread, row, 0..2, mistake).forget();
            }
        } else {
            wait_until(thread, || load(&table.rows, 1) != 0);
            let seen = [0, 1].map(|row| load(&table.rows, row));
            assert_eq!(seen, [10, 20], "each row its own value");
        }
    })
}

#[test]
fn shared_variables_and_tables_pass() {
    passes("broadcast", broadcast(Mistake::None));
    passes("rows", rows(Mistake::None));
    passes("fields", fields(Mistake::None));
}

#[test]
fn shared_variable_written_again_without_waiting() {
    found("written again", 0, broadcast(Mistake::NoWait));
}

#[test]
fn shared_variable_whose_key_covers_the_last_put_only() {
    found("key of the last", 1, broadcast(Mistake::KeyOfTheLast));
}

#[test]
fn shared_variable_broadcast_to_its_own_node() {
    found("to itself", 2, broadcast(Mistake::ToItself));
}

#[test]
fn table_that_pushes_rows_of_others() {
    found("whole table", 1, rows(Mistake::WholeTable));
}

#[test]
fn table_that_pushes_a_row_to_its_own_node() {
    found("row to itself", 2, rows(Mistake::ToItself));
}

#[test]
fn table_that_stages_rows_in_one_word() {
    found("shared staging", 0, fields(Mistake::SharedStaging));
}
