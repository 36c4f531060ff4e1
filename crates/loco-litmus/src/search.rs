//! Which stress to try next, so that the rarest outcomes are seen.
//!
//! Every batch of runs is a trial of one stress. Its *reward* is the sum over the outcomes it showed of `1 / (1 + n)`, where `n` is
//! how often an outcome was seen before: new and rare outcomes count, common ones do not. Tests of one family share what was learnt. A
//! bandit (UCB1) chooses among the arms, at first a fixed set with one switch each; now and then an arm changes by one switch, and
//! stays if it does better than the worst. Used by [`crate::job`].

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

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

/// The arms with which a family begins.
const ARMS: [&str; 12] = [
    "",
    "start=batch",
    "delay=start:3",
    "delay=between:3",
    "delay=between:5",
    "place=same",
    "place=packed,delay=between:2",
    "constant=inline",
    "constant=inline,delay=between:3",
    "traffic=same:0:8",
    "traffic=other:6:8,delay=start:4",
    "pin=apart,cache=owned",
];
/// The most arms of a family.
const ARMS_MAX: usize = 24;
/// One in so many trials changes an arm.
const CHANGE: usize = 4;

/// An arm and what it has shown.
#[derive(Clone, Debug)]
struct Arm {
    stress: Stress,
    trials: f64,
    reward: f64,
}

impl Arm {
    fn new(stress: Stress) -> Arm {
        Arm {
            stress,
            trials: 0.0,
            reward: 0.0,
        }
    }

    fn mean(&self) -> f64 {
        self.reward / self.trials.max(1.0)
    }
}

/// What was learnt about the families so far.
#[derive(Clone, Debug)]
pub struct Search {
    strategy: Strategy,
    random: Random,
    families: BTreeMap<String, Vec<Arm>>,
}

impl Search {
    /// Begins a search.
    pub fn new(strategy: Strategy, seed: u64) -> Search {
        Search {
            strategy,
            random: Random::new(seed ^ 0x5eed),
            families: BTreeMap::new(),
        }
    }

    /// Draws a seed for a batch.
    pub fn seed(&mut self) -> u64 {
        self.random.bits()
    }

    /// Returns the stress of the next batch of a test of this family.
    pub fn next(&mut self, family: &str) -> Stress {
        match &self.strategy {
            Strategy::None => Stress::default(),
            Strategy::Fixed(stress) => *stress,
            Strategy::Default => Stress::random(&mut self.random),
            Strategy::Auto => self.choose(family),
        }
    }

    fn choose(&mut self, family: &str) -> Stress {
        let arms = self.families.entry(family.to_owned()).or_insert_with(|| {
            let parse = |text: &&str| text.parse().unwrap_or_default();
            ARMS.iter().map(parse).map(Arm::new).collect()
        });
        if let Some(new) = arms.iter().find(|arm| arm.trials == 0.0) {
            return new.stress;
        }
        let all: f64 = arms.iter().map(|arm| arm.trials).sum();
        let bound = |arm: &Arm| arm.mean() + (2.0 * all.ln() / arm.trials).sqrt() / 4.0;
        let best = arms.iter().max_by(|a, b| bound(a).total_cmp(&bound(b)));
        let Some(best) = best.map(|arm| arm.stress) else {
            return Stress::default();
        };
        match self.random.once_in(CHANGE) {
            true => best.neighbour(&mut self.random),
            false => best,
        }
    }

    /// Learns what a batch of a test of this family showed. `reward` is described at the head of the module.
    pub fn learn(&mut self, family: &str, stress: Stress, reward: f64) {
        let Some(arms) = self.families.get_mut(family) else {
            return;
        };
        if let Some(arm) = arms.iter_mut().find(|arm| arm.stress == stress) {
            arm.trials += 1.0;
            arm.reward += reward;
            return;
        }
        let worst = (0..arms.len()).min_by(|&a, &b| arms[a].mean().total_cmp(&arms[b].mean()));
        let Some(worst) = worst.filter(|&worst| reward > arms[worst].mean()) else {
            return;
        };
        if arms.len() >= ARMS_MAX {
            arms.swap_remove(worst);
        }
        arms.push(Arm {
            stress,
            trials: 1.0,
            reward,
        });
    }

    /// Returns the stress that did best in a family, if something was learnt.
    pub fn best(&self, family: &str) -> Option<Stress> {
        let arms = self.families.get(family)?.iter().filter(|arm| arm.trials > 0.0);
        let best = arms.max_by(|a, b| a.mean().total_cmp(&b.mean()));
        best.map(|arm| arm.stress)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stress::{Constant, Delay};

    /// A world in which an outcome shows under one combination of two switches only, which no first arm has.
    #[test]
    fn the_search_finds_a_combination_that_no_arm_has() {
        let mut search = Search::new(Strategy::Auto, 1);
        for _ in 0..3000 {
            let stress = search.next("f");
            let near = stress.constant == Constant::Inline;
            let there = near && stress.delay == Delay::Start;
            let reward = if there {
                1.0
            } else {
                f64::from(u8::from(near)) / 2.0
            };
            search.learn("f", stress, reward);
        }
        let best = search.best("f").unwrap_or_else(|| panic!("something was learnt"));
        assert_eq!((best.constant, best.delay), (Constant::Inline, Delay::Start));
        assert_eq!(search.best("g"), None);
    }
}
