//! Stores with two or three copies of each value, of which all nodes but one may be lost. The others go on: no call of theirs fails, no
//! acknowledged write is lost, and nothing that was shown is taken back. The one lock has its homes on the first nodes, as many as there are copies.
//!
//! In the worlds of [`again`] each node has room for new copies, and two nodes may be lost, one of them while copies are made.

use loco::fabric::{Control as _, Fabric as _, PeerState, Peers};
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
        let mut stage = stores::<N>(world, nodes_of(&script), T, (copies, 0), keys);
        stage.perform(script, |store, thread, what| match attempt(store, thread, what) {
            Err(error) if error.is_declared_lost() => None,
            made => {
                must(made);
                Some(())
            }
        });
        stage.promise(move |calls| spec::key_value_store(&known(&after(keys, calls))));
    }
}

/// Adds nodes with a store that has `keys`, so many copies of each value, and so many spare homes.
fn stores<'w, const N: usize>(
    world: &'w mut World,
    nodes: u16,
    threads: usize,
    (copies, spare_homes): (usize, usize),
    keys: &'static [There],
) -> Stage<'w, Store<N>>
where
    [u64; N]: loco::Encode,
{
    let make = move |manager: &loco::Manager<Fabric>| {
        let config = least_store(8 * N).copies(copies).spare_homes(spare_homes);
        Store::<N>::new(manager, "kv", config)
    };
    assert!(
        keys.iter().all(|key| key.0 < nodes),
        "each key is inserted by a node of the script"
    );
    Stage::prepared(world, nodes, threads, make, move |store, thread| {
        for &(_, key, value) in keys.iter().filter(|key| key.0 == thread.node_id().0) {
            assert_eq!(
                must(store.insert(thread, &key, &[value; N])),
                loco::Inserted::Done
            );
        }
    })
}

/// A step of a thread while nodes are lost one after another.
#[derive(Clone, Copy)]
pub(super) enum Step {
    Make(Call),
    /// Waits until a node is lost. The thread's part is over if none is.
    AwaitLoss,
    /// Waits until the copies are whole. If this node knows of one loss then, the loss of another takes no value with it any more.
    AwaitWhole,
}

/// Makes a world of each thread's steps on a store of three nodes that has `keys`, two copies of each value, and room for another. A call
/// may fail because two nodes are lost only if the copies were not whole in between.
pub(super) fn again<const N: usize, const T: usize>(
    keys: &'static [There],
    script: Script<Step, T>,
) -> impl Fn(&mut World)
where
    [u64; N]: loco::Encode,
{
    move |world| {
        let mut stage = stores::<N>(world, 3, T, (2, 1), keys);
        for (number, (node, steps)) in script.into_iter().enumerate() {
            stage.run(node, number, &format!("thread {number}"), move |store, thread| {
                let mut is_whole = false;
                for &step in steps {
                    let made = match step {
                        Step::Make(what) => attempt(store, thread, what).map(drop),
                        Step::AwaitLoss => match await_loss(store, thread) {
                            Ok(()) => return,
                            Err(error) if error.is_timeout() => return,
                            Err(error) if error.lost_peer().is_some() => Ok(()),
                            Err(error) => Err(error),
                        },
                        Step::AwaitWhole => {
                            did("KvStore::wait_until_whole");
                            until_in_time(|| store.wait_until_whole(thread))
                                .map(|()| is_whole = lost(store, thread) == 1)
                        }
                    };
                    match made {
                        Err(error) if error.is_declared_lost() => return,
                        Err(error) if error.lost_peer().is_some() && !is_whole => return,
                        made => must(made),
                    }
                }
            });
        }
        stage.promise(move |calls| spec::key_value_store(&known(&after(keys, calls))));
    }
}

fn await_loss<const N: usize>(store: &Store<N>, thread: &Thread<Fabric>) -> Result<()>
where
    [u64; N]: loco::Encode,
{
    thread.wait_until("a loss", Peers::These(store.channel().peers()), || None)
}

/// Returns the number of nodes that this one knows to be lost.
fn lost<const N: usize>(store: &Store<N>, thread: &Thread<Fabric>) -> usize
where
    [u64; N]: loco::Encode,
{
    let control = thread.fabric().control();
    let peers = store.channel().peers().iter();
    peers
        .filter(|&&peer| control.peer_state(peer) != PeerState::Alive)
        .count()
}

/// Makes a call, which the loss of another node does not make fail. A call that runs out of time, since the loss is not known yet, is made
/// again: a write as another call of the history, because it may have taken effect.
///
/// # Panics
/// Panics if a call runs out of time again and again: whatever it waits for never comes.
fn attempt<const N: usize>(store: &Store<N>, thread: &Thread<Fabric>, what: Call) -> Result<String>
where
    [u64; N]: loco::Encode,
{
    match what {
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
    }
}

/// Makes a call of `method`, which the history shows as `text`.
fn made(method: &'static str, text: String, make: impl FnOnce() -> Result<String>) -> Result<String> {
    did(method);
    call(text, make, outcome(UNKNOWN, String::clone))
}
