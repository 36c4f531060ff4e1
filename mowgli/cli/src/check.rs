//! `mowgli check`: runs tests under models, reports as herd7 does, and compares the verdicts with those that the tests state.
//!
//! Tests of RDMA come first, then those of coreRMA.

use std::fmt::Display;
use std::time::Instant;

use mowgli::check::{self, Engine, Judgement, applicable, settings, tiered_settings};
use mowgli::litmus::{Dialect, Query, QueryOf, Setting, Verdict};
use mowgli::model::{Model, RmwAtomicity};
use mowgli::outcome::Search;
use mowgli::report;
use mowgli_corerma::litmus::Query as CoreRmaQuery;
use mowgli_corerma::switches::Model as CoreRma;
use serde::Serialize;

use crate::budget::{self, Limits, Run, Stop};
use crate::choice::{self, Loaded, ModelChoice, Under};
use crate::diagnostics::Report;
use crate::row::Row;
use crate::shard::{self, Numbered, Shard};
use crate::source::{self, CoreRmaTest, Test};
use crate::summary::{Summary, Totals};
use crate::{Error, Exit, output, progress, values};

/// Check litmus tests and compare the verdicts with those the tests state
///
/// Each PATH is a test, a folder of tests (files named *.litmus, at any depth), @FILE for a list of paths, the name of a
/// built-in test, or - for standard input. Without a PATH the built-in catalogue is checked.
///
/// For each test and model a report in herd7's form is printed, then a table of all verdicts. Counts are of final states,
/// not of executions. Tests whose first word is coreRMA are checked under its models (docs/corerma.md). A model that has no meaning for a test (x86-TSO for a test with remote operations, say) is marked
/// n/a and never counts as a difference. When a limit stops a search, the verdicts that it leaves open are unknown, never
/// guessed. A test without any execution (because an assumption never holds, say) is vacuous: no verdict is right for it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Tests: files, folders, @lists, names of built-in tests, or -
    #[arg(value_name = "PATH")]
    paths: Vec<String>,
    /// Check under this model only: a built-in model, a model of coreRMA or a file *.cat (may be repeated, or take a list with commas)
    #[arg(short, long = "model", value_name = "MODEL", value_delimiter = ',', value_parser = values::model())]
    models: Vec<ModelChoice>,
    /// The engine that answers: declarative (axioms), operational (machine), or both, which must agree
    #[arg(short, long, default_value = "declarative", value_parser = values::engine())]
    engine: Engine,
    /// Atomicity of remote read-modify-writes: hca or glob. Default: both, for tests that have any
    #[arg(long, value_name = "ATOMICITY", value_parser = values::rmw())]
    rmw: Option<RmwAtomicity>,
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
  mowgli check                      the whole catalogue
  mowgli check -q                   the whole catalogue, as a table only
  mowgli check SB3 MP4 --model rdma-tso
  mowgli check litmus/rmw --engine both --limit time=5s
  mowgli check --model rdma-tso,mine.cat
  mowgli check @nightly.list --json > verdicts.json

EXIT STATUS
  0  every verdict is as the tests state
  1  some verdict differs or is vacuous, or the two engines disagree
  2  wrong usage, a file cannot be read, or a test has errors
  3  some verdict is unknown: a limit was reached
The exit status is the same when nobody reads the output to its end.";

#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    shard: Option<String>,
    /// The fingerprint of what was asked, in a share only.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<String>,
    engine: Engine,
    rows: Vec<Numbered<'a, Row>>,
    refused: &'a [Report],
    warnings: &'a [Report],
    totals: &'a Totals,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Error> {
    let models: Vec<Loaded> = args.models.iter().map(choice::load).collect::<Result<_, _>>()?;
    let loaded = source::load(&args.paths)?;
    if let [test] = &loaded.tests[..] {
        refuse_regions(test, &models)?;
    }
    let run = Run::start(args.limit);
    let mut jobs: Vec<Job> = Vec::new();
    for test in &loaded.tests {
        for under in settings_of(test, args, &models) {
            under.allows(args.engine)?;
            jobs.push(Job::Rdma(test, under));
        }
    }
    jobs.extend(jobs_of_corerma(&loaded.corerma, &models));
    let run_of = shard::run_of(args.shard, || jobs.iter().map(Job::identity).collect());
    let mut rows = Vec::new();
    let mine = |unit: &usize| args.shard.has(*unit);
    let (mut stopped, mut left) = (None, (0..jobs.len()).filter(mine).count());
    let bar = progress::bar(left);
    // The unit of each row.
    let mut units: Vec<usize> = Vec::new();
    for (unit, job) in jobs.iter().enumerate().filter(|(unit, _)| mine(unit)) {
        stopped = run.stopped();
        if stopped.is_some() {
            break;
        }
        left -= 1;
        bar.set_message(job.title());
        let (text, found) = job.run(args, &run);
        if !args.json && !args.quiet {
            bar.suspend(|| output::print(&text))?;
        }
        rows.extend(found);
        units.resize(rows.len(), unit);
        bar.inc(1);
    }
    bar.finish_and_clear();
    // Ctrl-C during the last search leaves it incomplete.
    let stopped = stopped.or(run.stopped().filter(|&s| s == Stop::Interrupted));
    let summary = Summary::new(&rows, loaded.refused.len(), stopped, left);
    if args.json {
        output::print_json(&Document {
            version: 1,
            shard: shard::named(args.shard),
            run: run_of,
            engine: args.engine,
            rows: shard::numbered(args.shard, &rows, units),
            refused: &loaded.refused,
            warnings: &loaded.warnings,
            totals: &summary.totals,
        })?;
    } else {
        output::print(&summary.table(output::width()))?;
    }
    Ok(summary.exit())
}

