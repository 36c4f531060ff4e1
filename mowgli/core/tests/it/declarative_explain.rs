//! Explanations: witnesses are consistent, cycles are cycles of the model, and the changes named allow the outcome.

use std::collections::BTreeSet;

use mowgli::catalogue;
use mowgli::declarative;
use mowgli::explain::{self, Change, Reason, Side};
use mowgli::litmus::{Formula, Litmus, Operand, Relation, Setting};
use mowgli::model::{Model, RmwAtomicity};
use mowgli::models::Spec;
use mowgli::models::tables::{Cell, Order};
use mowgli::outcome::Budget;
use mowgli::program::Loc;

const RDMA_TSO: Setting = Setting {
    model: Model::RdmaTso,
    rmw: RmwAtomicity::Hca,
};

fn catalogued(name: &str) -> Litmus {
    catalogue::find(name).unwrap().parse().unwrap()
}

fn reason(test: &Litmus, query: usize, setting: Setting) -> Reason {
    let wanted = &test.queries[query].condition.formula;
    explain::forbidden(&test.program, setting, wanted, &Budget::default())
}

#[test]
fn a_polled_get_before_a_store_is_explained_by_the_poll() {
    let test = catalogued("LB3bis");
    let reason = reason(&test, 0, RDMA_TSO);
    let text = reason.render(&test.program, RDMA_TSO, 0..1);
    assert!(text.contains("completion of the get"), "{text}");
    let removals: Vec<_> = reason
        .relaxations
        .iter()
        .filter_map(|r| match &r.change {
            Change::Remove { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert!(
        removals.contains(&"poll(2)") && removals.contains(&"poll(1)"),
        "{text}"
    );
}

#[test]
fn two_puts_on_one_queue_pair_are_explained_by_their_cells() {
    let test = catalogued("MP1");
    let reason = reason(&test, 0, RDMA_TSO);
    let text = reason.render(&test.program, RDMA_TSO, 0..1);
    assert!(
        text.contains(
            "oppo G7: NIC remote write before NIC remote write, same queue pair (RDMA-TSO'24 Fig. 9)"
        ),
        "{text}"
    );
    assert!(text.contains("if cell G7 ordered nothing"), "{text}");
}

#[test]
fn a_value_that_nobody_writes_has_no_candidates() {
    let test = catalogued("MP1");
    let wanted = Formula::Atom(Operand::Loc(Loc(0)), Relation::Eq, 77);
    let reason = explain::forbidden(&test.program, RDMA_TSO, &wanted, &Budget::default());
    assert_eq!((reason.candidates, reason.limit.as_ref()), (0, None));
    assert!(
        reason
            .render(&test.program, RDMA_TSO, 0..1)
            .contains("No execution has these values")
    );
}

/// Every forbidden outcome of the catalogue under every model.
#[test]
fn every_forbidden_outcome_has_a_cycle_in_the_model() {
    let (mut explained, mut unexplained) = (0, BTreeSet::new());
    for entry in catalogue::entries() {
        let test = entry.parse().unwrap();
        for query in &test.queries {
            for model in [
                Model::RdmaTso,
                Model::RdmaSc,
                Model::RdmaTsoNoPcie,
                Model::RdmaWait,
            ] {
                let setting = Setting {
                    model,
                    rmw: RmwAtomicity::Hca,
                };
                let search = declarative::outcomes(&test.program, model, setting.rmw, &Budget::default());
                if !search.is_complete() || search.outcomes.iter().any(|o| query.condition.formula.holds(o)) {
                    continue;
                }
                let wanted = &query.condition.formula;
                let budget = Budget {
                    states_max: Some(2_000),
                    ..Budget::default()
                };
                let reason = explain::forbidden(&test.program, setting, wanted, &budget);
                let Some(explain::Case { execution, cycle, .. }) = reason.cases.first() else {
                    // Without a limit this says that no execution has these values, consistent or not.
                    if reason.limit.is_none() {
                        unexplained.insert(entry.name);
                    }
                    continue;
                };
                let spec = Spec::of(model, setting.rmw);
                assert!(!spec.is_consistent(execution), "{} under {model}", entry.name);
                let edges = &cycle.edges;
                for (i, edge) in edges.iter().enumerate() {
                    let next = &edges[(i + 1) % edges.len()];
                    assert_eq!(edge.to, next.from, "{} under {model}: not closed", entry.name);
                    // A cycle passes from observation back to issue only at events where they coincide.
                    let back = (edge.side, next.side) == (Side::Observe, Side::Issue);
                    let instant = spec.is_instantaneous(&execution.events[edge.to]);
                    assert!(!back || instant, "{} under {model}: not a cycle", entry.name);
                }
                assert!(wanted.holds(&execution.outcome));
                explained += 1;
            }
        }
    }
    assert!(explained > 80, "{explained}");
    // One word has data and flag, words say themselves that they have arrived, a comparison fails that cannot, or a value is asked for
    // that nobody writes.
    let impossible = [
        "DeepEP-437+words",
        "MP+one-word",
        "MP+relaxed+one-word",
        "RCAS-fail",
        "ROB-3a",
        "ROB-6a",
        "ROB-6b",
        "rpma-579",
        "ucx-11544+inline",
    ];
    assert_eq!(unexplained, BTreeSet::from(impossible));
}

#[test]
fn relaxations_do_allow_the_outcome() {
    for name in ["ST3", "ST9", "MP4bis", "LB3bis", "IRIW2", "RDMA-3e"] {
        let test = catalogued(name);
        for (index, query) in test.queries.iter().enumerate() {
            let allowed = |setting: Setting| {
                declarative::outcomes(&test.program, setting.model, setting.rmw, &Budget::default())
                    .outcomes
                    .iter()
                    .any(|o| query.condition.formula.holds(o))
            };
            if allowed(RDMA_TSO) {
                continue;
            }
            let reason = reason(&test, index, RDMA_TSO);
            assert!(!reason.relaxations.is_empty(), "{name}: nothing would allow it");
            for relaxation in &reason.relaxations {
                if let Change::Model(setting) = relaxation.change {
                    assert!(allowed(setting), "{name}: {setting}");
                }
            }
        }
    }
}

/// LB2 of the catalogue with a remote fence between the get and the put.
const LB2_RFENCE: &str = "\
RDMA LB2-rfence
{ x@1=0; y@1=0; b@2=0; }
P0@1   | P1@2      ;
a := y | b := x^1  ;
x := 1 | rfence(1) ;
       | y^1 := 1  ;
exists (0:a=1 /\\ b=1)
";

/// The suggestions name a cell exactly if the model without it allows the outcome, wherever the cell is in the table.
#[test]
fn exactly_the_cells_that_would_do_are_suggested() {
    let mut tests: Vec<Litmus> = ["ST9", "GFP1", "ROB-1i", "MP1", "LB3bis", "IRIW2", "RMW-unit"]
        .map(catalogued)
        .into();
    tests.push(mowgli::litmus::parse(LB2_RFENCE).unwrap().litmus);
    for test in &tests {
        for (index, query) in test.queries.iter().enumerate() {
            let wanted = &query.condition.formula;
            let allows = |spec: &Spec| {
                let operands = wanted.operands();
                let search = declarative::outcomes_of(&test.program, spec, &operands, &Budget::default());
                assert!(search.is_complete(), "{}", test.name);
                search.outcomes.iter().any(|o| wanted.holds(o))
            };
            let spec = Spec::of(RDMA_TSO.model, RDMA_TSO.rmw);
            if allows(&spec) {
                continue;
            }
            let crossed_out = |cell: &Cell| Spec {
                ippo: spec.ippo.with(*cell, Order::No),
                oppo: spec.oppo.with(*cell, Order::No),
                ..spec.clone()
            };
            let enough = Cell::all().filter(|cell| allows(&crossed_out(cell)));
            let enough: BTreeSet<String> = enough.map(|cell| cell.to_string()).collect();
            let reason = reason(test, index, RDMA_TSO);
            let named = reason.relaxations.iter().filter_map(|r| match &r.change {
                Change::Cell { cell } => Some(cell.name.clone()),
                _ => None,
            });
            assert_eq!(named.collect::<BTreeSet<_>>(), enough, "{}", test.name);
            assert!(reason.undecided.is_empty());
        }
    }
}

#[test]
fn witnesses_draw_every_event_in_its_column() {
    let test = catalogued("IRIW1");
    let wanted = &test.queries[0].condition.formula;
    let witness = explain::allowed(&test.program, RDMA_TSO, wanted, &Budget::default())
        .unwrap()
        .unwrap();
    assert!(wanted.holds(&witness.execution.outcome));
    let drawing = witness.drawing(&test.program);
    let threads = drawing
        .boxes
        .iter()
        .filter(|b| drawing.columns[b.column].title != "memory");
    let events = witness.execution.events.iter().filter(|e| e.thread.is_some());
    assert_eq!(threads.count(), events.count());
    let svg = drawing.svg("IRIW1");
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
    assert_eq!(svg.matches("marker-end").count(), drawing.arrows.len());
    let dot = drawing.dot("IRIW1");
    assert_eq!(dot.matches(" -> ").count(), drawing.arrows.len());
    assert_eq!(dot.matches('{').count(), dot.matches('}').count());
}

/// SB3's puts are polled at once, so polls-from runs along program order; neither may hide the other.
#[test]
fn a_relation_along_program_order_has_its_own_arrow() {
    let test = catalogued("SB3");
    let wanted = &test.queries[0].condition.formula;
    let witness = explain::allowed(&test.program, RDMA_TSO, wanted, &Budget::default())
        .unwrap()
        .unwrap();
    let drawing = witness.drawing(&test.program);
    let polls: Vec<_> = drawing.arrows.iter().filter(|a| a.label == "pf").collect();
    assert_eq!(polls.len(), 2);
    for poll in polls {
        let same = |a: &&explain::Arrow| (a.from, a.to) == (poll.from, poll.to);
        assert_eq!(drawing.arrows.iter().filter(same).count(), 2);
    }
}

#[test]
fn explanations_serialize() {
    let test = catalogued("MP1");
    let json = serde_json::to_value(reason(&test, 0, RDMA_TSO)).unwrap();
    assert_eq!(json["candidates"], 1, "{json:#}");
    assert!(json["cases"][0]["cycle"]["edges"][0]["side"].is_string());
}

fn parse(text: &str) -> Litmus {
    mowgli::litmus::parse(text).unwrap().litmus
}

/// A thread that polls what it got sees it. The reader of a test with a get learns more from the order that the network keeps.
#[test]
fn the_first_cycle_goes_through_the_network_and_no_two_are_alike() {
    let mut explained = 0;
    let mut by_poll = BTreeSet::new();
    for entry in catalogue::entries() {
        let test = entry.parse().unwrap();
        for (index, query) in test.queries.iter().enumerate() {
            for model in [
                Model::RdmaTso,
                Model::RdmaSc,
                Model::RdmaWait,
                Model::RdmaTsoNoPcie,
            ] {
                let setting = Setting {
                    model,
                    rmw: RmwAtomicity::Hca,
                };
                let wanted = &query.condition.formula;
                if mowgli::check::applicable(&test.program, model).is_err()
                    || !matches!(
                        explain::allowed(&test.program, setting, wanted, &Budget::default()),
                        Ok(None)
                    )
                {
                    continue;
                }
                let reason = reason(&test, index, setting);
                let about = format!("{} {index} under {model}", test.name);
                assert_eq!(reason.limit, None, "{about}");
                let written = |at: usize| reason.render(&test.program, setting, at..at + 1);
                let cycle_of = |text: String| {
                    let lines = text.lines().skip_while(|line| !line.starts_with("  "));
                    lines
                        .take_while(|line| line.starts_with("  "))
                        .collect::<Vec<_>>()
                        .join("\n")
                };
                let all: Vec<String> = (0..reason.cases.len()).map(|at| cycle_of(written(at))).collect();
                let different: BTreeSet<&String> = all.iter().collect();
                assert_eq!(different.len(), all.len(), "{about}: {all:#?}");
                let lessons: Vec<_> = reason
                    .cases
                    .iter()
                    .map(|c| c.cycle.lesson(&c.execution))
                    .collect();
                assert!(lessons.is_sorted(), "{about}: {lessons:?}");
                let has_get = |case: &explain::Case| {
                    let mut kinds = case.execution.events.iter().map(|e| e.kind);
                    kinds.any(|kind| kind == mowgli::event::Kind::NicRemoteRead)
                };
                if reason.cases.first().is_some_and(has_get) {
                    if lessons[0] == explain::Lesson::OwnPoll {
                        by_poll.insert(test.name.clone());
                    }
                    explained += 1;
                }
                let again = self::reason(&test, index, setting);
                assert_eq!(
                    again.render(&test.program, setting, 0..9),
                    reason.render(&test.program, setting, 0..9)
                );
            }
        }
    }
    // The lesson of these tests is the poll itself: nothing else forbids their outcomes.
    assert_eq!(
        by_poll,
        ["CRMA1", "cirrus-kv-34+two", "get-put+polls"]
            .map(str::to_owned)
            .into()
    );
    assert!(explained > 20, "{explained}");
}

const GET_SEES: &str = "\
RDMA get-sees
{ x@2=0; d@1=0; }
P0@1 ;
x^2 := 1 ;
d := x^2 ;
poll(2) ;
poll(2) ;
r := d ;
exists (0:r=0)
";

const GET_FENCES: &str = "\
RDMA get-fences
{ x@2=0; y@3=0; t@3=0; s@1=0; }
P0@1     | P1@3     ;
x^2 := 1 | a := y   ;
s := x^2 | t := x^2 ;
poll(2)  | poll(2)  ;
poll(2)  | b := t   ;
y^3 := 1 |          ;
exists (1:a=1 /\\ 1:b=0)
";

#[test]
fn a_get_is_explained_by_what_it_orders() {
    for (text, edges) in [
        (GET_SEES, &["nrW(x,1)", "nrR(x,0)", "G8"][..]),
        (
            GET_FENCES,
            &[
                "P0: nrW(x,1)",
                "P0: nlW(s,",
                "P1: nrR(x,0)",
                "completion of the get",
            ],
        ),
    ] {
        let test = parse(text);
        let reason = reason(&test, 0, RDMA_TSO);
        let first = reason.render(&test.program, RDMA_TSO, 0..1);
        for edge in edges {
            assert!(first.contains(edge), "{edge}: {first}");
        }
        let all = reason.render(&test.program, RDMA_TSO, 0..reason.cases.len());
        assert!(
            all.contains("P0: lR(d,0)") || all.contains("P1: lR(t,0)"),
            "{all}"
        );
    }
}

/// The smallest lock, with a counter in it.
const LOCK: &str = "\
RDMA lock
{ l@3=0; d@3=0; r@1=9; s@1=9; q@2=9; t@2=9; }
P0@1                 | P1@2                 ;
r := rcas(l^3, 0, 1) | q := rcas(l^3, 0, 1) ;
poll(3)              | poll(3)              ;
a := r               | b := q               ;
assume(a==0)         | assume(b==0)         ;
s := rfaa(d^3, 1)    | t := rfaa(d^3, 1)    ;
l^3 := 0             | l^3 := 0             ;
exists (d=1)
";

/// The same with gets and puts, which need the lock.
const LOCK_OF_GETS: &str = "\
RDMA lock-gets
{ l@3=0; d@3=0; r@1=9; s@1=9; q@2=9; t@2=9; }
P0@1                 | P1@2                 ;
r := rcas(l^3, 0, 1) | q := rcas(l^3, 0, 1) ;
poll(3)              | poll(3)              ;
a := r               | b := q               ;
assume(a==0)         | assume(b==0)         ;
s := d^3             | t := d^3             ;
poll(3)              | poll(3)              ;
c := s               | e := t               ;
d^3 := c+1           | d^3 := e+1           ;
l^3 := 0             | l^3 := 0             ;
exists (d=1)
";

/// A reader that takes the lock after a writer.
const LOCK_OF_READER: &str = "\
RDMA lock-reader
{ l@3=0; d@3=0; r@1=9; q@2=9; t@2=9; }
P0@1                 | P1@2                 ;
r := rcas(l^3, 0, 1) | q := rcas(l^3, 0, 1) ;
poll(3)              | poll(3)              ;
a := r               | b := q               ;
d^3 := 1             | t := d^3             ;
l^3 := 0             | poll(3)              ;
                     | e := t               ;
exists (0:a=0 /\\ 1:b=0 /\\ 1:e=0)
";

/// Locks of the CPU are no different.
const LOCK_OF_CPU: &str = "\
RDMA lock-cpu
{ l@1=0; d@1=0; }
P0@1              | P1@1              ;
a := cas(l, 0, 1) | b := cas(l, 0, 1) ;
assume(a==0)      | assume(b==0)      ;
c := d            | e := d            ;
d := c+1          | d := e+1          ;
l := 0            | l := 0            ;
exists (d=1)
";

#[test]
fn locks_are_explained_by_their_acquisitions() {
    for text in [LOCK, LOCK_OF_GETS, LOCK_OF_READER, LOCK_OF_CPU] {
        let test = parse(text);
        for rmw in RmwAtomicity::ALL {
            let setting = Setting { rmw, ..RDMA_TSO };
            let wanted = &test.queries[0].condition.formula;
            // Fewer states than a second has, on any machine.
            let budget = Budget {
                states_max: Some(20_000),
                ..Budget::default()
            };
            let reason = explain::forbidden(&test.program, setting, wanted, &budget);
            assert_eq!(reason.limit, None, "{}", test.name);
            let first = reason.render(&test.program, setting, 0..1);
            let cas = if text == LOCK_OF_CPU { "cas(l" } else { "rcas(l^3" };
            assert!(
                first.contains("would read the same write"),
                "{}/{rmw}: {first}",
                test.name
            );
            assert_eq!(
                first.matches(&format!("{cas}, 0, 1)` of P")).count(),
                2,
                "{first}"
            );
        }
    }
}

/// An outcome that only an order of memory forbids has this order as its reason, and no claim about values.
#[test]
fn an_outcome_against_program_order_alone_has_its_reason() {
    let test = parse("RDMA t\n{ x@2=0; }\nP0@1 ;\nx^2 := 1 ;\nx^2 := 2 ;\nexists (x=1)\n");
    let reason = reason(&test, 0, RDMA_TSO);
    let text = reason.render(&test.program, RDMA_TSO, 0..1);
    assert!(
        text.contains("G7") && !text.contains("No execution has these values"),
        "{text}"
    );
}

/// Whatever the JSON has is in the text, also where there is no cycle to show.
#[test]
fn relaxations_are_in_the_text_without_a_cycle_too() {
    let test = parse("RDMA t\n{ x@1=0; }\nP0@1 ;\nr := x ;\nassume(r==0) ;\nexists (0:r=1)\n");
    let mut reason = reason(&test, 0, RDMA_TSO);
    assert!(reason.cases.is_empty());
    let change = Change::Model(Setting {
        model: Model::Sc,
        ..RDMA_TSO
    });
    reason.relaxations.push(explain::Relaxation {
        change: change.clone(),
    });
    reason.undecided.push(change);
    let text = reason.render(&test.program, RDMA_TSO, 0..0);
    assert_eq!(text.matches("under sc").count(), 2, "{text}");
}

/// A limit leaves the reason open. It is no claim that nothing gives the values.
#[test]
fn a_limit_never_becomes_an_answer() {
    let test = parse(LOCK_OF_GETS);
    let wanted = &test.queries[0].condition.formula;
    for states in [1, 2, 5, 20] {
        let budget = Budget {
            states_max: Some(states),
            ..Budget::default()
        };
        let reason = explain::forbidden(&test.program, RDMA_TSO, wanted, &budget);
        assert!(reason.limit.is_some() && !reason.is_complete());
        let text = reason.render(&test.program, RDMA_TSO, 0..1);
        assert!(
            text.contains("limit of") && !text.contains("No execution has"),
            "{text}"
        );
    }
}
