//! Compares the fabric and the reduction with Mowgli. Litmus programs that run as object code on the model
//! fabric have exactly the outcomes that the operational machine gives them, on every tier of networks. On the fabric with the
//! capabilities of shared memory they have those of the loads and stores that their operations consist of, on x86-TSO.
//!
//! The contract cannot express all programs. It takes completions by node, not by thread and peer, so
//! programs in which two threads of one node poll are left out. So are polls that can never succeed: on a
//! fabric the thread would hang.

#![allow(clippy::unwrap_used)]

mod interpreter;
mod shared_memory;

use std::collections::BTreeSet;

use loco_sim::{Config, Tier};
use mowgli::catalogue;
use mowgli::generate::tiers::Waiting;
use mowgli::generate::{self, Shape};
use mowgli::model::{Model, RmwAtomicity};
use mowgli::outcome::Budget;
use mowgli::program::{Instr, Program};

/// Lists the instructions in order, those of blocks included.
fn instructions(code: &[Instr]) -> Vec<&Instr> {
    code.iter()
        .flat_map(|instr| {
            let inner = match instr {
                Instr::If { then, otherwise, .. } => [instructions(then), instructions(otherwise)].concat(),
                Instr::While { body, .. } => instructions(body),
                Instr::Choose(blocks) => blocks.iter().flat_map(|b| instructions(b)).collect(),
                _ => Vec::new(),
            };
            std::iter::once(instr.request().0).chain(inner)
        })
        .collect()
}

/// Returns whether the contract can express the program, for straight-line code.
fn is_expressible(program: &Program) -> bool {
    let mut pollers = BTreeSet::new();
    program.threads.iter().all(|thread| {
        let mut unpolled = vec![0; usize::from(program.nodes)];
        let mut waits = false;
        for instr in instructions(&thread.code) {
            let node_of =
                |loc: mowgli::program::Loc| usize::from(program.locations[usize::from(loc.0)].node.0);
            match instr {
                Instr::Put { dst, .. } => unpolled[node_of(*dst)] += 1,
                Instr::Get { src, .. } => unpolled[node_of(*src)] += 1,
                Instr::RemoteFaa { target, .. } | Instr::RemoteCas { target, .. } => {
                    unpolled[node_of(*target)] += 1;
                }
                Instr::Poll { node } => {
                    waits = true;
                    if unpolled[usize::from(node.0)] == 0 {
                        return false;
                    }
                    unpolled[usize::from(node.0)] -= 1;
                }
                Instr::Wait { .. } => waits = true,
                Instr::Choose(_) => return false,
                Instr::Message(_)
                | Instr::Recv { .. }
                | Instr::PollRecv { .. }
                | Instr::RemoteSwap { .. } => {
                    return false;
                }
                _ => {}
            }
        }
        !waits || pollers.insert(thread.node)
    })
}

/// Checks that the program has exactly the outcomes of RDMA^TSO over a network of the tier. For a program with a `wait` it checks that it
/// has no others. Completions of one queue pair arrive in the order of its operations, as they do on
/// hardware, while `wait` of RDMA^WAIT may see a put complete before an earlier get.
fn agrees(name: &str, program: &Program, tier: Tier) {
    explored_agrees(name, program, tier, 1, true);
}

/// Checks [`agrees`] with so many workers, with the reduction or without.
fn explored_agrees(name: &str, program: &Program, tier: Tier, workers: usize, reduction: bool) {
    let model = Model::RdmaTso.on(tier).unwrap();
    let mut program = program.clone();
    for location in &mut program.locations {
        location.relaxed = tier.has_relaxed_regions();
    }
    let program = &program;
    let name = &format!("{name} on {tier}");
    let expected = mowgli::explore::outcomes(program, model, RmwAtomicity::Hca, &Budget::default());
    assert!(expected.is_complete(), "{name}");
    let found = interpreter::outcomes(
        program,
        &Config {
            tier,
            workers,
            reduction,
            ..Config::default()
        },
    );
    let waits = program.threads.iter().any(|t| {
        instructions(&t.code)
            .iter()
            .any(|i| matches!(i, Instr::Wait { .. }))
    });
    if found != expected.outcomes && !(waits && found.is_subset(&expected.outcomes)) {
        let missing: Vec<_> = expected.outcomes.difference(&found).collect();
        let extra: Vec<_> = found.difference(&expected.outcomes).collect();
        panic!("{name}\nmissing on the fabric: {missing:?}\nnot of the model: {extra:?}\n{program:#?}");
    }
}

/// Checks the first `count` expressible programs of a shape. Seeds count from `first`. Every other program has its constants
/// inlined.
fn programs_agree(shape: Shape, first: u64, count: usize) {
    let program = |seed| match seed % 2 {
        0 => generate::program(seed, &shape),
        _ => generate::program(seed, &shape).inlined(),
    };
    all_agree(first, count, program, |_| Tier::Ibta);
}

