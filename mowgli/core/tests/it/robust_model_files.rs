//! Robustness under model files: the files of the built-in models give the answers of the exact search, and any file gives the answer of
//! plain enumeration.
//!
//! `MOWGLI_PROGRAMS=100000` makes the sweep longer, and with `--nocapture` it prints what limits left out.

use std::ops::ControlFlow;

use mowgli::cat::{self, Embedded, ModelFile};
use mowgli::declarative::reference;
use mowgli::generate::families::Family;
use mowgli::litmus::parse;
use mowgli::model::{Model, RmwAtomicity};
use mowgli::models::Spec;
use mowgli::outcome::{Budget, Limit};
use mowgli::program::Program;
use mowgli::robust::{self, Exact, MODELS, Verdict};
use mowgli::{catalogue, check};

fn file(text: &str) -> ModelFile {
    ModelFile::parse("test.cat", text, &Embedded).unwrap_or_else(|e| panic!("{}", e[0]))
}

fn program(body: &str) -> Program {
    parse(&format!("RDMA t\n{body}\nexists (true)\n"))
        .unwrap()
        .litmus
        .program
}

fn verdict(program: &Program, model: &ModelFile) -> Verdict {
    let found = robust::by_file(program, model, RmwAtomicity::Hca, &Budget::default());
    found.unwrap().verdict()
}

#[test]
fn the_catalogue_has_the_same_answers_by_file() {
    let files = MODELS.map(|model| (model, ModelFile::of(model)));
    let mut compared = [0, 0];
    for entry in catalogue::entries() {
        let program = entry.parse().unwrap().program;
        for (model, file) in &files {
            if check::applicable(&program, *model).is_err() {
                continue;
            }
            for rmw in RmwAtomicity::ALL {
                let budget = Budget {
                    states_max: Some(200_000),
                    ..Budget::default()
                };
                let at = || format!("{} under {model}/{rmw}", entry.path());
                let exact = robust::exact(&program, *model, rmw, &budget);
                let found = robust::by_file(&program, file, rmw, &budget).unwrap();
                match (&exact, &found.exact) {
                    (Exact::Robust, Exact::Robust) => compared[0] += 1,
                    (Exact::NotRobust(_), Exact::NotRobust(weak)) => {
                        compared[1] += 1;
                        // The two find different executions; each accepts the other's.
                        assert!(Spec::of(*model, rmw).is_consistent(&weak.execution), "{}", at());
                        assert!(
                            !Spec::of(Model::Sc, rmw).is_consistent(&weak.execution),
                            "{}",
                            at()
                        );
                    }
                    (Exact::Unknown(_), Exact::Unknown(_)) | (_, Exact::Unknown(Limit::States(_))) => {}
                    (a, b) => panic!("{}: {a:?}, by file {b:?}", at()),
                }
            }
        }
    }
    assert!(compared.iter().all(|&n| n > 100), "{compared:?}");
}

/// Files that are no built-in model, some stronger and some weaker, and one without atomic swaps.
const FILES: [&str; 6] = [
    "acyclic po | rf | rb | mo as sc",
    "acyclic po-loc | com as coherence",
    "acyclic po | rf as no-thin-air",
    "acyclic (po \\ (nrW * nlR)) | rf | mo | rb as almost-sc\nirreflexive rao ; po as atomics",
    "acyclic mo | (po & (NIC * NIC)) | pf as network",
    "irreflexive rb ; rf as nothing",
];

