//! `mowgli show`: the text of a test.

use mowgli_corerma::litmus::Litmus as CoreRma;
use mowgli_libraries::text;

use crate::source::AnyTest;
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
    let test = match source::load_any(&args.name)? {
        AnyTest::Rdma(test) => test,
        AnyTest::CoreRma(test) => {
            if args.json {
                output::print_json(&json(&test.litmus))?;
            } else {
                output::print(&if args.print {
                    test.litmus.print()
                } else {
                    test.source
                })?;
            }
            return Ok(Exit::AsStated);
        }
    };
    if args.json {
        let json = serde_json::json!({
            "name": test.litmus.name,
            "description": test.litmus.description,
            "program": test.litmus.program,
            "conditions": test.litmus.queries.iter().map(|q| &q.condition).collect::<Vec<_>>(),
        });
        output::print_json(&json)?;
    } else if args.print {
        output::print(&test.litmus.print())?;
    } else {
        output::print(&test.source)?;
    }
    Ok(Exit::AsStated)
}

fn json(litmus: &CoreRma) -> serde_json::Value {
    serde_json::json!({
        "name": litmus.name,
        "description": litmus.description,
        "program": litmus.program,
        "conditions": litmus.queries.iter().map(|q| &q.condition).collect::<Vec<_>>(),
    })
}
