//! Random programs on which the engines and the models must agree.
//!
//! Every program runs under the declarative engine and under the concrete and the simplified machine of every model. The test checks that
//! they agree, that the models include one another as they should, and that the recursive forms of the definition agree on
//! executions of the program. A failure prints the seed and the shrunk program, which should be kept as a test.
//!
//! `MOWGLI_DIFFERENTIAL=COUNT[,FIRST_SEED]` runs COUNT programs of each kind instead of the few of the suite.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::shapes::SHAPES;
use mowgli::catalogue;
use mowgli::declarative::{self, reference};
use mowgli::event::Execution;
use mowgli::explore::{Options, outcomes_with};
use mowgli::generate::{self, Shape};
use mowgli::model::{Model, RmwAtomicity};
use mowgli::models::{Spec, rdma_tso_recursive};
use mowgli::outcome::{Budget, Outcome, Search};
use mowgli::program::{Instr, Program};

/// Programs of each shape in the test suite, and twice as many neighbours of the catalogue: 2,750 in all.
const COUNT: u64 = 250;

/// The disagreement that a program showed.
type Failure = String;

fn budget() -> Budget<'static> {
    Budget {
        deadline: Some(Instant::now() + Duration::from_secs(10)),
        ..Budget::default()
    }
}

/// The searches that finished, and those that did not. A comparison with a search that did not finish is left out.
static FINISHED: AtomicU64 = AtomicU64::new(0);
static UNFINISHED: AtomicU64 = AtomicU64::new(0);

/// Returns the outcomes, or nothing if the search did not finish.
fn complete(search: Search) -> Option<BTreeSet<Outcome>> {
    let count = if search.is_complete() {
        &FINISHED
    } else {
        &UNFINISHED
    };
    count.fetch_add(1, Ordering::Relaxed); // Relaxed: only a count.
    search.is_complete().then_some(search.outcomes)
}

fn machine(program: &Program, options: Options) -> Option<BTreeSet<Outcome>> {
    complete(outcomes_with(program, &options, &budget()))
}

fn subset(what: &str, smaller: &BTreeSet<Outcome>, larger: &BTreeSet<Outcome>) -> Result<(), Failure> {
    match smaller.difference(larger).next() {
        None => Ok(()),
        Some(extra) => Err(format!("{what}: {extra:?} only in the first")),
    }
}

fn equal(what: &str, a: &BTreeSet<Outcome>, b: &BTreeSet<Outcome>) -> Result<(), Failure> {
    subset(what, a, b)?;
    subset(what, b, a).map_err(|failure| failure.replace("the first", "the second"))
}

fn is_rmw(instr: &Instr) -> bool {
    matches!(
        instr,
        Instr::RemoteFaa { .. } | Instr::RemoteCas { .. } | Instr::RemoteSwap { .. }
    )
}

/// Executions on which the forms of the definition were compared, and how many of these are consistent.
static EXECUTIONS: AtomicU64 = AtomicU64::new(0);
static CONSISTENT: AtomicU64 = AtomicU64::new(0);

/// RDMA-TSO'24 Thms. C.5 and C.6: Def. 4.4 and its two recursive forms accept the same executions. Tried on executions of the
/// first and last outcome, which are consistent, and on random ones, which seldom are.
fn forms_agree(
    program: &Program,
    model: Model,
    rmw: RmwAtomicity,
    outcomes: &BTreeSet<Outcome>,
) -> Result<(), Failure> {
    let spec = Spec::of(model, rmw);
    let mut failure = None;
    let mut compare = |execution: &Execution| {
        let plain = spec.is_consistent(execution);
        EXECUTIONS.fetch_add(1, Ordering::Relaxed); // Relaxed: only a count.
        CONSISTENT.fetch_add(plain.into(), Ordering::Relaxed); // Relaxed: only a count.
        if plain != rdma_tso_recursive::is_consistent(execution, &spec) {
            failure = Some(format!("{model}/{rmw}: Def. 4.4, Def. C.4: {execution:?}"));
        }
        if plain != rdma_tso_recursive::is_consistent_one_sided(execution, &spec) {
            failure = Some(format!("{model}/{rmw}: Def. 4.4, Def. C.7: {execution:?}"));
        }
        plain
    };
    for outcome in outcomes.iter().take(1).chain(outcomes.iter().skip(1).last()) {
        // A search without an answer within the budget is not a disagreement.
        if let Ok(witness) = declarative::witness(program, model, rmw, outcome, &budget()) {
            let consistent = witness.is_some_and(|execution| compare(&execution));
            if !consistent {
                return Err(format!("{model}/{rmw}: no consistent execution of {outcome:?}"));
            }
        }
    }
    let sampled = reference::sample_executions(program, &spec, outcomes.len() as u64, 8, |execution| {
        compare(execution);
    });
    sampled.map_err(|limit| format!("{model}/{rmw}: {limit}"))?;
    failure.map_or(Ok(()), Err)
}

