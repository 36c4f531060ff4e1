//! Chooses the next stress so that rare outcomes are seen early.
//!
//! Every batch of runs is a trial of one stress, an *arm*. Its *reward* is the sum over the outcomes it showed of
//! `1 / (1 + n)`, where `n` is how often an outcome was seen before: new and rare outcomes count, common ones do not. An
//! arm is worth its reward *a second*, since a stress that shows twice as much in ten times the time is the worse
//! one. Tests of one family share their results, and a new family begins with the results of all. A bandit (UCB1)
//! chooses among the arms. Now and then the best arm changes by one switch, and the neighbour stays if it does better
//! than the worst arm.
//!
//! Two arms make sure that the search loses to no simple strategy by more than their share: *no stress*, and *any
//! stress*, which draws another one for each batch, as [`Strategy::Default`] does. Both are tried first. If an arm
//! has not shown an outcome of a test in several trials, it is not likely to show it in the next. Within one test, an
//! arm therefore loses worth with each trial that shows nothing new.
//! Used by [`crate::job`].

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use mowgli::generate::Random;

use crate::stress::{BadStress, Stress};

/// How stresses are chosen.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Strategy {
    /// No stress.
    None,
    /// Another stress for each batch, drawn at random.
    #[default]
    Default,
    /// The stress that earlier batches of the family recommend.
    Auto,
    /// One stress for all batches.
    Fixed(Stress),
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Strategy::None => f.write_str("none"),
            Strategy::Default => f.write_str("default"),
            Strategy::Auto => f.write_str("auto"),
            Strategy::Fixed(stress) => stress.fmt(f),
        }
    }
}

impl FromStr for Strategy {
    type Err = BadStress;

    fn from_str(text: &str) -> Result<Strategy, BadStress> {
        match text {
            "none" => Ok(Strategy::None),
            "default" => Ok(Strategy::Default),
            "auto" => Ok(Strategy::Auto),
            text => text.parse().map(Strategy::Fixed),
        }
    }
}

/// The stresses with which a search begins besides none and any, cheap ones first.
const ARMS: [&str; 15] = [
    "start=batch",
    "constant=inline",
    "place=same",
    "delay=start:3",
    "delay=between:3",
    "place=packed,delay=between:2",
    "constant=inline,delay=between:3",
    "traffic=same:0:8",
    "pin=apart,cache=owned",
    "cache=flushed,delay=start:2",
    "traffic=other:6:8,delay=start:4",
    "traffic=within:0:8,delay=start:rtt",
    "traffic=other:3:8:4,delay=between:rtt",
    "completions=5,delay=between:rtt",
    "delay=between:5",
];
/// The most arms of a family.
const ARMS_MAX: usize = 24;
/// Each trial changes an arm with a probability of one in this number.
const CHANGE: usize = 6;
/// The factor by which each trial discounts earlier results, because outcomes grow common and arms lose worth.
const KEPT: f64 = 0.99;
/// The weight of the uncertainty about an arm that was tried little, relative to the worth of the best.
const DOUBT: f64 = 0.25;
/// The time of a trial. Slow stresses get fewer runs, so that a bad arm costs little.
const TRIAL: Duration = Duration::from_millis(2);
/// The number of runs of an untried arm's first trial, and the minimum for all. Nodes synchronize three times a batch,
/// which takes as long as this many runs.
const RUNS_FIRST: usize = 50;
const RUNS_MIN: usize = 20;
/// The number of trials without a new outcome of the test after which a stress has lost half of its worth for the
/// test. It also holds for *any stress*.
const DRY: f64 = 2.0;
const DRY_ANY: f64 = 16.0;

/// The reward of a batch, and its cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// The reward, as described at the head of the module.
    pub reward: f64,
    /// Whether the test has shown an outcome for the first time.
    pub is_new: bool,
    /// The runs.
    pub runs: usize,
    /// The time.
    pub time: Duration,
}

/// The action of an arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Pull {
    One(Stress),
    /// Uses another stress each time.
    Any,
}

/// An arm and its results. Old trials count less than new ones.
#[derive(Clone, Debug)]
struct Arm {
    pull: Pull,
    trials: f64,
    runs: f64,
    reward: f64,
    seconds: f64,
}

impl Arm {
    fn new(pull: Pull) -> Arm {
        Arm {
            pull,
            trials: 0.0,
            runs: 0.0,
            reward: 0.0,
            seconds: 0.0,
        }
    }

    /// Returns the reward a second.
    fn worth(&self) -> f64 {
        self.reward / self.seconds.max(1e-6)
    }

