//! Runs litmus tests on a network that is played: shared memory with a deferred NIC, which executes operations late, in every
//! order that a network of a tier allows. The nodes are threads of this process.
//!
//! ```text
//! cargo run -p loco-litmus --example played -- ordering --tier ooo-rw --out played.jsonl
//! loco litmus infer played.jsonl
//! ```

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use loco_fabric::Tier;
use loco_host::HugePages;
use loco_job::Mesh;
use loco_litmus::results::Results;
use loco_litmus::table::Table;
use loco_litmus::{Listener, Plan, Record, Strategy, Test, run, test};
use loco_shm::{ShmConfig, ShmFabric};
use loco_test_networks::deferred::{Deferred, Nic};

/// Run litmus tests on shared memory with a deferred NIC, and print a table of what was seen
#[derive(Parser)]
struct Options {
    /// Files, folders, tests or folders of the catalogue.
    tests: Vec<String>,
    /// Run this many random programs too.
    #[arg(long, value_name = "N", default_value = "0")]
    random: usize,
    /// Tier of the network: ibta, ooo-rw, ooo-all, pcie-relaxed or unordered.
    #[arg(long, value_name = "TIER", default_value = "ibta")]
    tier: Tier,
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
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Keeps the results of the lowest node.
#[derive(Default)]
struct Kept {
    records: Vec<Record>,
    out: Option<Results>,
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
        eprintln!("played: {} is left out: {why}", test.name);
        Ok(())
    }
}

/// Brings a node up, and runs the tests on it.
fn node(mesh: Mesh, nic: &Nic, tests: &[Test], plan: &Plan, kept: &mut Kept) -> Result<(), Failure> {
    let config = ShmConfig::default().huge_pages(HugePages::Never);
    let fabric = Deferred::new(ShmFabric::new(mesh, config)?, Some(nic))?;
    Ok(run(fabric, tests, plan, kept)?)
}

fn main() -> Result<ExitCode, Failure> {
    let options = Options::parse();
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
    let nic = Nic {
        delay_max: std::time::Duration::ZERO,
        ..Nic::deferred(options.seed)
    }
    .tier(options.tier);
    let plan = Plan {
        runs: options.runs,
        batch: options.batch,
        stress: options.stress,
        seed: options.seed,
        fabric: match options.tier {
            Tier::Ibta => "shm, deferred NIC".to_owned(),
            tier => format!("shm, deferred NIC of tier {tier}"),
        },
        ..Plan::default()
    };
    let mut kept = Kept {
        records: Vec::new(),
        out: options.out.as_deref().map(Results::open).transpose()?,
    };
    let mut meshes = Mesh::in_process(options.nodes)?.into_iter();
    let leader = meshes.next().ok_or("--nodes 0: a job has a node")?;
    std::thread::scope(|scope| {
        let (nic, tests, plan) = (&nic, &tests[..], &plan);
        let others: Vec<_> = meshes
            .map(|mesh| scope.spawn(move || node(mesh, nic, tests, plan, &mut Kept::default())))
            .collect();
        let led = node(leader, nic, tests, plan, &mut kept);
        let ends = others.into_iter().map(|other| match other.join() {
            Ok(ended) => ended,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        ends.chain([led]).collect::<Result<Vec<()>, Failure>>()
    })?;
    let bad = |record: &&Record| record.is_violated() || record.hung.is_some();
    for record in kept.records.iter().filter(bad) {
        println!("{}", record.histogram()?);
    }
    println!("{}", Table::new(&kept.records));
    let is_bad = kept.records.iter().any(|record| bad(&record));
    Ok(ExitCode::from(u8::from(is_bad)))
}
