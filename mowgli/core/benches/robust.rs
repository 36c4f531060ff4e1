//! Times the conditions for robustness, mending and the exact search: the catalogue under both models, large programs, and the search
//! against the listing of outcomes, on programs that are not robust and on their mended forms, which are.
#![allow(missing_docs, clippy::unwrap_used)] // Macros of criterion; helpers of benches are tests.

use std::fmt::Write;
use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use mowgli::catalogue;
use mowgli::check::applicable;
use mowgli::declarative;
use mowgli::litmus;
use mowgli::model::{Model, RmwAtomicity};
use mowgli::outcome::Budget;
use mowgli::program::Program;
use mowgli::robust::fix::{Costs, mend};
use mowgli::robust::{self, Question};

/// Eight threads on eight nodes, ten instructions each: puts and gets to both neighbours, fences, polls, stores and loads. Every pair of
/// public events has to be looked at.
fn ring(threads: usize) -> Program {
    let mut text = String::from("RDMA ring\n{");
    for n in 1..=threads {
        write!(text, " x{n}@{n}=0; y{n}@{n}=0; a{n}@{n}=0; b{n}@{n}=0;").unwrap();
    }
    text.push_str(" }\n");
    let cell = |row: usize, n: usize| {
        let (next, last) = (n % threads + 1, (n + threads - 2) % threads + 1);
        match row {
            0 => format!("x{next}^{next} := 1"),
            1 => format!("a{n} := y{next}^{next}"),
            2 => format!("poll({next})"),
            3 => format!("rfence({next})"),
            4 => format!("y{last}^{last} := a{n}"),
            5 => format!("b{n} := x{last}^{last}"),
            6 => format!("poll({last})"),
            7 => format!("x{n} := 2"),
            8 => format!("r := y{n}"),
            _ => format!("y{n} := 3"),
        }
    };
    let line = |cells: Vec<String>| format!(" {} ;\n", cells.join(" | "));
    text.push_str(&line((1..=threads).map(|n| format!("P{}@{n}", n - 1)).collect()));
    for row in 0..10 {
        text.push_str(&line((1..=threads).map(|n| cell(row, n)).collect()));
    }
    text.push_str("exists (true)\n");
    litmus::parse(&text).unwrap().litmus.program
}

fn catalogue_under_both_models(c: &mut Criterion) {
    let programs: Vec<Program> = catalogue::entries()
        .iter()
        .map(|e| e.parse().unwrap().program)
        .filter(|p| applicable(p, Model::RdmaSc).is_ok())
        .collect();
    for exactly in [false, true] {
        let name = if exactly { "exact" } else { "conditions" };
        c.bench_function(&format!("robust/catalogue-{name}"), |b| {
            b.iter(|| {
                for program in &programs {
                    for model in [Model::RdmaSc, Model::RdmaTso] {
                        black_box(robust::ask(
                            program,
                            &Question::of(model),
                            exactly,
                            &Budget::default(),
                        ));
                    }
                }
            });
        });
    }
}

/// A server and clients with ten instructions each. Every condition holds, so that every pair is looked at.
fn star(threads: usize) -> Program {
    let server = [
        "x := 1", "mfence", "r := y", "y := 2", "mfence", "s := x", "x := 3", "mfence", "t := y", "u := x",
    ];
    let client = |n: usize| {
        [
            format!("x^1 := {n}"),
            format!("a{n} := y^1"),
            "rfence(1)".to_owned(),
            format!("y^1 := {}", n + 10),
            format!("b{n} := x^1"),
            "poll(1)".to_owned(),
            "poll(1)".to_owned(),
            format!("v{n} := a{n}"),
            "rfence(1)".to_owned(),
            format!("c{n} := y^1"),
        ]
    };
    let mut text = String::from("RDMA star\n{ x@1=0; y@1=0;");
    for n in 2..=threads {
        write!(text, " a{n}@{n}=0; b{n}@{n}=0; c{n}@{n}=0;").unwrap();
    }
    text.push_str(" }\n");
    let mut columns = vec![server.map(str::to_owned)];
    columns.extend((2..=threads).map(client));
    let head: Vec<String> = (0..threads).map(|t| format!("P{t}@{}", t + 1)).collect();
    writeln!(text, " {} ;", head.join(" | ")).unwrap();
    for row in 0..10 {
        let cells: Vec<&str> = columns.iter().map(|c| c[row].as_str()).collect();
        writeln!(text, " {} ;", cells.join(" | ")).unwrap();
    }
    text.push_str("exists (true)\n");
    litmus::parse(&text).unwrap().litmus.program
}

