//! Tests of coreRMA on fabrics: what is run for a test, what judges it, and what is left out.

#![allow(clippy::unwrap_used)]

mod support;

use std::sync::atomic::AtomicBool;

use loco_fabric::Atomicity;
use loco_litmus::corerma::CoreRma;
use loco_litmus::oracle::{Oracle, Theory};
use loco_litmus::table::Table;
use loco_litmus::{Plan, Strategy, Test, test};
use mowgli::check::{self, Engine};
use mowgli::litmus::Setting;
use mowgli::model::{Model, RmwAtomicity};
use mowgli::outcome::Budget;
use mowgli_corerma::generate::Generator;
use mowgli_corerma::litmus;
use mowgli_corerma::rules::Rule;
use mowgli_corerma::switches::{Model as OfCoreRma, Switches};
use support::{deferred, job, shm};

fn plan(runs: u64) -> Plan {
    Plan {
        runs,
        batch: 50,
        stress: Strategy::Default,
        ..Plan::default()
    }
}

fn test_of(text: &str) -> Test {
    Test::of_corerma(litmus::parse(text).unwrap().litmus, "here").unwrap()
}

#[test]
fn examples_are_run_or_named_with_the_reason() {
    let loaded = test::load(&["corerma16".to_owned(), "SB3".to_owned()]).unwrap();
    let run: Vec<&str> = loaded.tests.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(run.len() + loaded.left_out.len(), 16 + 1);
    assert!(run.contains(&"RMA-6") && run.contains(&"SB3"), "{run:?}");
    assert_eq!(loaded.left_out.len(), 5);
    for (name, why) in &loaded.left_out {
        assert!(name.ends_with("-plain"), "{name}");
        assert!(why.contains("not atomic"), "{why}");
    }
    // The files are the same tests.
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../litmus/corerma16");
    let files = test::load(&[folder.to_owned()]).unwrap();
    let hashes = |tests: &[Test]| tests.iter().map(|t| t.hash.clone()).collect::<Vec<_>>();
    assert_eq!(hashes(&files.tests), hashes(&loaded.tests[..run.len() - 1]));
    assert_eq!(files.left_out, loaded.left_out);
}

/// Read-modify-writes take their operands from memory: what a strong memory shows of the program that is run, coreRMA allows.
#[test]
fn a_strong_memory_shows_what_corerma_allows() {
    let never = AtomicBool::new(false);
    let mut compared = 0;
    for (rule, processes, size) in [
        (Rule::Ga, 1, 9),
        (Rule::Ga, 2, 10),
        (Rule::CasF, 1, 10),
        (Rule::CasT, 1, 10),
        (Rule::Ir, 1, 9),
        (Rule::Pg, 1, 8),
    ] {
        let generator = Generator::new(Switches::STOCK, rule, processes, size).unwrap();
        let made = (0..generator.units()).flat_map(|unit| generator.unit(unit, &never).unwrap());
        for program in made.map(|made| made.program).take(60) {
            let text = litmus::program_text(&program);
            let litmus = litmus::Litmus {
                name: "made".into(),
                description: None,
                program,
                observed: Vec::new(),
                queries: Vec::new(),
                stated: Vec::new(),
            };
            let (corerma, run) = CoreRma::translate(&litmus).unwrap();
            let setting = Setting {
                model: Model::Sc,
                rmw: RmwAtomicity::Glob,
            };
            let strong = check::run(&run, setting, Engine::Declarative, &Budget::default()).unwrap();
            let allowed = corerma.allowed(OfCoreRma::STOCK, &Budget::default());
            assert!(strong.search.is_complete() && allowed.complete, "{text}");
            assert!(!strong.search.outcomes.is_empty(), "{text}");
            let extra = strong.search.outcomes.difference(&allowed.outcomes).next();
            assert_eq!(extra, None, "{text}");
            compared += 1;
        }
    }
    assert!(compared > 150, "{compared}");
}

