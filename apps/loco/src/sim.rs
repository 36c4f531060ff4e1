//! `loco sim`: runs a program of this repository under the memory model, as it is.
//!
//! Relies on `loco-programs`, which knows the programs, and on `loco-sim`.

use std::io::Read as _;
use std::time::Duration;

use loco_app::{OutputError, SECONDS_MAX, counted, print};
use loco_check::FABRICS;
use loco_programs::{NoProgram, Program};
use loco_sim::{
    Bounds, Completeness, Config, FabricKind, Faults, Report, Schedule, SimError, Stats, Strategy, Tier,
    World, explore, replay, rounds,
};
use serde::Serialize;

use crate::check::{INTERRUPTED, interrupt_flag};
use crate::error::CliError;

/// Run a program under the RDMA memory model, at random or within bounds
///
/// The program is as its command runs it, from its beginning to its end on every
/// node, over the model of a network in place of a network. There it finds itself in
/// executions that a real machine shows rarely or never. An error that a node
/// returns, a panic, and threads that wait for ever are failures: the report has the
/// steps, and a schedule that repeats them.
///
/// By default random executions run for a minute, on the weakest network and on
/// shared memory in turn. With --delays, all executions with at most so many delays
/// are explored instead, which is for programs with very little to do.
///
/// The programs are `transfer` and `kv` (kv load, kv shell). They take the options of
/// their commands. Without options they get ones with which they end soon. No time
/// passes, so a program needs a number of operations. `kv shell` gets the standard
/// input in every execution. A program of your own is run by a test of its own:
/// docs/checking-your-channel.md.
///
/// Without more options no deadline passes and no node is lost. With --crashes,
/// --suspicions or --expiries, faults happen at any step of random executions. A node
/// may then end with an error that reports the loss of a node that is lost, or a
/// deadline of its own that has passed, and is then lost to the others. The others
/// end, too: with such an error, or with the right result. A wrong result, another
/// error, one that blames a node that is not lost, a panic, and a node that goes on
/// for ever are failures.
///
/// Examples:
///
///   loco sim transfer
///
///   loco sim --nodes 3 --seconds 600 --seed 7 -- transfer --accounts 4 --locks 2 --transfers 3
///
///   loco sim -- kv load --threads 2 --keys 2 --ops 2 --window 1
///
///   loco sim --crashes 1 -- transfer --accounts 2 --locks 1 --transfers 2
///
///   loco sim --replay '' -- transfer --single-lock --transfers 1
///
/// Exit status: 0 nothing found, 1 an execution fails, 2 bad usage, 130 interrupted.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Nodes that run the program
    #[arg(short, long, value_name = "N", default_value_t = 2, value_parser = loco_app::number::<u16>(1..=8))]
    nodes: u16,
    /// Seconds of random executions, or after which to give up exploring
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = loco_app::number::<u64>(1..=SECONDS_MAX))]
    seconds: u64,
    /// Seed of random executions
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = loco_app::number::<u64>(..), conflicts_with_all = ["delays", "replay"])]
    seed: u64,
    /// Explore all executions with at most N delays, in place of random ones. A delay skips a possible move in a fixed round
    #[arg(long, value_name = "N", value_parser = loco_app::number::<u32>(..=1_000_000), conflicts_with = "replay")]
    delays: Option<u32>,
    /// Let up to N nodes of an execution stop for good, at any step. Executions are random ones
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = loco_app::number::<u32>(..=8), conflicts_with = "delays")]
    crashes: u32,
    /// Let up to N nodes be declared lost although they live: their next call says so
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = loco_app::number::<u32>(..=8), conflicts_with = "delays")]
    suspicions: u32,
    /// Let up to N waits end by their deadlines while something else could happen
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = loco_app::number::<u32>(..=1_000), conflicts_with = "delays")]
    expiries: u32,
    /// Repeat this schedule, from an earlier failure of the same call
    #[arg(long, value_name = "SCHEDULE")]
    replay: Option<Schedule>,
    /// The order of the network, as for `loco check`. Shared memory then has no turn
    #[arg(long, value_name = "TIER", conflicts_with = "fabric")]
    tier: Option<Tier>,
    /// The fabric whose capabilities the network has, as for `loco check`. May be given several times. Both model and shm unless
    /// given or --tier is
    #[arg(long, value_name = "NAME")]
    fabric: Vec<FabricKind>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    /// The program, and its options
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_names = ["PROGRAM", "ARGS"])]
    call: Vec<String>,
}

/// A line of `--json`.
#[derive(Serialize)]
struct Line<'a> {
    program: &'a [String],
    nodes: u16,
    mode: &'a str,
    seed: Option<u64>,
    fabric: FabricKind,
    tier: Tier,
    faults: Faults,
    passed: bool,
    completeness: &'a Completeness,
    stats: &'a Stats,
    failure: Option<String>,
    schedule: Option<String>,
}

/// Runs the program, and reports.
pub fn run(args: &Args) -> Result<u8, CliError> {
    let program = Program::read(&args.call, args.nodes, &input(&args.call)?);
    let program = program.map_err(|error: NoProgram| CliError::Usage(error.to_string()))?;
    let cancel = interrupt_flag();
    let config = Config {
        tier: args.tier.unwrap_or(Config::default().tier),
        faults: args.faults(),
        // After a loss the others end, too.
        longer_fails: args.faults() != Faults::default(),
        time_max: Some(Duration::from_secs(args.seconds)),
        cancel: Some(cancel.clone()),
        ..Config::default()
    };
    let report = args.report(&config, |world| {
        world.name(&args.call.join(" "));
        program.build(world);
    });
    let report = report.map_err(|error| CliError::Usage(error.to_string()))?;
    match args.json {
        true => args.print_json(&report)?,
        false => args.print_text(program.call(), &report)?,
    }
    // Relaxed: the flag publishes no other data.
    let interrupted = cancel.load(std::sync::atomic::Ordering::Relaxed);
    Ok(match report.failure {
        Some(_) => 1,
        None if interrupted => INTERRUPTED,
        None => 0,
    })
}

