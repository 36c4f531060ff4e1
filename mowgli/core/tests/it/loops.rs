//! Loops: where the states of a program come to an end, both engines decide it whatever the bounds of its loops.
//!
//! Named programs have the verdicts that their authors would expect. Random programs with loops are compared: the machine with and
//! without reduction, the declarative engine, and the same programs unrolled. `MOWGLI_LOOPS=COUNT,SEED` compares so many.

use std::collections::BTreeSet;

use mowgli::check::{self, Engine};
use mowgli::declarative;
use mowgli::explore::{self, Options};
use mowgli::generate::Random;
use mowgli::litmus::{Litmus, Setting, Verdict, parse};
use mowgli::model::{Model, RmwAtomicity, Tier};
use mowgli::outcome::{Budget, Completeness, Endless, Growth, Limit, Search};
use mowgli::program::{Expr, Instr, Program, UnaryOp};
use mowgli::robust::{self, Exact, Finding, Question};

const HCA: RmwAtomicity = RmwAtomicity::Hca;

fn litmus(text: &str) -> Litmus {
    parse(text).unwrap_or_else(|e| panic!("{text}: {e}")).litmus
}

/// Makes a test: locations and the rows of two threads, on node 1 and on `node`, and a condition.
fn two(init: &str, node: u8, rows: &[(&str, &str)], condition: &str) -> Litmus {
    let rows: String = rows.iter().map(|(a, b)| format!("{a} | {b} ;\n")).collect();
    litmus(&format!(
        "RDMA t\n{{ {init} }}\nP0@1 | P1@{node} ;\n{rows}exists ({condition})\n"
    ))
}

fn setting(model: Model) -> Setting {
    Setting { model, rmw: HCA }
}

/// Returns the verdicts of the two engines, each alone.
fn verdicts(litmus: &Litmus, model: Model) -> [Option<Verdict>; 2] {
    let program = &litmus.program;
    let machine = explore::outcomes(program, model, HCA, &Budget::default());
    let axioms = declarative::outcomes(program, model, HCA, &Budget::default());
    [machine, axioms].map(|search| check::judge(litmus, 0, &search).verdict())
}

/// Panics unless both engines give this verdict under the model.
#[track_caller]
fn decided(litmus: &Litmus, model: Model, verdict: Verdict) {
    assert_eq!(
        verdicts(litmus, model),
        [Some(verdict); 2],
        "{model}:\n{}",
        litmus.print()
    );
}

#[test]
fn a_wait_for_a_flag_is_decided() {
    let spin = |first: &str, second: &str, bound: u32| {
        let wait = format!("while (r == 0) bound {bound} {{ r := f }}");
        let rows = [
            (format!("{first} := 1"), wait),
            (format!("{second} := 1"), "s := d".to_owned()),
        ];
        let rows = rows.each_ref().map(|(a, b)| (a.as_str(), b.as_str()));
        two("d@1=0; f@1=0;", 1, &rows, "1:s=0")
    };
    for bound in [1, 2, 1000] {
        for model in [
            Model::Sc,
            Model::Tso,
            Model::RdmaTso,
            Model::RdmaSc,
            Model::RdmaWait,
        ] {
            decided(&spin("d", "f", bound), model, Verdict::Forbidden);
            decided(&spin("f", "d", bound), model, Verdict::Allowed);
        }
    }
}

#[test]
fn a_wait_across_the_network_is_decided() {
    let remote = |bound: u32, first: &str, second: &str| {
        let wait = format!("while (r == 0) bound {bound} {{ a := z^2; poll(2); r := a }}");
        let rows = [
            (wait.as_str(), first),
            ("b := d^2", second),
            ("poll(2)", ""),
            ("s := b", ""),
        ];
        two("a@1=0; z@2=0; d@2=0; b@1=0;", 2, &rows, "0:r=1 /\\ 0:s=0")
    };
    for bound in [1, 3, 1000] {
        for model in [Model::Sc, Model::RdmaTso, Model::RdmaSc] {
            decided(&remote(bound, "d := 1", "z := 1"), model, Verdict::Forbidden);
            decided(&remote(bound, "z := 1", "d := 1"), model, Verdict::Allowed);
        }
    }
    let named = two(
        "a@1=0; z@2=0; d@2=0; b@1=0;",
        2,
        &[
            (
                "while (r == 0) bound 2 { a :=[i] z^2; wait(i); r := a }",
                "d := 1",
            ),
            ("b :=[j] d^2", "z := 1"),
            ("wait(j)", ""),
            ("s := b", ""),
        ],
        "0:r=1 /\\ 0:s=0",
    );
    decided(&named, Model::RdmaWait, Verdict::Forbidden);
}

