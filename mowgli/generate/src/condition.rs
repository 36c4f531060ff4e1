//! Conditions that fix the final values of some registers and locations, and the least of them that a model forbids.
//!
//! A forbidden outcome fixes every register and location, and most of them have nothing to do with why it is forbidden. A *least* forbidden
//! condition fixes only values that are all needed: without any one of them the model allows the rest. Papers print these.
//! Used by [`crate::suite`] and [`crate::distinguish`].

use std::collections::BTreeSet;

use mowgli::litmus::{Formula, Operand, Relation};
use mowgli::outcome::Outcome;
use mowgli::program::Value;

/// A condition: all of these registers and locations have these final values.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Condition {
    /// The values, in the order of [`mowgli::litmus::Dialect::operands`].
    pub atoms: Vec<(Operand, Value)>,
}

impl Condition {
    /// Returns whether the outcome satisfies the condition.
    pub fn holds(&self, outcome: &Outcome) -> bool {
        self.atoms
            .iter()
            .all(|&(operand, value)| operand.value(outcome) == value)
    }

    /// Returns the condition as a formula of the litmus language.
    pub fn formula(&self) -> Formula {
        let atom = |&(operand, value): &(Operand, Value)| Formula::Atom(operand, Relation::Eq, value);
        Formula::all(self.atoms.iter().map(atom).collect())
    }
}

/// Finds every least condition that no outcome of `allowed` satisfies and that some outcome of `forbidden` satisfies.
pub fn least_forbidden<'a>(
    operands: &[Operand],
    allowed: &BTreeSet<Outcome>,
    forbidden: impl Iterator<Item = &'a Outcome>,
) -> BTreeSet<Condition> {
    let values = |outcome: &Outcome| operands.iter().map(|o| o.value(outcome)).collect::<Vec<_>>();
    let allowed: Vec<Vec<Value>> = allowed.iter().map(values).collect();
    let mut found = BTreeSet::new();
    for outcome in forbidden {
        let wanted = values(outcome);
        let differences = allowed.iter().map(|other| {
            let differs = |i: &usize| other[*i] != wanted[*i];
            (0..wanted.len())
                .filter(differs)
                .fold(0u64, |set, i| set | 1 << i)
        });
        for set in transversals(differences.collect()) {
            let atoms = (0..wanted.len()).filter(|i| set >> i & 1 == 1);
            found.insert(Condition {
                atoms: atoms.map(|i| (operands[i], wanted[i])).collect(),
            });
        }
    }
    found
}

/// Returns the minimal sets that meet every one of `sets` (Berge's algorithm). There is none if one of `sets` is empty.
fn transversals(mut sets: Vec<u64>) -> Vec<u64> {
    sets.sort_unstable_by_key(|set| (set.count_ones(), *set));
    sets.dedup();
    let mut least: Vec<u64> = Vec::new();
    for set in sets {
        if !least.iter().any(|&smaller| is_subset(smaller, set)) {
            least.push(set);
        }
    }
    let mut found = vec![0u64];
    for set in least {
        let (meeting, missing): (Vec<u64>, Vec<u64>) = found.into_iter().partition(|t| t & set != 0);
        let mut next = meeting.clone();
        for t in missing {
            for i in (0..64).filter(|i| set >> i & 1 == 1) {
                let grown = t | 1 << i;
                if !meeting.iter().any(|&m| is_subset(m, grown)) {
                    next.push(grown);
                }
            }
        }
        found = next;
    }
    found
}

/// Returns whether every element of `inner` is in `outer`.
fn is_subset(inner: u64, outer: u64) -> bool {
    inner & !outer == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every minimal transversal, by trying all sets.
    fn plain(sets: &[u64], bits: u32) -> BTreeSet<u64> {
        let meets = |t: u64| sets.iter().all(|s| s & t != 0);
        let least = |t: u64| (0..bits).all(|i| t >> i & 1 == 0 || !meets(t & !(1 << i)));
        (0..1u64 << bits).filter(|&t| meets(t) && least(t)).collect()
    }

    #[test]
    fn transversals_are_those_found_by_trying_all_sets() {
        let mut random = mowgli::generate::Random::new(1);
        for _ in 0..500 {
            let sets: Vec<u64> = (0..random.below(7)).map(|_| random.bits() & 0b11_1111).collect();
            let found = transversals(sets.clone());
            let unique: BTreeSet<u64> = found.iter().copied().collect();
            assert_eq!(unique.len(), found.len(), "{sets:?}");
            assert_eq!(unique, plain(&sets, 6), "{sets:?}");
        }
    }
}
