//! Exchanges: the CPU's `swap` and the card's `rswap`.
//!
//! The tests `differential` and `tiers` compare the engines on random programs with exchanges. Here the operations are compared with others
//! of which they are made: an exchange that found a value is a compare-and-swap that expected it. `MOWGLI_SWAPS=COUNT,SEED` compares so
//! many programs.

use std::collections::BTreeSet;

use mowgli::catalogue;
use mowgli::check::{self, Engine};
use mowgli::generate::families::Family;
use mowgli::generate::{self, Shape, tiers};
use mowgli::litmus::{Kind, Litmus, Setting, Verdict, parse};
use mowgli::model::{Model, RmwAtomicity, Tier};
use mowgli::outcome::{Budget, Outcome};
use mowgli::program::{Expr, Instr, Loc, Location, Program, Value};
use mowgli::robust::{self, Exact, Question};
use mowgli::{declarative, explain, explore};

const HCA: RmwAtomicity = RmwAtomicity::Hca;
const GLOB: RmwAtomicity = RmwAtomicity::Glob;

fn litmus(text: &str) -> Litmus {
    parse(text).unwrap_or_else(|e| panic!("{text}: {e}")).litmus
}

/// Two threads on nodes 1 and 2; `a` and `b` are places of results, and `x` and `y` are on node 2.
fn test(first: &[&str], second: &[&str], condition: &str) -> Litmus {
    let mut text = "RDMA t\n{ a@1=7; b@2=7; x@2=0; y@2=0; }\nP0@1 | P1@2 ;\n".to_owned();
    for row in 0..first.len().max(second.len()) {
        let cell = |column: &[&str]| column.get(row).copied().unwrap_or_default().to_owned();
        text.push_str(&format!("{} | {} ;\n", cell(first), cell(second)));
    }
    litmus(&format!("{text}exists ({condition})\n"))
}

#[track_caller]
fn decided(litmus: &Litmus, model: Model, rmw: RmwAtomicity, verdict: Verdict) {
    let setting = Setting { model, rmw };
    let answer = check::run(&litmus.program, setting, Engine::Both, &Budget::default()).unwrap();
    assert_eq!(answer.disagreement, None, "{model}:\n{}", litmus.print());
    let found = check::judge(litmus, 0, &answer.search).verdict();
    assert_eq!(found, Some(verdict), "{model}/{rmw}:\n{}", litmus.print());
}

const BASES: [Model; 4] = [Model::Sc, Model::RdmaSc, Model::RdmaTso, Model::RdmaTsoNoPcie];

/// A lock that is taken by an exchange has one owner, on every network.
#[test]
fn one_of_two_exchanges_finds_the_lock_free() {
    let both = test(&["a := rswap(x^2, 1)"], &["b := rswap(x^2, 1)"], "a=0 /\\ b=0");
    // The one that comes second finds what the first wrote.
    let last = test(&["a := rswap(x^2, 1)"], &["b := rswap(x^2, 2)"], "x=1 /\\ a!=2");
    for model in Model::every().filter(|&m| check::applicable(&both.program, m).is_ok()) {
        for rmw in RmwAtomicity::ALL {
            decided(&both, model, rmw, Verdict::Forbidden);
            decided(&last, model, rmw, Verdict::Forbidden);
        }
    }
}

/// As the other remote read-modify-writes, an exchange is atomic against CPUs under `glob` only.
#[test]
fn what_a_cpu_writes_may_come_between_under_hca() {
    for second in ["x := 5", "r := swap(x, 5)", "r := cas(x, 0, 5)"] {
        let lost = test(
            &["a := rswap(x^2, 1)"],
            &[second, "s := x"],
            "a=0 /\\ 1:s=5 /\\ x=1",
        );
        decided(&lost, Model::RdmaTso, HCA, Verdict::Allowed);
        decided(&lost, Model::RdmaTso, GLOB, Verdict::Forbidden);
    }
    let both = test(&["a := rswap(x^2, 1)"], &["r := swap(x, 5)"], "a=0 /\\ 1:r=0");
    for model in [Model::Sc, Model::RdmaSc, Model::RdmaTso] {
        decided(&both, model, HCA, Verdict::Allowed);
        decided(&both, model, GLOB, Verdict::Forbidden);
    }
}

