//! The scaffold of worlds: nodes with a manager, objects and threads, and bodies that run on them.
//!
//! Used by every world. Set-ups are not explored, so objects and `Thread`s are made there.

use std::sync::{Arc, Mutex, PoisonError};

use loco::fabric::{NodeId, Peers};
use loco::raw::Flags;
use loco::{Error, Manager, Result, SharedRegion, SharedVar, Thread};
use loco_sim::spec::{Operation, Violation, operations};
use loco_sim::{End, ModelFabric, Node, World, faults};

/// The fabric of every world.
pub(crate) type Fabric = ModelFabric;

/// The objects of one node of a world.
pub(crate) struct Site<T> {
    pub(crate) objects: T,
    threads: Mutex<Vec<Option<Thread<Fabric>>>>,
}

/// A node of a world.
pub(crate) type At<T> = Node<Arc<Site<T>>>;

/// Unwraps a result in an explored thread. An error is a finding.
#[track_caller]
pub(crate) fn must<T>(result: Result<T>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("{error}"),
    }
}

/// Unwraps a result in a world with losses. Returns `None` if this or another node is lost, after which the thread's
/// part is over. Any other error is a finding.
#[track_caller]
pub(crate) fn unless_lost<T>(result: Result<T>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) if is_loss(&error) => None,
        Err(error) => panic!("{error}"),
    }
}

/// Returns true if the error says that this or another node is lost.
pub(crate) fn is_loss(error: &Error) -> bool {
    error.lost_peer().is_some() || matches!(error, Error::HolderLost { .. }) || error.is_declared_lost()
}

/// The number of times in a row that a call may time out because nothing else can happen, before that is a finding: such
/// a call waits for something that never comes.
const IDLE_TIMEOUTS_MAX: u32 = 6;

/// Returns the number of times in a row that a call may time out in this world before that is a finding. Each time, the
/// clock of the node passes a deadline that was ahead of it. The world allows that so often while something else could happen.
pub(crate) fn timeouts_max() -> u32 {
    faults().expiries.saturating_add(IDLE_TIMEOUTS_MAX)
}

/// Calls again until the result is no timeout.
///
/// # Panics
/// Panics if that takes too many calls.
pub(crate) fn until_in_time<T>(mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let most = timeouts_max();
    for _ in 0..most {
        match attempt() {
            Err(error) if error.is_timeout() => {}
            outcome => return outcome,
        }
    }
    panic!("{most} calls in a row have timed out: what they wait for never comes");
}

/// The result of a call that may or may not have taken effect, since a node was lost.
pub(crate) const UNKNOWN: &str = "?";
/// The result of a timed-out call. By its documentation it changed nothing.
pub(crate) const LATE: &str = "late";

/// Returns the calls in the form that a checker of histories needs. A call whose result is [`UNKNOWN`] counts as one
/// that has not returned, which may take effect or not. Calls whose result is [`LATE`] are left out.
pub(crate) fn known(calls: &[Operation]) -> Vec<Operation> {
    let known = |call: &Operation| match call.result.as_deref() {
        Some(LATE) => None,
        Some(UNKNOWN) => Some(Operation {
            result: None,
            responded: None,
            ..call.clone()
        }),
        _ => Some(call.clone()),
    };
    calls.iter().filter_map(known).collect()
}

/// Adds `count` nodes, each with the objects that `make` makes and `threads` values of [`Thread`].
pub(crate) fn nodes<T: Send + Sync + 'static>(
    world: &mut World,
    count: u16,
    threads: usize,
    make: impl Fn(&Manager<Fabric>) -> Result<T> + Clone + Send + 'static,
) -> Vec<At<T>> {
    prepared(world, count, threads, make, |_, _| {})
}

/// Adds nodes as [`nodes`] does. Each node also runs `prepare` on its objects once all nodes are there, before anything
/// is explored.
pub(crate) fn prepared<T: Send + Sync + 'static>(
    world: &mut World,
    count: u16,
    threads: usize,
    make: impl Fn(&Manager<Fabric>) -> Result<T> + Clone + Send + 'static,
    prepare: impl Fn(&T, &Thread<Fabric>) + Clone + Send + 'static,
) -> Vec<At<T>> {
    (0..count)
        .map(|_| {
            let (make, prepare) = (make.clone(), prepare.clone());
            world.node(move |fabric| {
                let manager = must(Manager::new(fabric));
                let objects = must(make(&manager));
                must(manager.wait_for_ready());
                let threads: Vec<_> = (0..threads).map(|_| must(manager.thread())).collect();
                if let Some(first) = threads.first() {
                    prepare(&objects, first);
                }
                Arc::new(Site {
                    objects,
                    threads: Mutex::new(threads.into_iter().map(Some).collect()),
                })
            })
        })
        .collect()
}