/// Makes every check of one program.
fn check(program: &Program) -> Result<(), Failure> {
    let remote = program.has_remote_operations();
    let atomicities: &[RmwAtomicity] = if program.has(&is_rmw) {
        &RmwAtomicity::ALL
    } else {
        &[RmwAtomicity::Hca]
    };
    let mut of_atomicity = Vec::new();
    for &rmw in atomicities {
        let mut of_model = Vec::new();
        for model in Model::ALL {
            if model == Model::Tso && remote {
                of_model.push(None);
                continue;
            }
            let options = Options {
                workers: 1,
                ..Options::new(model, rmw)
            };
            let simplified = machine(program, options);
            let concrete = machine(
                program,
                Options {
                    machine: options.machine.concrete(),
                    ..options
                },
            );
            let declared = complete(declarative::outcomes(program, model, rmw, &budget()));
            if let (Some(simplified), Some(concrete)) = (&simplified, &concrete) {
                equal(
                    &format!("{model}/{rmw}: simplified, concrete"),
                    simplified,
                    concrete,
                )?;
            }
            if let (Some(simplified), Some(declared)) = (&simplified, &declared) {
                equal(
                    &format!("{model}/{rmw}: operational, declarative"),
                    simplified,
                    declared,
                )?;
            }
            let rdma = !matches!(model, Model::Sc | Model::Tso);
            if let (Some(declared), true) = (&declared, rdma) {
                forms_agree(program, model, rmw, declared)?;
            }
            of_model.push(simplified);
        }
        let [sc, tso, rdma_sc, rdma_tso, no_pcie, wait] = &of_model[..] else {
            unreachable!("six models")
        };
        let within = |what: &str, a: &Option<BTreeSet<Outcome>>, b: &Option<BTreeSet<Outcome>>| match (a, b) {
            (Some(a), Some(b)) => subset(&format!("{rmw}: {what}"), a, b),
            _ => Ok(()),
        };
        within("sc within rdma-sc", sc, rdma_sc)?;
        within("rdma-sc within rdma-tso", rdma_sc, rdma_tso)?;
        within("rdma-tso within rdma-tso-nopcie", rdma_tso, no_pcie)?;
        within("rdma-tso within rdma-wait", rdma_tso, wait)?;
        if !remote {
            within("Thm. 4.6: tso within rdma-tso", tso, rdma_tso)?;
            within("Thm. 4.6: rdma-tso within tso", rdma_tso, tso)?;
            within("rdma-sc is sc without remote operations", rdma_sc, sc)?;
        }
        of_atomicity.push(of_model);
    }
    if let [hca, glob] = &of_atomicity[..] {
        for (model, (hca, glob)) in Model::ALL.iter().zip(hca.iter().zip(glob)) {
            if let (Some(hca), Some(glob)) = (hca, glob) {
                subset(&format!("{model}: glob within hca"), glob, hca)?;
            }
        }
    }
    Ok(())
}

/// Returns the seeds to try: a few, or those of the environment.
fn seeds(count: u64) -> std::ops::Range<u64> {
    let plan = std::env::var("MOWGLI_DIFFERENTIAL").unwrap_or_default();
    let mut numbers = plan.split(',').filter_map(|n| n.parse::<u64>().ok());
    let (count, first) = (numbers.next().unwrap_or(count), numbers.next().unwrap_or(0));
    first..first + count
}

/// Checks programs; panics on the first failure with the shrunk program.
fn run(name: &str, count: u64, generate: impl Fn(u64) -> Program) {
    for seed in seeds(count) {
        let program = generate(seed);
        if let Err(failure) = check(&program) {
            let small = generate::shrink(&program, &mut |p| check(p).is_err());
            panic!(
                "{name}, seed {seed}: {failure}\nshrunk: {}\n{small:#?}",
                check(&small).unwrap_err()
            );
        }
    }
    let (finished, unfinished) = (
        FINISHED.load(Ordering::Relaxed),
        UNFINISHED.load(Ordering::Relaxed),
    );
    println!(
        "{name}: seeds {:?}; searches so far: {finished}, unfinished {unfinished}; executions compared: {}, {} consistent",
        seeds(count),
        EXECUTIONS.load(Ordering::Relaxed),
        CONSISTENT.load(Ordering::Relaxed),
    );
    assert!(
        unfinished * 100 <= finished,
        "more than 1 % of the searches did not finish"
    );
}