/// Refuses to check one test with regions of relaxed ordering if no model asked for has any: the answer would be empty. Models that lack
/// something else, or stand beside one that applies, are reported as others are.
fn refuse_regions(test: &Test, models: &[Loaded]) -> Result<(), Error> {
    let program = &test.litmus.program;
    let mut plain = program.clone();
    plain.locations.iter_mut().for_each(|l| l.relaxed = false);
    let mut refusal = None;
    for model in models {
        match model {
            Loaded::BuiltIn(model) => match applicable(program, *model) {
                Ok(()) => return Ok(()),
                Err(reason) if applicable(&plain, *model).is_ok() => {
                    refusal.get_or_insert(reason);
                }
                Err(_) => {}
            },
            Loaded::File(_) | Loaded::CoreRma(_) => return Ok(()),
        }
    }
    match refusal {
        Some(reason) => Err(Error::Usage(format!("{}: {reason}", test.litmus.name))),
        None => Ok(()),
    }
}

/// Returns the settings under which a test is checked: those asked for, or all that apply.
fn settings_of(test: &Test, args: &Args, models: &[Loaded]) -> Vec<Under> {
    let program = &test.litmus.program;
    let mut out = settings(program);
    if !models.is_empty() {
        let asked = |model: Model| {
            models
                .iter()
                .any(|m| matches!(m, Loaded::BuiltIn(b) if *b == model))
        };
        out.extend(tiered_settings(program));
        out.retain(|s| asked(s.model));
        // A model asked for by name is reported even where it does not apply.
        let missing = Model::every().filter(|&m| asked(m) && applicable(program, m).is_err());
        out.extend(missing.map(|model| Setting {
            model,
            rmw: RmwAtomicity::Hca,
        }));
    }
    if let Some(rmw) = args.rmw {
        out.iter_mut().for_each(|s| s.rmw = rmw);
        out.sort_unstable();
        out.dedup();
    }
    let mut out: Vec<Under> = out.into_iter().map(Under::from).collect();
    for model in models {
        match model {
            Loaded::BuiltIn(_) => {}
            // Reported as a model that does not apply.
            Loaded::CoreRma(_) => out.push(Under {
                model: model.clone(),
                rmw: RmwAtomicity::Hca,
            }),
            Loaded::File(file) => {
                let mut under = Under::of_file(file, program);
                if let Some(rmw) = args.rmw {
                    under.truncate(1);
                    under.iter_mut().for_each(|u| u.rmw = rmw);
                }
                out.extend(under);
            }
        }
    }
    out
}

/// Returns the checks of tests of coreRMA: under the models named, or all of coreRMA. Any other model is reported as one that does not apply.
fn jobs_of_corerma<'a>(tests: &'a [CoreRmaTest], named: &[Loaded]) -> Vec<Job<'a>> {
    let models = match named.is_empty() {
        true => CoreRma::ALL.map(Loaded::CoreRma).to_vec(),
        false => named.to_vec(),
    };
    let jobs = |test| models.iter().map(move |model| Job::CoreRma(test, model.clone()));
    tests.iter().flat_map(jobs).collect()
}

