//! The key-value store (LOCO'25 6, LOCO'26 6.2). The calls of each key take effect one after another, from every
//! node. A value is read whole. Slots that deletes free are used again without mixing old and new.

mod batches;
mod copies;
mod cuts;
mod lengths;
mod list;
mod moves;
mod reports;
mod snapshots;
mod started;

pub(crate) use list::worlds;

use loco::fabric::{NodeId, Time};
use loco::{Error, Inserted, KvStore, Manager, Result, Thread};
use loco_sim::spec::Operation;
use loco_sim::{World, call, spec};

use crate::methods::did;
use crate::named_world::NamedWorld;
use crate::stage::{
    Fabric, LATE, Script, Stage, UNKNOWN, is_loss, known, least_store, must, nodes_of, outcome, unless_lost,
    until_in_time,
};

/// A store of values that no other call writes. Values of more than one word repeat the word.
type Store<const N: usize> = KvStore<u64, [u64; N], Fabric>;

fn make<const N: usize>(
    slots: u32,
    locks: u32,
) -> impl Fn(&Manager<Fabric>) -> Result<Store<N>> + Clone + Send
where
    [u64; N]: loco::Encode,
{
    named("kv", slots, locks)
}

fn named<const N: usize>(
    name: &'static str,
    slots: u32,
    locks: u32,
) -> impl Fn(&Manager<Fabric>) -> Result<Store<N>> + Clone + Send
where
    [u64; N]: loco::Encode,
{
    move |manager| {
        let config = least_store(8 * N).slots_per_node(slots).locks(locks);
        KvStore::new(manager, name, config)
    }
}

#[derive(Clone, Copy)]
enum Call {
    Insert(u64, u64),
    Update(u64, u64),
    Delete(u64),
    Get(u64),
    GetMany(u64, u64),
    /// A lookup of the key together with one that nobody inserts.
    GetWindow(u64),
    /// A lookup of the key after one that nobody inserts.
    GetLastOfWindow(u64),
    GetInto(u64),
    GetStart(u64),
    InsertMany(u64, u64, u64),
    UpdateMany(u64, u64, u64),
    /// Updates of two keys that are under way at a time.
    UpdatesStarted(u64, u64, u64),
    /// An update that is dropped when it was started.
    UpdateDropped(u64, u64),
    /// An update that is dropped when it may have got on.
    UpdateDroppedLater(u64, u64),
    UpdateThree([u64; 3], u64),
    /// An insert by a batch of one.
    InsertBatch(u64, u64),
    /// An update by a batch that updates another key after it.
    UpdateBatch(u64, u64, u64),
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

/// Looks a key up together with one that nobody inserts. The key is at place `at` of the two.
fn of_window<const N: usize>(
    store: &Store<N>,
    thread: &Thread<Fabric>,
    key: u64,
    at: usize,
) -> Result<Option<[u64; N]>>
where
    [u64; N]: loco::Encode,
{
    let mut keys = [u64::MAX; 2];
    keys[at] = key;
    let values = store.get_many(thread, &keys)?;
    assert_eq!(values.len(), 2);
    assert_eq!(values[1 - at], None, "nobody inserts the other key");
    Ok(values[at])
}

/// Returns how the history shows the result of an insert.
pub(crate) fn inserted(inserted: &Inserted) -> &'static str {
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
                // The call replaces the contents of the vector.
                let mut values = vec![Some([u64::MAX; N])];
                must(store.get_many_into(thread, &[key], &mut values));
                assert_eq!(values.len(), 1);
                found(values[0])
            };
            call(format!("get {key}"), get, String::clone);
        }
        Call::GetMany(one, two) => {
            did("KvStore::get_many");
            // Each is a separate lookup, so the values alone are checked.
            let values = must(store.get_many(thread, &[one, two]));
            assert_eq!(values.len(), 2);
            for value in values {
                found(value);
            }
        }
        Call::GetWindow(key) => {
            did("KvStore::get_many");
            let get = || found(must(of_window(store, thread, key, 0)));
            call(format!("get {key}"), get, String::clone);
        }
        Call::GetLastOfWindow(key) => {
            did("KvStore::get_many");
            let get = || found(must(of_window(store, thread, key, 1)));
            call(format!("get {key}"), get, String::clone);
        }
        Call::InsertMany(one, two, value) => {
            must(batches::insert_two(store, thread, one, two, value));
        }
        Call::InsertBatch(key, value) => {
            did("KvStore::insert_many");
            let insert = || must(store.insert_many(thread, &[(key, [value; N])]));
            let text = |outcomes: &Vec<Inserted>| {
                assert_eq!(outcomes.len(), 1);
                inserted(&outcomes[0])
            };
            call(format!("insert {key} {value}"), insert, text);
        }
        Call::UpdateBatch(key, other, value) => {
            did("KvStore::update_many");
            let update = || must(store.update_many(thread, &[(key, [value; N]), (other, [value; N])]));
            call(format!("update {key} {value}"), update, |&there| {
                (there == 2).to_string()
            });
        }
        Call::UpdateMany(one, two, value) => {
            must(batches::update_keys(store, thread, [one, two], value));
        }
        Call::UpdateThree(keys, value) => {
            must(batches::update_keys(store, thread, keys, value));
        }
        Call::UpdatesStarted(one, two, value) => {
            must(started::update_two(store, thread, one, two, value));
        }
        Call::UpdateDropped(key, value) => started::update_dropped(store, thread, key, value, false),
        Call::UpdateDroppedLater(key, value) => started::update_dropped(store, thread, key, value, true),
    }
}

