//! The star translation keeps the outcomes of sequential consistency, on the shapes and locks of `litmus/star`, on herd7's tests and
//! on random programs.

use std::collections::BTreeSet;
use std::path::Path;

use mowgli::catalogue::{self, Entry};
use mowgli::declarative;
use mowgli::generate::{self, Shape};
use mowgli::litmus::{Litmus, Setting, Verdict, parse};
use mowgli::model::{Model, RmwAtomicity};
use mowgli::outcome::{Budget, Outcome};
use mowgli::program::Instr;
use mowgli::star::{Options, Refused, Server, translate, x86};

fn sources() -> impl Iterator<Item = &'static Entry> {
    catalogue::entries()
        .iter()
        .filter(|e| e.folder == "star" && !e.name.contains("+star"))
}

/// The options under which the catalogue has a translation. Clients swap tickets, so no thread stays on the server.
fn options(name: &str) -> Options {
    let server = match name {
        "shm-ticket-lock" => Server::Idle,
        _ => Server::Thread(0),
    };
    Options {
        server,
        ..Options::default()
    }
}

fn outcomes(litmus: &Litmus, model: Model, rmw: RmwAtomicity) -> BTreeSet<Outcome> {
    let search = declarative::outcomes(&litmus.program, model, rmw, &Budget::default());
    assert!(search.is_complete(), "{} under {model}", litmus.name);
    search.outcomes
}

/// Checks that the translation's outcomes, without the copies of clients, are the source's under `sc`.
fn assert_same(source: &Litmus, options: &Options) {
    let translated = translate(source, options).unwrap();
    let locations = source.program.locations.len();
    let mut found = outcomes(&translated, options.model, options.rmw);
    found = found
        .into_iter()
        .map(|o| Outcome {
            memory: o.memory[..locations].to_vec(),
            ..o
        })
        .collect();
    let wanted = outcomes(source, Model::Sc, RmwAtomicity::Hca);
    assert_eq!(
        found,
        wanted,
        "{}\n{options:?}\n{}",
        source.name,
        translated.print()
    );
}

#[test]
fn the_catalogue_has_every_translation() {
    let bless = std::env::var_os("MOWGLI_BLESS").is_some();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../litmus/star");
    let mut count = 0;
    for entry in sources() {
        let translated = translate(&entry.parse().unwrap(), &options(entry.name)).unwrap();
        let path = folder.join(format!("{}.litmus", translated.name));
        if bless {
            std::fs::write(&path, translated.print()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), translated.print());
        let again = parse(&translated.print()).unwrap();
        assert_eq!(again.litmus, translated);
        assert_eq!(again.warnings, [], "{}", translated.name);
        count += 1;
    }
    assert_eq!(count, 12, "nine shapes and three locks");
}

#[test]
fn shapes_and_locks_keep_the_outcomes_of_sc() {
    for entry in sources() {
        let source = entry.parse().unwrap();
        for model in [Model::RdmaSc, Model::RdmaTso] {
            for early in [false, true] {
                for server in [options(entry.name).server, Server::Idle] {
                    let options = Options {
                        server,
                        early,
                        model,
                        rmw: RmwAtomicity::Hca,
                    };
                    assert_same(&source, &options);
                }
            }
        }
    }
}

/// With atomics that are atomic against CPUs, a thread with swaps may stay on the server.
#[test]
fn a_lock_with_a_swap_on_the_server_needs_glob() {
    let source = catalogue::find("shm-ticket-lock").unwrap().parse().unwrap();
    let hca = Options::default();
    let refused = translate(&source, &hca).unwrap_err();
    assert!(matches!(refused, Refused::MixedAtomicity { ref location, .. } if location == "next"));
    assert_same(
        &source,
        &Options {
            rmw: RmwAtomicity::Glob,
            ..hca
        },
    );
}

/// A program of one node with branches, loops, choices and swaps.
fn random(seed: u64) -> Litmus {
    let shape = Shape {
        instructions: 7,
        control: !seed.is_multiple_of(3),
        ..Shape::CPU
    };
    Litmus {
        name: format!("random-{seed}"),
        description: None,
        program: generate::program(seed, &shape),
        observed: Vec::new(),
        queries: Vec::new(),
        stated: Vec::new(),
    }
}

