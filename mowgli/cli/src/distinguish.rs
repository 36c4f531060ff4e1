//! `mowgli distinguish`: the tests that separate two models, the smallest first.

mod corerma;

use std::fmt::Write;
use std::num::NonZeroUsize;
use std::time::Instant;

use mowgli::counted::counted;
use mowgli::litmus::Verdict;
use mowgli_generate::distinguish::{Separator, separators};
use mowgli_generate::enumerate::units;
use mowgli_generate::order::{in_order, workers};
use serde::Serialize;

use crate::budget::{Limits, Run};
use crate::shard::{self, Shard};
use crate::theories::{self, Bounds, Named};
use crate::{Error, Exit, output, progress, values};

/// Find the tests that separate two models, the smallest first
///
/// Goes through every program up to a size that has a meaning under both models, once up to symmetry, and prints each test that one
/// model forbids and the other allows, if nothing can be left out of it: no value of the condition, no instruction. A model
/// is a built-in one (rdma-tso, or rdma-tso/glob) or a file (mine.cat). For built-in models the machine is asked too, and
/// must agree. Two models of coreRMA (corerma, corerma-R1, sc) are separated by tests of coreRMA.
///
/// Equal arguments give equal tests in equal order, whatever the number of threads.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A model
    first: String,
    /// Another model
    second: String,
    /// Most instructions of a test. Default: 4. For two models of coreRMA: most actions, initial writes among them; default: 8
    #[arg(short, long, value_name = "S", allow_negative_numbers = true, value_parser = values::whole::<usize>(1..=theories::SIZE_MAX as u64))]
    size: Option<usize>,
    #[command(flatten)]
    bounds: Bounds,
    /// Stop after the smallest size that has a test
    #[arg(long, conflicts_with = "shard")]
    smallest: bool,
    #[arg(long, value_name = "I/N", default_value = "1/1", value_parser = shard::read, help = shard::HELP, long_help = shard::LONG_HELP)]
    shard: Shard,
    /// Threads that search. Default: as many as the machine has cores
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::workers())]
    threads: Option<NonZeroUsize>,
    /// Print JSON (docs/json.md)
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
EXAMPLES
  mowgli distinguish rdma-sc rdma-tso --smallest
  mowgli distinguish rdma-tso rdma-tso-nopcie --size 4 --without cas
  mowgli distinguish rdma-tso mine.cat --size 5 --processes 2 --shard slurm --json
  mowgli distinguish corerma corerma-IR --smallest

EXIT STATUS
  0  no test separates the models
  1  some do
  2  wrong usage
  3  the machine contradicts a test
  130  interrupted, and no test found";

/// The result as JSON.
#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    shard: Option<String>,
    /// The fingerprint of what was asked, in a share only.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<String>,
    first: &'a str,
    second: &'a str,
    language: String,
    programs: u64,
    complete: bool,
    tests: Vec<Row>,
    time_s: f64,
}

