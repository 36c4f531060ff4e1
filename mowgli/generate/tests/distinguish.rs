//! Tests that separate two models: found where the models differ, smallest first, confirmed by both engines.

#![allow(clippy::unwrap_used)] // Helpers of tests are tests.

use mowgli::catalogue;
use mowgli::check::applicable;
use mowgli::explore;
use mowgli::generate::{self, Shape};
use mowgli::litmus::{Condition, Expected, Litmus, Operand, Quantifier, Query, Setting, Verdict};
use mowgli::model::{Model, RmwAtomicity, Tier};
use mowgli::outcome::Budget;
use mowgli::program::{Expr, Instr, Program, PutSrc};
use mowgli_generate::distinguish::{Separator, separators};
use mowgli_generate::enumerate::units;
use mowgli_generate::language::Language;
use mowgli_generate::order::permutations;
use mowgli_generate::theory::{BuiltIn, Theory};

/// The separators of the least size that has any, among programs without compare-and-swaps.
fn smallest(first: Model, second: Model, most: u8) -> Vec<Separator> {
    let [a, b] = [first, second].map(|m| BuiltIn::new(m, RmwAtomicity::Hca));
    let language = Language {
        cas: false,
        ..a.language(most).common(b.language(most))
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

fn litmus(separator: &Separator) -> Litmus {
    Litmus {
        name: "t".to_owned(),
        description: None,
        program: separator.program.clone(),
        observed: Vec::<Operand>::new(),
        stated: Vec::new(),
        queries: Vec::new(),
    }
}

fn code(separator: &Separator) -> String {
    litmus(separator).print()
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

/// A program up to the order of threads, names, values and initial values.
fn shape(program: &Program) -> String {
    let orders = permutations(program.threads.len()).into_iter();
    let texts = orders.map(|order| {
        let mut program = program.clone();
        program.threads = order.iter().map(|&t| program.threads[t].clone()).collect();
        let mut numbers: Vec<(&'static str, i64)> = Vec::new();
        let mut number = |of: &'static str, old: i64| {
            let found = numbers.iter().filter(|n| n.0 == of).position(|n| n.1 == old);
            found.unwrap_or_else(|| {
                numbers.push((of, old));
                numbers.iter().filter(|n| n.0 == of).count() - 1
            })
        };
        let locations = program.locations.clone();
        let mut text = String::new();
        for thread in &program.threads {
            text += &format!("\nnode {}:", number("node", thread.node.0.into()));
            for instr in &thread.code {
                let mut place = |loc: mowgli::program::Loc| {
                    let at = &locations[usize::from(loc.0)];
                    let node = number("node", at.node.0.into());
                    format!("{}@{node}{}", number("location", loc.0.into()), at.relaxed)
                };
                let (plain, strong) = instr.request();
                text += &match plain {
                    Instr::Store { loc, .. } => format!(" store {}", place(*loc)),
                    Instr::Load { loc, .. } => format!(" load {}", place(*loc)),
                    Instr::Put { dst, src, work } => {
                        let from = match src {
                            PutSrc::Loc(src) => place(*src),
                            PutSrc::Value(_) | PutSrc::Inline(_) => "constant".to_owned(),
                        };
                        format!(" put{strong} {} {from} {work:?}", place(*dst))
                    }
                    Instr::Get { dst, src, work } => {
                        format!(" get{strong} {} {} {work:?}", place(*dst), place(*src))
                    }
                    Instr::RemoteFaa {
                        dst, target, work, ..
                    } => {
                        format!(" rfaa{strong} {} {} {work:?}", place(*dst), place(*target))
                    }
                    Instr::RemoteCas {
                        dst,
                        target,
                        expected: Expr::Const(expected),
                        work,
                        ..
                    } => {
                        let initial = *expected == locations[usize::from(target.0)].init;
                        format!(
                            " rcas{strong} {} {} {initial} {work:?}",
                            place(*dst),
                            place(*target)
                        )
                    }
                    Instr::Poll { node } => format!(" poll {}", number("node", node.0.into())),
                    Instr::Rfence { node } => format!(" rfence {}", number("node", node.0.into())),
                    other => format!(" {other:?}"),
                };
            }
        }
        text
    });
    texts.min().unwrap_or_default()
}

/// The neighbouring tiers, the stronger first.
const NEIGHBOURS: [(Tier, Tier); 4] = [
    (Tier::Ibta, Tier::OooRw),
    (Tier::OooRw, Tier::OooAll),
    (Tier::OooAll, Tier::Unordered),
    (Tier::Ibta, Tier::PcieRelaxed),
];

/// The most instructions of the tests. The catalogue has those of two instructions, and those in which an operation asks for strong
/// order; with read-modify-writes there are hundreds of three, which `mowgli distinguish` makes.
const SIZE: u8 = 3;

/// Returns whether the catalogue has the test.
fn is_kept(separator: &Separator) -> bool {
    let has = |is: &dyn Fn(&Instr) -> bool| separator.program.threads.iter().flat_map(|t| &t.code).any(is);
    let rcas = has(&|i| matches!(i.request().0, Instr::RemoteCas { .. }));
    let rfaa = has(&|i| matches!(i.request().0, Instr::RemoteFaa { .. }));
    // A remote compare-and-swap is ordered as a fetch-and-add.
    !rcas && (separator.size == 2 || !rfaa && has(&|i| i.request().1))
}

/// The text of a test, with its verdict on every tier on which it has a meaning.
fn stated(separator: &Separator) -> String {
    let mut expected = Expected::default();
    for tier in Tier::ALL {
        let model = Model::RdmaTso.on(tier).unwrap();
        if applicable(&separator.program, model).is_ok() {
            let found = explore::outcomes(&separator.program, model, RmwAtomicity::Hca, &Budget::default());
            let allowed = found.outcomes.iter().any(|o| separator.condition.holds(o));
            let verdict = if allowed {
                Verdict::Allowed
            } else {
                Verdict::Forbidden
            };
            expected.insert(
                Setting {
                    model,
                    rmw: RmwAtomicity::Hca,
                },
                verdict,
            );
        }
    }
    let litmus = Litmus {
        queries: vec![Query {
            condition: Condition {
                quantifier: Quantifier::Exists,
                formula: separator.condition.formula(),
            },
            expected,
        }],
        ..litmus(separator)
    };
    litmus.print()
}

/// What separates neighbouring tiers: the machines agree, and the catalogue has the smallest, up to names and values.
#[test]
fn the_catalogue_has_the_minimal_tests_between_neighbouring_tiers() {
    let known: Vec<String> = catalogue::entries()
        .iter()
        .filter(|entry| entry.folder == "ordering")
        .map(|entry| shape(&entry.parse().unwrap().program))
        .collect();
    let mut missing = Vec::new();
    for (strong, weak) in NEIGHBOURS {
        let on = |tier| Model::RdmaTso.on(tier).unwrap();
        let [a, b] = [strong, weak].map(|tier| BuiltIn::new(on(tier), RmwAtomicity::Hca));
        let language = Language {
            cas: false,
            fences: false,
            rmw: true,
            ..a.language(SIZE).common(b.language(SIZE))
        };
        let mut found = 0;
        for unit in units(&language) {
            let of_unit = separators(&a, &b, &language, &unit, &Budget::default()).unwrap();
            for separator in of_unit.tests {
                assert!(separator.first_forbids, "{strong} {weak}: {}", code(&separator));
                let allows = |tier: Tier| {
                    let mut program = separator.program.clone();
                    if !tier.has_relaxed_regions() {
                        program.locations.iter_mut().for_each(|l| l.relaxed = false);
                    }
                    let found = explore::outcomes(&program, on(tier), RmwAtomicity::Hca, &Budget::default());
                    assert!(found.is_complete());
                    found.outcomes.iter().any(|o| separator.condition.holds(o))
                };
                assert!(
                    !allows(strong) && allows(weak),
                    "{strong} {weak}: {}",
                    code(&separator)
                );
                found += 1;
                if is_kept(&separator) && !known.contains(&shape(&separator.program)) {
                    missing.push(format!("{strong} {weak}\n{}", stated(&separator)));
                }
            }
        }
        println!("{strong} {weak}: {found} tests");
        assert!(found > 0, "{strong} {weak}");
    }
    assert!(
        missing.is_empty(),
        "{} missing:\n{}",
        missing.len(),
        missing.join("\n")
    );
}
