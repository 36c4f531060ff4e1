//! Awaiting ack keys: who is woken, how often, and by what. Completions are held back and let go by the test.

#![allow(clippy::unwrap_used)]

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll, Wake, Waker};

use crate::alarm::Alarm;
use crate::common::{Shared, run_on_shm};
use crate::counting::{Counting, Counts};
use loco::fabric::{NodeId, Platform as _, ShmConfig, Std};
use loco::{AckFuture, AckKey, Barrier, Config, Manager, Polling, Result, SharedRegion, Thread};
use loco_test_networks::deferred::Nic;

type Fabric = Counting<Shared>;

/// Only a hang reaches it.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(120);

const POLLINGS: [Polling; 2] = [Polling::Thread, Polling::CallerDriven];

fn poll(future: &mut AckFuture<Fabric>, alarm: &Arc<Alarm>) -> Poll<Result<()>> {
    let waker = Waker::from(alarm.clone());
    Pin::new(future).poll(&mut Context::from_waker(&waker))
}

/// Runs `test` on node 0 of two, with operations that end late and whose completions are held back from the start.
fn with_completions_held(
    polling: Polling,
    test: impl Fn(&Counts, &Thread<Fabric>, &SharedRegion<Fabric>) -> Result<()> + Sync,
) {
    run_on_shm(2, &ShmConfig::default(), Some(&Nic::deferred(3)), |fabric| {
        let counts = Arc::new(Counts::default());
        let fabric = Counting {
            inner: fabric,
            counts: counts.clone(),
        };
        let config = Config::default().polling(polling);
        let manager = Manager::with_config(fabric, config)?;
        let region = SharedRegion::new(&manager, "region", 8)?;
        let end = Barrier::new(&manager, "end")?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        if manager.node() == NodeId(0) {
            counts.completions_held.store(true, SeqCst);
            test(&counts, &thread, &region)?;
            counts.completions_held.store(false, SeqCst);
        }
        thread.set_deadline(Some(thread.now().after(std::time::Duration::from_secs(120))));
        end.wait(&thread)
    });
}

fn put(thread: &Thread<Fabric>, region: &SharedRegion<Fabric>) -> Result<AckKey<Fabric>> {
    thread.put_inline(&[1; 8], region.target(NodeId(1), 0)?)
}

#[test]
fn a_future_that_is_polled_often_is_woken_once() {
    for polling in POLLINGS {
        let alarms = std::sync::Mutex::new(Vec::new());
        with_completions_held(polling, |counts, thread, region| {
            let alarm = Alarm::new();
            let mut future = put(thread, region)?.into_future();
            for _ in 0..1000 {
                assert!(poll(&mut future, &alarm).is_pending());
            }
            assert_eq!(alarm.rung(), 0, "{polling:?}: nothing has happened");
            counts.completions_held.store(false, SeqCst);
            alarm.wait(1);
            assert!(matches!(poll(&mut future, &alarm), Poll::Ready(Ok(()))));
            alarms.lock().unwrap().push(alarm);
            Ok(())
        });
        // The node is down, and so is whoever could still wake.
        assert_eq!(alarms.lock().unwrap()[0].rung(), 1, "{polling:?}");
    }
}

#[test]
fn operations_that_others_wait_for_wake_nobody_else() {
    for polling in POLLINGS {
        with_completions_held(polling, |counts, thread, region| {
            let (first, last) = (Alarm::new(), Alarm::new());
            let mut before = put(thread, region)?.into_future();
            let mut all = AckKey::done();
            for _ in 0..32 {
                all.unite(put(thread, region)?);
            }
            let mut all = all.into_future();
            assert!(poll(&mut before, &first).is_pending());
            assert!(poll(&mut all, &last).is_pending());
            counts.completions_held.store(false, SeqCst);
            // Operations towards one peer end in order, so the last one wakes when all have ended.
            last.wait(1);
            assert!(
                matches!(poll(&mut all, &last), Poll::Ready(Ok(()))),
                "{polling:?}"
            );
            first.wait(1);
            assert!(matches!(poll(&mut before, &first), Poll::Ready(Ok(()))));
            assert_eq!((first.rung(), last.rung()), (1, 1), "{polling:?}");
            Ok(())
        });
    }
}

