//! Tests the claim of LOCO'26 B.2 that the system is stable up to a controller period of 40 us, and not past
//! it. It is shown by running the system (measured by the largest distance from the reference in the last
//! half of the run) and by its linear algebra.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use loco_power::*;
use proptest::prelude::*;

const RUN: Duration = Duration::from_millis(20);

fn micros(us: u64) -> Duration {
    Duration::from_micros(us)
}

fn run(period_us: u64, delays: &Delays) -> Run {
    simulate(&Params::default(), micros(period_us), delays, RUN).unwrap()
}

#[test]
fn the_output_converges_at_periods_up_to_40_us() {
    for period in [10, 20, 30, 40] {
        let run = run(period, &Delays::default());
        // The bound is 0.1 % of 240 V, from 10 ms on.
        assert!(run.deviation() < 1e-3, "{period} us: {}", run.deviation());
        assert!((run.samples.last().unwrap().volts - 240.0).abs() < 0.24);
    }
}

#[test]
fn the_output_keeps_swinging_at_longer_periods() {
    let mut worst_stable = 0.0_f64;
    for period in [10, 20, 30, 40] {
        worst_stable = worst_stable.max(run(period, &Delays::default()).overshoot());
    }
    for period in [60, 80, 100] {
        let run = run(period, &Delays::default());
        assert!(run.deviation() > 0.1, "{period} us: {}", run.deviation());
        // The transient at the start, too, is larger than at any stable period.
        assert!(
            run.overshoot() > worst_stable,
            "{period} us: {} > {worst_stable}",
            run.overshoot()
        );
    }
}

#[test]
fn a_small_disturbance_dies_out_up_to_40_us_and_grows_past_it() {
    let radius = |period| stability::radius(&Params::default(), micros(period), &Delays::default()).unwrap();
    for period in [10, 20, 30, 40] {
        assert!(radius(period) < 0.99, "{period} us: {}", radius(period));
    }
    for period in [50, 60, 80, 100] {
        assert!(radius(period) > 1.01, "{period} us: {}", radius(period));
    }
}

#[test]
fn the_phase_margin_puts_the_limit_between_40_and_50_us() {
    let limit = stability::period_limit(&Params::default(), &Delays::default()).unwrap();
    assert!(
        (params::STABLE_PERIOD_MAX..micros(50)).contains(&limit),
        "{limit:?}"
    );
}

/// The radius describes the simulated system: the distance from the reference shrinks by it each period.
#[test]
fn the_simulation_shrinks_a_disturbance_as_fast_as_the_radius_says() {
    let params = Params {
        tolerance: 0.0,
        balance: 0.0,
        ..Params::default()
    };
    for (period, command, feedback) in [(10, 2, 2), (40, 2, 2), (40, 0, 0), (10, 2, 12), (10, 12, 2)] {
        let delays = Delays {
            command: micros(command),
            feedback: micros(feedback),
            ..Delays::default()
        };
        let run = simulate(&params, micros(period), &delays, RUN).unwrap();
        let radius = stability::radius(&params, micros(period), &delays).unwrap();
        // The distance is the largest within a millisecond, which is long enough for a swing of any mode.
        let distance = |from_ms: usize| {
            let window = &run.samples[from_ms * 100..(from_ms + 1) * 100];
            window
                .iter()
                .map(|s| (s.volts - run.reference_volts).abs())
                .fold(0.0, f64::max)
        };
        let periods = 3000.0 / period as f64;
        let measured = (distance(4) / distance(1)).powf(1.0 / periods);
        assert!(
            (measured - radius).abs() < 0.01,
            "{period}, {command}, {feedback} us: {measured} against {radius}"
        );
    }
}

#[test]
fn late_messages_alone_lose_stability() {
    let late = Delays {
        command: micros(40),
        feedback: micros(40),
        ..Delays::default()
    };
    assert!(run(10, &Delays::default()).deviation() < 1e-3);
    assert!(run(10, &late).deviation() > 0.1);
    assert!(stability::radius(&Params::default(), micros(10), &late).unwrap() > 1.0);
    assert_eq!(
        stability::period_limit(&Params::default(), &late),
        Some(Duration::ZERO)
    );
}

#[test]
fn a_run_is_determined_by_its_arguments() {
    let jitter = |seed| Delays {
        jitter: micros(15),
        seed,
        ..Delays::default()
    };
    assert_eq!(run(30, &jitter(7)), run(30, &jitter(7)));
    assert_ne!(run(30, &jitter(7)), run(30, &jitter(8)));
}

#[test]
fn unlike_converters_come_to_share_the_output_alike() {
    let params = Params {
        tolerance: 0.2,
        converters: 5,
        reference_volts: 60.0,
        ..Params::default()
    };
    let run = simulate(&params, micros(20), &Delays::default(), RUN).unwrap();
    assert!(run.deviation() < 1e-3, "{}", run.deviation());
}

#[test]
fn senseless_parameters_are_errors_that_name_them() {
    let cases = [
        (
            "converters",
            Params {
                converters: 0,
                ..Params::default()
            },
        ),
        (
            "capacitance",
            Params {
                capacitance: -1.0,
                ..Params::default()
            },
        ),
        (
            "integral",
            Params {
                integral: f64::NAN,
                ..Params::default()
            },
        ),
        (
            "reference_volts",
            Params {
                reference_volts: 1e6,
                ..Params::default()
            },
        ),
    ];
    for (expected, params) in cases {
        match simulate(&params, micros(10), &Delays::default(), RUN) {
            Err(PowerError::Parameter { name, .. }) => assert_eq!(name, expected),
            other => panic!("{expected}: {other:?}"),
        }
    }
    assert!(simulate(&Params::default(), Duration::ZERO, &Delays::default(), RUN).is_err());
    assert!(stability::radius(&Params::default(), micros(15), &Delays::default()).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Whatever the network does, the converters stay within the range that their input allows.
    #[test]
    fn the_output_is_bounded(period in 1..200u64, delay in 0..200u64, jitter in 0..200u64, seed: u64) {
        let delays =
            Delays { command: micros(delay), feedback: micros(delay), jitter: micros(jitter), seed };
        let run = simulate(&Params::default(), micros(period), &delays, micros(4000)).unwrap();
        // The converters are overdamped, so the voltage never passes that of a constant full duty cycle.
        let bound = 24.0 * 20.0;
        prop_assert!(run.samples.iter().all(|s| (0.0..=bound).contains(&s.volts)));
    }
}
