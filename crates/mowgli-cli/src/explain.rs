//! `mowgli explain`: why an outcome is allowed or forbidden.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use mowgli::check::applicable;
use mowgli::explain::{self, Drawing};
use mowgli::explore;
use mowgli::litmus::{Litmus, Setting, parse};
use mowgli::model::{Model, RmwAtomicity};
use mowgli::outcome::Outcome;

use crate::budget::{Limits, interrupt_flag};
use crate::{Error, Exit, output, source, values};

/// Explain why an outcome is allowed or forbidden
///
/// An allowed outcome gets a witness: an execution that the model accepts, and the steps of the machine that lead to
/// it, what each CPU, store buffer and queue pair does, in order. A forbidden one gets the reason: the smallest cycle
/// among the executions that would have the outcome, each edge with the axiom or table cell that puts it there, and the
/// single changes (an instruction removed, a model weakened) that would allow it.
///
/// --svg and --dot draw the execution: threads as columns, nodes as groups, relations coloured, the cycle marked.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES\n  mowgli explain SB3 --model rdma-tso\n  \
    mowgli explain ST2 --outcome 'z=1'\n  mowgli explain mine.litmus --query 2\n  \
    mowgli explain MP1 --svg mp1.svg\n\nEXIT STATUS\n  0  explained   1  the two engines disagree   2  errors   \
    3  unknown (limit reached)")]
pub(crate) struct Args {
    /// A built-in test or a file
    test: String,
    /// The model
    #[arg(short, long, default_value = "rdma-tso", value_parser = values::model())]
    model: Model,
    /// Atomicity of remote read-modify-writes: hca or glob
    #[arg(long, default_value = "hca", value_name = "ATOMICITY", value_parser = values::rmw())]
    rmw: RmwAtomicity,
    /// The outcome to explain, as a formula over the final state. Default: the test's condition
    #[arg(short, long, value_name = "FORMULA")]
    outcome: Option<String>,
    /// Which of the test's conditions to explain
    #[arg(
        short,
        long,
        default_value_t = 1,
        value_name = "N",
        conflicts_with = "outcome"
    )]
    query: usize,
    /// Draw the execution as SVG into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Draw the execution as Graphviz DOT into this file
    #[arg(long, value_name = "FILE")]
    dot: Option<PathBuf>,
    /// Limits of each search, as in time=10s,states=1000000
    #[arg(short, long, default_value = "time=60s", value_name = "LIMITS")]
    limit: Limits,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Error> {
    let test = source::load_one(&args.test)?;
    let litmus = match &args.outcome {
        Some(formula) => with_condition(&test.litmus, formula)?,
        None => with_query(test.litmus, args.query)?,
    };
    let setting = Setting {
        model: args.model,
        rmw: args.rmw,
    };
    applicable(&litmus.program, args.model).map_err(|e| Error::Usage(e.to_string()))?;
    let formula = &litmus.queries[0].condition.formula;
    let title = format!(
        "{} under {setting}: {}",
        litmus.name,
        formula.display(&litmus.program)
    );
    output::print(&format!("{title}\n\n"))?;
    let flag = interrupt_flag();
    match explain::allowed(&litmus.program, setting, formula, &args.limit.budget(&flag)) {
        Err(limit) => {
            output::print(&format!("Unknown: {limit}\n"))?;
            Ok(Exit::Unknown)
        }
        Ok(Some(witness)) => {
            draw(args, &title, Some(witness.drawing(&litmus.program)))?;
            output::print(&format!(
                "Allowed. An execution that the model accepts:\n\n{}\n",
                witness.render(&litmus.program)
            ))?;
            trace(args, &litmus, setting, &flag)
        }
        Ok(None) => {
            let reason = explain::forbidden(&litmus.program, setting, formula, &args.limit.budget(&flag));
            draw(args, &title, reason.drawing(&litmus.program))?;
            output::print(&format!(
                "Forbidden.\n\n{}\n",
                reason.render(&litmus.program, setting)
            ))?;
            Ok(Exit::AsStated)
        }
    }
}

/// Prints a shortest way of the machine to an outcome that the formula accepts.
fn trace(args: &Args, litmus: &Litmus, setting: Setting, flag: &AtomicBool) -> Result<Exit, Error> {
    let formula = &litmus.queries[0].condition.formula;
    let wanted = |outcome: &Outcome| formula.holds(outcome);
    let mut text = String::new();
    let exit = match explore::trace(
        &litmus.program,
        setting.model,
        setting.rmw,
        &wanted,
        &args.limit.budget(flag),
    ) {
        Ok(Some(steps)) => {
            text.push_str("The machine reaches it, step by step:\n\n");
            for (number, step) in steps.iter().enumerate() {
                let _ = writeln!(text, "{:4}  {step}", number + 1);
            }
            Exit::AsStated
        }
        Ok(None) => {
            text.push_str("The machine does not reach it: the two engines disagree.\n");
            Exit::Differs
        }
        Err(limit) => {
            let _ = writeln!(text, "No trace of the machine: {limit}.");
            Exit::Unknown
        }
    };
    output::print(&text)?;
    Ok(exit)
}

/// Writes the picture files that were asked for.
fn draw(args: &Args, title: &str, drawing: Option<Drawing>) -> Result<(), Error> {
    let Some(drawing) = drawing else {
        if args.svg.is_some() || args.dot.is_some() {
            eprintln!("mowgli: no candidate execution has the outcome, so there is nothing to draw");
        }
        return Ok(());
    };
    let write = |path: &Option<PathBuf>, text: String| match path {
        Some(path) => std::fs::write(path, text).map_err(|source| Error::Write {
            path: path.display().to_string(),
            source,
        }),
        None => Ok(()),
    };
    write(&args.svg, drawing.svg(title))?;
    write(&args.dot, drawing.dot(title))
}

/// The test with its N-th condition only.
fn with_query(mut litmus: Litmus, number: usize) -> Result<Litmus, Error> {
    let count = litmus.queries.len();
    if number == 0 || number > count {
        return Err(Error::Usage(format!(
            "--query {number}: the test has {count} conditions, numbered from 1"
        )));
    }
    litmus.queries = vec![litmus.queries.swap_remove(number - 1)];
    Ok(litmus)
}

/// The test with `exists (formula)` as its only condition.
fn with_condition(litmus: &Litmus, formula: &str) -> Result<Litmus, Error> {
    let bare = Litmus {
        queries: Vec::new(),
        ..litmus.clone()
    };
    let text = format!("{}\nexists ({formula})\n", bare.print());
    parse(&text)
        .map(|p| p.litmus)
        .map_err(|e| Error::Usage(format!("--outcome: {e}")))
}
