//! Batches: several keys by one call. Each key is written by itself, so a call counts as one call for each of its keys.

use loco::{Inserted, Manager, Result, SharedVar, Thread};
use loco_sim::spec::Operation;
use loco_sim::{World, call, spec};

use super::{Call, Store, There, inserted, make, stores, use_store};
use crate::methods::did;
use crate::stage::{Fabric, Script, Stage, UNKNOWN, must, outcome};

/// Inserts two keys by one call. There is room for both. Returns what became of them.
pub(super) fn insert_two<const N: usize>(
    store: &Store<N>,
    thread: &Thread<Fabric>,
    one: u64,
    two: u64,
    value: u64,
) -> Result<String>
where
    [u64; N]: loco::Encode,
{
    did("KvStore::insert_many");
    let insert = || {
        let outcomes = store.insert_many(thread, &[(one, [value; N]), (two, [value + 1; N])])?;
        assert!(!outcomes.contains(&Inserted::Full), "there are two slots");
        let texts: Vec<&str> = outcomes.iter().map(inserted).collect();
        Ok(texts.join(" "))
    };
    call(
        format!("insert-many {one} {value} {two} {}", value + 1),
        insert,
        outcome(UNKNOWN, String::clone),
    )
}

/// Updates keys by one call, each with the value after that of the key before. Returns for each whether it was there, or nothing if some were
/// and it is unknown which.
pub(super) fn update_keys<const N: usize, const KEYS: usize>(
    store: &Store<N>,
    thread: &Thread<Fabric>,
    keys: [u64; KEYS],
    value: u64,
) -> Result<String>
where
    [u64; N]: loco::Encode,
{
    did("KvStore::update_many");
    let mut entries = keys.map(|key| (key, value));
    for (number, entry) in (0..).zip(&mut entries) {
        entry.1 += number;
    }
    let update = || {
        let found = store.update_many(thread, &entries.map(|(key, value)| (key, [value; N])))?;
        Ok(match found {
            0 => ["false"; KEYS].join(" "),
            all if all == KEYS => ["true"; KEYS].join(" "),
            _ => UNKNOWN.to_owned(),
        })
    };
    let texts = entries.map(|(key, value)| format!(" {key} {value}"));
    call(
        format!("update-many{}", texts.concat()),
        update,
        outcome(UNKNOWN, String::clone),
    )
}

/// Returns the calls that a call counts as: one for each key of a batch, which overlap.
pub(super) fn each(batch: &Operation) -> Vec<Operation> {
    let Some(name) = batch.name.strip_suffix("-many") else {
        return vec![batch.clone()];
    };
    let words: Vec<&str> = batch.argument.split(' ').collect();
    let results: Option<Vec<&str>> = batch
        .result
        .as_deref()
        .filter(|&result| result != UNKNOWN)
        .map(|result| result.split(' ').collect());
    let one = |(number, argument): (usize, &[&str])| {
        let result = results.as_ref().map(|results| results[number].to_owned());
        Operation {
            // Calls of one thread do not overlap.
            number: batch.number + 1000 * number as u16,
            name: name.to_owned(),
            argument: argument.join(" "),
            responded: result.as_ref().and(batch.responded),
            result,
            ..batch.clone()
        }
    };
    words.chunks(2).enumerate().map(one).collect()
}

/// Builds a world of batches: each key is written by one thread only, which finds its values again.
pub(super) fn batches(world: &mut World) {
    let mut stage = Stage::new(world, 2, 1, make::<1>(2, 2));
    stage.run(0, 0, "writer", |store, thread| {
        did("KvStore::insert_many");
        let outcomes = must(store.insert_many(thread, &[(1, [10]), (2, [20])]));
        assert_eq!(outcomes, [Inserted::Done, Inserted::Done]);
        did("KvStore::update_many");
        assert_eq!(
            must(store.update_many(thread, &[(2, [21]), (3, [30]), (1, [11])])),
            2
        );
        assert_eq!(
            must(store.get_many(thread, &[1, 2, 3])),
            [Some([11]), Some([21]), None]
        );
    });
    stage.run(1, 0, "reader", |store, thread| {
        did("KvStore::get_many");
        let first = must(store.get_many(thread, &[1, 2]));
        for (value, allowed) in first.iter().zip([[10, 11], [20, 21]]) {
            assert!(value.is_none_or(|[word]| allowed.contains(&word)), "{value:?}");
        }
        let one = must(store.get(thread, &1));
        assert!(one.is_some() || first[0].is_none(), "a key that was there stays");
    });
}

