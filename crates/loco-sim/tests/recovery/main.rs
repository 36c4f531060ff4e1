//! Objects in time and loss: deadlines that pass anywhere, nodes that stop anywhere, nodes that are declared lost.
//!
//! The clients are those that anybody would write: who is told `Timeout` tries again, who is told of a loss ends. What they
//! assert is what the object promises.

#![allow(clippy::unwrap_used)]

mod barrier;
mod locks;
mod queue;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use loco::fabric::FabricError;
use loco::{Error, Manager, Result, Thread};
use loco_sim::spec::{self, Operation, Violation};
use loco_sim::{Completeness, Config, Faults, ModelFabric, Report, Strategy, World, explore, note, replay};

type Fabric = ModelFabric;

/// What a thread does with the objects of its node. It ends with an error if that says that somebody is lost.
type Body<T> = Box<dyn FnOnce(&T, &Thread<Fabric>) -> Result<()> + Send>;

type Make<T> = Arc<dyn Fn(&Manager<Fabric>) -> T + Send + Sync>;

type Promise = fn(&[Operation]) -> Result<(), Violation>;

/// Attempts of a call before a thread says that it starves.
const ATTEMPTS: usize = 4;

struct Site<T> {
    objects: T,
    /// Made in the set-up, because that is not what is to be explored.
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

/// Whether a node was lost: another, or this one for the others.
fn is_loss(error: &Error) -> bool {
    error.lost_peer().is_some()
        || matches!(
            error,
            Error::HolderLost { .. } | Error::Fabric(FabricError::DeclaredLost)
        )
}

/// What the object promises holds of calls that ended without an error; others may or may not have taken effect, as if
/// they had not returned.
fn completed(operations: &[Operation]) -> Vec<Operation> {
    let mut operations = operations.to_vec();
    for operation in &mut operations {
        if operation.result.as_deref() != Some("") {
            (operation.result, operation.responded) = (None, None);
        }
    }
    operations
}

/// Calls again as long as the call times out.
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

/// Time passes when nothing else can happen, as some code waits for a while for what a lost node may have sent.
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

/// Explores as `strategy` says, and says how much that was. A failure can be repeated.
fn run(name: &str, strategy: Strategy, faults: Faults, build: impl Fn(&mut World) + Sync) -> Report {
    let config = Config {
        strategy,
        faults,
        time_max: Some(Duration::from_secs(300)),
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

/// All executions with these faults keep the promise.
fn complete(name: &str, faults: Faults, build: impl Fn(&mut World) + Sync) {
    let report = run(name, Strategy::Exhaustive, faults, build);
    if let Some(failure) = &report.failure {
        panic!("{name}: {failure}");
    }
    assert_eq!(report.completeness, Completeness::Complete, "{name}");
}

/// Random schedules by priorities, of this depth; nothing may be found.
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

/// Some execution breaks the promise.
fn found(name: &str, faults: Faults, promise: &str, build: impl Fn(&mut World) + Sync) {
    let report = run(name, Strategy::Exhaustive, faults, build);
    let Some(failure) = report.failure else {
        panic!("{name} is not found");
    };
    assert!(failure.to_string().contains(promise), "{name}: {failure}");
}
