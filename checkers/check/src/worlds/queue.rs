//! The shared queue: a bounded queue whose calls take effect one after another, with exact *full*, *empty* and
//! *closed*. Each value is popped once. A pop need not show what its pusher put before the push.

use loco::fabric::NodeId;
use loco::{Manager, Popped, Pushed, Result, SharedQueue, Thread, Value};
use loco_sim::spec::Operation;
use loco_sim::{World, call, spec};

use crate::methods::did;
use crate::named_world::NamedWorld;
use crate::stage::{
    Fabric, LATE, Script, Stage, known, must, outcome, timeouts_max, unless_excused, until_in_time,
};

type Queue = SharedQueue<u64, Fabric>;

/// Returns a maker of queues whose head and tail are on node 0.
fn make<T: Value>(
    capacity: usize,
) -> impl Fn(&Manager<Fabric>) -> Result<SharedQueue<T, Fabric>> + Clone + Send {
    move |manager| SharedQueue::new(manager, "queue", NodeId(0), capacity)
}

#[derive(Clone, Copy)]
enum Call {
    TryPush(u64),
    Push(u64),
    TryPop,
    Pop,
    Close,
}

/// Returns how the history shows the result of a push.
pub(crate) fn pushed<T>(outcome: &Pushed<T>) -> &'static str {
    match outcome {
        Pushed::Done => "done",
        Pushed::Full(_) => "full",
        Pushed::Closed(_) => "closed",
    }
}

/// Returns how the history shows the result of a pop.
pub(crate) fn popped(outcome: &Popped<u64>) -> String {
    match outcome {
        Popped::Value(value) => value.to_string(),
        Popped::Empty => "empty".to_owned(),
        Popped::Closed => "closed".to_owned(),
    }
}

fn use_queue(queue: &Queue, thread: &Thread<Fabric>, what: Call) {
    match what {
        Call::TryPush(value) => {
            did("SharedQueue::try_push");
            let _ = call(
                format!("push {value}"),
                || must(queue.try_push(thread, value)),
                pushed,
            );
        }
        Call::Push(value) => {
            did("SharedQueue::push");
            let _ = call(
                format!("push {value}"),
                || must(queue.push(thread, value)),
                pushed,
            );
        }
        Call::TryPop => {
            did("SharedQueue::try_pop");
            let _ = call("pop", || must(queue.try_pop(thread)), popped);
        }
        Call::Pop => {
            did("SharedQueue::pop");
            let _ = call("pop", || must(queue.pop(thread)), popped);
        }
        Call::Close => {
            did("SharedQueue::close");
            call("close", || must(queue.close(thread)), |()| "");
        }
    }
}

/// Makes a world in which threads, with their nodes and calls, use a queue of this capacity whose head and tail are
/// on node 0.
fn calls<const N: usize>(capacity: usize, script: Script<Call, N>) -> impl Fn(&mut World) {
    move |world| {
        let mut stage = Stage::play(world, script, make::<u64>(capacity), |queue, thread, what| {
            use_queue(queue, thread, what);
            Some(())
        });
        stage.promise(move |calls| spec::shared_queue(calls, capacity));
    }
}

/// Makes a world of each thread's calls, with late waits and losses. A call that times out has changed nothing, as the
/// queue's documentation says. After a loss the thread stops. All cells are on node 0, so only its loss stops the others.
fn faulty<const N: usize>(script: Script<Call, N>) -> impl Fn(&mut World) {
    const CAPACITY: usize = 1;
    move |world| {
        let mut stage = Stage::play(world, script, make::<u64>(CAPACITY), attempt);
        stage.promise(|calls| spec::shared_queue(&with_lost_values(&known(calls)), CAPACITY));
    }
}

/// Returns the calls, and for each push that has not returned a pop that has not: a lost push takes effect or not,
/// and its value is lost with it or not.
pub(crate) fn with_lost_values(calls: &[Operation]) -> Vec<Operation> {
    let of_lost = |call: &&Operation| call.name == "push" && call.result.is_none();
    let lost = calls.iter().filter(of_lost).map(|push| Operation {
        name: "pop".to_owned(),
        argument: String::new(),
        ..push.clone()
    });
    calls.iter().cloned().chain(lost).collect()
}

