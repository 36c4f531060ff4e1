//! `mowgli robust`: says whether tests are as strong as sequential consistency, and where not.

mod document;
mod fix;
mod jobs;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use mowgli::cat::ModelFile;
use mowgli::explain::Drawing;
use mowgli::litmus::{Property, Setting};
use mowgli::model::RmwAtomicity;
use mowgli::robust::fix::Costs;
use mowgli::robust::{self, Answer, Condition, Definition, Exact, Finding, Question, Traces, Verdict, Weak};

use crate::budget::{self, Limits, Run, Stop};
use crate::choice::ModelChoice;
use crate::shard::{self, Shard};
use crate::source::{self, Test};
use crate::{Error, Exit, output, progress, values};
use document::{Document, Row, Totals};
use jobs::Job;

/// Say whether programs are robust: as strong as sequential consistency, or where they are weaker
///
/// A program is robust if every execution that the model allows is sequentially consistent (Robust'25). Two answers are given.
/// Conditions on the text decide programs of any size: local data-race freedom (ldrf) with fenced, or with tree-fenced, implies
/// robustness. Where they fail, the pair of instructions is named that may be reordered, its cell of the paper's Fig. 5, what
/// would keep it in order, and the threads that could see it. The conditions miss some robust programs; with --exact a
/// search decides: it finds an execution that is not sequentially consistent, or shows that there is none. The search also runs
/// for tests that state whether they are robust.
///
/// The conditions are theorems about rdma-sc and rdma-tso, and about rdma-wait as extended here. Under a model file, and under the
/// other built-in models, only the search answers.
///
/// Each PATH is as in `mowgli check`. A test may state `robust`, `ldrf`, `fenced` and `tree-fenced` (docs/litmus.md).
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Tests: files, folders, @lists, names of built-in tests, or -
    #[arg(value_name = "PATH")]
    paths: Vec<String>,
    /// The model (may be repeated): built in, or a file *.cat. Default: rdma-sc and rdma-tso; rdma-wait for tests with waits
    #[arg(short, long = "model", value_name = "MODEL", value_delimiter = ',', value_parser = values::model())]
    models: Vec<ModelChoice>,
    /// Atomicity of remote read-modify-writes: hca or glob. Default: both, for tests that have any
    #[arg(long, value_name = "ATOMICITY", value_parser = values::rmw())]
    rmw: Option<RmwAtomicity>,
    /// Search where the conditions fail
    #[arg(short, long)]
    exact: bool,
    /// Count an access as public only if it conflicts with another thread. Misses fewer robust programs than the paper's conditions
    #[arg(long)]
    refined: bool,
    /// Add the cheapest fences and polls that make a test robust, by the conditions or, with --exact, by the search, and print it
    #[arg(long)]
    fix: bool,
    /// Costs of what --fix adds, as in poll=2,get=1. Default: rfence=1,mfence=2,poll=20,move=10,get=4
    #[arg(
        long,
        value_name = "COSTS",
        requires = "fix",
        default_value_t,
        hide_default_value = true,
        value_parser = values::costs
    )]
    cost: Costs,
    /// Draw the execution, or the pair in its program, as SVG into this file (one test, one model)
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[arg(short, long, default_value = "time=60s", value_name = "LIMITS", help = budget::HELP, long_help = budget::LONG_HELP)]
    limit: Limits,
    #[arg(long, value_name = "I/N", default_value = "1/1", value_parser = shard::read, help = shard::HELP, long_help = shard::LONG_HELP)]
    shard: Shard,
    /// Print the table only
    #[arg(short, long, conflicts_with = "json")]
    quiet: bool,
    /// Print one JSON document instead of reports (docs/json.md)
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
EXAMPLES
  mowgli robust -q                            the catalogue, as a table
  mowgli robust ROB-3b --model rdma-sc        where a program is weak
  mowgli robust mine.litmus --exact           whether the weakness can show
  mowgli robust ROB-3b --model rdma-tso --exact --svg weak.svg
  mowgli robust SB3 --model rdma-tso --fix    what to add, and where
  mowgli robust mine.litmus --fix --exact --cost poll=5
  mowgli robust mine.litmus --model mine.cat

EXIT STATUS
  0  everything is as the tests state
  1  something differs from what a test states, or a test is vacuous
  2  wrong usage, a file cannot be read, or a test has errors
  3  some verdict is unknown: a limit was reached";

