//! Estimates how large a search will be, by random trials.
//!
//! The number of executions is that of the paths of the reduced tree of moves. Each trial follows at most `width` states of each level,
//! with weights: the weight of a state stands for the paths that lead to it. Equal states are joined, which adds their weights. Where
//! there are more states than that, some are drawn by their weights, so that the expected weight of each stays what it was. The
//! sum of the weights of the ends is thus an unbiased estimate of the number of executions (Knuth, Mathematics of Computation 29,
//! 1975, with a width of one; Chen, SIAM Journal on Computing 21, 1992, with states as strata). It is exact if nothing was drawn.
//!
//! The number of states is not that of a tree. The estimate for it is a lower bound, from how many states several trials have found in common
//! (Chao, Biometrics 43, 1987).
//!
//! Used for explorations that a limit has ended.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::limits::Limits;
use crate::system::{Failed, Flow, System};
use crate::visited::fingerprint;

/// The trials to make.
#[derive(Clone, Copy)]
pub struct Trials<'a> {
    /// The most trials. A limit may end them before.
    pub count: u32,
    /// The most states of a level that a trial follows.
    pub width: usize,
    /// The seed of the generator.
    pub seed: u64,
    /// The most moves of an execution.
    pub depth_max: u64,
    /// The limits. Those on states are ignored.
    pub limits: Limits<'a>,
}

/// The estimated size of a search.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The estimated number of executions: paths of moves from the first state to an end, as the search reduces them.
    pub executions: f64,
    /// The standard error of `executions`.
    pub error: f64,
    /// A lower bound for the number of states. It is itself an estimate.
    pub states_min: f64,
    /// The number of trials.
    pub trials: u32,
    /// Set if a trial followed every state: the numbers are then exact.
    pub exact: bool,
}

impl Estimate {
    /// Returns the range in which the number of executions lies in nearly all cases: three standard errors to either side. The
    /// estimates of trials are skewed, so two are not enough.
    pub fn executions_range(&self) -> (f64, f64) {
        let low = self.executions - 3.0 * self.error;
        (low.max(1.0), self.executions + 3.0 * self.error)
    }
}

/// Makes trials on the system. Returns `None` if there is no first state, or no trial came to its end.
///
/// # Errors
/// Returns [`Failed::System`] if the system returned an error.
pub fn estimate<W: System>(trials: &Trials<'_>, mut system: W) -> Result<Option<Estimate>, Failed<W::Error>> {
    let Some(start) = system.start().map_err(Failed::System)? else {
        return Ok(None);
    };
    let mut counts = Vec::new();
    // In how many trials each state was found.
    let mut found: FxHashMap<u128, u32> = FxHashMap::default();
    let mut exact = false;
    for number in 0..trials.count {
        let mut trial = Trial {
            trials,
            system: &mut system,
            random: SmallRng::seed_from_u64(trials.seed.wrapping_add(number.into())),
            ends: 0.0,
            moves: Vec::new(),
            made: 0,
            drawn: false,
            states: Vec::new(),
        };
        if !trial.run(&start).map_err(Failed::System)? {
            break;
        }
        counts.push(trial.ends);
        exact |= !trial.drawn;
        trial.states.sort_unstable();
        trial.states.dedup();
        for state in trial.states {
            *found.entry(state).or_default() += 1;
        }
        if exact {
            counts.drain(..counts.len() - 1);
            break;
        }
    }
    let trials = counts.len() as u32;
    if trials == 0 {
        return Ok(None);
    }
    let n = f64::from(trials);
    let executions = counts.iter().sum::<f64>() / n;
    let squares = counts
        .iter()
        .map(|count| (count - executions).powi(2))
        .sum::<f64>();
    let error = match trials {
        _ if exact => 0.0,
        // One trial tells nothing of how far trials lie apart.
        1 => executions,
        _ => (squares / (n - 1.0) / n).sqrt(),
    };
    let times = |times| found.values().filter(|&&n| n == times).count() as f64;
    let (once, twice) = (times(1), times(2));
    // The bias-corrected form, which needs no state that was found twice.
    let unseen = match exact {
        true => 0.0,
        false => (n - 1.0) / n * once * (once - 1.0).max(0.0) / (2.0 * (twice + 1.0)),
    };
    Ok(Some(Estimate {
        executions,
        error,
        states_min: found.len() as f64 + unseen,
        trials,
        exact,
    }))
}

/// A state of a level, with the weight of the paths that lead to it and the moves that must be followed.
struct Weighed<W: System> {
    state: W::State,
    moves: Vec<W::Move>,
    weight: f64,
}

struct Trial<'a, 'b, W: System> {
    trials: &'a Trials<'b>,
    system: &'a mut W,
    random: SmallRng,
    /// The weights of the ends.
    ends: f64,
    moves: Vec<W::Move>,
    made: u64,
    /// Set if some states of a level were not followed.
    drawn: bool,
    /// The fingerprints of the states found.
    states: Vec<u128>,
}