/// Makes a call, and repeats it if it times out. Returns `None` if a node is lost.
fn attempt(queue: &Queue, thread: &Thread<Fabric>, what: Call) -> Option<()> {
    let most = timeouts_max();
    match (0..most).find_map(|_| attempt_once(queue, thread, what)) {
        Some(goes_on) => goes_on,
        None => panic!("{most} calls in a row have timed out: what they wait for never comes"),
    }
}

/// Makes a call. Returns `None` if it times out, and `Some(None)` if a node is lost.
fn attempt_once(queue: &Queue, thread: &Thread<Fabric>, what: Call) -> Option<Option<()>> {
    let pushed = |outcome: Pushed<u64>| pushed(&outcome).to_owned();
    let popped = |outcome: Popped<u64>| popped(&outcome);
    let text = outcome(LATE, String::clone);
    let made = match what {
        Call::TryPush(value) => call(
            format!("push {value}"),
            || queue.try_push(thread, value).map(pushed),
            text,
        ),
        Call::Push(value) => call(
            format!("push {value}"),
            || queue.push(thread, value).map(pushed),
            text,
        ),
        Call::TryPop => call("pop", || queue.try_pop(thread).map(popped), text),
        Call::Pop => call("pop", || queue.pop(thread).map(popped), text),
        // Closing again changes nothing.
        Call::Close => call(
            "close",
            || until_in_time(|| queue.close(thread)).map(|()| String::new()),
            text,
        ),
    };
    match made {
        Err(error) if error.is_timeout() => None,
        made => {
            let all_there = |node| assert_eq!(node, NodeId(0), "all cells are on node 0");
            Some(unless_excused(made, all_there).map(drop))
        }
    }
}

/// Builds a world with values of three words, which are written and read by more than one step.
fn wide(world: &mut World) {
    let mut stage = Stage::new(world, 2, 1, make::<[u64; 3]>(1));
    stage.run(0, 0, "pushes", |queue, thread| {
        for value in 1..=2 {
            assert_eq!(must(queue.push(thread, [value; 3])), Pushed::Done);
        }
    });
    stage.run(1, 0, "pops", |queue, thread| {
        for value in 1..=2 {
            assert_eq!(
                must(queue.pop(thread)),
                Popped::Value([value; 3]),
                "whole, and in order"
            );
        }
    });
}

