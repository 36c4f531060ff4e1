//! The operational engine: traces, limits, several workers, and programs that it refuses.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use mowgli::explore::{Actor, Options, outcomes, outcomes_with, trace};
use mowgli::litmus::parse;
use mowgli::model::{Model, RmwAtomicity};
use mowgli::outcome::{Budget, Completeness, Endless, Growth, Limit};
use mowgli::program::{Instr, Loc, Program, Reg};

const HCA: RmwAtomicity = RmwAtomicity::Hca;

fn program(text: &str) -> Program {
    parse(text).unwrap_or_else(|e| panic!("{e:?}")).litmus.program
}

/// Two threads, each a put and a read of what the other puts.
fn store_buffering() -> Program {
    program(
        "RDMA SB
{ y@1=0; x@2=0; }
 P0@1     | P1@2     ;
 x^2 := 1 | y^1 := 1 ;
 poll(2)  | poll(1)  ;
 a := y   | b := x   ;
exists (0:a=0 /\\ 1:b=0)",
    )
}

/// Large without reduction.
fn large() -> Program {
    program(
        "RDMA large
{ a@1=0; b@1=0; x@2=0; y@2=0; c@2=0; z@3=0; }
 P0@1     | P1@2             | P2@3     ;
 x^2 := 1 | c := rfaa(z^3,1) | y^2 := 1 ;
 a := x^2 | r := x           | z := 5   ;
exists (a=1)",
    )
}

#[test]
fn a_trace_leads_to_the_outcome_and_says_who_acts() {
    let weak = |o: &mowgli::outcome::Outcome| o.registers == vec![vec![0], vec![0]];
    let steps = trace(&store_buffering(), Model::RdmaTso, HCA, &weak, &Budget::default())
        .unwrap()
        .unwrap();
    let texts: Vec<String> = steps.iter().map(ToString::to_string).collect();
    // Two puts of seven steps (post, drain, local read, remote write, placement, completion, poll) and two loads.
    assert_eq!(steps.len(), 16, "{texts:#?}");
    assert!(texts.contains(&"P0: poll(2)".to_owned()), "{texts:#?}");
    let placed = texts
        .iter()
        .position(|t| t.contains("is placed: y := 1"))
        .unwrap();
    let read = texts.iter().position(|t| t == "P0: a := y (=0)").unwrap();
    assert!(
        read < placed,
        "the put to y is placed after P0 has read y: {texts:#?}"
    );
    assert!(steps.iter().any(|s| s.actor == Actor::Nic(1)) && steps.iter().any(|s| s.actor == Actor::Cpu));
}

#[test]
fn a_forbidden_outcome_has_no_trace() {
    let never = |o: &mowgli::outcome::Outcome| o.registers[0] == [7];
    let none = trace(
        &store_buffering(),
        Model::RdmaTso,
        HCA,
        &never,
        &Budget::default(),
    );
    assert_eq!(none, Ok(None));
}

#[test]
fn every_outcome_has_a_trace() {
    let program = large();
    for model in [Model::RdmaSc, Model::RdmaTso, Model::RdmaTsoNoPcie] {
        let found = outcomes(&program, model, HCA, &Budget::default());
        assert!(found.outcomes.len() > 2);
        for outcome in &found.outcomes {
            let steps = trace(&program, model, HCA, &|o| o == outcome, &Budget::default());
            assert!(matches!(steps, Ok(Some(_))), "{model}: {outcome:?}");
        }
    }
}

#[test]
fn limits_make_the_answer_incomplete_and_never_wrong() {
    let program = large();
    let plain = Options {
        reduction: false,
        workers: 2,
        ..Options::new(Model::RdmaTso, HCA)
    };
    let all = outcomes_with(&program, &plain, &Budget::default());
    assert!(all.is_complete() && all.states > 1_000, "{}", all.states);
    for states_max in [1, 10, 500] {
        let budget = Budget {
            states_max: Some(states_max),
            ..Budget::default()
        };
        let some = outcomes_with(&program, &plain, &budget);
        assert!(matches!(
            some.completeness,
            Completeness::Incomplete(Limit::States(_))
        ));
        assert!(some.outcomes.is_subset(&all.outcomes));
    }
    let cancelled = AtomicBool::new(true);
    let budget = Budget {
        cancel: Some(&cancelled),
        ..Budget::default()
    };
    let some = outcomes_with(&program, &plain, &budget);
    assert_eq!(some.completeness, Completeness::Incomplete(Limit::Cancelled));
    let budget = Budget {
        deadline: Some(Instant::now()),
        ..Budget::default()
    };
    let some = outcomes_with(&program, &plain, &budget);
    assert_eq!(some.completeness, Completeness::Incomplete(Limit::Time));
}

#[test]
fn several_threads_find_the_same_states() {
    let program = program(
        "RDMA larger
{ a@1=0; b@1=0; x@2=0; y@2=0; c@2=0; z@3=0; }
 P0@1     | P1@2             | P2@3     ;
 x^2 := 1 | c := rfaa(z^3,1) | y^2 := 1 ;
 a := x^2 | r := x           | z := 5   ;
 y^2 := 2 |                  |          ;
exists (a=1)",
    );
    let one = Options {
        reduction: false,
        workers: 1,
        ..Options::new(Model::RdmaTso, HCA)
    };
    let alone = outcomes_with(&program, &one, &Budget::default());
    assert!(alone.states > 20_000, "{} states: too few to share", alone.states);
    for workers in [2, 4] {
        let shared = outcomes_with(&program, &Options { workers, ..one }, &Budget::default());
        assert_eq!(alone.outcomes, shared.outcomes);
        assert!(shared.is_complete());
    }
}

#[test]
fn a_loop_whose_states_have_no_end_is_said_to() {
    let spin = program(
        "RDMA spin
{ x@1=0; 0:s; }
 P0@1                                            | P1@1   ;
 while (r == 0) bound 3 { s := s + 1; r := x }   | x := 1 ;
exists (0:r=1)",
    );
    let found = outcomes(&spin, Model::Tso, HCA, &Budget::default());
    let bound = Limit::LoopBound {
        thread: 0,
        bound: 3,
        at: Some(Endless {
            instruction: 0,
            growth: Growth::Registers,
        }),
    };
    assert_eq!(found.completeness, Completeness::Incomplete(bound));
    assert!(found.outcomes.iter().all(|o| o.registers[0].contains(&1)) && !found.outcomes.is_empty());
}

#[test]
fn programs_that_make_no_sense_are_refused() {
    let mut wrong = store_buffering();
    wrong.threads[0].code.push(Instr::Load {
        reg: Reg(9),
        loc: Loc(0),
    });
    let mut lost = store_buffering();
    lost.threads[0].code.push(Instr::Load {
        reg: Reg(0),
        loc: Loc(9),
    });
    for program in [wrong, lost] {
        let found = outcomes(&program, Model::RdmaTso, HCA, &Budget::default());
        assert!(matches!(
            found.completeness,
            Completeness::Incomplete(Limit::TooLarge(_))
        ));
        assert!(trace(&program, Model::RdmaTso, HCA, &|_| true, &Budget::default()).is_err());
    }
    let remote = outcomes(&store_buffering(), Model::Tso, HCA, &Budget::default());
    assert!(matches!(
        remote.completeness,
        Completeness::Incomplete(Limit::Undefined(_))
    ));
}
