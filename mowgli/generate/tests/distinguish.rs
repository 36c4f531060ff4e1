//! Tests that separate two models: found where the models differ, smallest first, confirmed by both engines.

#![allow(clippy::unwrap_used)] // Helpers of tests are tests.

use mowgli::explore;
use mowgli::generate::{self, Shape};
use mowgli::litmus::{Litmus, Operand};
use mowgli::model::{Model, RmwAtomicity};
use mowgli::outcome::Budget;
use mowgli::program::{Instr, Program};
use mowgli_generate::distinguish::{Separator, separators};
use mowgli_generate::enumerate::units;
use mowgli_generate::language::Language;
use mowgli_generate::theory::{BuiltIn, Theory};

/// The separators of the least size that has any.
fn smallest(first: Model, second: Model, most: u8) -> Vec<Separator> {
    let [a, b] = [first, second].map(|m| BuiltIn::new(m, RmwAtomicity::Hca));
    let language = a.language(most).common(b.language(most));
    let language = Language {
        cas: false,
        ..language
    };
    let units = units(&language);
    for level in units.chunk_by(|a, b| a.size() == b.size()) {
        let found = level.iter().flat_map(|unit| {
            separators(&a, &b, &language, unit, &Budget::default())
                .unwrap()
                .tests
        });
        let found: Vec<Separator> = found.collect();
        if !found.is_empty() {
            return found;
        }
    }
    Vec::new()
}

fn code(separator: &Separator) -> String {
    let litmus = Litmus {
        name: "t".to_owned(),
        description: None,
        program: separator.program.clone(),
        observed: Vec::<Operand>::new(),
        stated: Vec::new(),
        queries: Vec::new(),
    };
    litmus.print()
}

#[test]
fn store_buffering_separates_tso_from_sc() {
    let found = smallest(Model::Sc, Model::Tso, 4);
    assert!(found.iter().all(|separator| separator.first_forbids));
    let texts: Vec<String> = found.iter().map(code).collect();
    // SB, and R, in which final memory shows the order of two stores.
    let columns = [
        " P0@1    | P1@1    ;\n x := 1  | y := 2  ;\n r0 := y | r0 := x ;",
        " P0@1    | P1@1   ;\n x := 1  | y := 2 ;\n r0 := y | x := 3 ;",
    ];
    assert_eq!(texts.len(), columns.len(), "{texts:#?}");
    for wanted in columns {
        assert!(texts.iter().any(|text| text.contains(wanted)), "{texts:#?}");
    }
}

#[test]
fn machines_confirm_what_separates_models() {
    let pairs = [
        (Model::RdmaTso, Model::RdmaTsoNoPcie),
        (Model::RdmaSc, Model::RdmaTso),
        (Model::Sc, Model::RdmaSc),
    ];
    for (first, second) in pairs {
        let found = smallest(first, second, 4);
        assert!(!found.is_empty(), "{first} {second}");
        for separator in found {
            let allows = |model| {
                let budget = Budget::default();
                let machine = explore::outcomes(&separator.program, model, RmwAtomicity::Hca, &budget);
                assert!(machine.is_complete());
                machine.outcomes.iter().any(|o| separator.condition.holds(o))
            };
            let (strong, weak) = match separator.first_forbids {
                true => (first, second),
                false => (second, first),
            };
            assert!(
                !allows(strong) && allows(weak),
                "{first} {second}: {}",
                code(&separator)
            );
        }
    }
}

#[test]
fn a_model_does_not_differ_from_itself() {
    assert_eq!(smallest(Model::RdmaTso, Model::RdmaTso, 3), []);
}

/// No smaller program separates the models, by another generator of programs and by the machines.
#[test]
fn no_smaller_random_program_separates() {
    let has_cas = |p: &Program| {
        let mut code = p.threads.iter().flat_map(|t| &t.code);
        code.any(|i| matches!(i, Instr::Cas { .. }))
    };
    for (first, second, remote) in [
        (Model::Sc, Model::Tso, false),
        (Model::RdmaTso, Model::RdmaTsoNoPcie, true),
        (Model::RdmaSc, Model::RdmaTso, true),
        (Model::Sc, Model::RdmaSc, true),
    ] {
        let size = smallest(first, second, 4)[0].size;
        let base = if remote { Shape::SMALL } else { Shape::CPU };
        let shape = Shape {
            instructions: size as u8 - 1,
            rmw: false,
            ..base
        };
        let mut compared = 0;
        for seed in 0..2_000 {
            let program = generate::program(seed, &shape);
            if has_cas(&program) {
                continue;
            }
            let outcomes = |model| {
                let found = explore::outcomes(&program, model, RmwAtomicity::Hca, &Budget::default());
                assert!(found.is_complete());
                found.outcomes
            };
            assert_eq!(
                outcomes(first),
                outcomes(second),
                "{first} {second}, seed {seed}: {program:#?}"
            );
            compared += 1;
        }
        assert!(compared > 1_000, "{first} {second}: {compared}");
    }
}
