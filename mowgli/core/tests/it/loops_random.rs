//! Random programs with loops: the machine with and without reduction, the declarative engine, the search by model file, and the same
//! programs unrolled agree, and so do the questions about robustness. `MOWGLI_LOOPS=COUNT,SEED` compares so many.

use std::collections::BTreeSet;

use mowgli::cat;
use mowgli::declarative;
use mowgli::explore::{self, Options};
use mowgli::generate::Random;
use mowgli::model::{Model, Tier};
use mowgli::outcome::{Budget, Limit, Search};
use mowgli::program::{Expr, Instr, Program, UnaryOp};
use mowgli::robust::{self, Exact, Finding, Question};

use crate::loops::{HCA, file_of, litmus};

/// Compares verdicts on programs with loops with those on the same programs, unrolled.
#[test]
fn robustness_of_random_loops_is_that_of_unrolled_programs() {
    let mut random = Random::new(3);
    let budget = Budget {
        states_max: Some(20_000),
        ..Budget::default()
    };
    let (mut conditions, mut searches) = (0, 0);
    for _ in 0..120 {
        let text = waiting(&mut random, Sort::Polls);
        let program = litmus(&text).program;
        let longer = unrolled(&program, 4);
        let model = [Model::RdmaSc, Model::RdmaTso][random.below(2)];
        let ask = |program: &Program| robust::conditions(program, &Question::of(model), &budget);
        let (folded, unfolded) = (ask(&program), ask(&longer));
        for condition in robust::Condition::ALL {
            match (folded.get(condition), unfolded.get(condition)) {
                (Finding::Unknown(_), _) | (_, Finding::Unknown(_)) => {}
                (a, b) => {
                    assert_eq!(
                        a.holds(),
                        b.holds(),
                        "{} under {model}:\n{text}",
                        condition.name()
                    );
                    conditions += 1;
                }
            }
        }
        let ask = |program: &Program| robust::exact(program, model, HCA, &budget);
        match (ask(&program), ask(&longer)) {
            (Exact::Unknown(_), _) | (_, Exact::Unknown(_)) => {}
            (a, b) => {
                let (a, b) = (a == Exact::Robust, b == Exact::Robust);
                assert_eq!(a, b, "exactly, under {model}:\n{text}");
                searches += 1;
            }
        }
    }
    println!("{conditions} conditions and {searches} searches agree");
    assert!(conditions > 100 && searches > 30, "{conditions}, {searches}");
}

/// Replaces each loop by so many conditionals, and an assumption that it has ended.
pub(crate) fn unrolled(program: &Program, times: u32) -> Program {
    fn block(code: &[Instr], times: u32) -> Vec<Instr> {
        code.iter()
            .map(|instr| match instr {
                Instr::While { cond, body, .. } => {
                    let ended = Expr::Unary(UnaryOp::Not, Box::new(cond.clone()));
                    (0..times).fold(Instr::Assume(ended), |rest, _| Instr::If {
                        cond: cond.clone(),
                        then: block(body, times).into_iter().chain([rest]).collect(),
                        otherwise: Vec::new(),
                    })
                }
                Instr::If {
                    cond,
                    then,
                    otherwise,
                } => Instr::If {
                    cond: cond.clone(),
                    then: block(then, times),
                    otherwise: block(otherwise, times),
                },
                other => other.clone(),
            })
            .collect()
    }
    let mut program = program.clone();
    for thread in &mut program.threads {
        thread.code = block(&thread.code, times);
    }
    program
}

/// The operations that a random program may have.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Sort {
    Cpu,
    Polls,
    Waits,
}

/// Draws the text of a program of two threads, in which each waits for words of the other.
pub(crate) fn waiting(random: &mut Random, sort: Sort) -> String {
    let remote = sort != Sort::Cpu;
    let mut columns = [Vec::new(), Vec::new()];
    for (thread, rows) in columns.iter_mut().enumerate() {
        let own = ["x", "u"][random.below(2)];
        let (own, other, node) = match (remote, thread) {
            (true, 1) => (if own == "x" { "y" } else { "v" }, ["x", "u"][random.below(2)], 1),
            (true, _) => (own, ["y", "v"][random.below(2)], 2),
            (false, _) => (own, ["x", "u"][random.below(2)], 1),
        };
        let local = ["a", "b"][thread];
        let get = match sort {
            Sort::Waits => format!("{local} :=[d] {other}^{node}; wait(d)"),
            _ => format!("{local} := {other}^{node}; poll({node})"),
        };
        for _ in 0..1 + random.below(3) {
            let value = 1 + random.below(2);
            let read = if remote && random.once_in(2) {
                format!("{get}; r := {local}")
            } else {
                format!("r := {own}")
            };
            let cond = [
                "r == 0".to_owned(),
                format!("r != {value}"),
                format!("r < {value}"),
            ];
            let cond = &cond[random.below(3)];
            rows.push(match random.below(15) {
                0 => format!("{own} := {value}"),
                1 if remote => format!("{other}^{node} := {value}"),
                1 => format!("{other} := {value}"),
                2 => "mfence".to_owned(),
                3 => format!("s := {own}"),
                4 if remote => format!("{local} := {other}^{node}"),
                4 => format!("s := {other}"),
                5 if remote && sort == Sort::Polls => format!("if (s == 0) {{ {get} }}"),
                5 => format!("r := cas({own}, 0, {value})"),
                6 | 7 => format!("while ({cond}) bound 2 {{ {read} }}"),
                8 => format!("while ({cond}) bound 2 {{ {read}; s := r }}"),
                9 => format!("while ({cond}) bound 2 {{ p := 1 - p; {read} }}"),
                10 => format!(
                    "while ({cond}) bound 2 {{ if (r == {value}) {{ s := {own} }} else {{ {read} }} }}"
                ),
                12 => format!("while ({cond}) bound 2 {{ {own} := {value}; {read} }}"),
                13 if sort == Sort::Polls => {
                    format!("while ({cond}) bound 2 {{ {other}^{node} := {value}; poll({node}); {read} }}")
                }
                11 => format!("while (r != 0) bound 2 {{ r := cas({own}, 0, {value}) }}"),
                _ => format!("while ({cond} && p < 2) bound 2 {{ {read}; {own} := {value}; p := p + 1 }}"),
            });
        }
    }
    let nodes = if remote { "y@2=0; v@2=0; b@2=0;" } else { "b@1=0;" };
    let mut text = format!(
        "RDMA t\n{{ x@1=0; u@1=0; a@1=0; {nodes} 0:r; 1:r; 0:s; 1:s; 0:p; 1:p; }}\nP0@1 | P1@{} ;\n",
        if remote { 2 } else { 1 }
    );
    for row in 0..columns.iter().map(Vec::len).max().unwrap_or(0) {
        let cell = |of: &[String]| of.get(row).cloned().unwrap_or_default();
        text.push_str(&format!("{} | {} ;\n", cell(&columns[0]), cell(&columns[1])));
    }
    text + "exists (true)\n"
}

