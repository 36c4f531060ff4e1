//! `mowgli faults`: which changes of a model tests notice.

use std::fmt::Write;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Instant;

use mowgli::check::{applicable, judge};
use mowgli::counted::counted;
use mowgli::litmus::Setting;
use mowgli::models::Spec;
use mowgli::outcome::{Completeness, Search};
use mowgli_generate::faults::{Change, Notice, changes, coverage};
use mowgli_generate::language::Language;
use mowgli_generate::order::workers;
use serde::Serialize;

use crate::budget::{Limits, Run};
use crate::source::{self, Test};
use crate::theories::{self, Bounds};
use crate::{Error, Exit, output, progress, values};

/// Find which changes of a model tests notice
///
/// Changes one cell of the model's ordering tables, or takes one term from ib or ob, and looks for the smallest program up to a size
/// that has other outcomes: such a program makes a test that notices the change. A change that no program up to the size
/// notices is listed as such. With --suite, the changes that given tests notice are listed beside: a test notices a
/// change if its condition has another verdict under the changed model.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The model: a built-in one, such as rdma-tso
    model: Setting,
    /// Most instructions of a program
    #[arg(short, long, value_name = "S", default_value = "4", allow_negative_numbers = true, value_parser = values::whole::<usize>(1..=theories::SIZE_MAX as u64))]
    size: usize,
    #[command(flatten)]
    bounds: Bounds,
    /// Tests to compare with: files, folders, @lists or names of built-in tests; may be repeated
    #[arg(long, value_name = "PATH")]
    suite: Vec<String>,
    /// Write the smallest test of each change into this folder, as CHANGE.litmus; with --suite, of the changes that the suite misses
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Threads that search. Default: as many as the machine has cores
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::workers())]
    threads: Option<NonZeroUsize>,
    /// Print JSON (docs/json.md)
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
EXAMPLES
  mowgli faults rdma-tso --size 3
  mowgli faults rdma-tso --size 4 --suite litmus/rdma-tso24
  mowgli generate --model rdma-tso --size 3 --out suite
  mowgli faults rdma-tso --size 3 --suite suite --out suite/faults    the suite now misses none

EXIT STATUS
  0  every change that a program notices, the suite notices (or there is no suite)
  1  the suite misses some
  2  wrong usage
  130  interrupted";

/// The result as JSON.
#[derive(Serialize)]
struct Document {
    version: u32,
    model: String,
    language: String,
    programs: u64,
    changes: Vec<Row>,
    time_s: f64,
}

/// A change.
#[derive(Serialize)]
struct Row {
    change: String,
    what: String,
    /// The smallest test that notices it.
    noticed_by: Option<Noticed>,
    /// The first test of the suite that notices it.
    suite: Option<String>,
}

