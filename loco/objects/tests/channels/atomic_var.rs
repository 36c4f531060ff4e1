//! The atomic variable: its operations, from any node, are linearizable together.

use crate::common::net::{AtomicVar, Barrier, Manager};
use crate::common::{ALL, Cluster};
use loco::fabric::NodeId;
use loco::{Error, Result};
use loco_history::spec::{Atomic, AtomicCall, AtomicRet};
use loco_history::{History, Limits, MonotonicClock, Recorder, ThreadId, check};

const HOME: NodeId = NodeId(0);
const CALLS: u64 = 60;

#[test]
fn histories_are_linearizable() {
    for cluster in ALL {
        let histories = cluster.run(3, |manager| {
            let x = AtomicVar::<u64, _>::new(&manager, "x", HOME)?;
            let end = Barrier::new(&manager, "end")?;
            manager.wait_for_ready()?;
            let parts = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..2)
                    .map(|number| {
                        let (x, manager) = (&x, &manager);
                        scope.spawn(move || mixed_calls(manager, x, number))
                    })
                    .collect();
                let join = |thread: std::thread::ScopedJoinHandle<'_, _>| thread.join().expect("no panic");
                threads.into_iter().map(join).collect::<Result<Vec<_>>>()
            })?;
            end.wait(&manager.thread()?)?;
            Ok(History::merge(parts))
        });
        let history = History::merge(histories);
        assert_eq!(history.len() as u64, 6 * CALLS);
        let spec = Atomic::new(0);
        let report = check(&spec, &history, &Limits::default());
        assert!(report.is_ok(), "{cluster:?}: {}", report.text());
    }
}

fn mixed_calls(
    manager: &Manager<crate::common::Net>,
    x: &AtomicVar<u64>,
    number: u16,
) -> Result<History<AtomicCall, AtomicRet>> {
    let thread = manager.thread()?;
    let id = ThreadId {
        node: manager.node().0,
        thread: number,
    };
    let mut recorder = Recorder::new(id, MonotonicClock);
    for i in 0..CALLS {
        // Values that tell who wrote them.
        let mine = (u64::from(id.node) * 2 + u64::from(number) + 1) * 1_000_000 + i;
        let call = match i % 5 {
            0 => AtomicCall::FetchAdd(1),
            1 => AtomicCall::Read,
            2 => AtomicCall::Swap(mine),
            3 => AtomicCall::CompareSwap {
                expected: x.cached(),
                new: mine,
            },
            _ => AtomicCall::Write(mine),
        };
        let invocation = recorder.invoke(call);
        let result = match call {
            AtomicCall::Read => AtomicRet::Value(x.read(&thread)?),
            AtomicCall::FetchAdd(add) => AtomicRet::Value(x.fetch_add(&thread, add)?),
            AtomicCall::Swap(value) => AtomicRet::Value(x.swap(&thread, value)?),
            AtomicCall::CompareSwap { expected, new } => {
                AtomicRet::Value(x.compare_swap(&thread, expected, new)?)
            }
            AtomicCall::Write(value) => {
                x.write(&thread, value)?;
                AtomicRet::Written
            }
        };
        recorder.respond(invocation, result);
    }
    Ok(recorder.finish())
}

#[test]
fn cached_copies_follow_what_the_node_hears() {
    for cluster in ALL {
        cluster.run(2, |manager| {
            let x = AtomicVar::<i64, _>::new(&manager, "x", HOME)?;
            let turn = Barrier::new(&manager, "turn")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            if manager.node() == HOME {
                x.write(&thread, -7)?;
                // The card may say that it has written before the word is in memory.
                loco::fence::thread(&thread)?;
                assert_eq!(x.cached(), -7, "the home's copy is the official one");
            }
            turn.wait(&thread)?;
            if manager.node() != HOME {
                assert_eq!(x.cached(), 0, "not heard of yet");
                x.pull(&thread)?.wait(&thread)?;
                assert_eq!(x.cached(), -7);
                assert_eq!(x.fetch_add(&thread, -3)?, -7);
                assert_eq!(x.cached(), -10);
            }
            turn.wait(&thread)
        });
    }
}

#[test]
fn the_home_takes_part() {
    Cluster::Synchronous.run(1, |manager| {
        let error = AtomicVar::<u64, _>::new(&manager, "x", NodeId(4)).err();
        assert!(matches!(
            error,
            Some(Error::NotParticipant { node: NodeId(4), .. })
        ));
        Ok(())
    });
}

#[test]
fn a_lost_home_is_an_error() {
    for cluster in ALL {
        cluster.run(2, |manager| {
            let x = AtomicVar::<u64, _>::new(&manager, "x", HOME)?;
            let bar = Barrier::new(&manager, "bar")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            bar.wait(&thread)?;
            if manager.node() == HOME {
                loco::fence::thread(&thread)?;
                manager.fabric().mesh().fail();
                return Ok(());
            }
            let lost = loop {
                if let Err(error) = x.fetch_add(&thread, 1) {
                    break error.lost_peer();
                }
            };
            assert_eq!(lost, Some(HOME), "{cluster:?}");
            Ok(())
        });
    }
}
