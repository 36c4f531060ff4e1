//! Times the machine and the search over it.
//!
//! * `machine/walk`: steps of a random run without any bookkeeping, the cost of `steps` and `apply`.
//! * `search/reduced`: machine states a second of the search as the engine runs it, on one core: every state
//!   that it passes through or remembers, on a program of 3 threads and 8 instructions, 6 of them remote.
//! * `search/plain`: distinct states a second without reduction, where most moves lead to known states.
//! * `catalogue`: every test of the catalogue under every model.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use mowgli::catalogue;
use mowgli::explore::{Options, outcomes, outcomes_with};
use mowgli::generate::Random;
use mowgli::litmus::parse;
use mowgli::machine::{Action, Config, Machine, Post, RemoteOp};
use mowgli::model::{Model, RmwAtomicity};
use mowgli::outcome::Budget;
use mowgli::program::Program;

const REPRESENTATIVE: &str = "RDMA representative
{ a@1=0; b@1=0; x@2=0; y@2=0; c@2=0; z@3=0; }
 P0@1     | P1@2             | P2@3             ;
 x^2 := 1 | c := rfaa(z^3,1) | y^2 := 1         ;
 y^2 := 2 | r := x           | z := 5           ;
 a := x^2 |                  | x^2 := 3         ;
exists (a=1)";

fn representative() -> Option<Program> {
    parse(REPRESENTATIVE).ok().map(|parsed| parsed.litmus.program)
}

/// Returns a machine with six remote operations of two threads under way.
fn busy() -> Machine {
    let mut machine = Machine::new(Config::new(Model::RdmaTso, RmwAtomicity::Hca));
    let words: Vec<_> = (0..8).map(|_| machine.add_location(0)).collect();
    for t in 0..2 {
        let thread = machine.add_thread();
        let ops = [
            RemoteOp::Put {
                dst: words[4 + t],
                src: words[t],
            },
            RemoteOp::Get {
                dst: words[t],
                src: words[5 - t],
            },
            RemoteOp::FetchAdd {
                dst: words[2 + t],
                target: words[6],
                add: 1,
            },
        ];
        for op in ops {
            let post = Post {
                peer: 1,
                op,
                tag: 0,
                signaled: false,
                transfer: 0,
                strong: false,
                message: None,
            };
            let _ = machine.issue(thread, Action::Post(post));
        }
    }
    machine
}

fn walk(c: &mut Criterion) {
    let start = busy();
    let mut machine = start.clone();
    let mut steps = Vec::new();
    let mut random = Random::new(1);
    let mut run = move || {
        machine.clone_from(&start);
        let mut count = 0u64;
        loop {
            steps.clear();
            machine.steps(&mut steps);
            if steps.is_empty() {
                return count;
            }
            let step = steps[random.below(steps.len())];
            let _ = machine.apply(step);
            count += 1;
        }
    };
    // Each operation goes through the same stages, so every run has the same number of steps.
    let count = run();
    let mut group = c.benchmark_group("machine");
    group.throughput(Throughput::Elements(count));
    group.bench_function("walk", |b| b.iter(&mut run));
    group.finish();
}

fn search(c: &mut Criterion) {
    let Some(program) = representative() else { return };
    let mut group = c.benchmark_group("search");
    group.sample_size(10);
    for (name, reduction) in [("plain", false), ("reduced", true)] {
        let options = Options {
            reduction,
            workers: 1,
            ..Options::new(Model::RdmaTso, RmwAtomicity::Hca)
        };
        let states = outcomes_with(&program, &options, &Budget::default()).states;
        group.throughput(Throughput::Elements(states));
        group.bench_function(name, |b| {
            b.iter(|| black_box(outcomes_with(&program, &options, &Budget::default())));
        });
    }
    group.finish();
}

fn whole_catalogue(c: &mut Criterion) {
    let programs: Vec<Program> = catalogue::entries()
        .iter()
        .filter_map(|e| e.parse().ok())
        .map(|l| l.program)
        .collect();
    c.bench_function("catalogue", |b| {
        b.iter(|| {
            for program in &programs {
                for model in Model::ALL {
                    black_box(outcomes(program, model, RmwAtomicity::Hca, &Budget::default()));
                }
            }
        });
    });
}

criterion_group!(benches, walk, search, whole_catalogue);
criterion_main!(benches);