/// A get that is still under way when the next iteration begins may land after it, so the iteration has an effect.
#[test]
fn a_get_that_is_not_waited_for_is_no_failed_read() {
    let test = two(
        "a@1=7; z@2=0; x@2=0;",
        2,
        &[
            ("a := x^2", "z := 1"),
            ("while (r == 0) bound 2 { a := z^2; poll(2); r := a }", ""),
        ],
        "0:r=1",
    );
    for model in [Model::RdmaTso, Model::RdmaSc] {
        let answer = check::run(&test.program, setting(model), Engine::Both, &Budget::default()).unwrap();
        assert_eq!(answer.disagreement, None);
        assert!(answer.search.is_complete(), "{:?}", answer.search.completeness);
    }
}

#[test]
fn two_waits_for_one_another_are_decided() {
    // Each tells before it waits: both end.
    let both = two(
        "x@1=0; y@1=0; d@1=0;",
        1,
        &[
            ("d := 1", "y := 1"),
            ("x := 1", "while (s == 0) bound 2 { s := x }"),
            ("while (r == 0) bound 2 { r := y }", "t := d"),
        ],
        "1:t=0",
    );
    // Each waits before it tells: none ends.
    let none = two(
        "x@1=0; y@1=0;",
        1,
        &[
            (
                "while (r == 0) bound 2 { r := y }",
                "while (s == 0) bound 2 { s := x }",
            ),
            ("x := 1", "y := 1"),
        ],
        "true",
    );
    for model in [Model::Sc, Model::Tso, Model::RdmaTso] {
        decided(&both, model, Verdict::Forbidden);
        assert_eq!(verdicts(&none, model), [None; 2]);
        let found = check::run(&none.program, setting(model), Engine::Both, &Budget::default()).unwrap();
        assert!(found.search.is_complete() && found.search.outcomes.is_empty());
    }
}

#[test]
fn nested_waits_are_decided() {
    let test = two(
        "x@1=0; y@1=0; d@1=0;",
        1,
        &[
            (
                "d := 1",
                "while (s == 0) bound 2 { r := 0; while (r == 0) bound 2 { r := x }; s := y }",
            ),
            ("x := 1", "t := d"),
            ("y := 1", ""),
        ],
        "1:t=0",
    );
    for model in [Model::Sc, Model::Tso, Model::RdmaTso] {
        decided(&test, model, Verdict::Forbidden);
    }
}

/// A lock by compare-and-swap, taken and released by both threads, which then add to a word.
#[test]
fn locks_that_spin_are_decided() {
    let section = "while (r != 0) bound 3 { r := cas(l, 0, 1) }";
    let local = |release: &str| {
        let rows = [
            ("r := 1", "r := 1"),
            (section, section),
            ("s := d", "s := d"),
            ("d := s + 1", "d := s + 1"),
            (release, release),
        ];
        two("l@1=0; d@1=0;", 1, &rows, "d=1")
    };
    for model in [Model::Sc, Model::Tso, Model::RdmaTso] {
        decided(&local("l := 0"), model, Verdict::Forbidden);
    }
    let take =
        |own: &str| format!("while (r != 0) bound 9 {{ {own} := rcas(l^3, 0, 1); poll(3); r := {own} }}");
    let (left, right) = (take("a"), take("b"));
    let remote = |release: &str| {
        let rows = [
            ("r := 1", "r := 1"),
            (left.as_str(), right.as_str()),
            ("s := d", "s := d"),
            ("d := s + 1", "d := s + 1"),
            (release, release),
        ];
        two("l@3=0; d@1=0; a@1=9; b@1=9;", 1, &rows, "d=1")
    };
    decided(&remote("l^3 := 0"), Model::RdmaSc, Verdict::Forbidden);
    decided(&remote("l^3 := 0"), Model::RdmaTso, Verdict::Forbidden);
}

