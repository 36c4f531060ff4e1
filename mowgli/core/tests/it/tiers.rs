//! Random programs on which the engines and the model files of every tier must agree, and on which the tiers must include one another.
//!
//! The programs are of five families: one queue pair whose order somebody sees, with polls and with waits; the shapes of the other
//! differential tests; neighbours of the catalogue; and small programs whose every interleaving is visited. Requests for strong order
//! and, on `pcie-relaxed`, regions of relaxed ordering are added at random.
//!
//! `MOWGLI_TIERS=COUNT[,FIRST_SEED]` runs COUNT programs of each family instead of the few of the suite.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use mowgli::cat::{self, ModelFile};
use mowgli::catalogue;
use mowgli::check::{self, Features, applicable};
use mowgli::declarative;
use mowgli::explain;
use mowgli::explore::{Options, outcomes_with};
use mowgli::generate::tiers::{self, Waiting};
use mowgli::generate::{self, Shape};
use mowgli::litmus::{self, Litmus, Setting};
use mowgli::model::{Model, RmwAtomicity, Tier};
use mowgli::outcome::{Budget, Outcome, Search};
use mowgli::program::Program;
use mowgli::robust::Question;
use mowgli::robust::fix::{self, Costs};

use crate::shapes::SHAPES;

/// Programs of each family in the test suite.
const COUNT: u64 = 120;

/// The disagreement that a program showed.
type Failure = String;

fn budget() -> Budget<'static> {
    Budget {
        deadline: Some(Instant::now() + Duration::from_secs(20)),
        ..Budget::default()
    }
}

/// The counts of the comparisons of a family.
#[derive(Debug, Default)]
struct Tally {
    programs: u64,
    finished: u64,
    unfinished: u64,
    /// Programs on which a tier has more outcomes than the one before it: `ooo-rw`, `ooo-all`, `unordered`, and `pcie-relaxed`.
    separated: [u64; 4],
}

impl Tally {
    fn complete(&mut self, search: Search) -> Option<BTreeSet<Outcome>> {
        match search.is_complete() {
            true => self.finished += 1,
            false => self.unfinished += 1,
        }
        search.is_complete().then_some(search.outcomes)
    }
}

/// The models over every network, with their files.
struct Files(Vec<(Model, ModelFile)>);

impl Files {
    fn new() -> Files {
        let tiered = Model::TIERED.into_iter();
        Files(tiered.map(|m| (m, ModelFile::of(m))).collect())
    }

    fn of(&self, model: Model) -> Option<&ModelFile> {
        self.0.iter().find(|(m, _)| *m == model).map(|(_, file)| file)
    }
}

fn equal(what: &str, a: &BTreeSet<Outcome>, b: &BTreeSet<Outcome>) -> Result<(), Failure> {
    subset(what, a, b)?;
    subset(what, b, a).map_err(|f| f.replace("the first", "the second"))
}

fn subset(what: &str, smaller: &BTreeSet<Outcome>, larger: &BTreeSet<Outcome>) -> Result<(), Failure> {
    match smaller.difference(larger).next() {
        None => Ok(()),
        Some(extra) => Err(format!("{what}: {extra:?} only in the first")),
    }
}

/// Returns the outcomes under a setting, by which both engines and the model's file agree.
fn agreed(
    program: &Program,
    setting: Setting,
    files: &Files,
    everything: bool,
    tally: &mut Tally,
) -> Result<Option<BTreeSet<Outcome>>, Failure> {
    let Setting { model, rmw } = setting;
    let options = Options {
        workers: 1,
        ..Options::new(model, rmw)
    };
    let machine = tally.complete(outcomes_with(program, &options, &budget()));
    let declared = tally.complete(declarative::outcomes(program, model, rmw, &budget()));
    if let (Some(machine), Some(declared)) = (&machine, &declared) {
        equal(&format!("{setting}: machine, axioms"), machine, declared)?;
    }
    if let Some(file) = files.of(model)
        && applicable(program, model).is_ok()
    {
        let by_file = tally.complete(cat::outcomes(program, file, rmw, &budget()));
        if let (Some(by_file), Some(declared)) = (&by_file, &declared) {
            equal(&format!("{setting}: file, axioms"), by_file, declared)?;
        }
    }
    if everything {
        let without = Options {
            reduction: false,
            ..options
        };
        let full = tally.complete(outcomes_with(program, &without, &budget()));
        if let (Some(machine), Some(full)) = (&machine, &full) {
            equal(
                &format!("{setting}: machine without reduction, with it"),
                full,
                machine,
            )?;
        }
    }
    Ok(declared)
}