    /// Returns the runs that take about [`TRIAL`].
    fn runs_of_a_trial(&self) -> usize {
        if self.runs == 0.0 {
            return RUNS_FIRST;
        }
        let runs = TRIAL.as_secs_f64() / (self.seconds / self.runs).max(1e-9);
        (runs as usize).max(RUNS_MIN)
    }

    fn add(&mut self, outcome: &Outcome) {
        self.trials += 1.0;
        self.runs += outcome.runs as f64;
        self.reward += outcome.reward;
        self.seconds += outcome.time.as_secs_f64();
    }

    /// Multiplies the results by `share`.
    fn scale(&mut self, share: f64) {
        for sum in [
            &mut self.trials,
            &mut self.runs,
            &mut self.reward,
            &mut self.seconds,
        ] {
            *sum *= share;
        }
    }
}

/// Chooses stresses, and keeps the results of the families.
#[derive(Clone, Debug)]
pub struct Search {
    strategy: Strategy,
    random: Random,
    families: BTreeMap<String, Vec<Arm>>,
    /// The arms of all families together.
    all: Vec<Arm>,
    /// The arm of the present trial.
    pulled: Option<Pull>,
    /// The number of trials of an arm since it last showed something new in the present test.
    dry: BTreeMap<Pull, f64>,
}

impl Search {
    /// Begins a search.
    pub fn new(strategy: Strategy, seed: u64) -> Search {
        Search {
            strategy,
            random: Random::new(seed ^ 0x5eed),
            families: BTreeMap::new(),
            all: first_arms(),
            pulled: None,
            dry: BTreeMap::new(),
        }
    }

    /// Begins a test.
    pub fn begin(&mut self) {
        self.dry.clear();
    }

    /// Draws a seed for a batch.
    pub fn seed(&mut self) -> u64 {
        self.random.bits()
    }

    /// Returns the stress of the next batch of a test of this family, and the most runs that it is worth, up to `most`.
    pub fn next(&mut self, family: &str, most: usize) -> (Stress, usize) {
        match &self.strategy {
            Strategy::None => (Stress::default(), most),
            Strategy::Fixed(stress) => (*stress, most),
            Strategy::Default => (Stress::random(&mut self.random), most),
            Strategy::Auto => {
                let (stress, runs) = self.choose(family);
                (stress, runs.min(most))
            }
        }
    }

    fn choose(&mut self, family: &str) -> (Stress, usize) {
        let all = &self.all;
        let arms = self.families.entry(family.to_owned()).or_insert_with(|| {
            let mut arms = all.clone();
            for arm in &mut arms {
                // A new family starts with one trial's weight of the other families' results, which is soon
                // outweighed.
                if arm.trials > 0.0 {
                    arm.scale(1.0 / arm.trials);
                }
            }
            arms
        });
        let trials: f64 = arms.iter().map(|arm| arm.trials).sum();
        let most = arms.iter().map(Arm::worth).fold(1e-9, f64::max);
        let doubt = |arm: &Arm| DOUBT * most * (2.0 * trials.max(1.0).ln() / arm.trials).sqrt();
        let left = |pull: Pull| {
            let dry = self.dry.get(&pull).copied().unwrap_or(0.0);
            let half = if pull == Pull::Any { DRY_ANY } else { DRY };
            half / (half + dry)
        };
        let bound = |arm: &Arm| (arm.worth() + doubt(arm)) * left(arm.pull);
        let new = arms.iter().find(|arm| arm.trials == 0.0);
        let best = new.or_else(|| arms.iter().max_by(|a, b| bound(a).total_cmp(&bound(b))));
        let (mut pull, mut runs) = match best {
            Some(arm) => (arm.pull, arm.runs_of_a_trial()),
            None => (Pull::Any, RUNS_FIRST),
        };
        let stress = match pull {
            Pull::One(stress) if new.is_none() && self.random.once_in(CHANGE) => {
                let stress = stress.neighbour(&mut self.random);
                (pull, runs) = (Pull::One(stress), RUNS_FIRST);
                stress
            }
            Pull::One(stress) => stress,
            Pull::Any => Stress::random(&mut self.random),
        };
        self.pulled = Some(pull);
        (stress, runs)
    }

    /// Learns from the outcomes of a batch of a test of this family.
    pub fn learn(&mut self, family: &str, stress: Stress, outcome: &Outcome) {
        let Some(arms) = self.families.get_mut(family) else {
            return;
        };
        let pull = self.pulled.take().unwrap_or(Pull::One(stress));
        let dry = self.dry.entry(pull).or_default();
        *dry = if outcome.is_new { 0.0 } else { *dry + 1.0 };
        for arms in [arms, &mut self.all] {
            learn(arms, pull, outcome);
            // A stress that was drawn stays if it did well.
            if pull == Pull::Any && outcome.is_new {
                learn(arms, Pull::One(stress), outcome);
            }
        }
    }