/// Builds a world in which node 2 updates keys of nodes 0 and 1 by one call, then inserts a key. A thread that finds
/// that key finds the values updated.
pub(super) fn batch_across(world: &mut World) {
    const KEYS: &[There] = &[(0, 1, 10), (1, 2, 20)];
    let mut stage = stores::<1>(world, 3, 1, (1, 1), KEYS);
    stage.run(2, 0, "writer", |store, thread| {
        assert_eq!(must(store.update_many(thread, &[(2, [21]), (1, [11])])), 2);
        assert_eq!(must(store.insert(thread, &3, &[30])), Inserted::Done);
    });
    stage.each("reader", 0..2, |store, thread, _| {
        if must(store.get(thread, &3)).is_some() {
            let values = must(store.get_many(thread, &[1, 2]));
            assert_eq!(values, [Some([11]), Some([21])], "updated before");
        }
    });
}

/// Builds a world in which two nodes insert one key, node 1 by a batch, after they have inserted keys in turns so often that their draws of
/// the lock's tickets look at more slots than one.
pub(super) fn insert_after_turns(world: &mut World) {
    const TURNS: u64 = 6;
    const SCRIPT: Script<Call, 2> = [
        (0, &[Call::Insert(TURNS, 10)]),
        (1, &[Call::InsertBatch(TURNS, 20)]),
    ];
    let make = |manager: &Manager<Fabric>| {
        let store = make::<1>(TURNS as u32 / 2 + 1, 1)(manager)?;
        Ok((store, SharedVar::<u64, Fabric>::new(manager, "turn")?))
    };
    let mut stage = Stage::prepared(world, 2, 1, make, |(store, turn), thread| {
        let me = u64::from(thread.node_id().0);
        for key in (0..TURNS).filter(|key| key % 2 == me) {
            must(turn.wait_until(thread, |turn| turn >= key));
            assert_eq!(must(store.insert(thread, &key, &[key])), Inserted::Done);
            turn.write(key + 1);
            must(turn.broadcast(thread)).forget();
        }
    });
    // Each node has one thread, of number 0.
    for (node, calls) in SCRIPT {
        stage.run(node, 0, &format!("node {node}"), move |(store, _), thread| {
            calls.iter().for_each(|&call| use_store(store, thread, call));
        });
    }
    stage.promise(spec::key_value_store);
}

/// Builds a world in which a key that is twice in a batch is inserted once.
pub(super) fn batch_twice(world: &mut World) {
    let mut stage = Stage::new(world, 2, 1, make::<1>(2, 1));
    stage.run(0, 0, "writer", |store, thread| {
        let outcomes = must(store.insert_many(thread, &[(1, [10]), (1, [11])]));
        assert_eq!(outcomes, [Inserted::Done, Inserted::Duplicate]);
        assert_eq!(must(store.get(thread, &1)), Some([10]), "the first of the two");
    });
    stage.run(1, 0, "reader", |store, thread| {
        let found = must(store.get(thread, &1));
        assert!(found.is_none_or(|value| value == [10]), "{found:?}");
    });
}

/// Builds a world in which node 1 updates a key of node 0 twice by one call, then inserts a key. The second update is the last:
/// a thread that finds that key finds its value.
pub(super) fn update_twice(world: &mut World) {
    const KEYS: &[There] = &[(0, 1, 10)];
    let mut stage = stores::<2>(world, 2, 1, (1, 1), KEYS);
    stage.run(1, 0, "writer", |store, thread| {
        assert_eq!(must(store.update_many(thread, &[(1, [11; 2]), (1, [12; 2])])), 2);
        assert_eq!(must(store.insert(thread, &3, &[30; 2])), Inserted::Done);
    });
    stage.run(0, 0, "reader", |store, thread| {
        if must(store.get(thread, &3)).is_some() {
            assert_eq!(
                must(store.get(thread, &1)),
                Some([12; 2]),
                "the second of the two"
            );
        }
    });
}
