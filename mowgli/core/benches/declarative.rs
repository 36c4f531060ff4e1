//! Times the declarative engine on the whole catalogue under every model and on large programs.
#![allow(missing_docs, clippy::unwrap_used)] // Macros of criterion; helpers of benches are tests.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use mowgli::catalogue;
use mowgli::declarative::{outcomes, outcomes_of};
use mowgli::litmus;
use mowgli::model::{Model, RmwAtomicity};
use mowgli::models::Spec;
use mowgli::outcome::Budget;
use mowgli::program::Program;

/// Three threads of five instructions, four of them remote, on two and three nodes.
const LARGE: [(&str, &str); 3] = [
    (
        "gets-and-puts",
        "RDMA gets-and-puts
{ x@1=0; u@1=0; y@2=0; v@2=0; z@2=0; }
 P0@1     | P1@2     | P2@2     ;
 y^2 := 1 | x^1 := 1 | x^1 := 2 ;
 x := z^2 | y := u^1 | z := x^1 ;
 z^2 := x | u^1 := y | u^1 := z ;
 u := v^2 | v := x^1 | v := u^1 ;
 r := u   | s := v   | t := v   ;
exists (0:r=1)",
    ),
    (
        "ring",
        "RDMA ring
{ a@1=0; b@1=0; c@2=0; d@2=0; e@3=0; f@3=0; }
 P0@1     | P1@2     | P2@3     ;
 c^2 := 1 | e^3 := 2 | a^1 := 3 ;
 d^2 := a | f^3 := c | b^1 := e ;
 a := e^3 | c := a^1 | e := c^2 ;
 b := f^3 | d := b^1 | f := d^2 ;
 r := b   | s := d   | t := f   ;
exists (0:r=1)",
    ),
    (
        "contended",
        "RDMA contended
{ x@2=0; y@2=0; a@1=0; b@1=0; c@1=0; }
 P0@1     | P1@1     | P2@1     ;
 x^2 := 1 | x^2 := 2 | y^2 := 3 ;
 y^2 := 1 | y^2 := 2 | x^2 := 3 ;
 a := x^2 | b := y^2 | c := x^2 ;
 y^2 := a | x^2 := b | y^2 := c ;
 r := a   | s := b   | t := c   ;
exists (0:r=1)",
    ),
];

/// Enumerates the outcomes of the third program over all registers and locations. The other two programs have up to a hundred
/// thousand outcomes, too many for a benchmark.
fn every_outcome(c: &mut Criterion) {
    let program = litmus::parse(LARGE[2].1).unwrap().litmus.program;
    c.bench_function("declarative/every-outcome-3x5", |b| {
        b.iter(|| {
            black_box(outcomes(
                &program,
                Model::RdmaTso,
                RmwAtomicity::Hca,
                &Budget::default(),
            ))
        });
    });
}

fn whole_catalogue(c: &mut Criterion) {
    let programs: Vec<Program> = catalogue::entries()
        .iter()
        .map(|e| e.parse().unwrap().program)
        .collect();
    c.bench_function("declarative/catalogue-all-models", |b| {
        b.iter(|| {
            for program in &programs {
                for model in Model::ALL {
                    black_box(outcomes(program, model, RmwAtomicity::Hca, &Budget::default()));
                }
            }
        });
    });
}

fn large_programs(c: &mut Criterion) {
    for (name, source) in LARGE {
        let test = litmus::parse(source).unwrap().litmus;
        let operands = test.queries[0].condition.formula.operands();
        let spec = Spec::of(Model::RdmaTso, RmwAtomicity::Hca);
        c.bench_function(&format!("declarative/decide-3x5/{name}"), |b| {
            b.iter(|| black_box(outcomes_of(&test.program, &spec, &operands, &Budget::default())));
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = whole_catalogue, large_programs, every_outcome
}
criterion_main!(benches);
