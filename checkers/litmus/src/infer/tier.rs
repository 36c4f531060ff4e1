//! Names the tier of the network that results come from.
//!
//! The tier is the strongest whose model allows every state that was seen (`docs/ordering-models.md`). That a weaker one was
//! not needed is no proof: it is a number of runs that could have shown its states and did not. Relies on the oracle. Used by
//! the inference.

use std::collections::BTreeSet;

use loco_fabric::Atomicity;
use mowgli::counted::counted;
use mowgli::model::Tier;
use mowgli::outcome::Outcome;
use mowgli::program::Program;
use serde::Serialize;

use crate::oracle::Oracle;

/// The tiers from the strongest to the weakest. [`Tier::PcieRelaxed`] is comparable with [`Tier::Ibta`] only, and is tried before
/// the tier that allows whatever it allows.
const TIERS: [Tier; 5] = Tier::ALL;

/// The outcomes that the runs of a test showed.
pub(super) struct Seen<'a> {
    pub(super) name: &'a str,
    pub(super) program: &'a Program,
    pub(super) runs: u64,
    pub(super) outcomes: BTreeSet<Outcome>,
}

/// The tier that results show.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TierSeen {
    /// The strongest tier that allows every state, or `None` if no tier does.
    pub tier: Option<&'static str>,
    /// For each stronger tier, a test that showed a state which the tier forbids.
    pub excluded: Vec<(&'static str, String)>,
    /// For each weaker tier, the number of tests that could have shown a state which the named tier forbids, and the
    /// number of their runs. None showed one.
    pub not_seen: Vec<(&'static str, usize, u64)>,
}

/// Returns the tier that the results of these tests show.
pub(super) fn tier_of(tests: &[Seen<'_>]) -> TierSeen {
    let allowed = TIERS.map(|tier| {
        let oracle = Oracle {
            tier,
            ..Oracle::new(None, Atomicity::Hca)
        };
        let ask = |test: &Seen<'_>| Some(oracle.ask(test.program)).filter(|allowed| allowed.complete);
        tests.iter().map(ask).collect::<Vec<_>>()
    });
    // A model that took too long forbids nothing.
    let forbids = |tier: usize, test: usize| {
        let model = allowed[tier][test].as_ref();
        model.is_some_and(|allowed| !tests[test].outcomes.is_subset(&allowed.outcomes))
    };
    let contradiction = |tier: usize| (0..tests.len()).find(|&test| forbids(tier, test));
    let named = (0..TIERS.len()).find(|&tier| contradiction(tier).is_none());
    let stronger = 0..named.unwrap_or(TIERS.len());
    let excluded =
        stronger.filter_map(|tier| Some((TIERS[tier].name(), tests[contradiction(tier)?].name.to_owned())));
    let not_seen = named.map_or(Vec::new(), |named| {
        let weaker = named + 1..TIERS.len();
        let tells = |tier: usize, test: usize| match (&allowed[tier][test], &allowed[named][test]) {
            (Some(weak), Some(strong)) => !weak.outcomes.is_subset(&strong.outcomes),
            _ => false,
        };
        let of = |tier: usize| {
            let telling = (0..tests.len()).filter(|&test| tells(tier, test));
            let (count, runs) =
                telling.fold((0, 0), |(count, runs), test| (count + 1, runs + tests[test].runs));
            (TIERS[tier].name(), count, runs)
        };
        weaker.map(of).collect()
    });
    TierSeen {
        tier: named.map(|tier| TIERS[tier].name()),
        excluded: excluded.collect(),
        not_seen,
    }
}

/// Writes the tier, why it is no stronger one, and how little says that it is no weaker one.
impl std::fmt::Display for TierSeen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.tier {
            Some(tier) => writeln!(f, "Tier: {tier}, the strongest that allows all that was seen")?,
            None => writeln!(f, "Tier: none allows all that was seen")?,
        }
        for (tier, test) in &self.excluded {
            writeln!(f, "  not {tier:<13} {test} showed what it forbids")?;
        }
        for (tier, tests, runs) in &self.not_seen {
            match runs {
                0 => writeln!(f, "  perhaps {tier}: no test of these could tell")?,
                _ => writeln!(
                    f,
                    "  perhaps {tier}: {} of {} could have shown it and did not: below {:.1e} a run (95%), which is no proof",
                    counted(*runs, "run"),
                    counted(*tests, "test"),
                    3.0 / *runs as f64
                )?,
            }
        }
        Ok(())
    }
}
