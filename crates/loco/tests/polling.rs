//! The two polling policies: who polls, and that nobody who polls keeps others from a core. One test, as it looks at the
//! time that the whole process takes.

#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use loco::fabric::{Nic, NodeId, ShmConfig};
use loco::{Barrier, Config, Manager, Polling, SharedRegion, testing};

/// Processor time of this process so far, to 10 ms.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    // After the name, which may have spaces: state is field 3, user and system time are 14 and 15, in ticks of 10 ms.
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let ticks = fields
        .split(' ')
        .skip(11)
        .take(2)
        .map(|ticks| ticks.parse::<u64>().unwrap());
    Duration::from_millis(10 * ticks.sum::<u64>())
}

#[test]
fn pollers_do_their_work_and_are_idle_otherwise() {
    const IDLE: Duration = Duration::from_millis(600);
    // Operations end late on both, so somebody must poll: a thread of each node, or whoever waits.
    for polling in [Polling::Thread, Polling::CallerDriven] {
        testing::run_with(2, &ShmConfig::with_nic(Nic::deferred(7)), |fabric| {
            let config = Config {
                polling,
                ..Config::default()
            };
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
                    while !key.query() {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                } else {
                    // Long enough for the card to be done with it.
                    std::thread::sleep(Duration::from_millis(50));
                    assert!(!key.query(), "{polling:?}: found by somebody who did not wait");
                }
                key.wait(&thread)?;
                for _ in 0..100 {
                    put()?.wait(&thread)?;
                }
                let (begin, before) = (Instant::now(), processor_time());
                std::thread::sleep(IDLE);
                let share = (processor_time() - before).as_secs_f64() / begin.elapsed().as_secs_f64();
                // Two nodes that spin would take two cores, or all that there is.
                assert!(share < 0.6, "{polling:?}: idle, and takes {share:.2} of a core");
            }
            // Node 1 waits here meanwhile, and sleeps as every wait that lasts.
            end.wait(&thread)
        });
    }
}
