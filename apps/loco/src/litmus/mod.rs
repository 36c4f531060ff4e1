//! `loco litmus`: litmus tests on the fabric of a job, and the evaluation of their results.

use clap::Subcommand;

use crate::error::CliError;

mod results;
mod run;

/// Run litmus tests on a fabric, and read the results.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(Box<run::Args>),
    Table(results::TableArgs),
    Infer(results::InferArgs),
}

/// Runs the subcommand and returns its exit code.
pub fn run(args: &Args, given: &[String]) -> Result<u8, CliError> {
    match &args.command {
        Command::Run(args) => run::run(args, given),
        Command::Table(args) => results::table(args),
        Command::Infer(args) => results::infer(args),
    }
}
