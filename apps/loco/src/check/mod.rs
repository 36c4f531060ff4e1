//! `loco check`: explores what the memory model allows the built-in objects to do.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::ValueEnum;
use loco_app::{SECONDS_MAX, print};
use loco_sim::{Bounds, Config, FabricKind, Faults, Report, Schedule, Strategy, Tier, explore, replay};
use mowgli::shard::Shard;
use serde::Serialize;

use crate::error::CliError;

mod clients;
mod ladder;
mod liveness;
mod mesh;
mod mode;
mod one_world;
mod pictures;
mod progress;
mod robust;
mod soak;
mod target;

use loco_check::sized::{self, Size};
use loco_check::{FABRICS, Object};
use one_world::{say_what, show};
use pictures::Subject;
use target::Target;

/// The options that ask for worlds of a chosen size, in place of the ladder.
const SIZED: [&str; 12] = [
    "nodes",
    "threads",
    "ops",
    "strategy",
    "preemptions",
    "delays",
    "glob",
    "expiries",
    "crashes",
    "suspicions",
    "cuts",
    "soak",
];

/// Explore what the RDMA memory model allows a built-in object to do
///
/// The shipped object runs on the operational model of RDMA, in small worlds of
/// nodes that use it. Every explored execution is checked against what the object
/// promises. Without OBJECT, every object has its turn, and then mesh.
///
/// By default the ladder of the object runs for a minute (--time): worlds of two
/// nodes, of several threads each, of three nodes, with large records, with waits
/// that are late, with nodes that are lost. Each runs on the weakest network and on
/// shared memory, where the objects take other ways (--fabric). A line for each world
/// says how much of it was explored, and never more: everything (complete),
/// everything within bounds (complete up to ...), or so many random schedules. The
/// end says which public methods of the object no execution called.
///
/// `loco check mesh` explores the agreement of the nodes on who is in, which no
/// object is: up to four nodes, of which some stop, fall silent, join, leave or
/// lose a connection (docs/loss.md). It has no fabric and no schedules to repeat: a failure
/// is told as the list of its moves.
///
/// With --nodes, --threads, --ops, --strategy, --glob, --expiries, --crashes,
/// --suspicions or --cuts, one world of that size is explored instead.
///
/// With --liveness, the worlds of the ladder are searched for a call that does not
/// end though everybody moves who can: a livelock or a deadlock. A world that the
/// ladder calls complete has none. This search tells the loops that an unfair
/// schedule keeps going from livelocks, on shared memory unless --fabric is given.
///
/// With --clients, client programs are generated and run on the objects, with
/// --client one that is given (docs/clients.md). Every outcome that an execution
/// lets a client see must be one that the specifications of the objects' libraries
/// allow (docs/mowgli.md).
///
/// With --robust, the object's clients are compared with a strong memory, on which
/// every operation takes effect at once: an object is robust if its clients see
/// only what they would see there. The owned variable and the shared state table
/// are weak on purpose, and so are puts without a fence (docs/robustness.md). The
/// answer for each world is robust, weak with a history that no strong memory has
/// and its schedule, or unknown with how far the exploration came.
///
/// Examples:
///
///   loco check barrier
///
///   loco check ticket-lock --world crash --time 10
///
///   loco check barrier --nodes 2 --ops 2
///
///   loco check kv --fabric verbs --tier ibta
///
///   loco check ring-buffer --ops 5 --strategy bounded --delays 3
///
///   loco check ring-buffer --ops 3 --strategy pct --executions 100000
///
///   loco check barrier --clients 'threads<=3,calls<=2,with=sv'
///
///   loco check --client LOCO-13
///
///   loco check ring-buffer --replay '' --open
///
///   loco check owned-var --robust
///
///   loco check tas-lock --liveness
///
///   loco check --soak 1h
///
///   loco check mesh --world three-two-faults
///
///   loco check --json --shard 2/4
///
/// Exit status: 0 nothing found, 1 an execution breaks a promise or an object is not
/// as robust or weak as its documentation says, 2 bad usage, 3 with --client or
/// --clients: nothing found, but a limit left something open, 130 interrupted.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The object; all if none is named.
    #[arg(value_name = "OBJECT", value_parser = target::parser())]
    target: Option<Target>,
    /// Explore only this world of the ladder; may be given several times
    #[arg(long, alias = "rung", value_name = "NAME", requires = "target", conflicts_with_all = SIZED)]
    world: Vec<String>,
    /// List the worlds of the ladder, and explore nothing
    #[arg(long, alias = "rungs", conflicts_with_all = SIZED)]
    worlds: bool,
    /// Nodes of the world (2 unless given)
    #[arg(long, value_parser = loco_app::number::<u16>(2..=8))]
    nodes: Option<u16>,
    /// Threads on each node; more than one for the barrier, atomic variable, locks, queue and key-value store.
    #[arg(long, value_parser = loco_app::number::<u16>(1..=4))]
    threads: Option<u16>,
    /// Operations of each thread (1 unless given)
    #[arg(long, value_parser = loco_app::number::<u64>(1..=100))]
    ops: Option<u64>,
    /// Schedules of a world of chosen size (exhaustive unless given)
    #[arg(long, value_enum)]
    strategy: Option<How>,
    /// Bounded: most preemptions of an execution. A preemption is a move of another thread, store buffer or
    /// queue pair than the last while that one could go on.
    #[arg(long, value_name = "N", value_parser = loco_app::number::<u32>(..=1_000_000))]
    preemptions: Option<u32>,
    /// Bounded: most delays of an execution. A delay skips a possible move in a fixed round.
    #[arg(long, value_name = "N", value_parser = loco_app::number::<u32>(..=1_000_000))]
    delays: Option<u32>,
    /// Number of random schedules.
    #[arg(long, default_value_t = 10_000, value_parser = loco_app::number::<u64>(1..=1_000_000_000_000_000))]
    executions: u64,
    /// Seed of random schedules.
    #[arg(long, default_value_t = 1, value_parser = loco_app::number::<u64>(..))]
    seed: u64,
    /// Depth of PCT: one more than the points at which priorities change.
    #[arg(long, default_value_t = 3, value_parser = loco_app::number::<u32>(1..=1000))]
    depth: u32,
    /// Seconds for each object's ladder (60 unless given), or after which to give up a world of chosen size
    #[arg(long, value_parser = loco_app::number::<u64>(1..=SECONDS_MAX))]
    time: Option<u64>,
    /// Make remote read-modify-writes atomic against the CPU too.
    #[arg(long)]
    glob: bool,
    /// Most deadlines that pass in an execution while something else could still happen. A wait that only its deadline
    /// could end is a deadlock
    #[arg(long, value_name = "N", value_parser = loco_app::number::<u32>(..=1_000_000))]
    expiries: Option<u32>,
    /// Most nodes that stop for good in an execution, at any step
    #[arg(long, value_name = "N", value_parser = loco_app::number::<u32>(..=1_000_000))]
    crashes: Option<u32>,
    /// Most nodes that are declared lost in an execution, at any step, although they live
    #[arg(long, value_name = "N", value_parser = loco_app::number::<u32>(..=1_000_000))]
    suspicions: Option<u32>,
    /// Most links that are cut for a while in an execution, at any step
    #[arg(long, value_name = "N", value_parser = loco_app::number::<u32>(..=1_000_000))]
    cuts: Option<u32>,
    /// Repeat this schedule, from an earlier failure, and explore nothing.
    #[arg(long, conflicts_with_all = ["strategy", "soak"])]
    replay: Option<Schedule>,
    /// Explore for this time, such as 90s, 10m or 2h: worlds of all sizes up to --nodes and --ops (at least 3), by
    /// random schedules of several kinds and within bounds, with ever new seeds.
    #[arg(long, value_name = "DURATION", value_parser = soak::duration, conflicts_with_all = ["strategy", "time"])]
    soak: Option<Duration>,
    /// Compare the object with a strong memory; with --world, in worlds of the ladder
    #[arg(long, conflicts_with_all = SIZED, conflicts_with_all = ["replay", "worlds", "client", "clients"])]
    robust: bool,
    /// Look for a call that does not end in a fair execution; with --world, in worlds of the ladder
    #[arg(long, conflicts_with_all = SIZED, conflicts_with_all = ["replay", "worlds", "client", "clients", "robust"])]
    liveness: bool,
    /// Draw the failing execution, or the one of --replay, as SVG into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Draw the execution as Graphviz DOT into this file
    #[arg(long, value_name = "FILE")]
    dot: Option<PathBuf>,
    /// Write the failing execution, or the one of --replay, as a film into this file: one HTML document with the machine step by
    /// step, the calls of the object, and what was outstanding
    #[arg(long, value_name = "FILE", conflicts_with_all = ["soak", "worlds"])]
    html: Option<PathBuf>,
    /// Open the film in the browser
    #[arg(long, conflicts_with_all = ["soak", "worlds"])]
    open: bool,
    /// Do share I of N of the objects only (1/4 to 4/4), or the share of this Slurm array task (slurm). With --json, the first
    /// line names the share, and `mowgli merge` joins the outputs of all shares
    #[arg(long, value_name = "I/N", value_parser = shard, conflicts_with_all = ["target", "soak", "client", "replay", "worlds"])]
    shard: Option<Shard>,
    /// The order of the network: unordered, on which an operation comes after others only where it asks to, ibta (the order of
    /// the InfiniBand specification), ooo-rw, ooo-all or pcie-relaxed (docs/ordering-models.md). Unordered unless given, and ibta
    /// for clients of RDMA^WAIT itself
    #[arg(long, value_name = "TIER")]
    tier: Option<Tier>,
    /// The fabric whose capabilities the world's fabric has: model, the weakest; shm, on which every operation is done at once;
    /// verbs, verbs-no-inline, ofi or tcp. May be given several times. Both model and shm unless given or --tier or --glob is, and
    /// model for clients and with --robust
    #[arg(long, value_name = "NAME")]
    fabric: Vec<FabricKind>,
    /// Print one line of JSON for each object and, with --nodes and the like, for each fabric.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    clients: clients::ClientArgs,
}

