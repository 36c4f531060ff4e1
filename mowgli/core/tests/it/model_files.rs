//! The model files of `models/` mean what the built-in models mean.
//!
//! Every file parses without a warning, and by outcome sets each agrees with its built-in model on the catalogue and on random programs.
//! `MOWGLI_MODEL_FILES=COUNT[,FIRST_SEED]` runs COUNT random programs of each shape instead of the few of the suite.

use crate::shapes::SHAPES;
use mowgli::cat::{self, Embedded, ModelFile};
use mowgli::generate::{self, Shape};
use mowgli::litmus::{Setting, parse};
use mowgli::model::{Model, RmwAtomicity};
use mowgli::outcome::{Budget, Completeness, Limit};
use mowgli::program::Program;
use mowgli::syntax::Kind;
use mowgli::{catalogue, check, declarative};

#[test]
fn every_embedded_file_parses_without_a_warning() {
    for (name, text) in cat::FILES {
        match ModelFile::parse(name, text, &Embedded) {
            // Parts of models state no axiom, or use names of the file that includes them.
            Ok(file) => assert!(
                file.warnings().iter().all(|w| w.kind == Kind::NoAxiom),
                "{:?}",
                file.warnings()
            ),
            Err(errors) if name == "rdma-axioms.cat" => {
                assert!(errors.iter().all(|e| e.kind == Kind::UndefinedName), "{errors:?}");
            }
            Err(errors) => panic!("{}", errors[0]),
        }
    }
}

#[test]
fn every_built_in_model_has_a_file() {
    for model in Model::ALL {
        let file = ModelFile::of(model);
        assert!(!file.axioms().is_empty() && file.title().is_some(), "{model}");
        assert_eq!(file.warnings(), [], "{model}");
    }
}

/// Programs of each shape in the test suite.
const COUNT: u64 = 60;

fn budget() -> Budget<'static> {
    Budget {
        states_max: Some(300_000),
        ..Budget::default()
    }
}

/// Panics if a file and its built-in model give a program different outcomes. Returns whether both searches finished.
fn compare(program: &Program, setting: Setting, file: &ModelFile, about: &dyn Fn() -> String) -> bool {
    let built_in = declarative::outcomes(program, setting.model, setting.rmw, &budget());
    let by_file = cat::decide(program, file, setting.rmw, None, &budget());
    let by_file = by_file.unwrap_or_else(|e| panic!("{}: {e}", about()));
    match (&built_in.completeness, &by_file.completeness) {
        (Completeness::Complete, Completeness::Complete)
        | (
            Completeness::Incomplete(Limit::LoopBound { .. }),
            Completeness::Incomplete(Limit::LoopBound { .. }),
        ) => {
            assert_eq!(by_file.outcomes, built_in.outcomes, "{} under {setting}", about());
            true
        }
        (Completeness::Complete, Completeness::Incomplete(Limit::States(_)))
        | (Completeness::Incomplete(Limit::States(_)), _) => false,
        (a, b) => panic!("{} under {setting}: {a:?}, by file {b:?}", about()),
    }
}

/// Returns the place of a model over the papers' network among [`Model::ALL`].
fn place(model: Model) -> usize {
    Model::ALL.iter().position(|&m| m == model).unwrap()
}

#[test]
fn the_catalogue_has_the_same_outcomes_by_file() {
    let files = Model::ALL.map(ModelFile::of);
    for entry in catalogue::entries() {
        let litmus = entry.parse().unwrap();
        for setting in check::settings(&litmus.program) {
            let file = &files[place(setting.model)];
            let finished = compare(&litmus.program, setting, file, &|| entry.path());
            assert!(finished, "{} under {setting}", entry.path());
        }
    }
}

