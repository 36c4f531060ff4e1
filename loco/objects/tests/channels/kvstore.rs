//! The key-value store: linearizable per key whatever the nodes do at the same time; clear results; and what becomes of
//! it when a node is lost.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use crate::common::net::{Barrier, KvStore, Manager, Thread};
use crate::common::{
    ALL, Cluster, Net, PATIENCE, is_lost, on_device, spin_until, survivors_meet, until_lost,
};
use loco::fabric::NodeId;
use loco::{Bytes, Config, Error, Inserted, KvConfig, Result};
use loco_history::spec::{KeyValue, KeyValueCall, KeyValueRet};
use loco_history::{History, Limits, MonotonicClock, Recorder, ThreadId, check};

type Store = KvStore<u64, [u64; 3]>;

fn small() -> KvConfig {
    KvConfig::default()
        .slots_per_node(16)
        .value_bytes_max(24)
        .locks(3)
        .tracker_bytes(512)
}

/// Three words that belong together, so that a torn value would show.
fn value(id: u64) -> [u64; 3] {
    [id, !id, id.rotate_left(17)]
}

type Calls = History<KeyValueCall<u64, u64>, KeyValueRet<u64>>;

/// Mixed calls on few keys, from `threads` threads of each node.
fn mixed(cluster: Cluster, nodes: usize, threads: u16, calls: u64, keys: u64) -> Calls {
    let histories = cluster.run(nodes, |manager| {
        let store = Store::new(&manager, "kv", small())?;
        let end = Barrier::new(&manager, "end")?;
        manager.wait_for_ready()?;
        end.wait(&manager.thread()?)?;
        let parts = std::thread::scope(|scope| {
            let started: Vec<_> = (0..threads)
                .map(|number| {
                    let (store, manager) = (&store, &manager);
                    scope.spawn(move || mixed_calls(manager, store, number, calls, keys))
                })
                .collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| thread.join().expect("no panic");
            started.into_iter().map(join).collect::<Result<Vec<_>>>()
        })?;
        end.wait(&manager.thread()?)?;
        Ok(History::merge(parts))
    });
    History::merge(histories)
}

fn mixed_calls(manager: &Manager<Net>, store: &Store, number: u16, calls: u64, keys: u64) -> Result<Calls> {
    let thread = manager.thread()?;
    let id = ThreadId {
        node: manager.node().0,
        thread: number,
    };
    let me = u64::from(id.node) * 16 + u64::from(number) + 1;
    let mut recorder = Recorder::new(id, MonotonicClock);
    // A generator good enough to mix calls, the same in every run.
    let mut state = me.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for i in 0..calls {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let key = state % keys;
        let id = me * 1_000_000 + i;
        let call = match (state >> 32) % 8 {
            0 | 1 => KeyValueCall::Insert(key, id),
            2 => KeyValueCall::Update(key, id),
            3 => KeyValueCall::Delete(key),
            _ => KeyValueCall::Get(key),
        };
        let invocation = recorder.invoke(call.clone());
        let result = match call {
            KeyValueCall::Get(key) => match store.get(&thread, &key)? {
                Some(found) => {
                    assert_eq!(found, value(found[0]), "words of different writes");
                    KeyValueRet::Found(found[0])
                }
                None => KeyValueRet::Missing,
            },
            KeyValueCall::Insert(key, id) => match store.insert(&thread, &key, &value(id))? {
                Inserted::Done => KeyValueRet::Done,
                Inserted::Duplicate => KeyValueRet::Duplicate,
                Inserted::Full => KeyValueRet::Full,
            },
            KeyValueCall::Update(key, id) => done_or_missing(store.update(&thread, &key, &value(id))?),
            KeyValueCall::Delete(key) => done_or_missing(store.delete(&thread, &key)?),
        };
        recorder.respond(invocation, result);
    }
    Ok(recorder.finish())
}

fn done_or_missing(done: bool) -> KeyValueRet<u64> {
    if done {
        KeyValueRet::Done
    } else {
        KeyValueRet::Missing
    }
}