fn run_shape((name, shape): &(&str, Shape)) {
    run(name, COUNT, |seed| generate::program(seed, shape));
}

/// Returns a neighbour of a test of the catalogue.
fn mutant(seed: u64) -> Program {
    let entries = catalogue::entries();
    let litmus = entries[seed as usize % entries.len()].parse().unwrap();
    let shape = Shape {
        waits: true,
        rmw: seed.is_multiple_of(3),
        ..Shape::SMALL
    };
    generate::mutate(&litmus.program, seed, &shape)
}

#[test]
fn cpu_programs() {
    run_shape(&SHAPES[0]);
    run_shape(&SHAPES[1]);
}

#[test]
fn puts_and_gets() {
    run_shape(&SHAPES[2]);
}

#[test]
fn polls() {
    run_shape(&SHAPES[3]);
    run_shape(&SHAPES[4]);
}

#[test]
fn waits() {
    run_shape(&SHAPES[5]);
}

#[test]
fn read_modify_writes() {
    run_shape(&SHAPES[6]);
}

#[test]
fn read_modify_writes_with_waits() {
    run_shape(&SHAPES[7]);
}

#[test]
fn exchanges() {
    run("exchanges", COUNT, |seed| {
        let shapes = [&SHAPES[6].1, &SHAPES[7].1, &SHAPES[8].1];
        generate::tiers::exchange(&generate::program(seed, shapes[seed as usize % 3]), seed)
    });
}

#[test]
fn neighbours_of_the_catalogue() {
    run("mutants", 2 * COUNT, mutant);
}

#[test]
fn control_flow() {
    run_shape(&SHAPES[8]);
}

/// The programs must tell the models apart, and most searches must finish; otherwise they would test nothing.
#[test]
fn the_programs_separate_the_models() {
    let pairs = [
        (Model::Sc, Model::RdmaSc),
        (Model::RdmaSc, Model::RdmaTso),
        (Model::RdmaTso, Model::RdmaTsoNoPcie),
    ];
    let (mut separated, mut by_atomicity, mut several) = ([0; 3], 0, 0);
    const PROGRAMS: u64 = 400;
    for seed in 0..PROGRAMS {
        let program = mutant(seed);
        let find = |model, rmw| {
            machine(
                &program,
                Options {
                    workers: 1,
                    ..Options::new(model, rmw)
                },
            )
        };
        for (count, (a, b)) in separated.iter_mut().zip(pairs) {
            *count += u32::from(find(a, RmwAtomicity::Hca) != find(b, RmwAtomicity::Hca));
        }
        let hca = find(Model::RdmaTso, RmwAtomicity::Hca);
        by_atomicity += u32::from(find(Model::RdmaTso, RmwAtomicity::Glob) != hca);
        several += u64::from(hca.is_some_and(|outcomes| outcomes.len() > 1));
    }
    assert!(
        separated.iter().all(|&n| n >= 5),
        "programs that separate {pairs:?}: {separated:?}"
    );
    assert!(
        by_atomicity >= 3,
        "programs that separate hca and glob: {by_atomicity}"
    );
    assert!(
        several > PROGRAMS / 3,
        "programs with several outcomes: {several} of {PROGRAMS}"
    );
}

/// Shrinking keeps the instructions that matter and drops the others.
#[test]
fn shrinking_finds_a_smallest_program() {
    let shape = Shape {
        instructions: 10,
        control: true,
        ..Shape::SMALL
    };
    let shows = |p: &Program| p.has(&is_rmw);
    let mut shrunk = 0;
    for seed in 0..200 {
        let program = generate::program(seed, &shape);
        if shows(&program) {
            let small = generate::shrink(&program, &mut |p| shows(p));
            assert_eq!(
                small.threads.iter().map(|t| t.code.len()).sum::<usize>(),
                1,
                "{small:#?}"
            );
            shrunk += 1;
        }
    }
    assert!(shrunk > 20);
}
