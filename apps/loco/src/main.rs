//! `loco`: starts jobs, and demonstrates and measures the objects.

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

use clap::{ColorChoice, CommandFactory as _, Parser, Subcommand};
use loco_app::Stop;

mod bench;
mod check;
mod demo;
mod doctor;
mod effect;
mod error;
mod fabrics;
mod join;
mod launcher;
mod litmus;
mod machine;
mod manual;
mod meet;
mod new;
mod nic;
mod record;
mod run;
mod sim;
mod stress;
mod timeline;
mod top;

use error::CliError;

/// Composable objects over network memory: launcher, demonstration, benchmarks.
#[derive(Parser)]
#[command(name = "loco", version, propagate_version = true)]
struct Cli {
    /// Print in colours on a terminal (auto), always, or never.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    color: ColorChoice,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    New(new::Args),
    Run(run::Args),
    Demo(demo::Args),
    Check(Box<check::Args>),
    Sim(sim::Args),
    Fabrics(fabrics::Args),
    Doctor(doctor::Args),
    Bench(bench::Args),
    Stress(stress::Args),
    Litmus(litmus::Args),
    Nic(nic::Args),
    Trace(timeline::Args),
    Top(top::Args),
    Completions(manual::CompletionsArgs),
    Man(manual::ManArgs),
    #[command(name = demo::NODE, hide = true)]
    DemoNode(demo::NodeArgs),
    #[command(name = bench::NODE, hide = true)]
    BenchNode(bench::NodeArgs),
    #[command(name = stress::NODE, hide = true)]
    StressNode(stress::NodeArgs),
    #[command(name = stress::PAUSE, hide = true)]
    Pause(stress::PauseArgs),
    #[command(name = launcher::EXEC, hide = true)]
    Exec(launcher::ExecArgs),
    #[command(name = launcher::GUARD, hide = true)]
    Guard,
}

fn main() -> ExitCode {
    let (cli, given) = loco_app::arguments_and_given::<Cli>();
    loco_app::choose_colours(cli.color);
    // Helpers of the launcher have nothing to log, and what is wrong with `LOCO_LOG` has been said by then.
    if !matches!(cli.command, Command::Exec(_) | Command::Guard) {
        loco::log_to_stderr();
    }
    let outcome = match cli.command {
        Command::New(args) => new::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Check(args) => check::run(&args, &given),
        Command::Sim(args) => sim::run(&args),
        Command::Fabrics(args) => fabrics::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::DemoNode(args) => demo::node(&args),
        Command::Bench(args) => bench::run(&args, &given),
        Command::BenchNode(args) => bench::node(&args),
        Command::Stress(args) => stress::run(&args, &given),
        Command::Litmus(args) => litmus::run(&args, &given),
        Command::Nic(args) => nic::run(&args),
        Command::Trace(args) => timeline::run(&args),
        Command::Top(args) => return top::main(&args),
        Command::Completions(args) => manual::completions(&args, &Cli::command()),
        Command::Man(args) => manual::man(&args, Cli::command()),
        Command::StressNode(args) => stress::node(&args),
        Command::Pause(args) => stress::pause(&args),
        Command::Exec(args) => Err(launcher::exec(&args)),
        Command::Guard => launcher::guard(),
    };
    // The launcher reports what ends a job early; its exit code says it.
    loco_app::exit("loco", &Stop::default(), outcome, CliError::exit_code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documents_show_calls_that_are_taken() {
        loco_testing::documented::are_parsed(&Cli::command());
    }

    #[test]
    fn numbers_beyond_all_reason_are_refused_by_every_option() {
        loco_testing::numbers::are_refused(&Cli::command(), &["seed"]);
    }
}
