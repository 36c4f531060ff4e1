//! Realistic mistakes in objects, each found by exploring a small world, with a short schedule that repeats it. The
//! same code without the mistake passes the same exploration.

#![allow(clippy::unwrap_used)]

mod barrier;
mod fences;
mod ring;
mod sealed;
#[path = "../support/mod.rs"]
mod support;
mod variables;
mod words;

use std::time::Duration;

use loco_sim::{
    Bounds, Completeness, Config, Failure, FailureKind, ModelFabric, Report, Strategy, Tier, World,
    execution_graph, explore, film, replay,
};
use support::{Site, site};

type Fabric = ModelFabric;

/// The longest search for a mistake. It takes seconds on an idle machine.
const SEARCH_MAX: Duration = Duration::from_secs(600);
/// The number of random schedules that find nothing in a world without a mistake.
const PCT_EXECUTIONS: u64 = 2_000;
/// The longest replay, in words of its text.
const WORDS_MAX: usize = 80;

/// Checks that the mistake is found in time, by random schedules and by an exploration of all executions with
/// at most `delays` delays, though not with one delay less. Its schedule is short and repeats it.
fn found(name: &str, delays: u32, build: impl Fn(&mut World) + Sync) {
    if let Some(fewer) = delays.checked_sub(1) {
        let bounds = Bounds {
            delays: Some(fewer),
            preemptions: None,
        };
        absent(name, bounds, &build);
    }
    let failure = present(
        name,
        Bounds {
            delays: Some(delays),
            preemptions: None,
        },
        &build,
    );
    println!("{name}: {failure}");
    let words = failure.schedule.to_string().split_whitespace().count();
    assert!(words <= WORDS_MAX, "{name}: {words} words");
    let again = replay(&Config::default().tier(Tier::Ibta), &failure.schedule, &build).unwrap();
    let repeated = again
        .failure
        .unwrap_or_else(|| panic!("{name}: the schedule does not repeat it"));
    assert_eq!(repeated.kind, failure.kind, "{name}");
    drawn(name, &failure, &build);
    filmed(name, &failure, &build);
    // Depth d orders d events. A mistake that takes `delays` of them out of turn needs one more.
    let pct = Strategy::Pct {
        executions: 20_000,
        seed: 1,
        depth: delays + 1,
    };
    let config = Config {
        strategy: pct,
        time_max: Some(SEARCH_MAX),
        tier: Tier::Ibta,
        ..Config::default()
    };
    let report = explore(&config, &build).unwrap();
    println!("{name}: {pct:?}: {}, {:?}", report.completeness, report.stats);
    assert!(report.failure.is_some(), "{name}: not by random schedules");
}

/// Checks that the failing execution is one of the declarative model too, and that it can be drawn.
fn drawn(name: &str, failure: &Failure, build: impl Fn(&mut World) + Sync) {
    let graph = execution_graph(&Config::default().tier(Tier::Ibta), &failure.schedule, build).unwrap();
    assert!(graph.is_consistent(), "{name}: {}", graph.text());
    let drawing = graph.drawing();
    assert!(!drawing.arrows.is_empty(), "{name}");
    let (svg, dot) = (drawing.svg(name), drawing.dot(name));
    assert!(svg.contains("</svg>") && dot.starts_with("digraph"), "{name}");
    if let Some(folder) = std::env::var_os("LOCO_SIM_DRAW") {
        let file = std::path::Path::new(&folder).join(format!("{}.svg", name.replace(' ', "-")));
        std::fs::write(file, svg).unwrap();
    }
}

