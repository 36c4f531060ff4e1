//! Fences: node 0 puts at node 2, fences, and lets node 1 tell node 2 to look.

use loco::fabric::NodeId;
use loco::{SharedVar, Thread, fence};
use loco_sim::World;

use crate::{Fabric, Site, found, passes, site, takes_preemptions};

type Sv = SharedVar<u64, Fabric>;
type Fence = fn(&Thread<Fabric>, loco::AckKey<Fabric>);

fn world(fence: Fence) -> impl Fn(&mut World) + Sync {
    move |world| {
        for node in 0..3 {
            let variables = |manager: &loco::Manager<Fabric>| -> [Sv; 3] {
                ["data", "first", "second"].map(|name| SharedVar::new(manager, name).unwrap())
            };
            let at = world.node(site(variables));
            world.thread(&at, &format!("node{node}"), move |site: &Site<[Sv; 3]>| {
                let thread = site.thread();
                let [data, first, second] = &site.objects;
                match node {
                    0 => {
                        data.write(1);
                        let key = data.broadcast_to(&thread, &[NodeId(2)]).unwrap();
                        fence(&thread, key);
                        first.write(1);
                        first.broadcast_to(&thread, &[NodeId(1)]).unwrap().forget();
                    }
                    1 => {
                        first.wait_until(&thread, |flag| flag == 1).unwrap();
                        second.write(1);
                        second.broadcast_to(&thread, &[NodeId(2)]).unwrap().forget();
                    }
                    _ => {
                        second.wait_until(&thread, |flag| flag == 1).unwrap();
                        assert_eq!(data.read(), 1, "what was put before the fence is there");
                    }
                }
            });
        }
    }
}

#[test]
fn a_fence_of_thread_scope_passes() {
    passes(
        "thread fence",
        world(|thread, key| {
            key.forget();
            fence::thread(thread).unwrap();
        }),
    );
}

#[test]
fn no_fence() {
    found("no fence", 1, world(|_, key| key.forget()));
}

#[test]
fn fence_that_waits_for_the_completion_of_the_put() {
    let world = || world(|thread, key| key.wait(thread).unwrap());
    found("completion", 2, world());
    takes_preemptions("completion", 1, world());
}

#[test]
fn pair_fence_where_thread_scope_is_needed() {
    found(
        "pair fence",
        1,
        world(|thread, key| {
            key.forget();
            fence::pair(thread, NodeId(1)).unwrap();
        }),
    );
}

#[test]
fn cpu_fence_for_a_remote_one() {
    found(
        "cpu fence",
        1,
        world(|thread, key| {
            key.forget();
            loco::fabric::Fabric::cpu_fence(thread.fabric());
        }),
    );
}
