//! A run: the threads of the world as coroutines, brought to the end of a path by giving them its replies.
//!
//! Relies on [`crate::fabric::coroutine`]. Each explorer keeps one run, and consults it for pasts that no explorer
//! has seen.

use std::cell::Cell;
use std::sync::Arc;

use mowgli::machine::Machine;

use crate::fabric::coroutine::{self, Body, Task};
use crate::fabric::reaper;
use crate::fabric::request::{ModelThreadKind, Reply, Request};
use crate::state::behaviour::{Diverged, Past};
use crate::state::sharing::SeenAccesses;
use crate::state::{Common, State, Status};
use crate::world::history::End;
use crate::world::{SetUp, World};
use crate::{Config, SimError};

/// A granted request of a path: the thread, and its reply.
pub(crate) type Granted = (u16, Reply);

/// A granted request of a path, and the past that the reply led to, where that past is the thread's own.
pub(crate) type GrantedStep = (Granted, Option<Past>);

/// The threads, suspended at their requests.
pub(crate) struct Run {
    tasks: Vec<Option<Task>>,
    /// Set when a thread has panicked and others had to be unwound for the locks that they held.
    is_over: bool,
    requests: Vec<Request>,
    log: Vec<Granted>,
    /// The values that the world keeps alive while its threads run. They are dropped after the threads.
    world: Option<World>,
    /// Blocks of the heap that every other run holds, so that what it allocates is elsewhere: a thread that depends on an address then
    /// asks for something else.
    _shift: Vec<Box<[u8]>>,
}

thread_local! {
    /// Set in every other run of this OS thread.
    static SHIFTS: Cell<bool> = const { Cell::new(false) };
}

/// The largest block that a run holds, and the distance between the sizes of two of them, in bytes.
const SHIFT_MAX: usize = 1024;
const SHIFT_STEP: usize = 16;

/// Allocates a block of each small size in every other run.
fn shift() -> Vec<Box<[u8]>> {
    let shifts = !SHIFTS.get();
    SHIFTS.set(shifts);
    let sizes = (SHIFT_STEP..=SHIFT_MAX).step_by(SHIFT_STEP);
    let held = sizes
        .filter(|_| shifts)
        .map(|size| vec![0; size - 8].into_boxed_slice());
    held.collect()
}

/// The beginning of a fresh run.
pub(crate) struct Start {
    pub(crate) run: Run,
    pub(crate) state: State,
}

impl Run {
    /// Builds the world and runs its set-up to the end. The set-up has one fixed schedule, in which the
    /// machine never delays anything.
    pub(crate) fn start(
        common: &Common,
        config: &Config,
        world: &(dyn Fn(&mut World) + Sync),
    ) -> Result<Start, SimError> {
        let mut run = Run {
            tasks: Vec::new(),
            is_over: false,
            requests: Vec::new(),
            log: Vec::new(),
            world: None,
            _shift: shift(),
        };
        config.faults.set_current();
        // Forget the labels that an earlier world left after its set-up.
        drop(coroutine::take_labels());
        let mut built = World::new(config);
        world(&mut built);
        coroutine::set_world(built.name.clone());
        let machine = Machine::new(config.machine());
        let mut state = State::new(machine, built.nodes(), config.faults);
        for SetUp {
            node,
            kind,
            name,
            body,
            ..
        } in built.take_set_up()
        {
            run.add(common, &mut state, node, kind, name, body)?;
        }
        if built.runs_programs {
            state.losses.let_nodes_leave();
        }
        run.run_until_idle(common, &mut state)?;
        common.keep_labels(coroutine::take_labels());
        let unfinished: Vec<_> = (0..state.threads.len() as u16)
            .filter(|&t| state.info(t).kind == ModelThreadKind::Worker)
            .filter(|&t| state.threads[usize::from(t)].status != Status::Done)
            .map(|t| match &state.threads[usize::from(t)].wait {
                Some(wait) => format!("{} (waits for {})", state.info(t).name, wait.what(common)),
                None => state.info(t).name.to_string(),
            })
            .collect();
        if !unfinished.is_empty() {
            let failed = run.requests.iter().find_map(|r| match r {
                Request::End(Err(message)) => Some(message.to_string()),
                _ => None,
            });
            return Err(SimError::SetUp(failed.unwrap_or_else(|| {
                format!("the set-up never ends: {}", unfinished.join(", "))
            })));
        }
        for SetUp {
            node,
            kind,
            name,
            ends_group,
            body,
        } in built.take_threads()
        {
            run.add(common, &mut state, node, kind, name, body)?;
            if let Some(count) = ends_group {
                state.make_symmetric(common, count);
            }
        }
        run.world = Some(built);
        run.log.clear();
        Ok(Start { run, state })
    }