/// Makes every check of one program, which may ask for strong order and has no relaxed region.
fn check(
    program: &Program,
    seed: u64,
    files: &Files,
    everything: bool,
    tally: &mut Tally,
) -> Result<(), Failure> {
    tally.programs += 1;
    let features = Features::of(program);
    let rmw = RmwAtomicity::ALL[usize::from(features.rmw && seed.is_multiple_of(2))];
    let bases = [Model::RdmaSc, Model::RdmaTso, Model::RdmaWait];
    // `rdma-wait` judges programs with polls too, though it does not apply to them.
    let base = match features.wait {
        true => Model::RdmaWait,
        false => bases[(seed % 3) as usize],
    };
    let on = |tier| Setting {
        model: base.on(tier).unwrap(),
        rmw,
    };
    let chain = [Tier::Ibta, Tier::OooRw, Tier::OooAll, Tier::Unordered];
    let mut found = Vec::new();
    for tier in chain {
        found.push(agreed(program, on(tier), files, everything, tally)?);
    }
    for (i, pair) in found.windows(2).enumerate() {
        if let [Some(stronger), Some(weaker)] = pair {
            subset(&format!("{} within {}", chain[i], chain[i + 1]), stronger, weaker)?;
            tally.separated[i] += u64::from(stronger != weaker);
        }
    }
    let ibta = &found[0];
    let plain = tiers::plain(program);
    let without = tally.complete(declarative::outcomes(&plain, base, rmw, &budget()));
    if let (Some(ibta), Some(without)) = (ibta, &without) {
        equal("ibta: with requests, without", ibta, without)?;
    }
    // Without regions, the bus of `pcie-relaxed` reorders nothing.
    let strict = agreed(program, on(Tier::PcieRelaxed), files, false, tally)?;
    if let (Some(strict), Some(ibta)) = (&strict, ibta) {
        equal("pcie-relaxed without regions, ibta", strict, ibta)?;
    }
    let regions = tiers::relax(program, seed);
    let relaxed = agreed(&regions, on(Tier::PcieRelaxed), files, everything, tally)?;
    if let (Some(relaxed), Some(ibta)) = (&relaxed, ibta) {
        subset("ibta within pcie-relaxed", ibta, relaxed)?;
        tally.separated[3] += u64::from(relaxed != ibta);
    }
    Ok(())
}

fn seeds() -> std::ops::Range<u64> {
    let plan = std::env::var("MOWGLI_TIERS").unwrap_or_default();
    let mut numbers = plan.split(',').filter_map(|n| n.parse::<u64>().ok());
    let (count, first) = (numbers.next().unwrap_or(COUNT), numbers.next().unwrap_or(0));
    first..first + count
}

/// Checks the programs of a family; panics on the first failure with the shrunk program. Returns how many programs separate each tier
/// from the one before it.
fn run(name: &str, everything: bool, generate: impl Fn(u64) -> Program) -> Tally {
    let files = Files::new();
    let mut tally = Tally::default();
    for seed in seeds() {
        let program = generate(seed);
        if let Err(failure) = check(&program, seed, &files, everything, &mut tally) {
            let fails = |p: &Program| check(p, seed, &files, everything, &mut Tally::default());
            let small = generate::shrink(&program, &mut |p| fails(p).is_err());
            panic!(
                "{name}, seed {seed}: {failure}\nshrunk: {}\n{small:#?}",
                fails(&small).unwrap_err()
            );
        }
    }
    println!("{name}: seeds {:?}: {tally:?}", seeds());
    assert!(
        tally.unfinished * 100 <= tally.finished,
        "more than 1 % of the searches did not finish: {tally:?}"
    );
    tally
}

