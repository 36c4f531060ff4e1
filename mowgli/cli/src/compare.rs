//! `mowgli compare`: outcomes that separate two models.

use std::fmt::{Display, Write};

use mowgli::check::Engine;
use mowgli::counted::counted;
use mowgli::litmus::{Dialect, Litmus};
use mowgli::outcome::{Budget, Limit, Search};
use serde::Serialize;

use crate::budget::{self, Limits, Run};
use crate::choice::{self, Choice};
use crate::source::AnyTest;
use crate::{Error, Exit, output, progress, source, values};

/// Show the outcomes that separate two models
///
/// Runs a test under both models and prints each final state (every register and location) that one allows and the
/// other does not. A model may carry the atomicity of remote read-modify-writes: rdma-tso/glob. Tests of coreRMA are compared under two
/// models of coreRMA.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "EXAMPLES\n  mowgli compare RDMA-3e --models rdma-tso,rdma-tso-nopcie\n  \
    mowgli compare TSO-1a --models sc,tso\n  mowgli compare mine.litmus --models rdma-tso,rdma-tso/glob\n  \
    mowgli compare SB3 --models rdma-tso,mine.cat\n  \
    mowgli compare RMA-MP4 --models corerma,corerma-unordered\n\n\
    EXIT STATUS\n  0  the models agree\n  1  they differ\n  2  wrong usage, or errors in the test\n  \
    3  unknown: a limit was reached"
)]
pub(crate) struct Args {
    /// A built-in test or a file
    test: String,
    /// The two models, each built in or a file *.cat, with /glob for the other atomicity
    #[arg(short, long, value_name = "A,B", value_delimiter = ',', required = true)]
    models: Vec<Choice>,
    /// The engine that answers: declarative, operational, concrete or both
    #[arg(short, long, default_value = "declarative", value_parser = values::engine())]
    engine: Engine,
    #[arg(short, long, default_value = "time=60s", value_name = "LIMITS", help = budget::HELP, long_help = budget::LONG_HELP)]
    limit: Limits,
    /// Print JSON (docs/json.md)
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    test: &'a str,
    models: &'a [Side; 2],
}

#[derive(Serialize)]
struct Side {
    model: String,
    states: usize,
    complete: bool,
    /// The limit because of which the states are not all, and the remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<String>,
    only_here: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Error> {
    let [a, b] = args.models.as_slice() else {
        return Err(Error::Usage(
            "--models takes two models with a comma: --models rdma-sc,rdma-tso".to_owned(),
        ));
    };
    let (a, b) = (a.load()?, b.load()?);
    match source::load_any(&args.test)? {
        AnyTest::Rdma(test) => {
            a.allows(args.engine)?;
            b.allows(args.engine)?;
            let program = &test.litmus.program;
            compare(args, &test.litmus, [&a, &b], |under, budget| {
                let found = under.outcomes(program, args.engine, budget);
                found.map_err(Error::Usage)
            })
        }
        // There is one engine for coreRMA.
        AnyTest::CoreRma(test) => {
            let models = [
                choice::of_corerma(Some(a.model))?,
                choice::of_corerma(Some(b.model))?,
            ];
            compare(args, &test.litmus, models.each_ref(), |model, budget| {
                Ok(model.outcomes(&test.litmus.program, budget))
            })
        }
    }
}

/// Searches for the outcomes of a test under two models, and reports what separates them.
fn compare<P: Dialect, M: Display>(
    args: &Args,
    litmus: &Litmus<P>,
    [a, b]: [&M; 2],
    search: impl Fn(&M, &Budget<'_>) -> Result<Search<P::Outcome>, Error>,
) -> Result<Exit, Error> {
    let run = Run::start(args.limit);
    let clock = progress::clock(format!("{} under {a} and {b}", litmus.name));
    let found = [search(a, &run.budget())?, search(b, &run.budget())?];
    clock.finish_and_clear();
    let sides = [
        side(&litmus.program, a, &found[0], &found[1]),
        side(&litmus.program, b, &found[1], &found[0]),
    ];
    report(args, &litmus.name, &sides)
}

fn report(args: &Args, test: &str, sides: &[Side; 2]) -> Result<Exit, Error> {
    if args.json {
        output::print_json(&Document {
            version: 1,
            test,
            models: sides,
        })?;
    } else {
        output::print(&text(test, sides))?;
    }
    Ok(match sides {
        // An outcome of one model separates the two if the search under the other model was complete.
        [a, b] if (b.complete && !a.only_here.is_empty()) || (a.complete && !b.only_here.is_empty()) => {
            Exit::Differs
        }
        [a, b] if !a.complete || !b.complete => Exit::Unknown,
        _ => Exit::AsStated,
    })
}

/// Says what a model has and the other one has not.
fn side<P: Dialect>(
    program: &P,
    model: &impl Display,
    own: &Search<P::Outcome>,
    other: &Search<P::Outcome>,
) -> Side {
    let only = own.outcomes.difference(&other.outcomes);
    Side {
        model: model.to_string(),
        states: own.outcomes.len(),
        complete: own.is_complete(),
        limit: own.completeness.limit().map(Limit::advice),
        only_here: only.map(|outcome| state(program, outcome)).collect(),
    }
}

fn text(name: &str, sides: &[Side; 2]) -> String {
    let mut out = format!("Test {name}\n");
    for (side, other) in [(&sides[0], &sides[1]), (&sides[1], &sides[0])] {
        let incomplete = match &side.limit {
            None => String::new(),
            Some(limit) => format!(" (there may be more: {limit})"),
        };
        let _ = writeln!(
            out,
            "Model {}: {}{incomplete}",
            side.model,
            counted(side.states, "state")
        );
        let unsure = if other.complete {
            ""
        } else {
            " as far as was searched"
        };
        let _ = writeln!(out, "Only {}{unsure}: {}", side.model, side.only_here.len());
        for state in &side.only_here {
            let _ = writeln!(out, "{state}");
        }
    }
    out
}

/// Prints the values of every register and location in an outcome.
fn state<P: Dialect>(program: &P, outcome: &P::Outcome) -> String {
    let operands = program.operands().into_iter();
    let parts = operands.map(|o| format!("{}={};", o.display(program), o.value(outcome)));
    parts.collect::<Vec<_>>().join(" ")
}
