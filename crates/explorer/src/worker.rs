//! One worker of a search: depth first from the states that it has.
//!
//! Copies of states are what a search costs. So a state with an eager move is changed in place, the last move of a state
//! takes it over, and storage of states that are done with is used again.

use std::sync::atomic::Ordering;

use crate::bounds::Spent;
use crate::limits::Limit;
use crate::node::Node;
use crate::shared::{Ended, Shared, Stats};
use crate::system::{Flow, System};
use crate::visited::fingerprint;

/// Moves between two looks at limits and at idle workers.
const BATCH: u64 = 512;
/// Most states kept for their storage.
const SPARE_MAX: usize = 64;

/// A state with moves still to be made.
struct Frame<S> {
    /// Nothing once the last move has it.
    node: Option<Box<Node<S>>>,
    /// Moves still to be made, as a range of `Worker::choices`; the last comes first.
    start: usize,
    end: usize,
    /// What each move gets of this state's share of the tree.
    share: f64,
    /// Something else than stuttering has been explored from here.
    progressed: bool,
}

/// What became of a state.
enum Entered {
    /// It has choices; its frame is on the stack.
    Frame,
    /// It stutters from a visited one.
    Stutters,
    /// It was visited before, or is an end.
    Closed,
}

/// A worker.
pub(crate) struct Worker<'a, W: System> {
    shared: &'a Shared<'a, W>,
    system: W,
    frames: Vec<Frame<W::State>>,
    choices: Vec<(W::Move, Spent)>,
    moves: Vec<W::Move>,
    bytes: Vec<u8>,
    spare: Vec<Box<Node<W::State>>>,
    stats: Stats,
    /// What has been reported of `stats`.
    reported: Stats,
    closed: f64,
    /// Moves between two reports.
    batch: u64,
    /// A limit of executions was met, or the system said to stop.
    stopped: bool,
}

impl<'a, W: System> Worker<'a, W> {
    pub(crate) fn new(shared: &'a Shared<'a, W>, system: W) -> Self {
        Worker {
            shared,
            system,
            frames: Vec::new(),
            choices: Vec::new(),
            moves: Vec::new(),
            bytes: Vec::new(),
            spare: Vec::new(),
            stats: Stats::default(),
            reported: Stats::default(),
            closed: 0.0,
            batch: shared
                .options
                .limits
                .states_max
                .map_or(BATCH, |max| max.clamp(1, BATCH)),
            stopped: false,
        }
    }

    /// Enters the first state; false if there is none.
    pub(crate) fn start(&mut self) -> Result<bool, W::Error> {
        let Some(state) = self.system.start()? else {
            return Ok(false);
        };
        let node = Node {
            state,
            spent: Spent::default(),
            share: 1.0,
            depth: 0,
        };
        self.enter(Box::new(node), false)?;
        Ok(true)
    }

    /// Explores what others give away, until nobody has anything left.
    pub(crate) fn work(&mut self) -> Result<(), W::Error> {
        while let Some(node) = self.shared.pool.take() {
            self.enter(node, false)?;
            self.run(u64::MAX)?;
        }
        self.report(true);
        Ok(())
    }

    pub(crate) fn finish(self) -> (Stats, W::Collected) {
        (self.stats, self.system.collected())
    }

    /// Makes moves until nothing is left or the search stops (true), or until it made about so many (false).
    pub(crate) fn run(&mut self, moves_max: u64) -> Result<bool, W::Error> {
        let end = self.stats.moves.saturating_add(moves_max);
        while !self.stopped {
            if self.stats.moves - self.reported.moves >= self.batch && !self.report(self.frames.is_empty()) {
                break;
            }
            if self.stats.moves >= end && !self.frames.is_empty() {
                return Ok(false);
            }
            if self.shared.pool.is_hungry() {
                self.give()?;
            }
            let Some(top) = self.frames.last_mut() else {
                return Ok(true);
            };
            if top.start == top.end {
                if let Some(frame) = self.frames.pop() {
                    self.choices.truncate(frame.start);
                    self.retire(frame.node);
                }
                continue;
            }
            top.end -= 1;
            let (what, spent) = self.choices[top.end];
            self.choices.truncate(top.end);
            let is_last = top.start == top.end;
            // The last chance to get anywhere from here.
            let must_follow = is_last && !top.progressed;
            let share = top.share;
            let Some(mut node) = self.child(self.frames.len() - 1, is_last) else {
                continue;
            };
            (node.spent, node.share) = (spent, share);
            let entered = match self.apply(&mut node, what)? {
                true => self.enter(node, !must_follow)?,
                false => {
                    self.retire(Some(node));
                    Entered::Closed
                }
            };
            let parent = match entered {
                Entered::Stutters => continue,
                Entered::Frame => self.frames.len() - 2,
                Entered::Closed => self.frames.len() - 1,
            };
            self.frames[parent].progressed = true;
        }
        self.frames.clear();
        self.choices.clear();
        Ok(true)
    }

    /// Returns the state of a frame: a copy, in storage of a retired one if there is one, or itself for its
    /// last move.
    fn child(&mut self, frame: usize, is_last: bool) -> Option<Box<Node<W::State>>> {
        if is_last {
            return self.frames[frame].node.take();
        }
        let node = self.frames[frame].node.as_ref()?;
        Some(match self.spare.pop() {
            Some(mut copy) => {
                copy.state.clone_from(&node.state);
                (copy.spent, copy.share, copy.depth) = (node.spent, node.share, node.depth);
                copy
            }
            None => node.clone(),
        })
    }

