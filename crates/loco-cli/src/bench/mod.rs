//! `loco bench`: starts nodes as a user's would be and measures one operation between them.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::time::Duration;

use clap::ValueEnum;
use loco::fabric::{FabricChoice, var};
use serde::Serialize;

use crate::error::CliError;
use crate::launcher::{Plan, launch};
use crate::run::local_nodes;

mod cases;
mod measure;
mod node;
mod objects;
mod progress;
mod workload;

pub use node::{NAME as NODE, NodeArgs, node};

use progress::Bar;
use workload::Workload;

/// Measure operations and objects between node processes on this machine.
///
/// `put` is timed by two nodes that put at each other in turn and watch their memory: half a round trip. `get` and
/// `atomic` are timed to their completion. `barrier` is measured with and without completing outstanding operations
/// first. `broadcast` sends messages through a ring buffer from node 0 to all others, with as many unacknowledged as
/// --window says, submitted a window at a time and (`broadcast-single`) one by one; its latency is from submitting one
/// message to its acknowledgement by all.
///
/// `lock`, `transfer`, `queue` and `kv` run for --duration, and check what they have done. `lock`: all threads increment
/// one word under one ticket lock. `transfer`: transfers between two random accounts, under two of --locks locks.
/// `queue`: every thread pushes and pops. `kv`: lookups and updates of a key-value store, --window of a thread under way
/// at a time, on keys of a --distribution. Their latency is that of single operations.
#[derive(clap::Args)]
pub struct Args {
    /// What to measure.
    #[arg(value_enum)]
    what: What,
    /// Number of node processes.
    #[arg(short, long, value_name = "N", default_value = "2", value_parser = clap::value_parser!(u16).range(2..))]
    nodes: u16,
    /// Fabric that the nodes use: shm, verbs (RDMA), or auto (verbs if every node has a usable device, else shm).
    #[arg(long, env = var::FABRIC, value_name = "FABRIC", default_value_t)]
    fabric: FabricChoice,
    #[command(flatten)]
    parameters: Parameters,
    /// Print one line of JSON a result, with the machine's facts.
    #[arg(long)]
    json: bool,
    /// End the measurement after this many seconds.
    #[arg(long, value_name = "SECONDS", default_value = "300")]
    timeout: u64,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// Write to a peer's memory.
    Put,
    /// Read a peer's memory.
    Get,
    /// Fetch-and-add on a peer's memory.
    Atomic,
    /// All nodes wait for each other.
    Barrier,
    /// One node sends messages to all others.
    Broadcast,
    /// All threads increment one word under one lock.
    Lock,
    /// Transfers between accounts, under two locks each.
    Transfer,
    /// All threads push and pop.
    Queue,
    /// Lookups and updates of a key-value store.
    Kv,
}

impl What {
    /// Whether it runs for a time, not for a number of operations.
    fn is_timed(self) -> bool {
        matches!(self, What::Lock | What::Transfer | What::Queue | What::Kv)
    }
}

/// How it is measured.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Parameters {
    /// Threads of each node that do it at the same time (`broadcast` has one sender and one receiver a node).
    #[arg(short, long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// Bytes moved at a time; 8, and for `broadcast` 64, unless given.
    #[arg(short, long = "size", value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    #[serde(rename = "size_bytes")]
    size: Option<u32>,
    /// Operations under way at a time.
    #[arg(short, long, value_name = "N", default_value = "64", value_parser = clap::value_parser!(u32).range(1..=32768))]
    window: u32,
    /// Operations measured.
    #[arg(short, long, value_name = "N", default_value = "200000", value_parser = clap::value_parser!(u64).range(1..))]
    iters: u64,
    /// Operations before that; a tenth of --iters unless given.
    #[arg(long, value_name = "N")]
    warmup: Option<u64>,
    #[command(flatten)]
    #[serde(skip)]
    workload: Workload,
}

impl Parameters {
    /// Bytes moved at a time.
    fn size(&self, default: u32) -> usize {
        self.size.unwrap_or(default) as usize
    }

    fn warmup(&self) -> u64 {
        self.warmup.unwrap_or(self.iters / 10)
    }

    /// As arguments.
    fn words(&self) -> Vec<OsString> {
        let mut words = vec![
            format!("--threads={}", self.threads),
            format!("--window={}", self.window),
            format!("--iters={}", self.iters),
        ];
        words.extend(self.size.map(|size| format!("--size={size}")));
        words.extend(self.warmup.map(|warmup| format!("--warmup={warmup}")));
        let words = words.into_iter().map(OsString::from);
        words.chain(self.workload.words()).collect()
    }
}

/// Starts the nodes and gives their exit code.
pub fn run(args: &Args) -> Result<u8, CliError> {
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
        timeout: Some(Duration::from_secs(args.timeout)),
        grace: Duration::from_secs(3),
        keep_going: false,
        prefix: false,
        bar: bar.as_ref().map(Bar::drawn),
        input: false,
        scratch: None,
    });
    drop(bar);
    Ok(ended?.code)
}
