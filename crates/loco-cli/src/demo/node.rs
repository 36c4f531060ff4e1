//! One node of `loco demo`.

use std::time::Duration;

use loco_fabric::{Job, Mesh, Platform, Std, Time, var};
use serde::Serialize;

use crate::error::CliError;
use crate::record::Record;

/// Name of the subcommand.
pub const NAME: &str = "demo-node";

/// Rounds of the exchange that is timed.
const ROUNDS: u32 = 200;
/// The whole demonstration takes well under a second.
const PATIENCE: Duration = Duration::from_secs(30);

/// Be one node of the demonstration: `loco run -n 3 -- loco demo-node`.
#[derive(clap::Args)]
pub struct Args {
    /// Print one line of JSON a result, with the machine's facts.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Parameters {
    nodes: usize,
    rounds: u32,
}

#[derive(Serialize)]
struct Results {
    meet_ms: f64,
    exchange_us_mean: f64,
}

/// Meets the others, hears from each, and (on the lowest node) reports how long that took.
pub fn node(args: &Args) -> Result<u8, CliError> {
    let start = Std.now();
    let mesh = Mesh::connect(&Job::from_env()?)?;
    let met = Std.now();
    let process = std::process::id();
    let all = mesh.allgather("processes", &process.to_le_bytes(), deadline())?;
    if !args.json {
        println!("process {process} meets {} others", all.len() - 1);
    }
    let begin = Std.now();
    for _ in 0..ROUNDS {
        mesh.allgather("round", &[], deadline())?;
    }
    let exchange = Std.now().since(begin) / ROUNDS;
    if mesh.nodes().first() == Some(&mesh.node()) {
        let parameters = Parameters {
            nodes: all.len(),
            rounds: ROUNDS,
        };
        let results = Results {
            meet_ms: met.since(start).as_secs_f64() * 1e3,
            exchange_us_mean: exchange.as_secs_f64() * 1e6,
        };
        if args.json {
            let fabric = std::env::var(var::FABRIC).unwrap_or_default();
            println!("{}", Record::new("meet", fabric, parameters, results).line()?);
        } else {
            println!(
                "all nodes connected after {:.1} ms; an exchange of all with all takes {:.0} us",
                results.meet_ms, results.exchange_us_mean
            );
        }
    }
    // Nobody leaves before all are done.
    mesh.allgather("done", &[], deadline())?;
    Ok(0)
}

fn deadline() -> Time {
    Std.now().after(PATIENCE)
}
