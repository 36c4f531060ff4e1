//! The minimal tests of a model have the properties that they claim, notice every removal that a program notices, and the pivot only filters
//! them.
//!
//! The tests of a model are made once for all that is asked of them. Compare-and-swaps multiply the programs by two, so that one model has them.

#![allow(clippy::unwrap_used)] // Helpers of tests are tests.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::OnceLock;

use mowgli::declarative;
use mowgli::explore;
use mowgli::litmus::{self, Litmus, Quantifier, Query, Setting, Verdict};
use mowgli::model::{Model, RmwAtomicity};
use mowgli::models::Spec;
use mowgli::outcome::Budget;
use mowgli_generate::condition::Condition;
use mowgli_generate::enumerate::units;
use mowgli_generate::faults::{changes, coverage};
use mowgli_generate::language::Language;
use mowgli_generate::minimal;
use mowgli_generate::suite::{Generator, Test};
use mowgli_generate::theory::{BuiltIn, Theory};

const RDMA: [Model; 4] = [
    Model::RdmaSc,
    Model::RdmaTso,
    Model::RdmaTsoNoPcie,
    Model::RdmaWait,
];

fn tests(theory: &BuiltIn, language: Language, pivot: Option<&str>) -> Vec<Test> {
    let generator = Generator::new(theory, language, pivot).unwrap();
    let units = units(&language);
    let found = units
        .iter()
        .map(|unit| generator.tests(unit, &Budget::default()).unwrap());
    found.flat_map(|found| found.tests).collect()
}

/// The language of a model in this file.
fn language(model: Model) -> Language {
    Language {
        cas: model == Model::RdmaTso,
        ..Language::of(model, 3)
    }
}

/// The tests of all rules of a model.
fn all(model: Model) -> &'static [Test] {
    static TESTS: [OnceLock<Vec<Test>>; 4] = [const { OnceLock::new() }; 4];
    let place = RDMA.iter().position(|m| *m == model).unwrap();
    TESTS[place].get_or_init(|| {
        let theory = BuiltIn::new(model, RmwAtomicity::Hca);
        tests(&theory, language(model), None)
    })
}

fn litmus(test: &Test, model: Model) -> Litmus {
    let setting = Setting {
        model,
        rmw: RmwAtomicity::Hca,
    };
    Litmus {
        name: "t".to_owned(),
        description: Some(test.rules.join(" ")),
        program: test.program.clone(),
        observed: Vec::new(),
        stated: Vec::new(),
        queries: vec![Query {
            condition: litmus::Condition {
                quantifier: Quantifier::Exists,
                formula: test.condition.formula(),
            },
            expected: [(setting, Verdict::Forbidden)].into(),
        }],
    }
}

#[test]
fn tests_are_forbidden_by_both_engines_and_allowed_without_each_of_their_rules() {
    let budget = Budget::default();
    for model in RDMA {
        let theory = BuiltIn::new(model, RmwAtomicity::Hca);
        let tests = all(model);
        assert!(tests.len() > 100, "{model}: {}", tests.len());
        for test in tests {
            let allows = |outcomes: &BTreeSet<_>| outcomes.iter().any(|o| test.condition.holds(o));
            let program = &test.program;
            let axioms = declarative::outcomes(program, model, RmwAtomicity::Hca, &budget);
            let machine = explore::outcomes(program, model, RmwAtomicity::Hca, &budget);
            assert!(axioms.is_complete() && machine.is_complete());
            assert!(
                !allows(&axioms.outcomes) && !allows(&machine.outcomes),
                "{model}: {test:?}"
            );
            for change in changes(theory.spec()).into_iter().filter(|c| c.removes()) {
                let without =
                    declarative::outcomes_exhaustive(program, &change.apply(theory.spec()), &budget);
                let named = test.rules.contains(&change.to_string());
                assert_eq!(
                    allows(&without.outcomes),
                    named,
                    "{model} without {change}: {test:?}"
                );
            }
        }
    }
}

#[test]
fn every_instruction_and_every_value_is_needed() {
    let model = Model::RdmaTso;
    let theory = BuiltIn::new(model, RmwAtomicity::Hca);
    let spec = theory.spec();
    for test in all(model) {
        let allows = |program: &_, atoms: Vec<_>| {
            let condition = Condition { atoms };
            let found = declarative::outcomes_exhaustive(program, spec, &Budget::default());
            found.outcomes.iter().any(|o| condition.holds(o))
        };
        for at in 0..test.condition.atoms.len() {
            let mut fewer = test.condition.atoms.clone();
            fewer.remove(at);
            assert!(allows(&test.program, fewer), "atom {at} is not needed: {test:?}");
        }
        // A variant whose threads can still give every value asked for allows the condition as it stands.
        for variant in minimal::programs(&test.program) {
            let atoms = &test.condition.atoms;
            let asks = |outcome: &_| {
                atoms
                    .iter()
                    .all(|&(operand, value)| operand.value(outcome) == value)
            };
            let free = mowgli_generate::theory::candidates(&variant, &Budget::default()).unwrap();
            if free.iter().any(asks) {
                assert!(
                    allows(&variant, atoms.clone()),
                    "{variant:?} forbids it too: {test:?}"
                );
            }
        }
    }
}

