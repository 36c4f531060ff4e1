//! `mowgli robust`: says whether tests are as strong as sequential consistency, and where not.

mod document;
mod fix;

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Instant;

use mowgli::check::{applicable, settings};
use mowgli::explain::Drawing;
use mowgli::litmus::{Property, Setting};
use mowgli::model::{Model, RmwAtomicity};
use mowgli::robust::fix::Costs;
use mowgli::robust::{
    self, Answer, Condition, Definition, Exact, Finding, MODELS, Question, Traces, Verdict,
};

use crate::budget::{self, Limits, Run, Stop};
use crate::shard::{self, Shard};
use crate::source::{self, Test};
use crate::{Error, Exit, output, progress, values};
use document::{Document, Row, Totals};

/// Say whether programs are robust: as strong as sequential consistency, or where they are weaker
///
/// A program is robust if every execution that the model allows is sequentially consistent (Robust'25). Two answers are given.
/// Conditions on the text decide programs of any size: local data-race freedom (ldrf) with fenced, or with tree-fenced, implies
/// robustness. Where they fail, the pair of instructions is named that may be reordered, its cell of the paper's Fig. 5, what
/// would keep it in order, and the threads that could see it. The conditions miss some robust programs; with --exact a
/// search decides: it finds an execution that is not sequentially consistent, or shows that there is none. The search also runs
/// for tests that state whether they are robust.
///
/// Each PATH is as in `mowgli check`. A test may state `robust`, `ldrf`, `fenced` and `tree-fenced` (docs/litmus.md).
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Tests: files, folders, @lists, names of built-in tests, or -
    #[arg(value_name = "PATH")]
    paths: Vec<String>,
    /// The model (may be repeated): rdma-sc, rdma-tso or rdma-wait. Default: rdma-sc and rdma-tso; rdma-wait for tests with waits
    #[arg(short, long = "model", value_name = "MODEL", value_delimiter = ',', value_parser = values::built_in())]
    models: Vec<Model>,
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
        hide_default_value = true
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

EXIT STATUS
  0  everything is as the tests state
  1  something differs from what a test states, or a test is vacuous
  2  wrong usage, a file cannot be read, or a test has errors
  3  some verdict is unknown: a limit was reached";

pub(crate) fn run(args: &Args) -> Result<Exit, Error> {
    if let Some(model) = args.models.iter().find(|m| !MODELS.contains(m)) {
        let names = MODELS.map(Model::name).join(", ");
        return Err(Error::Usage(format!(
            "--model {model}: robustness is defined for {names}"
        )));
    }
    let loaded = source::load(&args.paths)?;
    if loaded.tests.is_empty() && !loaded.corerma.is_empty() {
        let words = "robustness is defined for programs of RDMA, and the tests named are of coreRMA";
        return Err(Error::Usage(words.to_owned()));
    }
    let run = Run::start(args.limit);
    let jobs: Vec<(&Test, Setting)> = loaded
        .tests
        .iter()
        .flat_map(|test| settings_of(test, args).into_iter().map(move |s| (test, s)))
        .collect();
    let only_drawing = svg_alone(args, jobs.len())?;
    let mine: Vec<_> = jobs
        .into_iter()
        .enumerate()
        .filter(|(unit, _)| args.shard.has(*unit))
        .collect();
    let bar = progress::bar(mine.len());
    let (mut rows, mut stopped, mut left) = (Vec::new(), None, mine.len());
    let mut units = Vec::new();
    for (unit, (test, setting)) in mine {
        stopped = run.stopped();
        if stopped.is_some() {
            break;
        }
        left -= 1;
        bar.set_message(format!("{} {setting}", test.litmus.name));
        let (row, text) = one(test, setting, args, &run)?;
        if !args.json && !args.quiet && !only_drawing {
            bar.suspend(|| output::print_wrapped(&text))?;
        }
        rows.push(row);
        units.push(unit);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let stopped = stopped.or(run.stopped().filter(|&s| s == Stop::Interrupted));
    let totals = Totals::new(&rows, loaded.refused.len(), stopped, left);
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

/// Returns the settings of a test: the models asked for where they apply, or those of the paper, or rdma-wait.
fn settings_of(test: &Test, args: &Args) -> Vec<Setting> {
    let program = &test.litmus.program;
    let paper = [Model::RdmaSc, Model::RdmaTso].map(|m| applicable(program, m).is_ok());
    let wanted = |model: Model| match args.models.is_empty() {
        false => args.models.contains(&model),
        true => MODELS.contains(&model) && (model != Model::RdmaWait || !paper.contains(&true)),
    };
    let atomicity = |s: &Setting| args.rmw.is_none_or(|rmw| rmw == s.rmw);
    let mut out = settings(program);
    out.retain(|s| wanted(s.model) && atomicity(s));
    out
}

/// Answers for one test under one model: its row and its report.
fn one(test: &Test, setting: Setting, args: &Args, run: &Run) -> Result<(Row, String), Error> {
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
    let mut text = format!("Test {} under {setting}: {}", test.litmus.name, answer.verdict());
    if let Verdict::Unknown(limit) = answer.verdict() {
        let _ = write!(text, " ({limit})");
    }
    text.push('\n');
    for condition in Condition::ALL {
        let found = match answer.conditions.get(condition) {
            Finding::Holds => "yes".to_owned(),
            Finding::Fails(reason) => {
                format!(
                    "no, {}: {}",
                    reason.clause(),
                    robust::text::reason(program, reason)
                )
            }
            Finding::Unknown(limit) => format!("unknown: {limit}"),
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
        draw(path, test, &question, &answer, run)?;
    }
    Ok((row, text))
}

/// Draws the execution that is not sequentially consistent, or else the first pair that a condition names.
fn draw(
    path: &std::path::Path,
    test: &Test,
    question: &Question,
    answer: &Answer,
    run: &Run,
) -> Result<(), Error> {
    let program = &test.litmus.program;
    let title = format!(
        "{} under {}: {}",
        test.litmus.name,
        question.model,
        answer.verdict()
    );
    let pair = || {
        let definition = Definition::of(&question.spec());
        let traces = Traces::new(program, &definition, &run.budget()).ok()?;
        let mut reasons = Condition::ALL
            .into_iter()
            .filter_map(|c| answer.conditions.get(c).reason());
        reasons.find_map(|reason| robust::text::drawing(program, &traces, reason))
    };
    let drawing = match &answer.exact {
        Some(Exact::NotRobust(weak)) => Some(Drawing::new(program, &weak.execution, Some(&weak.cycle))),
        _ => pair(),
    };
    let Some(drawing) = drawing else {
        eprintln!("mowgli: there is neither a weak execution nor a pair to draw");
        return Ok(());
    };
    let svg = drawing.svg(&title);
    match path.as_os_str() == "-" {
        true => output::print(&svg).map_err(Error::from),
        false => std::fs::write(path, svg).map_err(|source| Error::Write {
            path: path.display().to_string(),
            source,
        }),
    }
}