/// A key that is present before anything is explored: the node of its value, the key, the value.
type There = (u16, u64, u64);

/// Adds nodes with a store of this size that has `keys`.
fn stores<'w, const N: usize>(
    world: &'w mut World,
    count: u16,
    threads: usize,
    (slots, locks): (u32, u32),
    keys: &'static [There],
) -> Stage<'w, Store<N>>
where
    [u64; N]: loco::Encode,
{
    Stage::prepared(
        world,
        count,
        threads,
        make::<N>(slots, locks),
        move |store, thread| {
            for &(_, key, value) in keys.iter().filter(|key| NodeId(key.0) == thread.node_id()) {
                assert_eq!(must(store.insert(thread, &key, &[value; N])), Inserted::Done);
            }
        },
    )
}

/// Returns the calls, and the inserts of the keys that were present before.
fn after(keys: &[There], calls: &[Operation]) -> Vec<Operation> {
    let insert = |&(node, key, value): &There| Operation {
        thread: "set-up".to_owned(),
        number: u16::MAX - node,
        node,
        name: "insert".to_owned(),
        argument: format!("{key} {value}"),
        result: Some("done".to_owned()),
        invoked: 0,
        responded: Some(0),
    };
    keys.iter()
        .map(insert)
        .chain(calls.iter().flat_map(batches::each))
        .collect()
}

/// Makes a world in which threads, with their nodes and calls, use an empty store.
fn calls<const N: usize, const T: usize>(size: (u32, u32), script: Script<Call, T>) -> impl Fn(&mut World)
where
    [u64; N]: loco::Encode,
{
    calls_with::<N, T>(size, &[], script)
}

/// Makes a world in which threads, with their nodes and calls, use a store that has `keys`.
fn calls_with<const N: usize, const T: usize>(
    size: (u32, u32),
    keys: &'static [There],
    script: Script<Call, T>,
) -> impl Fn(&mut World)
where
    [u64; N]: loco::Encode,
{
    move |world| {
        let mut stage = stores::<N>(world, nodes_of(&script), T, size, keys);
        stage.perform(script, |store, thread, what| {
            use_store(store, thread, what);
            Some(())
        });
        stage.promise(move |calls| spec::key_value_store(&known(&after(keys, calls))));
    }
}

