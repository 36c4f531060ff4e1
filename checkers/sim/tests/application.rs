//! Applications as they are: they name no fabric, begin with `loco::run`, and are explored without a change.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use loco::fabric::{Fabric, Platform, Task, ThreadKind};
use loco::prelude::*;
use loco::{Config as Settings, ErrorKind};
use loco_sim::{
    Blame, Completeness, Config, FabricKind, FailureKind, Faults, Strategy, World, explore, replay, rounds,
};

/// Adds one to a counter on each node. The first node looks at the sum.
fn count(node: &Manager, add: impl Fn(&AtomicVar<u64>, &Thread) -> loco::Result<()>) -> loco::Result<()> {
    let counter = AtomicVar::<u64>::new(node, "counter", node.nodes()[0])?;
    let barrier = Barrier::new(node, "barrier")?;
    node.wait_for_ready()?;
    let thread = node.thread()?;
    add(&counter, &thread)?;
    barrier.wait(&thread)?;
    if node.node() == node.nodes()[0] {
        assert_eq!(
            counter.read(&thread)?,
            node.nodes().len() as u64,
            "no addition is lost"
        );
    }
    Ok(())
}

/// The application, as its `main` is.
fn right() -> loco::Result<()> {
    loco::run(|node| count(node, |counter, thread| counter.fetch_add(thread, 1).map(drop)))
}

/// The application with a mistake: it adds by a read and a write.
fn wrong() -> loco::Result<()> {
    loco::run(|node| {
        count(node, |counter, thread| {
            let before = counter.read(thread)?;
            counter.write(thread, before + 1)
        })
    })
}

const FABRICS: [FabricKind; 2] = [FabricKind::Model, FabricKind::Shm];

#[test]
fn a_mistake_of_an_application_is_found_and_its_schedule_repeats_it() {
    let world = |world: &mut World| world.application(2, wrong);
    // Far more than it takes, for a loaded host.
    let report = rounds(&Config::default(), &FABRICS, Duration::from_secs(100), 1, world).unwrap();
    let failure = report.failure.unwrap();
    assert!(failure.to_string().contains("no addition is lost"), "{failure}");
    assert!(matches!(failure.kind, FailureKind::Assertion { .. }), "{failure}");
    // Each request is said to be made where the application makes it, not in what erases the fabric's type.
    let text = failure.to_string();
    assert!(
        text.contains("(at application::") && !text.contains("loco_any::"),
        "{text}"
    );
    let again = replay(&Config::default(), &failure.schedule, world).unwrap();
    assert_eq!(again.failure.unwrap().kind, failure.kind);
}

#[test]
fn an_application_without_a_mistake_passes() {
    for fabric in FabricKind::ALL {
        let strategy = Strategy::Random {
            executions: 300,
            seed: 1,
        };
        let config = Config::default().strategy(strategy).fabric(fabric);
        let report = explore(&config, |world: &mut World| world.application(2, right)).unwrap();
        if let Some(failure) = report.failure {
            panic!("{fabric}: {failure}");
        }
        assert_eq!(report.completeness, Completeness::Random(300));
    }
}

/// Threads, locks and atomics are those of the platform: an update that two threads of a node lose is found.
#[test]
fn threads_and_what_they_share_are_the_models() {
    use loco::fabric::{AtomicCell, Lock};
    type Word = <<loco::fabric::AnyFabric as Fabric>::Platform as Platform>::AtomicU64;
    type Mutex = <<loco::fabric::AnyFabric as Fabric>::Platform as Platform>::Mutex<()>;

    fn application(locks: bool) -> loco::Result<()> {
        loco::run(|node| {
            let platform = node.fabric().platform();
            let shared = std::sync::Arc::new((Word::new(0), Mutex::new(())));
            let spawn = |name| {
                let shared = shared.clone();
                platform.spawn(name, ThreadKind::Worker, move || {
                    let _guard = locks.then(|| shared.1.lock());
                    shared.0.store(shared.0.load() + 1);
                })
            };
            for task in [spawn("one")?, spawn("two")?] {
                task.join()?;
            }
            assert_eq!(shared.0.load(), 2, "both have added");
            Ok::<_, Error>(())
        })
    }

    let strategy = Strategy::Random {
        executions: 1_000,
        seed: 1,
    };
    let config = Config::default().strategy(strategy);
    let report = explore(&config, |world: &mut World| {
        world.application(1, || application(false))
    })
    .unwrap();
    assert!(report.failure.unwrap().to_string().contains("both have added"));
    let report = explore(&config, |world: &mut World| {
        world.application(1, || application(true))
    })
    .unwrap();
    assert!(report.failure.is_none());
}

/// A node waits for one that may stop: its error says so, and is no failure.
#[test]
fn an_application_is_told_of_losses_and_deadlines() {
    let config = Config {
        faults: Faults {
            crashes: 1,
            idle_expiries: true,
            ..Faults::default()
        },
        longer_fails: true,
        ..Config::default()
    };
    let main = || {
        let settings = Settings::default().deadline(Duration::from_secs(1));
        Startup::new().config(settings).run(|node| {
            let barrier = Barrier::new(node, "barrier")?;
            node.wait_for_ready()?;
            barrier.wait(&node.thread()?)
        })
    };
    let blames = |error: &Error| match error.kind() {
        ErrorKind::PeerLost => error.lost_peer().map(Blame::Loss),
        ErrorKind::Timeout => Some(Blame::Deadline),
        ErrorKind::DeclaredLost => Some(Blame::OwnLoss),
        _ => None,
    };
    let config = config.strategy(Strategy::Random {
        executions: 500,
        seed: 1,
    });
    let report = explore(&config, |world: &mut World| {
        world.application_with_faults(2, main, blames)
    })
    .unwrap();
    assert!(report.failure.is_none(), "{}", report.failure.unwrap());
    // Without the excuse the loss is a failure.
    let report = explore(&config, |world: &mut World| world.application(2, main)).unwrap();
    assert!(report.failure.is_some());
}

#[path = "../../../loco/objects/examples/stock.rs"]
#[allow(clippy::print_stdout)]
mod stock;

/// An example of `loco`, from its `main` on.
#[test]
fn an_example_as_it_is_passes() {
    let strategy = Strategy::Random {
        executions: 50,
        seed: 1,
    };
    for fabric in FABRICS {
        let config = Config::default().strategy(strategy).fabric(fabric);
        let report = explore(&config, |world: &mut World| world.application(2, stock::main)).unwrap();
        if let Some(failure) = report.failure {
            panic!("{fabric}: {failure}");
        }
    }
}
