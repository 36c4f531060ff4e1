//! Fabrics that are known to be weaker or stronger than the contract: the suite finds each order that is missing and
//! names it, and the inferred model is that of the fabric, on every test of the suite.

#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use loco_fabric::Tier;
use loco_litmus::infer::family::{Rule, model, text};
use loco_litmus::infer::{Inferred, infer};
use loco_litmus::oracle::Theory;
use loco_litmus::{Plan, Record, Strategy, Test, test};
use loco_test_networks::deferred::Stage::{Atomic, LocalRead, LocalWrite, RemoteRead, RemoteWrite};
use loco_test_networks::deferred::{Discipline, Nic};
use mowgli::cat::{self, Embedded, ModelFile};
use mowgli::model::{Model, RmwAtomicity};
use mowgli::outcome::Budget;
use mowgli::program::Program;
use mowgli::{declarative, generate, litmus};
use mowgli_generate::enumerate::{programs, units};
use mowgli_generate::language::Language;
use support::{job, shm};

/// The most times that tests are run again.
const ROUNDS: u32 = 30;

fn promised() -> Vec<Rule> {
    Rule::all()
        .into_iter()
        .filter(|rule| rule.is_promised())
        .collect()
}

/// Every program of up to two instructions, those of three in which a thread has two remote operations, and longer ones that two
/// cells need.
fn suite() -> Vec<Test> {
    let language = Language {
        threads: 2,
        nodes: 2,
        locations: 3,
        cas: false,
        fences: false,
        rmw: true,
        ..Language::of(Model::RdmaTso, 3)
    };
    let mut tests = Vec::new();
    for unit in units(&language) {
        programs(&language, &unit, &mut |sketch| {
            let remote = sketch.ops().filter(|op| op.remote().is_some()).count();
            let rmw = sketch
                .program()
                .threads
                .iter()
                .flat_map(|t| &t.code)
                .any(|instr| {
                    use mowgli::program::Instr;
                    matches!(instr, Instr::RemoteFaa { .. } | Instr::RemoteCas { .. })
                });
            if sketch.size() < 3 || (remote >= 2 && !rmw && sketch.program().threads.len() == 1) {
                let name = format!("p{}", tests.len());
                tests.push(Test::of_program(name, "generated", sketch.program()));
            }
        });
    }
    let longer = [
        "RDMA flush\n{ x@2=1; y@2=0; z@1=0; }\n P0@1 | P1@1 ;\n x^2 := 2 | y^2 := 4 ;\n y^2 := 3 | z := x^2 ;\n\nexists (y=4 /\\ z=1)\n",
        "RDMA get-poll\n{ x@2=1; a@1=0; }\n P0@1 ;\n a := x^2 ;\n poll(2) ;\n r := a ;\n\nexists (0:r=0)\n",
        "RDMA put-poll\n{ x@1=0; y@2=7; }\n P0@1 ;\n y^2 := x ;\n poll(2) ;\n x := 1 ;\n\nexists (y=1)\n",
        "RDMA put-put\n{ x@1=0; y@2=7; z@2=7; }\n P0@1 ;\n y^2 := x ;\n z^2 := x ;\n x := 1 ;\n\nexists (y=1 /\\ z=0)\n",
        "RDMA fenced\n{ x@2=0; a@1=7; }\n P0@1 ;\n a := x^2 ;\n rfence(2) ;\n x^2 := 1 ;\n\nexists (a=1)\n",
        "RDMA rmw-put\n{ x@2=0; a@1=7; }\n P0@1 ;\n a := rfaa(x^2, 1) ;\n x^2 := 5 ;\n\nexists (a=5)\n",
        "RDMA rmw-get\n{ x@2=0; a@1=7; b@1=7; }\n P0@1 ;\n a := rfaa(x^2, 1) ;\n b := x^2 ;\n\nexists (b=0)\n",
        "RDMA rmw-rmw\n{ x@2=0; a@1=7; b@1=7; }\n P0@1 ;\n a := rfaa(x^2, 1) ;\n b := rfaa(x^2, 2) ;\n\nexists (a=2)\n",
        "RDMA put-rmw\n{ x@2=0; a@1=7; }\n P0@1 ;\n x^2 := 5 ;\n a := rfaa(x^2, 1) ;\n\nexists (a=0)\n",
        "RDMA rmw2\n{ x@3=0; a@1=7; b@2=7; }\n P0@1 | P1@2 ;\n a := rfaa(x^3, 1) | b := rfaa(x^3, 2) ;\n\nexists (a=0 /\\ b=0)\n",
        "RDMA placed\n{ x@2=0; y@1=0; }\n P0@1 | P1@2 ;\n x^2 := 1 | y^1 := 1 ;\n poll(2) | poll(1) ;\n a := y | b := x ;\n\nexists (0:a=0 /\\ 1:b=0)\n",
    ];
    tests.extend(longer.map(|text| Test::new(litmus::parse(text).unwrap().litmus, "longer")));
    tests
}