    /// Returns the stress that did best in a family, if there are results.
    pub fn best(&self, family: &str) -> Option<Stress> {
        let arms = self.families.get(family)?.iter().filter(|arm| arm.trials > 0.0);
        let stresses = arms.filter_map(|arm| match arm.pull {
            Pull::One(stress) => Some((stress, arm.worth())),
            Pull::Any => None,
        });
        let best = stresses.max_by(|(_, a), (_, b)| a.total_cmp(b));
        best.map(|(stress, _)| stress)
    }
}

fn first_arms() -> Vec<Arm> {
    let parse = |text: &&str| Pull::One(text.parse().unwrap_or_default());
    let simple = [Pull::One(Stress::default()), Pull::Any];
    simple
        .into_iter()
        .chain(ARMS.iter().map(parse))
        .map(Arm::new)
        .collect()
}

fn learn(arms: &mut Vec<Arm>, pull: Pull, outcome: &Outcome) {
    for arm in arms.iter_mut() {
        arm.scale(KEPT);
    }
    if let Some(arm) = arms.iter_mut().find(|arm| arm.pull == pull) {
        arm.add(outcome);
        return;
    }
    let mut new = Arm::new(pull);
    new.add(outcome);
    // None and any stay.
    let is_kept = |arm: &Arm| matches!(arm.pull, Pull::Any) || arm.pull == Pull::One(Stress::default());
    let known = (0..arms.len()).filter(|&at| arms[at].trials > 0.0 && !is_kept(&arms[at]));
    let worst = known.min_by(|&a, &b| arms[a].worth().total_cmp(&arms[b].worth()));
    let Some(worst) = worst.filter(|&worst| new.worth() > arms[worst].worth()) else {
        return;
    };
    if arms.len() >= ARMS_MAX {
        arms.swap_remove(worst);
    }
    arms.push(new);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stress::{Constant, Delay};

    const MS: Duration = Duration::from_millis(1);

    fn outcome(reward: f64, time: Duration) -> Outcome {
        Outcome {
            reward,
            is_new: reward > 0.0,
            runs: 20,
            time,
        }
    }

    /// A world in which an outcome shows under one combination of two switches only, which no first arm has.
    #[test]
    fn the_search_finds_a_combination_that_no_arm_has() {
        let mut search = Search::new(Strategy::Auto, 1);
        for _ in 0..3000 {
            let (stress, _) = search.next("f", 250);
            let near = stress.constant == Constant::Inline;
            let there = near && stress.delay == Delay::Start;
            let reward = if there {
                1.0
            } else {
                f64::from(u8::from(near)) / 2.0
            };
            search.learn("f", stress, &outcome(reward, MS));
        }
        let best = search.best("f").unwrap_or_else(|| panic!("something was learnt"));
        assert_eq!((best.constant, best.delay), (Constant::Inline, Delay::Start));
        assert_eq!(search.best("g"), None);
    }

    #[test]
    fn a_stress_that_shows_more_in_much_more_time_is_the_worse_one() {
        let mut search = Search::new(Strategy::Auto, 2);
        for _ in 0..300 {
            let (stress, _) = search.next("f", 250);
            let slow = stress.delay != Delay::None;
            let shown = if slow {
                outcome(2.0, 10 * MS)
            } else {
                outcome(1.0, MS)
            };
            search.learn("f", stress, &shown);
        }
        let best = search.best("f").unwrap_or_else(|| panic!("something was learnt"));
        assert_eq!(best.delay, Delay::None);
        // Slow stresses get few runs, fast ones many.
        let arm = |time| {
            let mut arm = Arm::new(Pull::Any);
            arm.add(&outcome(1.0, time));
            arm.runs_of_a_trial()
        };
        assert_eq!((arm(1000 * MS), arm(MS)), (RUNS_MIN, 40));
    }

    #[test]
    fn a_new_family_begins_with_what_the_others_taught() {
        let mut search = Search::new(Strategy::Auto, 3);
        for _ in 0..500 {
            let (stress, _) = search.next("f", 250);
            let reward = f64::from(u8::from(stress.constant == Constant::Inline));
            search.learn("f", stress, &outcome(reward, MS));
        }
        let inline = (0..20).filter(|_| {
            let (stress, _) = search.next("g", 250);
            search.learn("g", stress, &outcome(1.0, MS));
            stress.constant == Constant::Inline
        });
        assert!(inline.count() > 10);
    }
}
