//! `loco litmus run`: a node of a job, or the launcher of a job on this machine.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use loco::fabric::{AnyConfig, AnyFabric, Caps, Fabric, FabricChoice, HugePages, Job, Mesh, var};
use loco_app::{Stop, complain, counted, print, some_time};
use loco_litmus::oracle::Theory;
use loco_litmus::results::Results;
use loco_litmus::table::Table;
use loco_litmus::test::{self, Loaded};
use loco_litmus::{Listener, Plan, Record, Strategy, Stress, Test, pin, stress, walk};

use crate::effect::{Mode, refuse_others};
use crate::error::CliError;
use crate::launcher::{Plan as JobPlan, launch};
use crate::run::local_nodes;

/// Run litmus tests on the fabric, many times, and say what the model says of each state that was seen
///
/// Outside a job it starts --nodes processes on this machine. Started as a job
/// (`loco run`, mpirun, srun) it is one of its nodes. Every node gets the same
/// command line and the same files; the lowest node prints.
///
/// TESTS are files, folders of files, and tests or folders of the catalogue;
/// `catalogue` is all of it, and is taken if neither TESTS nor --random is
/// given. A job with fewer nodes than a test wraps round. Tests of coreRMA are
/// run as programs of RDMA and judged by coreRMA; its examples are `corerma16`.
/// Tests that cannot be run are named and counted.
///
/// For each test there is a histogram as litmus7 prints it, with the model's
/// verdict. A state that the model forbids fails the run. With --out results
/// are kept as they come: the same command goes on where it was stopped.
///
/// --stress chooses what makes rare states likelier: `none`, `default` (drawn
/// anew for each batch), `auto` (searched for by what each batch showed), or
/// switches, for example `delay=between:3,place=same,traffic=other:6:8`:
///
///   delay=none|start|between:DECADES    processor delays of up to 10^DECADES ns
///   delay=start|between:rtt             or of none, half or all of a round trip
///   place=line|same|page|packed         locations of a run to one another
///   pin=free|together|apart|near|far    threads to processors, or to those of
///                                       the first or last NUMA node
///   cache=any|shared|owned|flushed      what is loaded or flushed ahead
///   traffic=none|other|same|within:SIZE:DEPTH
///                                       operations of 8*2^SIZE bytes; other is
///                                       followed by :N, 2^N queue pairs; within
///                                       by :N, the operation before which
///   start=run|batch                     threads begin together
///   constant=memory|inline              where the data of constant puts are
///   completions=N                       2^N operations of each thread whose
///                                       completions are not polled; 0: none
///   flush=get|call                      strong gets that only flush
///
/// Examples:
///
///   loco litmus run SB3 MP1 --runs 100000
///
///   loco litmus run catalogue --fabric verbs --out verbs.jsonl -q
///
///   mowgli generate --model rdma-tso --size 4 --out suite
///   loco litmus run suite --out shm.jsonl -q
///
///   loco run --hosts hosts.txt --fabric verbs -- loco litmus run catalogue
///
/// Exit status: 0 nothing forbidden seen; 1 a forbidden state, a test that
/// hung, or a failure of the job; 2 bad usage, or no test can be run here;
/// 130 stopped by Ctrl-C.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Files, folders, tests or folders of the catalogue.
    tests: Vec<String>,
    /// Run this many random programs too.
    #[arg(long, value_name = "N", default_value = "0", value_parser = loco_app::number::<u32>(..=1_000_000))]
    random: u32,
    /// Runs of each test.
    #[arg(short, long, value_name = "N", default_value = "1000", value_parser = loco_app::number::<u64>(1..=1_000_000_000_000))]
    runs: u64,
    /// Most runs side by side.
    #[arg(long, value_name = "N", default_value = "250", value_parser = loco_app::number::<u32>(1..=65536))]
    batch: u32,
    /// Conditions that make rare states likelier: none, default, auto, or switches.
    #[arg(long, value_name = "STRESS", default_value = "default")]
    stress: Strategy,
    /// Seed of random programs and of all choices.
    #[arg(long, value_name = "N", default_value = "1", value_parser = loco_app::number::<u64>(..))]
    seed: u64,
    /// Model that judges, or a file: without it corerma for tests of coreRMA, rdma-wait for tests that wait, else
    /// rdma-tso.
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Time after which a test that has not ended hangs.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = some_time)]
    deadline: Duration,
    /// Longest time for the runs of one test.
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    time: Option<Duration>,
    /// Number of node processes, where this command starts them.
    #[arg(short, long, value_name = "N", default_value = "2", value_parser = loco_app::number::<u16>(1..=16))]
    nodes: u16,
    /// Fabric that the nodes use: shm, verbs (RDMA), tcp, ofi or ofi:PROVIDER (libfabric), auto (the best that every node
    /// has), or model (random walks on the model's machine, by one process).
    #[arg(long, env = var::FABRIC, value_name = "FABRIC", default_value = "auto")]
    fabric: Ground,
    /// Name of the fabric in results and table, where its own does not say enough: `verbs, two devices`.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Pages of the memory: small, huge (2 MiB where the host has them), or giant (1 GiB).
    #[arg(long, env = var::PAGES, value_name = "PAGES")]
    pages: Option<HugePages>,
    /// Append results to a file, and leave out tests whose results are there.
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print one line of JSON for each test.
    #[arg(long)]
    json: bool,
    /// Print no histogram of tests without a forbidden state.
    #[arg(short, long)]
    quiet: bool,
    /// Write a table of the results as a page.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// The ground that tests run on: a fabric, or the model's machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ground {
    Fabric(FabricChoice),
    Model,
}