/// A release by an exchange carries the data before it as a fetch-and-add does: not where writes overtake one another.
#[test]
fn the_data_before_an_exchange_are_placed_where_they_are_before_an_addition() {
    let by = |flag: &str| test(&["y^2 := 1", flag], &["r := x", "s := y"], "1:r=1 /\\ 1:s=0");
    for model in Model::every() {
        let (swap, add) = (by("a := rswap(x^2, 1)"), by("a := rfaa(x^2, 1)"));
        let setting = Setting { model, rmw: HCA };
        if check::applicable(&add.program, model).is_err() {
            assert!(check::applicable(&swap.program, model).is_err(), "{model}");
            continue;
        }
        let answer = check::run(&add.program, setting, Engine::Both, &Budget::default()).unwrap();
        let verdict = check::judge(&add, 0, &answer.search).verdict().unwrap();
        decided(&swap, model, HCA, verdict);
    }
    decided(&by("a := rswap(x^2, 1)"), Model::RdmaTso, HCA, Verdict::Forbidden);
    let unordered = Model::RdmaTso.on(Tier::Unordered).unwrap();
    decided(&by("a := rswap(x^2, 1)"), unordered, HCA, Verdict::Allowed);
    decided(
        &by("strong a := rswap(x^2, 1)"),
        unordered,
        HCA,
        Verdict::Forbidden,
    );
}

#[test]
fn the_poll_of_an_exchange_says_that_its_result_is_there() {
    let nothing = ["mfence"];
    let polled = test(&["a := rswap(x^2, 1)", "poll(2)", "r := a"], &nothing, "0:r=0");
    decided(&polled, Model::RdmaTso, HCA, Verdict::Required);
    let unpolled = test(&["a := rswap(x^2, 1)", "r := a"], &nothing, "0:r=7");
    decided(&unpolled, Model::RdmaTso, HCA, Verdict::Allowed);
    let named = test(&["a :=[d] rswap(x^2, 1)", "wait(d)", "r := a"], &nothing, "0:r=0");
    decided(&named, Model::RdmaWait, HCA, Verdict::Required);
}

/// Test-and-set: the wait for the lock has no bound, and both engines decide it.
#[test]
fn a_lock_that_spins_on_an_exchange_is_decided() {
    let spin =
        |place: &str| format!("while (r == 1) bound 2 {{ {place} := rswap(x^2, 1); poll(2); r := {place} }}");
    let of = |place: &str, release: &[&str]| {
        let enter = ["r := 1".to_owned(), spin(place)];
        let count = [format!("{place} := rfaa(y^2, 1)"), "poll(2)".to_owned()];
        let release = release.iter().map(|&row| row.to_owned());
        enter.into_iter().chain(count).chain(release).collect::<Vec<_>>()
    };
    let both = |release: &[&str]| {
        let (a, b) = (of("a", release), of("b", release));
        test(
            &a.iter().map(String::as_str).collect::<Vec<_>>(),
            &b.iter().map(String::as_str).collect::<Vec<_>>(),
            "y=2",
        )
    };
    let (kept, released) = (both(&[]), both(&["x^2 := 0", "poll(2)"]));
    for model in [Model::Sc, Model::RdmaSc, Model::RdmaTso] {
        // Where nobody releases, one of the two never gets it: no execution ends.
        for engine in [Engine::Declarative, Engine::Operational] {
            let setting = Setting { model, rmw: HCA };
            let search = check::run(&kept.program, setting, engine, &Budget::default())
                .unwrap()
                .search;
            let stopped = &search.completeness;
            assert!(search.is_complete(), "{model} by {engine:?}: {stopped:?}");
            assert!(search.outcomes.is_empty(), "{model} by {engine:?}");
        }
        decided(&released, model, HCA, Verdict::Required);
    }
}

