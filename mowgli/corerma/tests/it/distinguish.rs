//! Tests that separate two models: what they state holds, and every statement is needed.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

use mowgli::check;
use mowgli::outcome::Budget;
use mowgli_corerma::generate::distinguish::{Separator, Separators};
use mowgli_corerma::litmus::{Litmus, parse};
use mowgli_corerma::switches::Model;

fn found(models: [Model; 2], processes: usize, size: usize) -> Vec<(Separator, Litmus)> {
    let search = Separators::new(models, processes, size).unwrap();
    let mut tests = BTreeSet::new();
    for unit in 0..search.units() {
        tests.extend(search.unit(unit, &AtomicBool::new(false)).unwrap().tests);
    }
    let litmus = |test: Separator| (test.clone(), search.litmus(&test));
    tests.into_iter().map(litmus).collect()
}

/// The outputs under a model: final values of the registers.
fn outputs(litmus: &Litmus, model: Model) -> BTreeSet<Vec<Vec<mowgli_corerma::value::Value>>> {
    let outcomes = model.outcomes(&litmus.program, &Budget::default()).outcomes;
    outcomes.into_iter().map(|o| o.registers).collect()
}

#[test]
fn every_rule_is_told_from_its_absence_and_all_that_is_stated_holds() {
    let mut checked = 0;
    for other in [
        "corerma-R1",
        "corerma-R2",
        "corerma-IR",
        "corerma-F1",
        "corerma-F2",
        "corerma-LO",
        "corerma-PG",
        "corerma-WS",
        "corerma+inlined-put",
        "sc",
    ] {
        let other: Model = other.parse().unwrap();
        let models = [Model::STOCK, other];
        let tests: Vec<_> = [1, 2].into_iter().flat_map(|p| found(models, p, 8)).collect();
        assert!(!tests.is_empty(), "{other}");
        for (separator, litmus) in tests {
            let text = litmus.print();
            assert_eq!(
                parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}")).litmus,
                litmus
            );
            for (&model, &verdict) in &litmus.queries[0].expected {
                let search = model.outcomes(&litmus.program, &Budget::default());
                let judged = check::judge(&litmus, 0, &search);
                assert_eq!(judged.meets(verdict), Some(true), "{model}\n{text}");
            }
            // Without any one statement the weaker model allows no more than the stronger.
            let (strong, weak) = match separator.first_forbids {
                true => (models[0], models[1]),
                false => (models[1], models[0]),
            };
            for (p, process) in litmus.program.processes.iter().enumerate() {
                for at in 0..process.code.len() {
                    let mut shorter = litmus.clone();
                    shorter.program.processes[p].code.remove(at);
                    assert!(
                        outputs(&shorter, weak).is_subset(&outputs(&shorter, strong)),
                        "statement {at} of P{p}\n{text}"
                    );
                }
            }
            checked += 1;
        }
    }
    println!("{checked} tests");
}

#[test]
fn a_model_is_not_told_from_itself() {
    for processes in [1, 2] {
        assert_eq!(found([Model::STOCK; 2], processes, 8), []);
    }
}
