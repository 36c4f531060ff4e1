//! Mending: what is mended is robust by the conditions and exactly, the exact answer never costs more, and programs keep their executions.
//!
//! `MOWGLI_MEND=COUNT,SEED` mends so many random programs, and prints what they cost.

use std::time::Instant;

use mowgli::catalogue;
use mowgli::check::{self, Features};
use mowgli::generate::families::Family;
use mowgli::generate::{self, Shape};
use mowgli::litmus::{Litmus, parse};
use mowgli::model::{Model, RmwAtomicity};
use mowgli::outcome::{Budget, Outcome};
use mowgli::program::{Instr, Program};
use mowgli::robust::fix::{Change, ChangeKind, Costs, Mended, Minimal, Unmended, mend, mend_exactly, print};
use mowgli::robust::{Exact, Question, conditions, exact};
use mowgli::{declarative, star};

const MODELS: [Model; 2] = [Model::RdmaSc, Model::RdmaTso];

fn test(body: &str) -> Litmus {
    parse(&format!("RDMA t\n{body}\nexists (true)\n")).unwrap().litmus
}

fn mended(litmus: &Litmus, model: Model) -> Mended {
    let question = Question::of(model);
    let mended = mend(&litmus.program, &question, &Costs::default(), &Budget::default()).unwrap();
    assert_sound(&litmus.program, &mended, &question);
    mended
}

/// Asserts that the mended program is robust by both tests, and has the sequentially consistent outcomes of the program before.
fn assert_sound(program: &Program, mended: &Mended, question: &Question) {
    let verified = mended.verify(question, &Budget::default());
    let text = || format!("{question:?}\n{program:#?}\n{:#?}", mended.changes);
    assert!(verified.conditions.theorem().is_some(), "{}", text());
    assert!(!verified.conditions.is_vacuous(), "{}", text());
    assert_eq!(verified.exact, Exact::Robust, "{}", text());
    assert!(verified.is_robust());
}

fn sc_outcomes(program: &Program, locations: usize) -> std::collections::BTreeSet<Outcome> {
    let search = declarative::outcomes(program, Model::Sc, RmwAtomicity::Hca, &Budget::default());
    assert!(search.is_complete());
    let cut = |o: Outcome| Outcome {
        memory: o.memory[..locations].to_vec(),
        ..o
    };
    search.outcomes.into_iter().map(cut).collect()
}

fn kinds(changes: &[Change]) -> Vec<(ChangeKind, &str)> {
    changes.iter().map(|c| (c.kind, c.instr.as_str())).collect()
}

#[test]
fn a_race_is_mended_by_a_poll() {
    let litmus = test("{ x@1=0; z@2=0; }\n P0@1 ;\n z^2 := x ;\n x := 1 ;");
    let mended = mended(&litmus, Model::RdmaTso);
    assert_eq!(kinds(&mended.changes), [(ChangeKind::Added, "poll(2)")]);
    assert_eq!(
        (mended.cost, mended.minimal),
        (Costs::default().poll, Minimal::Proved)
    );
}

/// One poll is there, but it takes the first put. It is not enough to add one before the store: the poll at the end moves up.
#[test]
fn a_late_poll_moves() {
    let litmus = test("{ x@1=0; y@1=0; z@2=0; }\n P0@1 ;\n z^2 := x ;\n x := 1 ;\n poll(2) ;");
    let mended = mended(&litmus, Model::RdmaSc);
    let expected = [
        (ChangeKind::MovedHere, "poll(2)"),
        (ChangeKind::MovedAway, "poll(2)"),
    ];
    assert_eq!(kinds(&mended.changes), expected);
    assert_eq!(mended.cost, Costs::default().moved);
    let polls = |i: &&Instr| matches!(i, Instr::Poll { .. });
    assert_eq!(mended.program.threads[0].code.iter().filter(polls).count(), 1);
    let text = print(&litmus, &mended, &Question::of(Model::RdmaSc));
    assert!(text.contains("poll(2) (* moved up *)"), "{text}");
    assert!(text.contains("(* poll(2) stood after this *)"), "{text}");
}

