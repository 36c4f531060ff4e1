//! Chooses the keys of a workload. Relies on `rand_distr`; used by the workload and by `loco bench`.

use std::fmt;

use rand::Rng;
use rand_distr::{Distribution as _, Zipf};
use serde::Serialize;

use crate::{KvError, Result};

/// The probabilities of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Distribution {
    /// All keys are equally likely.
    Uniform,
    /// The k-th key has the weight 1 / k^0.99, as in YCSB.
    Zipf,
}

impl fmt::Display for Distribution {
    /// Writes the name that the command takes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Distribution::Uniform => "uniform",
            Distribution::Zipf => "zipf",
        })
    }
}

/// The exponent of [`Distribution::Zipf`].
pub const ZIPF_EXPONENT: f64 = 0.99;

/// The mix of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mix {
    /// Only lookups.
    ReadOnly,
    /// Half lookups, half updates.
    Mixed,
    /// Only updates.
    WriteOnly,
}

impl Mix {
    /// Chooses whether the next operation is a write.
    pub fn write(self, random: &mut impl Rng) -> bool {
        match self {
            Mix::ReadOnly => false,
            Mix::Mixed => random.random(),
            Mix::WriteOnly => true,
        }
    }
}

/// Draws `count` numbers below `of`.
///
/// # Errors
/// Returns `Usage` if there is nothing to draw from.
pub fn draw(distribution: Distribution, of: u32, count: usize, random: &mut impl Rng) -> Result<Vec<u32>> {
    if of == 0 {
        return Err(KvError::Usage(
            "no keys to draw from: give it one at least".to_owned(),
        ));
    }
    Ok(match distribution {
        Distribution::Uniform => (0..count).map(|_| random.random_range(0..of)).collect(),
        Distribution::Zipf => {
            let zipf = Zipf::new(f64::from(of), ZIPF_EXPONENT)
                .map_err(|error| KvError::Usage(format!("Zipf over {of} keys: {error}")))?;
            // Ranks count from 1, as whole numbers.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let draw = |random: &mut _| (zipf.sample(random) as u32 - 1).min(of - 1);
            (0..count).map(|_| draw(random)).collect()
        }
    })
}

/// Returns the `i`-th key. All keys are different, since the factor is odd, and their order means nothing.
#[inline]
pub fn key(i: u32) -> u64 {
    // 2^64 divided by the golden ratio, which spreads successive numbers over the whole range.
    (u64::from(i) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    #[test]
    fn zipf_has_the_frequencies_of_its_definition() {
        let draws = 200_000;
        let mut random = SmallRng::seed_from_u64(1);
        let picks = draw(Distribution::Zipf, 1000, draws, &mut random).unwrap();
        let weights: f64 = (1..=1000).map(|k| f64::from(k).powf(-ZIPF_EXPONENT)).sum();
        for rank in [1_u32, 2, 10, 100] {
            let expected = f64::from(rank).powf(-ZIPF_EXPONENT) / weights * draws as f64;
            let found = picks.iter().filter(|&&pick| pick == rank - 1).count() as f64;
            // The bound is five standard deviations.
            assert!(
                (found - expected).abs() < 5.0 * expected.sqrt(),
                "{rank}: {found} of {expected}"
            );
        }
        assert!(picks.iter().all(|&pick| pick < 1000));
    }

    #[test]
    fn keys_differ() {
        let mut keys: Vec<u64> = (0..10_000).map(key).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 10_000);
    }

    #[test]
    fn no_keys_is_an_error() {
        let mut random = SmallRng::seed_from_u64(1);
        assert!(draw(Distribution::Uniform, 0, 1, &mut random).is_err());
    }
}
