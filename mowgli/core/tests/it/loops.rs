//! Loops: where the states of a program come to an end, both engines decide it whatever the bounds of its loops.
//!
//! Named programs have the verdicts that their authors would expect. [`crate::loops_random`] compares engines on random ones.

use std::collections::BTreeMap;
use std::sync::Mutex;

use mowgli::cat::{self, ModelFile};
use mowgli::check::{self, Engine};
use mowgli::declarative;
use mowgli::explore;
use mowgli::litmus::{Litmus, Setting, Verdict, parse};
use mowgli::model::{Model, RmwAtomicity};
use mowgli::outcome::{Budget, Completeness, Endless, Growth, Limit};
use mowgli::robust::{self, Finding, Question};

pub(crate) const HCA: RmwAtomicity = RmwAtomicity::Hca;

/// Returns the file of a model, which is read once.
pub(crate) fn file_of(model: Model) -> &'static ModelFile {
    static FILES: Mutex<BTreeMap<Model, &ModelFile>> = Mutex::new(BTreeMap::new());
    let mut files = FILES.lock().unwrap();
    files
        .entry(model)
        .or_insert_with(|| Box::leak(Box::new(ModelFile::of(model))))
}

pub(crate) fn litmus(text: &str) -> Litmus {
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

/// Returns the verdicts of the two engines, each alone, and of the model's file.
fn verdicts(litmus: &Litmus, model: Model) -> [Option<Verdict>; 3] {
    let program = &litmus.program;
    let machine = explore::outcomes(program, model, HCA, &Budget::default());
    let axioms = declarative::outcomes(program, model, HCA, &Budget::default());
    let by_file = cat::outcomes(program, file_of(model), HCA, &Budget::default());
    [machine, axioms, by_file].map(|search| check::judge(litmus, 0, &search).verdict())
}

/// Panics unless both engines, and the model's file, give this verdict.
#[track_caller]
fn decided(litmus: &Litmus, model: Model, verdict: Verdict) {
    assert_eq!(
        verdicts(litmus, model),
        [Some(verdict); 3],
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
        assert_eq!(verdicts(&none, model), [None; 3]);
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

/// A loop whose states have no end stays unknown. The limit names the loop, and what grows.
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
