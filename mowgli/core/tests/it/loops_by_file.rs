//! Loops under model files: a file decides what its built-in model decides, where it permits to leave out iterations; other files run loops
//! up to their bounds and say so. `MOWGLI_LOOPS_BY_FILE=COUNT,SEED` compares so many random files.

use mowgli::cat::{self, Embedded, ModelFile};
use mowgli::generate::Random;
use mowgli::litmus::Verdict;
use mowgli::model::Model;
use mowgli::outcome::{Budget, Completeness, Endless, Growth, Limit, Outcome};
use mowgli::program::Program;
use mowgli::robust::Exact;
use mowgli::{check, robust};
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::collections::BTreeSet;

use crate::fuzz_models::expression;
use crate::loops::{HCA, file_of, litmus};
use crate::loops_random::{Sort, unrolled, waiting};

fn file(text: &str) -> ModelFile {
    ModelFile::parse("t.cat", text, &Embedded).unwrap_or_else(|errors| panic!("{text}: {}", errors[0]))
}

/// A wait for a flag by loads, and others by gets that are polled or waited for, of data that are written first.
const BY_LOADS: &str = "RDMA t\n{ d@1=0; f@1=0; }\nP0@1 | P1@1 ;\n\
    d := 1 | while (r == 0) bound 2 { r := f } ;\nf := 1 | s := d ;\nexists (1:s=0)\n";
const BY_WAITS: &str = "RDMA t\n{ a@1=0; z@2=0; d@2=0; b@1=0; }\nP0@1 | P1@2 ;\n\
    while (r == 0) bound 2 { a :=[i] z^2; wait(i); r := a } | d := 1 ;\n\
    b :=[j] d^2 | z := 1 ;\nwait(j) | ;\ns := b | ;\nexists (0:s=0)\n";
const BY_GETS: &str = "RDMA t\n{ a@1=0; z@2=0; d@2=0; b@1=0; }\nP0@1 | P1@2 ;\n\
    while (r == 0) bound 2 { a := z^2; poll(2); r := a } | d := 1 ;\n\
    b := d^2 | z := 1 ;\npoll(2) | ;\ns := b | ;\nexists (0:s=0)\n";

#[test]
fn files_of_built_in_models_permit_to_leave_out_iterations() {
    let [by_loads, by_gets] = [BY_LOADS, BY_GETS].map(litmus);
    let by_waits = litmus(BY_WAITS);
    for model in Model::ALL {
        let file = file_of(model);
        for test in [&by_loads, &by_gets, &by_waits] {
            assert!(file.leaves_out_iterations(&test.program), "{model}");
        }
    }
    for name in ["sc-herd.cat", "x86tso.cat", "aarch64-words.cat"] {
        let file = ModelFile::parse(name, cat::find(name).unwrap(), &Embedded).unwrap();
        let found = cat::outcomes(&by_loads.program, &file, HCA, &Budget::default());
        assert_eq!(
            check::judge(&by_loads, 0, &found).verdict(),
            Some(Verdict::Forbidden),
            "{name}"
        );
    }
}

/// A model without order allows what a spinning thread then reads.
#[test]
fn a_file_of_ones_own_decides_a_loop() {
    let weak = file(
        "acyclic po-loc | rf | rb | mo\nacyclic po & (P * _) | [nlW];pf | po & (_ * F) | po & (CPU * NIC) | rf | rb | mo",
    );
    for text in [BY_LOADS, BY_GETS] {
        let test = litmus(text);
        let found = cat::outcomes(&test.program, &weak, HCA, &Budget::default());
        assert!(found.is_complete(), "{:?}", found.completeness);
    }
    let test = litmus(BY_LOADS);
    let found = cat::outcomes(&test.program, &weak, HCA, &Budget::default());
    assert_eq!(check::judge(&test, 0, &found).verdict(), Some(Verdict::Allowed));
}