/// The store after a put and a get needs both polled, because polls are first in, first out.
#[test]
fn polls_are_counted() {
    let litmus =
        test("{ x@1=0; y@1=0; z@2=0; }\n P0@1 ;\n z^2 := 1 ;\n x := z^2 ;\n rfence(2) ;\n r0 := x ;");
    let mended = mended(&litmus, Model::RdmaTso);
    let polls = mended.changes.iter().filter(|c| c.instr == "poll(2)").count();
    assert_eq!(polls, 2, "{:?}", mended.changes);
}

/// A get overtaken on its queue pair needs a remote fence, not a poll (Fig. 5, cell D7).
#[test]
fn a_remote_fence_is_enough_on_one_queue_pair() {
    let litmus = test("{ x@1=0; y@2=0; }\n P0@1 ;\n x := y^2 ;\n y^2 := 1 ;");
    let mended = mended(&litmus, Model::RdmaTso);
    assert_eq!(kinds(&mended.changes), [(ChangeKind::Added, "rfence(2)")]);
    // With remote fences as dear as anything, a poll is taken.
    let costs: Costs = "rfence=100,poll=3".parse().unwrap();
    let question = Question::of(Model::RdmaTso);
    let dear = mend(&litmus.program, &question, &costs, &Budget::default()).unwrap();
    assert_eq!(kinds(&dear.changes), [(ChangeKind::Added, "poll(2)")]);
}

/// A poll of a put does not place it (Fig. 5, row C): store buffering between nodes needs a get and polls.
#[test]
fn a_put_is_placed_by_a_get() {
    let litmus = catalogue::find("SB3").unwrap().parse().unwrap();
    let mended = mended(&litmus, Model::RdmaTso);
    assert!(
        mended.changes.iter().any(|c| c.instr.contains("probe")),
        "{:?}",
        mended.changes
    );
    let question = Question::of(Model::RdmaTso);
    let exactly = mend_exactly(&litmus.program, &question, &Costs::default(), &Budget::default()).unwrap();
    assert!(exactly.cost <= mended.cost);
    assert_eq!(exactly.minimal, Minimal::Proved);
}

#[test]
fn what_is_robust_is_left_alone() {
    let litmus = test("{ x@1=0; z@2=0; }\n P0@1 ;\n x := 1 ;\n z^2 := x ;");
    let mended = mended(&litmus, Model::RdmaTso);
    assert_eq!((mended.changes.len(), mended.cost), (0, 0));
    assert_eq!(mended.program, litmus.program);
}

#[test]
fn branches_are_mended_inside() {
    let litmus = test(
        "{ x@1=0; y@1=0; z@2=0; }\n P0@1 ;\n r0 := y ;\n if (r0 == 0) { z^2 := x; x := 1 } else { x := 2 } ;\n r1 := x ;",
    );
    let mended = mended(&litmus, Model::RdmaTso);
    assert!(
        mended.changes.iter().all(|c| c.place.len() == 3),
        "{:?}",
        mended.changes
    );
    let text = print(&litmus, &mended, &Question::of(Model::RdmaTso));
    assert!(text.contains("(* added inside: poll(2) *)"), "{text}");
    assert!(parse(&text).is_ok(), "{text}");
}

/// In a thread with branches a poll moves too, if it finds nothing on any way.
#[test]
fn a_late_poll_moves_past_branches() {
    let litmus = test(
        "{ x@1=0; y@1=0; z@2=0; }\n P0@1 ;\n z^2 := x ;\n r0 := y ;\n x := 1 ;\n if (r0 == 0) { y := 1 } ;\n poll(2) ;",
    );
    let mended = mended(&litmus, Model::RdmaSc);
    let expected = [
        (ChangeKind::MovedHere, "poll(2)"),
        (ChangeKind::MovedAway, "poll(2)"),
    ];
    assert_eq!(kinds(&mended.changes), expected);
    let text = print(&litmus, &mended, &Question::of(Model::RdmaSc));
    assert!(text.contains("(* poll(2) stood after this *)"), "{text}");
    // Both ways through a choice poll; the one poll before it takes the place of both.
    let litmus = test(
        "{ x@1=0; y@1=0; z@2=0; }\n P0@1 ;\n z^2 := x ;\n x := 1 ;\n choose { poll(2) } or { y := 1; poll(2) } ;",
    );
    let mended = self::mended(&litmus, Model::RdmaSc);
    let gone = mended.changes.iter().filter(|c| c.kind == ChangeKind::MovedAway);
    assert_eq!(gone.count(), 2, "{:?}", mended.changes);
    let text = print(&litmus, &mended, &Question::of(Model::RdmaSc));
    assert!(text.contains("(* poll(2) stood inside"), "{text}");
    assert!(parse(&text).is_ok(), "{text}");
}

