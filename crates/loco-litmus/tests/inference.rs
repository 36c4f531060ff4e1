//! Fabrics that are known to be weaker or stronger than the contract: the suite finds each order that is missing and names it, and the
//! inferred model is that of the fabric, on every test of the suite.

#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use loco_litmus::infer::family::{Rule, model, text};
use loco_litmus::infer::{Inferred, infer};
use loco_litmus::{Plan, Strategy, Test, test};
use loco_shm::Stage::{Atomic, LocalRead, LocalWrite, RemoteRead, RemoteWrite};
use loco_shm::{Discipline, Nic};
use mowgli::cat::{self, Embedded, ModelFile};
use mowgli::model::{Model, RmwAtomicity};
use mowgli::outcome::Budget;
use mowgli::program::Program;
use mowgli::{declarative, generate, litmus};
use mowgli_generate::enumerate::{programs, units};
use mowgli_generate::language::Language;
use support::{job, shm};

fn rule(name: &str) -> Rule {
    Rule::all()
        .into_iter()
        .find(|rule| rule.to_string() == name)
        .unwrap()
}

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
        "RDMA F8\n{ x@1=0; z@2=0; y@2=0; a@1=7; w@2=1; }\n P0@1 | P1@2 ;\n y^2 := x | z := 1 ;\n a := z^2 | x^1 := w ;\n\nexists (y=1 /\\ a=0)\n",
        "RDMA F11\n{ x@1=0; z@2=0; y@2=0; a@1=7; w@2=1; }\n P0@1 | P1@2 ;\n y^2 := x | z := 1 ;\n a := rfaa(z^2, 0) | x^1 := w ;\n\nexists (y=1 /\\ a=0)\n",
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
    let mut discipline = Discipline::contract();
    change(&mut discipline);
    discipline
}

fn nic(discipline: Discipline) -> Nic {
    Nic::Disciplined {
        seed: 7,
        delay_max: Duration::ZERO,
        queue_depth: 64,
        discipline,
    }
}

fn inferred(discipline: Discipline, tests: &[Test], runs: u64) -> Inferred {
    let plan = Plan {
        runs,
        batch: 50,
        stress: Strategy::Default,
        ..Plan::default()
    };
    let kept = job(shm(1, nic(discipline)), tests, &plan);
    assert_eq!(kept.refused, [""; 0]);
    infer(&kept.records).unwrap()
}

/// The promised rules that the inferred model does not have.
fn missing(inferred: &Inferred) -> BTreeSet<String> {
    let missing = inferred.evidence.iter().filter(|e| e.promised && !e.kept);
    missing.map(|e| e.rule.clone()).collect()
}

fn outcomes(program: &Program, rules: &[Rule]) -> BTreeSet<mowgli::outcome::Outcome> {
    let search = cat::outcomes(program, &model(rules), RmwAtomicity::Hca, &Budget::default());
    assert!(search.is_complete());
    search.outcomes
}

#[test]
fn the_promised_rules_are_rdma_tso() {
    let catalogue = test::load(&["rdma-tso24".to_owned(), "rmw".to_owned(), "tables".to_owned()]).unwrap();
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
    let rules = promised();
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

/// Each order that a queue pair promises and that a program can see is taken away alone. It is found, and no other.
#[test]
fn each_broken_order_is_found_and_named() {
    let contract = Discipline::contract;
    let cells = [
        ("F6", LocalRead, LocalRead),
        ("F8", LocalRead, RemoteRead),
        ("F11", LocalRead, Atomic),
        ("G7", RemoteWrite, RemoteWrite),
        ("G11", RemoteWrite, Atomic),
        ("I9", LocalWrite, LocalWrite),
        ("K7", Atomic, RemoteWrite),
        ("K8", Atomic, RemoteRead),
        ("K11", Atomic, Atomic),
    ];
    let mut broken: Vec<(&str, Discipline)> = Vec::new();
    broken.extend(cells.map(|(name, earlier, later)| (name, contract().with(earlier, later, false))));
    broken.push(("fence", changed(|d| d.fences = false)));
    broken.push(("get-completion", changed(|d| d.get_waits_for_result = false)));
    broken.push(("put-completion", changed(|d| d.put_waits_for_read = false)));
    broken.push(("atomicity", changed(|d| d.atomics_are_atomic = false)));
    let tests = suite();
    for (name, discipline) in broken {
        let found = inferred(discipline, &tests, 150);
        assert_eq!(missing(&found), BTreeSet::from([name.to_owned()]), "{found}");
        assert_eq!(found.unexplained, [], "{found}");
    }
}

/// The model of a fabric that is known is inferred from what it shows.
#[test]
fn known_rule_sets_are_inferred() {
    let without = |names: &[&str]| -> Vec<Rule> {
        let gone: Vec<Rule> = names.iter().map(|name| rule(name)).collect();
        promised()
            .into_iter()
            .filter(|rule| !gone.contains(rule))
            .collect()
    };
    let contract = Discipline::contract;
    let in_order = Rule::all()
        .into_iter()
        .filter(|&r| r != rule("put-placement"))
        .collect();
    let overtaking = contract()
        .with(RemoteWrite, RemoteRead, false)
        .with(RemoteWrite, LocalWrite, false);
    let mut placing = without(&[]);
    placing.push(rule("put-placement"));
    let known: [(&str, Discipline, Vec<Rule>); 5] = [
        ("the contract", contract(), without(&[])),
        ("in order", Discipline::in_order(), in_order),
        (
            "no PCIe guarantee",
            Discipline::without_pcie(),
            without(&["oppo:G8", "oppo:G9", "flush"]),
        ),
        (
            "gets overtake puts",
            overtaking,
            without(&["ippo:G8", "oppo:G8", "ippo:G9", "oppo:G9"]),
        ),
        (
            "completion after placement",
            changed(|d| d.put_waits_for_placement = true),
            placing,
        ),
    ];
    let tests = suite();
    for (name, discipline, rules) in known {
        let found = inferred(discipline, &tests, 400);
        assert_eq!(found.unexplained, [], "{name}: {found}");
        for test in &tests {
            let program = &test.litmus.program;
            assert_eq!(
                outcomes(program, &found.rules),
                outcomes(program, &rules),
                "{name}, {}: {found}",
                test.litmus.print()
            );
        }
    }
}
