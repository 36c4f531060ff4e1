//! Laws of the declarative models on random programs: the search against plain enumeration, definitions that the papers
//! prove equivalent, and inclusions between models.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use mowgli::declarative::{self, reference};
use mowgli::litmus::Operand;
use mowgli::model::{Model, RmwAtomicity};
use mowgli::models::{Spec, rdma_tso_recursive, tso};
use mowgli::outcome::{Budget, Search};
use mowgli::program::{Loc, Program, Reg, ThreadId, Value};

use crate::support::{SMALL, Shape, program};

const PLAIN: Budget<'static> = Budget {
    deadline: None,
    states_max: Some(1_000),
    cancel: None,
    memory: None,
};

fn search(program: &Program, model: Model, rmw: RmwAtomicity) -> Search {
    let search = declarative::outcomes(program, model, rmw, &Budget::default());
    assert!(search.is_complete());
    search
}

/// Compares the search with plain enumeration on every model, over these seeds; returns how many finished.
fn agree(shape: Shape, seeds: std::ops::Range<u64>) -> usize {
    let mut compared = 0;
    for seed in seeds {
        let program = program(seed, shape);
        for model in Model::ALL {
            if model == Model::Tso && shape.remote {
                continue;
            }
            for rmw in RmwAtomicity::ALL {
                if rmw == RmwAtomicity::Glob && !shape.rmw {
                    continue;
                }
                let spec = Spec::of(model, rmw);
                let plain = reference::outcomes(&program, &spec, &PLAIN);
                if !plain.is_complete() {
                    continue;
                }
                let found = search(&program, model, rmw);
                assert_eq!(
                    found.outcomes, plain.outcomes,
                    "seed {seed}, {model}/{rmw}: {program:#?}"
                );
                let all = declarative::outcomes_exhaustive(&program, &spec, &Budget::default());
                assert_eq!(
                    found.outcomes, all.outcomes,
                    "seed {seed}, {model}/{rmw}: {program:#?}"
                );
                compared += 1;
            }
        }
    }
    compared
}

#[test]
fn the_search_finds_what_plain_enumeration_finds() {
    let compared = agree(SMALL, 0..200);
    assert!(compared > 500, "{compared}");
}

#[test]
fn also_on_one_thread_with_longer_code() {
    let shape = Shape {
        threads: 1,
        instructions: 5,
        ..SMALL
    };
    let compared = agree(shape, 0..120);
    assert!(compared > 300, "{compared}");
}

#[test]
fn also_with_remote_read_modify_write() {
    let shape = Shape { rmw: true, ..SMALL };
    let compared = agree(shape, 1_000..1_060);
    assert!(compared > 200, "{compared}");
}

#[test]
fn also_with_waits() {
    let shape = Shape {
        waits: true,
        rmw: true,
        ..SMALL
    };
    let compared = agree(shape, 2_000..2_050);
    assert!(compared > 150, "{compared}");
}