fn linearizable(cluster: Cluster, history: &Calls) {
    let spec = KeyValue::new();
    let report = check(&spec, history, &Limits::default());
    assert!(report.is_ok(), "{cluster:?}: {}", report.text());
    let done = history
        .operations
        .iter()
        .filter(|op| op.result() == Some(&KeyValueRet::Done))
        .count();
    assert!(done * 10 > history.len(), "the calls do something");
}

#[test]
fn histories_are_linearizable() {
    // An emulated device takes tens of milliseconds a call.
    let calls = if on_device() { 30 } else { 150 };
    for cluster in ALL {
        let history = mixed(cluster, 3, 2, calls, 4);
        assert_eq!(history.len() as u64, 6 * calls);
        linearizable(cluster, &history);
    }
}

#[test]
fn long_histories_are_linearizable() {
    let calls = if on_device() { 100 } else { 5000 };
    let history = mixed(Cluster::Synchronous, 2, 2, calls, 6);
    linearizable(Cluster::Synchronous, &history);
}

#[test]
fn results_are_clear() {
    for cluster in ALL {
        cluster.run(2, |manager| {
            let config = small().slots_per_node(2).value_bytes_max(5).key_bytes_max(8);
            let store = KvStore::<Bytes, Bytes, _>::new(&manager, "kv", config)?;
            let bar = Barrier::new(&manager, "bar")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            let bytes = |text: &str| Bytes(text.as_bytes().to_vec());
            let (a, b, c) = (bytes("a"), bytes("b"), bytes("c"));
            if manager.node().0 == 0 {
                assert_eq!(store.get(&thread, &a)?, None);
                assert!(!store.update(&thread, &a, &a)?);
                assert!(!store.delete(&thread, &a)?);
                assert_eq!(store.insert(&thread, &a, &bytes("12345"))?, Inserted::Done);
                assert_eq!(store.insert(&thread, &a, &c)?, Inserted::Duplicate);
                assert_eq!(store.insert(&thread, &b, &bytes(""))?, Inserted::Done);
                assert_eq!(store.insert(&thread, &c, &c)?, Inserted::Full);
                for error in [
                    store.insert(&thread, &c, &bytes("123456")).map(|_| ()),
                    store.update(&thread, &a, &bytes("123456")).map(|_| ()),
                    store.insert(&thread, &bytes("123456789"), &a).map(|_| ()),
                ] {
                    assert!(matches!(error, Err(Error::TooLarge { .. })), "{error:?}");
                }
            }
            bar.wait(&thread)?;
            assert_eq!(store.get(&thread, &a)?, Some(bytes("12345")));
            assert_eq!(store.get(&thread, &b)?, Some(bytes("")));
            assert_eq!(store.get(&thread, &c)?, None);
            let keys = [a.clone(), c.clone(), b.clone()];
            let many = store.get_many(&thread, &keys)?;
            assert_eq!(many, [Some(bytes("12345")), None, Some(bytes(""))]);
            let mut listed = store.keys();
            listed.sort();
            assert_eq!(listed, [a.clone(), b.clone()]);
            bar.wait(&thread)?;
            if manager.node().0 == 1 {
                // On another node's slot, shorter than before.
                assert!(store.update(&thread, &a, &bytes("x"))?);
                assert_eq!(
                    store.insert(&thread, &c, &c)?,
                    Inserted::Done,
                    "its own slots are free"
                );
                assert!(store.delete(&thread, &b)?);
            }
            bar.wait(&thread)?;
            assert_eq!(store.get(&thread, &a)?, Some(bytes("x")));
            assert_eq!(store.get(&thread, &b)?, None);
            bar.wait(&thread)?;
            if manager.node().0 == 0 {
                assert_eq!(store.stats().free_slots, 1, "the slot of the deleted key");
                assert_eq!(
                    store.insert(&thread, &b, &b)?,
                    Inserted::Done,
                    "and it is used again"
                );
            }
            bar.wait(&thread)?;
            assert_eq!(store.get(&thread, &b)?, Some(b.clone()));
            bar.wait(&thread)
        });
    }
}

