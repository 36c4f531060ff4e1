//! The declarative engine on the catalogue and on tests of single rules.

use mowgli::catalogue;
use mowgli::declarative::{self, reference};
use mowgli::litmus::{self, Litmus, Verdict};
use mowgli::model::{Model, RmwAtomicity};
use mowgli::models::Spec;
use mowgli::outcome::{Budget, Completeness, Endless, Growth, Limit, Search};

/// Returns every expected verdict of the test that the engine contradicts.
fn contradictions(test: &Litmus) -> Vec<String> {
    let mut wrong = Vec::new();
    for (index, query) in test.queries.iter().enumerate() {
        for (setting, &verdict) in &query.expected {
            let search = declarative::outcomes(&test.program, setting.model, setting.rmw, &Budget::default());
            assert!(search.is_complete(), "{}: {:?}", test.name, search.completeness);
            let mut found = search.outcomes.iter().map(|o| query.condition.formula.holds(o));
            let holds = match verdict {
                Verdict::Allowed => found.any(|f| f),
                Verdict::Forbidden => !found.any(|f| f),
                Verdict::Required => found.all(|f| f),
            };
            if !holds {
                wrong.push(format!(
                    "{}: {setting} should be {verdict}",
                    test.query_name(index)
                ));
            }
        }
    }
    wrong
}

fn parsed(source: &str) -> Litmus {
    litmus::parse(source)
        .unwrap_or_else(|e| panic!("{source}\n{e:?}"))
        .litmus
}

fn outcomes(source: &str, model: Model) -> Search {
    declarative::outcomes(
        &parsed(source).program,
        model,
        RmwAtomicity::Hca,
        &Budget::default(),
    )
}