/// Returns the contract with one change.
fn changed(change: impl Fn(&mut Discipline)) -> Discipline {
    let mut discipline = Discipline::ibta();
    change(&mut discipline);
    discipline
}

/// Returns a card that rests up to `rests` between its steps, each decade equally likely.
fn nic(discipline: Discipline, rests: Duration) -> Nic {
    Nic {
        delay_max: rests,
        discipline,
        ..Nic::deferred(7)
    }
}

/// Runs the tests in a round: the first without any stress, for the card's choices are random enough, others with rests
/// of the card and delays of the processors, which races between the two need.
fn records(discipline: Discipline, tests: &[Test], runs: u64, round: u32) -> Vec<Record> {
    let plan = Plan {
        runs,
        batch: 50,
        stress: match round % 2 {
            0 => Strategy::None,
            _ => Strategy::Fixed("delay=between:4".parse().unwrap()),
        },
        seed: u64::from(round) + 1,
        ..Plan::default()
    };
    let kept = job(shm(1, Some(nic(discipline, rests(round)))), tests, &plan);
    assert_eq!(kept.refused, [""; 0]);
    kept.records
}

/// Returns the longest rest of the card in a round of runs: races between it and the processors need all lengths. Where
/// processors are delayed, too, rests are short, so that the card keeps up with them.
fn rests(round: u32) -> Duration {
    match round % 2 {
        0 => Duration::from_micros([0, 2, 20, 100][round as usize / 2 % 4]),
        _ => Duration::from_micros(1),
    }
}

/// Returns the tests that are written by hand.
fn longer(tests: &[Test]) -> Vec<Test> {
    tests
        .iter()
        .filter(|test| test.family == "longer")
        .cloned()
        .collect()
}

/// The promised rules that the inferred model does not have.
fn missing(inferred: &Inferred) -> BTreeSet<String> {
    let missing = inferred.evidence.iter().filter(|e| e.promised && !e.kept);
    missing.map(|e| e.rule.clone()).collect()
}

fn outcomes(program: &Program, model: &ModelFile) -> BTreeSet<mowgli::outcome::Outcome> {
    let search = cat::outcomes(program, model, RmwAtomicity::Hca, &Budget::default());
    assert!(search.is_complete());
    search.outcomes
}

#[test]
fn the_promised_rules_are_rdma_tso() {
    let catalogue = test::load(&["rdma-tso24".to_owned(), "rmw".to_owned(), "tables".to_owned()])
        .unwrap()
        .tests;
    let random = (0..150).map(|seed| {
        generate::program(
            seed,
            &generate::Shape {
                instructions: 6,
                ..generate::Shape::SMALL
            },
        )
    });
    let programs = catalogue
        .into_iter()
        .map(|test| test.litmus.program)
        .chain(random);
    let rules = model(&promised());
    let mut compared = 0;
    for program in programs.filter(|p| !mowgli::check::Features::of(p).wait) {
        let budget = Budget::default();
        let expected = declarative::outcomes(&program, Model::RdmaTso, RmwAtomicity::Hca, &budget);
        assert_eq!(outcomes(&program, &rules), expected.outcomes, "{program:?}");
        compared += 1;
    }
    assert!(compared > 180, "{compared}");
}

#[test]
fn every_member_with_one_rule_or_without_one_is_a_model_file() {
    for rule in Rule::all() {
        let others: Vec<_> = Rule::all().into_iter().filter(|&other| other != rule).collect();
        for rules in [vec![rule], others] {
            ModelFile::parse("m.cat", &text("t", &rules), &Embedded).unwrap();
        }
    }
}