impl FromStr for Ground {
    type Err = String;

    fn from_str(name: &str) -> Result<Ground, String> {
        match name {
            walk::MODEL => Ok(Ground::Model),
            name => name
                .parse()
                .map(Ground::Fabric)
                .map_err(|error| format!("{error}, or {}", walk::MODEL)),
        }
    }
}

/// The options that have an effect on every ground.
const ALWAYS: [&str; 10] = [
    "--random", "--runs", "--seed", "--model", "--time", "--fabric", "--out", "--json", "--quiet", "--html",
];

/// The grounds, and the other options that have an effect on each.
static MODES: [Mode; 3] = [
    Mode::new("--fabric model", &[]),
    Mode::new(
        "--fabric tcp or ofi",
        &["--batch", "--stress", "--deadline", "--nodes", "--name"],
    ),
    Mode::new(
        "a fabric whose memory is ours: shm, verbs or auto",
        &[
            "--batch",
            "--stress",
            "--deadline",
            "--nodes",
            "--name",
            "--pages",
        ],
    ),
];

impl Args {
    /// Refuses options without effect on the ground. In a job, `--nodes` may be left from the command that started it.
    fn refuse_what_has_no_effect(&self, given: &[String]) -> Result<(), CliError> {
        let mode = match self.fabric {
            Ground::Model => &MODES[0],
            Ground::Fabric(FabricChoice::Ofi(_) | FabricChoice::Tcp) => &MODES[1],
            Ground::Fabric(_) => &MODES[2],
        };
        refuse_others(given, mode, &MODES, &ALWAYS)
    }
}

/// The variables that identify a launcher, which sets at least one of them.
const LAUNCHED: [&str; 4] = [var::NODE, "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"];

/// Starts the nodes, or is one.
pub fn run(args: &Args, given: &[String]) -> Result<u8, CliError> {
    args.refuse_what_has_no_effect(given)?;
    if LAUNCHED.iter().any(|name| std::env::var_os(name).is_some()) {
        return node(args);
    }
    let (loaded, model) = load(args)?; // Mistakes are reported once, before any process starts.
    let Ground::Fabric(fabric) = args.fabric else {
        return walks(args, &loaded, model);
    };
    let own = std::env::current_exe().map_err(CliError::os("finding this program"))?;
    let mut command = vec![own.into_os_string()];
    command.extend(std::env::args_os().skip(1));
    let ended = launch(&JobPlan {
        nodes: local_nodes(args.nodes, fabric)?,
        command,
        timeout: None,
        grace: args.deadline + Duration::from_secs(3),
        keep_going: false,
        prefix: false,
        joins: false,
        bar: None,
        input: false,
        scratch: None,
    })?;
    Ok(ended.code)
}