#[test]
fn random_programs_keep_the_outcomes_of_sc() {
    let (mut checked, mut exchanges) = (0, 0);
    for seed in 0..400 {
        let mut source = random(seed);
        if seed.is_multiple_of(2) {
            source.program = generate::tiers::exchange(&source.program, seed);
            exchanges += usize::from(source.program.has(&|i| matches!(i, Instr::Swap { .. })));
        }
        let threads = source.program.threads.len() as u64;
        let options = Options {
            server: match seed % (threads + 1) {
                0 => Server::Idle,
                t => Server::Thread(t as usize - 1),
            },
            early: seed.is_multiple_of(2),
            model: [Model::RdmaSc, Model::RdmaTso][usize::from(seed.is_multiple_of(5))],
            // Under hca the translation refuses a location that is swapped and stored to.
            rmw: RmwAtomicity::Glob,
        };
        let sc = declarative::outcomes(&source.program, Model::Sc, RmwAtomicity::Hca, &Budget::default());
        if sc.is_complete() {
            assert_same(&source, &options);
            checked += 1;
        }
    }
    assert!(
        checked > 300,
        "{checked} programs have no run beyond a loop's bound"
    );
    assert!(exchanges > 50, "{exchanges} programs exchange");
}

fn instructions(litmus: &Litmus, wanted: fn(&Instr) -> bool) -> usize {
    litmus
        .program
        .threads
        .iter()
        .flat_map(|t| &t.code)
        .filter(|i| wanted(i))
        .count()
}

#[test]
fn early_gets_are_posted_before_the_polls_of_earlier_ones() {
    let text = "RDMA t\n{ x@1=0; y@1=0; }\n P0@1 | P1@1 ;\n x := 1 | r0 := x ;\n y := 1 | r1 := r0 + 1 ;\n | r2 := y ;\nexists (true)\n";
    let source = parse(text).unwrap().litmus;
    let code = |early: bool| {
        let options = Options {
            early,
            ..Options::default()
        };
        let translated = translate(&source, &options).unwrap();
        translated.program.threads[1].code.clone()
    };
    let first_poll = |code: &[Instr]| code.iter().position(|i| matches!(i, Instr::Poll { .. })).unwrap();
    let last_get = |code: &[Instr]| code.iter().rposition(|i| matches!(i, Instr::Get { .. })).unwrap();
    assert!(first_poll(&code(false)) < last_get(&code(false)));
    assert!(last_get(&code(true)) < first_poll(&code(true)));
    // The get that nothing polls before the next one is fenced.
    assert!(code(true).iter().any(|i| matches!(i, Instr::Rfence { .. })));
    assert!(!code(false).iter().any(|i| matches!(i, Instr::Rfence { .. })));
}

/// Under TSO the server needs mfence (Def. 14 (2)); without it store buffering shows.
#[test]
fn the_server_is_fenced_under_tso_and_needs_to_be() {
    let source = catalogue::find("shm-SB").unwrap().parse().unwrap();
    let sc_server = Options {
        model: Model::RdmaSc,
        ..Options::default()
    };
    let unfenced = translate(&source, &sc_server).unwrap();
    let fenced = translate(&source, &Options::default()).unwrap();
    let mfence = |i: &Instr| matches!(i, Instr::Mfence);
    assert_eq!(instructions(&unfenced, mfence), 0);
    assert_eq!(instructions(&fenced, mfence), 1);
    let weak = outcomes(&unfenced, Model::RdmaTso, RmwAtomicity::Hca);
    assert!(weak.len() > outcomes(&fenced, Model::RdmaTso, RmwAtomicity::Hca).len());
}

