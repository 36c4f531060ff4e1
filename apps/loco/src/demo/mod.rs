//! `loco demo`: nodes that meet and use objects together, started by the launcher as a user's would be.

use std::time::Duration;

use loco::fabric::{FabricChoice, var};

use crate::error::CliError;
use crate::launcher::{Plan, launch};
use crate::run::local_nodes;

mod node;

pub use node::{Args as NodeArgs, NAME as NODE, node};

/// Start node processes on this machine that meet, wait at a barrier, broadcast through a ring buffer and read each
/// other's state in a table, and print what happened and how long it took.
#[derive(clap::Args)]
pub struct Args {
    /// Number of node processes.
    #[arg(short, long, value_name = "N", default_value = "3", value_parser = loco_app::number::<u16>(1..))]
    nodes: u16,
    /// Fabric that the nodes use: shm, verbs (RDMA), tcp, ofi or ofi:PROVIDER (libfabric), or auto (the best that every node has).
    #[arg(long, env = var::FABRIC, value_name = "FABRIC", default_value_t)]
    fabric: FabricChoice,
    /// Print one line of JSON a result, with the machine's facts.
    #[arg(long)]
    json: bool,
    /// Make only a thousandth of the barriers and messages, for emulated devices.
    #[arg(long)]
    quick: bool,
}

/// Starts the nodes and returns their exit code.
pub fn run(args: &Args) -> Result<u8, CliError> {
    let own = std::env::current_exe().map_err(CliError::os("finding this program"))?;
    let mut command = vec![own.into_os_string(), NODE.into()];
    if args.json {
        command.push("--json".into());
    }
    if args.quick {
        command.push("--quick".into());
    }
    let ended = launch(&Plan {
        nodes: local_nodes(args.nodes, args.fabric)?,
        command,
        timeout: None,
        grace: Duration::from_secs(3),
        keep_going: false,
        prefix: !args.json,
        joins: false,
        bar: None,
        input: false,
        scratch: None,
    })?;
    Ok(ended.code)
}