/// Adds a thread to node `at` that runs `body` with the node's [`Thread`] number `own`.
pub(crate) fn run<T: Send + Sync + 'static>(
    world: &mut World,
    at: &At<T>,
    own: usize,
    name: &str,
    body: impl FnOnce(&T, &Thread<Fabric>) + Send + 'static,
) {
    world.thread(at, name, move |site: &Arc<Site<T>>| {
        let taken = site.threads.lock().unwrap_or_else(PoisonError::into_inner)[own].take();
        if let Some(thread) = taken {
            body(&site.objects, &thread);
        }
    });
}

/// Steps that the threads of a node take in turn, with the number of the step from 1.
type Step<T> = dyn Fn(&T, &Thread<Fabric>, u64) + Send + Sync;

/// Adds threads to node `at`, one for each of the node's [`Thread`]s in `own`. They take the steps 1 to `steps` in
/// turn, each after the one before is over: calls on one object from several threads that never overlap. They hand
/// over through the word that `baton` gives.
pub(crate) fn in_turn<T: Send + Sync + 'static>(
    world: &mut World,
    at: &At<T>,
    own: &[usize],
    name: &str,
    baton: fn(&T) -> &SharedVar<u64, Fabric>,
    steps: u64,
    step: impl Fn(&T, &Thread<Fabric>, u64) + Send + Sync + 'static,
) {
    let step: Arc<Step<T>> = Arc::new(step);
    let threads = own.len() as u64;
    for (turn, &own) in own.iter().enumerate() {
        let step = step.clone();
        run(
            world,
            at,
            own,
            &format!("{name} thread {turn}"),
            move |objects, thread| {
                for number in (1..=steps).filter(|number| (number - 1) % threads == turn as u64) {
                    if threads > 1 && wait_here(thread, baton(objects), number - 1).is_none() {
                        return;
                    }
                    step(objects, thread, number);
                    if threads > 1 {
                        baton(objects).write(number);
                    }
                }
            },
        );
    }
}

/// Waits for a write of another thread of this node, whatever happens to other nodes. Returns `None` if this node is
/// declared lost.
pub(crate) fn wait_here(
    thread: &Thread<Fabric>,
    variable: &SharedVar<u64, Fabric>,
    value: u64,
) -> Option<()> {
    let there = || (variable.read() >= value).then_some(());
    unless_lost(until_in_time(|| {
        thread.wait_until("another thread of the node", Peers::None, there)
    }))
}

/// Checks the calls of every complete execution, in the order in which they began as far as they are ordered.
pub(crate) fn promise(
    world: &mut World,
    check: impl Fn(&[Operation]) -> std::result::Result<(), Violation> + 'static,
) {
    world.finally(move |end| {
        let mut calls = operations(&end.histories());
        calls.sort_by_key(|call| call.invoked);
        if let Err(violation) = check(&calls) {
            panic!("{violation}");
        }
    });
}

/// Checks the lines that the threads of every complete execution noted.
pub(crate) fn notes(world: &mut World, check: impl Fn(&[String]) + 'static) {
    world.finally(move |end: &End<'_>| check(&end.notes()));
}

/// Puts a word into a region, inline.
pub(crate) fn put_word(
    thread: &Thread<Fabric>,
    region: &SharedRegion<Fabric>,
    node: u16,
    offset: usize,
    value: u64,
) {
    must(thread.put_inline(&value.to_ne_bytes(), must(region.target(NodeId(node), offset)))).forget();
}

/// Puts words into a region from registered memory, so that the NIC reads the source later.
pub(crate) fn put_words(
    thread: &Thread<Fabric>,
    region: &SharedRegion<Fabric>,
    node: u16,
    offset: usize,
    values: &[u64],
) {
    let buffer = must(thread.mem_ref(8 * values.len()));
    for (i, &value) in values.iter().enumerate() {
        must(buffer.set_word(8 * i, value));
    }
    drop(must(buffer.put(must(region.target(NodeId(node), offset)))));
}

/// Gets a word of a region, which is not older than what this thread has put there. A get that times out is repeated.
pub(crate) fn get_word(
    thread: &Thread<Fabric>,
    region: &SharedRegion<Fabric>,
    node: u16,
    offset: usize,
) -> u64 {
    loop {
        let buffer = must(thread.mem_ref(8));
        let target = must(region.target(NodeId(node), offset));
        match must(buffer.get_with(target, Flags::STRONG)).wait() {
            Err(error) if error.is_timeout() => {}
            got => return must(must(got).word(0)),
        }
    }
}

/// Reads a word of this node's part of a region.
pub(crate) fn here(region: &SharedRegion<Fabric>, offset: usize) -> u64 {
    let mut word = [0; 8];
    must(region.read(offset, &mut word));
    u64::from_ne_bytes(word)
}
