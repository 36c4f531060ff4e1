//! Fault seeding: every cell of the ordering tables and every term of `ib` and `ob`, changed one at a time, must be noticed.
//!
//! The changed model is compared with the operational machine, which knows no tables: a change is noticed if some program of the suite
//! has other outcomes under the changed model than on the machine. The suite is the catalogue, random programs, and every
//! combination of two accesses, a separator and an observer ([`pairs`]). A change that is not noticed must leave the model as
//! it is. [`proof`] decides this for cells; terms are listed with the reason.

use std::collections::BTreeSet;

use mowgli::catalogue;
use mowgli::declarative;
use mowgli::event::Kind;
use mowgli::explore;
use mowgli::litmus;
use mowgli::model::{Model, RmwAtomicity};
use mowgli::models::tables::{Cell, Order};
use mowgli::models::{Part, Spec};
use mowgli::outcome::{Budget, Outcome};
use mowgli::program::Program;

use crate::proof::Proof;
use crate::support::{SMALL, Shape};

struct Suite {
    model: Model,
    programs: Vec<(Program, BTreeSet<Outcome>)>,
}

impl Suite {
    fn new(model: Model) -> Suite {
        let rmw = Shape { rmw: true, ..SMALL };
        let long = Shape {
            threads: 1,
            instructions: 5,
            ..rmw
        };
        let waits = Shape { waits: true, ..long };
        let shapes = [SMALL, rmw, long, waits];
        let random = (0..60).flat_map(|seed| shapes.map(|s| crate::support::program(seed, s)));
        let named = catalogue::entries().iter().map(|e| e.parse().unwrap().program);
        let extra = crate::pairs::EXTRA
            .iter()
            .map(|source| litmus::parse(source).unwrap().litmus.program);
        let budget = Budget::default();
        let programs = named
            .chain(random)
            .chain(extra)
            .chain(crate::pairs::programs())
            .filter_map(|program| {
                let found = explore::outcomes(&program, model, RmwAtomicity::Hca, &budget);
                found.is_complete().then_some((program, found.outcomes))
            });
        Suite {
            model,
            programs: programs.collect(),
        }
    }

    fn spec(&self) -> Spec {
        Spec::of(self.model, RmwAtomicity::Hca)
    }

    /// Finds a program whose outcomes under `spec` differ from the machine's.
    fn notices(&self, spec: &Spec, detail: Detail) -> Option<&Program> {
        let budget = Budget {
            states_max: Some(20_000),
            ..Budget::default()
        };
        let step = if detail == Detail::Sample { 9 } else { 1 };
        let differs = |(program, expected): &&(Program, BTreeSet<Outcome>)| {
            let found = match detail {
                Detail::Everything => declarative::outcomes_exhaustive(program, spec, &budget),
                _ => declarative::outcomes_under(program, spec, &budget),
            };
            found.is_complete() && found.outcomes != *expected
        };
        let found = self.programs.iter().step_by(step).find(differs);
        found.map(|(program, _)| program)
    }
}

/// The effort of the suite.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Detail {
    /// Some of the programs.
    Sample,
    /// All of them.
    Search,
    /// All of them, with every read and all of modification order enumerated, because under a changed definition a read may have no
    /// source.
    Everything,
}

/// Returns the other entries that a cell could have. `sqp` differs from neither of them where one event is the CPU's.
fn others(cell: Cell, entry: Order) -> Vec<Order> {
    let nic = !cell.earlier.is_cpu() && !cell.later.is_cpu();
    [Order::Yes, Order::No, Order::SameQueuePair]
        .into_iter()
        .filter(|&order| order != entry && (nic || order != Order::SameQueuePair))
        .collect()
}

#[test]
fn the_suite_accepts_the_models_as_they_are() {
    for model in [
        Model::RdmaTso,
        Model::RdmaSc,
        Model::RdmaTsoNoPcie,
        Model::RdmaWait,
    ] {
        let suite = Suite::new(model);
        assert!(suite.programs.len() > 1_000, "{}", suite.programs.len());
        let differs = suite.notices(&suite.spec(), Detail::Search);
        assert_eq!(differs, None, "{model} differs from the machine");
    }
}

const WITH_PCIE: &[Model] = &[Model::RdmaTso, Model::RdmaSc, Model::RdmaWait];

/// Cells whose change is harmless for a reason that [`proof`] does not know.
const HARMLESS_CELLS: [(&[Model], &str, &str); 3] = [
    (
        WITH_PCIE,
        "oppo G8 SameQueuePair->No",
        "nfo orders the two, ippo G8 says which way, and nfo is in ob",
    ),
    (
        &[Model::RdmaTsoNoPcie],
        "ippo G9 SameQueuePair->No",
        ISSUE_OF_REMOTE_WRITE,
    ),
    (
        &[Model::RdmaTsoNoPcie],
        "ippo G10 SameQueuePair->No",
        ISSUE_OF_REMOTE_WRITE,
    ),
];