/// Checks the first `count` expressible programs that `program` makes, on the tier that `tier` says. Seeds count from `first`, or from
/// the variable `LITMUS_SEED` of the environment.
fn all_agree(first: u64, count: usize, program: impl Fn(u64) -> Program, tier: impl Fn(u64) -> Tier + Sync) {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first = number("LITMUS_SEED").unwrap_or(first);
    let count = number("LITMUS_COUNT").map_or(count, |count: u64| count as usize);
    let programs: Vec<(u64, Program)> = (first..)
        .map(|seed| (seed, program(seed)))
        .filter(|(_, program)| is_expressible(program))
        .take(count)
        .collect();
    // Two at a time: each exploration has one explorer.
    std::thread::scope(|scope| {
        for half in programs.chunks(count.div_ceil(2)) {
            let tier = &tier;
            scope.spawn(move || {
                for (seed, program) in half {
                    agrees(&format!("seed {seed}"), program, tier(*seed));
                }
            });
        }
    });
}

/// Returns a tier other than the papers', for a seed that counts programs.
fn weak_tier(seed: u64) -> Tier {
    Tier::ALL[1 + (seed / 2 % 4) as usize]
}

#[test]
fn appendix_a_of_the_paper() {
    let entries = catalogue::entries().iter().filter(|e| e.folder == "rdma-tso24");
    let mut compared = 0;
    for entry in entries {
        let program = entry.parse().unwrap().program;
        assert!(is_expressible(&program), "{}", entry.name);
        agrees(entry.name, &program, Tier::Ibta);
        compared += 1;
    }
    assert!(compared >= 44, "all of appendix A: {compared}");
}

#[test]
fn remote_read_modify_writes_and_waits_of_the_catalogue() {
    let entries = catalogue::entries().iter().filter(|e| e.folder != "rdma-tso24");
    let mut compared = 0;
    for entry in entries {
        let program = entry.parse().unwrap().program;
        if is_expressible(&program) {
            agrees(entry.name, &program, Tier::Ibta);
            compared += 1;
        }
    }
    println!("{compared} tests agree");
    assert!(compared >= 20, "{compared}");
}

#[test]
fn the_catalogue_on_every_tier() {
    let mut compared = 0;
    for (number, entry) in catalogue::entries().iter().enumerate() {
        let program = entry.parse().unwrap().program;
        // Those about orders, and of the others one tier each.
        let all = entry.folder == "ordering";
        let tiers = Tier::ALL[1..].iter().enumerate();
        for (_, &tier) in tiers.filter(|(i, _)| all || number % 4 == *i) {
            if is_expressible(&program) {
                agrees(entry.name, &program, tier);
                agrees(entry.name, &program.inlined(), tier);
                compared += 1;
            }
        }
    }
    println!("{compared} tests agree");
    assert!(compared >= 100, "{compared}");
}

#[test]
fn random_programs_about_orders_on_every_tier() {
    let program = |seed| match seed % 2 {
        0 => generate::tiers::program(seed, Waiting::Polls),
        _ => generate::tiers::program(seed, Waiting::Polls).inlined(),
    };
    all_agree(50_000, 240, program, weak_tier);
}

#[test]
fn random_programs_that_ask_on_every_tier() {
    let shape = Shape {
        instructions: 6,
        ..Shape::SMALL
    };
    let program = |seed| {
        let asks = generate::tiers::ask(&generate::program(seed, &shape), seed);
        if seed % 2 == 0 { asks } else { asks.inlined() }
    };
    all_agree(60_000, 160, program, weak_tier);
}

#[test]
fn random_programs_of_puts_and_gets() {
    let shape = Shape {
        rmw: false,
        ..Shape::SMALL
    };
    programs_agree(shape, 1, 300);
}

#[test]
fn random_programs_with_remote_read_modify_writes() {
    programs_agree(Shape::SMALL, 10_000, 200);
}

#[test]
fn random_programs_that_wait() {
    let shape = Shape {
        polls: false,
        waits: true,
        ..Shape::SMALL
    };
    programs_agree(shape, 20_000, 100);
}

/// One worker may not see what another has seen: conflicts that no worker knows alone must not be lost.
#[test]
fn several_workers_together_miss_nothing() {
    let entries = catalogue::entries().iter();
    let from_catalogue = entries.filter_map(|e| Some((e.name.to_owned(), e.parse().ok()?.program)));
    let shape = Shape {
        rmw: false,
        ..Shape::SMALL
    };
    let random = (30_000..30_150).map(|seed| (format!("seed {seed}"), generate::program(seed, &shape)));
    let programs = from_catalogue.chain(random);
    for (number, (name, program)) in programs.filter(|(_, p)| is_expressible(p)).enumerate() {
        explored_agrees(&name, &program, Tier::ALL[number % 5], 2 + number % 3, true);
    }
}

#[test]
fn without_the_reduction_there_is_nothing_more() {
    let shape = Shape {
        instructions: 4,
        ..Shape::SMALL
    };
    let programs = (40_000..).map(|seed| (seed, generate::program(seed, &shape)));
    for (seed, program) in programs.filter(|(_, p)| is_expressible(p)).take(60) {
        let tier = Tier::ALL[(seed % 5) as usize];
        explored_agrees(&format!("seed {seed}"), &program, tier, 1, false);
    }
    let program = catalogue::entries()
        .iter()
        .find_map(|e| Some(e.parse().ok()?.program).filter(is_expressible))
        .unwrap();
    explored_agrees("with several workers", &program, Tier::Unordered, 3, false);
}