/// A test, and what it is checked under.
enum Job<'a> {
    /// A test of RDMA.
    Rdma(&'a Test, Under),
    /// A test of coreRMA. There is one engine for it.
    CoreRma(&'a CoreRmaTest, Loaded),
}

impl Job<'_> {
    /// Returns all on which the result depends.
    fn identity(&self) -> String {
        match self {
            Job::Rdma(test, under) => format!("{}\n{under}\n{}", test.path, test.source),
            Job::CoreRma(test, model) => format!("{}\n{model}\n{}", test.path, test.source),
        }
    }

    fn title(&self) -> String {
        match self {
            Job::Rdma(test, under) => format!("{} {under}", test.litmus.name),
            Job::CoreRma(test, model) => format!("{} {model}", test.litmus.name),
        }
    }

    /// Checks the test: its reports and its rows.
    fn run(&self, args: &Args, run: &Run) -> (String, Vec<Row>) {
        let start = Instant::now();
        let seconds = || start.elapsed().as_secs_f64();
        match self {
            Job::Rdma(test, under) => {
                let answer = under.decide(&test.litmus, args.engine, &run.budget());
                let found = answer.as_ref().map(|answer| Found {
                    search: &answer.search,
                    engines_disagree: answer.disagreement.is_some(),
                    time_s: seconds(),
                });
                // Tests state verdicts for built-in models only.
                let expected = |query: &Query| {
                    let setting = under.setting()?;
                    check::expected(&test.litmus.program, query, setting)
                };
                rows(test, under, found, &expected)
            }
            Job::CoreRma(test, named) => {
                let model = choice::of_corerma(Some(named.clone()));
                let search = model
                    .as_ref()
                    .map(|m| m.outcomes(&test.litmus.program, &run.budget()));
                let found = search.as_ref().map(|search| Found {
                    search,
                    engines_disagree: false,
                    time_s: seconds(),
                });
                let reason = format!("{named} does not apply: the test is of coreRMA");
                let expected = |query: &CoreRmaQuery| query.expected.get(model.as_ref().ok()?).copied();
                rows(test, named, found.map_err(|_| &reason), &expected)
            }
        }
    }
}

/// The outcomes of a test.
struct Found<'a, P: Dialect> {
    search: &'a Search<P::Outcome>,
    engines_disagree: bool,
    time_s: f64,
}

/// Reports on each condition of a test under a model, or says why the model does not apply.
fn rows<P: Dialect>(
    test: &Test<P>,
    setting: &dyn Display,
    found: Result<Found<'_, P>, &String>,
    expected: &dyn Fn(&QueryOf<P>) -> Option<Verdict>,
) -> (String, Vec<Row>) {
    let mut text = format!("Model {setting}\n");
    if let Err(reason) = &found {
        text.push_str(&format!("Test {}: {reason}\n", test.litmus.name));
    }
    let mut rows = Vec::new();
    for (index, query) in test.litmus.queries.iter().enumerate() {
        if let Ok(Found { search, time_s, .. }) = &found {
            text.push_str(&report::herd_with_time(
                &test.litmus,
                index,
                search,
                Some(*time_s),
            ));
        }
        let row = row(test, index, setting, &found, expected(query));
        if let (Some(expected), Some(false)) = (row.expected, row.as_expected) {
            text.push_str(&format!(
                "Expected {}: {expected} under {setting} (DIFFERS)\n",
                row.name
            ));
        }
        if row.engines_disagree {
            text.push_str(&format!("Engines disagree on {} under {setting}\n", row.name));
        }
        rows.push(row);
    }
    text.push('\n');
    (text, rows)
}

fn row<P: Dialect>(
    test: &Test<P>,
    index: usize,
    setting: &dyn Display,
    found: &Result<Found<'_, P>, &String>,
    expected: Option<Verdict>,
) -> Row {
    let litmus = &test.litmus;
    let query = &litmus.queries[index];
    let mut row = Row {
        name: litmus.query_name(index),
        path: test.path.clone(),
        setting: setting.to_string(),
        condition: query.condition.display(&litmus.program),
        verdict: None,
        expected,
        as_expected: None,
        engines_disagree: false,
        not_applicable: None,
        vacuous: false,
        limit: None,
        states: Vec::new(),
        positive: 0,
        negative: 0,
        time_s: 0.0,
    };
    match found {
        Err(reason) => row.not_applicable = Some(reason.to_string()),
        Ok(found) => {
            let judgement: Judgement = check::judge(litmus, index, found.search);
            row.verdict = judgement.verdict();
            row.vacuous = judgement.is_vacuous();
            row.as_expected = expected.and_then(|v| judgement.meets(v));
            row.engines_disagree = found.engines_disagree;
            row.states = report::states(litmus, index, found.search);
            row.positive = judgement.positive;
            row.negative = judgement.negative;
            row.limit = judgement.limit.map(|l| l.advice());
            row.time_s = found.time_s;
        }
    }
    row
}