/// Each order that a queue pair promises and that a program can see is taken away alone; others (F7 to F11, G9, H9, K9)
/// are implied. It is found and named. Named with it may be what the card's way of breaking it breaks too: a
/// read-modify-write is one step of this card, so that its cells K and those of its write (G) go together.
#[test]
fn each_broken_order_is_found_and_named() {
    let cell = |earlier, later| Discipline::ibta().with(earlier, later, false);
    let broken: [(Discipline, &[&str], &[&str]); 12] = [
        (cell(LocalRead, LocalRead), &["F6"], &[]),
        (cell(RemoteWrite, RemoteWrite), &["G7"], &[]),
        (cell(RemoteWrite, RemoteRead), &["ippo:G8", "oppo:G8"], &[]),
        (cell(RemoteWrite, Atomic), &["G11"], &["G7"]),
        (cell(LocalWrite, LocalWrite), &["I9"], &[]),
        (cell(Atomic, RemoteWrite), &["K7"], &["G7"]),
        (cell(Atomic, RemoteRead), &["ippo:G8", "oppo:G8"], &["K8"]),
        (cell(Atomic, Atomic), &["K11"], &["G7", "G11", "K7"]),
        (changed(|d| d.fences = false), &["fence"], &[]),
        (
            changed(|d| d.get_waits_for_result = false),
            &["get-completion"],
            &[],
        ),
        (
            changed(|d| d.put_waits_for_read = false),
            &["put-completion"],
            &[],
        ),
        (changed(|d| d.atomics_are_atomic = false), &["atomicity"], &[]),
    ];
    let tests = suite();
    let mut wrong = Vec::new();
    for (discipline, named, with_it) in broken {
        let mut records = records(discipline.clone(), &tests, 60, 0);
        let mut found = infer(&records).unwrap();
        // Tests that depend on scheduling get more runs: the tests that are not generated, repeatedly.
        for round in 1..=ROUNDS {
            if named.iter().all(|&rule| missing(&found).contains(rule)) {
                break;
            }
            let again = self::records(discipline.clone(), &longer(&tests), 300, round);
            records.extend(again);
            found = infer(&records).unwrap();
        }
        let missing = missing(&found);
        let is_expected = |rule: &String| named.contains(&&**rule) || with_it.contains(&&**rule);
        let all_named = named.iter().all(|&rule| missing.contains(rule));
        if !all_named || !missing.iter().all(is_expected) || !found.unexplained.is_empty() {
            wrong.push(format!("expected {named:?}: {missing:?} {found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// G6 and F8 together make a get read what the put before last placed. A state without that contradicts one of them,
/// and no test tells which: the one stays that is promised.
#[test]
fn of_two_rules_in_conflict_the_promised_one_stays() {
    let text =
        "RDMA puts-get\n{ x@2=1; y@1=0; }\n P0@1 ;\n x^2 := 2 ;\n x^2 := 3 ;\n y := x^2 ;\n\nexists (y=1)\n";
    let test = Test::new(litmus::parse(text).unwrap().litmus, "conflict");
    let mut record = records(Discipline::in_order(), &[test], 10, 0).remove(0);
    assert_eq!(record.states.iter().filter(|s| s.count > 0).count(), 1);
    let program = record.litmus().unwrap().program;
    let weak = cat::outcomes(&program, &model(&[]), RmwAtomicity::Hca, &Budget::default());
    let old = weak
        .outcomes
        .iter()
        .find(|outcome| outcome.memory == [3, 1])
        .unwrap();
    record.states[0].values = old.memory.clone();
    assert_eq!(Record::outcome(&program, &record.states[0]), *old);
    let found = infer(&[record]).unwrap();
    assert_eq!(found.unexplained, [], "{found}");
    let gone = ["ippo:G8".to_owned(), "oppo:G8".to_owned()];
    assert_eq!(missing(&found), gone.into(), "{found}");
    assert!(found.rules.iter().all(|rule| rule.to_string() != "G6"));
}

/// A card without the PCIe guarantees shows nothing that the model without them forbids.
#[test]
fn a_fabric_without_the_pcie_guarantees_is_as_its_model_says() {
    let tests = test::load(&["rdma-tso24".to_owned(), "tables".to_owned()])
        .unwrap()
        .tests;
    let plan = Plan {
        runs: 60,
        batch: 30,
        stress: Strategy::None,
        model: Some(Theory::BuiltIn(Model::RdmaTsoNoPcie)),
        ..Plan::default()
    };
    for rests in [Duration::ZERO, Duration::from_micros(20)] {
        let kept = job(
            shm(1, Some(nic(Discipline::without_pcie(), rests))),
            &tests,
            &plan,
        );
        for record in &kept.records {
            assert!(!record.is_violated(), "{}", record.histogram().unwrap());
        }
        assert!(kept.records.iter().filter(|record| record.judged).count() > 45);
    }
}

/// The tier of a fabric is named when its weak outcomes were seen, with the runs that say nothing about weaker ones.
#[test]
fn the_tier_of_a_fabric_is_named() {
    let tests = test::load(&["ordering".to_owned()]).unwrap().tests;
    let tests: Vec<Test> = tests
        .into_iter()
        .filter(|test| {
            test.litmus
                .program
                .locations
                .iter()
                .all(|location| !location.relaxed)
        })
        .collect();
    for tier in Tier::ALL {
        let mut kept = Vec::new();
        let mut named = None;
        for round in 0..10 * ROUNDS {
            kept.extend(records(Discipline::of(tier), &tests, 200, round));
            named = infer(&kept).unwrap().tier.tier;
            if named == Some(tier.name()) {
                break;
            }
        }
        assert_eq!(named, Some(tier.name()));
        let found = infer(&kept).unwrap().tier;
        let weaker = Tier::ALL.iter().skip_while(|&&other| other != tier).count() - 1;
        assert_eq!((found.excluded.len(), found.not_seen.len()), (4 - weaker, weaker));
        assert!(found.not_seen.iter().all(|(.., runs)| *runs > 0), "{found}");
    }
}

/// The model of a fabric that is known is inferred from what it shows.
#[test]
fn known_rule_sets_are_inferred() {
    let in_order = Rule::all()
        .into_iter()
        .filter(|rule| rule.to_string() != "put-placement");
    let mut placing = promised();
    placing.extend(
        Rule::all()
            .into_iter()
            .filter(|rule| rule.to_string() == "put-placement"),
    );
    let without = |gone: &[&str]| -> Vec<Rule> {
        let mut rules = promised();
        rules.retain(|rule| !gone.contains(&&*rule.to_string()));
        rules
    };
    let known: [(&str, Discipline, Vec<Rule>); 5] = [
        (
            "without the PCIe guarantees",
            Discipline::without_pcie(),
            without(&["oppo:G8", "oppo:G9", "flush"]),
        ),
        (
            "gets overtake puts",
            Discipline::ibta().with(RemoteWrite, RemoteRead, false),
            without(&["ippo:G8", "oppo:G8"]),
        ),
        ("the contract", Discipline::ibta(), promised()),
        ("in order", Discipline::in_order(), in_order.collect()),
        (
            "completion after placement",
            changed(|d| d.put_waits_for_placement = true),
            placing,
        ),
    ];
    let tests = suite();
    let mut wrong = Vec::new();
    for (name, discipline, rules) in known {
        let ours = model(&rules);
        let differing = |found: &Inferred| {
            let theirs = model(&found.rules);
            let differs = |test: &&Test| {
                let program = &test.litmus.program;
                outcomes(program, &theirs) != outcomes(program, &ours)
            };
            tests.iter().find(differs).map(|test| test.litmus.print())
        };
        let mut records = records(discipline.clone(), &tests, 150, 0);
        let mut found = infer(&records).unwrap();
        // Races between the card and the processors may take more runs.
        for round in 1..=ROUNDS {
            if differing(&found).is_none() {
                break;
            }
            let again = self::records(discipline.clone(), &longer(&tests), 300, round);
            records.extend(again);
            found = infer(&records).unwrap();
        }
        assert_eq!(found.unexplained, [], "{name}: {found}");
        if let Some(test) = differing(&found) {
            wrong.push(format!("{name}, {test}: {found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
