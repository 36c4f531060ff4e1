//! `mowgli compare`: outcomes that separate two models.

use std::collections::BTreeSet;
use std::fmt::Write;

use mowgli::check::Engine;
use mowgli::counted::counted;
use mowgli::litmus::{Names, Operand, State};
use mowgli::outcome::{Completeness, Limit};
use mowgli::program::{Loc, Reg, ThreadId};
use mowgli_corerma::check;
use serde::Serialize;

use crate::budget::{self, Limits, Run};
use crate::choice::{self, Choice, Under};
use crate::source::{AnyTest, CoreRmaTest};
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
    let test = match source::load_any(&args.test)? {
        AnyTest::Rdma(test) => test,
        AnyTest::CoreRma(test) => return report(args, &test.litmus.name, &of_corerma(args, &test, a, b)?),
    };
    a.allows(args.engine)?;
    b.allows(args.engine)?;
    let run = Run::start(args.limit);
    let program = &test.litmus.program;
    let search = |under: &Under| {
        under
            .outcomes(program, args.engine, &run.budget())
            .map_err(Error::Usage)
    };
    let clock = progress::clock(format!("{} under {a} and {b}", test.litmus.name));
    let (found_a, found_b) = (search(&a)?, search(&b)?);
    clock.finish_and_clear();
    let registers: Vec<usize> = program.threads.iter().map(|t| t.registers.len()).collect();
    let operands = operands(&registers, program.locations.len());
    let found = [
        (a.to_string(), &found_a.outcomes, &found_a.completeness),
        (b.to_string(), &found_b.outcomes, &found_b.completeness),
    ];
    report(args, &test.litmus.name, &sides(program, &operands, found))
}

/// Compares a test of coreRMA under two models of coreRMA, by the one engine that there is for it.
fn of_corerma(args: &Args, test: &CoreRmaTest, a: Under, b: Under) -> Result<[Side; 2], Error> {
    let (a, b) = (
        choice::of_corerma(Some(a.model))?,
        choice::of_corerma(Some(b.model))?,
    );
    let run = Run::start(args.limit);
    let program = &test.litmus.program;
    let clock = progress::clock(format!("{} under {a} and {b}", test.litmus.name));
    let (found_a, found_b) = (
        check::run(&test.litmus, a, &run.budget()),
        check::run(&test.litmus, b, &run.budget()),
    );
    clock.finish_and_clear();
    let registers: Vec<usize> = program.processes.iter().map(|p| p.registers.len()).collect();
    let operands = operands(&registers, program.locations.len());
    let found = [
        (a.to_string(), &found_a.outcomes, &found_a.completeness),
        (b.to_string(), &found_b.outcomes, &found_b.completeness),
    ];
    Ok(sides(program, &operands, found))
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

/// Says of each model, given its name, its outcomes and whether these are all or a limit was reached, what it has and the other one has not.
fn sides<O>(
    program: &impl Names<Operand>,
    operands: &[Operand],
    [a, b]: [(String, &BTreeSet<O>, &Completeness); 2],
) -> [Side; 2]
where
    O: Ord + State<Operand>,
    O::Value: std::fmt::Display,
{
    let states = |own: &BTreeSet<O>, other: &BTreeSet<O>| {
        let only = own.difference(other);
        only.map(|o| state(program, operands, o)).collect()
    };
    [
        Side {
            only_here: states(a.1, b.1),
            states: a.1.len(),
            complete: *a.2 == Completeness::Complete,
            limit: a.2.limit().map(Limit::advice),
            model: a.0,
        },
        Side {
            only_here: states(b.1, a.1),
            states: b.1.len(),
            complete: *b.2 == Completeness::Complete,
            limit: b.2.limit().map(Limit::advice),
            model: b.0,
        },
    ]
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

/// Lists every register, given how many each thread has, and every location.
fn operands(registers: &[usize], locations: usize) -> Vec<Operand> {
    // The parser bounds threads, registers and locations far below these types.
    let of_thread = |(t, &count): (usize, &usize)| {
        let thread = ThreadId(t as u8);
        (0..count).map(move |r| Operand::Reg(thread, Reg(r as u16)))
    };
    let registers = registers.iter().enumerate().flat_map(of_thread);
    let locations = (0..locations).map(|l| Operand::Loc(Loc(l as u16)));
    registers.chain(locations).collect()
}

/// Prints the values of the operands in an outcome.
fn state<O>(program: &impl Names<Operand>, operands: &[Operand], outcome: &O) -> String
where
    O: State<Operand>,
    O::Value: std::fmt::Display,
{
    let parts = operands
        .iter()
        .map(|o| format!("{}={};", o.display(program), o.value(outcome)));
    parts.collect::<Vec<_>>().join(" ")
}