#[test]
fn random_programs_have_the_answers_of_enumeration() {
    let embedded = [Model::RdmaTsoNoPcie, Model::RdmaTso].map(ModelFile::of);
    let files: Vec<ModelFile> = FILES.iter().map(|text| file(text)).chain(embedded).collect();
    let wanted = std::env::var("MOWGLI_PROGRAMS").ok().and_then(|n| n.parse().ok());
    let programs: u64 = wanted.unwrap_or(800);
    let mut compared = [0, 0];
    let mut skipped = 0;
    for i in 0..programs {
        let families = Family::ALL.len() as u64;
        let (family, seed) = (Family::ALL[(i % families) as usize], i / families);
        let rmw = RmwAtomicity::ALL[(i / families % 2) as usize];
        let program = family.program(seed);
        let model = &files[(i / families) as usize % files.len()];
        let at = || {
            format!(
                "{family:?} seed {seed} under {rmw}, {:?}: {program:?}",
                model.axioms()
            )
        };
        // A file without `nfo` gives each execution of the enumeration several times, which changes no answer.
        let spec = Spec::of(Model::RdmaTso, rmw);
        let strong = cat::strong(model, rmw);
        let budget = Budget {
            states_max: Some(600),
            ..Budget::default()
        };
        let (mut weak, mut any) = (false, false);
        let complete = reference::each_execution(&program, &spec, &budget, |execution| {
            if model.is_consistent(execution) {
                any = true;
                weak |= !strong.is_consistent(execution);
            }
            if weak {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        if complete.is_err() && !weak {
            skipped += 1;
            continue;
        }
        let Ok(found) = robust::by_file(&program, model, rmw, &Budget::default()) else {
            // The built-in models of the papers with polls have no meaning for waits.
            assert_eq!(family, Family::Waiting, "{}", at());
            continue;
        };
        match (&found.exact, weak) {
            (Exact::Unknown(Limit::LoopBound { .. }), _) => skipped += 1,
            (Exact::Robust, false) => {
                compared[0] += 1;
                assert_eq!(found.is_vacuous, !any, "{}", at());
            }
            (Exact::NotRobust(weak), true) => {
                compared[1] += 1;
                assert!(model.is_consistent(&weak.execution), "{}", at());
                assert!(!strong.is_consistent(&weak.execution), "{}", at());
            }
            (answer, weak) => panic!("{answer:?}, by enumeration {weak}: {}", at()),
        }
    }
    println!("{compared:?} robust and not; {skipped} skipped");
    assert!(
        compared.iter().all(|&n| n > 80),
        "{compared:?}, {skipped} skipped"
    );
}

#[test]
fn verdicts_under_a_file() {
    let buffering = program("{ x@1=0; y@1=0; }\n P0@1 | P1@1 ;\n x := 1 | y := 1 ;\n r0 := y | r1 := x ;");
    assert_eq!(
        verdict(&buffering, &ModelFile::of(Model::Sc)),
        Verdict::Exhaustively
    );
    assert_eq!(
        verdict(&buffering, &ModelFile::of(Model::Tso)),
        Verdict::NotRobust
    );
    let never = file("empty po as nothing-runs");
    assert_eq!(verdict(&buffering, &never), Verdict::Vacuous);
    let remote = program("{ x@1=0; y@2=0; }\n P0@1 ;\n y^2 := x ;\n x := 1 ;");
    let refused = robust::by_file(
        &remote,
        &ModelFile::of(Model::Tso),
        RmwAtomicity::Hca,
        &Budget::default(),
    );
    assert!(refused.unwrap_err().to_string().contains("requires"));
    assert_eq!(
        verdict(&remote, &ModelFile::of(Model::RdmaTsoNoPcie)),
        Verdict::NotRobust
    );
}

/// A file without atomicity of compare-and-swaps: the write of another comes between the halves of a swap.
#[test]
fn a_swap_that_is_not_atomic_is_a_cycle() {
    let model = file("acyclic po-loc | rf | (mo \\ rb) as odd");
    let swaps = program("{ x@1=0; }\n P0@1 | P1@1 ;\n r0 := cas(x, 0, 1) | x := 2 ;");
    let spec = Spec::of(Model::RdmaTso, RmwAtomicity::Hca);
    let strong = cat::strong(&model, RmwAtomicity::Hca);
    let mut weak = false;
    reference::each_execution(&swaps, &spec, &Budget::default(), |execution| {
        weak |= model.is_consistent(execution) && !strong.is_consistent(execution);
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!(weak);
    assert_eq!(verdict(&swaps, &model), Verdict::NotRobust);
}

/// A loop beyond its bound is no answer, unless the iterations that were left out change nothing.
#[test]
fn a_loop_beyond_its_bound_is_unknown() {
    let waits = program("{ x@1=0; }\n P0@1 | P1@1 ;\n while (r0 == 0) bound 2 { r0 := x } | x := 1 ;");
    assert_eq!(
        verdict(&waits, &ModelFile::of(Model::RdmaTso)),
        Verdict::Exhaustively
    );
    let spins = program(
        "{ x@1=0; 0:r1; }\n P0@1 | P1@1 ;\n while (r0 == 0) bound 2 { r0 := x; r1 := r1 + 1 } | x := 1 ;",
    );
    let found = robust::by_file(
        &spins,
        &ModelFile::of(Model::RdmaTso),
        RmwAtomicity::Hca,
        &Budget::default(),
    );
    assert!(matches!(
        found.unwrap().exact,
        Exact::Unknown(Limit::LoopBound { .. })
    ));
}
