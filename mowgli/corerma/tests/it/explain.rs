//! Explanations: each outcome of each example is explained as it is judged, what is named as broken is broken, and what is said to allow an
//! outcome allows it.

use std::collections::BTreeSet;

use mowgli::outcome::Budget;
use mowgli_corerma::action::actions;
use mowgli_corerma::catalogue;
use mowgli_corerma::explain::{Change, ValueOf, Violation, allowed, forbidden};
use mowgli_corerma::litmus::{Litmus, parse};
use mowgli_corerma::rules::Rule;
use mowgli_corerma::switches::Model;

fn litmus(text: &str) -> Litmus {
    parse(text).unwrap().litmus
}

/// Every condition of every example under every model: an outcome that some execution has gets a witness that has it, and any other gets a
/// reason whose cases explain each candidate.
#[test]
fn explanations_agree_with_verdicts() {
    let (mut witnesses, mut explained) = (0, 0);
    let mut rules: BTreeSet<Rule> = BTreeSet::new();
    for entry in catalogue::entries() {
        let litmus = entry.parse().unwrap();
        let changed = [
            "corerma-R1",
            "corerma-R2-F2",
            "corerma-WS",
            "corerma-fig4+put-put-LO",
        ];
        let changed = changed.map(|name| name.parse::<Model>().unwrap());
        for model in Model::ALL.into_iter().chain([Model::SC]).chain(changed) {
            let search = model.outcomes(&litmus.program, &Budget::default());
            for query in &litmus.queries {
                let formula = &query.condition.formula;
                let holds = search.outcomes.iter().any(|o| formula.holds(o));
                let found = allowed(&litmus.program, model, formula, &Budget::default()).unwrap();
                let place = format!(
                    "{} under {model}: {}",
                    entry.name,
                    formula.display(&litmus.program)
                );
                assert_eq!(found.is_some(), holds, "{place}");
                let Some(witness) = found else {
                    let reason = forbidden(&litmus.program, model, formula, &Budget::default());
                    assert!(reason.is_complete(), "{place}");
                    // Only what no choice of sources gives has no candidate, and then no change helps. Where all accesses are atomic this is so
                    // of T, which other models allow.
                    assert!(
                        !reason.cases.is_empty() || reason.relaxations.is_empty() || model == Model::SC,
                        "{place}"
                    );
                    explained += usize::from(!reason.cases.is_empty());
                    for case in &reason.cases {
                        let broken = case.violation.rules();
                        assert!(
                            broken.iter().all(|&rule| model.switches().has(rule)),
                            "{place}: {broken:?}"
                        );
                        rules.extend(broken);
                        if let Violation::Cycle(pairs) = &case.violation {
                            assert!(pairs.len() > 1, "{place}");
                        }
                    }
                    for change in &reason.relaxations {
                        if let Change::Model(other) = change {
                            let search = other.outcomes(&litmus.program, &Budget::default());
                            assert!(
                                search.outcomes.iter().any(|o| formula.holds(o)),
                                "{place}, {other}"
                            );
                        }
                    }
                    continue;
                };
                let graph = witness.graph(&litmus.program);
                assert!(!graph.events.is_empty());
                witnesses += 1;
            }
        }
    }
    assert!(witnesses > 100 && explained > 50, "{witnesses} and {explained}");
    for rule in [
        Rule::R1,
        Rule::R2,
        Rule::Ir,
        Rule::F1,
        Rule::F2,
        Rule::Pg,
        Rule::Lo,
    ] {
        assert!(rules.contains(&rule), "{rule} is in no reason: {rules:?}");
    }
}

/// Fig. 6 was made with IR as the pivot: IR forbids `b=1`, and nothing else does.
#[test]
fn the_pivot_of_figure_6_is_in_its_reason() {
    let litmus = catalogue::find("RMA-6").unwrap().parse().unwrap();
    let formula = &litmus.queries[3].condition.formula;
    let reason = forbidden(&litmus.program, Model::STOCK, formula, &Budget::default());
    let first = &reason.cases[0];
    assert!(first.violation.rules().contains(&Rule::Ir), "{first:?}");
    assert!(reason.relaxations.contains(&Change::Rule(Rule::Ir)));
    assert!(reason.relaxations.contains(&Change::Model(Model::UNORDERED)));
    assert!(!reason.relaxations.contains(&Change::Model(Model::INLINED)));
    let text = reason.render(&litmus.program, 0..1);
    assert!(
        text.contains("-> IR: remote actions towards one target"),
        "{text}"
    );
    assert!(text.contains("[put(X^1, Y)]"), "{text}");
    let drawing = first.drawing(&litmus.program);
    assert!(drawing.svg("t").contains("IR"), "{}", drawing.dot("t"));
    assert_eq!(drawing.columns.iter().filter(|c| c.title == "P1").count(), 1);
}

