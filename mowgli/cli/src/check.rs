//! `mowgli check`: runs tests under models, reports as herd7 does, and compares the verdicts with those that the tests state.
//!
//! Tests of RDMA come first; [`crate::check_corerma`] does those of coreRMA.

use std::time::Instant;

use mowgli::check::{self, Answer, Engine, Judgement, applicable, settings, tiered_settings};
use mowgli::litmus::Setting;
use mowgli::model::{Model, RmwAtomicity};
use mowgli::report;
use serde::Serialize;

use crate::budget::{self, Limits, Run, Stop};
use crate::choice::{self, Loaded, ModelChoice, Under};
use crate::diagnostics::Report;
use crate::row::Row;
use crate::shard::{self, Numbered, Shard};
use crate::source::{self, Test};
use crate::summary::{Summary, Totals};
use crate::{Error, Exit, check_corerma, output, progress, values};

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
    let mut jobs: Vec<(&Test, Under)> = Vec::new();
    for test in &loaded.tests {
        for under in settings_of(test, args, &models) {
            under.allows(args.engine)?;
            jobs.push((test, under));
        }
    }
    let corerma = check_corerma::jobs(&loaded.corerma, &models);
    let asked = || {
        let rdma = jobs
            .iter()
            .map(|(t, under)| format!("{}\n{under}\n{}", t.path, t.source));
        let corerma = corerma
            .iter()
            .map(|(t, model)| format!("{}\n{model}\n{}", t.path, t.source));
        rdma.chain(corerma).collect()
    };
    let run_of = shard::run_of(args.shard, asked);
    let mut rows = Vec::new();
    let first_corerma = jobs.len();
    let mine = |unit: &usize| args.shard.has(*unit);
    let (mut stopped, mut left) = (None, (0..first_corerma + corerma.len()).filter(mine).count());
    let bar = progress::bar(left);
    // The unit of each row.
    let mut units: Vec<usize> = Vec::new();
    for (unit, (test, setting)) in jobs.iter().enumerate().filter(|(unit, _)| mine(unit)) {
        stopped = run.stopped();
        if stopped.is_some() {
            break;
        }
        left -= 1;
        bar.set_message(format!("{} {setting}", test.litmus.name));
        let (text, found) = one(test, setting, args, &run);
        if !args.json && !args.quiet {
            bar.suspend(|| output::print(&text))?;
        }
        rows.extend(found);
        units.resize(rows.len(), unit);
        bar.inc(1);
    }
    for (number, (test, model)) in corerma.into_iter().enumerate() {
        if !mine(&(first_corerma + number)) {
            continue;
        }
        stopped = stopped.or(run.stopped());
        if stopped.is_some() {
            break;
        }
        left -= 1;
        bar.set_message(format!("{} {model}", test.litmus.name));
        let (text, found) = check_corerma::one(test, &model, &run);
        if !args.json && !args.quiet {
            bar.suspend(|| output::print(&text))?;
        }
        rows.extend(found);
        units.resize(rows.len(), first_corerma + number);
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

/// Refuses to check one test with regions of relaxed ordering under a model that has none: the answer would be empty.
fn refuse_regions(test: &Test, models: &[Loaded]) -> Result<(), Error> {
    let program = &test.litmus.program;
    for model in models {
        if let Loaded::BuiltIn(model) = model
            && program.has_relaxed_regions()
            && let Err(reason) = applicable(program, *model)
        {
            return Err(Error::Usage(format!("{}: {reason}", test.litmus.name)));
        }
    }
    Ok(())
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

/// Checks one test under one setting: its reports and its rows.
fn one(test: &Test, setting: &Under, args: &Args, run: &Run) -> (String, Vec<Row>) {
    let start = Instant::now();
    let answer = setting.decide(&test.litmus, args.engine, &run.budget());
    let time_s = start.elapsed().as_secs_f64();
    let mut text = format!("Model {setting}\n");
    if let Err(reason) = &answer {
        text.push_str(&format!("Test {}: {reason}\n", test.litmus.name));
    }
    let mut rows = Vec::new();
    for index in 0..test.litmus.queries.len() {
        if let Ok(answer) = &answer {
            text.push_str(&report::herd_with_time(
                &test.litmus,
                index,
                &answer.search,
                Some(time_s),
            ));
        }
        let row = row(test, index, setting, &answer, time_s);
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

fn row(test: &Test, index: usize, setting: &Under, answer: &Result<Answer, String>, time_s: f64) -> Row {
    let litmus = &test.litmus;
    let query = &litmus.queries[index];
    // Tests state verdicts for built-in models only.
    let expected = setting
        .setting()
        .and_then(|s| check::expected(&litmus.program, query, s));
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
        time_s,
    };
    match answer {
        Err(reason) => row.not_applicable = Some(reason.clone()),
        Ok(answer) => {
            let judgement: Judgement = check::judge(litmus, index, &answer.search);
            row.verdict = judgement.verdict();
            row.vacuous = judgement.is_vacuous();
            row.as_expected = expected.and_then(|v| judgement.meets(v));
            row.engines_disagree = answer.disagreement.is_some();
            row.states = report::states(litmus, index, &answer.search);
            row.positive = judgement.positive;
            row.negative = judgement.negative;
            row.limit = judgement.limit.map(|l| l.advice());
        }
    }
    row
}