/// Strategies by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum How {
    /// All schedules.
    Exhaustive,
    /// All schedules within --preemptions and --delays.
    Bounded,
    /// Random schedules with uniform choices.
    Random,
    /// Random schedules by priorities (probabilistic concurrency testing).
    Pct,
}

/// Reads a share. Slurm's variables come from the environment.
fn shard(text: &str) -> Result<Shard, String> {
    Shard::read(text, |name| std::env::var(name).ok())
}

/// The exit status if a limit left an answer open, as of `mowgli`.
const UNKNOWN: u8 = 3;
/// The exit status after Ctrl-C, as shells report it.
pub(crate) const INTERRUPTED: u8 = 130;

/// Explores and reports.
pub fn run(args: &Args, given: &[String]) -> Result<u8, CliError> {
    args.validate()?;
    args.refuse_what_has_no_effect(given)?;
    if let (Some(shard), true) = (args.shard, args.json) {
        print(format_args!("{{\"shard\":\"{shard}\"}}"))?;
    }
    let cancel = interrupt_flag();
    if let Some(duration) = args.soak {
        return soak::run(args, duration, &cancel);
    }
    if args.clients.is_asked() {
        return clients::run(args, &cancel);
    }
    if args.robust {
        return robust::run(args, &cancel);
    }
    if args.liveness {
        return liveness::run(args, &cancel);
    }
    if !args.is_sized() {
        return ladder::run(args, &cancel);
    }
    let mut found = false;
    for object in args.share(args.objects()?) {
        let size = args.size();
        if !args.json {
            say_what(object, size)?;
        }
        for fabric in args.fabrics() {
            let config = args.config(&cancel).fabric(fabric);
            let report = check(&config, object, size, args.replay.as_ref())?;
            show(args, object, size, config.strategy, &report)?;
            found |= report.failure.is_some();
            args.draw(object, size, &config, &report)?;
            if progress::is_set(&cancel) {
                return Ok(if found { 1 } else { INTERRUPTED });
            }
            if report.failure.is_some() {
                break;
            }
        }
    }
    Ok(u8::from(found))
}