/// RDMA^WAIT: the operation gets a work identifier, and a wait for it is added.
#[test]
fn a_race_is_mended_by_a_wait() {
    let litmus = test("{ x@1=0; z@2=0; }\n P0@1 ;\n z^2 := x ;\n x := 1 ;");
    let mended = mended(&litmus, Model::RdmaWait);
    let expected = [
        (ChangeKind::Added, "wait(done)"),
        (ChangeKind::Named, "z^2 :=[done] x"),
    ];
    assert_eq!(kinds(&mended.changes), expected);
    assert_eq!(
        (mended.cost, mended.minimal),
        (Costs::default().poll, Minimal::Proved)
    );
    let text = print(&litmus, &mended, &Question::of(Model::RdmaWait));
    assert!(
        text.contains("(* named *)") && text.contains("(* added *)"),
        "{text}"
    );
    assert_eq!(parse(&text).unwrap().litmus.program, mended.program, "{text}");
    // An operation that has one keeps it, and a wait that comes too late stays, because waits take nothing from each other.
    let litmus = test("{ x@1=0; z@2=0; }\n P0@1 ;\n z^2 :=[d] x ;\n x := 1 ;\n wait(d) ;");
    let mended = self::mended(&litmus, Model::RdmaWait);
    assert_eq!(kinds(&mended.changes), [(ChangeKind::Added, "wait(d)")]);
}

#[test]
fn programs_with_waits_are_mended() {
    let question = Question::of(Model::RdmaWait);
    let costs = Costs::default();
    let (mut changed, mut cheaper) = (0, 0);
    let catalogue = catalogue::entries().iter().map(|e| e.parse().unwrap().program);
    let waiting = (0..400).map(|seed| Family::Waiting.program(seed));
    for program in catalogue.chain(waiting) {
        if check::applicable(&program, Model::RdmaWait).is_err() {
            continue;
        }
        let mended = match mend(&program, &question, &costs, &Budget::default()) {
            Ok(mended) => mended,
            Err(Unmended::Vacuous | Unmended::Limit(_)) => continue,
            Err(Unmended::Halves { .. }) if Features::of(&program).rmw => continue,
            Err(error) => panic!("{error}\n{program:#?}"),
        };
        assert_sound(&program, &mended, &question);
        let locations = program.locations.len();
        assert_eq!(
            sc_outcomes(&mended.program, locations),
            sc_outcomes(&program, locations)
        );
        let exactly = mend_exactly(&program, &question, &costs, &Budget::default()).unwrap();
        assert_sound_exactly(&exactly, &question);
        assert!(exactly.cost <= mended.cost);
        changed += u32::from(mended.cost > 0);
        cheaper += u32::from(exactly.cost < mended.cost);
    }
    assert!(changed > 50 && cheaper > 5, "{changed} {cheaper}");
}

fn assert_sound_exactly(mended: &Mended, question: &Question) {
    let verified = mended.verify(question, &Budget::default());
    assert_eq!(verified.exact, Exact::Robust, "{:#?}", mended.changes);
}

#[test]
fn models_without_conditions_and_programs_without_executions_are_refused() {
    let litmus = test("{ x@1=0; z@2=0; }\n P0@1 ;\n z^2 := x ;\n x := 1 ;");
    let ask = |litmus: &Litmus, model| {
        mend(
            &litmus.program,
            &Question::of(model),
            &Costs::default(),
            &Budget::default(),
        )
        .unwrap_err()
    };
    assert_eq!(ask(&litmus, Model::Sc), Unmended::Model(Model::Sc));
    let stuck = test("{ x@1=0; z@2=0; }\n P0@1 ;\n poll(2) ;\n z^2 := x ;\n x := 1 ;");
    assert_eq!(ask(&stuck, Model::RdmaSc), Unmended::Vacuous);
}