#[test]
fn random_programs_have_the_same_outcomes_by_file() {
    let asked = std::env::var("MOWGLI_MODEL_FILES").ok();
    let mut numbers = asked
        .iter()
        .flat_map(|s| s.split(','))
        .map(|n| n.parse::<u64>().unwrap());
    let (count, first) = (numbers.next().unwrap_or(COUNT), numbers.next().unwrap_or(1));
    let files = Model::ALL.map(ModelFile::of);
    let (mut compared, mut unfinished) = (0u64, 0u64);
    for (name, shape) in SHAPES {
        for seed in first..first + count {
            let program = generate::program(seed, &shape);
            for setting in check::settings(&program) {
                let file = &files[place(setting.model)];
                match compare(&program, setting, file, &|| format!("{name}, seed {seed}")) {
                    true => compared += 1,
                    false => unfinished += 1,
                }
            }
        }
    }
    println!("{compared} comparisons, {unfinished} not finished");
    assert!(
        unfinished * 100 <= compared,
        "{unfinished} of {compared} searches did not finish"
    );
}

/// The search agrees with plain enumeration, which evaluates by other code.
#[test]
fn the_search_finds_what_enumeration_finds() {
    let files = Model::ALL.map(ModelFile::of);
    let small = Shape {
        instructions: 4,
        ..Shape::SMALL
    };
    let mut compared = 0;
    for seed in 1..=COUNT {
        let program = generate::program(seed, &small);
        for setting in check::settings(&program) {
            let file = &files[place(setting.model)];
            let plain = cat::outcomes_by_enumeration(&program, file, setting.rmw, &budget());
            if plain.is_complete() {
                let found = cat::outcomes(&program, file, setting.rmw, &budget());
                assert_eq!(found.outcomes, plain.outcomes, "seed {seed} under {setting}");
                compared += 1;
            }
        }
    }
    assert!(compared >= COUNT, "{compared}");
}

/// Panics if a built-in model and its file differ about whether they have a meaning for a program. Returns how many apply.
fn compare_applicability(program: &Program, files: &[ModelFile], about: &dyn Fn() -> String) -> usize {
    let at_once = Budget {
        states_max: Some(0),
        ..Budget::default()
    };
    let mut count = 0;
    for (model, file) in Model::ALL.into_iter().zip(files) {
        let applies = check::applicable(program, model).is_ok();
        for rmw in RmwAtomicity::ALL {
            let by_file = cat::decide(program, file, rmw, None, &at_once);
            assert_eq!(by_file.is_ok(), applies, "{} under {model}/{rmw}", about());
        }
        count += usize::from(applies);
    }
    count
}

/// A model has no meaning for a program that *has* what the model lacks, whether or not an execution reaches it.
#[test]
fn files_apply_to_the_programs_of_their_built_in_models() {
    let files = Model::ALL.map(ModelFile::of);
    for entry in catalogue::entries() {
        compare_applicability(&entry.parse().unwrap().program, &files, &|| entry.path());
    }
    let (mut applied, mut asked) = (0, 0);
    for seed in 0..3_000 {
        let bits = seed % 64;
        let shape = Shape {
            nodes: 1 + (seed % 2) as u8,
            remote: bits & 1 > 0,
            rmw: bits & 3 == 3,
            polls: bits & 4 > 0,
            waits: bits & 8 > 0,
            control: bits & 48 > 0,
            ..Shape::SMALL
        };
        let program = generate::program(seed, &shape);
        applied += compare_applicability(&program, &files, &|| format!("seed {seed}"));
        asked += Model::ALL.len();
    }
    assert!(
        applied * 10 > asked && (asked - applied) * 10 > asked,
        "{applied} of {asked}"
    );
    for (rows, lacking) in [
        (
            "if (0) { wait(d) } else { x := 1 }",
            vec![Model::Tso, Model::RdmaSc, Model::RdmaTso, Model::RdmaTsoNoPcie],
        ),
        ("poll(2)", vec![Model::Tso, Model::RdmaWait]),
        ("assume(0) ;\n poll(2)", vec![Model::Tso, Model::RdmaWait]),
        ("choose { x := 1 } or { z^2 := 1 }", vec![Model::Tso]),
        ("while (0) bound 1 { rfence(2) }", vec![Model::Tso]),
    ] {
        let text = format!("RDMA t\n{{ x@1=0; z@2=0; }}\n P0@1 ;\n {rows} ;\nexists (x=1)\n");
        let program = parse(&text).unwrap().litmus.program;
        compare_applicability(&program, &files, &|| text.clone());
        for model in Model::ALL {
            assert_eq!(
                check::applicable(&program, model).is_err(),
                lacking.contains(&model),
                "{text} under {model}"
            );
        }
    }
}
