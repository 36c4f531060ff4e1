//! The operational machine: the catalogue's verdicts on every form of it, and the reduction against plain
//! search.

use mowgli::catalogue;
use mowgli::check::{self, Engine};
use mowgli::explore::{Options, outcomes, outcomes_with};
use mowgli::generate::{self, Shape};
use mowgli::litmus::Verdict;
use mowgli::model::{Model, RmwAtomicity, Tier};
use mowgli::outcome::{Budget, Search};

fn plain(model: Model, atomicity: RmwAtomicity) -> Options {
    Options {
        reduction: false,
        workers: 1,
        ..Options::new(model, atomicity)
    }
}

fn concrete(options: Options) -> Options {
    Options {
        machine: options.machine.concrete(),
        ..options
    }
}

/// Checks every expectation of the catalogue; returns how many there were.
fn check_catalogue(search: impl Fn(&mowgli::program::Program, Model, RmwAtomicity) -> Search) -> usize {
    let mut checked = 0;
    for entry in catalogue::entries() {
        let litmus = entry.parse().unwrap();
        for (index, query) in litmus.queries.iter().enumerate() {
            for (setting, verdict) in &query.expected {
                let found = search(&litmus.program, setting.model, setting.rmw);
                assert!(
                    found.is_complete(),
                    "{} under {setting}: {:?}",
                    entry.name,
                    found.completeness
                );
                let formula = &query.condition.formula;
                let held = found.outcomes.iter().filter(|o| formula.holds(o)).count();
                let as_expected = match verdict {
                    Verdict::Allowed => held > 0,
                    Verdict::Forbidden => held == 0,
                    Verdict::Required => held == found.outcomes.len() && held > 0,
                };
                assert!(
                    as_expected,
                    "{} under {setting}: expected {verdict}, {held} of {} outcomes satisfy it",
                    litmus.query_name(index),
                    found.outcomes.len()
                );
                checked += 1;
            }
        }
    }
    checked
}

/// The engine that a user chooses gives what the simplified machine gives, and refuses networks that it does not have.
#[test]
fn the_concrete_engine_agrees_with_the_others() {
    let budget = Budget::default();
    let (mut compared, mut refused) = (0, 0);
    for entry in catalogue::entries() {
        let program = entry.parse().unwrap().program;
        let tiered = check::tiered_settings(&program).into_iter().take(1);
        for setting in check::settings(&program).into_iter().chain(tiered) {
            let found = check::run(&program, setting, Engine::Concrete, &budget);
            if setting.model.tier() != Tier::Ibta {
                assert!(
                    found.unwrap_err().reason.contains("`operational`"),
                    "{}",
                    entry.name
                );
                refused += 1;
                continue;
            }
            let simplified = check::run(&program, setting, Engine::Operational, &budget).unwrap();
            assert_eq!(
                found.unwrap().search.outcomes,
                simplified.search.outcomes,
                "{} under {setting}",
                entry.name
            );
            compared += 1;
        }
    }
    assert!(compared > 500 && refused > 50, "{compared}, {refused}");
}

#[test]
fn the_catalogue_on_the_simplified_machine() {
    let checked = check_catalogue(|p, model, rmw| outcomes(p, model, rmw, &Budget::default()));
    assert!(checked > 50, "only {checked} expectations");
}

#[test]
fn the_catalogue_on_the_concrete_machine() {
    check_catalogue(|p, model, rmw| match model.tier() {
        Tier::Ibta => outcomes_with(p, &concrete(Options::new(model, rmw)), &Budget::default()),
        // Other tiers have the simplified pipeline only.
        _ => outcomes(p, model, rmw, &Budget::default()),
    });
}

#[test]
fn the_reduction_loses_no_outcome() {
    // The tests have few instructions, because without reduction every interleaving counts.
    let small = Shape {
        instructions: 6,
        ..Shape::SMALL
    };
    let shapes = [
        small,
        Shape::CPU,
        Shape {
            waits: true,
            polls: false,
            ..small
        },
        Shape {
            control: true,
            ..small
        },
        Shape {
            nodes: 3,
            locations: 1,
            ..small
        },
    ];
    for (i, shape) in shapes.iter().enumerate() {
        for seed in 0..40 {
            let program = generate::program(1_000 * i as u64 + seed, shape);
            for model in [Model::Sc, Model::RdmaSc, Model::RdmaTso, Model::RdmaTsoNoPcie] {
                for rmw in RmwAtomicity::ALL {
                    let options = plain(model, rmw);
                    let all = outcomes_with(&program, &options, &Budget::default());
                    for options in [options, concrete(options)] {
                        let reduced = Options {
                            reduction: true,
                            ..options
                        };
                        let some = outcomes_with(&program, &reduced, &Budget::default());
                        assert_eq!(
                            all.outcomes, some.outcomes,
                            "{model} {rmw} seed {seed} of {shape:?}: {program:#?}"
                        );
                    }
                }
            }
        }
    }
}