#[test]
fn programs_of_several_nodes_and_remote_operations_are_refused() {
    let refused = |text: &str| translate(&parse(text).unwrap().litmus, &Options::default()).unwrap_err();
    let two = "RDMA t\n{ x@1=0; y@2=0; }\n P0@1 ;\n y^2 := x ;\nexists (x=0)\n";
    assert_eq!(refused(two), Refused::SeveralNodes);
    let remote = "RDMA t\n{ x@1=0; y@1=0; }\n P0@1 ;\n y^1 := x ;\nexists (x=0)\n";
    assert!(
        matches!(refused(remote), Refused::Remote { thread, instr } if thread == "P0" && instr == "y^1 := x")
    );
    for asked in ["strong y^1 := x", "unsignaled y^1 := x"] {
        let text = format!("RDMA t\n{{ x@1=0; y@1=0; }}\n P0@1 ;\n {asked} ;\nexists (x=0)\n");
        assert!(matches!(refused(&text), Refused::Remote { .. }), "{asked}");
    }
}

/// The tests that `benches/peers/herd7.sh` gives to herd7, beside each of which stands its form in our language.
#[test]
fn the_tests_of_herd7_mean_what_stands_beside_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/peers/x86");
    let mut count = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|e| e != "x86") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(x86::is_x86(&text));
        let theirs = x86::parse(&text).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        let ours = std::fs::read_to_string(path.with_extension("litmus")).unwrap();
        let ours = parse(&ours).unwrap().litmus;
        let states = |litmus: &Litmus| -> BTreeSet<bool> {
            let found = outcomes(litmus, Model::Tso, RmwAtomicity::Hca);
            let formula = &litmus.queries[0].condition.formula;
            found.iter().map(|o| formula.holds(o)).collect()
        };
        assert_eq!(states(&theirs), states(&ours), "{path:?}");
        let code = |l: &Litmus| l.program.threads.iter().map(|t| t.code.len()).collect::<Vec<_>>();
        assert_eq!(code(&theirs), code(&ours), "{path:?}");
        if theirs.program.threads.len() < 4 {
            assert_same(&theirs, &Options::default());
        }
        count += 1;
    }
    assert!(count >= 18, "{count} tests");
}

const ATT: &str = "X86_64 SB\n\"PodWR Fre PodWR Fre\"\nCom=Fr Fr\n{ uint64_t y; 1:rsi=x; 0:rbx=1; }\n \
     P0            | P1              ;\n movq %rbx,(x) | movl $1,(y)     ;\n MFENCE        | (* here *)      ;\n \
     movq (y),%rax | movl (%rsi),%eax ;\nlocations [x;]\nexists (0:rax=0 /\\ 1:rax=0)\n";

#[test]
fn both_forms_of_x86_are_read() {
    let att = x86::parse(ATT).unwrap();
    assert_eq!(att.description.as_deref(), Some("PodWR Fre PodWR Fre"));
    let intel = "X86 SB\n{ x=0; 0:EBX=1; }\nP0 | P1 ;\nMOV [x],EBX | MOV [y],$1 ;\nMFENCE | ;\nMOV EAX,[y] | MOV EAX,[x] ;\n\
                 ~exists (0:EAX=0 /\\ 1:EAX=0)\n";
    let intel = x86::parse(intel).unwrap();
    let model = |litmus: &Litmus| outcomes(litmus, Model::Tso, RmwAtomicity::Hca).len();
    assert_eq!(model(&att), 4);
    assert_eq!(model(&intel), 4);
    assert_eq!(att.observed.len(), 1);
    for options in [
        Options::default(),
        Options {
            server: Server::Idle,
            early: true,
            ..Options::default()
        },
    ] {
        assert_same(&att, &options);
        assert_same(&intel, &options);
    }
}

