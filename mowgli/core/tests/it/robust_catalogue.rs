//! Checks the catalogue's statements about robustness, under every model that it names, and the reasons of the paper's examples.

use mowgli::catalogue;
use mowgli::check::applicable;
use mowgli::litmus::{Litmus, Property};
use mowgli::model::{Model, RmwAtomicity};
use mowgli::outcome::{Budget, Endless, Growth, Limit};
use mowgli::program::Program;
use mowgli::robust::{self, Exact, Finding, Question, Reason, Theorem, Verdict};

fn test(name: &str) -> Litmus {
    catalogue::find(name)
        .unwrap_or_else(|| panic!("no test {name}"))
        .parse()
        .unwrap()
}

fn parsed(source: &str) -> Litmus {
    mowgli::litmus::parse(source).unwrap().litmus
}

fn question(model: Model) -> Question {
    Question::of(model)
}

fn ask(program: &Program, model: Model) -> robust::Answer {
    robust::ask(program, &question(model), true, &Budget::default())
}

#[test]
fn statements_are_right() {
    let (mut checked, mut wrong) = (0, Vec::new());
    for entry in catalogue::entries() {
        let litmus = entry.parse().unwrap();
        for statement in &litmus.stated {
            let setting = statement.setting;
            assert_eq!(
                applicable(&litmus.program, setting.model),
                Ok(()),
                "{}",
                entry.path()
            );
            let question = Question {
                rmw: setting.rmw,
                ..question(setting.model)
            };
            let exactly = statement.property == Property::Robust;
            let answer = robust::ask(&litmus.program, &question, exactly, &Budget::default());
            checked += 1;
            if answer.has(statement.property) != Some(statement.holds) {
                wrong.push(format!(
                    "{}: {statement:?}: {:?}",
                    entry.path(),
                    answer.conditions
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked >= 300, "only {checked} statements");
}

/// Every example of the paper states all four properties under both of its models.
#[test]
fn every_example_of_the_paper_states_its_robustness() {
    for entry in catalogue::entries().iter().filter(|e| e.folder == "robust25") {
        let litmus = entry.parse().unwrap();
        for model in [Model::RdmaSc, Model::RdmaTso] {
            for property in Property::ALL {
                let states = litmus
                    .stated
                    .iter()
                    .any(|s| s.property == property && s.setting.model == model);
                assert!(
                    states,
                    "{} says nothing about {property} under {model}",
                    entry.path()
                );
            }
        }
    }
}

/// The counterexamples to the definitions as printed: Def. 6 line 5 without its target, and Def. 7 in its second form.
#[test]
fn the_definitions_as_printed_fail() {
    use mowgli::robust::gb::{RULES, Step};
    let spec = question(Model::RdmaSc).spec();
    let mut printed = robust::Definition::of(&spec);
    let line = RULES.iter().position(|r| r.cells == "D6-D8").unwrap();
    let steps = RULES[line].steps;
    assert!(matches!(steps.last(), Some(Step::Is(_))));
    printed.rules[line].steps = &steps[..steps.len() - 1];
    for (name, condition) in [("gb-poll-ldrf", "ldrf"), ("gb-poll-fenced", "fenced")] {
        let program = test(name).program;
        let right = robust::conditions(&program, &question(Model::RdmaSc), &Budget::default());
        let wrong = robust::conditions_by(&program, &question(Model::RdmaSc), &printed, &Budget::default());
        assert_eq!(right.theorem(), None, "{name}");
        assert!(wrong.theorem().is_some(), "{name} breaks {condition}");
        assert!(matches!(
            robust::exact(&program, Model::RdmaSc, RmwAtomicity::Hca, &Budget::default()),
            Exact::NotRobust(_)
        ));
    }
}

#[test]
fn reasons_name_the_pair_the_cell_and_the_way() {
    let litmus = test("ROB-3b");
    let found = robust::conditions(&litmus.program, &question(Model::RdmaSc), &Budget::default());
    assert!(found.ldrf.holds());
    let Some(Reason::Unfenced { pair, way, .. }) = found.fenced.reason() else {
        panic!("{found:?}");
    };
    assert_eq!((pair.cell.to_string().as_str(), way.len()), ("D3", 1));
    assert_eq!(
        robust::text::reason(&litmus.program, found.fenced.reason().unwrap()),
        "P0 may reorder `a := y^2` and `z^3 := 1` (nrR(y) before nrW(z): cell D3 of Fig. 5), and other threads could see it: \
         P1 reaches the later location, P1 reaches the earlier one, and the way leads to node 2 by P1; needed: a poll of the \
         earlier operation"
    );
    let race = robust::conditions(
        &test("ROB-1f").program,
        &question(Model::RdmaSc),
        &Budget::default(),
    );
    assert_eq!(race.ldrf.reason().unwrap().pair().unwrap().cell.to_string(), "D7");
}

#[test]
fn the_shape_of_the_network_is_named() {
    let clause = |name: &str| {
        let found = robust::conditions(&test(name).program, &question(Model::RdmaSc), &Budget::default());
        found.tree_fenced.reason().unwrap().clause()
    };
    assert_eq!(clause("ROB-5.1-private"), "Def. 9 (1)");
    assert_eq!(clause("ROB-5.1-getget"), "Def. 9 (2)");
    assert_eq!(clause("ROB-5.1-tree1"), "Def. 9 (3b)");
}

/// Fig. 6b: robust, and the conditions miss it; without any one of its operations they do not.
#[test]
fn removing_any_operation_of_fig_6b_makes_it_fenced() {
    let program = test("ROB-6b").program;
    assert_eq!(ask(&program, Model::RdmaSc).verdict(), Verdict::Exhaustively);
    let mut removed = 0;
    for thread in 0..program.threads.len() {
        for at in 0..program.threads[thread].code.len() {
            let mut smaller = program.clone();
            smaller.threads[thread].code.remove(at);
            removed += 1;
            assert!(
                robust::conditions(&smaller, &question(Model::RdmaSc), &Budget::default())
                    .fenced
                    .holds()
            );
        }
    }
    assert_eq!(removed, 6);
}

#[test]
fn the_refinement_sees_what_does_not_conflict() {
    let program = test("two-readers").program;
    let refined = Question {
        refined: true,
        ..question(Model::RdmaSc)
    };
    let found = robust::conditions(&program, &refined, &Budget::default());
    assert_eq!(found.theorem(), Some(Theorem::Theorem5));
}

#[test]
fn a_program_without_a_pre_execution_is_vacuous() {
    let program = parsed("RDMA t\n{ x@1=0; }\n P0@1 ;\n poll(2) ;\n x := 1 ;\nexists (true)").program;
    let answer = ask(&program, Model::RdmaSc);
    assert_eq!(answer.verdict(), Verdict::Vacuous);
    assert_eq!(answer.has(Property::Ldrf), None);
}

#[test]
fn a_loop_beyond_its_bound_is_unknown_unless_no_execution_gets_there() {
    let stuck = "RDMA t\n{ x@1=0; z@2=0; 0:s; }\n P0@1 ;\n r := x ;\n while (r == 0) bound 2 { s := s + 1; r := x } ;\n z^2 := 1 ;\nexists (true)";
    let program = parsed(stuck).program;
    let answer = ask(&program, Model::RdmaSc);
    assert_eq!(
        answer.verdict(),
        Verdict::Unknown(Limit::LoopBound {
            thread: 0,
            bound: 2,
            at: Some(Endless {
                instruction: 1,
                growth: Growth::Registers,
            }),
        })
    );
    let left = stuck.replace("x@1=0", "x@1=1");
    assert_eq!(
        ask(&parsed(&left).program, Model::RdmaSc).verdict(),
        Verdict::Exhaustively
    );
}

/// A property must hold on both sides of a compare-and-swap, whether or not the values allow both.
#[test]
fn both_sides_of_a_compare_and_swap_count() {
    let source = "RDMA t\n{ x@1=0; y@1=0; z@2=0; }\n P0@1 ;\n r := cas(y, 0, 1) ;\n if (r == 1) { z^2 := x } ;\n x := 1 ;\nexists (true)";
    let program = parsed(source).program;
    let found = robust::conditions(&program, &question(Model::RdmaSc), &Budget::default());
    assert!(matches!(found.ldrf, Finding::Fails(_)));
    // The search knows that the branch is not taken.
    assert_eq!(ask(&program, Model::RdmaSc).verdict(), Verdict::Exhaustively);
}

#[test]
fn other_models_are_refused() {
    let program = test("ROB-1a").program;
    let refused = ask(&program, Model::RdmaTsoNoPcie);
    assert!(matches!(refused.verdict(), Verdict::Unknown(Limit::Undefined(_))));
}