pub(crate) fn run(args: &Args) -> Result<Exit, Error> {
    let models = jobs::models(args)?;
    let loaded = source::load(&args.paths)?;
    if loaded.tests.is_empty() && !loaded.corerma.is_empty() {
        let words = "robustness is defined for programs of RDMA, and the tests named are of coreRMA: \
                     `mowgli compare TEST --models sc,corerma` shows where such a test is weaker than sc";
        return Err(Error::Usage(words.to_owned()));
    }
    let run = Run::start(args.limit);
    let jobs = jobs::jobs(&loaded.tests, &models, args)?;
    let only_drawing = svg_alone(args, jobs.len())?;
    let mine: Vec<_> = jobs
        .into_iter()
        .enumerate()
        .filter(|(unit, _)| args.shard.has(*unit))
        .collect();
    let bar = progress::bar(mine.len());
    let (mut rows, mut stopped, mut left) = (Vec::new(), None, mine.len());
    let (mut units, mut not_applicable) = (Vec::new(), 0);
    for (unit, job) in mine {
        stopped = run.stopped();
        if stopped.is_some() {
            break;
        }
        left -= 1;
        bar.set_message(format!("{} {}", job.test.litmus.name, job.under));
        let Some((row, text)) = one(&job, args, &run)? else {
            not_applicable += 1;
            bar.inc(1);
            continue;
        };
        if !args.json && !args.quiet && !only_drawing {
            bar.suspend(|| output::print_wrapped(&text))?;
        }
        rows.push(row);
        units.push(unit);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let stopped = stopped.or(run.stopped().filter(|&s| s == Stop::Interrupted));
    let totals = Totals::new(&rows, loaded.refused.len(), not_applicable, stopped, left);
    let exit = totals.exit();
    if args.json {
        output::print_json(&Document {
            version: 1,
            shard: shard::named(args.shard),
            run: shard::run_of(args.shard, || {
                let how = (&args.models, args.rmw, args.exact, args.fix, &args.cost);
                let tests = loaded.tests.iter().map(|t| format!("{}\n{}", t.path, t.source));
                format!("{how:?}\n{}", tests.collect::<String>())
            }),
            refined: args.refined,
            rows: shard::numbered(args.shard, &rows, units),
            refused: &loaded.refused,
            warnings: &loaded.warnings,
            totals: &totals,
        })?;
    } else if !only_drawing {
        output::print(&document::table(&rows, &totals))?;
    }
    Ok(exit)
}

/// Checks that a drawing has one subject, and returns whether it goes to standard output.
fn svg_alone(args: &Args, jobs: usize) -> Result<bool, Error> {
    let Some(path) = &args.svg else {
        return Ok(false);
    };
    if jobs != 1 {
        let message = format!("--svg draws one test under one model, and {jobs} are asked for: name one");
        return Err(Error::Usage(message));
    }
    let dash = path.as_os_str() == "-";
    if dash && args.json {
        let message = "standard output has room for one of --svg - and --json: give the drawing a file";
        return Err(Error::Usage(message.to_owned()));
    }
    Ok(dash)
}

/// Answers for one test under one model: its row and its report. `None` if the model has no meaning for the test.
fn one(job: &Job<'_>, args: &Args, run: &Run) -> Result<Option<(Row, String)>, Error> {
    match (&job.file, job.under.setting()) {
        _ if !job.applies => Ok(None),
        (Some(file), _) => by_file(job, file, args, run),
        (None, Some(setting)) => by_conditions(job.test, setting, args, run).map(Some),
        (None, None) => unreachable!("a model without a file is built in"),
    }
}

/// Answers by the conditions, and by the search where it is asked for.
fn by_conditions(test: &Test, setting: Setting, args: &Args, run: &Run) -> Result<(Row, String), Error> {
    let program = &test.litmus.program;
    let question = Question {
        model: setting.model,
        rmw: setting.rmw,
        refined: args.refined,
    };
    let stated: Vec<_> = test
        .litmus
        .stated
        .iter()
        .filter(|s| s.setting == setting)
        .collect();
    let exactly = args.exact || stated.iter().any(|s| s.property == Property::Robust);
    let start = Instant::now();
    let answer = robust::ask(program, &question, exactly, &run.budget());
    let time_s = start.elapsed().as_secs_f64();
    let mut row = Row::new(test, setting, &answer, time_s);
    let mut text = headline(test, &setting.to_string(), &answer.verdict());
    for condition in Condition::ALL {
        let found = match answer.conditions.get(condition) {
            Finding::Holds => "yes".to_owned(),
            Finding::Fails(reason) => {
                format!(
                    "no, {}: {}",
                    reason.clause_under(setting.model),
                    robust::text::reason(program, reason)
                )
            }
            Finding::Unknown(limit) => format!("unknown: {}", limit.advice()),
        };
        let _ = writeln!(text, "  {:12} {found}", condition.name());
    }
    if let Some(Exact::NotRobust(weak)) = &answer.exact {
        let _ = writeln!(text, "  {:12} {}", "cycle", document::cycle(program, weak));
    }
    for wrong in &row.differs {
        let _ = writeln!(text, "  The test states `{wrong}`: DIFFERS");
    }
    if args.fix {
        let (mended, report) = fix::fix(test, setting, &question, &args.cost, args.exact, &run.budget());
        row.fix = Some(mended);
        text.push_str(&report);
    }
    text.push('\n');
    if let Some(path) = &args.svg {
        let title = title(test, &setting.to_string(), &answer.verdict());
        let drawing = match &answer.exact {
            Some(Exact::NotRobust(weak)) => Some(drawing(test, weak)),
            _ => pair(test, &question, &answer, run),
        };
        draw(path, &title, drawing)?;
    }
    Ok((row, text))
}

/// Answers by the search under a model file.
fn by_file(job: &Job<'_>, file: &ModelFile, args: &Args, run: &Run) -> Result<Option<(Row, String)>, Error> {
    let program = &job.test.litmus.program;
    let under = job.under.to_string();
    let start = Instant::now();
    let found = match robust::by_file(program, file, job.under.rmw, &run.budget()) {
        Ok(found) => found,
        Err(reason) if job.is_alone => {
            let message = format!("{}: {reason}", job.test.litmus.name);
            return Err(Error::Usage(message));
        }
        Err(_) => return Ok(None),
    };
    let time_s = start.elapsed().as_secs_f64();
    let mut text = headline(job.test, &under, &found.verdict());
    let _ = writeln!(
        text,
        "  {:12} not asked: they are about rdma-sc, rdma-tso and rdma-wait",
        "conditions"
    );
    if let Exact::NotRobust(weak) = &found.exact {
        let _ = writeln!(text, "  {:12} {}", "cycle", document::cycle(program, weak));
    }
    let mut row = Row::by_file(job.test, under.clone(), &found, time_s);
    if let (true, Some(setting)) = (args.fix, job.under.setting()) {
        let (mended, report) = fix::fix_on_tier(job.test, setting, &args.cost, &run.budget());
        row.fix = Some(mended);
        text.push_str(&report);
    }
    text.push('\n');
    if let Some(path) = &args.svg {
        let drawing = match &found.exact {
            Exact::NotRobust(weak) => Some(drawing(job.test, weak)),
            _ => None,
        };
        draw(path, &title(job.test, &under, &found.verdict()), drawing)?;
    }
    Ok(Some((row, text)))
}

fn title(test: &Test, under: &str, verdict: &Verdict) -> String {
    format!("{} under {under}: {verdict}", test.litmus.name)
}

fn headline(test: &Test, under: &str, verdict: &Verdict) -> String {
    let limit = match verdict {
        Verdict::Unknown(limit) => format!(" ({})", limit.advice()),
        _ => String::new(),
    };
    format!("Test {}{limit}\n", title(test, under, verdict))
}

/// Draws the execution that is not sequentially consistent.
fn drawing(test: &Test, weak: &Weak) -> Drawing {
    Drawing::new(&test.litmus.program, &weak.execution, Some(&weak.cycle))
}

/// Draws the first pair that a condition names.
fn pair(test: &Test, question: &Question, answer: &Answer, run: &Run) -> Option<Drawing> {
    let program = &test.litmus.program;
    let definition = Definition::of(&question.spec());
    let traces = Traces::new(program, &definition, &run.budget()).ok()?;
    let mut reasons = Condition::ALL
        .into_iter()
        .filter_map(|c| answer.conditions.get(c).reason());
    reasons.find_map(|reason| robust::text::drawing(program, &traces, reason))
}

/// Writes a drawing to a file or, for `-`, to standard output.
fn draw(path: &Path, title: &str, drawing: Option<Drawing>) -> Result<(), Error> {
    let Some(drawing) = drawing else {
        output::complain("mowgli: there is neither a weak execution nor a pair to draw");
        return Ok(());
    };
    let svg = drawing.svg(title);
    match path.as_os_str() == "-" {
        true => output::print(&svg).map_err(Error::from),
        false => std::fs::write(path, svg).map_err(|source| Error::Write {
            path: path.display().to_string(),
            source,
        }),
    }
}