/// RDMA-TSO'24 Thms. C.5 and C.6, on executions that need not be consistent.
#[test]
fn the_recursive_definitions_agree_with_the_plain_one() {
    let (mut executions, mut consistent) = (0, 0);
    for model in [
        Model::RdmaTso,
        Model::RdmaTsoNoPcie,
        Model::RdmaSc,
        Model::RdmaWait,
    ] {
        let spec = Spec::of(model, RmwAtomicity::Hca);
        for seed in 0..250 {
            let program = program(seed, Shape { rmw: true, ..SMALL });
            let mut left = 60;
            let _ = reference::each_execution(&program, &spec, &PLAIN, |execution| {
                let plain = spec.is_consistent(execution);
                let one_sided = rdma_tso_recursive::is_consistent_one_sided(execution, &spec);
                assert_eq!(plain, one_sided, "seed {seed}, {model}: {execution:#?}");
                let recursive = rdma_tso_recursive::is_consistent(execution, &spec);
                assert_eq!(plain, recursive, "seed {seed}, {model}: {execution:#?}");
                executions += 1;
                consistent += usize::from(plain);
                left -= 1;
                if left == 0 {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            });
        }
    }
    assert!(
        executions > 10_000 && consistent > 1_000,
        "{executions}, {consistent}"
    );
}

const CPU: Shape = Shape {
    nodes: 1,
    threads: 2,
    instructions: 4,
    locations_a_node: 2,
    remote: false,
    rmw: false,
    waits: false,
};

/// RDMA-TSO'24 Thm. 4.6.
#[test]
fn without_remote_operations_rdma_tso_is_tso() {
    for seed in 0..1_000 {
        let program = program(seed, CPU);
        let tso = search(&program, Model::Tso, RmwAtomicity::Hca).outcomes;
        for model in [Model::RdmaTso, Model::RdmaTsoNoPcie, Model::RdmaWait] {
            let rdma = search(&program, model, RmwAtomicity::Hca).outcomes;
            assert_eq!(tso, rdma, "seed {seed}, {model}: {program:#?}");
        }
        let sc = search(&program, Model::Sc, RmwAtomicity::Hca).outcomes;
        let rdma_sc = search(&program, Model::RdmaSc, RmwAtomicity::Hca).outcomes;
        assert_eq!(sc, rdma_sc, "seed {seed}: {program:#?}");
    }
}

/// RDMA-TSO'24 Thms. C.2 and C.3, execution by execution.
#[test]
fn tso_consistency_is_a_total_store_order() {
    let spec = Spec::of(Model::Tso, RmwAtomicity::Hca);
    let (mut consistent, mut not) = (0, 0);
    for seed in 0..200 {
        let _ = reference::each_execution(&program(seed, CPU), &spec, &PLAIN, |execution| {
            let expected = spec.is_consistent(execution);
            assert_eq!(
                tso::is_consistent_total_store_order(execution),
                expected,
                "seed {seed}: {execution:#?}"
            );
            *if expected { &mut consistent } else { &mut not } += 1;
            ControlFlow::Continue(())
        });
    }
    assert!(consistent > 500 && not > 1_000, "{consistent}, {not}");
}

#[test]
fn stronger_models_have_fewer_outcomes() {
    let shape = Shape {
        rmw: true,
        locations_a_node: 2,
        ..SMALL
    };
    let chain = [Model::Sc, Model::RdmaSc, Model::RdmaTso, Model::RdmaTsoNoPcie];
    let mut strict = [0; 3];
    for seed in 0..500 {
        // Store buffering needs many CPU operations.
        let program = program(seed, if seed < 300 { shape } else { CPU });
        for rmw in RmwAtomicity::ALL {
            let found = chain.map(|model| search(&program, model, rmw).outcomes);
            for (i, pair) in found.windows(2).enumerate() {
                assert!(
                    pair[0].is_subset(&pair[1]),
                    "seed {seed}, {}/{rmw} has more than {}: {program:#?}",
                    chain[i],
                    chain[i + 1]
                );
                strict[i] += usize::from(pair[0].len() < pair[1].len());
            }
        }
        let [hca, glob] = RmwAtomicity::ALL.map(|rmw| search(&program, Model::RdmaTso, rmw).outcomes);
        assert!(
            glob.is_subset(&hca),
            "seed {seed}: glob has more than hca: {program:#?}"
        );
    }
    assert!(
        strict.iter().all(|&n| n > 0),
        "the inclusions are never strict: {strict:?}"
    );
}

/// LOCO'26 Def. F.1 agrees with RDMA-TSO'24 Def. 4.4 on programs that poll.
#[test]
fn rdma_wait_with_polls_is_rdma_tso() {
    for seed in 0..400 {
        let program = program(seed, Shape { rmw: true, ..SMALL });
        let tso = search(&program, Model::RdmaTso, RmwAtomicity::Hca).outcomes;
        let wait = search(&program, Model::RdmaWait, RmwAtomicity::Hca).outcomes;
        assert_eq!(tso, wait, "seed {seed}: {program:#?}");
    }
}

/// The search finds the values that a condition shows without enumerating the others.
#[test]
fn asking_for_some_operands_gives_the_projection_of_all_outcomes() {
    for seed in 0..400 {
        let program = program(seed, Shape { rmw: true, ..SMALL });
        let registers = program.threads.iter().enumerate().flat_map(|(t, thread)| {
            (0..thread.registers.len()).map(move |r| Operand::Reg(ThreadId(t as u8), Reg(r as u16)))
        });
        let locations = (0..program.locations.len()).map(|l| Operand::Loc(Loc(l as u16)));
        let operands: Vec<Operand> = registers
            .chain(locations)
            .enumerate()
            .filter(|(i, _)| seed >> i & 1 == 1)
            .map(|(_, operand)| operand)
            .collect();
        let shown = |search: &Search| -> BTreeSet<Vec<Value>> {
            let show = |o| operands.iter().map(|operand| operand.value(o)).collect();
            search.outcomes.iter().map(show).collect()
        };
        for model in [Model::Sc, Model::RdmaTso, Model::RdmaTsoNoPcie] {
            let spec = Spec::of(model, RmwAtomicity::Hca);
            let all = search(&program, model, RmwAtomicity::Hca);
            let some = declarative::outcomes_of(&program, &spec, &operands, &Budget::default());
            assert!(
                some.is_complete() && some.outcomes.is_subset(&all.outcomes),
                "seed {seed}"
            );
            assert_eq!(shown(&some), shown(&all), "seed {seed}, {model}: {program:#?}");
            assert_eq!(
                some.outcomes.len(),
                shown(&all).len(),
                "seed {seed}: one outcome each"
            );
        }
    }
}