    fn add(
        &mut self,
        common: &Common,
        state: &mut State,
        node: u16,
        kind: ModelThreadKind,
        name: Arc<str>,
        body: Body,
    ) -> Result<(), SimError> {
        let thread = state.add_thread(common, None, node, kind, name.clone());
        self.start_task(thread, node, name, body)?;
        let request = &self.requests[thread as usize];
        common
            .behaviour
            .learn(state.threads[thread as usize].past, request)
            .map_err(|diverged| SimError::diverged(&diverged))?;
        Ok(())
    }

    fn start_task(&mut self, thread: u16, node: u16, name: Arc<str>, body: Body) -> Result<(), SimError> {
        let mut task = Task::new(thread, node, name, body)
            .map_err(|e| SimError::Host(format!("no stack for another model thread: {e}")))?;
        let request = self.resume(&mut task, Reply::Unit);
        self.tasks.push(Some(task));
        self.requests.push(request);
        Ok(())
    }

    /// Resumes a thread beside the others. Returns its next request.
    fn resume(&mut self, task: &mut Task, reply: Reply) -> Request {
        let others = self.tasks.len();
        let request = reaper::beside(&mut self.tasks, || task.resume(reply));
        self.is_over |= self.tasks.len() < others;
        request
    }

    /// Grants requests in a fixed order until nothing moves. After each request, the machine runs until it is
    /// idle.
    fn run_until_idle(&mut self, common: &Common, state: &mut State) -> Result<(), SimError> {
        let mut seen = SeenAccesses::default();
        let mut steps = Vec::new();
        loop {
            let mut moved = false;
            for thread in 0..state.threads.len() as u16 {
                // A thread goes on as long as it can: a set-up is mostly one thread at a time.
                while let Some(request) = state.request(common, thread) {
                    let Some(reply) = state.grant(common, &mut seen, thread, request) else {
                        break;
                    };
                    moved = true;
                    let parked = matches!(*request, Request::Park | Request::End(_));
                    state.advance(common, thread, &reply);
                    if !parked {
                        self.give(thread, reply)?;
                        if self.is_over {
                            return Ok(());
                        }
                        self.learn(common, state)?;
                    }
                    loop {
                        steps.clear();
                        state.machine.steps(&mut steps);
                        let Some(&step) = steps.first() else { break };
                        state.take(step);
                    }
                    if parked {
                        break;
                    }
                }
                while let Some((woken, reply)) = state.wake(common) {
                    moved = true;
                    self.give(woken, reply)?;
                    if self.is_over {
                        return Ok(());
                    }
                    self.learn(common, state)?;
                    state.resume(common);
                }
            }
            if !moved {
                return Ok(());
            }
        }
    }

    /// Gives a thread its reply. The thread runs to its next request.
    fn give(&mut self, thread: u16, reply: Reply) -> Result<(), SimError> {
        let index = thread as usize;
        let spawn = match &self.requests[index] {
            Request::Spawn { node, name, .. } => Some((*node, name.clone())),
            _ => None,
        };
        // The body was handed over just before the thread asked, and is kept under the thread's number until
        // the request is granted.
        if let (Some((node, name)), Reply::Value(number)) = (spawn, &reply) {
            let body = self.take_body(thread)?;
            debug_assert_eq!(
                *number as usize,
                self.tasks.len(),
                "threads are numbered as they start"
            );
            self.start_task(*number as u16, node, name, body)?;
        }
        let Some(mut task) = self.tasks.get_mut(index).and_then(Option::take) else {
            return Err(SimError::Host(self.panic_beside_a_lock()));
        };
        self.requests[index] = self.resume(&mut task, reply.clone());
        if let Some(place) = self.tasks.get_mut(index) {
            *place = Some(task);
        }
        self.log.push((thread, reply));
        Ok(())
    }

    /// Says why an execution that is over cannot go on.
    fn panic_beside_a_lock(&self) -> String {
        let message = self.requests.iter().find_map(|r| match r {
            Request::End(Err(message)) => Some(&**message),
            _ => None,
        });
        let message = message.unwrap_or("the panic was caught");
        format!("a thread panicked, and its destructors took a lock that another thread holds: {message}")
    }

    fn take_body(&self, thread: u16) -> Result<Body, SimError> {
        coroutine::take_over(thread)
            .ok_or_else(|| SimError::Host("a thread was asked for without a body".into()))
    }