/// Loads the tests and the model.
fn load(args: &Args) -> Result<(Loaded, Option<Theory>), CliError> {
    let mut names = args.tests.clone();
    if names.is_empty() && args.random == 0 {
        names.push("catalogue".to_owned());
    }
    let mut loaded = test::load(&names)?;
    loaded.tests.extend(test::random(args.random as usize, args.seed));
    if loaded.tests.is_empty() {
        let text = match loaded.left_out.first() {
            Some((name, why)) => format!("no test can be run; {name}: {why}"),
            None => "these folders hold no test".to_owned(),
        };
        return Err(CliError::Usage(text));
    }
    let model = args.model.as_deref().map(Theory::named).transpose()?;
    Ok((loaded, model))
}

fn node(args: &Args) -> Result<u8, CliError> {
    let stop = Stop::on_signals().map_err(CliError::os("taking over signals"))?;
    let (loaded, model) = load(args)?;
    let Ground::Fabric(choice) = args.fabric else {
        return Err(CliError::Usage(
            "--fabric model is no job: run the command without a launcher".into(),
        ));
    };
    let job = Job::from_env()?;
    let leads = job.nodes().first() == Some(&job.node());
    let mut config = AnyConfig::from_env()?;
    config.choice = choice;
    if let Some(pages) = args.pages {
        config = config.pages(pages);
    }
    let fabric = args.name.clone().unwrap_or_default();
    let plan = plan(args, model, fabric);
    let mut report = Report::new(args, &plan, leads, &stop)?;
    if leads {
        report.leave_out(&loaded);
    }
    let mesh = Mesh::connect(&job)?;
    let fabric = AnyFabric::new(mesh, config)?;
    if leads {
        report.say_what_has_no_effect(fabric.caps());
    }
    stop.begin_work();
    let ended = loco_litmus::run(fabric, &loaded.tests, &plan, &mut report);
    if let Some(failure) = report.failure.take() {
        return Err(failure);
    }
    ended?;
    match leads {
        true => report.finish(),
        false => Ok(0),
    }
}

fn plan(args: &Args, model: Option<Theory>, fabric: String) -> Plan {
    Plan {
        runs: args.runs,
        batch: args.batch as usize,
        stress: args.stress.clone(),
        seed: args.seed,
        patience: args.deadline,
        time: args.time,
        model,
        fabric,
    }
}

/// Runs the tests as random walks of the model's machine.
fn walks(args: &Args, loaded: &Loaded, model: Option<Theory>) -> Result<u8, CliError> {
    let stop = Stop::on_signals().map_err(CliError::os("taking over signals"))?;
    // Walks have no stress. Earlier results are found under the name that they have.
    let plan = Plan {
        stress: Strategy::None,
        ..plan(args, model, String::new())
    };
    let mut report = Report::new(args, &plan, true, &stop)?;
    report.leave_out(loaded);
    stop.begin_work();
    let ended = walk::run(&loaded.tests, &plan, &mut report);
    if let Some(failure) = report.failure.take() {
        return Err(failure);
    }
    ended?;
    let code = report.finish()?;
    Ok(if stop.is_asked() { INTERRUPTED } else { code })
}

/// The exit status of a run that was interrupted, as shells report it.
const INTERRUPTED: u8 = 130;

/// Prints and keeps results, on the lowest node.
struct Report<'a> {
    args: &'a Args,
    plan: &'a Plan,
    out: Option<Results>,
    records: Vec<Record>,
    /// Tests whose results are there.
    left_out: usize,
    /// The tests that cannot be run here, or that nothing is known of.
    refused: usize,
    /// The reason that the output failed.
    failure: Option<CliError>,
    stop: &'a Stop,
}