/// Checks that the film of the failing execution has the steps of its trace and ends as it does.
fn filmed(name: &str, failure: &Failure, build: impl Fn(&mut World) + Sync) {
    let film = film(&Config::default().tier(Tier::Ibta), &failure.schedule, build).unwrap();
    let steps: Vec<_> = film
        .frames
        .iter()
        .filter_map(|frame| frame.step.clone())
        .collect();
    assert_eq!(steps, failure.trace, "{name}");
    assert_eq!(film.frames.len(), steps.len() + 1, "{name}");
    assert_eq!(
        film.frames.last().unwrap().outstanding,
        failure.outstanding,
        "{name}"
    );
    let panicked = match &failure.kind {
        FailureKind::Assertion { thread, message } => Some((*thread, message.clone())),
        _ => None,
    };
    assert_eq!(film.failure, panicked, "{name}");
    // What a thread loads is what the film shows, unless its own store buffer has a newer value.
    for (at, frame) in film.frames.iter().enumerate().skip(1) {
        let text = &steps[at - 1].what;
        let Some((word, value)) = text
            .split_once(": loads ")
            .and_then(|(_, rest)| rest.split_once(" (="))
        else {
            continue;
        };
        let own = &film.frames[at].machine.threads[usize::from(frame.thread.unwrap())];
        let buffered = own.store_buffer.iter().any(|entry| entry.text.contains(word));
        let shown = film.words.iter().position(|w| w.name == word);
        if let (false, Some(shown)) = (buffered, shown) {
            assert_eq!(frame.memory[shown], value.trim_end_matches(')'), "{name}: {text}");
        }
    }
}

/// Checks that an exploration within these bounds finds a failure.
fn present(name: &str, bounds: Bounds, build: impl Fn(&mut World) + Sync) -> Failure {
    let report = bounded(bounds, build);
    println!("{name}, {bounds}: {}, {:?}", report.completeness, report.stats);
    report
        .failure
        .unwrap_or_else(|| panic!("{name}: not within {bounds}"))
}

/// Checks that an exploration within these bounds finds nothing, and claims no more than its bounds.
fn absent(name: &str, bounds: Bounds, build: impl Fn(&mut World) + Sync) {
    let report = bounded(bounds, build);
    assert!(report.failure.is_none(), "{name} within {bounds}");
    assert_eq!(report.completeness, Completeness::UpTo(bounds), "{name}");
}

fn bounded(bounds: Bounds, build: impl Fn(&mut World) + Sync) -> Report {
    let config = Config {
        strategy: Strategy::Bounded(bounds),
        time_max: Some(SEARCH_MAX),
        tier: Tier::Ibta,
        ..Config::default()
    };
    explore(&config, build).unwrap()
}

/// Checks that the mistake needs exactly so many preemptions.
fn takes_preemptions(name: &str, preemptions: u32, build: impl Fn(&mut World) + Sync) {
    let bounds = |n| Bounds {
        preemptions: Some(n),
        delays: None,
    };
    if let Some(fewer) = preemptions.checked_sub(1) {
        absent(name, bounds(fewer), &build);
    }
    present(name, bounds(preemptions), &build);
}

/// Checks that nothing is found without the mistake: not by as many random schedules as find the mistakes, and not by
/// any schedule.
fn passes(name: &str, build: impl Fn(&mut World) + Sync) {
    let completeness = nothing_found(name, SEARCH_MAX, build);
    assert_eq!(completeness, Completeness::Complete, "{name}");
}

/// Checks the same as [`passes`] of a world that has too many schedules for all of them.
fn passes_as_far_as_seen(name: &str, build: impl Fn(&mut World) + Sync) {
    nothing_found(name, Duration::from_secs(10), build);
}

/// Checks that nothing is found by random schedules and by a search of this time. Returns how far the search came.
fn nothing_found(name: &str, time_max: Duration, build: impl Fn(&mut World) + Sync) -> Completeness {
    let pct = Config {
        strategy: Strategy::Pct {
            executions: PCT_EXECUTIONS,
            seed: 1,
            depth: 3,
        },
        tier: Tier::Ibta,
        ..Config::default()
    };
    let all = Config {
        time_max: Some(time_max),
        tier: Tier::Ibta,
        ..Config::default()
    };
    let explored = |config: &Config| {
        let report = explore(config, &build).unwrap();
        if let Some(failure) = report.failure {
            panic!("{name}: {failure}");
        }
        println!("{name}: {}, {:?}", report.completeness, report.stats);
        report.completeness
    };
    // All executions ran: as many find the mistakes.
    assert_eq!(explored(&pct), Completeness::Random(PCT_EXECUTIONS), "{name}");
    explored(&all)
}
