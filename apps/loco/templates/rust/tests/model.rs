//! Explores the channel in every execution that the memory model of RDMA allows, on a network that orders nothing by itself.

use std::sync::Mutex;

use loco::prelude::*;
use loco_sim::{Completeness, Config, ModelFabric, World, explore};

use {{crate}}::Bulletin;

/// A node of the explored world: its channel and its thread.
struct Site {
    bulletin: Bulletin<ModelFabric>,
    thread: Mutex<Option<Thread<ModelFabric>>>,
}

/// Two nodes: node 0 publishes, and node 1 reads.
fn world(world: &mut World) {
    for me in 0..2 {
        // The set-up runs before the exploration.
        let node = world.node(|fabric| {
            let manager = Manager::new(fabric).unwrap();
            let bulletin = Bulletin::new(&manager, "bulletin", NodeId(0)).unwrap();
            manager.wait_for_ready().unwrap();
            let thread = Mutex::new(Some(manager.thread().unwrap()));
            Site { bulletin, thread }
        });
        // The steps of this thread are explored.
        world.thread(&node, &format!("node {me}"), move |site: &Site| {
            let thread = site.thread.lock().unwrap().take().unwrap();
            if me == 0 {
                site.bulletin.publish(&thread, 42).unwrap();
            } else {
                let number = site.bulletin.read(&thread).unwrap();
                assert_eq!(number, 42, "who sees the news sees the number");
            }
        });
    }
}

#[test]
fn who_sees_the_news_sees_the_number() {
    let report = explore(&Config::default(), world).unwrap();
    if let Some(failure) = report.failure {
        panic!("{failure}");
    }
    assert_eq!(report.completeness, Completeness::Complete);
}
