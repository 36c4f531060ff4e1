//! Puts whose data are inlined: what they allow, and that both engines and the model files agree on them.
//!
//! `MOWGLI_INLINED=COUNT[,FIRST_SEED]` runs COUNT programs of each shape instead of the few of the suite.

use std::collections::BTreeSet;

use crate::shapes::SHAPES;
use mowgli::cat::{self, Included, Includes, ModelFile};
use mowgli::explore::{Options, outcomes_with};
use mowgli::generate::{self, Random, Shape};
use mowgli::litmus::{self, Litmus};
use mowgli::model::{Model, RmwAtomicity};
use mowgli::models::Spec;
use mowgli::outcome::{Budget, Outcome, Search};
use mowgli::program::{Instr, Program, PutSrc};
use mowgli::{catalogue, check, declarative, robust};

/// Programs of each shape in the test suite.
const COUNT: u64 = 130;

fn budget() -> Budget<'static> {
    Budget {
        states_max: Some(200_000),
        ..Budget::default()
    }
}

fn complete(search: Search) -> Option<BTreeSet<Outcome>> {
    search.is_complete().then_some(search.outcomes)
}

/// Inlines each put of a constant with a chance of one half. Returns whether one was inlined.
fn inline_some(program: &mut Program, random: &mut Random) -> bool {
    let mut any = false;
    program.each_instr_mut(&mut |instr| {
        if let Instr::Put { src, .. } = instr
            && let PutSrc::Value(value) = src
            && random.below(2) == 0
        {
            *src = PutSrc::Inline(value.clone());
            any = true;
        }
    });
    any
}

/// Returns the outcomes under a model if they are the same by both engines, both pipelines and the model's file, and nothing if a search
/// did not finish.
fn agreed(program: &Program, model: Model, rmw: RmwAtomicity) -> Option<BTreeSet<Outcome>> {
    let options = Options {
        workers: 1,
        ..Options::new(model, rmw)
    };
    let concrete = Options {
        machine: options.machine.concrete(),
        ..options
    };
    let declared = complete(declarative::outcomes(program, model, rmw, &budget()))?;
    let about = || format!("{model}/{rmw}: {program:#?}");
    if let Some(machine) = complete(outcomes_with(program, &options, &budget())) {
        assert_eq!(declared, machine, "declarative, machine: {}", about());
    }
    if let Some(machine) = complete(outcomes_with(program, &concrete, &budget())) {
        assert_eq!(declared, machine, "declarative, concrete machine: {}", about());
    }
    if let Some(by_file) = complete(cat::outcomes(program, &ModelFile::of(model), rmw, &budget())) {
        assert_eq!(declared, by_file, "declarative, file: {}", about());
    }
    Some(declared)
}

fn parse(text: &str) -> Litmus {
    litmus::parse(text).unwrap().litmus
}

#[test]
fn the_paper_saw_gfp2_with_inlined_puts() {
    let holds = |litmus: &Litmus, program: &Program| {
        let found = agreed(program, Model::RdmaTso, RmwAtomicity::Hca).unwrap();
        let formula = &litmus.queries[0].condition.formula;
        found.iter().any(|outcome| formula.holds(outcome))
    };
    for (name, inlined) in [("GFP1", false), ("GFP2", true)] {
        let litmus = catalogue::find(name).unwrap().parse().unwrap();
        assert!(!holds(&litmus, &litmus.program), "{name}");
        assert_eq!(holds(&litmus, &litmus.program.inlined()), inlined, "{name}");
    }
}

/// A store comes before a put that was posted after it, inlined or not: the put leaves the store buffer after it.
#[test]
fn an_inlined_put_still_follows_the_stores_before_it() {
    let text = "RDMA SB-inline\n{ x@1=0; y@1=0; z@2=0; }\n P0@1 | P1@1 ;\n x := 1 | y := 1 ;\n z^2 := inline(1) | z^2 := inline(2) ;\n poll(2) | poll(2) ;\n a := y | b := x ;\n\nexists (0:a=0 /\\ 1:b=0)\n";
    let litmus = parse(text);
    let found = agreed(&litmus.program, Model::RdmaTso, RmwAtomicity::Hca).unwrap();
    let formula = &litmus.queries[0].condition.formula;
    assert!(!found.iter().any(|outcome| formula.holds(outcome)));
    let plain = parse(&text.replace("inline(1)", "1").replace("inline(2)", "2"));
    assert_eq!(plain.program.inlined(), litmus.program);
}

#[test]
fn inlined_puts_are_printed_as_they_are_read() {
    let text =
        "RDMA t\n{ x@2=0; }\n P0@1 ;\n r := 3 ;\n x^2 :=[d] inline(r+1) ;\n wait(d) ;\n\nexists (x=4)\n";
    let litmus = parse(text);
    assert!(
        litmus.print().contains("x^2 :=[d] inline(r + 1)"),
        "{}",
        litmus.print()
    );
    assert_eq!(parse(&litmus.print()).program, litmus.program);
    let wrong = litmus::parse("RDMA t\n{ x@1=0; }\n P0@1 ;\n x := inline(1) ;\n\nexists (x=1)\n");
    assert!(wrong.unwrap_err().to_string().contains("is for the data of puts"));
}