    /// Takes back a state that nobody needs any more.
    fn retire(&mut self, node: Option<Box<Node<W::State>>>) {
        if self.spare.len() < SPARE_MAX {
            self.spare.extend(node);
        }
    }

    /// Makes a move; false if the execution is not followed further.
    fn apply(&mut self, node: &mut Node<W::State>, what: W::Move) -> Result<bool, W::Error> {
        self.stats.moves += 1;
        node.depth += 1;
        let flow = self.system.apply(&mut node.state, what)?;
        Ok(self.goes_on(flow))
    }

    fn goes_on(&mut self, flow: Flow<W::Finding>) -> bool {
        let finding = match flow {
            Flow::On => return true,
            Flow::Cut => return false,
            Flow::Quit => None,
            Flow::Found(finding) => Some(finding),
        };
        self.stopped = true;
        self.shared.stop(Ended::Quit, finding);
        false
    }

    /// Runs on to a state with a choice. Pushes its frame if nobody has been there.
    fn enter(&mut self, mut node: Box<Node<W::State>>, may_stutter: bool) -> Result<Entered, W::Error> {
        let entered = self.visit(&mut node, may_stutter)?;
        let start = self.choices.len() - self.moves.len();
        if let Entered::Frame = entered {
            let end = self.choices.len();
            let share = node.share / (end - start) as f64;
            self.frames.push(Frame {
                node: Some(node),
                start,
                end,
                share,
                progressed: false,
            });
        } else {
            self.closed += node.share;
            self.retire(Some(node));
        }
        Ok(entered)
    }

    /// Does what [`enter`](Worker::enter) does but for the frame, whose choices it leaves.
    fn visit(&mut self, node: &mut Node<W::State>, may_stutter: bool) -> Result<Entered, W::Error> {
        let shared = self.shared;
        let options = shared.options;
        loop {
            self.moves.clear();
            if node.depth > options.depth_max {
                self.stopped = true;
                shared.stop(Ended::Limit(Limit::Depth(options.depth_max)), None);
                return Ok(Entered::Closed);
            }
            let Some(what) = self.system.eager(&mut node.state, &mut self.moves) else {
                break;
            };
            self.moves.clear();
            if !self.apply(node, what)? {
                return Ok(Entered::Closed);
            }
            self.stats.states += u64::from(options.count_passed);
            // A way without choices can be long, too.
            if self.stats.moves - self.reported.moves >= self.batch && !self.report(false) {
                return Ok(Entered::Closed);
            }
        }
        self.stats.depth = self.stats.depth.max(node.depth);
        self.bytes.clear();
        self.system.encode(&node.state, &mut self.bytes);
        if let Some(bounds) = options.bounds {
            node.spent.encode(bounds, &mut self.bytes);
        }
        let hash = fingerprint(&self.bytes);
        if may_stutter && options.bounds.is_none() && !self.moves.is_empty() {
            self.bytes.clear();
            if self
                .system
                .encode_before_stutter(&node.state, &self.moves, &mut self.bytes)
                && shared.visited.contains(fingerprint(&self.bytes))
            {
                self.moves.clear();
                return Ok(Entered::Stutters);
            }
        }
        if !shared.visited.insert(hash) {
            self.moves.clear();
            return Ok(Entered::Closed);
        }
        self.stats.states += 1;
        let system = &self.system;
        let is_end = self
            .moves
            .iter()
            .all(|&what| system.is_optional(&node.state, what));
        if is_end {
            self.stats.ends += 1;
            let flow = self.system.end(&mut node.state)?;
            if !self.goes_on(flow) || self.moves.is_empty() {
                self.moves.clear();
                return Ok(Entered::Closed);
            }
        }
        self.choose(node);
        self.system.keep(&mut node.state);
        Ok(Entered::Frame)
    }

    /// Appends to `choices` which moves are to be made; leaves in `moves` as many.
    fn choose(&mut self, node: &mut Node<W::State>) {
        let Some(bounds) = self.shared.options.bounds else {
            self.system.reduce(&mut node.state, &mut self.moves);
            let unspent = self.moves.iter().map(|&what| (what, Spent::default()));
            self.choices.extend(unspent);
            return;
        };
        let start = self.choices.len();
        let system = &self.system;
        let mover = |what| system.is_counted(what).then(|| system.mover(what));
        if node.spent.within(bounds, &self.moves, mover, &mut self.choices) {
            // Relaxed: read after the workers are joined.
            self.shared.cut.store(true, Ordering::Relaxed);
        }
        self.moves.truncate(self.choices.len() - start);
    }

    /// Adds to the common counts and looks at the limits; false if the search is to stop. `is_over`: nothing is
    /// left to do for this worker.
    fn report(&mut self, is_over: bool) -> bool {
        let states = self.stats.states - self.reported.states;
        let ends = self.stats.ends - self.reported.ends;
        let closed = std::mem::take(&mut self.closed);
        self.reported = self.stats;
        let goes_on = self.shared.report(states, ends, closed, is_over);
        self.stopped |= !goes_on;
        goes_on
    }

    /// Gives away a state that another worker can start from: the one with the most work below it.
    fn give(&mut self) -> Result<(), W::Error> {
        let Some(at) = self.frames.iter().position(|f| f.start < f.end) else {
            return Ok(());
        };
        let frame = &mut self.frames[at];
        let (what, spent) = self.choices[frame.start];
        frame.start += 1;
        frame.progressed = true;
        let (is_last, share) = (frame.start == frame.end, frame.share);
        let Some(mut node) = self.child(at, is_last) else {
            return Ok(());
        };
        (node.spent, node.share) = (spent, share);
        if self.apply(&mut node, what)? {
            self.shared.pool.give(node);
        }
        Ok(())
    }
}