/// Counts of a comparison.
#[derive(Debug, Default)]
struct Tally {
    programs: u32,
    both: u32,
    by_file: u32,
    machine: u32,
    axioms: u32,
    unknown: u32,
    beyond_bounds: u32,
}

#[test]
fn engines_agree_on_random_programs_with_loops() {
    let asked = std::env::var("MOWGLI_LOOPS").unwrap_or_else(|_| "250,1".to_owned());
    let (count, seed) = asked.split_once(',').unwrap();
    let mut random = Random::new(seed.parse().unwrap());
    let budget = Budget {
        states_max: Some(60_000),
        ..Budget::default()
    };
    let mut tally = Tally::default();
    for _ in 0..count.parse::<usize>().unwrap() {
        let sort = [Sort::Cpu, Sort::Polls, Sort::Polls, Sort::Waits][random.below(4)];
        let text = waiting(&mut random, sort);
        let models: &[Model] = match sort {
            Sort::Cpu => &[Model::Sc, Model::Tso],
            Sort::Polls => &[Model::Sc, Model::RdmaTso, Model::RdmaSc, Model::RdmaTsoNoPcie],
            Sort::Waits => &[Model::Sc, Model::RdmaWait],
        };
        let mut model = models[random.below(models.len())];
        if matches!(model, Model::RdmaTso | Model::RdmaSc | Model::RdmaWait) && random.once_in(3) {
            let tier = Tier::ALL[random.below(Tier::ALL.len())];
            model = model.on(tier).unwrap_or(model);
        }
        compare(&text, model, &budget, &mut tally);
    }
    println!("{tally:?}");
    assert!(tally.both * 2 > tally.programs, "{tally:?}");
    assert!(tally.by_file * 2 > tally.programs, "{tally:?}");
    assert!(tally.beyond_bounds * 10 > tally.programs, "{tally:?}");
}

fn compare(text: &str, model: Model, budget: &Budget<'_>, tally: &mut Tally) {
    let program = litmus(text).program;
    let options = Options {
        workers: 1,
        ..Options::new(model, HCA)
    };
    let machine = |program: &Program, reduction: bool| {
        let options = Options { reduction, ..options };
        explore::outcomes_with(program, &options, budget)
    };
    let (reduced, plain) = (machine(&program, true), machine(&program, false));
    let bounded = explore::outcomes_within_bounds(&program, &options, budget);
    let axioms = declarative::outcomes(&program, model, HCA, budget);
    let by_file = cat::outcomes(&program, file_of(model), HCA, budget);
    tally.programs += 1;
    tally.by_file += u32::from(by_file.is_complete() && axioms.is_complete());
    match (reduced.is_complete(), axioms.is_complete()) {
        (true, true) => tally.both += 1,
        (true, false) => tally.machine += 1,
        (false, true) => tally.axioms += 1,
        (false, false) => tally.unknown += 1,
    }
    let beyond = matches!(bounded.completeness.limit(), Some(Limit::LoopBound { .. }));
    tally.beyond_bounds += u32::from(beyond && reduced.is_complete());
    let unrolled: Vec<Search> = (1..=3)
        .map(|times| machine(&unrolled(&program, times), true))
        .collect();
    let all = [
        ("reduced", &reduced),
        ("plain", &plain),
        ("axioms", &axioms),
        ("file", &by_file),
        ("bounded", &bounded),
    ];
    let all: Vec<(&str, &Search)> = all
        .into_iter()
        .chain(unrolled.iter().map(|search| ("unrolled", search)))
        .collect();
    for &(name, whole) in all.iter().take(4).filter(|(_, search)| search.is_complete()) {
        for (other, some) in &all {
            let more: BTreeSet<_> = some.outcomes.difference(&whole.outcomes).collect();
            assert!(
                more.is_empty(),
                "{other} has more than {name} under {model}: {more:?}\n{text}"
            );
        }
    }
}
