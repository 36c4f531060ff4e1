//! Describes the world that an exploration runs: nodes with their set-up, threads, and checks at the end.

#[cfg(feature = "any")]
mod application;
pub(crate) mod history;
pub(crate) mod run;

use std::any::Any;
use std::fmt::Display;
use std::panic::Location;
use std::sync::{Arc, Mutex, PoisonError};

use crate::fabric::blame::Blame;
use crate::fabric::coroutine::{Body, ask};
use crate::fabric::request::{ModelThreadKind, Note, Reply, Request};
use crate::fabric::{ModelFabric, Options, place};
use crate::world::history::End;
use crate::{Config, Faults};

/// A world under construction. The closure given to [`explore`](crate::explore) is called for every run and
/// must build the same world each time. The threads of one world share state only through the fabric.
pub struct World {
    pub(crate) name: Option<Arc<str>>,
    options: Options,
    set_up: Vec<SetUp>,
    threads: Vec<SetUp>,
    node_count: Arc<Mutex<u16>>,
    finally: Vec<Check>,
    /// The values that set-ups returned. The world drops them, not a thread, so that tearing down is not
    /// explored.
    keep: Vec<Box<dyn Any>>,
    /// Set if nodes run programs, whose ends are those of their processes.
    pub(crate) runs_programs: bool,
}

