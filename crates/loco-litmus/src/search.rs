//! Which stress to try next, so that the rarest outcomes are seen soonest.
//!
//! Every batch of runs is a trial of one stress, an *arm*. Its *reward* is the sum over the outcomes it showed of `1 / (1 + n)`, where `n`
//! is how often an outcome was seen before: new and rare outcomes count, common ones do not. An arm is worth its reward *a second*, since
//! a stress that shows twice as much in ten times the time is the worse one. Tests of one family share what was learnt, and a new family
//! begins with what was learnt of all. A bandit (UCB1) chooses among the arms; now and then the best changes by one switch, and the
//! neighbour stays if it does better than the worst arm. Used by [`crate::job`].

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
    /// Another one for each batch, drawn at random.
    #[default]
    Default,
    /// By what earlier batches of the family showed.
    Auto,
    /// One for all.
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

/// The arms with which a search begins, cheap ones first.
const ARMS: [&str; 13] = [
    "",
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
    "delay=between:5",
];
/// The most arms of a family.
const ARMS_MAX: usize = 24;
/// One in so many trials changes an arm.
const CHANGE: usize = 6;
/// The share of what was learnt that the next trial leaves: outcomes grow common, and arms lose their worth.
const KEPT: f64 = 0.99;
/// The weight of doubt about an arm that was tried little, against the worth of the best.
const DOUBT: f64 = 0.25;
/// The time of a trial. What takes longer has fewer runs, so that a bad arm costs little.
const TRIAL: Duration = Duration::from_millis(4);
/// The runs of a trial of an arm of which nothing is known, and the fewest of any: nodes meet thrice a batch, which takes as long as many runs.
const RUNS_FIRST: usize = 50;
const RUNS_MIN: usize = 40;

/// The reward of a batch, and its cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// The reward, as described at the head of the module.
    pub reward: f64,
    /// The runs.
    pub runs: usize,
    /// The time.
    pub time: Duration,
}

/// An arm and what it has shown. Old trials count less than new ones.
#[derive(Clone, Debug)]
struct Arm {
    stress: Stress,
    trials: f64,
    runs: f64,
    reward: f64,
    seconds: f64,
}

impl Arm {
    fn new(stress: Stress) -> Arm {
        Arm {
            stress,
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

    /// Leaves a share of what was learnt.
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

/// Chooses stresses, and keeps what was learnt about the families.
#[derive(Clone, Debug)]
pub struct Search {
    strategy: Strategy,
    random: Random,
    families: BTreeMap<String, Vec<Arm>>,
    /// The arms of all families together.
    all: Vec<Arm>,
}

impl Search {
    /// Begins a search.
    pub fn new(strategy: Strategy, seed: u64) -> Search {
        Search {
            strategy,
            random: Random::new(seed ^ 0x5eed),
            families: BTreeMap::new(),
            all: first_arms(),
        }
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
                // One trial's worth of what others have learnt: enough to begin with, and soon outweighed.
                if arm.trials > 0.0 {
                    arm.scale(1.0 / arm.trials);
                }
            }
            arms
        });
        if let Some(new) = arms.iter().find(|arm| arm.trials == 0.0) {
            return (new.stress, RUNS_FIRST);
        }
        let trials: f64 = arms.iter().map(|arm| arm.trials).sum();
        let most = arms.iter().map(Arm::worth).fold(1e-9, f64::max);
        let doubt = |arm: &Arm| DOUBT * most * (2.0 * trials.max(1.0).ln() / arm.trials).sqrt();
        let bound = |arm: &Arm| arm.worth() + doubt(arm);
        let best = arms.iter().max_by(|a, b| bound(a).total_cmp(&bound(b)));
        let Some(best) = best else {
            return (Stress::default(), RUNS_FIRST);
        };
        match self.random.once_in(CHANGE) {
            true => (best.stress.neighbour(&mut self.random), RUNS_FIRST),
            false => (best.stress, best.runs_of_a_trial()),
        }
    }

    /// Learns what a batch of a test of this family showed.
    pub fn learn(&mut self, family: &str, stress: Stress, outcome: &Outcome) {
        let Some(arms) = self.families.get_mut(family) else {
            return;
        };
        learn(arms, stress, outcome);
        learn(&mut self.all, stress, outcome);
    }

    /// Returns the stress that did best in a family, if something was learnt.
    pub fn best(&self, family: &str) -> Option<Stress> {
        let arms = self.families.get(family)?.iter().filter(|arm| arm.trials > 0.0);
        let best = arms.max_by(|a, b| a.worth().total_cmp(&b.worth()));
        best.map(|arm| arm.stress)
    }
}

fn first_arms() -> Vec<Arm> {
    let parse = |text: &&str| text.parse().unwrap_or_default();
    ARMS.iter().map(parse).map(Arm::new).collect()
}

fn learn(arms: &mut Vec<Arm>, stress: Stress, outcome: &Outcome) {
    for arm in arms.iter_mut() {
        arm.scale(KEPT);
    }
    if let Some(arm) = arms.iter_mut().find(|arm| arm.stress == stress) {
        arm.add(outcome);
        return;
    }
    let mut new = Arm::new(stress);
    new.add(outcome);
    let known = (0..arms.len()).filter(|&at| arms[at].trials > 0.0);
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
        // What is slow gets few runs, what is fast many.
        let arm = |time| {
            let mut arm = Arm::new(Stress::default());
            arm.add(&outcome(1.0, time));
            arm.runs_of_a_trial()
        };
        assert_eq!((arm(1000 * MS), arm(MS)), (RUNS_MIN, 80));
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