#[test]
fn nonsense_is_refused() {
    Cluster::Synchronous.run(1, |manager| {
        for config in [
            small().locks(0),
            small().slots_per_node(0),
            small().tracker_bytes(64),
        ] {
            let error = Store::new(&manager, "kv", config).err();
            assert!(matches!(error, Some(Error::Config(_))), "{error:?}");
        }
        // One node alone is a store, too.
        let store = Store::new(&manager, "kv", small())?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        for round in 0..100 {
            assert_eq!(store.insert(&thread, &1, &value(round))?, Inserted::Done);
            assert_eq!(store.get(&thread, &1)?, Some(value(round)));
            assert!(store.delete(&thread, &1)?);
        }
        assert_eq!(store.stats().free_slots, 16);
        Ok(())
    });
}

/// Ends the node as a crash would.
fn die(manager: &Manager<Net>, thread: &Thread<Net>) -> Result<()> {
    loco::fence::thread(thread)?;
    manager.fabric().mesh().fail();
    Ok(())
}

/// The others go on: inserts and deletes wait for the lost node no more, its keys are errors until they are deleted.
#[test]
fn survivors_go_on() {
    for cluster in ALL {
        let arrived = AtomicUsize::new(0);
        cluster.run(3, |manager| {
            // One lock, whose home survives.
            let config = small().locks(1);
            let store = Store::new(&manager, "kv", config)?;
            let bar = Barrier::new(&manager, "bar")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            let me = u64::from(manager.node().0);
            assert_eq!(store.insert(&thread, &me, &value(me))?, Inserted::Done);
            bar.wait(&thread)?;
            if me == 2 {
                return die(&manager, &thread);
            }
            until_lost(&manager, NodeId(2));
            for round in 0..10 {
                let key = 100 + me;
                assert_eq!(store.insert(&thread, &key, &value(round))?, Inserted::Done);
                assert_eq!(store.get(&thread, &key)?, Some(value(round)));
                assert_eq!(store.get(&thread, &(1 - me))?, Some(value(1 - me)));
                assert!(store.delete(&thread, &key)?);
            }
            if me == 0 {
                let lost = store.get(&thread, &2).map_err(|error| error.lost_peer());
                assert_eq!(lost, Err(Some(NodeId(2))), "{cluster:?}");
                let removed = store.delete(&thread, &2).map_err(|error| error.lost_peer());
                assert_eq!(
                    removed,
                    Err(Some(NodeId(2))),
                    "whether it was there, nobody knows"
                );
                assert_eq!(store.get(&thread, &2)?, None);
                assert!(!store.delete(&thread, &2)?);
                assert_eq!(store.insert(&thread, &2, &value(2))?, Inserted::Done);
                assert_eq!(store.get(&thread, &2)?, Some(value(2)));
            }
            // Each serves the other until both are done.
            survivors_meet(&arrived, 1);
            Ok(())
        });
    }
}

/// A node dies somewhere inside an insert, an update or a delete, with the key's lock held: the others use the same
/// keys meanwhile and afterwards.
#[test]
fn a_writer_is_lost_at_any_point() {
    for (round, cluster) in ALL.into_iter().cycle().take(9).enumerate() {
        let config = Config::default().deadline(PATIENCE);
        let arrived = AtomicUsize::new(0);
        // Each round dies after other calls, at a point in the next ones that the machine chooses.
        let (begun, calls) = (AtomicUsize::new(0), 1 + 5 * round);
        // The others may still be at the barrier when it has passed, and would hear of the loss there.
        let passed = AtomicUsize::new(0);
        cluster.run_config(3, &config, |manager| {
            let config = small().locks(1);
            let store = Store::new(&manager, "kv", config)?;
            let bar = Barrier::new(&manager, "bar")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            bar.wait(&thread)?;
            let me = manager.node().0;
            if me == 2 {
                spin_until("the others have passed the barrier", || passed.load(SeqCst) == 2);
                std::thread::scope(|scope| {
                    scope.spawn(|| {
                        spin_until("calls have begun", || begun.load(SeqCst) >= calls);
                        manager.fabric().mesh().fail();
                    });
                    for i in 0.. {
                        begun.fetch_add(1, SeqCst);
                        let outcome = store
                            .insert(&thread, &7, &value(i))
                            .map(drop)
                            .and_then(|()| store.update(&thread, &7, &value(i + 1)).map(drop))
                            .and_then(|()| store.delete(&thread, &7).map(drop));
                        if outcome.is_err() {
                            return;
                        }
                    }
                });
                return Ok(());
            }
            passed.fetch_add(1, SeqCst);
            // Read before, during and after the loss.
            loop {
                let lost = is_lost(&manager, NodeId(2));
                match store.get(&thread, &7) {
                    Ok(found) => assert!(found.is_none_or(|found| found == value(found[0]))),
                    Err(error) => assert_eq!(error.lost_peer(), Some(NodeId(2)), "{cluster:?}"),
                }
                if lost {
                    break;
                }
            }
            // Clean up after it, and use the key. What it told last may be heard after the first attempts.
            if me == 0 {
                loop {
                    let outcome = store
                        .delete(&thread, &7)
                        .and_then(|_| store.insert(&thread, &7, &value(1)));
                    match outcome {
                        Ok(Inserted::Done) => break,
                        Ok(inserted) => assert_eq!(inserted, Inserted::Duplicate, "{cluster:?}"),
                        Err(error) => assert_eq!(error.lost_peer(), Some(NodeId(2)), "{cluster:?}"),
                    }
                }
                assert!(store.update(&thread, &7, &value(2))?);
                assert_eq!(store.get(&thread, &7)?, Some(value(2)));
            }
            survivors_meet(&arrived, 1);
            assert_eq!(store.get(&thread, &7)?, Some(value(2)), "{cluster:?}, node {me}");
            survivors_meet(&arrived, 2);
            Ok(())
        });
    }
}