const ISSUE_OF_REMOTE_WRITE: &str = "what comes before the issue of the write, an earlier NIC read that rb_b puts there \
     included, is itself before the later event (rows F, H, J, K; G8 forbids rb_b from a later read)";

/// Every change of a cell is either noticed by a program or proved to leave the model as it is, never both.
fn every_changed_cell_is_noticed(model: Model) {
    let suite = Suite::new(model);
    let spec = suite.spec();
    let proof = Proof::new(&spec);
    let (mut noticed, mut harmless, mut wrong) = (0, 0, Vec::new());
    for issue in [true, false] {
        let table = if issue { &spec.ippo } else { &spec.oppo };
        for cell in Cell::all() {
            for order in others(cell, table.get(cell)) {
                let mut changed = spec.clone();
                match issue {
                    true => changed.ippo = changed.ippo.with(cell, order),
                    false => changed.oppo = changed.oppo.with(cell, order),
                }
                let name = format!(
                    "{} {cell} {:?}->{order:?}",
                    if issue { "ippo" } else { "oppo" },
                    table.get(cell)
                );
                let listed = HARMLESS_CELLS
                    .iter()
                    .any(|(models, n, _)| models.contains(&model) && *n == name);
                if listed || proof.is_harmless(&changed) {
                    harmless += 1;
                    if suite.notices(&changed, Detail::Sample).is_some() {
                        wrong.push(format!("{name}: noticed, yet proved harmless"));
                    }
                } else if suite.notices(&changed, Detail::Search).is_some() {
                    noticed += 1;
                } else {
                    wrong.push(format!("{name}: changes the model, nothing notices"));
                }
            }
        }
    }
    println!("{model}: {noticed} changes noticed, {harmless} proved harmless");
    assert!(wrong.is_empty(), "{model}: {wrong:#?}");
    assert!(
        noticed > 60 && harmless > 60,
        "{model}: {noticed} noticed, {harmless} harmless"
    );
}

#[test]
fn changed_cells_of_rdma_tso() {
    every_changed_cell_is_noticed(Model::RdmaTso);
}

#[test]
fn changed_cells_of_rdma_tso_without_pcie() {
    every_changed_cell_is_noticed(Model::RdmaTsoNoPcie);
}

#[test]
fn changed_cells_of_rdma_sc() {
    every_changed_cell_is_noticed(Model::RdmaSc);
}

#[test]
fn changed_cells_of_rdma_wait() {
    every_changed_cell_is_noticed(Model::RdmaWait);
}

/// Terms whose removal changes nothing, each with the reason.
const HARMLESS_TERMS: [(Model, &str, Part, &str); 6] = [
    (Model::RdmaTso, "ib", Part::Rao, RAO),
    (Model::RdmaTsoNoPcie, "ib", Part::Rao, RAO),
    (Model::RdmaSc, "ib", Part::Rao, RAO),
    (Model::RdmaWait, "ib", Part::Rao, RAO),
    (
        Model::RdmaSc,
        "ib",
        Part::Rf,
        "all of rf is in ob and ends at an instantaneous read; the write is issued before it is observed",
    ),
    (
        Model::RdmaWait,
        "ib",
        Part::PfGet,
        "it is in hb too and ends at a wait, which is instantaneous; the write is issued before it is observed",
    ),
];

const RAO: &str = "it is in ob too and ends at an atomic read, which is instantaneous";

#[test]
fn changed_terms() {
    for model in [
        Model::RdmaTso,
        Model::RdmaSc,
        Model::RdmaTsoNoPcie,
        Model::RdmaWait,
    ] {
        let suite = Suite::new(model);
        let spec = suite.spec();
        for part in Part::ALL {
            for order in ["ib", "ob"] {
                let mut changed = spec.clone();
                let parts = if order == "ib" {
                    &mut changed.ib
                } else {
                    &mut changed.ob
                };
                if !parts.contains(part) {
                    continue;
                }
                *parts = parts.without(part);
                let harmless = HARMLESS_TERMS
                    .iter()
                    .any(|&(m, o, p, _)| (m, o, p) == (model, order, part));
                let noticed = suite.notices(&changed, Detail::Everything).is_some();
                assert_ne!(noticed, harmless, "{model}: {order} without {}", part.name());
            }
        }
        for kind in [Kind::LocalWrite, Kind::NicLocalWrite, Kind::NicRemoteWrite] {
            let changed = Spec {
                buffered: spec.buffered.toggled(kind),
                ..spec.clone()
            };
            // Delaying the CPU's writes of RDMA^SC changes nothing as long as its tables order everything after them.
            let harmless = model == Model::RdmaSc && kind == Kind::LocalWrite;
            let noticed = suite.notices(&changed, Detail::Everything).is_some();
            assert_ne!(
                noticed, harmless,
                "{model}: {kind} no longer as buffered as it was"
            );
        }
        let changed = Spec {
            joint: false,
            ..spec.clone()
        };
        assert!(
            suite.notices(&changed, Detail::Everything).is_some(),
            "{model}: ib and ob apart"
        );
    }
}