#[test]
fn a_loop_that_counts_to_a_value_needs_no_bound_of_its_own() {
    for (bound, fuel) in [(1, 3), (5, 3)] {
        let wait = format!("while (r == 0 && n < {fuel}) bound {bound} {{ r := f; n := n + 1 }}");
        let test = two("f@1=0; 1:r; 1:n;", 1, &[("f := 1", &wait)], "1:r=0 /\\ 1:n=3");
        for model in [Model::Sc, Model::Tso, Model::RdmaTso] {
            let found = explore::outcomes(&test.program, model, HCA, &Budget::default());
            assert_eq!(
                check::judge(&test, 0, &found).verdict(),
                Some(Verdict::Allowed),
                "{model}"
            );
            assert_eq!(found.outcomes.len(), 4);
            let engine = Engine::Declarative;
            let answer = check::decide(&test, setting(model), engine, &Budget::default()).unwrap();
            assert_eq!(
                check::judge(&test, 0, &answer.search).verdict(),
                Some(Verdict::Allowed)
            );
        }
    }
}

/// A register that takes finitely many values: iterations are told apart by it.
#[test]
fn a_loop_over_finitely_many_values_of_a_register_is_decided() {
    let toggle = two(
        "f@1=0; 1:r; 1:p;",
        1,
        &[("f := 1", "while (r == 0) bound 2 { p := 1 - p; r := f }")],
        "1:p=0",
    );
    for model in [Model::Sc, Model::Tso] {
        decided(&toggle, model, Verdict::Allowed);
        let found = explore::outcomes(&toggle.program, model, HCA, &Budget::default());
        assert!(found.is_complete() && found.outcomes.len() == 2);
    }
}

/// Puts of a loop that polls them: the other thread sees a value only after it was put, however often.
#[test]
fn a_loop_with_a_put_inside_is_decided_or_says_why() {
    let test = two(
        "x@2=0; y@1=0; z@2=0;",
        2,
        &[
            (
                "while (r == 0) bound 2 { x^2 := 1; poll(2); r := y }",
                "while (s == 0) bound 2 { s := x }",
            ),
            ("", "y^1 := 1"),
            ("", "poll(1)"),
        ],
        "0:r=1 /\\ 1:s=1 /\\ x=0",
    );
    let answer = check::run(
        &test.program,
        setting(Model::Sc),
        Engine::Both,
        &Budget::default(),
    )
    .unwrap();
    assert_eq!(
        check::judge(&test, 0, &answer.search).verdict(),
        Some(Verdict::Forbidden)
    );
    for model in [Model::RdmaSc, Model::RdmaTso] {
        let answer = check::run(&test.program, setting(model), Engine::Both, &Budget::default()).unwrap();
        assert_eq!(answer.disagreement, None);
        match answer.search.completeness {
            Completeness::Complete => {}
            Completeness::Incomplete(Limit::LoopBound {
                thread: 0,
                at:
                    Some(Endless {
                        instruction: 0,
                        growth: Growth::Operations,
                    }),
                ..
            }) => {}
            other => panic!("{model}: {other:?}"),
        }
    }
}

#[test]
fn an_endless_loop_has_no_outcome() {
    for body in [
        "r := x",
        "t := r",
        "s := x; while (s == 0) bound 2 { s := x }",
        "",
    ] {
        let test = litmus(&format!(
            "RDMA t\n{{ x@1=0; 0:r; 0:s; 0:t; }}\nP0@1 ;\nwhile (r == 0) bound 2 {{ {body} }} ;\nexists (true)\n"
        ));
        for model in [Model::Sc, Model::Tso, Model::RdmaTso] {
            let found = check::run(&test.program, setting(model), Engine::Both, &Budget::default()).unwrap();
            assert!(
                found.search.is_complete() && found.search.outcomes.is_empty(),
                "{body}"
            );
            assert_eq!(found.disagreement, None);
            let axioms = declarative::outcomes(&test.program, model, HCA, &Budget::default());
            assert!(axioms.is_complete() && axioms.outcomes.is_empty(), "{body}");
        }
    }
}