#[test]
fn a_future_that_was_dropped_is_not_woken_and_the_waker_of_the_last_poll_counts() {
    for polling in POLLINGS {
        with_completions_held(polling, |counts, thread, region| {
            let (dropped, replaced, valid) = (Alarm::new(), Alarm::new(), Alarm::new());
            let key = put(thread, region)?;
            let mut given_up = key.clone().into_future();
            let mut kept = key.into_future();
            assert!(poll(&mut given_up, &dropped).is_pending());
            assert!(poll(&mut kept, &replaced).is_pending());
            assert!(poll(&mut kept, &valid).is_pending());
            drop(given_up);
            assert_eq!(Arc::strong_count(&dropped), 1, "{polling:?}: its waker is kept");
            assert_eq!(Arc::strong_count(&replaced), 1, "{polling:?}: its waker is kept");
            counts.completions_held.store(false, SeqCst);
            valid.wait(1);
            assert!(matches!(poll(&mut kept, &valid), Poll::Ready(Ok(()))));
            assert_eq!((dropped.rung(), replaced.rung(), valid.rung()), (0, 0, 1));
            Ok(())
        });
    }
}

type Handles = (Thread<Fabric>, SharedRegion<Fabric>, Manager<Fabric>);

/// Has the last handles on a node, and drops them when it is called.
struct DropsOnWake {
    handles: std::sync::Mutex<Option<Handles>>,
    done: std::sync::mpsc::Sender<bool>,
}

impl Wake for DropsOnWake {
    fn wake(self: Arc<Self>) {
        let handles = self.handles.lock().expect("no panic").take();
        let by_polling_thread = std::thread::current()
            .name()
            .is_some_and(|name| name.starts_with("loco-poll"));
        drop(handles);
        let _ = self.done.send(by_polling_thread);
    }
}

#[test]
fn a_waker_may_drop_the_last_handle_on_the_node() {
    for polling in POLLINGS {
        run_on_shm(2, &ShmConfig::default(), Some(&Nic::deferred(4)), |fabric| {
            let counts = Arc::new(Counts::default());
            let mesh = fabric.mesh().clone();
            let fabric = Counting {
                inner: fabric,
                counts: counts.clone(),
            };
            let config = Config::default().polling(polling).deadline(PATIENCE);
            let manager = Manager::with_config(fabric, config)?;
            let region = SharedRegion::new(&manager, "region", 8)?;
            manager.wait_for_ready()?;
            if manager.node() != NodeId(0) {
                // The region stays until the other node has left.
                assert_eq!(mesh.wait_for_departures(0, Std.now().after(PATIENCE)), 1);
                return Ok(());
            }
            let thread = manager.thread()?;
            counts.completions_held.store(true, SeqCst);
            let mut future = put(&thread, &region)?.into_future();
            let (done, dropped) = std::sync::mpsc::channel();
            let waker_state = Arc::new(DropsOnWake {
                handles: std::sync::Mutex::new(None),
                done,
            });
            let waker = Waker::from(waker_state.clone());
            assert!(
                Pin::new(&mut future)
                    .poll(&mut Context::from_waker(&waker))
                    .is_pending()
            );
            // A put that nobody waits for is under way when the node goes down.
            thread.put_inline_untracked(&[2; 8], region.target(NodeId(1), 0)?)?;
            drop(mesh);
            *waker_state.handles.lock().unwrap() = Some((thread, region, manager));
            counts.completions_held.store(false, SeqCst);
            let by_polling_thread = dropped.recv_timeout(PATIENCE).expect("the node went down");
            assert!(by_polling_thread, "{polling:?}: the test is about that thread");
            Ok(())
        });
    }
}
