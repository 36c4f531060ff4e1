//! `mowgli explain`: why an outcome is allowed or forbidden.

use std::fmt::Write;

use mowgli::check::{self, Engine, Judgement, applicable};
use mowgli::explore;
use mowgli::litmus::{Litmus, Setting, parse};
use mowgli::model::{Model, RmwAtomicity};

use crate::budget::{Limits, interrupt_flag};
use crate::{Error, Exit, output, source};

/// Explain why an outcome is allowed or forbidden
///
/// For an allowed outcome, prints the steps of the machine that lead to it: what each CPU, store buffer and queue pair
/// does, in order.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES\n  mowgli explain SB3 --model rdma-tso\n  \
    mowgli explain ST2 --outcome 'z=1'\n  mowgli explain mine.litmus --query 2")]
pub(crate) struct Args {
    /// A built-in test or a file
    test: String,
    /// The model
    #[arg(short, long, default_value = "rdma-tso")]
    model: Model,
    /// Atomicity of remote read-modify-writes: hca or glob
    #[arg(long, default_value = "hca", value_name = "ATOMICITY")]
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
    let flag = interrupt_flag();
    let answer = check::run(
        &litmus.program,
        setting,
        Engine::Declarative,
        &args.limit.budget(&flag),
    )
    .map_err(|e| Error::Usage(e.to_string()))?;
    let formula = &litmus.queries[0].condition.formula;
    let judgement: Judgement = check::judge(&litmus, 0, &answer.search);
    let mut text = format!(
        "Test {} under {setting}\nOutcome {}\n",
        litmus.name,
        formula.display(&litmus.program)
    );
    let exit = match answer.search.outcomes.iter().find(|o| formula.holds(o)) {
        Some(wanted) => {
            text.push_str("Allowed. The machine reaches it:\n\n");
            let is_wanted = |o: &mowgli::outcome::Outcome| o == wanted;
            let budget = args.limit.budget(&flag);
            match explore::trace(&litmus.program, setting.model, setting.rmw, &is_wanted, &budget) {
                Ok(Some(steps)) => {
                    for (number, step) in steps.iter().enumerate() {
                        let _ = writeln!(text, "{:4}  {step}", number + 1);
                    }
                    Exit::AsStated
                }
                Ok(None) => {
                    text.push_str("no trace: the two engines disagree on this outcome\n");
                    Exit::Differs
                }
                Err(limit) => {
                    let _ = writeln!(text, "no trace found: {limit}");
                    Exit::Unknown
                }
            }
        }
        None => match judgement.limit {
            Some(limit) => {
                let _ = writeln!(text, "Unknown: {limit}");
                Exit::Unknown
            }
            None => {
                text.push_str("Forbidden.\n");
                Exit::AsStated
            }
        },
    };
    output::print(&text)?;
    Ok(exit)
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