#[test]
fn diagnostics_tell_the_cpu_and_the_card_apart() {
    let head = "RDMA t\n{ a@1=0; x@1=0; y@2=0; }\nP0@1 ;\n";
    for (row, kind, words) in [
        ("r := swap(y^2, 1)", Kind::WrongOperand, "rswap"),
        ("r := swap(x^1, 1)", Kind::WrongOperand, "rswap"),
        ("r := cas(x^1, 0, 1)", Kind::WrongOperand, "rcas"),
        ("r := rswap(y^2, 1)", Kind::WrongOperand, "lands in memory"),
        ("a := rswap(y, 1)", Kind::WrongOperand, ""),
        ("rswap(y^2, 1)", Kind::WrongOperand, "v := rswap(x^2, ..)"),
        ("a := rswap(y^2)", Kind::Syntax, "exchange"),
        ("a := rswop(y^2, 1)", Kind::UnknownInstruction, "rswap"),
        ("imm a := rswap(y^2, 1)", Kind::WrongOperand, ""),
    ] {
        let error = parse(&format!("{head}{row} ;\nexists (true)\n")).unwrap_err();
        assert_eq!(error.diagnostics[0].kind, kind, "{row}: {error}");
        assert!(error.to_string().contains(words), "{row}: {error}");
    }
    let text = format!("{head}strong unsignaled a :=[d] rswap(y^2, 1 + 2) ;\nexists (true)\n");
    let read = litmus(&text);
    assert!(
        read.print()
            .contains("strong unsignaled a :=[d] rswap(y^2, 1 + 2)"),
        "{}",
        read.print()
    );
    assert_eq!(litmus(&read.print()), read);
}

/// The explanation of a lock by exchanges names the two acquisitions first.
#[test]
fn an_explanation_names_the_two_exchanges() {
    let test = test(&["a := rswap(x^2, 1)"], &["b := rswap(x^2, 1)"], "a=0 /\\ b=0");
    let setting = Setting {
        model: Model::RdmaTso,
        rmw: HCA,
    };
    let wanted = &test.queries[0].condition.formula;
    let reason = explain::forbidden(&test.program, setting, wanted, &Budget::default());
    let text = reason.render(&test.program, setting, 0..1);
    assert!(text.contains("`a := rswap(x^2, 1)` of P0"), "{text}");
    assert!(text.contains("would read the same write"), "{text}");
}

fn asked(count: u64) -> std::ops::Range<u64> {
    let plan = std::env::var("MOWGLI_SWAPS").unwrap_or_default();
    let mut numbers = plan.split(',').filter_map(|n| n.parse::<u64>().ok());
    let (count, first) = (numbers.next().unwrap_or(count), numbers.next().unwrap_or(0));
    first..first + count
}

/// The value of a result that no program writes.
const UNSET: Value = -77;

/// Returns the program with the result of its first remote exchange in a place of its own, and the place.
fn with_a_result(program: &Program) -> Option<(Program, Loc)> {
    let mut program = program.clone();
    let place = Loc(program.locations.len() as u16);
    let mut node = None;
    for thread in &mut program.threads {
        for instr in &mut thread.code {
            if let Instr::RemoteSwap { dst, .. } = instr.request_mut()
                && node.is_none()
            {
                *dst = place;
                node = Some(thread.node);
            }
        }
    }
    program.locations.push(Location {
        name: "result".to_owned(),
        node: node?,
        init: UNSET,
        relaxed: false,
    });
    Some((program, place))
}

/// Returns the program with a compare-and-swap in place of the exchange that writes this place.
fn expecting(program: &Program, place: Loc, expected: Value) -> Program {
    let mut program = program.clone();
    program.each_instr_mut(&mut |instr| {
        let instr = instr.request_mut();
        if let Instr::RemoteSwap {
            dst,
            target,
            new,
            work,
        } = instr.clone()
            && dst == place
        {
            *instr = Instr::RemoteCas {
                dst,
                target,
                expected: Expr::Const(expected),
                new,
                work,
            };
        }
    });
    program
}

