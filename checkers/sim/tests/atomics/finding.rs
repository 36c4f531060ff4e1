//! Searches that have to find a mistake.

use std::time::Duration;

use loco_sim::{Config, Strategy, World, explore, replay};

/// The longest search for a mistake.
const SEARCH_MAX: Duration = Duration::from_secs(600);
/// The longest replay, in words of its text.
const WORDS_MAX: usize = 80;

/// Checks that the mistake is found in time, and that its schedule is short and repeats it.
pub fn found(name: &str, build: impl Fn(&mut World) + Sync) {
    let pct = |executions, depth| Strategy::Pct {
        executions,
        seed: 1,
        depth,
    };
    // A few changes of priority find most mistakes. The exhaustive search has the last word.
    let failure = [pct(1_000, 3), pct(5_000, 6), Strategy::Exhaustive]
        .into_iter()
        .find_map(|strategy| {
            let config = Config {
                strategy,
                time_max: Some(SEARCH_MAX / 3),
                ..Config::default()
            };
            let report = explore(&config, &build).unwrap();
            println!(
                "{name}: {strategy:?}: {}, {:?}",
                report.completeness, report.stats
            );
            report.failure
        });
    let failure = failure.unwrap_or_else(|| panic!("{name} is not found"));
    println!("{name}: {failure}");
    let config = Config::default();
    let words = failure.schedule.to_string().split_whitespace().count();
    assert!(words <= WORDS_MAX, "{name}: {words} words");
    let again = replay(&config, &failure.schedule, &build).unwrap();
    let repeated = again
        .failure
        .unwrap_or_else(|| panic!("{name}: the schedule does not repeat it"));
    assert_eq!(repeated.kind, failure.kind, "{name}");
}