/// Every test of the catalogue that can be mended is robust afterwards, its text is a litmus test again, and no outcome of `sc` is lost.
#[test]
fn the_catalogue_is_mended() {
    let mut counted = (0, 0);
    for entry in catalogue::entries() {
        let litmus = entry.parse().unwrap();
        for model in MODELS {
            let question = Question::of(model);
            let mended = match mend(&litmus.program, &question, &Costs::default(), &Budget::default()) {
                Ok(mended) => mended,
                Err(Unmended::Vacuous | Unmended::Limit(_)) => continue,
                Err(error) => panic!("{}: {error}", entry.path()),
            };
            assert_sound(&litmus.program, &mended, &question);
            let text = print(&litmus, &mended, &question);
            let again = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
            assert_eq!(again.litmus.program, mended.program, "{text}");
            let locations = litmus.program.locations.len();
            let before = sc_outcomes(&litmus.program, locations);
            assert_eq!(sc_outcomes(&mended.program, locations), before, "{text}");
            counted.0 += 1;
            counted.1 += usize::from(!mended.changes.is_empty());
        }
    }
    assert!(counted.0 > 200 && counted.1 > 80, "{counted:?}");
}

/// The star translation needs no mending (Corollaries 1 and 3).
#[test]
fn star_translations_meet_the_conditions() {
    let sources = catalogue::entries()
        .iter()
        .filter(|e| e.folder == "star" && !e.name.contains("+star"));
    for entry in sources {
        let source = entry.parse().unwrap();
        for model in MODELS {
            for early in [false, true] {
                for server in [star::Server::Thread(0), star::Server::Idle] {
                    if entry.name == "shm-ticket-lock" && server != star::Server::Idle {
                        continue;
                    }
                    let rmw = RmwAtomicity::Hca;
                    let options = star::Options {
                        server,
                        early,
                        model,
                        rmw,
                    };
                    let translated = star::translate(&source, &options).unwrap();
                    let found = conditions(&translated.program, &Question::of(model), &Budget::default());
                    let text = translated.print();
                    assert!(found.ldrf.holds(), "{:?}\n{text}", found.ldrf);
                    assert!(found.tree_fenced.holds(), "{:?}\n{text}", found.tree_fenced);
                    assert!(found.pre_executions > 0);
                    let answer = exact(&translated.program, model, rmw, &Budget::default());
                    assert_eq!(answer, Exact::Robust, "{text}");
                }
            }
        }
    }
}

/// The costs of many mended programs.
#[derive(Debug, Default)]
struct Tally {
    programs: u64,
    already: u64,
    robust_before: u64,
    by_conditions: u64,
    exactly: u64,
    cheaper: u64,
    unproved: u64,
    unproved_exactly: u64,
    skipped: u64,
    halves: u64,
    stuck: u64,
}

/// Programs of few instructions, and every fifth of a family in which the conditions often hold.
fn random(seed: u64) -> Program {
    let families = Family::ALL.into_iter().filter(|f| *f != Family::Waiting);
    let families: Vec<Family> = families.collect();
    if seed % 5 == 4 {
        return families[(seed / 5) as usize % families.len()].program(seed);
    }
    let shape = Shape {
        instructions: 4 + (seed % 4) as u8,
        rmw: seed.is_multiple_of(4),
        control: seed.is_multiple_of(7),
        nodes: 2 + (seed % 3 == 2) as u8,
        ..Shape::SMALL
    };
    generate::program(seed, &shape)
}

fn has_control(program: &Program) -> bool {
    let control = |i: &Instr| matches!(i, Instr::If { .. } | Instr::While { .. } | Instr::Choose(_));
    program.threads.iter().any(|t| t.code.iter().any(control))
}

