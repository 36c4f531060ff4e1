//! Explores the worlds of the agreement on who is in, and says for each how many states it has and how long that took.
//!
//! `mesh [all|SECONDS]`. Without an argument: the worlds that are explored completely in a test. With `all`: also four nodes, and
//! two faults of any kind, as far as bounds and time allow; some minutes. With `SECONDS`: the first, for that long at most, and
//! only the world that fails is printed, for the harness of the mutations. Exit status: 0 nothing is broken, 1 a promise is
//! broken, or, but for `SECONDS`, a world was not explored to its end, 2 bad usage.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use loco_mesh_check::{Bounds, Ended, Explored, World, ladder, large};

/// The time for each world.
const TIME: Duration = Duration::from_secs(600);
/// The random executions of a world that is too large, and their seed.
const EXECUTIONS: u64 = 200_000;
const SEED: u64 = 1;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let holds = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => explore(ladder().into_iter().map(|world| (world, None))),
        ["all"] => {
            let small = ladder().into_iter().map(|world| (world, None));
            explore(small.chain(large()))
        }
        [argument] => match argument.parse() {
            Ok(seconds) => find(Duration::from_secs(seconds)),
            Err(_) => return usage(),
        },
        _ => return usage(),
    };
    ExitCode::from(u8::from(!holds))
}

fn usage() -> ExitCode {
    eprintln!("usage: mesh [all|SECONDS]");
    ExitCode::from(2)
}

/// Explores worlds, each within so many delays if they are given, and says what was found. Returns true if all were explored to the
/// end, and nothing is broken.
fn explore(worlds: impl Iterator<Item = (World, Option<u32>)>) -> bool {
    let mut holds = true;
    for (world, delays) in worlds {
        let bounds = delays.map(|delays| Bounds {
            preemptions: None,
            delays: Some(delays),
        });
        let within = bounds.map_or("every execution".to_owned(), |bounds| bounds.to_string());
        let explored = world.explore(bounds, TIME);
        let how = match explored.ended {
            Ended::Complete => "complete",
            Ended::Bounded => "complete within that",
            Ended::Quit => "broken",
            Ended::Limit(_) => "not complete in its time",
        };
        holds &= report(
            &world,
            &format!("{within}: {how}, {} states", explored.states),
            &explored,
        );
        if bounds.is_some() {
            let sampled = world.sample(EXECUTIONS, SEED, TIME);
            let what = match sampled.ended {
                Ended::Limit(_) => "random executions, and not all in their time",
                _ => "random executions",
            };
            holds &= report(&world, &format!("{} {what}", sampled.ends), &sampled);
        }
    }
    holds
}

/// Explores the worlds of the ladder for so long at most, and prints the first that breaks a promise. Returns true if none does.
fn find(time: Duration) -> bool {
    let end = Instant::now() + time;
    let failed = ladder().into_iter().find_map(|world| {
        let left = end.saturating_duration_since(Instant::now());
        let failure = world.explore(None, left).failure?;
        Some((world.name, failure))
    });
    if let Some((world, failure)) = &failed {
        println!("{world}: {failure}");
    }
    failed.is_none()
}

/// Prints what was explored, and what is broken. Returns true if nothing is, and the time sufficed.
fn report(world: &World, what: &str, explored: &Explored) -> bool {
    println!("{}: {what}, {:.1} s", world.name, explored.time.as_secs_f64());
    if let Some(failure) = &explored.failure {
        println!("{failure}");
    }
    explored.failure.is_none() && !matches!(explored.ended, Ended::Limit(_))
}
