//! Runs litmus tests on a network that is played: operations are executed late, in every order that a network of a tier
//! allows. The nodes are threads of this process.
//!
//! ```text
//! cargo run -p loco-litmus --example played -- ordering --tier ooo-rw --out played.jsonl
//! loco litmus infer played.jsonl
//! cargo run -p loco-litmus --example played -- ordering --network weak --tier unordered
//! ```
//!
//! `loco-mutants --purchases` runs it with fabrics that leave out an order that they have to buy.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use loco_fabric::{Fabric, Std, Tier};
use loco_host::HugePages;
use loco_job::Mesh;
use loco_litmus::results::Results;
use loco_litmus::table::Table;
use loco_litmus::{Listener, Plan, Record, Strategy, Test, run, test};
use loco_ofi::OfiFabric;
use loco_shm::{ShmConfig, ShmFabric};
use loco_tcp::{TcpConfig, TcpFabric};
use loco_test_networks::altered::{AlteredDevice, Limits};
use loco_test_networks::deferred::{Deferred, Nic};
use loco_test_networks::weak::{Orders, WeakProvider};
use loco_verbs::{VerbsConfig, VerbsFabric};

/// The networks that can be played.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Network {
    /// Shared memory, with a deferred network card.
    Deferred,
    /// The verbs fabric, on the device of `loco nic`. Its choices begin with the first seed of a process.
    Nic,
    /// The libfabric fabric, on a provider before `tcp`.
    Weak,
    /// The TCP fabric on this host, which has tier `ibta` and plays no other.
    Tcp,
}

/// Run litmus tests on a network that is played, and print a table of what was seen
#[derive(Parser)]
struct Options {
    /// Files, folders, tests or folders of the catalogue.
    tests: Vec<String>,
    /// Run this many random programs too.
    #[arg(long, value_name = "N", default_value = "0")]
    random: usize,
    /// The fabric and the network under it.
    #[arg(long, value_name = "NETWORK", default_value = "deferred")]
    network: Network,
    /// Tier of the network: ibta, ooo-rw, ooo-all, pcie-relaxed or unordered.
    #[arg(long, value_name = "TIER", default_value = "ibta")]
    tier: Tier,
    /// Tell the fabric nothing of the tier, so that verbs counts on little.
    #[arg(long)]
    unknown: bool,
    /// Tell verbs that fences of the device are of no use, as those of Soft-RoCE are.
    #[arg(long)]
    fences_stall: bool,
    /// Let the provider state every order, so that libfabric buys none.
    #[arg(long)]
    states_all: bool,
    /// Runs of each test.
    #[arg(short, long, value_name = "N", default_value = "1000")]
    runs: u64,
    /// Most runs side by side.
    #[arg(long, value_name = "N", default_value = "250")]
    batch: usize,
    /// Conditions that make rare states likelier (`loco litmus run --help`): the card makes its own choices.
    #[arg(long, value_name = "STRESS", default_value = "none")]
    stress: Strategy,
    /// Seed of random programs and of all choices.
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// Number of nodes.
    #[arg(short, long, value_name = "N", default_value = "2")]
    nodes: usize,
    /// Append results to a file, for `loco litmus table` and `loco litmus infer`.
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Run again with other seeds, for SECONDS or until a forbidden state was seen or a test hung, and print only that. The
    /// device of `--network nic` goes on with the choices that began with the first seed.
    #[arg(long, value_name = "SECONDS", conflicts_with = "out")]
    until_forbidden: Option<u64>,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Keeps the results of the lowest node.
#[derive(Default)]
struct Kept {
    records: Vec<Record>,
    out: Option<Results>,
    /// Whether the first bad result ends the job.
    ends: bool,
}

fn is_bad(record: &Record) -> bool {
    record.is_violated() || record.hung.is_some()
}

impl Listener for Kept {
    fn record(&mut self, record: Record) -> loco_litmus::Result<()> {
        if let Some(out) = &mut self.out {
            out.append(&record)?;
        }
        self.records.push(record);
        Ok(())
    }

    fn refused(&mut self, test: &Test, why: &str) -> loco_litmus::Result<()> {
        if !self.ends {
            eprintln!("played: {} is left out: {why}", test.name);
        }
        Ok(())
    }

    fn is_stopped(&self) -> bool {
        self.ends && self.records.iter().any(is_bad)
    }
}

impl Options {
    fn plan(&self, seed: u64) -> Plan {
        Plan {
            runs: self.runs,
            batch: self.batch,
            stress: self.stress.clone(),
            seed,
            fabric: match (self.network, self.tier) {
                (Network::Deferred, Tier::Ibta) => "shm, deferred NIC".to_owned(),
                (Network::Deferred, tier) => format!("shm, deferred NIC of tier {tier}"),
                (Network::Nic, tier) => format!("verbs, device of tier {tier}"),
                (Network::Weak, tier) => format!("ofi, provider of tier {tier}"),
                (Network::Tcp, _) => "tcp".to_owned(),
            },
            ..Plan::default()
        }
    }

