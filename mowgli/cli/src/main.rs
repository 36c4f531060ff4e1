//! The `mowgli` command, which checks, explains and compares litmus tests of RDMA memory models.
//!
//! There is one file for each subcommand. `source` finds and parses tests, `diagnostics` draws errors of the parser, `budget` turns
//! `--limit` and Ctrl-C into budgets, and `output` writes. All knowledge of memory models is in the library.
#![forbid(unsafe_code)]

mod bench;
mod budget;
mod check;
mod choice;
mod clients;
mod compare;
mod completions;
mod diagnostics;
mod distinguish;
mod explain;
mod faults;
mod generate;
mod list;
mod man;
mod merge;
#[cfg(test)]
mod numbers;
mod outcomes;
mod output;
mod progress;
mod read;
mod refine;
mod robust;
mod row;
mod serve;
mod shard;
mod show;
mod source;
mod stack;
mod star;
mod summary;
mod theories;
mod values;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Executable memory models for RDMA
///
/// Mowgli runs litmus tests, small programs with a question about their final state, under memory models of RDMA, and says
/// whether the outcome asked about is allowed. Reports have the form of herd7's.
///
/// The language of tests is described in docs/litmus.md; `mowgli show SB3` prints an example.
#[derive(Debug, Parser)]
#[command(name = "mowgli", version, max_term_width = 110, after_help = AFTER_HELP)]
struct Cli {
    /// Print in colours on a terminal (auto), always, or never
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    color: clap::ColorChoice,
    /// Looks for model files, and for what they include, in this folder too
    ///
    /// A file beside the one that includes it is taken first, then one in these folders, then a built-in one. May be given several times.
    #[arg(short = 'I', long = "include", global = true, value_name = "FOLDER")]
    include: Vec<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
MODELS
  sc               sequential consistency
  tso              x86-TSO, CPU operations only
  rdma-sc          RDMA over a sequentially consistent CPU (Robust'25)
  rdma-tso         RDMA over x86-TSO (RDMA-TSO'24)
  rdma-tso-nopcie  rdma-tso without the PCIe ordering guarantees
  rdma-wait        RDMA with work identifiers and wait (LOCO'26)
  MODEL+TIER       rdma-sc, rdma-tso or rdma-wait over a network that orders less: +ooo-rw,
                   +ooo-all, +pcie-relaxed, +unordered (docs/ordering-models.md)
  FILE.cat         a model file, yours or a built-in one: rdma-tso.cat (docs/models.md)
  corerma          coreRMA with in-order routing (coreRMA'16), for tests of coreRMA, as sc is, too;
                   variants: -fig4, -unordered, -ib, -inlined, -atomic-rga; any rule is left out
                   by -RULE and added by +RULE: corerma-R1 (docs/corerma.md)

EXAMPLES
  mowgli check                        the catalogue under every model
  mowgli check SB3 --model rdma-tso   one built-in test
  mowgli check tests/ --engine both   a folder, by both engines
  mowgli explain SB3                  why the outcome is allowed or forbidden
  mowgli compare RDMA-3e --models rdma-tso,rdma-tso-nopcie
  mowgli robust ROB-3b --exact        where a program is weaker than sc
  mowgli serve --open                 all of this in a browser

EXIT STATUS
  0  every verdict is as the tests state
  1  some verdict differs or is vacuous, or the two engines disagree
  2  wrong usage, a file cannot be read, or a test has errors
  3  some verdict is unknown: a limit was reached
  130  interrupted by Ctrl-C, and nothing above but unknown";

#[derive(Debug, Subcommand)]
enum Command {
    Check(check::Args),
    Explain(explain::Args),
    Compare(compare::Args),
    List(list::Args),
    Show(show::Args),
    Generate(generate::Args),
    Distinguish(distinguish::Args),
    Faults(faults::Args),
    Merge(merge::Args),
    Star(star::Args),
    Bench(bench::Args),
    Outcomes(outcomes::Args),
    Refine(refine::Args),
    Robust(robust::Args),
    Serve(serve::Args),
    Completions(completions::Args),
    Man(man::Args),
}

/// The reason why a command stops without an answer. The exit status is 2.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A file or folder cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The path.
        path: String,
        /// The system's reason.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The path.
        path: String,
        /// The system's reason.
        source: io::Error,
    },
    /// Neither a file nor a built-in test.
    #[error("{name} is neither a file nor a built-in test{}; `mowgli list` shows the catalogue", hint.as_deref().map(|h| format!(" (did you mean {h}?)")).unwrap_or_default())]
    NoSuchTest {
        /// The name asked for.
        name: String,
        /// The nearest built-in name.
        hint: Option<String>,
    },
    /// A folder without tests.
    #[error("no litmus test below {0}: tests are files named *.litmus")]
    NoTests(String),
    /// A list without tests.
    #[error("{0} names no test: write one path a line")]
    EmptyList(String),
    /// A model file with errors, which have been printed.
    #[error("{0} cannot be used because of the errors above")]
    Model(String),
    /// Tests with errors; the errors have been printed.
    #[error("{0} of the tests cannot be used because of the errors above")]
    Parse(usize),
    /// Wrong usage that the option parser cannot see.
    #[error("{0}")]
    Usage(String),
    /// Standard output is gone or full.
    #[error("cannot write the report: {0}")]
    Output(#[from] io::Error),
    /// A report that cannot be written as JSON.
    #[error("cannot write the report as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// The result of a command that did its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All verdicts are as stated.
    AsStated,
    /// Some verdict differs or is vacuous, or the engines disagree.
    Differs,
    /// Some test could not be used.
    Refused,
    /// Some verdict is unknown.
    Unknown,
}

/// The exit status after Ctrl-C, as shells report it.
pub(crate) const INTERRUPTED_STATUS: u8 = 130;

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            // A difference that was found before Ctrl-C keeps its status.
            Exit::AsStated | Exit::Unknown if budget::is_interrupted() => INTERRUPTED_STATUS,
            Exit::AsStated => 0,
            Exit::Differs => 1,
            Exit::Refused => 2,
            Exit::Unknown => 3,
        })
    }
}

