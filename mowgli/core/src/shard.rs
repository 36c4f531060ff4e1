//! A share of a long run, for the array jobs of a batch engine.
//!
//! The work is a list of units in a fixed order. Shard I of N takes the units I, I+N, I+2N, so that the shards of a
//! run are disjoint and together make up the whole. Pure: the caller looks up the environment. Used by the commands
//! `mowgli` and `loco`.

use std::fmt;
use std::str::FromStr;

/// The help text of `--shard`.
pub const HELP: &str = "Do share I of N only (1/4 to 4/4), or the share of this Slurm array task (slurm)";

/// The long help text of `--shard`.
pub const LONG_HELP: &str = "\
Do share I of N only: 1/4, 2/4, 3/4 and 4/4 together do the whole

With `slurm` the share is that of the array task: SLURM_ARRAY_TASK_ID of SLURM_ARRAY_TASK_COUNT tasks, counted from \
SLURM_ARRAY_TASK_MIN. `mowgli merge` joins the JSON of the shares.";

/// Share `index` of `count`; `index` counts from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    index: usize,
    count: usize,
}

impl Shard {
    /// The whole run as one share.
    pub const WHOLE: Shard = Shard { index: 1, count: 1 };

    /// Returns whether the unit (counted from 0) belongs to this share.
    pub fn has(self, unit: usize) -> bool {
        unit % self.count == self.index - 1
    }

    /// Returns the number of this share, from 1.
    pub fn index(self) -> usize {
        self.index
    }

    /// Returns the number of shares.
    pub fn count(self) -> usize {
        self.count
    }

    /// Reads `I/N`, or `slurm`, for which `variable` looks up Slurm's variables.
    ///
    /// # Errors
    /// Returns a description of the mistake in the text or the variables.
    pub fn read(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Shard, String> {
        match text {
            "slurm" => Shard::from_slurm(variable),
            _ => text.parse(),
        }
    }

    /// Returns the share of an array task from Slurm's variables, which `variable` looks up.
    fn from_slurm(variable: impl Fn(&str) -> Option<String>) -> Result<Shard, String> {
        let number = |name: &str| -> Result<Option<usize>, String> {
            let Some(text) = variable(name) else {
                return Ok(None);
            };
            let wrong = |_| format!("{name} is `{text}`, which is no number");
            text.trim().parse().map(Some).map_err(wrong)
        };
        let id = number("SLURM_ARRAY_TASK_ID")?
            .ok_or("SLURM_ARRAY_TASK_ID is not set: `--shard slurm` is for the tasks of an array job")?;
        let count = number("SLURM_ARRAY_TASK_COUNT")?.ok_or("SLURM_ARRAY_TASK_COUNT is not set")?;
        let first = number("SLURM_ARRAY_TASK_MIN")?.unwrap_or(1);
        let step = number("SLURM_ARRAY_TASK_STEP")?.unwrap_or(1).max(1);
        let at = id.checked_sub(first).filter(|at| at % step == 0);
        let index = at.map(|at| at / step + 1).filter(|&index| index <= count);
        let Some(index) = index else {
            return Err(format!(
                "task {id} is none of the {count} tasks from {first} in steps of {step}; write --shard I/N instead"
            ));
        };
        Ok(Shard { index, count })
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(s: &str) -> Result<Shard, String> {
        let parts = s
            .split_once('/')
            .and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
        match parts {
            Some((index, count)) if 1 <= index && index <= count => Ok(Shard { index, count }),
            _ => Err(format!(
                "`{s}` is no share: write I/N with I from 1 to N, as in 1/4, or slurm"
            )),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slurm(set: &[(&str, &str)]) -> Result<Shard, String> {
        Shard::from_slurm(|name| {
            let found = set.iter().find(|(n, _)| *n == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn shards_are_read_or_refused_with_the_right_form() {
        assert_eq!("2/3".parse::<Shard>().unwrap().to_string(), "2/3");
        for wrong in ["", "0/3", "4/3", "1/0", "1", "a/b", "1/2/3"] {
            assert!(wrong.parse::<Shard>().unwrap_err().contains("I/N"), "{wrong}");
        }
    }

    #[test]
    fn every_unit_is_in_exactly_one_shard() {
        for count in 1..6 {
            let shards: Vec<Shard> = (1..=count).map(|index| Shard { index, count }).collect();
            for unit in 0..40 {
                assert_eq!(shards.iter().filter(|s| s.has(unit)).count(), 1);
            }
        }
        assert!((0..9).all(|unit| Shard::WHOLE.has(unit)));
    }

    #[test]
    fn slurm_tasks_are_understood() {
        let id = "SLURM_ARRAY_TASK_ID";
        let (count, min) = ("SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN");
        let step = "SLURM_ARRAY_TASK_STEP";
        assert_eq!(
            slurm(&[(id, "0"), (count, "4"), (min, "0")]),
            Ok(Shard { index: 1, count: 4 })
        );
        assert_eq!(
            slurm(&[(id, "4"), (count, "4")]),
            Ok(Shard { index: 4, count: 4 })
        );
        assert_eq!(
            slurm(&[(id, "7"), (count, "4"), (min, "1"), (step, "2")]),
            Ok(Shard { index: 4, count: 4 })
        );
        assert!(
            slurm(&[(id, "9"), (count, "4")])
                .unwrap_err()
                .contains("--shard I/N")
        );
        assert!(slurm(&[]).unwrap_err().contains("SLURM_ARRAY_TASK_ID"));
        assert!(
            slurm(&[(id, "x"), (count, "4")])
                .unwrap_err()
                .contains("no number")
        );
    }
}