/// Explores one world once.
fn check(
    config: &Config,
    object: Object,
    size: Size,
    schedule: Option<&Schedule>,
) -> Result<Report, CliError> {
    let world = |world: &mut loco_sim::World| {
        size.build(object, world);
    };
    let report = match schedule {
        Some(schedule) => replay(config, schedule, world),
        None => explore(config, world),
    };
    progress::clear(config);
    report.map_err(|error| CliError::Usage(error.to_string()))
}

impl Args {
    fn validate(&self) -> Result<(), CliError> {
        let usage = |text: &str| Err(CliError::Usage(text.into()));
        if self.replay.is_some() && self.target.is_none() && !self.clients.is_asked() {
            return usage("--replay: say which OBJECT's world or which --client the schedule is of");
        }
        if self.wants_pictures() && self.target.is_none() && !self.clients.is_asked() {
            return usage(
                "--svg, --dot, --html and --open: say which OBJECT or which --client is to be drawn",
            );
        }
        if self.threads.unwrap_or(1) > 1 && !self.object().is_some_and(Object::is_for_threads) {
            return usage(
                "--threads: this object has one thread a node; the barrier and those made of atomics have more",
            );
        }
        let asks_of_network = self.tier.is_some() || self.glob;
        if asks_of_network && self.fabric.iter().any(|fabric| !fabric.has_tiers()) {
            return usage(
                "--tier and --glob say how a network and its cards are: shared memory and TCP have none",
            );
        }
        let bounds = self.preemptions.is_some() || self.delays.is_some();
        match (self.strategy == Some(How::Bounded), bounds) {
            (true, false) => usage("--strategy bounded: say --preemptions or --delays, or both"),
            (false, true) => usage("--preemptions and --delays are for --strategy bounded"),
            _ => Ok(()),
        }
    }