/// Mends one program both ways and counts.
fn tally(seed: u64, tally: &mut Tally) {
    let program = random(seed);
    let question = Question::of(MODELS[usize::from(seed % 2 == 1)]);
    let costs = Costs::default();
    let mended = match mend(&program, &question, &costs, &Budget::default()) {
        Ok(mended) => mended,
        Err(Unmended::Vacuous | Unmended::Limit(_)) => {
            tally.skipped += 1;
            return;
        }
        // Only remote read-modify-writes have halves that no fence keeps together.
        Err(Unmended::Halves { .. }) if Features::of(&program).rmw => {
            tally.halves += 1;
            return;
        }
        // In a thread with branches no poll moves.
        Err(Unmended::Stuck { .. }) if has_control(&program) => {
            tally.stuck += 1;
            return;
        }
        Err(error) => panic!("seed {seed}: {error}\n{program:#?}"),
    };
    assert_sound(&program, &mended, &question);
    tally.programs += 1;
    tally.already += u64::from(mended.changes.is_empty());
    tally.unproved += u64::from(mended.minimal == Minimal::NotProved);
    let cheapest = mend_exactly(&program, &question, &costs, &Budget::default()).unwrap();
    let again = exact(
        &cheapest.program,
        question.model,
        question.rmw,
        &Budget::default(),
    );
    assert_eq!(again, Exact::Robust, "seed {seed}\n{:#?}", cheapest.changes);
    assert!(cheapest.cost <= mended.cost, "seed {seed}");
    tally.by_conditions += mended.cost;
    tally.exactly += cheapest.cost;
    tally.cheaper += u64::from(cheapest.cost < mended.cost);
    tally.robust_before += u64::from(cheapest.cost == 0);
    tally.unproved_exactly += u64::from(cheapest.minimal == Minimal::NotProved);
}

#[test]
fn random_programs_are_robust_afterwards() {
    let asked = std::env::var("MOWGLI_MEND").ok();
    let (count, seed) = match asked.as_deref().and_then(|s| s.split_once(',')) {
        Some((count, seed)) => (count.parse().unwrap(), seed.parse().unwrap()),
        None => (2_000, 0),
    };
    let begun = Instant::now();
    let mut found = Tally::default();
    for seed in seed..seed + count {
        tally(seed, &mut found);
        if asked.is_some() && seed % 1_000 == 999 {
            eprintln!("{seed}: {:.0} s {found:?}", begun.elapsed().as_secs_f64());
        }
    }
    if asked.is_some() {
        eprintln!("{:.0} s {found:?}", begun.elapsed().as_secs_f64());
    }
    assert!(found.programs > count * 9 / 10, "{found:?}");
    assert!(found.exactly < found.by_conditions, "{found:?}");
}

/// Eight threads with ten instructions each.
fn large() -> Program {
    let mut body = String::from("{");
    for t in 0..8 {
        body.push_str(&format!(
            " x{t}@{n}=0; y{t}@{n}=0; a{t}@{n}=0; b{t}@{n}=0;",
            n = t + 1
        ));
    }
    body.push_str(" }\n");
    let columns: Vec<Vec<String>> = (0..8)
        .map(|t| {
            let (right, left) = ((t + 1) % 8, (t + 7) % 8);
            vec![
                format!("P{t}@{}", t + 1),
                format!("x{right}^{} := x{t}", right + 1),
                format!("a{t} := y{left}^{}", left + 1),
                format!("x{t} := 1"),
                format!("r0 := y{t}"),
                format!("y{left}^{} := y{t}", left + 1),
                format!("b{t} := x{right}^{}", right + 1),
                format!("y{right}^{} := a{t}", right + 1),
                format!("y{t} := 2"),
                format!("r1 := x{t}"),
                format!("x{left}^{} := b{t}", left + 1),
            ]
        })
        .collect();
    for row in 0..11 {
        let cells: Vec<&str> = columns.iter().map(|c| c[row].as_str()).collect();
        body.push_str(&format!("{} ;\n", cells.join(" | ")));
    }
    test(body.trim_end()).program
}

/// Mending takes time that does not explode: the limit is far above what it needs, and far below what all sets would take.
#[test]
fn large_programs_are_mended() {
    let program = large();
    for model in MODELS {
        let question = Question::of(model);
        let begun = Instant::now();
        let mended = mend(&program, &question, &Costs::default(), &Budget::default()).unwrap();
        if std::env::var_os("MOWGLI_MEND").is_some() {
            eprintln!(
                "{model}: {:?} {:?} {}",
                begun.elapsed(),
                mended.minimal,
                mended.cost
            );
        }
        let found = conditions(&mended.program, &question, &Budget::default());
        assert!(found.theorem().is_some(), "{found:?}");
        assert!(mended.cost > 0);
    }
}
