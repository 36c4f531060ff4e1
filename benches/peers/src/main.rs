//! Compares loco with other libraries and with plain memory, and prints a table.
//!
//! `benches/peers/run.sh` builds and runs it. The two sides of a row take turns; before and after each turn the time that a
//! cache line takes between two cores is measured ([`probe`]), and rounds in which it changed do not count ([`rounds`]).
//! [`rows`] says what is compared with what.

#![forbid(unsafe_code)]

mod iceoryx;
mod maps;
mod probe;
mod programs;
mod redis;
mod rounds;
mod rows;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::{Parser, Subcommand};

use crate::programs::Programs;
use crate::rounds::{Comparison, Effort};
use crate::rows::Row;

/// Compare loco with other libraries and with plain memory, in two processes of this machine.
///
/// The machine should be idle otherwise. Each ratio is the median of rounds; the two figures beside it are the quartiles. A
/// row whose peer is not installed is left out and said to be.
#[derive(Parser)]
struct Args {
    /// Rows to measure, by parts of their names; all if none is given.
    rows: Vec<String>,
    /// Rounds that count, for each row and peer.
    #[arg(short, long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Seconds of a turn, at least.
    #[arg(short, long, default_value_t = 0.3)]
    seconds: f64,
    /// The command `loco`.
    #[arg(long, value_name = "PATH")]
    loco: PathBuf,
    /// Another build of `loco`: compare --loco with it, and with nothing else.
    #[arg(long, value_name = "PATH")]
    before: Option<PathBuf>,
    /// Append each comparison to this file, a line of JSON each.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// List the rows and end.
    #[arg(long)]
    list: bool,
    #[command(subcommand)]
    side: Option<Side>,
}

/// A side that is this program, in a process of its own.
#[derive(Subcommand)]
enum Side {
    /// Lookups or updates of a concurrent map by two threads, operations a second.
    #[command(hide = true)]
    Map {
        /// `dashmap` or `papaya`.
        map: maps::Map,
        /// Operations of both threads together.
        iterations: u64,
        /// Half of the operations are updates.
        #[arg(long)]
        mixed: bool,
    },
    /// Messages to and fro by iceoryx2, half a round trip in nanoseconds.
    #[command(hide = true)]
    Iceoryx2(iceoryx::PingPong),
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peers: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &Args) -> Result<()> {
    match &args.side {
        Some(Side::Map {
            map,
            iterations,
            mixed,
        }) => {
            println!("{:.1}", maps::rate(*map, *iterations, *mixed));
            return Ok(());
        }
        Some(Side::Iceoryx2(ping_pong)) => {
            if let Some(figure) = ping_pong.run()? {
                println!("{figure:.2}");
            }
            return Ok(());
        }
        None => {}
    }
    let wanted =
        |row: &Row| args.rows.is_empty() || args.rows.iter().any(|part| row.name.contains(part.as_str()));
    let rows: Vec<Row> = rows::all().into_iter().filter(wanted).collect();
    if rows.is_empty() {
        bail!("no row has such a name; see --list");
    }
    if args.list {
        for row in rows {
            println!("{} ({})", row.name, row.unit.name());
        }
        return Ok(());
    }
    let programs = Programs::build(&args.loco, args.before.as_deref())?;
    let effort = Effort {
        rounds: args.rounds,
        turn: Duration::from_secs_f64(args.seconds),
    };
    println!(
        "{}, {} processors, {} rounds of {} s a side",
        processor(),
        processors(),
        args.rounds,
        args.seconds
    );
    println!(
        "{:<26} {:<28} {:>12} {:>12} {:>7} {:>15} {:>7} {:>11}",
        "work", "beside", "loco", "peer", "ratio", "quartiles", "rounds", "goal"
    );
    for row in &rows {
        let others = match &args.before {
            Some(_) => vec![row.before()],
            None => row.peers.clone(),
        };
        for peer in others {
            if let Some(why) = programs.lacks(&peer.side) {
                println!("{:<26} {:<28} left out: {why}", row.name, peer.name);
                continue;
            }
            let found = rounds::compare(&programs, row, &peer, &effort)
                .with_context(|| format!("`{}` beside {}", row.name, peer.name));
            match found {
                Ok(comparison) => report(args, row, &peer, &comparison)?,
                Err(error) => println!("{:<26} {:<28} failed: {error:#}", row.name, peer.name),
            }
        }
    }
    Ok(())
}

fn report(args: &Args, row: &Row, peer: &rows::Peer, found: &Comparison) -> Result<()> {
    let goal = peer.goal.map_or_else(String::new, |goal| {
        let met = if row.unit.is_met(found.ratio, goal) {
            "met"
        } else {
            "not met"
        };
        format!("{goal} {met}")
    });
    println!(
        "{:<26} {:<28} {:>12.4} {:>12.4} {:>7.2} {:>15} {:>7} {:>11}",
        row.name,
        peer.name,
        found.loco,
        found.peer,
        found.ratio,
        format!("{:.2} to {:.2}", found.quartiles.0, found.quartiles.1),
        format!("{} of {}", found.counted, found.made),
        goal
    );
    std::io::stdout().flush()?;
    if let Some(path) = &args.json {
        let line = serde_json::json!({
            "row": row.name, "unit": row.unit.name(), "peer": peer.name, "loco": found.loco, "peer_figure": found.peer,
            "ratio": found.ratio, "quartiles": [found.quartiles.0, found.quartiles.1], "rounds_counted": found.counted,
            "rounds_made": found.made, "line_ns": [found.line_ns.0, found.line_ns.1], "goal": peer.goal,
        });
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
        writeln!(file, "{line}").with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

fn processor() -> String {
    let facts = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = facts
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    model.map_or_else(|| "a processor".into(), |(_, name)| name.trim().to_owned())
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
