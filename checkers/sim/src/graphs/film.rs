//! An execution as a film: the machine after each step, with the calls of objects and what was outstanding.
//!
//! Repeats a schedule, as the graphs do, and describes its steps as traces do ([`Tracer`]). Used on request, after an exploration, by
//! `loco check --html`.

use std::cell::RefCell;
use std::collections::BTreeSet;

use mowgli::machine::{Addr, Step, View};
use mowgli::program::Value;
use serde::Serialize;

use crate::exploring::script::Script;
use crate::exploring::walk::{Builder, Walker};
use crate::fabric::request::{Note, Request, VirtualWord};
use crate::reports::schedule::Schedule;
use crate::reports::trace::{TraceStep, Tracer, name_of};
use crate::state::sharing::SeenAccesses;
use crate::state::{Common, Move, State, Status};
use crate::{Config, SimError};

/// An execution, step by step.
#[derive(Clone, Debug, Serialize)]
pub struct Film {
    /// The number of nodes.
    pub nodes: u16,
    /// The threads, by number.
    pub threads: Vec<FilmThread>,
    /// The words of memory that the film shows: those that change or are in a buffer at some time.
    pub words: Vec<FilmWord>,
    /// The states: the first before any step, and then one after each step.
    pub frames: Vec<Frame>,
    /// The calls of objects.
    pub calls: Vec<FilmCall>,
    /// The other records of threads, made with [`note`](crate::note()), oldest first.
    pub notes: Vec<FilmNote>,
    /// The thread that panicked, with its message; `None` for other failures, which belong to no thread.
    pub failure: Option<(u16, String)>,
}

/// A thread of a film.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FilmThread {
    /// Its name, as traces give it.
    pub name: String,
    /// Its node, from 0.
    pub node: u16,
}

/// A word of a film.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FilmWord {
    /// Its name, as traces give it.
    pub name: String,
    /// The node in whose memory it is, from 0.
    pub node: u16,
}

/// A state of a film.
#[derive(Clone, Debug, Serialize)]
pub struct Frame {
    /// The step that led here; `None` for the first state.
    pub step: Option<TraceStep>,
    /// The thread that took the step, or whose store buffer or queue pair did; `None` for faults and for the first
    /// state.
    pub thread: Option<u16>,
    /// Set if the thread itself took the step.
    pub cpu: bool,
    /// The threads, by number. A thread that starts later has no entry yet.
    pub threads: Vec<ThreadFrame>,
    /// The buffers. The memory in this view is empty: [`Frame::memory`] has the values.
    pub machine: View,
    /// The values of [`Film::words`], in decimal and without sign. They are text, since some readers of JSON know no
    /// integers above 2^53.
    pub memory: Vec<String>,
    /// The operations that have been issued and have not taken effect.
    pub outstanding: Vec<String>,
}

/// A thread in a state of a film.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ThreadFrame {
    /// `ready`, `waiting`, `ended`, `panicked`, or `stopped` with its node.
    pub state: &'static str,
    /// The condition that it waits for.
    pub waits_for: Option<String>,
}

/// A call of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FilmCall {
    /// The thread.
    pub thread: u16,
    /// The call in words.
    pub what: String,
    /// The frame in which it begins.
    pub from: usize,
    /// The frame in which it returns; `None` if it does not.
    pub to: Option<usize>,
    /// The result in words.
    pub result: Option<String>,
}

/// A record of a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FilmNote {
    /// The thread.
    pub thread: u16,
    /// The record.
    pub text: String,
    /// The frame in which it is made.
    pub at: usize,
}

/// Returns the film of the execution that `schedule` leads to, up to its failure or its end.
pub(crate) fn of(config: &Config, builder: Builder<'_>, schedule: &Schedule) -> Result<Film, SimError> {
    let common = Common::default();
    let mut walker = Walker::new(&common, config, builder, SeenAccesses::default());
    let mut at = walker.start()?;
    walker.wake_threads(&mut at)?;
    let _traces = walker.traces();
    let mut tracer = Tracer::default();
    let mut camera = Camera::new(&common, &at.state);
    camera.take(&at.state, &tracer, None);
    let mut script = Script::new(config, schedule);
    while let Some(what) = script.next_unless_failed(&mut walker, &mut at)? {
        camera.note(&at.state, what);
        let before = tracer.steps.len();
        tracer.place = walker.place_of(&mut at, what)?;
        tracer.see(&common, &mut at.state, what);
        walker.take(&mut at, what)?;
        // Some moves, such as those of the platform's locks, say nothing about memory and have no words.
        if tracer.steps.len() > before {
            camera.take(&at.state, &tracer, Some(what));
        }
    }
    let failure = walker.failed(&at.state);
    Ok(camera.finish(&at.state, failure))
}

/// Takes the frames. Keeps only the changes of memory, since most words do not change.
struct Camera<'a> {
    common: &'a Common,
    frames: Vec<Frame>,
    calls: Vec<FilmCall>,
    notes: Vec<FilmNote>,
    /// Memory before the first step.
    first: Vec<Value>,
    /// Memory in the last frame.
    memory: Vec<Value>,
    /// The words that each frame has changed, with their values.
    changes: Vec<Vec<(usize, Value)>>,
    /// The words that are named in some buffer.
    named: RefCell<BTreeSet<usize>>,
}