fn conditions_of_a_large_program(c: &mut Criterion) {
    let program = star(8);
    c.bench_function("robust/conditions-8x10-holding", |b| {
        b.iter(|| {
            let found = robust::conditions(&program, &Question::of(Model::RdmaTso), &Budget::default());
            assert!(found.theorem().is_some());
            black_box(found)
        });
    });
    let program = ring(8);
    c.bench_function("robust/conditions-8x10-failing", |b| {
        b.iter(|| {
            let found = robust::conditions(&program, &Question::of(Model::RdmaTso), &Budget::default());
            assert!(found.fenced.reason().is_some());
            black_box(found)
        });
    });
}

/// Three threads that put to one node and get from it.
const CONTENDED: &str = "RDMA contended
{ x@2=0; y@2=0; a@1=0; b@1=0; c@1=0; }
 P0@1     | P1@1     | P2@1     ;
 x^2 := 1 | x^2 := 2 | y^2 := 3 ;
 y^2 := 1 | y^2 := 2 | x^2 := 3 ;
 a := x^2 | b := y^2 | c := x^2 ;
 y^2 := a | x^2 := b | y^2 := c ;
 r := a   | s := b   | t := c   ;
exists (0:r=1)";

/// Each thread puts to both other nodes and gets from both.
const AROUND: &str = "RDMA around
{ a@1=0; b@1=0; c@2=0; d@2=0; e@3=0; f@3=0; }
 P0@1     | P1@2     | P2@3     ;
 c^2 := 1 | e^3 := 2 | a^1 := 3 ;
 d^2 := a | f^3 := c | b^1 := e ;
 a := e^3 | c := a^1 | e := c^2 ;
 r := a   | s := c   | t := e   ;
exists (0:r=1)";

fn mend_a_large_program(c: &mut Criterion) {
    let program = ring(8);
    let mut group = c.benchmark_group("robust");
    group.sample_size(10);
    group.bench_function("mend-8x10", |b| {
        let question = Question::of(Model::RdmaTso);
        b.iter(|| black_box(mend(&program, &question, &Costs::default(), &Budget::default()).unwrap()));
    });
    group.finish();
}

/// Tests of the catalogue and large programs whose outcomes can be listed: the search for a cycle against the listing.
fn search_against_listing(c: &mut Criterion) {
    let mut programs: Vec<(String, Program)> = [
        "IRIW1",
        "ROB-2e",
        "ROB-6b",
        "shm-IRIW+star",
        "shm-ticket-lock+star",
    ]
    .iter()
    .map(|name| {
        let program = catalogue::find(name).unwrap().parse().unwrap().program;
        ((*name).to_owned(), program)
    })
    .collect();
    for text in [CONTENDED, AROUND] {
        let test = litmus::parse(text).unwrap().litmus;
        let question = Question::of(Model::RdmaTso);
        let mended = mend(&test.program, &question, &Costs::default(), &Budget::default()).unwrap();
        programs.push((format!("{}-mended", test.name), mended.program));
        programs.push((test.name, test.program));
    }
    let mut c = c.benchmark_group("robust");
    c.sample_size(10);
    for (name, program) in programs {
        c.bench_function(format!("exact-{name}"), |b| {
            b.iter(|| {
                black_box(robust::exact(
                    &program,
                    Model::RdmaTso,
                    RmwAtomicity::Hca,
                    &Budget::default(),
                ))
            });
        });
        c.bench_function(format!("outcomes-{name}"), |b| {
            b.iter(|| {
                black_box(declarative::outcomes(
                    &program,
                    Model::RdmaTso,
                    RmwAtomicity::Hca,
                    &Budget::default(),
                ))
            });
        });
    }
}

criterion_group!(
    benches,
    catalogue_under_both_models,
    conditions_of_a_large_program,
    mend_a_large_program,
    search_against_listing
);
criterion_main!(benches);