#[test]
fn operands_of_read_modify_writes_are_read_from_memory() {
    let test = test_of(
        "coreRMA adds\n{ X@1=3; Y@1=4; W@1=5; Z@2=4; }\n P0@1 ;\n X := rga(Z^2, X) ;\n flush(2) ;\n Y := cas(Z^2, X, W) ;\n \
         flush(2) ;\n a := X ;\n b := Y ;\n\nexists (true)\n",
    );
    let kept = job(shm(2, None), &[test], &plan(50));
    // Z is 4 and becomes 7; X becomes 4, which the comparison does not find.
    let seen: Vec<&str> = kept.records[0].states.iter().map(|s| s.state.as_str()).collect();
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert!(seen[0].contains("0:a=4; 0:b=7;"), "{seen:?}");
    assert!(seen[0].contains("[Z]=7;"), "{seen:?}");
}

#[test]
fn shared_memory_shows_nothing_that_corerma_forbids() {
    let loaded = test::load(&["corerma16".to_owned()]).unwrap();
    let kept = job(shm(2, None), &loaded.tests, &plan(100));
    assert_eq!(kept.records.len(), loaded.tests.len(), "{:?}", kept.refused);
    for record in &kept.records {
        assert_eq!(
            (record.model.as_str(), record.judged),
            ("corerma", true),
            "{}",
            record.test
        );
        assert!(!record.is_violated(), "{}", record.histogram().unwrap());
    }
}

/// A flush places what was sent, and a completion does not (SB3 of RDMA-TSO'24): a network that uses this is in error by coreRMA.
#[test]
fn a_network_that_corerma_does_not_describe_is_found() {
    let store_buffering = || {
        test_of(
            "coreRMA SB\n{ X@1=0; Y@2=0; A@1=1; B@2=1; }\n P0@1 | P1@2 ;\n put(Y^2, A) | put(X^1, B) ;\n flush(2) | flush(1) ;\n \
             a := X | b := Y ;\n\nexists (0:a=0 /\\ 1:b=0)\n",
        )
    };
    let of = |model: Option<OfCoreRma>| {
        let plan = Plan {
            model: model.map(Theory::CoreRma),
            ..plan(3000)
        };
        let kept = job(shm(2, Some(deferred(7))), &[store_buffering()], &plan);
        kept.records.into_iter().next().unwrap()
    };
    let stock = of(None);
    assert_eq!(stock.model, "corerma");
    assert!(stock.is_violated(), "{}", stock.histogram().unwrap());
    assert_eq!(of(Some(OfCoreRma::INFINIBAND)).model, "corerma-ib");
    // Three outputs, though the states differ in memory too.
    assert_eq!(stock.allowed().0, 3);
    let table = Table::new([&stock]);
    assert_eq!(
        (table.rows[0].tests, table.rows[0].violated, table.rows[0].allowed),
        (1, 1, 3)
    );
}

#[test]
fn models_judge_tests_of_their_language() {
    let corerma = &test::load(&["RMA-6".to_owned()]).unwrap().tests[0];
    let rdma = &test::load(&["SB3".to_owned()]).unwrap().tests[0];
    let judge = |name: Option<&str>, test: &Test| {
        let theory = name.map(|name| Theory::named(name).unwrap());
        let allowed = Oracle::new(theory, Atomicity::Glob).judge(test, &test.litmus.program);
        (allowed.model, allowed.complete)
    };
    assert_eq!(judge(None, corerma), ("corerma".to_owned(), true));
    assert_eq!(
        judge(Some("corerma-unordered"), corerma),
        ("corerma-unordered".to_owned(), true)
    );
    assert_eq!(judge(Some("rdma-tso"), corerma), ("rdma-tso".to_owned(), true));
    assert_eq!(judge(None, rdma), ("rdma-tso".to_owned(), true));
    // coreRMA says nothing about a test of RDMA.
    assert_eq!(judge(Some("corerma"), rdma), ("corerma".to_owned(), false));
    let error = Theory::named("corerna").unwrap_err().to_string();
    assert!(error.contains("corerma"), "{error}");
}
