//! Explores objects in time and loss: deadlines pass anywhere, nodes stop anywhere, and nodes are declared
//! lost.
//!
//! The clients are those that anybody would write: a thread that is told `Timeout` tries again, and one that
//! is told of a loss ends. Their assertions are the promises of the object.

#![allow(clippy::unwrap_used)]

mod barrier;
mod locks;
mod queue;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use loco::fabric::FabricError;
use loco::{Error, Manager, Result, Thread};
use loco_sim::spec::{self, Operation, Violation};
use loco_sim::{
    Completeness, Config, Faults, ModelFabric, Report, Strategy, Tier, World, explore, note, replay,
};

type Fabric = ModelFabric;

/// The actions of a thread on the objects of its node. It returns an error that says that somebody is lost.
type Body<T> = Box<dyn FnOnce(&T, &Thread<Fabric>) -> Result<()> + Send>;

type Make<T> = Arc<dyn Fn(&Manager<Fabric>) -> T + Send + Sync>;

type Promise = fn(&[Operation]) -> Result<(), Violation>;

/// The number of attempts of a call before a thread says that it starves.
const ATTEMPTS: usize = 4;

struct Site<T> {
    objects: T,
    /// The threads, made in the set-up because making them is not explored.
    threads: Vec<Mutex<Option<Thread<Fabric>>>>,
}

/// Adds a node for each list of bodies, with the objects that `make` makes and a thread for each body.
fn populate<T: Send + Sync + 'static>(
    world: &mut World,
    make: impl Fn(&Manager<Fabric>) -> T + Send + Sync + 'static,
    threads: Vec<Vec<Body<T>>>,
    promise: Promise,
) {
    let make: Make<T> = Arc::new(make);
    for (number, bodies) in threads.into_iter().enumerate() {
        let (count, make) = (bodies.len(), make.clone());
        let node = world.node(move |fabric| {
            let manager = Manager::new(fabric).unwrap();
            let objects = make(&manager);
            manager.wait_for_ready().unwrap();
            let threads = (0..count).map(|_| Mutex::new(Some(manager.thread().unwrap())));
            Site {
                objects,
                threads: threads.collect(),
            }
        });
        for (index, body) in bodies.into_iter().enumerate() {
            let name = format!("node {number} thread {index}");
            world.thread(&node, &name, move |site: &Site<T>| {
                let thread = site.threads[index].lock().unwrap().take().unwrap();
                match body(&site.objects, &thread) {
                    Ok(()) => {}
                    Err(error) if is_loss(&error) => note(format!("ends, since {error}")),
                    Err(error) => panic!("{error}"),
                }
            });
        }
    }
    world.finally(move |end| {
        if let Err(violation) = promise(&spec::operations(&end.histories())) {
            panic!("{violation}");
        }
    });
}

/// Returns whether the error says that a node was lost: another node, or this one for the others.
fn is_loss(error: &Error) -> bool {
    error.lost_peer().is_some()
        || matches!(
            error,
            Error::HolderLost { .. } | Error::Fabric(FabricError::DeclaredLost)
        )
}

/// Returns the calls for which the object's promise holds. Calls that ended with an error may or may not have
/// taken effect, as if they had not returned.
fn completed(operations: &[Operation]) -> Vec<Operation> {
    let mut operations = operations.to_vec();
    for operation in &mut operations {
        if operation.result.as_deref() != Some("") {
            (operation.result, operation.responded) = (None, None);
        }
    }
    operations
}

/// Repeats the call as long as it times out.
fn patiently<R>(mut call: impl FnMut() -> Result<R>) -> Result<R> {
    for _ in 0..ATTEMPTS {
        match call() {
            Err(error) if error.is_timeout() => {}
            outcome => return outcome,
        }
    }
    panic!("starves: timed out {ATTEMPTS} times");
}

fn expiries(expiries: u32) -> Faults {
    Faults {
        expiries,
        ..Faults::default()
    }
}

/// Returns faults with so many crashes. Time passes when nothing else can happen, because some code waits for
/// a while for messages of a lost node.
fn crashes(crashes: u32) -> Faults {
    Faults {
        crashes,
        idle_expiries: true,
        ..Faults::default()
    }
}

fn suspicions(suspicions: u32, unenforced: bool) -> Faults {
    Faults {
        suspicions,
        unenforced,
        idle_expiries: true,
        ..Faults::default()
    }
}

/// Explores as `strategy` says, and prints how much was explored. A failure can be repeated.
///
/// Every schedule is explored where the network keeps the order of InfiniBand: on that of the contract some of these worlds are not
/// complete in five minutes. Random schedules are of the network of the contract, as are the ladders of `loco check`.
fn run(name: &str, strategy: Strategy, faults: Faults, build: impl Fn(&mut World) + Sync) -> Report {
    let tier = match strategy {
        Strategy::Exhaustive => Tier::Ibta,
        _ => Config::default().tier,
    };
    let config = Config {
        tier,
        strategy,
        faults,
        time_max: Some(Duration::from_secs(1500)),
        ..Config::default()
    };
    let report = explore(&config, &build).unwrap();
    println!("{name}, {strategy:?}: {}, {:?}", report.seen(), report.stats);
    if let Some(failure) = &report.failure {
        println!("{name}: {failure}");
        let again = replay(&config, &failure.schedule, &build).unwrap();
        assert_eq!(again.failure.unwrap().kind, failure.kind, "{name}");
    }
    report
}

/// Checks that all executions with these faults keep the promise.
fn complete(name: &str, faults: Faults, build: impl Fn(&mut World) + Sync) {
    let report = run(name, Strategy::Exhaustive, faults, build);
    if let Some(failure) = &report.failure {
        panic!("{name}: {failure}");
    }
    assert_eq!(report.completeness, Completeness::Complete, "{name}");
}

/// Explores random schedules by priorities, of this depth. Fails if anything is found.
fn sampled(name: &str, depth: u32, executions: u64, faults: Faults, build: impl Fn(&mut World) + Sync) {
    let strategy = Strategy::Pct {
        executions,
        seed: 1,
        depth,
    };
    let report = run(name, strategy, faults, build);
    if let Some(failure) = &report.failure {
        panic!("{name}: {failure}");
    }
    assert_eq!(report.completeness, Completeness::Random(executions), "{name}");
}

/// Checks that some execution breaks the promise.
fn found(name: &str, faults: Faults, promise: &str, build: impl Fn(&mut World) + Sync) {
    let report = run(name, Strategy::Exhaustive, faults, build);
    let Some(failure) = report.failure else {
        panic!("{name} is not found");
    };
    assert!(failure.to_string().contains(promise), "{name}: {failure}");
}