/// A cycle leads from each pair to the next, through the one node of an atomic get accumulate too.
#[test]
fn pairs_of_a_cycle_follow_one_another() {
    let text = "coreRMA two\n{ X@1=0; Y@2=1; Z@2=0; V@1=1; W@1=0; }\n P0@1 | P1@2 ;\n W := rga(X^1, V) | Z := rga(X^1, Y) ;\n flush(1) | flush(1) ;\n a := W | b := Z ;\n\nexists (0:a=0 /\\ 1:b=0)\n";
    let litmus = litmus(text);
    let formula = &litmus.queries[0].condition.formula;
    let actions = actions(&litmus.program);
    for model in [Model::ATOMIC_RGA, Model::STOCK] {
        if allowed(&litmus.program, model, formula, &Budget::default())
            .unwrap()
            .is_some()
        {
            assert_eq!(
                model,
                Model::STOCK,
                "two atomic get accumulates of one location see one another"
            );
            continue;
        }
        let reason = forbidden(&litmus.program, model, formula, &Budget::default());
        assert!(!reason.cases.is_empty(), "{model}");
        for case in &reason.cases {
            let Violation::Cycle(pairs) = &case.violation else {
                panic!("{model}: {case:?}");
            };
            let statement = |action: u8| actions[usize::from(action)].first;
            for (at, pair) in pairs.iter().enumerate() {
                let next = pairs[(at + 1) % pairs.len()];
                let joined = pair.to == next.from
                    || (model == Model::ATOMIC_RGA && statement(pair.to) == statement(next.from));
                assert!(joined, "{model}: {pairs:?}");
            }
        }
    }
}

/// Without atomic accesses it is the value that the rules no-C and C give which forbids an outcome.
#[test]
fn values_are_explained_where_there_is_no_cycle() {
    let conflict =
        litmus("coreRMA c\n{ X@1=0; Y@2=2; }\n P0@1 | P1@2 ;\n a := X.n | put(X^1, Y) ;\n\nexists (0:a=2)\n");
    let formula = &conflict.queries[0].condition.formula;
    assert_eq!(
        allowed(&conflict.program, Model::STOCK, formula, &Budget::default()),
        Ok(None)
    );
    let reason = forbidden(&conflict.program, Model::STOCK, formula, &Budget::default());
    let rules: Vec<_> = reason.cases.iter().map(|c| c.violation.rules()).collect();
    assert_eq!(rules, vec![vec![Rule::C]]);
    assert!(matches!(
        reason.cases[0].violation,
        Violation::Value {
            of: ValueOf::Read(0),
            ..
        }
    ));
    let text = reason.render(&conflict.program, 0..1);
    assert!(
        text.contains("the value is T") && text.contains("[put(X^1, Y)]"),
        "{text}"
    );

    let ordered = litmus("coreRMA o\n{ X@1=0; }\n P0@1 ;\n X := 1 ;\n a := X.n ;\n\nexists (0:a=0)\n");
    let formula = &ordered.queries[0].condition.formula;
    let reason = forbidden(&ordered.program, Model::STOCK, formula, &Budget::default());
    assert_eq!(
        reason.cases[0].violation.rules(),
        vec![Rule::NoC],
        "{:?}",
        reason.cases
    );
    let text = reason.render(&ordered.program, 0..1);
    assert!(
        text.contains("happens-before says that it is that of P0: w(X,1)"),
        "{text}"
    );
}

/// A value that nothing writes has no candidate.
#[test]
fn an_impossible_value_has_no_candidate() {
    let litmus = litmus("coreRMA i\n{ X@1=0; }\n P0@1 ;\n a := X ;\n\nexists (0:a=7)\n");
    let formula = &litmus.queries[0].condition.formula;
    let reason = forbidden(&litmus.program, Model::STOCK, formula, &Budget::default());
    assert!(reason.cases.is_empty() && reason.is_complete());
    assert!(
        reason
            .render(&litmus.program, 0..0)
            .contains("no choice of sources")
    );
}

#[test]
fn a_limit_leaves_the_reason_open() {
    let litmus = catalogue::find("RMA-9").unwrap().parse().unwrap();
    let budget = Budget {
        states_max: Some(5),
        ..Budget::default()
    };
    let open = litmus.queries.iter().any(|query| {
        let formula = &query.condition.formula;
        !forbidden(&litmus.program, Model::STOCK, formula, &budget).is_complete()
    });
    assert!(open);
}