/// Returns the worlds of the queue.
pub(crate) fn worlds() -> Vec<NamedWorld> {
    use Call::{Close, Pop, Push, TryPop, TryPush};
    const TRY: Script<Call, 2> = [(0, &[TryPush(1), TryPush(2)]), (1, &[TryPop, TryPop])];
    const BLOCK: Script<Call, 2> = [(1, &[Push(1), Push(2)]), (0, &[Pop, Pop])];
    const BOTH: Script<Call, 2> = [(0, &[TryPush(1), TryPop]), (1, &[TryPush(2), TryPop])];
    const CLOSE: Script<Call, 2> = [(0, &[TryPush(1), Close]), (1, &[TryPop, TryPush(2), TryPop])];
    const CLOSERS: Script<Call, 2> = [(0, &[Close, TryPop]), (1, &[TryPush(1), Close])];
    const WAKE: Script<Call, 2> = [(0, &[Pop]), (1, &[Close])];
    // Closing marks a cell of node 0 from node 1. A call that returns early leaves the mark under way.
    const CLOSED: Script<Call, 2> = [(0, &[TryPop]), (1, &[Close])];
    // Node 0 has not heard of the first push: it begins its search for the end of the queue at a filled cell.
    const BETWEEN: Script<Call, 2> = [(0, &[Close]), (1, &[TryPush(1), TryPush(2)])];
    const FILL: Script<Call, 2> = [
        (0, &[Push(1), Push(2), Push(3), Push(4), TryPush(5)]),
        (1, &[Pop, TryPop, TryPop]),
    ];
    const FULL: Script<Call, 2> = [(0, &[TryPush(1), TryPop]), (1, &[TryPush(2), TryPush(3)])];
    const ALONE: Script<Call, 2> = [(0, &[TryPush(1)]), (1, &[TryPop, TryPush(2), TryPop])];
    // A pop that is lost leaves its cell claimed. The queue must not stay full for pushes and empty for pops.
    const POPPER: Script<Call, 2> = [(0, &[TryPush(1), TryPush(2), TryPop, TryPush(3)]), (1, &[TryPop])];
    const ROUND: Script<Call, 2> = [(1, &[Push(1), Push(2), Push(3)]), (0, &[Pop, Pop, Pop])];
    const THREADS: Script<Call, 4> = [
        (0, &[TryPush(1)]),
        (0, &[TryPop]),
        (1, &[TryPush(2)]),
        (1, &[TryPop]),
    ];
    const PUSHERS: Script<Call, 3> = [(0, &[TryPush(1)]), (1, &[TryPush(2)]), (2, &[TryPop, TryPop])];
    // The second cell is not on the node of head and tail. A claim of it must be placed before head or tail moves
    // past it: a caller that finds the queue full (or empty) by the index must not then find it empty (or full) by
    // the cell.
    const FULL_BY_TAIL: Script<Call, 2> =
        [(1, &[TryPush(1), TryPush(2)]), (0, &[TryPush(3), TryPop, TryPop])];
    const EMPTY_BY_HEAD: Script<Call, 2> = [
        (1, &[TryPush(1), TryPush(2), TryPop, TryPop]),
        (0, &[TryPop, TryPush(3), TryPush(4)]),
    ];
    vec![
        NamedWorld::new("try", calls(1, TRY)),
        NamedWorld::new("try-glob", calls(1, TRY)).glob(),
        NamedWorld::new("block", calls(1, BLOCK)),
        NamedWorld::new("both", calls(1, BOTH)),
        super::last_nodes::queue(),
        NamedWorld::new("both-two-cells", calls(2, BOTH)),
        NamedWorld::new("full-by-tail", calls(2, FULL_BY_TAIL)),
        NamedWorld::new("empty-by-head", calls(2, EMPTY_BY_HEAD)),
        NamedWorld::new("close", calls(2, CLOSE)),
        NamedWorld::new("closers", calls(1, CLOSERS)),
        NamedWorld::new("close-wakes", calls(1, WAKE)),
        NamedWorld::new("closed", calls(1, CLOSED)),
        NamedWorld::new("close-between", calls(2, BETWEEN)),
        NamedWorld::new("wide", wide),
        NamedWorld::new("round", calls(2, ROUND)),
        NamedWorld::new("round-glob", calls(2, ROUND)).glob(),
        NamedWorld::new("close-one-cell", calls(1, CLOSE)),
        NamedWorld::new("four-cells", calls(4, FILL)),
        NamedWorld::new("crash", faulty(BOTH)).crash(),
        NamedWorld::new("crash-try", faulty(TRY)).crash(),
        NamedWorld::new("crash-full", faulty(FULL)).crash(),
        NamedWorld::new("crash-alone", faulty(ALONE)).crash(),
        NamedWorld::new("crash-pop", faulty(POPPER)).crash(),
        NamedWorld::new("crash-close", faulty(CLOSERS)).crash(),
        NamedWorld::new("expiry", faulty(BOTH)).expiries(1),
        NamedWorld::new("block-expiry", faulty(BLOCK)).expiries(1),
        NamedWorld::new("suspicion", faulty(TRY)).suspicion(),
        NamedWorld::new("suspicion-both", faulty(BOTH)).suspicion(),
        NamedWorld::new("two-threads", calls(2, THREADS)),
        NamedWorld::new("three-nodes", calls(2, PUSHERS)),
    ]
}
