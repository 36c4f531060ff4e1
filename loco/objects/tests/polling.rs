//! The two polling policies: who polls, and that nobody who polls keeps others from a core. One test, as it looks at the
//! processor time of the whole process.

#![allow(clippy::unwrap_used)]

use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Duration;

use loco::fabric::{NodeId, ShmConfig, ShmFabric};
use loco::{Barrier, Config, Manager, Polling, SharedRegion, testing};
use loco_test_networks::deferred::{Deferred, Nic};
use rustix::time::{ClockId, clock_gettime};

/// Processor time of this process or of this thread so far.
fn processor_time(of: ClockId) -> Duration {
    Duration::try_from(clock_gettime(of)).unwrap()
}

/// The processor time that others of this process take while this thread takes `own`.
fn taken_by_others_during(own: Duration) -> Duration {
    let (thread, process) = (ClockId::ThreadCPUTime, ClockId::ProcessCPUTime);
    let (mine, all) = (processor_time(thread), processor_time(process));
    while processor_time(thread) - mine < own {
        std::hint::spin_loop();
    }
    // Between two looks some time passes.
    let (mine, all) = (processor_time(thread) - mine, processor_time(process) - all);
    all.saturating_sub(mine)
}

#[test]
fn pollers_do_their_work_and_are_idle_otherwise() {
    // Operations end late on both, so somebody must poll: a thread of each node, or whoever waits.
    for polling in [Polling::Thread, Polling::CallerDriven] {
        let (arrived, arrival) = mpsc::channel();
        let arrival = Mutex::new(arrival);
        let bring_up = |mesh| {
            let inner = ShmFabric::new(mesh, ShmConfig::default())?;
            Deferred::new(inner, Some(&Nic::deferred(7)))
        };
        testing::run_on(2, bring_up, |fabric| {
            let config = Config::default().polling(polling);
            let manager = Manager::with_config(fabric, config)?;
            let region = SharedRegion::new(&manager, "region", 8)?;
            let end = Barrier::new(&manager, "end")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            if manager.node() == NodeId(0) {
                let put = || thread.put_inline(&[1; 8], region.target(NodeId(1), 0)?);
                let key = put()?;
                if polling == Polling::Thread {
                    // Found by somebody who does not wait for it: else this takes for ever.
                    pollster::block_on(key.into_future())?;
                } else {
                    arrival.lock().unwrap().recv().unwrap();
                    // For the card, which has still to say that it is done.
                    taken_by_others_during(Duration::from_millis(50));
                    assert!(!key.query(), "{polling:?}: found by somebody who did not wait");
                    key.wait(&thread)?;
                }
                for _ in 0..100 {
                    put()?.wait(&thread)?;
                }
                let own = Duration::from_millis(600);
                let others = taken_by_others_during(own);
                // Two nodes that spin would take two cores, or as much as this thread each.
                assert!(
                    others.as_secs_f64() < 0.6 * own.as_secs_f64(),
                    "{polling:?}: idle, and takes {others:?} while {own:?} are taken by another thread"
                );
            } else {
                let mut seen = [0; 8];
                while seen != [1; 8] {
                    thread::yield_now();
                    region.read(0, &mut seen)?;
                }
                arrived.send(()).unwrap();
            }
            // Node 1 waits here meanwhile, and sleeps as every wait that lasts.
            end.wait(&thread)
        });
    }
}