/// Returns the standard input, if the program reads it.
fn input(call: &[String]) -> Result<Vec<u8>, CliError> {
    let mut input = Vec::new();
    if loco_programs::reads_input(call) {
        let read = std::io::stdin().read_to_end(&mut input);
        read.map_err(CliError::os("reading the program's standard input"))?;
    }
    Ok(input)
}

impl Args {
    fn report(&self, config: &Config, world: impl Fn(&mut World) + Sync) -> Result<Report, SimError> {
        if let Some(schedule) = &self.replay {
            return replay(config, schedule, world);
        }
        let fabrics = self.fabrics();
        let Some(delays) = self.delays else {
            return rounds(
                config,
                &fabrics,
                Duration::from_secs(self.seconds),
                self.seed,
                world,
            );
        };
        let bounds = Bounds {
            delays: Some(delays),
            preemptions: None,
        };
        let mut all: Option<Report> = None;
        for fabric in fabrics {
            let config = config.clone().fabric(fabric).strategy(Strategy::Bounded(bounds));
            let mut report = explore(&config, &world)?;
            if let Some(before) = &all {
                let stats = &mut report.stats;
                stats.executions += before.stats.executions;
                stats.states += before.stats.states;
                stats.transitions += before.stats.transitions;
                stats.depth_max = stats.depth_max.max(before.stats.depth_max);
                stats.seconds += before.stats.seconds;
            }
            let is_last =
                report.failure.is_some() || matches!(report.completeness, Completeness::Incomplete(_));
            all = Some(report);
            if is_last {
                break;
            }
        }
        all.ok_or_else(|| SimError::Host("no fabric to explore".to_owned()))
    }

    /// Returns the faults that may happen.
    fn faults(&self) -> Faults {
        let (crashes, suspicions, expiries) = (self.crashes, self.suspicions, self.expiries);
        Faults {
            crashes,
            suspicions,
            expiries,
            // Waits for what never comes end, too.
            idle_expiries: crashes + suspicions + expiries > 0,
            ..Faults::default()
        }
    }

    /// Returns the options that name the faults.
    fn fault_options(&self) -> String {
        [
            ("crashes", self.crashes),
            ("suspicions", self.suspicions),
            ("expiries", self.expiries),
        ]
        .iter()
        .filter(|(_, number)| *number > 0)
        .map(|(name, number)| format!("--{name} {number} "))
        .collect()
    }

    fn fabrics(&self) -> Vec<FabricKind> {
        match self.tier {
            Some(_) => vec![FabricKind::Model],
            None if self.fabric.is_empty() => FABRICS.to_vec(),
            None => self.fabric.clone(),
        }
    }

    fn print_json(&self, report: &Report) -> Result<(), OutputError> {
        let mode = match (&self.replay, self.delays) {
            (Some(_), _) => "replay",
            (None, Some(_)) => "bounded",
            (None, None) => "random",
        };
        let line = Line {
            program: &self.call,
            nodes: self.nodes,
            mode,
            seed: (mode == "random").then_some(self.seed),
            fabric: report.fabric,
            tier: report.tier,
            faults: report.faults,
            passed: report.failure.is_none(),
            completeness: &report.completeness,
            stats: &report.stats,
            failure: report.failure.as_ref().map(ToString::to_string),
            schedule: report
                .failure
                .as_ref()
                .map(|failure| failure.schedule.to_string()),
        };
        // The line has only strings, numbers and booleans, which always serialize.
        print(serde_json::to_string(&line).unwrap_or_default())
    }

    fn print_text(&self, call: &[String], report: &Report) -> Result<(), OutputError> {
        let Stats {
            executions,
            transitions,
            depth_max,
            seconds,
            ..
        } = report.stats;
        let call = call.join(" ");
        match &report.failure {
            Some(failure) => {
                print(format_args!(
                    "FAILED on {}\n{failure}",
                    report.fabric.on(report.tier)
                ))?;
                print(format_args!(
                    "again: loco sim --nodes {} {}--replay '{}' -- {call}",
                    self.nodes,
                    self.fault_options(),
                    failure.schedule
                ))?;
            }
            None => {
                // A limit may have come before the turn of all fabrics.
                let seen = match (&self.replay, &report.completeness) {
                    (Some(_), _) | (_, Completeness::Incomplete(_)) => vec![report.fabric],
                    _ => self.fabrics(),
                };
                let tier = self.tier.unwrap_or(Config::default().tier);
                let on: Vec<_> = seen.iter().map(|fabric| fabric.on(tier).to_string()).collect();
                print(format_args!(
                    "{call} on {}: no failure found, {}{}, on {}",
                    counted(self.nodes, "node"),
                    report.completeness,
                    match report.faults == Faults::default() {
                        true => String::new(),
                        false => format!(" for at most {}", report.faults),
                    },
                    on.join(" and on ")
                ))?;
            }
        }
        print(format_args!(
            "{}, {}, at most {} in one, {seconds:.1} s",
            counted(executions, "execution"),
            counted(transitions, "move"),
            counted(depth_max, "move")
        ))
    }
}