/// If a call begins when its node knows of the loss, it is known what the call has done, also where it fails:
/// a failed insert or update has done nothing; after a failed delete the key is there as before, or not any
/// more.
#[test]
fn a_call_that_begins_after_a_loss_is_never_half_done() {
    const KEYS: u64 = 30;
    for cluster in ALL {
        let arrived = AtomicUsize::new(0);
        cluster.run(3, |manager| {
            // One lock on each node, so that some keys' lock is lost, some keys' value, some keys' both.
            let store = Store::new(&manager, "kv", small())?;
            let bar = Barrier::new(&manager, "bar")?;
            let me = u64::from(manager.node().0);
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            for key in (me..KEYS).step_by(3) {
                assert_eq!(store.insert(&thread, &key, &value(key))?, Inserted::Done);
            }
            bar.wait(&thread)?;
            if me == 2 {
                return die(&manager, &thread);
            }
            until_lost(&manager, NodeId(2));
            if me == 1 {
                survivors_meet(&arrived, 1);
                return Ok(());
            }
            let lost = |error: &Error| error.lost_peer() == Some(NodeId(2));
            let mut failed = [0; 3];
            let mut done = 0;
            for key in 0..2 * KEYS {
                let before = store.get(&thread, &key);
                let new = value(key + 1000);
                match store.update(&thread, &key, &new) {
                    Ok(true) => assert_eq!(store.get(&thread, &key)?, Some(new)),
                    Ok(false) => assert_eq!(before.clone()?, None),
                    Err(error) => {
                        assert!(lost(&error), "{error}");
                        failed[0] += 1;
                        assert_eq!(store.get(&thread, &key).ok(), before.clone().ok());
                    }
                }
                let before = store.get(&thread, &key);
                match store.insert(&thread, &key, &new) {
                    Ok(Inserted::Full) => {}
                    Ok(Inserted::Duplicate) => assert!(before.clone()?.is_some()),
                    Ok(Inserted::Done) => assert_eq!(store.get(&thread, &key)?, Some(new)),
                    Err(error) => {
                        assert!(lost(&error), "{error}");
                        failed[1] += 1;
                        assert_eq!(store.get(&thread, &key).ok(), before.ok());
                    }
                }
                let before = store.get(&thread, &key);
                match store.delete(&thread, &key) {
                    Ok(_) => {
                        assert_eq!(store.get(&thread, &key)?, None);
                        done += 1;
                    }
                    Err(error) => {
                        assert!(lost(&error), "{error}");
                        failed[2] += 1;
                        let after = store.get(&thread, &key);
                        assert!(after == Ok(None) || after.ok() == before.ok());
                    }
                }
            }
            assert!(
                failed.iter().all(|&failed| failed > 0) && done > 0,
                "{failed:?}, {done}"
            );
            survivors_meet(&arrived, 1);
            Ok(())
        });
    }
}