/// What has states without end stays unknown. The limit names the loop, and what grows.
#[test]
fn a_loop_whose_states_have_no_end_is_named() {
    let cases = [
        ("while (s == 0) bound 2 { r := r + 1; s := y }", Growth::Registers),
        (
            "while (s == 0) bound 2 { x := 1; r := x; s := y }",
            Growth::Operations,
        ),
        (
            "while (s == 0) bound 2 { z^2 := 1; a := z^2; poll(2); s := y }",
            Growth::Operations,
        ),
    ];
    for (code, growth) in cases {
        let text = format!(
            "RDMA t\n{{ a@1=0; x@1=0; y@1=0; z@2=0; 0:r; 0:s; }}\nP0@1 | P1@1 ;\nt := 1 | t := x ;\n{code} | y := 1 ;\nexists (true)\n"
        );
        let test = litmus(&text);
        for engine in Engine::ALL {
            let model = setting(Model::RdmaTso);
            let answer = check::run(&test.program, model, engine, &Budget::default()).unwrap();
            let limit = Limit::LoopBound {
                thread: 0,
                bound: 2,
                at: Some(Endless {
                    instruction: 1,
                    growth,
                }),
            };
            assert_eq!(
                answer.search.completeness,
                Completeness::Incomplete(limit),
                "{engine}: {code}"
            );
            assert!(!answer.search.outcomes.is_empty(), "{code}");
        }
    }
}

#[test]
fn robustness_of_loops_is_decided_whatever_their_bounds() {
    let spin = |last: &str| {
        let wait = "while (r == 0) bound 1 { a := z^2; poll(2); r := a }";
        let rows = [(wait, "d := 1"), ("b := d^2", "z := 1"), (last, "")];
        two("a@1=0; z@2=0; d@2=0; b@1=0;", 2, &rows, "true")
    };
    for model in [Model::RdmaSc, Model::RdmaTso] {
        let ask = |litmus: &Litmus| {
            robust::ask(&litmus.program, &Question::of(model), true, &Budget::default()).verdict()
        };
        let waits = spin("poll(2)");
        assert_eq!(
            ask(&waits),
            robust::Verdict::Robust(robust::Theorem::Corollary1),
            "{model}"
        );
        // A put of the loop may read its source after the store of the next iteration.
        let races = two(
            "d@1=0; y@1=0; z@2=0;",
            2,
            &[("while (r == 0) bound 1 { d := 1; z^2 := d; r := y }", "y^1 := 1")],
            "true",
        );
        let found = robust::conditions(&races.program, &Question::of(model), &Budget::default());
        assert!(matches!(found.ldrf, Finding::Fails(_)), "{model}");
    }
}

/// What holds for a program with loops holds for the same program unrolled.
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
fn unrolled(program: &Program, times: u32) -> Program {
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
enum Sort {
    Cpu,
    Polls,
    Waits,
}

/// Draws the text of a program of two threads, in which each waits for words of the other.
fn waiting(random: &mut Random, sort: Sort) -> String {
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
    tally.programs += 1;
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
        ("bounded", &bounded),
    ];
    let all: Vec<(&str, &Search)> = all
        .into_iter()
        .chain(unrolled.iter().map(|search| ("unrolled", search)))
        .collect();
    for &(name, whole) in all.iter().take(3).filter(|(_, search)| search.is_complete()) {
        for (other, some) in &all {
            let more: BTreeSet<_> = some.outcomes.difference(&whole.outcomes).collect();
            assert!(
                more.is_empty(),
                "{other} has more than {name} under {model}: {more:?}\n{text}"
            );
        }
    }
}
