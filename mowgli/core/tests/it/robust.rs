//! The theorems of Robust'25 on random programs, with an independent implementation of the definitions and plain enumeration of
//! executions as yardsticks.
//!
//! `MOWGLI_PROGRAMS=100000` makes the sweep as long as the one that `docs/robustness.md` reports; with `--nocapture` it prints the table and
//! what limits left out. `MOWGLI_EXECUTIONS=1000` changes how many executions of a program the enumerations look at.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use mowgli::declarative::{self, reference};
use mowgli::event::{Event, Execution};
use mowgli::generate::families::Family;
use mowgli::litmus;
use mowgli::model::{Model, RmwAtomicity};
use mowgli::models::{Derived, Part, Spec};
use mowgli::outcome::Budget;
use mowgli::program::Program;
use mowgli::relation::Relation;
use mowgli::robust::{self, Definition, Exact, Question, Traces};

fn models(family: Family) -> &'static [Model] {
    match family {
        Family::Waiting => &[Model::RdmaWait],
        _ => &[Model::RdmaSc, Model::RdmaTso],
    }
}

fn question(model: Model, rmw: RmwAtomicity, refined: bool) -> Question {
    Question { model, rmw, refined }
}

fn show(program: &Program) -> String {
    litmus::Litmus {
        name: "shown".to_owned(),
        description: None,
        program: program.clone(),
        observed: Vec::new(),
        queries: Vec::new(),
        stated: Vec::new(),
    }
    .print()
}

fn is_sc(execution: &Execution, rmw: RmwAtomicity) -> bool {
    Spec::of(Model::Sc, rmw).is_consistent(execution)
}

/// Programs of the sweep.
fn programs() -> u64 {
    let wanted = std::env::var("MOWGLI_PROGRAMS").ok().and_then(|n| n.parse().ok());
    wanted.unwrap_or(2_000)
}

/// Programs whose executions are enumerated, which takes longer: fewer in the suite.
fn programs_enumerated() -> u64 {
    match std::env::var_os("MOWGLI_PROGRAMS") {
        Some(_) => programs(),
        None => programs() / 4,
    }
}

/// Most executions of a program, consistent or not, that an enumeration looks at.
fn executions(default: u64) -> Budget<'static> {
    let wanted = std::env::var("MOWGLI_EXECUTIONS")
        .ok()
        .and_then(|n| n.parse().ok());
    Budget {
        states_max: Some(wanted.unwrap_or(default)),
        ..Budget::default()
    }
}

/// Returns seed, family and atomicity of program `i` of the sweep.
fn sample(i: u64) -> (u64, Family, RmwAtomicity) {
    let families = Family::ALL.len() as u64;
    let rmw = RmwAtomicity::ALL[(i / families % 2) as usize];
    (i / families, Family::ALL[(i % families) as usize], rmw)
}

#[derive(Default)]
struct Row {
    programs: u64,
    robust: u64,
    missed: u64,
    missed_refined: u64,
    by_tree: u64,
    undecided: u64,
}

/// Theorems 3, 5 and 6 and Corollary 1, with and without the refinement.
#[test]
fn the_theorems_hold_on_random_programs() {
    let budget = Budget {
        states_max: Some(2_000_000),
        ..Budget::default()
    };
    let mut rows: BTreeMap<(Family, Model), Row> = BTreeMap::new();
    for i in 0..programs() {
        let (seed, family, rmw) = sample(i);
        let program = family.program(seed);
        for &model in models(family) {
            let at = || format!("{family:?} seed {seed} under {model}/{rmw}\n{}", show(&program));
            let paper = robust::conditions(&program, &question(model, rmw, false), &budget);
            let refined = robust::conditions(&program, &question(model, rmw, true), &budget);
            if paper.is_vacuous() {
                continue;
            }
            for found in [&paper, &refined] {
                assert!(
                    !found.tree_fenced.holds() || found.fenced.holds(),
                    "Theorem 6: {}",
                    at()
                );
            }
            assert!(
                !paper.fenced.holds() || refined.fenced.holds(),
                "refinement: {}",
                at()
            );
            assert_eq!(paper.ldrf, refined.ldrf);
            let spec = Spec::of(model, rmw);
            if paper.ldrf.holds() {
                let inside = declarative::weak_execution_in_one_thread(&program, &spec, &budget);
                assert_eq!(inside, Ok(None), "Theorem 3: {}", at());
            }
            let exact = robust::exact(&program, model, rmw, &budget);
            let row = rows.entry((family, model)).or_default();
            row.programs += 1;
            match exact {
                Exact::Robust => {
                    row.robust += 1;
                    row.missed += u64::from(paper.theorem().is_none());
                    row.missed_refined += u64::from(refined.theorem().is_none());
                    row.by_tree += u64::from(paper.theorem() == Some(robust::Theorem::Corollary1));
                }
                Exact::NotRobust(weak) => {
                    assert!(spec.is_consistent(&weak.execution), "{}", at());
                    assert!(!is_sc(&weak.execution, rmw), "{}", at());
                    assert_eq!(paper.theorem(), None, "Theorem 5: {}", at());
                    assert_eq!(refined.theorem(), None, "Theorem 5, refined: {}", at());
                }
                Exact::Unknown(_) => row.undecided += 1,
            }
        }
    }
    for ((family, model), row) in &rows {
        println!(
            "| {} | {model} | {} | {} | {} | {} | {} | {} |",
            family.name(),
            row.programs,
            row.robust,
            row.by_tree,
            row.missed,
            row.missed_refined,
            row.undecided
        );
        assert!(row.robust > 0, "{family:?} has no robust program");
        assert!(
            row.undecided * 100 <= row.programs,
            "{family:?}: too much is undecided"
        );
    }
}