/// Makes a world of each thread's calls, with late waits and losses. A late insert or update has changed nothing; late
/// gets and deletes are retried. After a loss the thread stops.
fn faulty<const N: usize, const T: usize>(
    keys: &'static [There],
    script: Script<Call, T>,
) -> impl Fn(&mut World)
where
    [u64; N]: loco::Encode,
{
    faulty_of::<N, T>((1, 1), keys, script)
}

/// Makes a world as [`faulty`] does, with a store of this size.
fn faulty_of<const N: usize, const T: usize>(
    size: (u32, u32),
    keys: &'static [There],
    script: Script<Call, T>,
) -> impl Fn(&mut World)
where
    [u64; N]: loco::Encode,
{
    let of_node_0 = size.1 == 1
        && keys.iter().all(|key| key.0 == 0)
        && script
            .iter()
            .all(|&(node, calls)| node == 0 || calls.iter().all(|call| matches!(call, Call::Get(_))));
    move |world| {
        let mut stage = stores::<N>(world, nodes_of(&script), T, size, keys);
        stage.perform(script, move |store, thread, what| {
            attempt(store, thread, what, of_node_0)
        });
        stage.promise(move |calls| spec::key_value_store(&known(&after(keys, calls))));
    }
}

/// Makes a world as [`faulty_of`] does, in which no wait has a deadline: whoever waits for ever after a loss is found.
fn unhurried<const N: usize, const T: usize>(
    size: (u32, u32),
    keys: &'static [There],
    script: Script<Call, T>,
) -> impl Fn(&mut World)
where
    [u64; N]: loco::Encode,
{
    move |world| {
        let mut stage = stores::<N>(world, nodes_of(&script), T, size, keys);
        stage.perform(script, move |store, thread, what| {
            thread.set_deadline(Some(Time::NEVER));
            attempt(store, thread, what, false)
        });
        stage.promise(move |calls| spec::key_value_store(&known(&after(keys, calls))));
    }
}

/// Makes a call. Returns `None` if a node is lost. `of_node_0` says that every key and the lock are on node 0, which
/// then needs no other node.
fn attempt<const N: usize>(
    store: &Store<N>,
    thread: &Thread<Fabric>,
    what: Call,
    of_node_0: bool,
) -> Option<()>
where
    [u64; N]: loco::Encode,
{
    let text = outcome(LATE, String::clone);
    let made = match what {
        Call::Insert(key, value) => {
            let insert = || Ok(inserted(&store.insert(thread, &key, &[value; N])?).to_owned());
            call(format!("insert {key} {value}"), insert, text)
        }
        Call::Update(key, value) => {
            let update = || Ok(store.update(thread, &key, &[value; N])?.to_string());
            call(format!("update {key} {value}"), update, text)
        }
        Call::Delete(key) => {
            let delete = || Ok(store.delete(thread, &key)?.to_string());
            // A late call may have taken effect.
            let text = outcome(UNKNOWN, String::clone);
            match call(format!("delete {key}"), delete, &text) {
                Err(error) if error.is_timeout() => call(
                    format!("delete {key}"),
                    || until_in_time(|| store.delete(thread, &key)).map(|there| there.to_string()),
                    text,
                ),
                deleted => deleted,
            }
        }
        Call::Get(key) => call(
            format!("get {key}"),
            || Ok(found(until_in_time(|| store.get(thread, &key))?)),
            text,
        ),
        Call::GetWindow(key) => call(
            format!("get {key}"),
            || Ok(found(until_in_time(|| of_window(store, thread, key, 0))?)),
            text,
        ),
        Call::InsertMany(one, two, value) => batches::insert_two(store, thread, one, two, value),
        Call::UpdateMany(one, two, value) => batches::update_keys(store, thread, [one, two], value),
        Call::UpdatesStarted(one, two, value) => started::update_two(store, thread, one, two, value),
        other => {
            use_store(store, thread, other);
            return Some(());
        }
    };
    if let Err(error) = &made
        && of_node_0
        && thread.node_id() == NodeId(0)
    {
        assert_eq!(error.lost_peer(), None, "the call needs this node alone");
    }
    match made {
        Err(error) if error.is_timeout() => Some(()),
        // A writer was lost in the middle. The next writer mends the value.
        Err(Error::Torn { .. }) => matches!(what, Call::Get(_)).then_some(()),
        made => unless_lost(made).map(drop),
    }
}