#[test]
fn a_queue_pair_with_polls() {
    let tally = run("polls", false, |seed| {
        tiers::ask(&tiers::program(seed, Waiting::Polls), seed)
    });
    assert!(tally.separated.iter().all(|&n| n > 0), "{tally:?}");
}

#[test]
fn a_queue_pair_with_waits() {
    let tally = run("waits", false, |seed| {
        tiers::ask(&tiers::program(seed, Waiting::Waits), seed)
    });
    assert!(tally.separated.iter().all(|&n| n > 0), "{tally:?}");
}

#[test]
fn a_queue_pair_without_reduction() {
    run("every interleaving", true, |seed| {
        let waiting = [Waiting::Polls, Waiting::Waits][(seed % 2) as usize];
        tiers::ask(&tiers::program(seed, waiting), seed)
    });
}

#[test]
fn exchanges_on_a_queue_pair() {
    let tally = run("exchanges", false, |seed| {
        let waiting = [Waiting::Polls, Waiting::Waits][(seed % 2) as usize];
        tiers::ask(&tiers::exchange(&tiers::program(seed, waiting), seed), seed)
    });
    assert!(tally.separated.iter().all(|&n| n > 0), "{tally:?}");
}

#[test]
fn the_shapes_of_the_other_tests() {
    let remote: Vec<Shape> = SHAPES.iter().map(|s| s.1).filter(|s| s.remote).collect();
    run("shapes", false, |seed| {
        let shape = remote[(seed % remote.len() as u64) as usize];
        tiers::ask(&generate::program(seed, &shape), seed)
    });
}

#[test]
fn neighbours_of_the_catalogue() {
    run("neighbours", false, |seed| {
        let entries = catalogue::entries();
        let litmus = entries[seed as usize % entries.len()].parse().unwrap();
        let shape = Shape {
            rmw: seed.is_multiple_of(3),
            ..Shape::SMALL
        };
        let near = generate::mutate(&tiers::plain(&litmus.program), seed, &shape);
        tiers::ask(&near, seed)
    });
}

/// Both engines and the model files agree on the catalogue under every tier.
#[test]
fn the_catalogue() {
    let files = Files::new();
    let mut tally = Tally::default();
    for entry in catalogue::entries() {
        let litmus = entry.parse().unwrap();
        for setting in check::tiered_settings(&litmus.program) {
            let found = agreed(&litmus.program, setting, &files, false, &mut tally);
            assert!(matches!(found, Ok(Some(_))), "{}: {found:?}", entry.path());
        }
    }
}

fn catalogue_test(name: &str) -> Litmus {
    catalogue::find(name).unwrap().parse().unwrap()
}

fn on(tier: Tier) -> Setting {
    Setting {
        model: Model::RdmaTso.on(tier).unwrap(),
        rmw: RmwAtomicity::Hca,
    }
}

/// An explanation names the cell of the tier's table, the page that has it, and the request that was made.
#[test]
fn an_explanation_names_the_cell_of_the_tier() {
    let reason = |name: &str, tier| {
        let litmus = catalogue_test(name);
        let wanted = &litmus.queries[0].condition.formula;
        let reason = explain::forbidden(&litmus.program, on(tier), wanted, &budget());
        reason.render(&litmus.program, on(tier), 0..1)
    };
    let atomic = reason("MP+put-rfaa", Tier::OooRw);
    assert!(atomic.contains("oppo G11: "), "{atomic}");
    assert!(atomic.contains("docs/ordering-models.md"), "{atomic}");
    assert!(atomic.contains("under rdma-tso+ooo-all"), "{atomic}");
    let strong = reason("MP+puts+strong", Tier::Unordered);
    assert!(strong.contains("asks for strong order"), "{strong}");
    assert!(
        strong.contains("without `strong` (instruction 2 of P0)"),
        "{strong}"
    );
    let completed = reason("MP+puts+poll", Tier::OooRw);
    assert!(completed.contains("handed the writes to the bus"), "{completed}");
    // Nothing changes for those who do not ask about a tier.
    let papers = reason("MP+puts", Tier::Ibta);
    assert!(
        papers.contains("oppo G7: ") && !papers.contains("ordering-models"),
        "{papers}"
    );
}

