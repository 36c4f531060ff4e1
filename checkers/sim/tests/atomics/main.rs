//! Explores atomic variable, locks, queue and key-value store on the model fabric. Their promises are
//! explored completely, or as far as is said. Each of several mistakes in variable and locks is found with a short
//! schedule; `tools/mutants` has the mistakes of queue and store.

#![allow(clippy::unwrap_used)]

mod atomic;
mod finding;
mod kv;
mod locks;
mod queue;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use loco::{Manager, Thread};
use loco_sim::spec::{self, Operation, Violation};
use loco_sim::{Completeness, Config, ModelFabric, Report, Tier, World, explore};

use finding::found;

type Fabric = ModelFabric;

/// The actions of a thread on the objects of its node.
type Body<T> = Box<dyn FnOnce(&T, &Thread<Fabric>) + Send>;

type Make<T> = Arc<dyn Fn(&Manager<Fabric>) -> T + Send + Sync>;

/// A world of nodes with the same objects.
struct Plan<T> {
    make: Make<T>,
    /// Runs on each node once all are ready, before the exploration.
    prepare: fn(&T, &Thread<Fabric>),
    /// The threads of each node.
    threads: Vec<Vec<Body<T>>>,
    /// The promise that every execution must keep.
    promise: fn(&[Operation]) -> Result<(), Violation>,
}

struct Site<T> {
    objects: T,
    /// The threads, made in the set-up because making them is not explored.
    threads: Vec<Mutex<Option<Thread<Fabric>>>>,
}

impl<T: Send + Sync + 'static> Plan<T> {
    fn new(
        make: impl Fn(&Manager<Fabric>) -> T + Send + Sync + 'static,
        threads: Vec<Vec<Body<T>>>,
        promise: fn(&[Operation]) -> Result<(), Violation>,
    ) -> Plan<T> {
        Plan {
            make: Arc::new(make),
            prepare: |_, _| (),
            threads,
            promise,
        }
    }

    fn build(self, world: &mut World) {
        let Plan {
            make,
            prepare,
            threads,
            promise,
        } = self;
        for (number, bodies) in threads.into_iter().enumerate() {
            let (count, make) = (bodies.len(), make.clone());
            let node = world.node(move |fabric| {
                let manager = Manager::new(fabric).unwrap();
                let objects = make(&manager);
                manager.wait_for_ready().unwrap();
                prepare(&objects, &manager.thread().unwrap());
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
                    body(&site.objects, &thread);
                });
            }
        }
        world.finally(move |end| {
            if let Err(violation) = promise(&spec::operations(&end.histories())) {
                panic!("{violation}");
            }
        });
    }
}

/// Explores all executions, and prints how many there are.
fn complete(name: &str, build: impl Fn(&mut World) + Sync) -> Report {
    let report = search(name, &Config::default(), build);
    assert_eq!(report.completeness, Completeness::Complete, "{name}");
    report
}

/// Explores all executions on a network of the tier for which the textbooks' code was written.
fn complete_on_ibta(name: &str, build: impl Fn(&mut World) + Sync) -> Report {
    let report = search(name, &Config::default().tier(Tier::Ibta), build);
    assert_eq!(report.completeness, Completeness::Complete, "{name}");
    report
}

/// Explores as `config` says. Fails if anything is found.
fn search(name: &str, config: &Config, build: impl Fn(&mut World) + Sync) -> Report {
    let config = Config {
        time_max: config.time_max.or(Some(Duration::from_secs(900))),
        ..config.clone()
    };
    let report = explore(&config, build).unwrap();
    println!("{name}: {}, {:?}", report.completeness, report.stats);
    if let Some(failure) = &report.failure {
        panic!("{name}: {failure}");
    }
    report
}