impl<'a> Camera<'a> {
    fn new(common: &'a Common, state: &State) -> Camera<'a> {
        let memory = state.machine.memory().to_vec();
        Camera {
            common,
            frames: Vec::new(),
            calls: Vec::new(),
            notes: Vec::new(),
            first: memory.clone(),
            memory,
            changes: Vec::new(),
            named: RefCell::default(),
        }
    }

    fn take(&mut self, state: &State, tracer: &Tracer, what: Option<Move>) {
        let (thread, cpu) = match what {
            Some(Move::Thread(thread)) => (Some(thread), true),
            Some(Move::Machine(Step::Drain { thread })) => (Some(thread), false),
            Some(Move::Machine(Step::Nic { qp, .. })) => (Some(qp.thread), false),
            Some(Move::Fault(_)) | None => (None, false),
        };
        let mut machine = state.machine.view_from(0, &|addr| {
            self.named.borrow_mut().insert(addr.0 as usize);
            name_of(self.common, addr)
        });
        let memory = std::mem::take(&mut machine.memory);
        let changed = memory.iter().enumerate();
        self.changes.push(
            changed
                .filter(|&(at, &value)| self.memory.get(at).copied().unwrap_or_default() != value)
                .map(|(at, &value)| (at, value))
                .collect(),
        );
        self.memory = memory;
        self.frames.push(Frame {
            step: what.and(tracer.steps.last().cloned()),
            thread,
            cpu,
            threads: (0..state.threads.len()).map(|t| self.thread(state, t)).collect(),
            machine,
            memory: Vec::new(),
            outstanding: tracer.outstanding(),
        });
    }

    fn thread(&self, state: &State, thread: usize) -> ThreadFrame {
        let thread = &state.threads[thread];
        ThreadFrame {
            state: match thread.status {
                Status::Ready => "ready",
                Status::Parked => "waiting",
                Status::Done => "ended",
                Status::Failed => "panicked",
                Status::Stopped => "stopped",
            },
            waits_for: match (&thread.wait, thread.status) {
                (Some(wait), Status::Parked) => Some(wait.what(self.common).to_string()),
                _ => None,
            },
        }
    }

    /// Notes a move that is about to be taken, if it begins or ends a call or makes a record.
    fn note(&mut self, state: &State, what: Move) {
        let Move::Thread(thread) = what else { return };
        let frame = self.frames.len();
        match state.request(self.common, thread) {
            Some(Request::Note(Note::Call(text))) => self.calls.push(FilmCall {
                thread,
                what: text.to_string(),
                from: frame,
                to: None,
                result: None,
            }),
            Some(Request::Note(Note::Return(text))) => {
                let open = |call: &&mut FilmCall| call.thread == thread && call.to.is_none();
                if let Some(call) = self.calls.iter_mut().rev().find(open) {
                    call.to = Some(frame);
                    call.result = Some(text.to_string());
                }
            }
            Some(Request::Note(Note::Mark(text))) => self.notes.push(FilmNote {
                thread,
                text: text.to_string(),
                at: frame,
            }),
            _ => {}
        }
    }

    fn finish(mut self, state: &State, failure: Option<(u16, String)>) -> Film {
        let changed = self.changes.iter().flatten().map(|&(at, _)| at);
        let shown: BTreeSet<usize> = changed.chain(self.named.take()).collect();
        // The words are shown in the order of allocation, which is that of their names.
        let mut shown: Vec<usize> = shown.into_iter().collect();
        shown.sort_by_key(|&at| self.common.words.name(at as u32));
        let mut memory = self.first;
        memory.resize(self.memory.len().max(memory.len()), 0);
        for (frame, changes) in self.frames.iter_mut().zip(&self.changes) {
            for &(at, value) in changes {
                memory[at] = value;
            }
            frame.memory = shown
                .iter()
                .map(|&at| (memory.get(at).copied().unwrap_or_default() as u64).to_string())
                .collect();
        }
        let word = |at: usize| FilmWord {
            name: name_of(self.common, Addr(at as u32)),
            node: node_of(self.common, state, at as u32),
        };
        Film {
            nodes: state.node_count() as u16,
            threads: (0..state.threads.len() as u16)
                .map(|thread| FilmThread {
                    name: format!("P{thread} ({})", state.info(thread).name),
                    node: state.info(thread).node,
                })
                .collect(),
            words: shown.into_iter().map(word).collect(),
            frames: self.frames,
            calls: self.calls,
            notes: self.notes,
            failure,
        }
    }
}

/// Returns the node of a word: that of the thread which allocated it.
fn node_of(common: &Common, state: &State, word: u32) -> u16 {
    let allocator = common.words.name(word).map(|name| name / VirtualWord::base(1));
    let known = allocator.filter(|&thread| thread < state.threads.len() as u64);
    known.map_or(0, |thread| state.info(thread as u16).node)
}
