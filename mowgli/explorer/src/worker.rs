//! A worker of a search. It searches depth first from the states that it has.
//!
//! Copying states is the main cost of a search. A state with an eager move is therefore changed in place, the
//! last move of a state takes it over, and the storage of finished states is used again.

use std::sync::atomic::Ordering;

use crate::bounds::Spent;
use crate::limits::Limit;
use crate::node::Node;
use crate::shared::{Ended, Shared, Stats};
use crate::system::{Flow, System};
use crate::visited::fingerprint;

/// The number of moves between two reports, which look at the limits.
const BATCH: u64 = 512;
/// The most states kept for their storage.
const SPARE_MAX: usize = 64;

/// A state with moves still to be made.
struct Frame<S> {
    /// The state; `None` once the last move has taken it.
    node: Option<Box<Node<S>>>,
    /// The remaining moves, as a range of `Worker::choices`. The last one comes first.
    start: usize,
    end: usize,
    /// The share of this state's part of the tree that each move gets.
    share: f64,
    /// Set when a move has been explored from here that must happen and does not merely stutter.
    progressed: bool,
}

/// The result of entering a state.
enum Entered {
    /// The state has choices. Its frame is on the stack.
    Frame,
    /// The state stutters from a visited one.
    Stutters,
    /// The state was visited before, or is an end.
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
    /// The part of `stats` that has been reported.
    reported: Stats,
    closed: f64,
    /// The number of moves between two reports: [`BATCH`], or fewer where few states are allowed.
    batch: u64,
    /// Set when a limit of executions was met, or the system said to stop.
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

    /// Enters the first state. Returns false if there is none.
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

    /// Explores states that others give away, until no worker has any left.
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

    /// Makes moves. Returns true when nothing is left or the search stops, and false when about `moves_max`
    /// moves were made.
    pub(crate) fn run(&mut self, moves_max: u64) -> Result<bool, W::Error> {
        let end = self.stats.moves.saturating_add(moves_max);
        while !self.stopped {
            if self.is_due() && !self.report(self.frames.is_empty()) {
                // The deepest state that the search has kept tells best what executions were at.
                let open = self.frames.iter().rev().find_map(|frame| frame.node.as_ref());
                if let Some(node) = open {
                    self.system.limited(&node.state);
                }
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
            // This is the last chance to make progress from here.
            let must_follow = is_last && !top.progressed;
            let share = top.share;
            let Some(mut node) = self.child(self.frames.len() - 1, is_last) else {
                continue;
            };
            (node.spent, node.share) = (spent, share);
            let progresses = !self.system.is_optional(&node.state, what);
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
            self.frames[parent].progressed |= progresses;
        }
        self.frames.clear();
        self.choices.clear();
        Ok(true)
    }

    /// Returns the state of a frame. It is a copy, in the storage of a retired state if there is one. For the
    /// frame's last move it is the state itself.
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

    /// Takes back a state that is no longer needed.
    fn retire(&mut self, node: Option<Box<Node<W::State>>>) {
        if self.spare.len() < SPARE_MAX {
            self.spare.extend(node);
        }
    }

    /// Makes a move. Returns false if the execution is not followed further.
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

    /// Moves on to a state with a choice. Pushes its frame if the state is new.
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

    /// Does the work of [`enter`](Worker::enter) except for the frame, whose choices it leaves in `choices`.
    fn visit(&mut self, node: &mut Node<W::State>, may_stutter: bool) -> Result<Entered, W::Error> {
        let shared = self.shared;
        let options = shared.options;
        loop {
            self.moves.clear();
            // A path without choices can be long, too.
            if self.is_due() && !self.report(false) {
                self.system.limited(&node.state);
                return Ok(Entered::Closed);
            }
            if node.depth > options.depth_max {
                self.stopped = true;
                self.system.limited(&node.state);
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
        }
        self.stats.depth = self.stats.depth.max(node.depth);
        self.bytes.clear();
        self.system.encode(&node.state, &mut self.bytes);
        if let Some(bounds) = options.bounds {
            node.spent.encode(bounds, &mut self.bytes);
        }
        let hash = fingerprint(&self.bytes);
        let system = &self.system;
        // An execution may end in a state whose moves are all optional.
        let is_end = self
            .moves
            .iter()
            .all(|&what| system.is_optional(&node.state, what));
        if may_stutter && options.bounds.is_none() && !is_end {
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

    /// Pushes those of `moves` that must be explored onto `choices`. Afterwards `moves.len()` is the number of moves pushed.
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
        let choice = |what| system.choice(what);
        if node
            .spent
            .within(bounds, &self.moves, mover, choice, &mut self.choices)
        {
            // Relaxed: the flag is read after the workers are joined.
            self.shared.cut.store(true, Ordering::Relaxed);
        }
        self.moves.truncate(self.choices.len() - start);
    }

    /// Returns whether it is time for a report.
    fn is_due(&self) -> bool {
        let moves = self.stats.moves - self.reported.moves;
        moves >= self.batch || moves > 0 && self.shared.options.limits.is_late_after(self.stats.moves)
    }

    /// Adds to the common counts and looks at the limits. Returns false if the search is to stop. `is_over`
    /// says that this worker has nothing left to do.
    fn report(&mut self, is_over: bool) -> bool {
        let states = self.stats.states - self.reported.states;
        let ends = self.stats.ends - self.reported.ends;
        let closed = std::mem::take(&mut self.closed);
        self.reported = self.stats;
        let goes_on = self.shared.report(states, ends, closed, is_over);
        self.stopped |= !goes_on;
        goes_on
    }

    /// Gives away a state that another worker can start from, namely the one with the most work below it.
    fn give(&mut self) -> Result<(), W::Error> {
        let Some(at) = self.frames.iter().position(|f| f.start < f.end) else {
            return Ok(());
        };
        let frame = &mut self.frames[at];
        let (what, spent) = self.choices[frame.start];
        frame.start += 1;
        if let Some(node) = &frame.node {
            frame.progressed |= !self.system.is_optional(&node.state, what);
        }
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
