//! Rounds: both sides of a comparison in turn, in changing order, between looks at the machine's regime.

use std::time::Duration;

use anyhow::{Result, bail};

use crate::probe::line_ns;
use crate::programs::Programs;
use crate::rows::{Peer, Row, Side, Unit};

/// A round counts if the slowest look at the cache line is at most so many times the fastest.
const SAME_REGIME: f64 = 1.3;
/// Rounds made for each that is wanted, at most.
const TRIES: u32 = 4;
/// Operations of the first turn, which finds out how long they take. Barriers of many nodes take a tenth of a millisecond.
const FIRST: u64 = 4_000;

/// How much is measured.
pub struct Effort {
    /// Rounds that count.
    pub rounds: u32,
    /// Length of a turn, at least.
    pub turn: Duration,
}

/// The figures of a row beside one peer.
pub struct Comparison {
    /// Median of the library.
    pub loco: f64,
    /// Median of the peer.
    pub peer: f64,
    /// Median of the rounds' ratios, loco to peer.
    pub ratio: f64,
    /// Quartiles of the rounds' ratios.
    pub quartiles: (f64, f64),
    /// Rounds that counted.
    pub counted: usize,
    /// Rounds made.
    pub made: u32,
    /// The least and the greatest time of a cache line in rounds that counted, in nanoseconds.
    pub line_ns: (f64, f64),
}

/// A side, and how much it has to do in a turn.
struct Turns<'a> {
    programs: &'a Programs,
    side: Side,
    iterations: u64,
    turn: Duration,
}

impl<'a> Turns<'a> {
    fn new(programs: &'a Programs, side: Side, unit: Unit, turn: Duration) -> Result<Turns<'a>> {
        let mut turns = Turns {
            programs,
            side,
            iterations: FIRST,
            turn,
        };
        if !turns.side.is_timed() {
            // The second time, start-up and cold caches weigh less.
            for _ in 0..2 {
                let figure = turns.run()?;
                let wanted = unit.operations(figure) * turn.as_secs_f64() * 1.2;
                // Truncated: more than 2^53 operations do not fit a turn.
                turns.iterations = (wanted as u64).clamp(2_000, 2_000_000_000);
            }
        }
        Ok(turns)
    }

    fn run(&self) -> Result<f64> {
        let figure = self.programs.run(&self.side, self.iterations, self.turn)?;
        if !(figure.is_finite() && figure > 0.0) {
            bail!("a figure of {figure}");
        }
        Ok(figure)
    }
}

/// Compares a row with one peer.
///
/// # Errors
/// If a side fails, or no round counts.
pub fn compare(programs: &Programs, row: &Row, peer: &Peer, effort: &Effort) -> Result<Comparison> {
    let loco = Turns::new(programs, row.loco(), row.unit, effort.turn)?;
    let other = Turns::new(programs, peer.side.clone(), row.unit, effort.turn)?;
    let mut rounds: Vec<(f64, f64)> = Vec::new();
    let mut lines = (f64::INFINITY, 0.0_f64);
    let mut made = 0;
    while rounds.len() < effort.rounds as usize && made < effort.rounds * TRIES {
        let before = line_ns();
        let (mine, between, its) = if made % 2 == 0 {
            let mine = loco.run()?;
            let between = line_ns();
            (mine, between, other.run()?)
        } else {
            let its = other.run()?;
            let between = line_ns();
            (loco.run()?, between, its)
        };
        let looks = [before, between, line_ns()];
        made += 1;
        let (least, most) = (
            looks.iter().copied().fold(f64::INFINITY, f64::min),
            looks.iter().copied().fold(0.0, f64::max),
        );
        if most <= least * SAME_REGIME {
            lines = (lines.0.min(least), lines.1.max(most));
            rounds.push((mine, its));
        }
    }
    if rounds.is_empty() {
        bail!("in none of {made} rounds the machine stayed as it was");
    }
    let ratios = sorted(rounds.iter().map(|(mine, its)| mine / its));
    Ok(Comparison {
        loco: row
            .unit
            .shown(quantile(&sorted(rounds.iter().map(|round| round.0)), 0.5)),
        peer: row
            .unit
            .shown(quantile(&sorted(rounds.iter().map(|round| round.1)), 0.5)),
        ratio: quantile(&ratios, 0.5),
        quartiles: (quantile(&ratios, 0.25), quantile(&ratios, 0.75)),
        counted: rounds.len(),
        made,
        line_ns: lines,
    })
}

fn sorted(figures: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures
}

/// Returns a quantile of sorted figures, between neighbours in proportion.
fn quantile(figures: &[f64], at: f64) -> f64 {
    let place = at * (figures.len() - 1) as f64;
    let below = place.floor();
    let next = figures[(below as usize + 1).min(figures.len() - 1)];
    figures[below as usize] + (next - figures[below as usize]) * (place - below)
}

#[cfg(test)]
mod tests {
    use super::quantile;

    #[test]
    fn quantiles_lie_between_neighbours() {
        assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.5), 2.0);
        assert_eq!(quantile(&[1.0, 2.0], 0.5), 1.5);
        assert_eq!(quantile(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.25), 2.0);
        assert_eq!(quantile(&[7.0], 0.75), 7.0);
    }
}
