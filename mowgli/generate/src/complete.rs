//! Outcomes of searches that were not cut short; [`crate::theory`] and [`crate::faults`] compare no others.

use std::collections::BTreeSet;

use mowgli::outcome::{Completeness, Limit, Outcome, Search};

/// Returns the outcomes of a complete search, or the limit that stopped it.
pub(crate) fn all(search: Search) -> Result<BTreeSet<Outcome>, Limit> {
    match search.completeness {
        Completeness::Complete => Ok(search.outcomes),
        Completeness::Incomplete(limit) => Err(limit),
    }
}