#[test]
fn every_catalogue_verdict_holds() {
    let mut wrong = Vec::new();
    let mut verdicts = 0;
    for entry in catalogue::entries() {
        let test = entry.parse().unwrap();
        verdicts += test.queries.iter().map(|q| q.expected.len()).sum::<usize>();
        wrong.extend(contradictions(&test));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(verdicts >= 130, "the catalogue states {verdicts} verdicts only");
}

#[test]
fn every_outcome_has_a_witness_that_its_model_accepts() {
    let budget = Budget::default();
    for entry in catalogue::entries() {
        let program = entry.parse().unwrap().program;
        for model in Model::ALL {
            for rmw in RmwAtomicity::ALL {
                let spec = Spec::of(model, rmw);
                for outcome in declarative::outcomes(&program, model, rmw, &budget).outcomes {
                    let witness = declarative::witness(&program, model, rmw, &outcome, &budget)
                        .unwrap()
                        .unwrap_or_else(|| panic!("{} under {model}: no witness", entry.name));
                    assert_eq!(witness.outcome, outcome, "{}", entry.name);
                    assert!(spec.is_consistent(&witness), "{} under {model}", entry.name);
                }
            }
        }
    }
}

/// Remote read-modify-write, `docs/rmw.md`: the tests that separate its choices.
const RMW: &[&str] = &[
    r#"RDMA RMW-atomic
{ x@2=0; a@1=9; b@1=9; }
 P0@1              | P1@1              ;
 a := rfaa(x^2, 1) | b := rfaa(x^2, 1) ;
exists (a=0 /\ b=0 \/ ~x=2)
forbidden [rdma-tso; rdma-tso/glob; rdma-tso-nopcie; rdma-sc; rdma-wait; sc;]"#,
    r#"RDMA RMW+store
{ x@2=0; a@1=9; }
 P0@1              | P1@2   ;
 a := rfaa(x^2, 1) | x := 5 ;
exists (x=1)
allowed [rdma-tso; rdma-sc;]
forbidden [rdma-tso/glob; rdma-sc/glob;]"#,
    r#"RDMA RMW+cas
{ x@2=0; a@1=9; }
 P0@1              | P1@2              ;
 a := rfaa(x^2, 1) | r := cas(x, 0, 5) ;
exists (a=0 /\ 1:r=0 /\ x=1)
allowed [rdma-tso;]
forbidden [rdma-tso/glob;]"#,
    r#"RDMA RMW+put
{ x@2=0; a@1=9; }
 P0@1              | P1@1     ;
 a := rfaa(x^2, 1) | x^2 := 5 ;
exists (x=1)
allowed [rdma-tso;]
forbidden [rdma-tso/glob;]"#,
    r#"RDMA SB+rmw+poll
{ x@2=0; y@1=0; a@1=9; b@2=9; }
 P0@1              | P1@2              ;
 a := rfaa(x^2, 1) | b := rfaa(y^1, 1) ;
 poll(2)           | poll(1)           ;
 r := y            | s := x            ;
exists (0:r=0 /\ 1:s=0)
allowed [rdma-tso;]
forbidden [rdma-tso/glob;]"#,
    r#"RDMA SB+put-rmw+polls
{ x@2=0; y@1=0; z@2=0; w@1=0; a@1=9; b@2=9; }
 P0@1              | P1@2              ;
 x^2 := 1          | y^1 := 1          ;
 a := rfaa(z^2, 0) | b := rfaa(w^1, 0) ;
 poll(2)           | poll(1)           ;
 poll(2)           | poll(1)           ;
 r := y            | s := x            ;
exists (0:r=0 /\ 1:s=0)
forbidden [rdma-tso; rdma-tso/glob; rdma-tso-nopcie;]"#,
    r#"RDMA LB+rmw-put
{ x@2=0; y@2=0; a@1=9; }
 P0@1              | P1@2   ;
 a := rfaa(x^2, 0) | r := y ;
 y^2 := 1          | x := 5 ;
exists (1:r=1 /\ a=5)
forbidden [rdma-tso; rdma-tso/glob;]"#,
    r#"RDMA MP+rmw-get
{ x@2=0; y@2=0; a@1=9; b@1=9; }
 P0@1              | P1@2   ;
 a := rfaa(y^2, 0) | x := 1 ;
 b := x^2          | y := 1 ;
exists (a=1 /\ b=0)
forbidden [rdma-tso; rdma-tso/glob;]"#,
    r#"RDMA MP+get-rmw
{ x@2=0; y@2=0; a@1=9; b@1=9; }
 P0@1              | P1@2   ;
 a := y^2          | x := 1 ;
 b := rfaa(x^2, 0) | y := 1 ;
exists (a=1 /\ b=0)
allowed [rdma-tso; rdma-tso/glob;]"#,
    r#"RDMA RMW-putsrc
{ x@2=0; z@2=0; a@1=7; }
 P0@1              ;
 a := rfaa(x^2, 1) ;
 z^2 := a          ;
exists (z=7)
allowed [rdma-tso; rdma-tso/glob;]"#,
    r#"RDMA RMW-putsrc+poll
{ x@2=0; z@2=0; a@1=7; }
 P0@1              ;
 a := rfaa(x^2, 1) ;
 poll(2)           ;
 z^2 := a          ;
exists (z=7)
forbidden [rdma-tso; rdma-tso/glob;]"#,
    r#"RDMA RMW-unit
{ x@2=0; y@2=0; a@1=9; b@1=9; }
 P0@1              | P1@1              | P2@2   ;
 a := rfaa(x^2, 1) | b := rfaa(y^2, 1) | x := 5 ;
                   |                   | y := 5 ;
                   |                   | mfence ;
                   |                   | r := x ;
                   |                   | s := y ;
exists (2:r=5 /\ 2:s=5 /\ x=1 /\ y=1)
forbidden [rdma-tso; rdma-tso/glob;]"#,
    r#"RDMA RMW-split-get
{ z@2=0; y@2=0; c@1=0; a@1=9; d@1=9; }
 P0@1              | P1@2   | P2@1     ;
 c := z^2          | y := 5 | r := c   ;
 a := rfaa(y^2, 1) | z := 1 | d := y^2 ;
exists (a=0 /\ 2:r=1 /\ d=5 /\ y=1)
allowed [rdma-tso;]
forbidden [rdma-tso/glob;]"#,
];

#[test]
fn remote_read_modify_write_separates_its_choices() {
    let wrong: Vec<String> = RMW.iter().flat_map(|s| contradictions(&parsed(s))).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_failed_remote_compare_and_swap_writes_nothing() {
    let source = r#"RDMA RCAS-fails
{ x@2=3; a@1=9; }
 P0@1                 ;
 a := rcas(x^2, 0, 5) ;
forall (a=3 /\ x=3)
required [rdma-tso; rdma-tso/glob; rdma-sc; rdma-tso-nopcie; sc;]"#;
    assert_eq!(contradictions(&parsed(source)), [""; 0]);
}

#[test]
fn a_branch_not_taken_leaves_no_events() {
    let source = r#"RDMA branch
{ x@1=0; y@1=0; }
 P0@1   | P1@1                        ;
 x := 1 | r := x                      ;
        | if (r == 1) { y := 2 } else { y := 3 } ;
exists (1:r=1 /\ y=2)
allowed [tso;]
exists (1:r=1 /\ y=3)
forbidden [tso;]
exists (1:r=0 /\ y=3)
allowed [tso;]"#;
    assert_eq!(contradictions(&parsed(source)), [""; 0]);
}

#[test]
fn a_loop_that_may_outrun_its_bound_makes_the_search_incomplete() {
    let spin = |bound: u32| {
        format!(
            r#"RDMA spin
{{ x@1=0; 1:s; }}
 P0@1   | P1@1                                            ;
 x := 1 | r := x                                          ;
        | while (r == 0) bound {bound} {{ s := s + 1; r := x }} ;
exists (1:r=1)"#
        )
    };
    let search = outcomes(&spin(2), Model::RdmaTso);
    let limit = Limit::LoopBound {
        thread: 1,
        bound: 2,
        at: Some(Endless {
            instruction: 1,
            growth: Growth::Registers,
        }),
    };
    assert_eq!(search.completeness, Completeness::Incomplete(limit));
    assert!(search.outcomes.iter().all(|o| o.registers[1][1] == 1));
    assert!(!search.outcomes.is_empty());
}

#[test]
fn a_poll_with_nothing_to_poll_never_finishes() {
    let source = "RDMA idle\n{ x@1=0; z@2=0; }\n P0@1 ;\n poll(2) ;\n z^2 := 1 ;\nexists (z=1)";
    let search = outcomes(source, Model::RdmaTso);
    assert!(search.is_complete() && search.outcomes.is_empty());
}

#[test]
fn tso_refuses_remote_operations() {
    let source = "RDMA remote\n{ z@2=0; }\n P0@1 ;\n z^2 := 1 ;\nexists (z=1)";
    let search = outcomes(source, Model::Tso);
    assert!(matches!(
        search.completeness,
        Completeness::Incomplete(Limit::Undefined(_))
    ));
}

#[test]
fn the_budget_stops_the_search() {
    let program = catalogue::find("IRIW1").unwrap().parse().unwrap().program;
    let budget = Budget {
        states_max: Some(10),
        ..Budget::default()
    };
    let search = declarative::outcomes(&program, Model::RdmaTso, RmwAtomicity::Hca, &budget);
    assert_eq!(search.completeness, Completeness::Incomplete(Limit::States(10)));
}

#[test]
fn the_search_agrees_with_plain_enumeration_on_the_catalogue() {
    let budget = Budget {
        states_max: Some(4_000),
        ..Budget::default()
    };
    let mut compared = 0;
    for entry in catalogue::entries() {
        let program = entry.parse().unwrap().program;
        for model in Model::ALL {
            let spec = Spec::of(model, RmwAtomicity::Hca);
            let plain = reference::outcomes(&program, &spec, &budget);
            if plain.is_complete() {
                let search = declarative::outcomes_under(&program, &spec, &Budget::default());
                assert_eq!(search.outcomes, plain.outcomes, "{} under {model}", entry.name);
                compared += 1;
            }
        }
    }
    assert!(compared >= 300, "{compared} compared");
}
