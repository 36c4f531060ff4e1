//! `mowgli compare`: outcomes that separate two models.

use std::collections::BTreeSet;
use std::fmt::Write;

use mowgli::check::Engine;
use mowgli::litmus::{Litmus, Operand};
use mowgli::outcome::{Outcome, Search};
use mowgli::program::{Loc, Reg, ThreadId};
use serde::Serialize;

use crate::budget::{self, Limits, Run};
use crate::choice::{Choice, Under};
use crate::{Error, Exit, output, progress, source, values};

/// Show the outcomes that separate two models
///
/// Runs a test under both models and prints each final state (every register and location) that one allows and the
/// other does not. A model may carry the atomicity of remote read-modify-writes: rdma-tso/glob.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "EXAMPLES\n  mowgli compare RDMA-3e --models rdma-tso,rdma-tso-nopcie\n  \
    mowgli compare TSO-1a --models sc,tso\n  mowgli compare mine.litmus --models rdma-tso,rdma-tso/glob\n  \
    mowgli compare SB3 --models rdma-tso,mine.cat\n\n\
    EXIT STATUS\n  0  the models agree\n  1  they differ\n  2  wrong usage, or errors in the test\n  \
    3  unknown: a limit was reached"
)]
pub(crate) struct Args {
    /// A built-in test or a file
    test: String,
    /// The two models, each built in or a file *.cat, with /glob for the other atomicity
    #[arg(short, long, value_name = "A,B", value_delimiter = ',', required = true)]
    models: Vec<Choice>,
    /// The engine that answers: declarative, operational or both
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
    only_here: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Error> {
    let [a, b] = args.models.as_slice() else {
        return Err(Error::Usage(
            "--models takes two models with a comma: --models rdma-sc,rdma-tso".to_owned(),
        ));
    };
    let (a, b) = (a.load()?, b.load()?);
    a.allows(args.engine)?;
    b.allows(args.engine)?;
    let test = source::load_one(&args.test)?;
    let run = Run::start(args.limit);
    let search = |under: &Under| {
        under
            .outcomes(&test.litmus.program, args.engine, &run.budget())
            .map_err(Error::Usage)
    };
    let clock = progress::clock(format!("{} under {a} and {b}", test.litmus.name));
    let (found_a, found_b) = (search(&a)?, search(&b)?);
    clock.finish_and_clear();
    let sides = [
        side(&test.litmus, &a, &found_a, &found_b),
        side(&test.litmus, &b, &found_b, &found_a),
    ];
    if args.json {
        output::print_json(&Document {
            version: 1,
            test: &test.litmus.name,
            models: &sides,
        })?;
    } else {
        output::print(&text(&test.litmus.name, &sides))?;
    }
    Ok(match &sides {
        // An outcome of one model separates the two if the search under the other model was complete.
        [a, b] if (b.complete && !a.only_here.is_empty()) || (a.complete && !b.only_here.is_empty()) => {
            Exit::Differs
        }
        [a, b] if !a.complete || !b.complete => Exit::Unknown,
        _ => Exit::AsStated,
    })
}

fn side(litmus: &Litmus, setting: &Under, own: &Search, other: &Search) -> Side {
    let only: BTreeSet<&Outcome> = own.outcomes.difference(&other.outcomes).collect();
    Side {
        model: setting.to_string(),
        states: own.outcomes.len(),
        complete: own.is_complete(),
        only_here: only.into_iter().map(|o| state(litmus, o)).collect(),
    }
}

fn text(name: &str, sides: &[Side; 2]) -> String {
    let mut out = format!("Test {name}\n");
    for (side, other) in [(&sides[0], &sides[1]), (&sides[1], &sides[0])] {
        let incomplete = if side.complete {
            ""
        } else {
            " (a limit was reached: there may be more)"
        };
        let _ = writeln!(out, "Model {}: {} states{incomplete}", side.model, side.states);
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

/// Prints every register and location of an outcome.
fn state(litmus: &Litmus, outcome: &Outcome) -> String {
    let program = &litmus.program;
    let registers = program.threads.iter().enumerate().flat_map(|(t, thread)| {
        // The parser bounds threads, registers and locations far below these types.
        (0..thread.registers.len()).map(move |r| Operand::Reg(ThreadId(t as u8), Reg(r as u16)))
    });
    let locations = (0..program.locations.len()).map(|l| Operand::Loc(Loc(l as u16)));
    let parts: Vec<String> = registers
        .chain(locations)
        .map(|o| format!("{}={};", o.display(program), o.value(outcome)))
        .collect();
    parts.join(" ")
}
