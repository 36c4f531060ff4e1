//! The driver of worlds: nodes with a manager, objects and threads; bodies that run on them, one by one, on every node, in
//! turn or by a script; late calls and losses; checks of what they did.
//!
//! Used by every world, which adds only what its object is and promises. Set-ups are not explored, so objects and
//! `Thread`s are made there.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use loco::fabric::{NodeId, Peers};
use loco::raw::Flags;
use loco::{Error, KvConfig, Manager, Polling, Result, SharedRegion, SharedVar, Thread};
use loco_sim::spec::{Operation, Violation, operations};
use loco_sim::{End, ModelFabric, Node, World, faults};

/// The fabric of every world.
pub(crate) type Fabric = ModelFabric;

/// The objects of one node of a world.
struct Site<T> {
    objects: T,
    threads: Mutex<Vec<Option<Thread<Fabric>>>>,
}

/// A node of a world.
type At<T> = Node<Arc<Site<T>>>;

/// Returns the configuration of a store that has as few states as a store can: one slot on each node, one lock, and little room for
/// announcements.
pub(crate) fn least_store(value_bytes: usize) -> KvConfig {
    KvConfig::default()
        .slots_per_node(1)
        .value_bytes_max(value_bytes)
        .key_bytes_max(8)
        .locks(1)
        .tracker_bytes(128)
}

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

/// Unwraps a result as [`unless_lost`] does. `excuses` asserts of the lost peer that its loss is one on which the call
/// depends.
#[track_caller]
pub(crate) fn unless_excused<T>(result: Result<T>, excuses: impl FnOnce(NodeId)) -> Option<T> {
    if let Err(error) = &result
        && let Some(peer) = error.lost_peer()
    {
        excuses(peer);
    }
    unless_lost(result)
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

/// Returns how the history shows the result of a call: by `shown`; a failed call as [`UNKNOWN`]; and one that timed out as
/// `late`, which is [`LATE`] or [`UNKNOWN`].
pub(crate) fn outcome<T, S: ToString>(
    late: &'static str,
    shown: impl Fn(&T) -> S,
) -> impl Fn(&Result<T>) -> String {
    move |result| match result {
        Ok(value) => shown(value).to_string(),
        Err(error) if error.is_timeout() => late.to_owned(),
        Err(_) => UNKNOWN.to_owned(),
    }
}

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

/// Returns the calls on one part of an object, such as a row: those whose names end with `part`, without it.
pub(crate) fn on_part(calls: &[Operation], part: &str) -> Vec<Operation> {
    let on_part = |call: &Operation| {
        let name = call.name.strip_suffix(part)?.to_owned();
        Some(Operation { name, ..call.clone() })
    };
    calls.iter().filter_map(on_part).collect()
}

/// A world under construction: nodes with the objects of the world, and the threads that use them.
pub(crate) struct Stage<'w, T> {
    world: &'w mut World,
    at: Vec<At<T>>,
}