fn main() -> ExitCode {
    let arguments = arguments();
    output::choose_colours(arguments.color);
    let result = choice::look_in(arguments.include).and_then(|()| run(arguments.command));
    match result {
        Ok(exit) => exit.into(),
        Err(error) => {
            output::complain(format_args!("mowgli: {error}"));
            Exit::Refused.into()
        }
    }
}

fn run(command: Command) -> Result<Exit, Error> {
    match command {
        Command::Check(args) => check::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::List(args) => list::run(&args),
        Command::Show(args) => show::run(&args),
        Command::Generate(args) => generate::run(&args),
        Command::Distinguish(args) => distinguish::run(&args),
        Command::Faults(args) => faults::run(&args),
        Command::Merge(args) => merge::run(&args),
        Command::Star(args) => star::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Outcomes(args) => outcomes::run(&args),
        Command::Refine(args) => refine::run(&args),
        Command::Robust(args) => robust::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    }
}

/// Parses the arguments of this process. Ends the process with 2 after a mistake in them, and with 0 after `--help` and
/// `--version`; with 2 as well if their text cannot be written, unless the reader has gone away.
fn arguments() -> Cli {
    Cli::try_parse().unwrap_or_else(|answer| {
        let code = match answer.print() {
            Err(error) if !answer.use_stderr() && error.kind() != io::ErrorKind::BrokenPipe => {
                output::complain(format_args!("mowgli: {error}"));
                2
            }
            _ => answer.exit_code(),
        };
        std::process::exit(code)
    })
}

/// Returns clap's description of the command, for completions and manual pages.
pub(crate) fn command() -> clap::Command {
    use clap::CommandFactory;
    Cli::command()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_documents_show_calls_that_are_taken() {
        loco_testing::documented::are_parsed(&super::command());
    }
}