/// Mending on a tier asks for strong order where, and only where, it is needed.
#[test]
fn mending_asks_for_the_fewest_requests() {
    let mended = |name: &str, tier| {
        let litmus = catalogue_test(name);
        let question = Question::of(on(tier).model);
        let mended = fix::mend_on_tier(&litmus.program, &question, &Costs::default(), &budget());
        let mended = mended.unwrap();
        let weak = declarative::outcomes(&mended.program, on(tier).model, RmwAtomicity::Hca, &budget());
        let sc = declarative::outcomes(&mended.program, Model::Sc, RmwAtomicity::Hca, &budget());
        assert_eq!(weak.outcomes, sc.outcomes, "{name} on {tier}");
        mended.requests
    };
    for tier in [Tier::OooRw, Tier::OooAll, Tier::Unordered] {
        assert_eq!(mended("MP+puts", tier), [(0, vec![1])], "{tier}");
    }
    assert_eq!(mended("MP+puts+strong", Tier::Unordered), []);
    assert_eq!(mended("MP+put-rfaa", Tier::OooRw), []);
    assert_eq!(mended("MP+put-rfaa", Tier::OooAll), [(0, vec![1])]);
}

#[test]
fn only_operations_with_a_remote_side_ask_for_strong_order() {
    let parse = |row: &str| {
        litmus::parse(&format!(
            "RDMA t\n{{ x@2=0; y@1=0; }}\nP0@1 ;\n{row} ;\nexists (x=1)"
        ))
    };
    for row in [
        "strong x^2 := 1",
        "strong y := x^2",
        "strong y := rfaa(x^2, 1)",
        "strong x^2 :=[d] y",
    ] {
        let parsed = parse(row).unwrap().litmus;
        assert!(parsed.print().contains(row), "{}", parsed.print());
    }
    for row in ["strong y := 1", "strong rfence(2)", "strong mfence"] {
        let error = parse(row).unwrap_err().to_string();
        assert!(
            error.contains("only puts, gets and remote read-modify-writes"),
            "{row}: {error}"
        );
    }
    // Both words are names like others where nothing follows them.
    let named = "RDMA t\n{ relaxed@1=0; relaxed strong@1=0; }\nP0@1 ;\nstrong := 1 ;\nexists (strong=1)";
    let named = litmus::parse(named).unwrap().litmus;
    assert_eq!(
        named
            .program
            .locations
            .iter()
            .map(|l| l.relaxed)
            .collect::<Vec<_>>(),
        [false, true]
    );
    assert_eq!(litmus::parse(&named.print()).unwrap().litmus, named);
}

#[test]
fn a_model_without_relaxed_regions_refuses_a_test_with_them_and_names_those_that_have_them() {
    let program = catalogue_test("MP+relaxed").program;
    for model in Model::every() {
        let answer = applicable(&program, model);
        match model {
            Model::Sc => assert_eq!(answer, Ok(())),
            _ if model.base() == Model::RdmaWait => {}
            _ if model.tier() == Tier::PcieRelaxed => assert_eq!(answer, Ok(())),
            Model::Tso => assert!(answer.is_err()),
            _ => {
                let reason = answer.unwrap_err().to_string();
                assert!(reason.contains("rdma-tso+pcie-relaxed"), "{reason}");
            }
        }
    }
}
