//! Realistic mistakes in objects, each found by exploring a small world, with a short schedule that repeats it. The
//! same code without the mistake passes the same exploration.

#![allow(clippy::unwrap_used)]

mod barrier;
mod fences;
mod ring;
mod sealed;

use std::sync::Mutex;
use std::time::{Duration, Instant};

use loco::{Manager, Thread};
use loco_sim::{Completeness, Config, ModelFabric, Strategy, World, explore, replay};

type Fabric = ModelFabric;

/// Longest search for a mistake.
const SEARCH_MAX: Duration = Duration::from_secs(30);
/// Longest replay, in words of its text.
const WORDS_MAX: usize = 80;

/// A node's objects, and its thread, made in the set-up.
struct Site<T> {
    objects: T,
    thread: Mutex<Option<Thread<Fabric>>>,
}

fn site<T>(make: impl FnOnce(&Manager<Fabric>) -> T) -> impl FnOnce(Fabric) -> Site<T> {
    move |fabric| {
        let manager = Manager::new(fabric).unwrap();
        let objects = make(&manager);
        manager.wait_for_ready().unwrap();
        Site {
            objects,
            thread: Mutex::new(Some(manager.thread().unwrap())),
        }
    }
}

impl<T> Site<T> {
    fn thread(&self) -> Thread<Fabric> {
        self.thread.lock().unwrap().take().unwrap()
    }
}

/// The mistake is found in time, and its schedule is short and repeats it.
fn found(name: &str, build: impl Fn(&mut World) + Sync) {
    let pct = |executions, depth| Strategy::Pct {
        executions,
        seed: 1,
        depth,
    };
    let begun = Instant::now();
    // What finds it: mostly few changes of priority; the last word is the exhaustive search's.
    let failure = [pct(1_000, 3), pct(5_000, 6), Strategy::Exhaustive]
        .into_iter()
        .find_map(|strategy| {
            let config = Config {
                strategy,
                time_max: Some(SEARCH_MAX / 3),
                ..Config::default()
            };
            let report = explore(&config, &build).unwrap();
            println!(
                "{name}: {strategy:?}: {}, {:?}",
                report.completeness, report.stats
            );
            report.failure
        });
    let failure = failure.unwrap_or_else(|| panic!("{name} is not found"));
    assert!(begun.elapsed() < SEARCH_MAX, "{name}: {:?}", begun.elapsed());
    println!("{name}: {failure}");
    let config = Config::default();
    let words = failure.schedule.to_string().split_whitespace().count();
    assert!(words <= WORDS_MAX, "{name}: {words} words");
    let again = replay(&config, &failure.schedule, &build).unwrap();
    let repeated = again
        .failure
        .unwrap_or_else(|| panic!("{name}: the schedule does not repeat it"));
    assert_eq!(repeated.kind, failure.kind, "{name}");
}

/// Without the mistake nothing is found, neither by as many random schedules as find the mistakes nor, where the world is
/// small enough, by all.
fn passes(name: &str, build: impl Fn(&mut World) + Sync) {
    let pct = Config {
        strategy: Strategy::Pct {
            executions: 2_000,
            seed: 1,
            depth: 3,
        },
        ..Config::default()
    };
    let all = Config {
        time_max: Some(Duration::from_secs(10)),
        ..Config::default()
    };
    for config in [pct, all] {
        let report = explore(&config, &build).unwrap();
        if let Some(failure) = report.failure {
            panic!("{name}: {failure}");
        }
        assert_ne!(report.completeness, Completeness::Stopped);
        println!("{name}: {}, {:?}", report.completeness, report.stats);
    }
}