    /// Runs the tests once.
    fn play(&self, tests: &[Test], seed: u64, kept: &mut Kept) -> Result<(), Failure> {
        let job = Job {
            nodes: self.nodes,
            tests,
            plan: &self.plan(seed),
        };
        let pages = HugePages::Never;
        match self.network {
            Network::Deferred => {
                let nic = Nic {
                    delay_max: Duration::ZERO,
                    ..Nic::deferred(seed)
                }
                .tier(self.tier);
                let config = ShmConfig::default().huge_pages(pages);
                job.run(
                    |mesh| Ok(Deferred::new(ShmFabric::new(mesh, config.clone())?, Some(&nic))?),
                    kept,
                )
            }
            Network::Nic => {
                let limits = Limits {
                    known: (!self.unknown).then_some(self.tier),
                    relaxed_memory: self.tier == Tier::PcieRelaxed,
                    fences_stall: self.fences_stall,
                    ..Limits::default()
                };
                let device = AlteredDevice::on(self.tier, seed, limits);
                let config = VerbsConfig::default()
                    .provider(device.provider())
                    .huge_pages(pages);
                job.run(|mesh| Ok(VerbsFabric::new(mesh, config.clone())?), kept)
            }
            Network::Weak => {
                let mut provider = WeakProvider::of_tier(seed, self.tier);
                if self.states_all {
                    provider.says = Orders::ALL;
                }
                let config = provider.config().huge_pages(pages);
                job.run(|mesh| Ok(OfiFabric::new(mesh, config.clone())?), kept)
            }
            Network::Tcp => {
                let config = TcpConfig::default().huge_pages(pages);
                job.run(|mesh| Ok(TcpFabric::new(mesh, config.clone())?), kept)
            }
        }
    }
}

/// A job whose nodes are threads.
struct Job<'a> {
    nodes: usize,
    tests: &'a [Test],
    plan: &'a Plan,
}

impl Job<'_> {
    fn run<F: Fabric<Control = Mesh, Platform = Std>>(
        &self,
        up: impl Fn(Mesh) -> Result<F, Failure> + Sync,
        kept: &mut Kept,
    ) -> Result<(), Failure> {
        let node = |mesh: Mesh, kept: &mut Kept| -> Result<(), Failure> {
            Ok(run(up(mesh)?, self.tests, self.plan, kept)?)
        };
        let mut meshes = Mesh::in_process(self.nodes)?.into_iter();
        let leader = meshes.next().ok_or("--nodes 0: a job has a node")?;
        std::thread::scope(|scope| {
            let node = &node;
            let others: Vec<_> = meshes
                .map(|mesh| scope.spawn(move || node(mesh, &mut Kept::default())))
                .collect();
            let led = node(leader, kept);
            let ends = others.into_iter().map(|other| match other.join() {
                Ok(ended) => ended,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            ends.chain([led]).collect()
        })
    }
}

/// Runs the tests with one seed after the other, and prints the first bad result.
fn until_forbidden(options: &Options, tests: &[Test], time: Duration) -> Result<bool, Failure> {
    let begun = Instant::now();
    let mut seed = options.seed;
    while begun.elapsed() < time {
        let mut kept = Kept {
            ends: true,
            ..Kept::default()
        };
        options.play(tests, seed, &mut kept)?;
        if let Some(bad) = kept.records.iter().find(|record| is_bad(record)) {
            println!(
                "{}: {}",
                bad.test,
                if bad.is_violated() { "forbidden" } else { "hung" }
            );
            println!("{}", bad.histogram()?);
            return Ok(true);
        }
        seed += 1;
    }
    println!("nothing forbidden in {} rounds", seed - options.seed);
    Ok(false)
}

fn main() -> Result<ExitCode, Failure> {
    let options = Options::parse();
    if options.network == Network::Tcp && options.tier != Tier::Ibta {
        return Err(format!(
            "--tier {}: --network tcp has tier ibta; play another network",
            options.tier
        )
        .into());
    }
    let mut names = options.tests.clone();
    if names.is_empty() && options.random == 0 {
        names.push("catalogue".to_owned());
    }
    let loaded = test::load(&names)?;
    for (name, why) in &loaded.left_out {
        eprintln!("{name} is left out: {why}");
    }
    let mut tests = loaded.tests;
    tests.extend(test::random(options.random, options.seed));
    let is_bad = match options.until_forbidden {
        Some(seconds) => until_forbidden(&options, &tests, Duration::from_secs(seconds))?,
        None => {
            let mut kept = Kept {
                out: options.out.as_deref().map(Results::open).transpose()?,
                ..Kept::default()
            };
            options.play(&tests, options.seed, &mut kept)?;
            for record in kept.records.iter().filter(|record| is_bad(record)) {
                println!("{}", record.histogram()?);
            }
            println!("{}", Table::new(&kept.records));
            kept.records.iter().any(is_bad)
        }
    };
    Ok(ExitCode::from(u8::from(is_bad)))
}
