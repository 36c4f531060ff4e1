//! Reports of failures say what happened in the words of the program: its regions, its threads, its nodes as the fabric counts
//! them.

#![allow(clippy::unwrap_used)]

mod support;

use loco::fabric::{AtomicCell, Fabric, Lock, Memory, NodeId, Peers, Platform, Target, WordCell};
use loco::{Channel, Manager};
use loco_sim::{Config, Faults, ModelFabric, World, call, explore};
use support::site;

fn words(manager: &Manager<ModelFabric>) -> Channel<ModelFabric> {
    let site = Channel::builder(manager, "relay").kind("relay");
    site.region("unused", 24).region("words", 64).join().unwrap()
}

/// Returns what is said of the first failing execution.
fn said(faults: Faults, world: impl Fn(&mut World) + Sync) -> String {
    let config = Config {
        faults,
        ..Config::default()
    };
    let failure = explore(&config, world).unwrap().failure.expect("it fails");
    let said = failure.to_string();
    // Names that only this crate knows.
    for internal in ["Some(", "{ ", "VirtualWord", "LockId", "NodeSet", "replay: \n"] {
        assert!(!said.contains(internal), "`{internal}` is internal: {said}");
    }
    said
}

fn finds(said: &str, part: &str) {
    assert!(said.contains(part), "`{part}` is missing: {said}");
}

#[test]
fn words_are_named_by_node_region_and_place_and_nodes_count_from_0() {
    let said = said(Faults::default(), |world| {
        for me in 0..2 {
            let node = world.node(site(words));
            world.thread(&node, &format!("node {me}"), move |site| {
                let (thread, region) = (site.thread(), site.objects.region("words").unwrap());
                if me == 0 {
                    let remote = region.remote(NodeId(1)).unwrap();
                    for offset in [16, 8] {
                        let target = Target { remote, offset };
                        thread.put_inline(&[1; 8], target).unwrap().forget();
                    }
                    return;
                }
                let load = |at| WordCell::<u64>::load(&region.local().unwrap().cell::<u64>(at).unwrap());
                thread
                    .wait_until("the second", Peers::None, || (load(8) != 0).then_some(()))
                    .unwrap();
                assert_ne!(load(16), 0, "the first");
            });
        }
    });
    finds(&said, "loads n1:relay.words[2] (=0)");
    finds(
        &said,
        "put n1:relay.words[2] := 72340172838076673 is not yet placed",
    );
    finds(&said, "->1: ");
}

// A function of its own also where there is no debugging information that tells what was inlined.
#[inline(never)]
fn posts(site: &support::Site<Channel<ModelFabric>>) {
    let remote = site.objects.region("words").unwrap().remote(NodeId(1)).unwrap();
    let target = Target { remote, offset: 8 };
    site.thread().put_inline(&[1; 8], target).unwrap().forget();
}

/// A step says where in the program it is made: a record by its line, a post by its function.
#[test]
fn steps_of_a_program_say_where_they_are_made() {
    let line = line!() + 6;
    let said = said(Faults::default(), move |world| {
        for me in 0..2 {
            let node = world.node(site(words));
            world.thread(&node, &format!("node {me}"), move |site| {
                if me == 0 {
                    call("a call", || posts(site), |()| "its result");
                    panic!("the end");
                }
            });
        }
    });
    finds(
        &said,
        &format!("calls a call (at checkers/sim/tests/reports.rs:{line})"),
    );
    let post = said
        .lines()
        .find(|line| line.contains(": posts put n1:relay.words[1]"));
    let post = post.expect("the post is in the trace");
    assert!(post.contains("(at reports::posts"), "{post}");
}

#[test]
fn a_deadlock_says_who_holds_what_another_waits_for() {
    type Mutex = <<ModelFabric as Fabric>::Platform as Platform>::Mutex<()>;
    let said = said(Faults::default(), |world| {
        let node = world.node(|_| -> [Mutex; 2] { [Lock::new(()), Lock::new(())] });
        for me in 0..2 {
            world.thread(&node, &format!("thread {me}"), move |locks| {
                let _first = locks[me].lock();
                let _second = locks[1 - me].lock();
            });
        }
    });
    finds(&said, "deadlock");
    finds(
        &said,
        "thread 0 on node 0 waits for a lock that P2 (thread 1) holds",
    );
    finds(
        &said,
        "thread 1 on node 0 waits for a lock that P1 (thread 0) holds",
    );
}

/// Other requests than those of memory are said in words, too.
#[test]
fn requests_are_said_in_words() {
    type Word = <<ModelFabric as Fabric>::Platform as Platform>::AtomicU64;
    let crash = Faults {
        crashes: 1,
        ..Faults::default()
    };
    let said = said(crash, |world| {
        for me in 0..2 {
            let node = world.node(site(|manager| (words(manager), Word::new(0_u64))));
            world.thread(&node, &format!("node {me}"), move |site| {
                let thread = site.thread();
                let (channel, count) = (&site.objects.0, &site.objects.1);
                let remote = channel.region("words").unwrap().remote(NodeId(1 - me)).unwrap();
                let _: u64 = count.fetch_add(1_u64);
                let _ = count.compare_exchange(1_u64, 2_u64);
                let put = thread.put_inline(&[1; 8], Target { remote, offset: 0 });
                assert!(put.is_ok() || me == 0, "the other node is lost");
            });
        }
    });
    finds(&said, "adds 1 to n1[");
    finds(&said, "exchanges n1[");
    finds(&said, "asks whether node 0 can be reached");
}