/// Theorem 1: guaranteed-before is in observed-before of every consistent execution. And nothing is missing: the pairs of program order
/// that the fixed terms of `ib` and `ob` put in order are those of guaranteed-before.
#[test]
fn guaranteed_before_is_observed_before() {
    let budget = executions(100);
    let (mut consistent, mut whole, mut cut) = (0, 0, 0);
    for i in 0..programs_enumerated() {
        let (seed, family, rmw) = sample(i);
        let program = family.program(seed);
        for &model in models(family) {
            let spec = Spec::of(model, rmw);
            let definition = Definition::of(&spec);
            // One choice of paths has many executions and one guaranteed-before.
            let mut known: Option<(Vec<Event>, Relation)> = None;
            // The limit cuts the enumeration, not the check.
            let end = reference::each_execution(&program, &spec, &budget, |execution| {
                if spec.is_consistent(execution) {
                    consistent += 1;
                    if known
                        .as_ref()
                        .is_none_or(|(events, _)| *events != execution.events)
                    {
                        known = Some((
                            execution.events.clone(),
                            guaranteed_before(execution, &definition),
                        ));
                    }
                    let ob = observed_before(execution, &spec);
                    assert!(
                        known.as_ref().is_some_and(|(_, gb)| gb.is_subset(&ob)),
                        "{family:?} seed {seed} under {model}\n{}",
                        show(&program)
                    );
                }
                ControlFlow::Continue(())
            });
            match end {
                Ok(()) => whole += 1,
                Err(_) => cut += 1,
            }
        }
    }
    println!(
        "gb in ob: {consistent} consistent executions; of {whole} programs all executions, of {cut} the first"
    );
    assert!(consistent > programs(), "{consistent} executions");
}

fn observed_before(execution: &Execution, spec: &Spec) -> Relation {
    let derived = Derived::new(execution, spec);
    let ib = derived.issue(spec.ib).plus();
    derived.observe(spec.ob).union(&derived.inst.then(&ib)).plus()
}

/// Computes guaranteed-before of an execution, thread by thread.
fn guaranteed_before(execution: &Execution, definition: &Definition) -> Relation {
    let n = execution.len();
    let mut gb = Relation::empty(n);
    let threads: std::collections::BTreeSet<_> = execution.events.iter().filter_map(|e| e.thread).collect();
    for thread in threads {
        let own: Vec<usize> = (0..n)
            .filter(|&e| execution.events[e].thread == Some(thread))
            .collect();
        let at = |e: usize| own.iter().position(|&o| o == e);
        let events: Vec<_> = own.iter().map(|&e| execution.events[e].clone()).collect();
        let pf: Vec<_> = execution
            .pf
            .pairs()
            .filter_map(|(w, p)| Some((at(w)?, at(p)?)))
            .collect();
        for (a, b) in definition.guaranteed_before(&events, &pf).pairs() {
            gb.insert(own[a], own[b]);
        }
    }
    gb
}

