//! Shared queue: all nodes together see one first-in-first-out queue.

use loco::fabric::NodeId;
use loco::{Manager, Popped, Pushed, SharedQueue, Thread};
use loco_sim::{Config, Strategy, World, call, spec};

use crate::{Body, Fabric, Plan, complete, search};

type Queue = SharedQueue<u64, Fabric>;

fn shown_push<T>(pushed: &Pushed<T>) -> &'static str {
    match pushed {
        Pushed::Done => "done",
        Pushed::Full(_) => "full",
        Pushed::Closed(_) => "closed",
    }
}

fn shown_pop(popped: &Popped<u64>) -> String {
    match popped {
        Popped::Value(value) => value.to_string(),
        Popped::Empty => "empty".to_owned(),
        Popped::Closed => "closed".to_owned(),
    }
}

/// A call of the queue.
#[derive(Clone, Copy)]
enum Do {
    Push(u64),
    TryPush(u64),
    Pop,
    TryPop,
    Close,
}

use Do::{Close, Pop, Push, TryPop, TryPush};

impl Do {
    fn with(self, queue: &Queue, thread: &Thread<Fabric>) {
        match self {
            Push(value) => {
                let _ = call(
                    format!("push {value}"),
                    || queue.push(thread, value).unwrap(),
                    shown_push,
                );
            }
            TryPush(value) => {
                let push = || queue.try_push(thread, value).unwrap();
                let _ = call(format!("push {value}"), push, shown_push);
            }
            Pop => {
                let _ = call("pop", || queue.pop(thread).unwrap(), shown_pop);
            }
            TryPop => {
                let _ = call("pop", || queue.try_pop(thread).unwrap(), shown_pop);
            }
            Close => call("close", || queue.close(thread).unwrap(), |()| ""),
        }
    }
}

/// Makes a world with one thread on each node.
fn world(
    make: fn(&Manager<Fabric>) -> Queue,
    capacity: usize,
    calls: &'static [&'static [Do]],
) -> impl Fn(&mut World) + Sync {
    move |world| {
        let body = |calls: &&'static [Do]| -> Vec<Body<Queue>> {
            let calls: &'static [Do] = calls;
            vec![Box::new(move |queue, thread| {
                for call in calls {
                    call.with(queue, thread);
                }
            })]
        };
        let bodies = calls.iter().map(body).collect();
        let promise = match capacity {
            1 => |o: &[_]| spec::shared_queue(o, 1),
            _ => |o: &[_]| spec::shared_queue(o, 2),
        };
        Plan::new(make, bodies, promise).build(world);
    }
}

fn of<const CAPACITY: usize>(manager: &Manager<Fabric>) -> Queue {
    SharedQueue::new(manager, "queue", NodeId(0), CAPACITY).unwrap()
}

#[test]
fn one_pushes_and_one_pops() {
    complete(
        "queue of 2, one pushes, one pops, twice",
        world(of::<2>, 2, &[&[Push(1), Push(2)], &[Pop, Pop]]),
    );
}

#[test]
fn a_queue_of_one_goes_round() {
    complete(
        "queue of 1, 2 pushes, 2 pops",
        world(of::<1>, 1, &[&[Push(1), Push(2)], &[Pop, Pop]]),
    );
}

/// This world is too large for all executions in a test.
#[test]
fn both_push_and_pop() {
    let config = Config {
        strategy: Strategy::Pct {
            executions: 1000,
            seed: 1,
            depth: 4,
        },
        ..Config::default()
    };
    search(
        "queue of 2, both push and pop",
        &config,
        world(of::<2>, 2, &[&[Push(1), Pop], &[Push(2), Pop]]),
    );
}

#[test]
fn full_and_empty_are_exact() {
    complete(
        "queue of 1, tries",
        world(of::<1>, 1, &[&[TryPush(1), TryPop], &[TryPush(2)]]),
    );
}

/// After a thread was told that the queue is closed, it is closed on every node.
#[test]
fn closed_is_closed() {
    complete(
        "queue of 2, closed, tries",
        world(of::<2>, 2, &[&[Close], &[TryPop, TryPush(1)]]),
    );
}

#[test]
fn closed_while_it_is_used() {
    complete(
        "queue of 2, closed",
        world(of::<2>, 2, &[&[Push(1), Close], &[Pop, Pop]]),
    );
}