/// A test that notices a change.
#[derive(Serialize)]
struct Noticed {
    size: usize,
    /// Whether the model forbids the condition and the changed model allows it, or the other way round.
    forbidden: bool,
    litmus: String,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Error> {
    let setting = args.model;
    let spec = Spec::of(setting.model, setting.rmw);
    let language = args
        .bounds
        .restrict(Language::of(setting.model, theories::size(args.size)?));
    let suite = match args.suite.as_slice() {
        [] => Vec::new(),
        paths => source::load(paths)?.tests,
    };
    let run = Run::start(Limits::default());
    let start = Instant::now();
    let bar = progress::work("units");
    let found = coverage(
        &spec,
        &language,
        args.threads.unwrap_or_else(workers),
        &run.budget(),
        |done, all| {
            bar.set_length(all as u64);
            bar.set_position(done as u64);
            run.stopped().is_none()
        },
    );
    bar.finish_and_clear();
    let found = match found {
        Ok(found) => found,
        Err(_) if run.stopped().is_some() => {
            output::complain("mowgli: interrupted");
            return Ok(Exit::Unknown);
        }
        Err(limit) => return Err(Error::Usage(limit.to_string())),
    };
    let by_suite = noticed_by(&suite, &spec, setting, &run);
    let rows = found.changes.iter().map(|(change, notice)| Row {
        change: change.to_string(),
        what: change.summary(),
        noticed_by: notice.as_ref().map(|notice| noticed(change, notice, setting)),
        suite: by_suite
            .iter()
            .find(|(c, _)| c == change)
            .map(|(_, name)| name.clone()),
    });
    let document = Document {
        version: 1,
        model: setting.to_string(),
        language: theories::describe(&language),
        programs: found.programs,
        changes: rows.collect(),
        time_s: start.elapsed().as_secs_f64(),
    };
    let missed = |row: &&Row| row.noticed_by.is_some() && row.suite.is_none();
    let misses = !suite.is_empty() && document.changes.iter().any(|row| missed(&row));
    if let Some(folder) = &args.out {
        write(folder, &document)?;
    }
    if args.json {
        output::print_json(&document)?;
    } else {
        output::print(&text(&document, !suite.is_empty()))?;
    }
    Ok(if misses { Exit::Differs } else { Exit::AsStated })
}

/// Writes the tests of the changes that no test of the suite notices.
fn write(folder: &Path, document: &Document) -> Result<(), Error> {
    let error = |path: &Path| {
        let path = path.display().to_string();
        move |source| Error::Write { path, source }
    };
    fs::create_dir_all(folder).map_err(error(folder))?;
    for row in document.changes.iter().filter(|row| row.suite.is_none()) {
        let Some(test) = &row.noticed_by else { continue };
        let path = folder.join(format!("{}.litmus", test_name(&row.change)));
        fs::write(&path, &test.litmus).map_err(error(&path))?;
    }
    Ok(())
}

/// Returns the name of a change's test.
fn test_name(change: &str) -> String {
    change.replace([':', '='], "-")
}

fn noticed(change: &Change, notice: &Notice, setting: Setting) -> Noticed {
    let verdict = match notice.forbidden {
        true => mowgli::litmus::Verdict::Forbidden,
        false => mowgli::litmus::Verdict::Allowed,
    };
    let description = format!("notices {}", change.summary());
    Noticed {
        size: notice.size,
        forbidden: notice.forbidden,
        litmus: theories::text(
            &test_name(&change.to_string()),
            description,
            &notice.program,
            &notice.condition,
            &[(Some(setting), verdict)],
        ),
    }
}

/// Returns every change that a test notices, with the first such test.
fn noticed_by(suite: &[Test], spec: &Spec, setting: Setting, run: &Run) -> Vec<(Change, String)> {
    let usable: Vec<&Test> = suite
        .iter()
        .filter(|test| applicable(&test.litmus.program, setting.model).is_ok())
        .collect();
    let verdicts = |test: &Test, outcomes| {
        let search = Search {
            outcomes,
            completeness: Completeness::Complete,
            states: 0,
        };
        (0..test.litmus.queries.len())
            .map(|index| judge(&test.litmus, index, &search).positive > 0)
            .collect::<Vec<bool>>()
    };
    let own: Vec<_> = usable
        .iter()
        .map(|test| {
            let found = mowgli::declarative::outcomes_under(&test.litmus.program, spec, &run.budget());
            // Beyond a limit, as with a loop that needs more than its bound, the verdicts are not known.
            found.is_complete().then(|| verdicts(test, found.outcomes))
        })
        .collect();
    let mut out = Vec::new();
    for change in changes(spec).into_iter().filter(Change::is_single) {
        let changed = change.apply(spec);
        let notices = usable.iter().zip(&own).find(|(test, own)| {
            let found = change.outcomes(&changed, &test.litmus.program, &run.budget());
            let own = own.as_ref();
            own.is_some_and(|own| found.is_ok_and(|outcomes| verdicts(test, outcomes) != *own))
        });
        if let Some((test, _)) = notices {
            out.push((change, test.litmus.name.clone()));
        }
    }
    out
}

fn text(document: &Document, has_suite: bool) -> String {
    let mut out = format!("Model {}: {}\n\n", document.model, document.language);
    let noticed: Vec<&Row> = document
        .changes
        .iter()
        .filter(|r| r.noticed_by.is_some())
        .collect();
    for row in &noticed {
        let Some(test) = &row.noticed_by else {
            continue;
        };
        let verdict = if test.forbidden { "forbidden" } else { "allowed" };
        let suite = match &row.suite {
            Some(name) => format!(", suite: {name}"),
            None if has_suite => ", suite: MISSED".to_owned(),
            None => String::new(),
        };
        let _ = writeln!(
            out,
            "{}: {}; {}, {verdict}{suite}\n{}",
            row.change,
            row.what,
            counted(test.size, "instruction"),
            test.litmus
        );
    }
    let names =
        |rows: &mut dyn Iterator<Item = &Row>| rows.map(|r| r.change.as_str()).collect::<Vec<_>>().join(" ");
    let _ = writeln!(
        out,
        "{} of {} noticed by {}, {:.2} s",
        noticed.len(),
        counted(document.changes.len(), "change"),
        counted(document.programs, "program"),
        document.time_s
    );
    let mut silent = document.changes.iter().filter(|r| r.noticed_by.is_none());
    let _ = writeln!(out, "No program notices: {}", names(&mut silent));
    if has_suite {
        let mut missed = noticed.iter().copied().filter(|r| r.suite.is_none());
        let _ = writeln!(out, "The suite misses: {}", names(&mut missed));
        let mut larger = document
            .changes
            .iter()
            .filter(|r| r.noticed_by.is_none() && r.suite.is_some());
        let _ = writeln!(
            out,
            "The suite alone notices, by larger tests: {}",
            names(&mut larger)
        );
    }
    out
}