    /// Brings the threads to the end of `path`, from where they are if that is on the path. Returns `None` if
    /// they must start afresh.
    ///
    /// On the way, each thread must ask for what it asked for before in the same past. A world that is not a function of
    /// the replies that it gets, for example one that goes through a hash map in the order of its random keys, shows it here.
    pub(crate) fn follow(&mut self, common: &Common, path: &[GrantedStep]) -> Option<Result<(), SimError>> {
        let done = self.log.len();
        let is_prefix = |log: &[Granted]| log.iter().zip(path).all(|(mine, (theirs, _))| mine == theirs);
        if self.is_over || done > path.len() || !is_prefix(&self.log) {
            return None;
        }
        self.go_on(common, &path[done..])
    }

    /// Goes on from where the threads are, by `steps`. Returns `None` if they must start afresh.
    pub(crate) fn go_on(&mut self, common: &Common, steps: &[GrantedStep]) -> Option<Result<(), SimError>> {
        if self.is_over {
            return None;
        }
        for ((thread, reply), past) in steps {
            if let Err(e) = self.give_again(common, *thread, reply, *past) {
                return Some(Err(e));
            }
        }
        Some(Ok(()))
    }

    fn give_again(
        &mut self,
        common: &Common,
        thread: u16,
        reply: &Reply,
        past: Option<Past>,
    ) -> Result<(), SimError> {
        self.give(thread, reply.clone())?;
        let before = past.and_then(|past| common.behaviour.request(past));
        let now = &self.requests[usize::from(thread)];
        match before {
            Some(before) if before != now => Err(SimError::diverged(&Diverged {
                before: before.clone(),
                now: now.clone(),
            })),
            _ => Ok(()),
        }
    }

    /// Runs the world's checks of a complete execution. Returns the message of the first that panics.
    ///
    /// # Errors
    /// Returns `EndNotSymmetric` if none panics here, and one does where symmetric threads have changed places. That execution exists
    /// too, and is left out.
    pub(crate) fn check_end(&self, common: &Common, state: &State) -> Result<Option<String>, SimError> {
        let Some(world) = self.world.as_ref() else {
            return Ok(None);
        };
        let check = |places: Option<&[u16]>| {
            let end = End {
                common,
                state,
                places,
            };
            coroutine::catch(|| world.check_end(&end)).err()
        };
        let failed = check(None);
        if failed.is_none() {
            for places in state.permutations() {
                if let Some(message) = check(Some(&places)) {
                    return Err(SimError::EndNotSymmetric { message });
                }
            }
        }
        Ok(failed)
    }

    /// Records the next request of every thread of `state`, which this run has reached.
    pub(crate) fn learn(&self, common: &Common, state: &State) -> Result<(), SimError> {
        for (index, t) in state.threads.iter().enumerate() {
            // A parked thread's past is where its wait began, and its request is to be woken.
            if t.status == Status::Ready {
                let request = &self.requests[index];
                if state.tells_apart(index as u16, request) {
                    return Err(SimError::NotSymmetric {
                        thread: state.info(index as u16).name.to_string(),
                        request: format!("{request:?}"),
                    });
                }
                common
                    .behaviour
                    .learn(t.past, request)
                    .map_err(|diverged| SimError::diverged(&diverged))?;
            }
        }
        Ok(())
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // Threads are unwound on another OS thread, so no destructor of theirs reaches what is of this one.
        #[cfg(feature = "any")]
        crate::world::application::forget();
        // Dismantle threads first: they may hold what the world keeps alive. Begin with the threads that hold
        // locks, the last taken first, because others' destructors may take these locks.
        let mut tasks = std::mem::take(&mut self.tasks);
        let mut remains = Vec::with_capacity(tasks.len());
        while let Some(holder) = coroutine::last_holder() {
            let Some(task) = tasks.get_mut(usize::from(holder)) else {
                break;
            };
            remains.extend(task.take());
            // A leaked guard is never dropped.
            coroutine::lets_go_of_all(holder);
        }
        remains.extend(tasks.into_iter().flatten());
        let handed_over = coroutine::forget_handed_over();
        reaper::reap(remains, (handed_over, self.world.take()));
    }
}

/// Returns the past of a thread that no run has reached yet.
pub(crate) fn unknown(common: &Common, state: &State) -> Option<Past> {
    state
        .threads
        .iter()
        .filter(|t| t.status == Status::Ready)
        .map(|t| t.past)
        .find(|&past| common.behaviour.request(past).is_none())
}