    /// Returns whether the options ask for a world of chosen size in place of the ladder. So does a schedule
    /// that is of no world by name.
    fn is_sized(&self) -> bool {
        self.nodes.is_some()
            || self.threads.is_some()
            || self.ops.is_some()
            || self.strategy.is_some()
            || self.preemptions.is_some()
            || self.delays.is_some()
            || self.glob
            || self.faults() != Faults::default()
            || (self.replay.is_some() && self.world.is_empty())
    }

    /// Returns the objects of this share of the run.
    fn share<T>(&self, objects: Vec<T>) -> impl Iterator<Item = T> {
        let shard = self.shard.unwrap_or(Shard::WHOLE);
        let numbered = objects.into_iter().enumerate();
        numbered
            .filter(move |(unit, _)| shard.has(*unit))
            .map(|(_, object)| object)
    }

    /// Returns the object that was named, or else all objects that have worlds of chosen size.
    fn objects(&self) -> Result<Vec<Object>, CliError> {
        let sized = Object::ALL.into_iter().filter(|object| object.has_sizes());
        match self.object() {
            None => Ok(sized.collect()),
            Some(object) if object.has_sizes() => Ok(vec![object]),
            Some(object) => Err(CliError::Usage(format!(
                "`{object}` has a ladder only: leave out --nodes, --ops, --strategy and the like"
            ))),
        }
    }

    /// Returns the fabrics on which worlds run: one for a schedule.
    fn fabrics(&self) -> Vec<FabricKind> {
        let of_schedule = self.replay.as_ref().map(|schedule| {
            let asked = self.fabric.first().copied();
            schedule.fabric().or(asked).unwrap_or_default()
        });
        match of_schedule {
            Some(fabric) => vec![fabric],
            None if !self.fabric.is_empty() => self.fabric.clone(),
            // These ask about a network and its cards.
            None if self.tier.is_some() || self.glob => vec![FabricKind::Model],
            None => FABRICS.to_vec(),
        }
    }

