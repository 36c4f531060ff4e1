//! Runs a program at random under the model for some seconds, and ends with 1 if an execution fails: for `tools/mutants`.
//!
//!     program SECONDS NODES [--crashes N] [--expiries N] PROGRAM [OPTIONS...]
//!
//! The programs are those of the crate, and `bulletin`: the channel of the project that `loco new` makes, with a program around it
//! as a user would write it. `--crashes N` lets nodes stop, and `--expiries N` lets deadlines pass. A program may then end with the
//! error that says so.

#[allow(dead_code)] // The template has all of its project.
#[path = "../../loco/templates/rust/src/lib.rs"]
mod bulletin;

use std::process::ExitCode;
use std::time::Duration;

use loco::fabric::{Fabric, NodeId};
use loco::{Manager, Result};
use loco_programs::Program;
use loco_sim::{Blame, Config, FabricKind, ModelFabric, World, rounds};

/// The number that is published.
const NUMBER: u64 = 42;

fn main() -> ExitCode {
    match run(std::env::args().skip(1).collect()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("program: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(args: Vec<String>) -> Result<ExitCode, String> {
    let [seconds, nodes, rest @ ..] = &args[..] else {
        return Err("give SECONDS, NODES and a PROGRAM".to_owned());
    };
    let seconds = seconds
        .parse()
        .map_err(|_| format!("no number of seconds: {seconds}"))?;
    let nodes = nodes
        .parse()
        .map_err(|_| format!("no number of nodes: {nodes}"))?;
    let mut config = Config::default();
    let mut call = rest;
    while let [option, most, after @ ..] = call {
        let most = || {
            most.parse()
                .map_err(|_| format!("no number for {option}: {most}"))
        };
        match option.as_str() {
            "--crashes" => config.faults.crashes = most()?,
            "--expiries" => config.faults.expiries = most()?,
            _ => break,
        }
        config.faults.idle_expiries = true;
        config.longer_fails = true;
        call = after;
    }
    let name = call.first().map_or("", String::as_str);
    let add: Box<dyn Fn(&mut World) + Sync> = match name {
        "bulletin" => Box::new(move |world| {
            // A publisher that has ended may be gone before its news arrive.
            let blames = |failed: &Failed| match failed {
                Failed::Object(error) if error.is_timeout() => Some(Blame::Deadline),
                Failed::Object(error) => error.lost_peer().map(Blame::Loss),
                Failed::Wrong(_) => None,
            };
            world.program_with_faults(nodes, publish, blames);
        }),
        _ => {
            let program =
                Program::read(call, nodes, b"put a 1\nget a\nquit\n").map_err(|error| error.to_string())?;
            Box::new(move |world| program.build(world))
        }
    };
    let fabrics = [FabricKind::Model, FabricKind::Shm];
    let report = rounds(&config, &fabrics, Duration::from_secs(seconds), 1, add);
    Ok(
        match report.map(|report| (report.seen(), report.stats.executions, report.failure)) {
            Ok((seen, executions, None)) => {
                println!("{name}: nothing found in {executions} executions, {seen}");
                ExitCode::SUCCESS
            }
            Ok((_, executions, Some(failure))) => {
                println!(
                    "{name} after {executions} executions: {}\n{failure}",
                    failure.summary()
                );
                ExitCode::FAILURE
            }
            // The program is no function of what the model answers, or it ends the exploration in another way.
            Err(error) => {
                println!("{name}: {error}");
                ExitCode::FAILURE
            }
        },
    )
}

/// The failure of a node that runs the project's program.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error(transparent)]
    Object(#[from] loco::Error),
    #[error("{0} was read, and {NUMBER} was published")]
    Wrong(u64),
}

/// The program of the project that `loco new` makes, with the number checked.
fn publish(fabric: ModelFabric) -> Result<(), Failed> {
    match show(fabric)? {
        None | Some(NUMBER) => Ok(()),
        Some(number) => Err(Failed::Wrong(number)),
    }
}

fn show(fabric: impl Fabric) -> Result<Option<u64>> {
    let node = Manager::new(fabric)?;
    let publisher = NodeId(0);
    let bulletin = bulletin::Bulletin::new(&node, "bulletin", publisher)?;
    node.wait_for_ready()?;
    let thread = node.thread()?;
    if node.node() == publisher {
        bulletin.publish(&thread, NUMBER)?;
        return Ok(None);
    }
    bulletin.read(&thread).map(Some)
}