/// The largest order that program order and polls-from force: the terms of `ib` and `ob` that are fixed, with `nfo` where `ib` decides it.
pub fn forced(events: &[Event], pf: &[(usize, usize)], spec: &Spec) -> Relation {
    use mowgli::event::Kind;
    let n = events.len();
    let program_order =
        |keep: &dyn Fn(usize, usize) -> bool| Relation::from_fn(n, |a, b| a < b && keep(a, b));
    let polls = Relation::from_pairs(n, pf.iter().copied());
    let gets = Relation::identity(n, |e| events[e].kind == Kind::NicLocalWrite);
    let inst = Relation::identity(n, |e| spec.is_instantaneous(&events[e]));
    let mut nfo = Relation::empty(n);
    loop {
        let ib = program_order(&|a, b| {
            spec.preserves(Part::Ippo, &events[a], &events[b]) || spec.iso_issue(&events[a], &events[b])
        })
        .union(&polls)
        .union(&nfo)
        .plus();
        let ob = program_order(&|a, b| {
            spec.preserves(Part::Oppo, &events[a], &events[b]) || spec.iso_observe(&events[a], &events[b])
        })
        .union(&gets.then(&polls))
        .union(&nfo)
        .union(&inst.then(&ib))
        .plus();
        let next = Relation::from_fn(n, |a, b| {
            let pair = spec.flush_pair(&events[a], &events[b]) || spec.flush_pair(&events[b], &events[a]);
            pair && (ib.contains(a, b) || ob.contains(a, b))
        });
        if next == nfo {
            return ob;
        }
        nfo = next;
    }
}

#[test]
fn guaranteed_before_is_all_that_program_order_and_polls_force() {
    for i in 0..programs() {
        let (seed, family, rmw) = sample(i);
        let program = family.program(seed);
        for &model in models(family) {
            let spec = Spec::of(model, rmw);
            let traces = Traces::new(&program, &Definition::of(&spec), &Budget::default()).unwrap();
            for trace in traces.threads.iter().flatten() {
                let forced = forced(&trace.events, &trace.pf, &spec);
                assert_eq!(
                    trace.gb,
                    forced,
                    "{family:?} seed {seed} under {model}\n{}",
                    show(&program)
                );
            }
        }
    }
}

/// The conditions and guaranteed-before agree with the second implementation.
#[test]
fn the_conditions_agree_with_a_naive_implementation() {
    let budget = Budget::default();
    let mut held = [0; 3];
    for i in 0..programs() {
        let (seed, family, rmw) = sample(i);
        let program = family.program(seed);
        for &model in models(family) {
            for refined in [false, true] {
                let found = robust::conditions(&program, &question(model, rmw, refined), &budget);
                let naive = crate::robust_naive::verdicts(&program, model, rmw, refined);
                if matches!(found.ldrf, robust::Finding::Unknown(_)) {
                    continue;
                }
                let at = || {
                    format!(
                        "{family:?} seed {seed} under {model}/{rmw}\n{}\n{found:?}",
                        show(&program)
                    )
                };
                assert_eq!(found.ldrf.holds(), naive.ldrf, "ldrf {}", at());
                assert_eq!(found.fenced.holds(), naive.fenced, "fenced {}", at());
                assert_eq!(
                    found.tree_fenced.holds(),
                    naive.tree_fenced,
                    "tree-fenced {}",
                    at()
                );
                assert_eq!(found.is_vacuous(), naive.pre_executions == 0, "{}", at());
                held[0] += u32::from(naive.ldrf);
                held[1] += u32::from(naive.fenced);
                held[2] += u32::from(naive.tree_fenced);
            }
        }
    }
    assert!(
        held.iter().all(|&n| n > 200),
        "the families seldom satisfy the conditions: {held:?}"
    );
}

/// The search along critical cycles and the enumeration of all executions give the same answer.
#[test]
fn the_exact_search_agrees_with_enumeration() {
    let (mut compared, mut skipped) = ([0, 0], 0);
    for i in 0..programs_enumerated() {
        let (seed, family, rmw) = sample(i);
        let program = family.program(seed);
        for &model in models(family) {
            let spec = Spec::of(model, rmw);
            let budget = executions(600);
            let mut weak = None;
            let complete = reference::each_execution(&program, &spec, &budget, |execution| {
                if !is_sc(execution, rmw) && spec.is_consistent(execution) {
                    weak = Some(execution.clone());
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            });
            // Where the enumeration was cut and found nothing there is no answer to compare with.
            if weak.is_none() && complete.is_err() {
                skipped += 1;
                continue;
            }
            let exact = robust::exact(&program, model, rmw, &Budget::default());
            let at = || format!("{family:?} seed {seed} under {model}/{rmw}\n{}", show(&program));
            match (weak, &exact) {
                (Some(_), _) => {
                    compared[0] += 1;
                    assert!(matches!(exact, Exact::NotRobust(_)), "{}", at());
                }
                (None, Exact::Unknown(_)) => skipped += 1,
                (None, _) => {
                    compared[1] += 1;
                    assert_eq!(exact, Exact::Robust, "{}", at());
                }
            }
        }
    }
    println!("exact is enumeration: {compared:?} not robust and robust; {skipped} skipped");
    assert!(compared.iter().all(|&n| n > 30), "{compared:?}");
}