/// Compares a remote exchange with all compare-and-swaps in its place, each of which expects one value: the outcomes of the exchange are
/// those in which such a compare-and-swap finds what it expects.
#[test]
fn an_exchange_is_a_compare_and_swap_that_expected_what_it_found() {
    let shape = Shape {
        instructions: 6,
        ..Shape::SMALL
    };
    let (mut compared, mut several) = (0u64, 0u64);
    let seeds = asked(250);
    for seed in seeds.clone() {
        let program = tiers::exchange(&generate::program(seed, &shape), seed);
        let Some((program, place)) = with_a_result(&program) else {
            continue;
        };
        let tier = Tier::ALL[seed as usize % Tier::ALL.len()];
        let base = BASES[seed as usize / 2 % BASES.len()];
        let model = base.on(tier).unwrap_or(base);
        let rmw = RmwAtomicity::ALL[seed as usize / 8 % 2];
        let found = |outcome: &Outcome| outcome.memory[usize::from(place.0)];
        let outcomes = |program: &Program| -> BTreeSet<Outcome> {
            let search = match seed % 2 {
                0 => declarative::outcomes(program, model, rmw, &Budget::default()),
                _ => explore::outcomes(program, model, rmw, &Budget::default()),
            };
            assert!(search.is_complete(), "seed {seed}");
            search.outcomes
        };
        let exchanged = outcomes(&program);
        // Values that some program writes, and those that the exchange finds.
        let values: BTreeSet<Value> = (0..10).chain(exchanged.iter().map(found)).collect();
        let by_guess: BTreeSet<Outcome> = values
            .iter()
            .flat_map(|&value| {
                let guessed = outcomes(&expecting(&program, place, value));
                guessed.into_iter().filter(move |o| found(o) == value)
            })
            .collect();
        let text = || format!("seed {seed} under {model}/{rmw}: {program:#?}");
        assert_eq!(exchanged, by_guess, "{}", text());
        assert!(exchanged.iter().all(|o| found(o) != UNSET), "{}", text());
        compared += 1;
        several += u64::from(exchanged.iter().map(found).collect::<BTreeSet<_>>().len() > 1);
    }
    println!("seeds {seeds:?}: {compared} programs agree, {several} of them with several values found");
    assert!(
        compared * 3 > seeds.end - seeds.start && several * 8 > compared,
        "{compared}, {several}"
    );
}

/// Theorems 5 and 6 and Corollary 1 of Robust'25, on programs with exchanges.
#[test]
fn programs_with_exchanges_that_meet_the_conditions_are_robust() {
    let budget = Budget {
        states_max: Some(500_000),
        ..Budget::default()
    };
    let (mut by_condition, mut weak) = (0u64, 0u64);
    let seeds = asked(300);
    for seed in seeds.clone() {
        let family = [Family::Atomic, Family::FencedAtomic, Family::Fenced][seed as usize % 3];
        let program = tiers::exchange(&family.program(seed), seed);
        let rmw = RmwAtomicity::ALL[seed as usize / 3 % 2];
        for model in [Model::RdmaSc, Model::RdmaTso] {
            let refined = seed.is_multiple_of(2);
            let found = robust::conditions(&program, &Question { model, rmw, refined }, &budget);
            if found.is_vacuous() {
                continue;
            }
            let exact = robust::exact(&program, model, rmw, &budget);
            let is_weak = matches!(exact, Exact::NotRobust(_));
            weak += u64::from(is_weak);
            if found.ldrf.holds() && found.fenced.holds() {
                by_condition += 1;
                assert!(!is_weak, "seed {seed}: {model}/{rmw}: {program:#?}");
            }
            if let Exact::Robust = exact {
                let of = |model| declarative::outcomes(&program, model, rmw, &budget);
                let (ours, sc) = (of(model), of(Model::Sc));
                if ours.is_complete() && sc.is_complete() {
                    assert_eq!(
                        ours.outcomes, sc.outcomes,
                        "seed {seed}: {model}/{rmw}: {program:#?}"
                    );
                }
            }
        }
    }
    println!("seeds {seeds:?}: {by_condition} robust by the conditions, {weak} not robust");
    assert!(by_condition > 10 && weak > 10, "{by_condition}, {weak}");
}

/// The catalogue has exchanges, so its golden files, reports and every walk over it have them too.
#[test]
fn the_catalogue_has_exchanges() {
    let with = |is_one: &dyn Fn(&Instr) -> bool| {
        let entries = catalogue::entries().iter();
        entries.filter(|e| e.parse().unwrap().program.has(is_one)).count()
    };
    assert!(with(&|i| matches!(i, Instr::RemoteSwap { .. })) >= 3);
}
