//! `loco check --soak`: many explorations of many sizes and kinds, for a given time or until Ctrl-C.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use loco_app::{OutputError, SECONDS_MAX, counted, print};
use loco_check::Object;
use loco_check::sized::Size;
use loco_sim::{Bounds, Completeness, Config, FabricKind, Strategy};
use serde::Serialize;

use super::one_world::{say_what, show};
use super::{Args, check, progress};
use crate::error::CliError;

/// The longest time of one exploration before the next object has its turn.
const TURN: Duration = Duration::from_secs(2);
/// The time between two lines that say how far the soak is, where no terminal shows it.
const TELL: Duration = Duration::from_secs(5);
/// The distance between the seeds of two explorations, which is more than the executions of one.
const SEEDS_APART: u64 = 1 << 32;

/// Reads a duration such as `90s`, `10m`, `2h` or `90` (seconds).
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.find(|c: char| !c.is_ascii_digit()) {
        Some(at) => text.split_at(at),
        None => (text, "s"),
    };
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => 0,
    };
    match number.parse::<u64>().ok().and_then(|n| n.checked_mul(seconds)) {
        Some(seconds @ 1..=SECONDS_MAX) => Ok(Duration::from_secs(seconds)),
        _ => Err(format!(
            "not a duration such as 90s, 10m or 2h, from 1s to {SECONDS_MAX}s"
        )),
    }
}

/// The totals of a soak.
#[derive(Default, Serialize)]
struct Summary {
    explorations: u64,
    executions: u64,
    states: u64,
    moves: u64,
    /// The number of bounded explorations that were completed.
    bounds_completed: u64,
    seconds: f64,
    seed_first: u64,
    seed_last: u64,
}

/// One exploration of a soak.
struct Turn {
    object: Object,
    fabric: FabricKind,
    size: Size,
    strategy: Strategy,
}

/// Explores until the time is over, something is found or Ctrl-C is pressed, and then reports the totals.
pub(super) fn run(args: &Args, duration: Duration, cancel: &Arc<AtomicBool>) -> Result<u8, CliError> {
    let begun = Instant::now();
    let objects = args.objects()?;
    let mut summary = Summary {
        seed_first: args.seed,
        ..Summary::default()
    };
    let mut found = false;
    let mut told = begun;
    for number in 0.. {
        let left = duration.saturating_sub(begun.elapsed());
        if left.is_zero() || progress::is_set(cancel) || found {
            break;
        }
        let turn = turn(args, &objects, number);
        if progress::is_in_lines(args.json) && told.elapsed() >= TELL {
            told = Instant::now();
            let Size { nodes, threads, ops } = turn.size;
            print(format_args!(
                "soak: {}, {}, {} s; next {}: {}, {} each, {} each",
                counted(summary.explorations, "exploration"),
                counted(summary.executions, "execution"),
                begun.elapsed().as_secs(),
                turn.object,
                counted(nodes, "node"),
                counted(threads, "thread"),
                counted(ops, "operation")
            ))?;
        }
        let config = Config {
            strategy: turn.strategy,
            fabric: turn.fabric,
            time_max: Some(TURN.min(left)),
            ..args.config(cancel)
        };
        let report = check(&config, turn.object, turn.size, None)?;
        summary.explorations += 1;
        summary.executions += report.stats.executions;
        summary.states += report.stats.states;
        summary.moves += report.stats.transitions;
        summary.bounds_completed += u64::from(matches!(
            report.completeness,
            Completeness::UpTo(_) | Completeness::Complete
        ));
        summary.seed_last = seed(args, number);
        if report.failure.is_some() {
            found = true;
            if !args.json {
                say_what(turn.object, turn.size)?;
            }
            show(args, turn.object, turn.size, turn.strategy, &report)?;
            args.draw(turn.object, turn.size, &config, &report)?;
        }
    }
    summary.seconds = begun.elapsed().as_secs_f64();
    summary.print(args.json, found)?;
    Ok(match found {
        true => 1,
        false if progress::is_set(cancel) => super::INTERRUPTED,
        false => 0,
    })
}

fn seed(args: &Args, number: u64) -> u64 {
    args.seed.wrapping_add(number.wrapping_mul(SEEDS_APART))
}

/// Returns the `number`-th exploration. The objects take turns, and each round has another kind of schedules,
/// another fabric and another size.
fn turn(args: &Args, objects: &[Object], number: u64) -> Turn {
    let object = objects[(number % objects.len() as u64) as usize];
    let round = number / objects.len() as u64;
    let (seed, executions) = (seed(args, number), u64::MAX);
    let pct = |depth| Strategy::Pct {
        executions,
        seed,
        depth,
    };
    let delays = |delays| {
        Strategy::Bounded(Bounds {
            preemptions: None,
            delays: Some(delays),
        })
    };
    let kinds = [
        pct(3),
        Strategy::Random { executions, seed },
        pct(2),
        delays(2),
        pct(4),
        pct(6),
        delays(3),
    ];
    let strategy = kinds[(round % kinds.len() as u64) as usize];
    let sizes = round / kinds.len() as u64;
    let size = args.size();
    let (nodes_max, ops_max) = (size.nodes.max(3), size.ops.max(3));
    let nodes_kinds = u64::from(nodes_max - 1);
    let fabrics = args.fabrics();
    Turn {
        object,
        fabric: fabrics[(round % fabrics.len() as u64) as usize],
        size: Size {
            // The largest worlds come first: small worlds can be explored completely without a soak.
            nodes: nodes_max - (sizes % nodes_kinds) as u16,
            ops: ops_max - (sizes / nodes_kinds) % ops_max,
            ..args.size()
        },
        strategy,
    }
}

impl Summary {
    fn print(&self, json: bool, found: bool) -> Result<(), OutputError> {
        if json {
            return print(serde_json::json!({ "soak": self, "passed": !found }));
        }
        let Summary {
            explorations,
            executions,
            states,
            moves,
            bounds_completed,
            seconds,
            seed_first,
            seed_last,
        } = self;
        let verdict = if found { "FAILED" } else { "nothing found" };
        print(format_args!(
            "soak: {verdict} in {}, {}, {}, {} \
             of bounded searches ({bounds_completed} of them to their bound), seeds {seed_first} to {seed_last}, \
             {seconds:.1} s",
            counted(*explorations, "exploration"),
            counted(*executions, "execution"),
            counted(*moves, "move"),
            counted(*states, "state")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_or_refused() {
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("10m"), Ok(Duration::from_secs(600)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7200)));
        assert_eq!(duration("7"), Ok(Duration::from_secs(7)));
        for bad in ["", "0", "m", "3d", "-1s", "99999999999999999999h"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