#[test]
fn no_test_is_made_twice_and_texts_read_back() {
    for model in RDMA {
        let tests = all(model);
        let texts: BTreeSet<String> = tests.iter().map(|t| litmus(t, model).print()).collect();
        assert_eq!(texts.len(), tests.len(), "{model}");
        for (test, text) in tests.iter().map(|t| (t, litmus(t, model).print())) {
            let parsed = litmus::parse(&text).unwrap_or_else(|e| panic!("{text}\n{e:?}"));
            assert_eq!(parsed.litmus.print(), text);
            assert_eq!(parsed.litmus.program, test.program, "{text}");
        }
    }
}

#[test]
fn a_pivot_keeps_the_tests_that_name_it() {
    let model = Model::RdmaTso;
    let theory = BuiltIn::new(model, RmwAtomicity::Hca);
    let (language, all) = (language(model), all(model));
    for pivot in [
        "oppo:G7", "G8", "ippo:J9", "I9", "ob:nfo", "ib:pf", "B2", "ib:rb_b",
    ] {
        let named = all.iter().filter(|t| t.rules.iter().any(|r| r == pivot));
        let expected: Vec<_> = named.map(|t| (&t.program, &t.condition)).collect();
        let found = tests(&theory, language, Some(pivot));
        let found: Vec<_> = found.iter().map(|t| (&t.program, &t.condition)).collect();
        assert_eq!(found, expected, "{pivot}");
    }
}

#[test]
fn papers_tests_are_found_again() {
    let theory = BuiltIn::new(Model::RdmaTso, RmwAtomicity::Hca);
    // RDMA-TSO'24 Fig. 11 (MP1) and Fig. 10 (ST9), each in a language that just has what it needs.
    let mp1 = "{ x@1=0; y@1=0; }\n P0@1    | P1@2     ;\n r0 := x | y^1 := 1 ;\n r1 := y | x^1 := 2 ;\n\
               \nexists (0:r0=2 /\\ 0:r1=0)";
    let st9 =
        "{ x@1=1; y@2=2; z@2=0; }\n P0@1      ;\n x := y^2  ;\n rfence(2) ;\n z^2 := x  ;\n\nexists ([z]=1)";
    let of_mp1 = Language {
        cas: false,
        fences: false,
        remote_fences: false,
        polls: false,
        nodes: 2,
        threads: 2,
        locations: 2,
        ..Language::of(Model::RdmaTso, 4)
    };
    let of_st9 = Language {
        cas: false,
        threads: 1,
        ..Language::of(Model::RdmaTso, 3)
    };
    for (language, wanted) in [(of_mp1, mp1), (of_st9, st9)] {
        let found = tests(&theory, language, None);
        let text = |t: &Test| {
            let program = litmus(t, Model::RdmaTso).print();
            program.lines().skip(2).collect::<Vec<_>>().join("\n")
        };
        assert!(found.iter().any(|t| text(t).starts_with(wanted)), "{wanted}");
    }
}

/// A rule without which some program of the language has other outcomes is a rule of some test.
#[test]
fn minimal_tests_notice_every_removal_that_a_program_notices() {
    let workers = NonZeroUsize::new(2).unwrap();
    for model in RDMA {
        let spec = Spec::of(model, RmwAtomicity::Hca);
        let found = coverage(&spec, &language(model), workers, &Budget::default(), |_, _| true).unwrap();
        let noticed = found.changes.iter().filter(|(c, n)| c.removes() && n.is_some());
        let noticed: BTreeSet<String> = noticed.map(|(change, _)| change.to_string()).collect();
        let named: BTreeSet<String> = all(model).iter().flat_map(|t| t.rules.clone()).collect();
        let missed: Vec<_> = noticed.difference(&named).collect();
        assert!(missed.is_empty(), "{model}: no test names {missed:?}");
        assert!(noticed.len() > 10, "{model}: {noticed:?}");
    }
}

#[test]
fn a_rule_that_a_model_does_not_have_is_refused() {
    let theory = BuiltIn::new(Model::RdmaTso, RmwAtomicity::Hca);
    let refused = Generator::new(&theory, theory.language(2), Some("opo:G7"));
    let error = refused.err().unwrap().to_string();
    assert_eq!(error, "rdma-tso has no rule 'opo:G7' (did you mean oppo:G7?)");
}