/// Builds a world in which node 0 deletes a key whose value is on node 1, which may be lost. Node 0 then inserts the
/// key on itself, so that it needs no other node.
fn taken_over(world: &mut World) {
    const THERE: &[There] = &[(1, 1, 10)];
    let mut stage = stores::<1>(world, 2, 1, (1, 1), THERE);
    stage.run(0, 0, "takes over", |store, thread| {
        if let Err(error) = until_in_time(|| store.delete(thread, &1)) {
            assert!(is_loss(&error), "{error}");
            if error.lost_peer().is_none() {
                return;
            }
        }
        let inserted = until_in_time(|| store.insert(thread, &1, &[11]));
        if let Err(error) = &inserted {
            assert_eq!(error.lost_peer(), None, "the key can be inserted again");
        }
        if let Some(inserted) = unless_lost(inserted) {
            assert_eq!(inserted, Inserted::Done, "the key is not there any more");
            if let Some(value) = unless_lost(until_in_time(|| store.get(thread, &1))) {
                assert_eq!(value, Some([11]), "nobody else writes it");
            }
        }
    });
    stage.run(1, 0, "reads", |store, thread| {
        if let Some(value) = unless_lost(until_in_time(|| store.get(thread, &1))) {
            assert!(value.is_none_or(|[word]| word == 10 || word == 11), "{value:?}");
        }
    });
}

/// Builds a world in which the only slot is free again when the delete returns.
fn freed(world: &mut World) {
    let mut stage = Stage::new(world, 2, 1, make::<1>(1, 1));
    stage.run(0, 0, "writer", |store, thread| {
        assert_eq!(must(store.insert(thread, &1, &[10])), Inserted::Done);
        assert!(must(store.delete(thread, &1)), "the key is there");
        let inserted = must(store.insert(thread, &2, &[20]));
        assert_eq!(inserted, Inserted::Done, "the slot is free again");
    });
    stage.run(1, 0, "reader", |store, thread| {
        let found = must(store.get(thread, &2));
        assert!(found.is_none_or(|value| value == [20]), "{found:?}");
    });
}

/// Builds a world in which node 0 deletes a key once, and may stop waiting before node 1 has heard. Node 1 inserts
/// the key again.
fn deleted_late(world: &mut World) {
    const THERE: &[There] = &[(0, 1, 10)];
    let mut stage = stores::<1>(world, 2, 1, (1, 1), THERE);
    stage.run(0, 0, "deletes", |store, thread| match store.delete(thread, &1) {
        Err(error) if error.is_timeout() => {}
        deleted => assert!(must(deleted), "nobody else deletes it"),
    });
    stage.run(1, 0, "inserts again", |store, thread| {
        if until_in_time(|| store.insert(thread, &1, &[20])) == Ok(Inserted::Done) {
            for _ in 0..2 {
                let found = must(until_in_time(|| store.get(thread, &1)));
                assert_eq!(found, Some([20]), "the delete was before");
            }
        }
    });
}

/// Returns the world in which a key is inserted while the other node gets it, the smallest world for the question of
/// robustness.
pub(super) fn insert_and_get() -> NamedWorld {
    const ONCE: Script<Call, 2> = [(0, &[Call::Insert(1, 10)]), (1, &[Call::Get(1)])];
    NamedWorld::new("insert-and-get", calls::<1, 2>((1, 1), ONCE))
}