/// Iterations matter to a file that asks what lies between two events, or that lets a thread read what it wrote before.
#[test]
fn a_file_to_which_iterations_matter_runs_loops_to_their_bounds() {
    let cases = [
        ("acyclic (po \\ (po;po)) | rf | rb | mo", BY_LOADS),
        (
            "let far = po \\ (po;[R];po)\nacyclic far | rf | rb | mo",
            BY_LOADS,
        ),
        ("acyclic po | rf | rb | mo\n~empty rf", BY_LOADS),
        ("acyclic po | rf | rb | mo\nempty W \\ domain(rf) \\ IW", BY_LOADS),
        ("acyclic po & (CPU * CPU) | rf | rb | mo", BY_GETS),
    ];
    for (text, test) in cases {
        let (file, test) = (file(text), litmus(test));
        assert!(!file.leaves_out_iterations(&test.program), "{text}");
        let found = cat::outcomes(&test.program, &file, HCA, &Budget::default());
        let Completeness::Incomplete(limit) = found.completeness else {
            panic!("{text}: {found:?}");
        };
        let is_named = matches!(
            limit,
            Limit::LoopBound {
                bound: 2,
                at: Some(Endless {
                    growth: Growth::Model,
                    ..
                }),
                ..
            }
        );
        assert!(is_named, "{text}: {limit:?}");
    }
}

#[test]
fn robustness_under_a_file_is_decided_for_loops() {
    for (text, is_robust) in [(BY_LOADS, true), (BY_GETS, true)] {
        let program = litmus(text).program;
        for model in [Model::RdmaSc, Model::RdmaTso] {
            let by_file = cat::weak_execution(&program, file_of(model), HCA, &Budget::default()).unwrap();
            let built_in = robust::exact(&program, model, HCA, &Budget::default());
            assert_eq!(built_in == Exact::Robust, is_robust, "{model}");
            assert_eq!(by_file.map(|found| found.is_none()), Ok(is_robust), "{model}");
        }
    }
}

/// Returns what a file allows, if the search comes to an end.
fn allowed(program: &Program, file: &ModelFile) -> Option<BTreeSet<Outcome>> {
    let budget = Budget {
        states_max: Some(4_000),
        ..Budget::default()
    };
    let found = cat::outcomes(program, file, HCA, &budget);
    found.is_complete().then_some(found.outcomes)
}

/// Under random files that permit to leave out iterations, unrolled programs have no other outcomes.
#[test]
fn unrolled_programs_have_no_more_outcomes_under_random_files() {
    const BASES: [&str; 4] = [
        "acyclic po | rf | rb | mo",
        "acyclic po-loc | rf | rb | mo\nacyclic (po & (P * _)) | [nlW];pf | (po & (CPU * NIC)) | rf | rb | mo",
        "let buffer = same-thread & (lW * lR)\ninclude \"rdma-tables.cat\"\nlet flush = nfo\ninclude \"rdma-axioms.cat\"",
        "acyclic po-loc | com",
    ];
    let asked = std::env::var("MOWGLI_LOOPS_BY_FILE").unwrap_or_else(|_| "120,1".to_owned());
    let (count, seed) = asked.split_once(',').unwrap();
    let mut random = Random::new(seed.parse().unwrap());
    let mut rng = StdRng::seed_from_u64(seed.parse().unwrap());
    let (mut permitted, mut refused, mut compared, mut stricter) = (0, 0, 0, 0);
    for _ in 0..count.parse::<usize>().unwrap() {
        let base = BASES[random.below(BASES.len())];
        let test = ["acyclic", "irreflexive", "empty"][random.below(3)];
        let extra = expression(&mut rng, &[], 3);
        let text = format!("{base}\n{test} ({extra}) & ({})", expression(&mut rng, &[], 2));
        let Ok(file) = ModelFile::parse("t.cat", &text, &Embedded) else {
            continue;
        };
        let sort = [Sort::Cpu, Sort::Cpu, Sort::Polls][random.below(3)];
        let program = litmus(&waiting(&mut random, sort)).program;
        if !program.has_loops() {
            continue;
        }
        if !file.leaves_out_iterations(&program) {
            refused += 1;
            continue;
        }
        permitted += 1;
        let Some(whole) = allowed(&program, &file) else {
            continue;
        };
        for times in 1..=3 {
            let Some(some) = allowed(&unrolled(&program, times), &file) else {
                continue;
            };
            let more: BTreeSet<_> = some.difference(&whole).collect();
            assert!(more.is_empty(), "{times} times, {more:?}\n{text}\n{program:?}");
            compared += 1;
        }
        stricter +=
            usize::from(allowed(&program, &self::file(base)).is_some_and(|all| all.len() > whole.len()));
    }
    println!(
        "{permitted} permit, {refused} do not, {compared} comparisons, {stricter} files forbid more than their base"
    );
    assert!(permitted > 20 && refused > 2 && compared > 40 && stricter > 2);
}