    /// Returns the order of the network.
    fn tier(&self) -> Tier {
        self.tier.unwrap_or(Config::default().tier)
    }

    fn size(&self) -> Size {
        Size {
            nodes: self.nodes.unwrap_or(2),
            threads: usize::from(self.threads.unwrap_or(1)),
            ops: self.ops.unwrap_or(1),
        }
    }

    fn config(&self, cancel: &Arc<AtomicBool>) -> Config {
        let (executions, seed, depth) = (self.executions, self.seed, self.depth);
        let mut config = Config {
            strategy: match self.strategy.unwrap_or(How::Exhaustive) {
                How::Exhaustive => Strategy::Exhaustive,
                How::Bounded => Strategy::Bounded(Bounds {
                    preemptions: self.preemptions,
                    delays: self.delays,
                }),
                How::Random => Strategy::Random { executions, seed },
                How::Pct => Strategy::Pct {
                    executions,
                    seed,
                    depth,
                },
            },
            estimates: true,
            tier: self.tier(),
            glob: self.glob,
            faults: self.faults(),
            time_max: self.time.map(Duration::from_secs),
            progress: progress::printer(self.json),
            cancel: Some(cancel.clone()),
            ..Config::default()
        };
        sized::configure(&mut config);
        config
    }

    fn faults(&self) -> Faults {
        Faults {
            expiries: self.expiries.unwrap_or(0),
            crashes: self.crashes.unwrap_or(0),
            suspicions: self.suspicions.unwrap_or(0),
            cuts: self.cuts.unwrap_or(0),
            ..Faults::default()
        }
    }

    /// Writes the pictures that the options ask for.
    fn draw(&self, object: Object, size: Size, config: &Config, report: &Report) -> Result<(), CliError> {
        let name = object.name();
        let subject = Subject::of(name, report.failure.as_ref(), self.replay.as_ref());
        let world = |world: &mut loco_sim::World| {
            size.build(object, world);
        };
        pictures::write_world(self, &subject, config, world)
    }
}

/// Returns a flag that Ctrl-C sets. A second Ctrl-C ends the process at once.
pub(crate) fn interrupt_flag() -> Arc<AtomicBool> {
    use signal_hook::consts::SIGINT;
    let flag = Arc::new(AtomicBool::new(false));
    // If the handler cannot be installed, Ctrl-C ends the process, which is the system's own behaviour. There
    // is nothing to report.
    let _ = signal_hook::flag::register_conditional_shutdown(SIGINT, INTERRUPTED.into(), flag.clone());
    let _ = signal_hook::flag::register(SIGINT, flag.clone());
    flag
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use loco::fabric::{AnyConfig, AnyFabric, Fabric as _, FabricChoice, Mesh};

    use super::*;

    /// Compares the capabilities of the model's fabric `shm` with those of shared memory: only if they are equal do both run the same
    /// code.
    #[test]
    fn the_model_has_the_capabilities_of_the_fabric_for_shared_memory() {
        let mesh = Mesh::in_process(1).unwrap().remove(0);
        let config = AnyConfig::default().choice(FabricChoice::Shm);
        let shipped = AnyFabric::new(mesh, config).unwrap();
        assert_eq!(FabricKind::Shm.caps(Tier::Unordered, false), *shipped.caps());
    }

    #[test]
    fn the_model_has_the_capabilities_of_the_fabric_over_tcp() {
        let mesh = Mesh::in_process(1).unwrap().remove(0);
        let config = AnyConfig::default().choice(FabricChoice::Tcp);
        let shipped = AnyFabric::new(mesh, config).unwrap();
        assert_eq!(FabricKind::Tcp.caps(Tier::Unordered, false), *shipped.caps());
    }
}
