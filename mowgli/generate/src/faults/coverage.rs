//! Finds for every change of a model the smallest program that notices it.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use mowgli::litmus::Dialect;
use mowgli::models::Spec;
use mowgli::outcome::{Budget, Limit};
use mowgli::program::Program;

use super::{Change, Features, changes};
use crate::condition::{Condition, least_forbidden};
use crate::enumerate::{Unit, programs, units};
use crate::language::Language;
use crate::order::in_order;

/// A program that notices a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The program.
    pub program: Program,
    /// Number of its instructions.
    pub size: usize,
    /// A least condition on which the two models differ.
    pub condition: Condition,
    /// Whether the model forbids the condition and the changed model allows it, and not the other way round.
    pub forbidden: bool,
}

/// The changes of a model, and what notices them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coverage {
    /// For every change of one cell or one term the smallest program, the first of its size in the list of programs; `None` if no
    /// program of the language notices the change.
    pub changes: Vec<(Change, Option<Notice>)>,
    /// Number of programs of the language.
    pub programs: u64,
}

/// Goes through every program of the language and looks for the changes of one cell or one term that it notices.
/// `progress` is called after each unit with the number of units done and of all units, and returns false to stop.
///
/// # Errors
/// Returns the limit that stopped a search.
pub fn coverage(
    spec: &Spec,
    language: &Language,
    workers: NonZeroUsize,
    budget: &Budget<'_>,
    mut progress: impl FnMut(usize, usize) -> bool,
) -> Result<Coverage, Limit> {
    let changes: Vec<(Change, Spec)> = changes(spec)
        .into_iter()
        .filter(Change::is_single)
        .map(|change| (change, change.apply(spec)))
        .collect();
    let units = units(language);
    let mut found: BTreeMap<usize, Notice> = BTreeMap::new();
    let (mut count, mut done, mut failed) = (0, 0, None);
    for level in units.chunk_by(|a, b| a.size() == b.size()) {
        let open: Vec<usize> = (0..changes.len()).filter(|i| !found.contains_key(i)).collect();
        let work = |i: usize| notices(spec, language, &level[i], &changes, &open, budget);
        in_order(level.len(), workers, work, |_, result| {
            done += 1;
            match result {
                Ok((programs, noticed)) => {
                    count += programs;
                    for (change, notice) in noticed {
                        found.entry(change).or_insert(notice);
                    }
                }
                Err(limit) => failed = Some(limit),
            }
            if !progress(done, units.len()) {
                failed = Some(Limit::Cancelled);
            }
            failed.is_none()
        });
        if let Some(limit) = failed {
            return Err(limit);
        }
    }
    let named = changes.iter().enumerate();
    Ok(Coverage {
        changes: named
            .map(|(i, (change, _))| (*change, found.remove(&i)))
            .collect(),
        programs: count,
    })
}

/// Returns the number of programs of a unit, and the first program that notices each of the changes in `open`.
#[allow(clippy::type_complexity)] // A pair of a number and a list.
fn notices(
    spec: &Spec,
    language: &Language,
    unit: &Unit,
    changes: &[(Change, Spec)],
    open: &[usize],
    budget: &Budget<'_>,
) -> Result<(u64, Vec<(usize, Notice)>), Limit> {
    let mut open = open.to_vec();
    let mut found = Vec::new();
    let (mut count, mut failed) = (0, None);
    programs(language, unit, &mut |sketch| {
        count += 1;
        if failed.is_some() || open.is_empty() {
            return;
        }
        let program = sketch.program();
        let features = Features::of(&program, spec, budget);
        let mut allowed = None;
        open.retain(|&i| {
            let (change, changed) = &changes[i];
            if failed.is_some() || !features.concern(change, spec, changed) {
                return true;
            }
            let mut compare = || {
                if allowed.is_none() {
                    allowed = Some(crate::complete::all(mowgli::declarative::outcomes_under(
                        &program, spec, budget,
                    ))?);
                }
                let allowed = allowed
                    .as_ref()
                    .unwrap_or_else(|| unreachable!("it has just been set"));
                let other = change.outcomes(changed, &program, budget)?;
                if *allowed == other {
                    return Ok(None);
                }
                let operands = program.operands();
                let weaker = least_forbidden(&operands, allowed, other.difference(allowed));
                let stronger = least_forbidden(&operands, &other, allowed.difference(&other));
                let forbidden = !weaker.is_empty();
                let least = weaker
                    .into_iter()
                    .chain(stronger)
                    .min_by_key(|c| (c.atoms.len(), c.clone()));
                Ok(least.map(|condition| Notice {
                    program: program.clone(),
                    size: sketch.size(),
                    condition,
                    forbidden,
                }))
            };
            match compare() {
                Ok(None) => true,
                Ok(Some(notice)) => {
                    found.push((i, notice));
                    false
                }
                Err(limit) => {
                    failed = Some(limit);
                    true
                }
            }
        });
    });
    match failed {
        Some(limit) => Err(limit),
        None => Ok((count, found)),
    }
}
