//! `mowgli distinguish` for two models of coreRMA: the tests are of coreRMA.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use mowgli::counted::counted;
use mowgli_corerma::generate::distinguish::{Separator, Separators};
use mowgli_corerma::switches::Model;
use mowgli_generate::order::{in_order, workers};

use super::{Args, Document, Row, report, text};
use crate::budget::{Limits, Run};
use crate::shard::Shard;
use crate::{Error, Exit, output, progress};

/// Actions of a test, and processes, unless the options say otherwise.
const SIZE: usize = 8;
const PROCESSES: usize = 2;

pub(super) fn run(args: &Args, models: [Model; 2]) -> Result<Exit, Error> {
    let [first, second] = models;
    if args.bounds.is_of_instructions() || args.shard != Shard::WHOLE {
        return Err(Error::Usage(format!(
            "--nodes, --locations, --without, --with-rmw and --shard are not for {first} and {second}: their tests have one process a node and \
             all statements of coreRMA"
        )));
    }
    let (run, start) = (Run::start(Limits::default()), Instant::now());
    let size = args.size.unwrap_or(SIZE);
    let most = args.bounds.processes.unwrap_or(PROCESSES);
    let searches = (1..=most).map(|processes| Separators::new(models, processes, size));
    let searches: Vec<Separators> = searches
        .collect::<Result<_, _>>()
        .map_err(|e| Error::Usage(format!("--processes {most} --size {size}: {e}")))?;
    let (mut rows, mut programs, mut complete) = (Vec::new(), 0, true);
    let bar = progress::work("units");
    for search in &searches {
        let cancel = AtomicBool::new(false);
        let mut tests: BTreeSet<Separator> = BTreeSet::new();
        bar.set_position(0);
        bar.set_length(search.units() as u64);
        let workers = args.threads.unwrap_or_else(workers);
        in_order(
            search.units(),
            workers,
            |unit| search.unit(unit, &cancel),
            |_, found| {
                let Some(found) = found else {
                    return false;
                };
                programs += found.programs;
                tests.extend(found.tests);
                bar.inc(1);
                bar.set_message(format!(
                    "{}, {}",
                    counted(programs, "program"),
                    counted(tests.len(), "test")
                ));
                let goes_on = run.stopped().is_none();
                cancel.store(!goes_on, Ordering::Relaxed);
                complete &= goes_on;
                goes_on
            },
        );
        rows.extend(tests.iter().map(|test| (test.size, row(search, models, test))));
    }
    bar.finish_and_clear();
    rows.sort_by_key(|(size, _)| *size);
    if args.smallest {
        let least = rows.first().map(|(size, _)| *size);
        rows.retain(|(size, _)| Some(*size) == least);
    }
    let tests: Vec<Row> = rows.into_iter().map(|(_, row)| row).collect();
    if !args.json {
        tests.iter().try_for_each(|row| output::print(&text(row)))?;
    }
    let language = format!("size {size}, processes up to {most}; read write put get rga cas flush");
    report(
        args,
        Document {
            version: 1,
            shard: None,
            run: None,
            first: &args.first,
            second: &args.second,
            language,
            programs,
            complete,
            tests,
            time_s: start.elapsed().as_secs_f64(),
        },
    )
}

fn row(search: &Separators, models: [Model; 2], separator: &Separator) -> Row {
    let litmus = search.litmus(separator);
    let [first, second] = models.map(|model| model.to_string());
    let (forbidden_by, allowed_by) = match separator.first_forbids {
        true => (first, second),
        false => (second, first),
    };
    Row {
        unit: None,
        size: litmus.program.processes.iter().map(|p| p.code.len()).sum(),
        forbidden_by,
        allowed_by,
        condition: litmus.queries[0].condition.formula.display(&litmus.program),
        confirmed: None,
        litmus: litmus.print(),
        name: litmus.name,
    }
}