/// The calls of the threads of a world: for each thread its node and what it calls, in order.
pub(crate) type Script<C, const N: usize> = [(u16, &'static [C]); N];

/// Returns the number of nodes of a script, two at least.
pub(crate) fn nodes_of<C>(script: &[(u16, C)]) -> u16 {
    script.iter().map(|&(node, _)| node + 1).fold(2, u16::max)
}

impl<'w, T: Send + Sync + 'static> Stage<'w, T> {
    /// Adds `count` nodes, each with the objects that `make` makes and `threads` values of [`Thread`].
    pub(crate) fn new(
        world: &'w mut World,
        count: u16,
        threads: usize,
        make: impl Fn(&Manager<Fabric>) -> Result<T> + Clone + Send + 'static,
    ) -> Stage<'w, T> {
        Stage::prepared(world, count, threads, make, |_, _| {})
    }

    /// Adds nodes as [`new`](Stage::new) does. Each node also runs `prepare` on its objects once all nodes are there,
    /// before anything is explored.
    pub(crate) fn prepared(
        world: &'w mut World,
        count: u16,
        threads: usize,
        make: impl Fn(&Manager<Fabric>) -> Result<T> + Clone + Send + 'static,
        prepare: impl Fn(&T, &Thread<Fabric>) + Clone + Send + 'static,
    ) -> Stage<'w, T> {
        Stage::configured(world, (count, threads), loco::Config::default(), make, prepare)
    }

    /// Adds so many nodes, with so many threads each, as [`prepared`](Stage::prepared) does, with these settings apart from who polls.
    pub(crate) fn configured(
        world: &'w mut World,
        (count, threads): (u16, usize),
        config: loco::Config,
        make: impl Fn(&Manager<Fabric>) -> Result<T> + Clone + Send + 'static,
        prepare: impl Fn(&T, &Thread<Fabric>) + Clone + Send + 'static,
    ) -> Stage<'w, T> {
        let at = (0..count)
            .map(|_| {
                let (config, make, prepare) = (config.clone(), make.clone(), prepare.clone());
                world.node(move |fabric| {
                    let polling = match fabric.kind().has_polling_thread() {
                        true => Polling::Thread,
                        false => Polling::CallerDriven,
                    };
                    let config = config.polling(polling);
                    let manager = must(Manager::with_config(fabric, config));
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
            .collect();
        Stage { world, at }
    }

    /// Adds the nodes and the threads of a script. A thread makes its calls by `perform`, until that returns `None`
    /// because a node is lost.
    pub(crate) fn play<C: Copy + Sync + 'static, const N: usize>(
        world: &'w mut World,
        script: Script<C, N>,
        make: impl Fn(&Manager<Fabric>) -> Result<T> + Clone + Send + 'static,
        perform: impl Fn(&T, &Thread<Fabric>, C) -> Option<()> + Clone + Send + 'static,
    ) -> Stage<'w, T> {
        let mut stage = Stage::new(world, nodes_of(&script), N, make);
        stage.perform(script, perform);
        stage
    }

    /// Adds the threads of a script to nodes that are there.
    pub(crate) fn perform<C: Copy + Sync + 'static, const N: usize>(
        &mut self,
        script: Script<C, N>,
        perform: impl Fn(&T, &Thread<Fabric>, C) -> Option<()> + Clone + Send + 'static,
    ) {
        for (number, (node, calls)) in script.into_iter().enumerate() {
            let perform = perform.clone();
            self.run(
                node,
                number,
                &format!("thread {number}"),
                move |objects, thread| calls.iter().try_for_each(|&call| perform(objects, thread, call)),
            );
        }
    }

    /// Adds a thread to a node that runs `body` with the node's [`Thread`] number `own`. What `body` returns says nothing: a
    /// body that returns an `Option` ends early when a node is lost.
    pub(crate) fn run<R>(
        &mut self,
        node: u16,
        own: usize,
        name: &str,
        body: impl FnOnce(&T, &Thread<Fabric>) -> R + Send + 'static,
    ) {
        let at = &self.at[usize::from(node)];
        self.world.thread(at, name, move |site: &Arc<Site<T>>| {
            let taken = site.threads.lock().unwrap_or_else(PoisonError::into_inner)[own].take();
            if let Some(thread) = taken {
                body(&site.objects, &thread);
            }
        });
    }

    /// Adds a thread to each of `nodes`, which runs `body` with the node's first [`Thread`] and the number of the node.
    /// It is called `role` and that number.
    pub(crate) fn each<R>(
        &mut self,
        role: &str,
        nodes: impl IntoIterator<Item = u16>,
        body: impl Fn(&T, &Thread<Fabric>, u16) -> R + Clone + Send + 'static,
    ) {
        for node in nodes {
            let body = body.clone();
            self.run(node, 0, &format!("{role} {node}"), move |objects, thread| {
                body(objects, thread, node)
            });
        }
    }

    /// Adds `threads` threads to each node, which run `body` with the numbers of the node and of the thread.
    pub(crate) fn everywhere<R>(
        &mut self,
        threads: usize,
        body: impl Fn(&T, &Thread<Fabric>, (u16, usize)) -> R + Clone + Send + 'static,
    ) {
        for node in (0..).take(self.at.len()) {
            for own in 0..threads {
                let body = body.clone();
                self.run(
                    node,
                    own,
                    &format!("node {node} thread {own}"),
                    move |objects, thread| body(objects, thread, (node, own)),
                );
            }
        }
    }

    /// Adds threads to a node, one for each of the node's [`Thread`]s in `own`. They take the steps 1 to `steps` in
    /// turn, each after the one before is over: calls on one object from several threads that never overlap. They hand
    /// over through the word that `baton` gives.
    pub(crate) fn in_turn(
        &mut self,
        node: u16,
        own: Range<usize>,
        name: &str,
        baton: fn(&T) -> &SharedVar<u64, Fabric>,
        steps: u64,
        step: impl Fn(&T, &Thread<Fabric>, u64) + Send + Sync + 'static,
    ) {
        let step = Arc::new(step);
        let threads = own.len() as u64;
        for (turn, own) in own.enumerate() {
            let step = step.clone();
            self.run(
                node,
                own,
                &format!("{name} thread {turn}"),
                move |objects, thread| {
                    for number in (1..=steps).filter(|number| (number - 1) % threads == turn as u64) {
                        if threads > 1 {
                            wait_here(thread, baton(objects), number - 1)?;
                        }
                        step(objects, thread, number);
                        if threads > 1 {
                            baton(objects).write(number);
                        }
                    }
                    Some(())
                },
            );
        }
    }

    /// Checks the calls of every complete execution, in the order in which they began as far as they are ordered.
    pub(crate) fn promise(
        &mut self,
        check: impl Fn(&[Operation]) -> std::result::Result<(), Violation> + 'static,
    ) {
        self.world.finally(move |end| {
            let mut calls = operations(&end.histories());
            calls.sort_by_key(|call| call.invoked);
            if let Err(violation) = check(&calls) {
                panic!("{violation}");
            }
        });
    }

    /// Checks the lines that the threads of every complete execution noted.
    pub(crate) fn notes(&mut self, check: impl Fn(&[String]) + 'static) {
        self.world.finally(move |end: &End<'_>| check(&end.notes()));
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
