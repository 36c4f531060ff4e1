//! The key-value store (LOCO'25 6, LOCO'26 6.2): the calls of each key take effect one after another, from every node; a
//! value is read whole; slots that deletes free are used again without mixing old and new.

use loco::{Inserted, KvConfig, KvStore, Manager, Result, Thread};
use loco_sim::{World, call, spec};

use crate::methods::did;
use crate::rung::Rung;
use crate::stage::{Fabric, UNKNOWN, known, must, nodes, promise, run, unless_lost};

/// Values of one word that nobody else writes; larger ones repeat the word.
type Store<const N: usize> = KvStore<u64, [u64; N], Fabric>;

fn make<const N: usize>(
    slots: u32,
    locks: u32,
) -> impl Fn(&Manager<Fabric>) -> Result<Store<N>> + Clone + Send
where
    [u64; N]: loco::Encode,
{
    move |manager| {
        // A build with the mistakes of the tests has a field more.
        #[allow(clippy::needless_update)]
        let config = KvConfig {
            slots_per_node: slots,
            value_bytes_max: 8 * N,
            key_bytes_max: 8,
            locks,
            tracker_bytes: 128,
            ..KvConfig::default()
        };
        KvStore::new(manager, "kv", config)
    }
}

#[derive(Clone, Copy)]
enum Call {
    Insert(u64, u64),
    Update(u64, u64),
    Delete(u64),
    Get(u64),
    GetMany(u64, u64),
    GetInto(u64),
    GetStart(u64),
    InsertMany(u64, u64, u64),
    UpdateMany(u64, u64, u64),
}

fn found<const N: usize>(value: Option<[u64; N]>) -> String {
    value.map_or("none".to_owned(), |words| {
        assert!(
            words.iter().all(|&word| word == words[0]),
            "a value of two writes: {words:?}"
        );
        words[0].to_string()
    })
}

fn inserted(inserted: &Inserted) -> &'static str {
    match inserted {
        Inserted::Done => "done",
        Inserted::Duplicate => "duplicate",
        Inserted::Full => "full",
    }
}

fn use_store<const N: usize>(store: &Store<N>, thread: &Thread<Fabric>, what: Call)
where
    [u64; N]: loco::Encode,
{
    match what {
        Call::Insert(key, value) => {
            did("KvStore::insert");
            let insert = || must(store.insert(thread, &key, &[value; N]));
            let _ = call(format!("insert {key} {value}"), insert, inserted);
        }
        Call::Update(key, value) => {
            did("KvStore::update");
            let update = || must(store.update(thread, &key, &[value; N]));
            call(format!("update {key} {value}"), update, bool::to_string);
        }
        Call::Delete(key) => {
            did("KvStore::delete");
            call(
                format!("delete {key}"),
                || must(store.delete(thread, &key)),
                bool::to_string,
            );
        }
        Call::Get(key) => {
            did("KvStore::get");
            call(
                format!("get {key}"),
                || found(must(store.get(thread, &key))),
                String::clone,
            );
        }
        Call::GetStart(key) => {
            did("KvStore::get_start");
            let get = || found(must(must(store.get_start(thread, &key)).wait()));
            call(format!("get {key}"), get, String::clone);
        }
        Call::GetInto(key) => {
            did("KvStore::get_many_into");
            let get = || {
                let mut values = Vec::new();
                must(store.get_many_into(thread, &[key], &mut values));
                assert_eq!(values.len(), 1);
                found(values[0])
            };
            call(format!("get {key}"), get, String::clone);
        }
        Call::GetMany(one, two) => {
            did("KvStore::get_many");
            // Each is a lookup of its own: the values alone are checked.
            let values = must(store.get_many(thread, &[one, two]));
            assert_eq!(values.len(), 2);
            for value in values {
                found(value);
            }
        }
        Call::InsertMany(one, two, value) => {
            did("KvStore::insert_many");
            let outcomes = must(store.insert_many(thread, &[(one, [value; N]), (two, [value + 1; N])]));
            assert_eq!(
                outcomes,
                [Inserted::Done, Inserted::Done],
                "two new keys, two free slots"
            );
        }
        Call::UpdateMany(one, two, value) => {
            did("KvStore::update_many");
            must(store.update_many(thread, &[(one, [value; N]), (two, [value + 1; N])]));
        }
    }
}

