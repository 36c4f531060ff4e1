//! Operations without a completion of their own, and puts of several words.
//!
//! Both engines and the models' files are compared on random programs in which operations lose their completions.
//! `MOWGLI_UNSIGNALED=COUNT,SEED` compares so many.

use mowgli::cat::{self, ModelFile};
use mowgli::check::{self, Engine};
use mowgli::generate::{self, Random, Shape};
use mowgli::litmus::{Kind, Litmus, Setting, Verdict, parse};
use mowgli::model::{Model, RmwAtomicity, Tier};
use mowgli::outcome::Budget;
use mowgli::program::{Instr, Program};
use mowgli::{declarative, explore};

const HCA: RmwAtomicity = RmwAtomicity::Hca;

fn litmus(text: &str) -> Litmus {
    parse(text).unwrap_or_else(|e| panic!("{text}: {e}")).litmus
}

fn one(rows: &[&str], condition: &str) -> Litmus {
    let init = "d@1=0; a@1=5; x@2=1; y@2=0; z@2=0;";
    litmus(&format!(
        "RDMA t\n{{ {init} }}\nP0@1 ;\n{} ;\nexists ({condition})\n",
        rows.join(" ;\n")
    ))
}

#[track_caller]
fn decided(litmus: &Litmus, model: Model, verdict: Verdict) {
    let setting = Setting { model, rmw: HCA };
    let answer = check::run(&litmus.program, setting, Engine::Both, &Budget::default()).unwrap();
    assert_eq!(answer.disagreement, None, "{model}:\n{}", litmus.print());
    let found = check::judge(litmus, 0, &answer.search).verdict();
    assert_eq!(found, Some(verdict), "{model}:\n{}", litmus.print());
}

/// The completion of a later operation says that the earlier ones are done; that of an earlier one says nothing of later ones.
#[test]
fn a_poll_covers_the_operations_before_the_one_that_completes() {
    for model in [Model::RdmaSc, Model::RdmaTso] {
        let covered = one(&["unsignaled d := x^2", "z^2 := 1", "poll(2)", "r := d"], "0:r=0");
        decided(&covered, model, Verdict::Forbidden);
        let later = one(&["z^2 := 1", "unsignaled d := x^2", "poll(2)", "r := d"], "0:r=0");
        decided(&later, model, Verdict::Allowed);
        let second = one(
            &["unsignaled z^2 := 1", "d := x^2", "y^2 := 1", "poll(2)", "r := d"],
            "0:r=0",
        );
        decided(&second, model, Verdict::Forbidden);
    }
}

#[test]
fn a_poll_without_a_completion_never_ends() {
    let text = "RDMA t\n{ x@2=0; }\nP0@1 ;\nunsignaled x^2 := 1 ;\npoll(2) ;\nexists (true)\n";
    let parsed = parse(text).unwrap();
    assert_eq!(parsed.warnings[0].kind, Kind::PollNeverSucceeds);
    for model in [Model::Sc, Model::RdmaSc, Model::RdmaTso] {
        let setting = Setting { model, rmw: HCA };
        let answer = check::run(&parsed.litmus.program, setting, Engine::Both, &Budget::default()).unwrap();
        assert!(
            answer.search.is_complete() && answer.search.outcomes.is_empty(),
            "{model}"
        );
    }
}

/// A put of several words is a put for each, of which the last completes. The words keep their order only where puts do.
#[test]
fn a_put_of_several_words_is_one_put_for_each() {
    let text = |put: &str| {
        format!(
            "RDMA words\n{{ a@1=5; x@2=0; y@2=0; }}\nP0@1 | P1@2 ;\n{put} | r := y ;\npoll(2) | s := x ;\n\
             exists (1:r=7 /\\ 1:s=0)\n"
        )
    };
    let words = litmus(&text("x, y^2 := a, 7"));
    assert_eq!(words.print(), litmus(&words.print()).print());
    assert!(words.print().contains("unsignaled x^2 := a"), "{}", words.print());
    decided(&words, Model::RdmaTso, Verdict::Forbidden);
    decided(&words, Model::RdmaTso.on(Tier::OooRw).unwrap(), Verdict::Allowed);
    let named = litmus(
        "RDMA t\n{ x@2=0; y@2=0; }\nP0@1 ;\nx, y^2 :=[d] 1, inline(2) ;\nwait(d) ;\nexists (x=1 /\\ y=2)\n",
    );
    decided(&named, Model::RdmaWait, Verdict::Required);
    for (wrong, kind) in [
        ("x, y^2 := a", Kind::WrongOperand),
        ("strong x, y^2 := a, 7", Kind::WrongOperand),
        ("x, y := a, 7", Kind::Syntax),
        ("unsignaled mfence", Kind::WrongOperand),
        ("x, y^2 := a, y^2", Kind::WrongOperand),
    ] {
        let error = parse(&text(wrong)).unwrap_err();
        assert_eq!(error.diagnostics[0].kind, kind, "{wrong}: {error}");
    }
    let places = parse(&text("x, y^2 := a, 7")).unwrap().instructions;
    assert_eq!(places[0].len(), 3);
}

/// Takes the completions of some operations away.
fn unsignaled(mut program: Program, random: &mut Random) -> Program {
    program.each_instr_mut(&mut |instr| {
        if instr.can_be_strong() && random.once_in(2) {
            *instr = Instr::Unsignaled(Box::new(instr.clone()));
        }
    });
    program
}

#[test]
fn engines_agree_on_random_programs_without_some_completions() {
    let asked = std::env::var("MOWGLI_UNSIGNALED").unwrap_or_else(|_| "400,1".to_owned());
    let (count, seed) = asked.split_once(',').unwrap();
    let (count, seed): (u64, u64) = (count.parse().unwrap(), seed.parse().unwrap());
    let mut random = Random::new(seed);
    let shape = Shape {
        instructions: 6,
        ..Shape::SMALL
    };
    let budget = Budget {
        states_max: Some(100_000),
        ..Budget::default()
    };
    let bases = [Model::RdmaSc, Model::RdmaTso, Model::RdmaTsoNoPcie];
    let (mut compared, mut by_file) = (0, 0);
    for i in 0..count {
        let program = unsignaled(generate::program(seed ^ i << 20, &shape), &mut random);
        let tier = Tier::ALL[random.below(Tier::ALL.len())];
        let base = bases[random.below(bases.len())];
        let model = base.on(tier).unwrap_or(base);
        let machine = explore::outcomes(&program, model, HCA, &budget);
        let axioms = declarative::outcomes(&program, model, HCA, &budget);
        if !machine.is_complete() || !axioms.is_complete() {
            continue;
        }
        assert_eq!(
            machine.outcomes, axioms.outcomes,
            "{model}, program {i}: {program:?}"
        );
        compared += 1;
        if i % 4 == 0 {
            let file = cat::decide(&program, &ModelFile::of(model), HCA, None, &budget).unwrap();
            if file.is_complete() {
                assert_eq!(
                    file.outcomes, axioms.outcomes,
                    "{model}.cat, program {i}: {program:?}"
                );
                by_file += 1;
            }
        }
    }
    println!("{compared} programs agree, {by_file} under the models' files too");
    assert!(compared * 10 > count * 8 && by_file > 0, "{compared}, {by_file}");
}
