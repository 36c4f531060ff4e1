//! Checks that the shortcuts of the search for noticed changes of a model alter no answer.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use mowgli::declarative;
use mowgli::model::{Model, RmwAtomicity};
use mowgli::models::Spec;
use mowgli::outcome::Budget;
use mowgli_generate::enumerate::{programs, units};
use mowgli_generate::faults::{Change, Coverage, changes, coverage};
use mowgli_generate::language::Language;

const RDMA: [Model; 4] = [
    Model::RdmaSc,
    Model::RdmaTso,
    Model::RdmaTsoNoPcie,
    Model::RdmaWait,
];

fn found(model: Model, language: &Language, workers: usize) -> Coverage {
    let spec = Spec::of(model, RmwAtomicity::Hca);
    let workers = NonZeroUsize::new(workers).expect("at least one worker");
    coverage(&spec, language, workers, &Budget::default(), |_, _| true).expect("nothing limits the run")
}

fn noticed(coverage: &Coverage) -> BTreeSet<Change> {
    let noticed = coverage.changes.iter().filter(|(_, notice)| notice.is_some());
    noticed.map(|(change, _)| *change).collect()
}

#[test]
fn plain_comparison_notices_the_same_changes() {
    for model in RDMA {
        let language = Language {
            cas: false,
            nodes: 2,
            threads: 2,
            locations: 3,
            ..Language::of(model, 3)
        };
        let spec = Spec::of(model, RmwAtomicity::Hca);
        let mut open: Vec<(Change, Spec)> = changes(&spec)
            .into_iter()
            .filter(Change::is_single)
            .map(|change| (change, change.apply(&spec)))
            .collect();
        let mut plain = BTreeSet::new();
        let budget = Budget::default();
        for unit in units(&language) {
            programs(&language, &unit, &mut |sketch| {
                let program = sketch.program();
                let own = declarative::outcomes_exhaustive(&program, &spec, &budget).outcomes;
                open.retain(|(change, changed)| {
                    let other = declarative::outcomes_exhaustive(&program, changed, &budget).outcomes;
                    if own != other {
                        plain.insert(*change);
                    }
                    own == other
                });
            });
        }
        let fast = noticed(&found(model, &language, 2));
        assert_eq!(fast, plain, "{model}");
    }
}

/// `MOWGLI_GENERATE_ALL=1 cargo test -p mowgli-generate --test faults idle` has three nodes and four locations.
#[test]
fn programs_with_idle_instructions_notice_nothing_more() {
    let all = std::env::var_os("MOWGLI_GENERATE_ALL").is_some();
    for model in RDMA {
        let whole = Language::of(model, 3);
        let language = Language {
            cas: false,
            nodes: if all { whole.nodes } else { 2 },
            locations: if all { whole.locations } else { 3 },
            ..whole
        };
        let listed = noticed(&found(model, &language, 2));
        let all = noticed(&found(
            model,
            &Language {
                idle: true,
                ..language
            },
            2,
        ));
        assert_eq!(all, listed, "{model}");
    }
}

#[test]
fn the_number_of_workers_does_not_matter() {
    let language = Language::of(Model::RdmaTso, 3);
    let one = found(Model::RdmaTso, &language, 1);
    assert_eq!(one, found(Model::RdmaTso, &language, 3));
    let shown = one.changes.iter().filter_map(|(_, notice)| notice.as_ref());
    for notice in shown {
        assert!(
            notice.size <= 3 && !notice.condition.atoms.is_empty(),
            "{notice:?}"
        );
    }
}