/// Threads with their nodes and calls.
fn calls<const N: usize, const T: usize>(
    (slots, locks): (u32, u32),
    threads: [(u16, &'static [Call]); T],
) -> impl Fn(&mut World)
where
    [u64; N]: loco::Encode,
{
    move |world| {
        let count = threads
            .iter()
            .map(|&(node, _)| node + 1)
            .max()
            .unwrap_or(1)
            .max(2);
        let at = nodes(world, count, T, make::<N>(slots, locks));
        for (number, &(node, calls)) in threads.iter().enumerate() {
            run(
                world,
                &at[usize::from(node)],
                number,
                &format!("thread {number}"),
                move |store, thread| {
                    for &what in calls {
                        use_store(store, thread, what);
                    }
                },
            );
        }
        promise(world, spec::key_value_store);
    }
}

/// The calls of threads in a world where a wait may be late or a node is lost: after an error nobody knows whether the call
/// took effect, and after a loss the thread goes no further.
fn faulty<const T: usize>(threads: [(u16, &'static [Call]); T]) -> impl Fn(&mut World) {
    move |world| {
        let at = nodes(world, 2, T, make::<1>(1, 1));
        for (number, &(node, calls)) in threads.iter().enumerate() {
            run(
                world,
                &at[usize::from(node)],
                number,
                &format!("thread {number}"),
                move |store, thread| {
                    for &what in calls {
                        if !attempt(store, thread, what) {
                            return;
                        }
                    }
                },
            );
        }
        promise(world, |calls| spec::key_value_store(&known(calls)));
    }
}

/// Makes a call; false if a node is lost.
fn attempt(store: &Store<1>, thread: &Thread<Fabric>, what: Call) -> bool {
    let text = |outcome: &Result<String>| match outcome {
        Ok(text) => text.clone(),
        Err(_) => UNKNOWN.to_owned(),
    };
    let outcome = match what {
        Call::Insert(key, value) => {
            let insert = || Ok(inserted(&store.insert(thread, &key, &[value])?).to_owned());
            call(format!("insert {key} {value}"), insert, text)
        }
        Call::Update(key, value) => {
            let update = || Ok(store.update(thread, &key, &[value])?.to_string());
            call(format!("update {key} {value}"), update, text)
        }
        Call::Delete(key) => {
            let delete = || Ok(store.delete(thread, &key)?.to_string());
            call(format!("delete {key}"), delete, text)
        }
        Call::Get(key) => call(format!("get {key}"), || Ok(found(store.get(thread, &key)?)), text),
        other => {
            use_store(store, thread, other);
            return true;
        }
    };
    match outcome {
        Err(error) if error.is_timeout() => true,
        outcome => unless_lost(outcome).is_some(),
    }
}

/// Batches: keys that only one thread writes, with values that it finds again.
fn batches(world: &mut World) {
    let at = nodes(world, 2, 1, make::<1>(2, 2));
    run(world, &at[0], 0, "writer", |store, thread| {
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
    run(world, &at[1], 0, "reader", |store, thread| {
        did("KvStore::get_many");
        let first = must(store.get_many(thread, &[1, 2]));
        for (value, allowed) in first.iter().zip([[10, 11], [20, 21]]) {
            assert!(value.is_none_or(|[word]| allowed.contains(&word)), "{value:?}");
        }
        let one = must(store.get(thread, &1));
        assert!(one.is_some() || first[0].is_none(), "a key that was there stays");
    });
}

/// The worlds of the store.
pub(crate) fn rungs() -> Vec<Rung> {
    use Call::{Delete, Get, GetInto, GetMany, GetStart, Insert, InsertMany, Update, UpdateMany};
    const INSERT: [(u16, &[Call]); 2] = [(0, &[Insert(1, 10)]), (1, &[Get(1), Get(1)])];
    const UPDATE: [(u16, &[Call]); 2] = [(0, &[Insert(1, 10), Update(1, 11)]), (1, &[Get(1)])];
    const DELETE: [(u16, &[Call]); 2] = [(0, &[Insert(1, 10), Delete(1)]), (1, &[Get(1), Get(1)])];
    const REUSE: [(u16, &[Call]); 2] = [(0, &[Insert(1, 10), Delete(1), Insert(2, 20)]), (1, &[Get(1)])];
    const AGAIN: [(u16, &[Call]); 2] = [
        (0, &[Insert(1, 10), Delete(1), Insert(1, 12)]),
        (1, &[Get(1), Get(1)]),
    ];
    const WRITERS: [(u16, &[Call]); 2] = [(0, &[Insert(1, 10)]), (1, &[Insert(1, 20)])];
    const REMOTE: [(u16, &[Call]); 2] = [(0, &[Insert(1, 10), Get(1)]), (1, &[Update(1, 20), Delete(1)])];
    const READS: [(u16, &[Call]); 2] = [
        (0, &[Insert(1, 10)]),
        (1, &[GetStart(1), GetInto(1), GetMany(1, 2)]),
    ];
    const KEYS: [(u16, &[Call]); 2] = [(0, &[Insert(1, 10), Get(2)]), (1, &[Insert(2, 20), Get(1)])];
    const FULL: [(u16, &[Call]); 2] = [(0, &[Insert(1, 10), Insert(2, 20)]), (1, &[Get(1), Get(2)])];
    const LIFE: [(u16, &[Call]); 2] = [
        (0, &[Insert(1, 10), Update(1, 11), Delete(1)]),
        (1, &[Get(1), Get(1)]),
    ];
    const THREADS: [(u16, &[Call]); 3] = [(0, &[Insert(1, 10)]), (0, &[Insert(1, 11)]), (1, &[Get(1)])];
    const THIRD: [(u16, &[Call]); 3] = [(0, &[Insert(1, 10)]), (1, &[Get(1)]), (2, &[Get(1)])];
    const MANY: [(u16, &[Call]); 2] = [(0, &[InsertMany(1, 2, 10)]), (1, &[UpdateMany(1, 2, 20), Get(3)])];
    vec![
        Rung::new("insert", calls::<1, 2>((1, 1), INSERT)),
        Rung::new("update", calls::<1, 2>((1, 1), UPDATE)),
        Rung::new("delete", calls::<1, 2>((1, 1), DELETE)),
        Rung::new("reads", calls::<1, 2>((1, 1), READS)),
        Rung::new("writers", calls::<1, 2>((1, 1), WRITERS)),
        Rung::new("remote-writes", calls::<1, 2>((1, 1), REMOTE)),
        Rung::new("reuse", calls::<1, 2>((1, 1), REUSE)),
        Rung::new("again", calls::<1, 2>((1, 1), AGAIN)),
        Rung::new("two-keys", calls::<1, 2>((1, 2), KEYS)),
        Rung::new("full", calls::<1, 2>((1, 2), FULL)),
        Rung::new("wide-insert", calls::<3, 2>((1, 1), INSERT)),
        Rung::new("wide-update", calls::<3, 2>((1, 1), UPDATE)),
        Rung::new("wide-reuse", calls::<3, 2>((1, 1), REUSE)),
        Rung::new("crash", faulty(UPDATE)).crash(),
        Rung::new("crash-writers", faulty(WRITERS)).crash(),
        Rung::new("expiry", faulty(DELETE)).expiries(1),
        Rung::new("suspicion", faulty(WRITERS)).suspicion(),
        Rung::new("batches", batches),
        Rung::new("batch-writers", calls::<1, 2>((2, 2), MANY)),
        Rung::new("life", calls::<1, 2>((1, 1), LIFE)),
        Rung::new("two-threads", calls::<1, 3>((2, 1), THREADS)),
        Rung::new("three-nodes", calls::<1, 3>((1, 1), THIRD)),
        Rung::new("reads-wide", calls::<3, 2>((1, 1), READS)),
        Rung::new("insert-glob", calls::<1, 2>((1, 1), LIFE)).glob(),
    ]
}
