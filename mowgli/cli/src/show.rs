//! `mowgli show`: the text of a test.

use mowgli::litmus::Dialect;
use mowgli_libraries::text;
use serde::Serialize;

use crate::source::{AnyTest, Test};
use crate::{Error, Exit, output, source};

/// Print the text of a test
///
/// NAME is a built-in test or a file. The text is printed as it stands; with --print it goes through the parser and
/// the printer, which shows how the test was understood. NAME may also be a built-in implementation of a library as text: I_W.impl,
/// I_SV.impl, I_BAL.impl, I_RBL.impl, I_MSW.impl.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "EXAMPLES\n  mowgli show SB3\n  mowgli show SB3 > mine.litmus\n  mowgli show --print mine.litmus"
)]
pub(crate) struct Args {
    /// A built-in test or a file
    name: String,
    /// Print what the parser understood, in the printer's layout
    #[arg(long, conflicts_with = "json")]
    print: bool,
    /// Print the syntax tree as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Error> {
    if let (Some(text), false) = (text::find(&args.name), args.print || args.json) {
        output::print(text)?;
        return Ok(Exit::AsStated);
    }
    match source::load_any(&args.name)? {
        AnyTest::Rdma(test) => show(args, test),
        AnyTest::CoreRma(test) => show(args, test),
    }
}

fn show<P>(args: &Args, test: Test<P>) -> Result<Exit, Error>
where
    P: Dialect + Serialize,
    P::Value: Serialize,
{
    let litmus = &test.litmus;
    if args.json {
        let conditions: Vec<_> = litmus.queries.iter().map(|q| &q.condition).collect();
        output::print_json(&serde_json::json!({
            "name": litmus.name,
            "description": litmus.description,
            "program": litmus.program,
            "conditions": conditions,
        }))?;
    } else {
        output::print(&if args.print { litmus.print() } else { test.source })?;
    }
    Ok(Exit::AsStated)
}
