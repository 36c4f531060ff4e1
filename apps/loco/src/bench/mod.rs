//! `loco bench`: starts nodes as for a user's program and measures one operation between them.

use std::io::IsTerminal;
use std::time::Duration;

use clap::ValueEnum;
use loco::fabric::{FabricChoice, var};

use loco_app::some_time;

use crate::effect::refuse_others;
use crate::error::CliError;
use crate::launcher::{Plan, launch};
use crate::run::local_nodes;

mod cases;
mod measure;
mod node;
mod objects;
mod parameters;
mod progress;
mod site;
mod workload;

pub use node::{NAME as NODE, NodeArgs, node};

use parameters::{MODES, Parameters, What};
use progress::Bar;

/// Measure operations and objects between node processes on this machine.
///
/// `put` is timed by two nodes that put at each other in turn and watch their memory: half a round trip. `get` and
/// `atomic` are timed to their completion. `barrier` is measured with and without completing outstanding operations
/// first. `broadcast` sends messages through a ring buffer from node 0 to all others, with as many unacknowledged as
/// --window says, submitted a window at a time and (`broadcast-single`) one by one; its latency is from submitting one
/// message to its acknowledgement by all. `ping-pong` sends messages to and fro through two ring buffers: half a round trip.
///
/// `lock`, `transfer`, `queue` and `kv` run for --duration and check their own results. `lock`: all threads
/// increment one word under one ticket lock. `transfer`: transfers between two random accounts, under two of
/// --locks locks. `queue`: every thread pushes and pops. `kv`: lookups and updates of a key-value store on
/// keys of a --distribution; each thread has --window of them under way. The latency is that of single
/// operations.
#[derive(clap::Args)]
pub struct Args {
    /// The operation or object to measure.
    #[arg(value_enum)]
    what: What,
    /// Number of node processes.
    #[arg(short, long, value_name = "N", default_value = "2", value_parser = loco_app::number::<u16>(2..))]
    nodes: u16,
    /// Fabric that the nodes use: shm, verbs (RDMA), tcp, ofi or ofi:PROVIDER (libfabric), or auto (the best that every node has).
    #[arg(long, env = var::FABRIC, value_name = "FABRIC", default_value_t)]
    fabric: FabricChoice,
    #[command(flatten)]
    parameters: Parameters,
    /// Print one line of JSON a result, with the machine's facts.
    #[arg(long)]
    json: bool,
    /// End the measurement after this time.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = some_time)]
    timeout: Duration,
}

/// Starts the nodes and returns their exit code.
pub fn run(args: &Args, given: &[String]) -> Result<u8, CliError> {
    refuse_others(
        given,
        args.what.mode(),
        &MODES,
        &["--nodes", "--fabric", "--json", "--timeout"],
    )?;
    let own = std::env::current_exe().map_err(CliError::os("finding this program"))?;
    let what = args
        .what
        .to_possible_value()
        .map(|value| value.get_name().to_owned());
    let mut command = vec![own.into_os_string(), NODE.into(), what.unwrap_or_default().into()];
    command.extend(args.parameters.words());
    if args.json {
        command.push("--json".into());
    }
    let mut nodes = local_nodes(args.nodes, args.fabric)?;
    let bar = if std::io::stderr().is_terminal() {
        let bar = Bar::start()?;
        for node in &mut nodes {
            node.set.push((progress::VARIABLE, bar.path()));
        }
        Some(bar)
    } else {
        None
    };
    let ended = launch(&Plan {
        nodes,
        command,
        timeout: Some(args.timeout),
        grace: Duration::from_secs(3),
        keep_going: false,
        prefix: false,
        joins: false,
        bar: bar.as_ref().map(Bar::drawn),
        input: false,
        scratch: None,
    });
    drop(bar);
    Ok(ended?.code)
}