impl<'a> Report<'a> {
    fn new(args: &'a Args, plan: &'a Plan, leads: bool, stop: &'a Stop) -> Result<Report<'a>, CliError> {
        let out = match (&args.out, leads) {
            (Some(path), true) => Some(Results::open(path)?),
            _ => None,
        };
        Ok(Report {
            args,
            plan,
            out,
            records: Vec::new(),
            left_out: 0,
            refused: 0,
            failure: None,
            stop,
        })
    }

    /// Reports which switches of a fixed stress change nothing on this host and fabric.
    fn say_what_has_no_effect(&self, caps: &Caps) {
        let Strategy::Fixed(Stress {
            pin,
            cache,
            completions,
            ..
        }) = self.plan.stress
        else {
            return;
        };
        if matches!(pin, stress::Pin::Near | stress::Pin::Far) && pin::numa_nodes().is_empty() {
            complain("loco: this host has one NUMA node: pin=near and pin=far change nothing");
        }
        if cache == stress::Cache::Flushed && !cfg!(target_arch = "x86_64") {
            complain("loco: cache=flushed changes nothing: only x86-64 processors are asked to flush");
        }
        if completions > 0 && caps.synchronous {
            complain(format_args!(
                "loco: completions={completions} changes nothing: operations on {} end as they are posted and leave no \
                 completions",
                caps.name
            ));
        }
    }

    /// Names the tests that no fabric can run.
    fn leave_out(&mut self, loaded: &Loaded) {
        for (name, why) in &loaded.left_out {
            complain(format_args!("loco: {name} is left out: {why}"));
        }
        self.refused += loaded.left_out.len();
    }

    fn keep(&mut self, record: &Record) -> Result<(), CliError> {
        if let Some(out) = &mut self.out {
            out.append(record)?;
        }
        self.show(record)
    }

    fn show(&self, record: &Record) -> Result<(), CliError> {
        if self.args.json {
            let line = serde_json::to_string(record).map_err(CliError::os("writing a result as JSON"))?;
            print(line)?;
        } else if !self.args.quiet || record.is_violated() || record.hung.is_some() {
            let text = record
                .histogram()
                .map_err(|error| CliError::Check(error.to_string()))?;
            print(text)?;
        }
        Ok(())
    }

    fn finish(&self) -> Result<u8, CliError> {
        let table = Table::new(&self.records);
        if let Some(path) = &self.args.html {
            std::fs::write(path, table.html()).map_err(CliError::os("writing the page"))?;
        }
        if !self.args.json {
            print(table.to_string().trim_end())?;
            if self.left_out > 0 {
                print(format_args!(
                    "{} left out: their results are there",
                    counted(self.left_out, "test")
                ))?;
            }
            if self.refused > 0 {
                print(format_args!(
                    "{} left out: they cannot be run here",
                    counted(self.refused, "test")
                ))?;
            }
        }
        if self.records.is_empty() && self.left_out == 0 && self.refused > 0 {
            return Ok(2);
        }
        let bad = |record: &Record| record.is_violated() || record.hung.is_some();
        Ok(u8::from(self.records.iter().any(bad)))
    }
}

impl Listener for Report<'_> {
    fn is_done(&mut self, test: &Test, fabric: &str, nodes: usize) -> bool {
        let done = self
            .out
            .as_ref()
            .is_some_and(|out| out.has(test, self.plan, fabric, nodes));
        self.left_out += usize::from(done);
        done
    }

    fn record(&mut self, record: Record) -> loco_litmus::Result<()> {
        if let Err(error) = self.keep(&record) {
            self.failure = Some(error);
        }
        self.records.push(record);
        Ok(())
    }

    fn cut_short(&mut self, record: Record) -> loco_litmus::Result<()> {
        if let Err(error) = self.show(&record) {
            self.failure.get_or_insert(error);
        }
        complain(format_args!(
            "loco: {} was stopped after {} of {}; no file has them",
            record.test,
            record.runs,
            counted(self.plan.runs, "run")
        ));
        self.records.push(record);
        Ok(())
    }

    fn refused(&mut self, test: &Test, why: &str) -> loco_litmus::Result<()> {
        complain(format_args!("loco: {} is left out: {why}", test.name));
        self.refused += 1;
        Ok(())
    }

    fn is_stopped(&self) -> bool {
        self.stop.is_asked() || self.failure.is_some()
    }
}