/// A test.
#[derive(Serialize)]
struct Row {
    /// The unit of work that found the test, in a share of a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<usize>,
    name: String,
    size: usize,
    forbidden_by: String,
    allowed_by: String,
    condition: String,
    /// Whether the machines of both models agree; nothing if a model has none.
    confirmed: Option<bool>,
    litmus: String,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Error> {
    let models = [theories::named(&args.first)?, theories::named(&args.second)?];
    if let [Some(first), Some(second)] = models.each_ref().map(|m| m.corerma) {
        return corerma::run(args, [first, second]);
    }
    let size = theories::size(args.size.unwrap_or(4))?;
    let [first, second] = models.each_ref().map(|m| &*m.theory);
    let language = args
        .bounds
        .restrict(first.language(size).common(second.language(size)));
    let run = Run::start(Limits::default());
    let start = Instant::now();
    let mine = |&(number, _): &(usize, _)| args.shard.has(number);
    let units: Vec<_> = units(&language).into_iter().enumerate().filter(mine).collect();
    let bar = progress::work("units");
    bar.set_length(units.len() as u64);
    let workers = args.threads.unwrap_or_else(workers);
    let (mut tests, mut programs, mut done, mut failed) = (Vec::new(), 0, 0, None);
    'sizes: for level in units.chunk_by(|a, b| a.1.size() == b.1.size()) {
        let work = |i: usize| separators(first, second, &language, &level[i].1, &run.budget());
        in_order(level.len(), workers, work, |i, found| {
            match found {
                Ok(found) => {
                    programs += found.programs;
                    done += 1;
                    for (place, separator) in found.tests.iter().enumerate() {
                        let row = row(&models, args, level[i].0, place, separator, &run);
                        if !args.json
                            && let Err(error) = bar.suspend(|| output::print(&text(&row)))
                        {
                            failed = Some(Error::Output(error));
                        }
                        tests.push(row);
                    }
                }
                Err(_) if run.stopped().is_some() => return false,
                Err(limit) => failed = Some(Error::Usage(limit.to_string())),
            }
            bar.inc(1);
            bar.set_message(format!(
                "{}, {}",
                counted(programs, "program"),
                counted(tests.len(), "test")
            ));
            failed.is_none() && run.stopped().is_none()
        });
        if failed.is_some() || run.stopped().is_some() || (args.smallest && !tests.is_empty()) {
            break 'sizes;
        }
    }
    bar.finish_and_clear();
    if let Some(error) = failed {
        return Err(error);
    }
    let complete = done == units.len() || (args.smallest && !tests.is_empty() && run.stopped().is_none());
    report(
        args,
        Document {
            version: 1,
            shard: shard::named(args.shard),
            run: shard::run_of(args.shard, || {
                models.each_ref().map(|m| m.identity.as_str()).join("\n")
            }),
            first: &args.first,
            second: &args.second,
            language: theories::describe(&language),
            programs,
            complete,
            tests,
            time_s: start.elapsed().as_secs_f64(),
        },
    )
}

/// Prints the document, or the line that ends the list of tests.
fn report(args: &Args, document: Document) -> Result<Exit, Error> {
    let found = document.tests.len();
    let contradicted = document.tests.iter().any(|test| test.confirmed == Some(false));
    let exit = match (found, contradicted, document.complete) {
        (_, true, _) | (0, _, false) => Exit::Unknown,
        (0, ..) => Exit::AsStated,
        _ => Exit::Differs,
    };
    if args.json {
        output::print_json(&document)?;
        return Ok(exit);
    }
    let stopped = match document.complete {
        true => "",
        false => " so far; interrupted",
    };
    output::print(&format!(
        "{} separating {} and {} ({}): {}{stopped}, {:.2} s\n",
        counted(found, "test"),
        document.first,
        document.second,
        document.language,
        counted(document.programs, "program"),
        document.time_s
    ))?;
    Ok(exit)
}

fn row(models: &[Named; 2], args: &Args, unit: usize, place: usize, separator: &Separator, run: &Run) -> Row {
    let names = [&args.first, &args.second];
    let (strong, weak) = if separator.first_forbids { (0, 1) } else { (1, 0) };
    let (program, condition) = (&separator.program, &separator.condition);
    let machine = |model: &Named| model.machine_allows(program, condition, &run.budget());
    let confirmed = match (machine(&models[strong]), machine(&models[weak])) {
        (Some(strong), Some(weak)) => Some(!strong && weak),
        _ => None,
    };
    let clean = |name: &str| name.trim_end_matches(".cat").replace(['/', '\\'], "-");
    let name = format!(
        "{}-{}-{}-{unit:05}-{place:04}",
        clean(names[0]),
        clean(names[1]),
        separator.size
    );
    let description = format!(
        "minimal: forbidden by {}, allowed by {}",
        names[strong], names[weak]
    );
    let verdicts = [
        (models[strong].setting, Verdict::Forbidden),
        (models[weak].setting, Verdict::Allowed),
    ];
    Row {
        unit: (args.shard != Shard::WHOLE).then_some(unit),
        litmus: theories::text(&name, description, program, condition, &verdicts),
        name,
        size: separator.size,
        forbidden_by: names[strong].clone(),
        allowed_by: names[weak].clone(),
        condition: condition.formula().display(program),
        confirmed,
    }
}

fn text(row: &Row) -> String {
    let mut out = row.litmus.clone();
    let machines = match row.confirmed {
        Some(true) => "confirmed by the machines",
        Some(false) => "CONTRADICTED by a machine",
        None => "by the axioms alone",
    };
    let _ = writeln!(
        out,
        "{}: forbidden by {}, allowed by {}, {machines}\n",
        counted(row.size, "instruction"),
        row.forbidden_by,
        row.allowed_by
    );
    out
}
