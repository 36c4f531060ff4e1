//! `mowgli generate`: makes every test up to a size that exercises a rule of a model.
//!
//! `source` is what a model family provides, `writer` runs it on several threads, and `manifest` remembers what is on disk.

mod corerma;
mod manifest;
mod minimal;
mod source;
mod writer;

use mowgli::counted::counted;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Instant;

use mowgli_corerma::generate::SIZE_MAX;
use serde::Serialize;

use self::source::Plan;
use crate::budget::{Limits, Run};
use crate::shard::{self, Shard};
use crate::theories::Bounds;
use crate::{Error, Exit, choice, output, progress, values};

/// Make every test up to a size that exercises a rule of a model
///
/// Each test is a file NAME.litmus below --out that states its pivot, the rule that it exercises, and what the model says of it; `mowgli
/// check` on the folder confirms that. Tests that differ only in names are made once. docs/generation.md says which tests.
///
/// For a model of coreRMA, --pivot is a rule of coreRMA'16 and a test states all its outcomes. For any other model, built-in or a file
/// *.cat, --pivot is a cell of its tables (G8, ippo:G8, oppo:G8), a term of its relations (rf, ib:rf, ob:rf), or an axiom or a named
/// relation of the file; each test asks for an outcome that the model forbids, allows without the pivot, and would allow
/// if any instruction were left out. Without --pivot, the tests of all rules are made.
///
/// Equal arguments make equal files, whatever the number of threads. A run that was stopped goes on when it is started
/// again with the same folder.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The model whose rule is exercised
    #[arg(short, long, value_name = "MODEL")]
    pub(crate) model: String,
    /// The rule that each test exercises
    #[arg(short, long, value_name = "RULE")]
    pub(crate) pivot: Option<String>,
    /// The largest size of a test
    #[arg(short, long, value_name = "S", allow_negative_numbers = true, value_parser = values::whole::<usize>(1..=SIZE_MAX as u64))]
    pub(crate) size: Option<usize>,
    /// The rows of coreRMA'16 Table 6 instead, each in its folder (coreRMA only)
    #[arg(long, conflicts_with_all = ["pivot", "size", "processes"])]
    pub(crate) table6: bool,
    /// With --table6: so much larger than the table's sizes
    #[arg(long, value_name = "K", default_value = "0", requires = "table6", allow_negative_numbers = true, value_parser = values::whole::<usize>(0..=SIZE_MAX as u64))]
    pub(crate) larger: usize,
    /// Only tests in which a process flushes before it reads what it sent itself (coreRMA only)
    #[arg(long)]
    pub(crate) flushed: bool,
    /// Also programs of several processes that do not communicate (coreRMA only)
    #[arg(long)]
    pub(crate) unconnected: bool,
    /// Also tests of WS whose two writes the other rules order in every execution (coreRMA only)
    #[arg(long)]
    pub(crate) decided: bool,
    #[command(flatten)]
    pub(crate) bounds: Bounds,
    /// The folder for the tests. Without it the tests are made and counted only
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[arg(long, value_name = "I/N", default_value = "1/1", value_parser = shard::read, help = shard::HELP, long_help = shard::LONG_HELP)]
    shard: Shard,
    /// Threads that make tests. Default: as many as the machine has cores
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::workers())]
    threads: Option<NonZeroUsize>,
    /// Print JSON (docs/json.md)
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
EXAMPLES
  mowgli generate --model corerma --pivot IR --processes 2 --size 9 --out ir
  mowgli check ir --model corerma -q          what the tests state holds
  mowgli generate --model corerma --table6    counts of the suite of coreRMA'16
  mowgli generate --model corerma --table6 --out suite --shard slurm
  mowgli generate --model rdma-tso --pivot oppo:G7 --size 4 --out g7
  mowgli generate --model mine.cat --size 4 --processes 2 --without cas --out mine

EXIT STATUS
  0  every test was made
  2  wrong usage, or a file cannot be written
  130  interrupted: start again with the same folder to go on";

/// The result of a run as JSON.
#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    model: &'a str,
    shard: String,
    rows: &'a [Row],
}

/// The result of one source.
#[derive(Serialize)]
struct Row {
    source: String,
    folder: String,
    tests: usize,
    outcomes: usize,
    complete: bool,
    time_s: f64,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Error> {
    let plans = plans(args)?;
    let workers = args.threads.or_else(|| std::thread::available_parallelism().ok());
    let workers = workers.map_or(1, NonZeroUsize::get);
    let run = Run::start(Limits::default());
    let mut rows = Vec::new();
    for plan in &plans {
        let folder = args.out.as_ref().map(|out| out.join(&plan.folder));
        let settings = writer::Settings {
            folder: folder.as_deref(),
            shard: args.shard,
            workers,
        };
        let start = Instant::now();
        let bar = progress::work("units");
        let totals = writer::run(&*plan.source, settings, &run, &bar);
        bar.finish_and_clear();
        let totals = totals?;
        let row = Row {
            source: plan.source.describe(),
            folder: folder.map(|f| f.display().to_string()).unwrap_or_default(),
            tests: totals.tests,
            outcomes: totals.outcomes,
            complete: totals.left == 0,
            time_s: start.elapsed().as_secs_f64(),
        };
        if !args.json {
            output::print(&line(&row, &totals))?;
        }
        rows.push(row);
        if totals.left > 0 {
            break;
        }
    }
    let complete = rows.len() == plans.len() && rows.iter().all(|row| row.complete);
    if args.json {
        output::print_json(&Document {
            version: 1,
            model: &args.model,
            shard: args.shard.to_string(),
            rows: &rows,
        })?;
    } else if plans.len() > 1 {
        let sum = |of: fn(&Row) -> usize| rows.iter().map(of).sum::<usize>();
        // The sum of no numbers is -0.
        let time_s = rows.iter().map(|row| row.time_s).sum::<f64>() + 0.0;
        let (tests, outcomes) = (sum(|r| r.tests), sum(|r| r.outcomes));
        output::print(&format!(
            "all: {}, {}, {time_s:.2} s\n",
            counted(tests, "test"),
            counted(outcomes, "outcome")
        ))?;
    }
    Ok(if complete { Exit::AsStated } else { Exit::Unknown })
}

/// Returns what the arguments ask for.
///
/// # Errors
///
/// Fails when the model has no generator or when it lacks an argument.
fn plans(args: &Args) -> Result<Vec<Plan>, Error> {
    if let Some(model) = choice::corerma_alone(&args.model) {
        return corerma::plans(args, model);
    }
    Ok(vec![Plan {
        folder: String::new(),
        source: Box::new(minimal::Minimal::new(args)?),
    }])
}

fn line(row: &Row, totals: &writer::Totals) -> String {
    let mut text = format!(
        "{}: {}, {}",
        row.source,
        counted(row.tests, "test"),
        counted(row.outcomes, "outcome")
    );
    if totals.found > 0 {
        text.push_str(&format!(", {} found on disk", counted(totals.found, "unit")));
    }
    if totals.left > 0 {
        text.push_str(&format!(
            "; interrupted with {} left: start again with the same folder to go on",
            counted(totals.left, "unit")
        ));
    }
    format!("{text}, {:.2} s\n", row.time_s)
}