/// Variations of generators that change nothing: no init block entries, types, metadata, capitals, hexadecimal constants.
#[test]
fn tests_as_generators_write_them_are_read() {
    let text = "X86_64 SB+mfences\n\"MFencedWR Fre MFencedWR Fre\"\nCycle=Fre MFencedWR Fre MFencedWR\nGenerator=diy7 (version 7.56)\n\
                Prefetch=0:x=F,0:y=T,1:y=F,1:x=T\nCom=Fr Fr\nOrig=MFencedWR Fre MFencedWR Fre\n{\nuint32_t x; uint32_t y;\n\
                uint32_t 0:rax; uint32_t 1:rax;\n}\n P0            | P1            ;\n movl $0x1,(x) | MOVL $1,(y)   ;\n \
                mfence        | MFENCE        ;\n movl (y),%eax | movl (x),%eax ;\n\nexists (0:rax=0 /\\ 1:rax=0)\n";
    let read = x86::parse(text).unwrap();
    assert_eq!(read.program.threads.len(), 2);
    assert_eq!(read.program.threads[0].code.len(), 3);
    assert_eq!(
        read.program.threads[0].code[0],
        Instr::Store {
            loc: mowgli::program::Loc(0),
            value: mowgli::program::Expr::Const(1)
        }
    );
    // The translation of a test that is given to another command is named as the remedy.
    let error = parse(text).unwrap_err();
    let help = error.diagnostics[0].help.clone().unwrap_or_default();
    assert!(help.contains("mowgli star"), "{help}");
}

#[test]
fn mistakes_in_x86_tests_have_a_place_and_a_remedy() {
    let cases = [
        (
            "MOV [x],$1",
            "LOCK MFENCE",
            "unknown-instruction",
            "it goes with xchg",
        ),
        (
            "MOV [x],$1",
            "MOVNTI [x],EAX",
            "unknown-instruction",
            "cached in the usual way",
        ),
        (
            "MOV [x],$1",
            "MOW [x],$1",
            "unknown-instruction",
            "did you mean `mov`?",
        ),
        (
            "MOV [x],$1",
            "MOV [x],[y]",
            "wrong-operand",
            "load into a register first",
        ),
        ("MOV [x],$1", "MOV $1,[x]", "wrong-operand", "the destination is"),
        ("MOV [x],$1", "MOV [x]", "syntax", "`MOV [x],$1` stores"),
        (
            "MOV [x],$1",
            "MOV EQX,$1",
            "unknown-register",
            "registers are EAX",
        ),
        ("MOV [x],$1", "MOV [ESI],$1", "wrong-operand", "0:ESI=x"),
        (
            "MOV [x],$1",
            "MOV [x],$1 | MFENCE",
            "row-length",
            "separate cells",
        ),
        ("MOV [x],$1 ;", "MOV [x],$1 ", "syntax", ""),
        ("P0 ;", "Q0 ;", "syntax", "named P0, P1"),
        ("X86 t", "AArch64 t", "bad-header", "`X86` or `X86_64`"),
        ("{ x=0; }", "{ x=0;", "syntax", "close it with `}`"),
        ("{ x=0; }", "{ x=y; }", "syntax", "entries are"),
        ("{ x=0; }", "{ 4:EAX=1; }", "out-of-range", ""),
        ("exists (x=1)", "exists (4:EAX=1)", "out-of-range", ""),
        ("exists (x=1)", "", "syntax", "lists every state"),
        ("exists (x=1)", "(* exists (x=1)", "bad-token", "close it"),
    ];
    let text = "X86 t\n{ x=0; }\nP0 ;\nMOV [x],$1 ;\nexists (x=1)\n";
    x86::parse(text).unwrap();
    for (from, to, code, help) in cases {
        let wrong = text.replacen(from, to, 1);
        let error = x86::parse(&wrong).expect_err(&wrong);
        let first = &error.diagnostics[0];
        assert_eq!(first.kind.code(), code, "{wrong}: {first}");
        assert!(
            first.help.as_deref().unwrap_or("").contains(help),
            "{wrong}: {first}"
        );
        assert!(first.span.end <= wrong.len(), "{wrong}: {first}");
    }
}

/// A verdict that a source states for `sc` is stated for the models of the translation, and none else.
#[test]
fn verdicts_follow_the_outcomes() {
    let source = catalogue::find("shm-MP").unwrap().parse().unwrap();
    let translated = translate(&source, &Options::default()).unwrap();
    let stated = &translated.queries[0].expected;
    let setting = |model| Setting {
        model,
        rmw: RmwAtomicity::Hca,
    };
    for model in [Model::Sc, Model::RdmaSc, Model::RdmaTso] {
        assert_eq!(stated.get(&setting(model)), Some(&Verdict::Forbidden));
    }
    assert_eq!(stated.len(), 3);
}
