//! Shares what the tests on the model fabric need: nodes with objects and a thread, and complete
//! explorations.

#![allow(dead_code, clippy::unwrap_used)] // Each test file uses its part; all of it is tests.

use std::sync::Mutex;
use std::time::Duration;

use loco::{Manager, Thread};
use loco_sim::{Completeness, Config, ModelFabric, Report, World, explore};

/// The contents of a node. Its thread is made in the set-up because making it is not explored.
pub struct Site<T> {
    pub objects: T,
    thread: Mutex<Option<Thread<ModelFabric>>>,
}

/// Sets a node up.
pub fn site<T>(make: impl FnOnce(&Manager<ModelFabric>) -> T) -> impl FnOnce(ModelFabric) -> Site<T> {
    site_of(loco::Config::default(), make)
}

/// Sets a node up that has these settings.
pub fn site_of<T>(
    config: loco::Config,
    make: impl FnOnce(&Manager<ModelFabric>) -> T,
) -> impl FnOnce(ModelFabric) -> Site<T> {
    move |fabric| {
        let manager = Manager::with_config(fabric, config).unwrap();
        let objects = make(&manager);
        manager.wait_for_ready().unwrap();
        Site {
            objects,
            thread: Mutex::new(Some(manager.thread().unwrap())),
        }
    }
}

impl<T> Site<T> {
    /// Returns the node's thread, once.
    pub fn thread(&self) -> Thread<ModelFabric> {
        self.thread.lock().unwrap().take().unwrap()
    }
}

/// Explores completely, and prints how large the exploration was. The limit is far away: it only ends what would never end.
pub fn complete(name: &str, build: impl Fn(&mut World) + Sync) -> Report {
    let config = Config {
        time_max: Some(Duration::from_secs(600)),
        ..Config::default()
    };
    let report = explore(&config, build).unwrap();
    if let Some(failure) = &report.failure {
        panic!("{name}: {failure}");
    }
    println!("{name}: {:?}", report.stats);
    assert_eq!(report.completeness, Completeness::Complete, "{name}");
    report
}