/// A state with a choice, and what is known of it.
struct Settled<M> {
    moves: Vec<M>,
    print: u128,
    is_end: bool,
    stutters: bool,
}

impl<W: System> Trial<'_, '_, W> {
    /// Follows levels until none is left. Returns false if a limit came first.
    fn run(&mut self, start: &W::State) -> Result<bool, W::Error> {
        let mut first = start.clone();
        let mut level = Vec::new();
        match self.settle(&mut first)? {
            Some(settled) => level.extend(self.arrive(first, settled, 1.0)?),
            None => self.ends += 1.0,
        }
        let mut depth = 0;
        while !level.is_empty() {
            depth += 1;
            if depth > self.trials.depth_max || self.trials.limits.exceeded(0).is_some() {
                return Ok(false);
            }
            let mut next: FxHashMap<u128, Weighed<W>> = FxHashMap::default();
            for at in level {
                self.follow(&at, &mut next)?;
            }
            // In an order that the seed alone determines.
            let mut all: Vec<_> = next.into_iter().collect();
            all.sort_unstable_by_key(|&(print, _)| print);
            level = all.into_iter().map(|(_, at)| at).collect();
            self.draw(&mut level);
        }
        Ok(true)
    }

    /// Makes the moves of a state.
    fn follow(&mut self, at: &Weighed<W>, next: &mut FxHashMap<u128, Weighed<W>>) -> Result<(), W::Error> {
        let mut progressed = false;
        for (number, &what) in at.moves.iter().enumerate() {
            let is_optional = self.system.is_optional(&at.state, what);
            let mut state = at.state.clone();
            self.made += 1;
            let flow = self.system.apply(&mut state, what)?;
            let settled = match flow {
                Flow::On => self.settle(&mut state)?,
                _ => None,
            };
            let Some(settled) = settled else {
                self.ends += at.weight;
                continue;
            };
            // As the search does: a state that stutters is left out, unless nothing else goes on from here.
            let must_follow = number + 1 == at.moves.len() && !progressed;
            if settled.stutters && !must_follow {
                continue;
            }
            progressed |= !is_optional;
            let print = settled.print;
            match next.get_mut(&print) {
                Some(known) => {
                    self.ends += if settled.is_end { at.weight } else { 0.0 };
                    known.weight += at.weight;
                }
                None => {
                    if let Some(arrived) = self.arrive(state, settled, at.weight)? {
                        next.insert(print, arrived);
                    }
                }
            }
        }
        Ok(())
    }

    /// Makes the moves that suffice alone. Returns `None` if the execution is over by then.
    fn settle(&mut self, state: &mut W::State) -> Result<Option<Settled<W::Move>>, W::Error> {
        let mut bytes = Vec::new();
        loop {
            self.moves.clear();
            let Some(what) = self.system.eager(state, &mut self.moves) else {
                break;
            };
            self.made += 1;
            let is_late = self.made > self.trials.depth_max.saturating_mul(self.trials.width as u64);
            if is_late || !matches!(self.system.apply(state, what)?, Flow::On) {
                return Ok(None);
            }
        }
        let moves = self.moves.clone();
        let is_end = moves.iter().all(|&what| self.system.is_optional(state, what));
        let stutters = !is_end && self.system.encode_before_stutter(state, &moves, &mut bytes);
        bytes.clear();
        self.system.encode(state, &mut bytes);
        Ok(Some(Settled {
            print: fingerprint(&bytes),
            moves,
            is_end,
            stutters,
        }))
    }

    /// Counts a state that is new to its level. Returns it with the moves that must be followed, if there are any.
    fn arrive(
        &mut self,
        mut state: W::State,
        settled: Settled<W::Move>,
        weight: f64,
    ) -> Result<Option<Weighed<W>>, W::Error> {
        self.states.push(settled.print);
        self.ends += if settled.is_end { weight } else { 0.0 };
        if settled.moves.is_empty() {
            return Ok(None);
        }
        let mut moves = settled.moves;
        self.system.reduce(&mut state, &mut moves);
        self.system.keep(&mut state);
        Ok(Some(Weighed { state, moves, weight }))
    }

    /// Draws as many states of the level as are followed, if there are more: at equal distances along the sum of their weights.
    fn draw(&mut self, level: &mut Vec<Weighed<W>>) {
        let width = self.trials.width.max(1);
        if level.len() <= width {
            return;
        }
        self.drawn = true;
        let total: f64 = level.iter().map(|at| at.weight).sum();
        let share = total / width as f64;
        let mut until = self.random.random::<f64>() * share;
        let mut sum = 0.0;
        level.retain_mut(|at| {
            sum += at.weight;
            let mut times = 0.0;
            while until < sum {
                times += 1.0;
                until += share;
            }
            at.weight = times * share;
            times > 0.0
        });
    }
}
