//! Stores with two or three copies of each value, of which all nodes but one may be lost. The others go on: no call of theirs fails, no
//! acknowledged write is lost, and nothing that was shown is taken back. The one lock has its homes on the first nodes, as many as there are copies.

use loco::{Result, Thread};
use loco_sim::{World, call, spec};

use super::{Call, Store, There, after, found, inserted, of_window};
use crate::methods::did;
use crate::stage::{
    Fabric, Script, Stage, UNKNOWN, known, least_store, must, nodes_of, outcome, until_in_time,
};

/// Makes a world of each thread's calls on a store that has `keys`, and two copies of each value.
pub(super) fn calls<const N: usize, const T: usize>(
    keys: &'static [There],
    script: Script<Call, T>,
) -> impl Fn(&mut World)
where
    [u64; N]: loco::Encode,
{
    calls_on::<N, T>(2, keys, script)
}

/// Makes a world as [`calls`] does, with so many copies.
pub(super) fn calls_on<const N: usize, const T: usize>(
    copies: usize,
    keys: &'static [There],
    script: Script<Call, T>,
) -> impl Fn(&mut World)
where
    [u64; N]: loco::Encode,
{
    move |world| {
        let make = move |manager: &loco::Manager<Fabric>| {
            Store::<N>::new(manager, "kv", least_store(8 * N).copies(copies))
        };
        let nodes = nodes_of(&script);
        assert!(
            keys.iter().all(|key| key.0 < nodes),
            "each key is inserted by a node of the script"
        );
        let mut stage = Stage::prepared(world, nodes, T, make, move |store, thread| {
            for &(_, key, value) in keys.iter().filter(|key| key.0 == thread.node_id().0) {
                assert_eq!(
                    must(store.insert(thread, &key, &[value; N])),
                    loco::Inserted::Done
                );
            }
        });
        stage.perform(script, attempt);
        stage.promise(move |calls| spec::key_value_store(&known(&after(keys, calls))));
    }
}

/// Makes a call, which the loss of another node does not make fail. A call that runs out of time, since the loss is not known yet, is made
/// again: a write as another call of the history, because it may have taken effect. Returns `None` on a node that was declared lost.
///
/// # Panics
/// Panics if a call runs out of time again and again: whatever it waits for never comes.
fn attempt<const N: usize>(store: &Store<N>, thread: &Thread<Fabric>, what: Call) -> Option<()>
where
    [u64; N]: loco::Encode,
{
    let made = match what {
        Call::Insert(key, value) => until_in_time(|| {
            made("KvStore::insert", format!("insert {key} {value}"), || {
                Ok(inserted(&store.insert(thread, &key, &[value; N])?).to_owned())
            })
        }),
        Call::Update(key, value) => until_in_time(|| {
            made("KvStore::update", format!("update {key} {value}"), || {
                Ok(store.update(thread, &key, &[value; N])?.to_string())
            })
        }),
        Call::Delete(key) => until_in_time(|| {
            made("KvStore::delete", format!("delete {key}"), || {
                Ok(store.delete(thread, &key)?.to_string())
            })
        }),
        Call::Get(key) => made("KvStore::get", format!("get {key}"), || {
            Ok(found(until_in_time(|| store.get(thread, &key))?))
        }),
        Call::GetStart(key) => made("KvStore::get_start", format!("get {key}"), || {
            let get = || store.get_start(thread, &key)?.wait();
            Ok(found(until_in_time(get)?))
        }),
        Call::GetWindow(key) => made("KvStore::get_many", format!("get {key}"), || {
            Ok(found(until_in_time(|| of_window(store, thread, key, 0))?))
        }),
        _ => unreachable!("the scripts with copies make no other calls"),
    };
    match made {
        Err(error) if error.is_declared_lost() => None,
        made => {
            must(made);
            Some(())
        }
    }
}

/// Makes a call of `method`, which the history shows as `text`.
fn made(method: &'static str, text: String, make: impl FnOnce() -> Result<String>) -> Result<String> {
    did(method);
    call(text, make, outcome(UNKNOWN, String::clone))
}
