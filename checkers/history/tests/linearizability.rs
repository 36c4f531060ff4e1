//! The checker against sequential executions (always accepted) and against brute force (the same verdict).

mod common;

use common::*;
use loco_history::{Limits, Verdict, check};
use proptest::prelude::*;

/// Checks that histories which a sequential execution explains are accepted, with an order that holds.
fn accepted<O: Object>(seed: u64, shape: Shape) {
    let history = generate::<O>(&mut rng(seed), shape);
    let spec = O::spec();
    let report = check(&spec, &history, &Limits::default());
    assert_eq!(report.verdict(), Verdict::Ok, "{}", report.text());
    assert_orders_hold(&spec, &history, &report);
}

/// Checks that a mutated history gets the verdict of the brute-force search. Returns it.
fn as_brute_force<O: Object>(seed: u64, shape: Shape) -> bool {
    let mut rng = rng(seed);
    let mut history = generate::<O>(&mut rng, shape);
    for _ in 0..seed % 3 + 1 {
        mutate::<O>(&mut rng, &mut history);
    }
    let spec = O::spec();
    let report = check(&spec, &history, &Limits::default());
    let expected = brute_force(&spec, &history);
    let verdict = if expected { Verdict::Ok } else { Verdict::Violation };
    assert_eq!(
        report.verdict(),
        verdict,
        "seed {seed}: {history:?}\n{}",
        report.text()
    );
    assert_orders_hold(&spec, &history, &report);
    expected
}

/// Compares 600 small mutated histories of an object. Both verdicts must be well represented, or the test
/// shows nothing.
fn compare<O: Object>() {
    let mut violations = 0;
    for seed in 0..600 {
        let operations = 2 + (seed % 5) as usize;
        let shape = Shape {
            operations,
            reach: 1 + seed % 4,
            pending_percent: (seed % 3) as u32 * 8,
        };
        violations += usize::from(!as_brute_force::<O>(seed, shape));
    }
    assert!(
        (60..=540).contains(&violations),
        "{violations} of 600 are violations"
    );
}

#[test]
fn mutated_registers_as_brute_force() {
    compare::<RegisterObject>();
}

#[test]
fn mutated_atomics_as_brute_force() {
    compare::<AtomicObject>();
}

#[test]
fn mutated_queues_as_brute_force() {
    compare::<QueueObject>();
}

#[test]
fn mutated_locks_as_brute_force() {
    compare::<LockObject>();
}

#[test]
fn mutated_maps_as_brute_force() {
    compare::<KeyValueObject>();
}

fn shapes() -> impl Strategy<Value = Shape> {
    (1..200usize, 0..5u64, 0..4u32).prop_map(|(operations, reach, pending_percent)| Shape {
        operations,
        reach,
        pending_percent,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn sequential_registers_are_accepted(seed: u64, shape in shapes()) {
        accepted::<RegisterObject>(seed, shape);
    }

    #[test]
    fn sequential_atomics_are_accepted(seed: u64, shape in shapes()) {
        accepted::<AtomicObject>(seed, shape);
    }

    #[test]
    fn sequential_queues_are_accepted(seed: u64, shape in shapes()) {
        accepted::<QueueObject>(seed, shape);
    }

    #[test]
    fn sequential_locks_are_accepted(seed: u64, shape in shapes()) {
        accepted::<LockObject>(seed, shape);
    }

    #[test]
    fn sequential_maps_are_accepted(seed: u64, shape in shapes()) {
        accepted::<KeyValueObject>(seed, shape);
    }

    /// A history that was in order stays so when less of it is known: linearizability is prefix-closed.
    #[test]
    fn prefixes_of_accepted_histories_are_accepted(seed: u64, shape in shapes(), at in 0..3000u64) {
        let history = generate::<AtomicObject>(&mut rng(seed), shape).until(at);
        let spec = AtomicObject::spec();
        let report = check(&spec, &history, &Limits::default());
        prop_assert_eq!(report.verdict(), Verdict::Ok, "{}", report.text());
    }
}