#[test]
fn random_programs_agree_and_inlining_only_adds_outcomes() {
    let asked = std::env::var("MOWGLI_INLINED").unwrap_or_default();
    let mut numbers = asked.split(',').filter_map(|n| n.parse::<u64>().ok());
    let (count, first) = (numbers.next().unwrap_or(COUNT), numbers.next().unwrap_or(1));
    let (mut compared, mut weaker) = (0u64, 0u64);
    let near = |seed: u64, name: Option<&str>| {
        let entries = catalogue::entries();
        let entry = name.and_then(|name| entries.iter().find(|entry| entry.name == name));
        let litmus = entry
            .unwrap_or(&entries[seed as usize % entries.len()])
            .parse()
            .unwrap();
        generate::mutate(
            &litmus.program,
            seed,
            &Shape {
                waits: true,
                ..Shape::SMALL
            },
        )
    };
    for seed in first..first + count {
        let shaped = SHAPES.iter().map(|(_, shape)| generate::program(seed, shape));
        // Few programs tell; those near the one that was seen do.
        for plain in shaped.chain([near(seed, None), near(seed, Some("GFP2"))]) {
            let mut program = plain.clone();
            if !inline_some(&mut program, &mut Random::new(seed)) {
                continue;
            }
            for setting in check::settings(&program) {
                let Some(inlined) = agreed(&program, setting.model, setting.rmw) else {
                    continue;
                };
                compared += 1;
                let search = declarative::outcomes(&plain, setting.model, setting.rmw, &budget());
                let Some(plain) = complete(search) else { continue };
                assert!(
                    plain.is_subset(&inlined),
                    "seed {seed} under {setting}: {program:#?}"
                );
                let flushes = Spec::of(setting.model, setting.rmw).flushes;
                assert!(
                    flushes || plain == inlined,
                    "seed {seed} under {setting}: {program:#?}"
                );
                weaker += u64::from(plain != inlined);
            }
        }
    }
    println!("{compared} comparisons; inlining allows more in {weaker}");
    assert!(compared > count && weaker > 0, "{compared}, {weaker}");
}

/// Includes of the files that are built in.
struct BuiltIn;

impl Includes for BuiltIn {
    fn read(&self, _: &str, path: &str) -> Result<Included, String> {
        let text = cat::find(path).ok_or("no such file")?.to_owned();
        let name = path.to_owned();
        Ok(Included { name, text })
    }
}

/// RDMA^TSO in which every put of a constant is inlined, stated by the axioms alone.
const INLINED: &str = r#"
"RDMA over x86-TSO, constants inlined"
requires empty WAIT as no-wait
include "rdma-tables.cat"
let buffer = same-thread & (lW * lR)
let const = nlR \ range(rf)
let flush = nfo \ ((const * _) | (_ * const))
include "rdma-axioms.cat"
"#;

/// A file that takes the constants out of the flush order says the same of a program as the model does of the inlined program.
#[test]
fn a_file_without_the_flushes_of_constants_agrees() {
    let file = ModelFile::parse("inlined.cat", INLINED, &BuiltIn).unwrap();
    let programs = (0..60)
        .flat_map(|seed| {
            SHAPES
                .iter()
                .map(move |(_, shape)| generate::program(seed, shape))
        })
        .chain(
            catalogue::entries()
                .iter()
                .map(|entry| entry.parse().unwrap().program),
        );
    let mut compared = 0;
    for program in programs {
        if !check::settings(&program)
            .iter()
            .any(|s| s.model == Model::RdmaTso)
        {
            continue;
        }
        let rmw = RmwAtomicity::Hca;
        let by_file = complete(cat::outcomes(&program, &file, rmw, &budget()));
        let built_in = declarative::outcomes(&program.inlined(), Model::RdmaTso, rmw, &budget());
        if let (Some(by_file), Some(built_in)) = (by_file, complete(built_in)) {
            assert_eq!(by_file, built_in, "{program:#?}");
            compared += 1;
        }
    }
    assert!(compared > 200, "{compared}");
}

/// The conditions for robustness hold for inlined puts too: a program that they call robust has no weak execution.
#[test]
fn conditions_for_robustness_know_that_inlined_puts_flush_nothing() {
    let mut robust = 0;
    for name in ["GFP1", "GFP2", "ST3", "ST9", "MP1", "LB3bis", "SB3"] {
        let program = catalogue::find(name).unwrap().parse().unwrap().program.inlined();
        robust += u64::from(is_sound(&program));
    }
    for seed in 0..100 {
        for (_, shape) in SHAPES {
            robust += u64::from(is_sound(&generate::program(seed, &shape).inlined()));
        }
    }
    assert!(robust > 20, "{robust}");
}

/// Returns whether the conditions call the program robust. Panics if they are wrong about it.
fn is_sound(program: &Program) -> bool {
    let question = robust::Question::of(Model::RdmaTso);
    let spec = question.spec();
    let holds = robust::conditions(program, &question, &budget())
        .theorem()
        .is_some();
    if holds {
        let weak = declarative::weak_execution(program, &spec, &budget());
        assert!(!matches!(weak, Ok(Some(_))), "{program:#?}");
    }
    holds
}