type Check = Box<dyn Fn(&End<'_>)>;

pub(crate) struct SetUp {
    pub(crate) node: u16,
    pub(crate) kind: ModelThreadKind,
    pub(crate) name: Arc<str>,
    /// Set for the last of a group of symmetric threads: their number.
    pub(crate) ends_group: Option<u16>,
    pub(crate) body: Body,
}

/// A node of the world, with the value that its set-up returned.
pub struct Node<T> {
    id: u16,
    state: Arc<Mutex<Option<Arc<T>>>>,
}

impl<T> Clone for Node<T> {
    fn clone(&self) -> Self {
        Node {
            id: self.id,
            state: self.state.clone(),
        }
    }
}

impl<T> Node<T> {
    /// Returns the value of the set-up; `None` before the set-up has run.
    pub fn get(&self) -> Option<Arc<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl World {
    pub(crate) fn new(config: &Config) -> World {
        World {
            name: None,
            options: Options {
                kind: config.fabric,
                glob: config.glob,
                tier: config.tier,
                timed: config.faults.timed(),
                lossy: config.faults.lossy(),
            },
            set_up: Vec::new(),
            threads: Vec::new(),
            node_count: Arc::new(Mutex::new(0)),
            finally: Vec::new(),
            keep: Vec::new(),
            runs_programs: false,
        }
    }

    /// Names the world, for messages about it.
    pub fn name(&mut self, name: &str) {
        self.name = Some(name.into());
    }

    /// Adds a node. `set_up` runs on it before the exploration begins, together with the other nodes'
    /// set-ups. Set-ups run with one fixed schedule and are not explored. Typically, a set-up makes a manager
    /// and channels and waits until they are ready.
    pub fn node<T: Send + Sync + 'static>(
        &mut self,
        set_up: impl FnOnce(ModelFabric) -> T + Send + 'static,
    ) -> Node<T> {
        let id = self.set_up.len() as u16;
        *self.node_count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        let (count, options) = (self.node_count.clone(), self.options);
        let state = Arc::new(Mutex::new(None));
        let slot = state.clone();
        self.set_up.push(SetUp {
            node: id,
            kind: ModelThreadKind::Worker,
            name: format!("set-up of node {id}").into(),
            ends_group: None,
            body: Box::new(move || {
                let nodes = *count.lock().unwrap_or_else(PoisonError::into_inner);
                let result = set_up(ModelFabric::new(id, nodes, options));
                *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(result));
            }),
        });
        self.keep.push(Box::new(state.clone()));
        Node { id, state }
    }

    /// Adds a thread on a node. Its schedule is explored; a panic in it is a failure.
    pub fn thread<T: Send + Sync + 'static>(
        &mut self,
        node: &Node<T>,
        name: &str,
        body: impl FnOnce(&T) + Send + 'static,
    ) {
        let state = node.clone();
        self.threads.push(SetUp {
            node: node.id,
            kind: ModelThreadKind::Worker,
            name: name.into(),
            ends_group: None,
            body: Box::new(move || {
                if let Some(state) = state.get() {
                    body(&state);
                }
            }),
        });
    }

    /// Adds `count` threads on a node that run the same code. They are explored up to symmetry: executions in which they have changed
    /// places count as one, where an exploration is exhaustive and reduces.
    ///
    /// The threads use only what was made before they began, by the node's set-up: what one of them makes itself, such as a
    /// `Thread` of a manager or a queue pair, tells it from the others, and ends the exploration with
    /// [`SimError::NotSymmetric`](crate::SimError::NotSymmetric). A thread that calls objects by [`call`] is explored as itself from its
    /// first call on, as the history names it. A check of ends must not ask which of the threads has done something: it is made of each end
    /// with the threads in other places too, and one that holds of one order only ends the exploration with
    /// [`SimError::EndNotSymmetric`](crate::SimError::EndNotSymmetric).
    pub fn symmetric_threads<T: Send + Sync + 'static>(
        &mut self,
        node: &Node<T>,
        count: u16,
        name: &str,
        body: impl Fn(&T) + Clone + Send + 'static,
    ) {
        for number in 0..count {
            self.thread(node, &format!("{name} {number}"), body.clone());
        }
        if let Some(last) = self.threads.last_mut().filter(|_| count > 0) {
            last.ends_group = Some(count);
        }
    }

    /// Adds the nodes of a program. Each runs `program` from its beginning to its end on a fabric of its own, and all of its steps
    /// are explored, set-up and end included. An error that it returns is a failure, as a panic is.
    ///
    /// The program takes its clock and its threads from the fabric's platform and ends by itself: no time passes, unless
    /// [`Faults`] let deadlines pass.
    pub fn program<E: Display>(
        &mut self,
        nodes: u16,
        program: impl Fn(ModelFabric) -> Result<(), E> + Send + Sync + 'static,
    ) {
        self.program_with_faults(nodes, program, |_| None);
    }

    /// Adds the nodes of a program, as [`program`](World::program) does, where [`Faults`] may happen. `blames` says of an error which
    /// fault it reports, if it reports one. Such an error is no failure if that fault has happened: a loss of the node that it names,
    /// or a deadline of the node that fails. The loss of another node is no excuse, and nor is another node's deadline.
    ///
    /// Once a fault has happened, a node whose program ends, with or without an error, is lost to the others, as a process that
    /// exits is.
    pub fn program_with_faults<E: Display>(
        &mut self,
        nodes: u16,
        program: impl Fn(ModelFabric) -> Result<(), E> + Send + Sync + 'static,
        blames: impl Fn(&E) -> Option<Blame> + Send + Sync + 'static,
    ) {
        self.runs_programs = true;
        // Whoever ends after a fault is lost to the others.
        self.options.lossy |= faults().any();
        let parts = Arc::new((program, blames));
        for number in 0..nodes {
            let (node, parts) = (self.node(|fabric| fabric), parts.clone());
            self.thread(&node, &format!("node {number}"), move |fabric: &ModelFabric| {
                let (program, blames) = &*parts;
                let ended = program(fabric.clone());
                let is = |request| faults().any() && ask(request) == Reply::Value(1);
                if let Err(error) = ended {
                    match blames(&error) {
                        Some(blame) if is(Request::HasHappened(blame)) => {}
                        Some(_) => panic!("the program failed, and what it blames has not happened: {error}"),
                        None => panic!("the program failed: {error}"),
                    }
                }
                if is(Request::Faulted) {
                    ask(Request::Leave);
                }
            });
        }
    }

    /// Adds a check of every complete execution. A panic in the check is a failure.
    pub fn finally(&mut self, check: impl Fn(&End<'_>) + 'static) {
        self.finally.push(Box::new(check));
    }

    pub(crate) fn nodes(&self) -> usize {
        self.set_up.len().max(usize::from(
            *self.node_count.lock().unwrap_or_else(PoisonError::into_inner),
        ))
    }

    pub(crate) fn take_set_up(&mut self) -> Vec<SetUp> {
        std::mem::take(&mut self.set_up)
    }

    pub(crate) fn take_threads(&mut self) -> Vec<SetUp> {
        std::mem::take(&mut self.threads)
    }

    pub(crate) fn check_end(&self, end: &End<'_>) {
        for check in &self.finally {
            check(end);
        }
    }
}

/// Returns the faults that may happen in the executions of the running thread's world, for code that tells a call which is late
/// as often as the faults allow from one that never ends. Outside worlds no fault may happen.
pub fn faults() -> Faults {
    Faults::current()
}

/// Adds a line to the history of the running thread. Lines of different threads are not ordered among one another.
#[track_caller]
pub fn note(text: impl Display) {
    place::records_at(Location::caller());
    ask(Request::Note(Note::Mark(text.to_string().into())));
}

/// Runs an object call and records it in the history: the text `call` before the call, and the text that `result`
/// makes of its value after it. For linearizability, the history records which calls had returned when another began.
#[track_caller]
pub fn call<T, D: Display>(call: impl Display, run: impl FnOnce() -> T, result: impl FnOnce(&T) -> D) -> T {
    place::records_at(Location::caller());
    if ask(Request::Note(Note::Call(call.to_string().into()))) == Reply::Dismantled {
        return run();
    }
    let value = run();
    let text = result(&value).to_string();
    ask(Request::Note(Note::Return(text.into())));
    value
}
