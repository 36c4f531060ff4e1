//! The `power` command: the control loop in simulated time, or as nodes of a job in real time.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use loco_app::{OutputError, Stop};
use loco_power::{Delays, Params, PowerError, RealPlan, Result, Run, output, run_real, simulate, stability};

/// The longest period, and the longest delay of a message: a second, in microseconds.
const MICROS_MAX: u64 = 1_000_000;

/// A DC/DC converter control loop over network memory.
#[derive(Parser)]
#[command(name = "power", version, propagate_version = true)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the system in simulated time, once for each controller period.
    Simulate {
        #[command(flatten)]
        common: Common,
        /// Delay of a message each way, microseconds.
        #[arg(long, default_value_t = 2, value_parser = loco_app::number::<u64>(..=MICROS_MAX))]
        delay: u64,
        /// Additional delay of a message, at most this many microseconds.
        #[arg(long, default_value_t = 0, value_parser = loco_app::number::<u64>(..=MICROS_MAX))]
        jitter: u64,
        /// Seed of the jitter.
        #[arg(long, default_value_t = 0, requires = "jitter", value_parser = loco_app::number::<u64>(..))]
        seed: u64,
    },
    /// Be a node of the system in real time: `loco run -n 3 -- power run`.
    ///
    /// The lowest node is the controller, and prints the result. The others have the converters. Ctrl-C ends
    /// the job after the current period. On a host with fewer cores than nodes, give a --slow-down.
    ///
    /// A message takes --delay of the model's time, and what the network takes divided by --slow-down. With
    /// --delay 0 and a --slow-down, messages take next to no time of the model, and longer periods than the
    /// paper's 40 us are stable.
    Run {
        #[command(flatten)]
        common: Common,
        /// Time that a message takes each way besides what the network takes, microseconds of the model.
        #[arg(long, default_value_t = 2, value_parser = loco_app::number::<u64>(..=MICROS_MAX))]
        delay: u64,
        /// Factor by which all times of the model are stretched: with 100, a period of 40 us takes 4 ms.
        #[arg(long, default_value_t = 1, value_parser = loco_app::number::<u32>(1..=100_000))]
        slow_down: u32,
    },
}

#[derive(clap::Args)]
struct Common {
    /// Periods of the controller's loop, microseconds, separated by commas.
    #[arg(long, value_delimiter = ',', default_values_t = [10, 20, 40, 60, 80, 100], value_parser = loco_app::number::<u64>(1..=MICROS_MAX))]
    periods: Vec<u64>,
    /// Number of converters.
    #[arg(long, default_value_t = loco_power::params::CONVERTERS as u32, value_parser = loco_app::number::<u32>(1..=4096))]
    converters: u32,
    /// Time for which each period is run, milliseconds of the model.
    #[arg(long, default_value_t = 20, value_parser = loco_app::number::<u64>(1..=10_000))]
    duration: u64,
    /// Write output voltage over time as CSV.
    #[arg(long)]
    csv: Option<PathBuf>,
    /// Write a plot with one panel for each period.
    #[arg(long)]
    svg: Option<PathBuf>,
}

fn main() -> ExitCode {
    let args: Args = loco_app::arguments();
    // A simulation has nothing to finish, so a signal ends it as it ends any program.
    let stop = match args.command {
        Command::Simulate { .. } => Ok(Stop::default()),
        Command::Run { .. } => Stop::on_signals(),
    };
    let work = |stop: &Stop| run(args.command, stop).map(|()| 0);
    loco_app::run("power", stop, work, PowerError::exit_code)
}

fn run(command: Command, stop: &Stop) -> Result<()> {
    match command {
        Command::Simulate {
            common,
            delay,
            jitter,
            seed,
        } => {
            let delays = Delays {
                command: micros(delay),
                feedback: micros(delay),
                jitter: micros(jitter),
                seed,
            };
            let params = common.params();
            heading("")?;
            let mut runs = Vec::new();
            for period in common.periods() {
                let run = simulate(&params, period, &delays, common.duration())?;
                print(&params, &delays, &run, "")?;
                runs.push(run);
            }
            common.write(&runs)
        }
        Command::Run {
            common,
            delay,
            slow_down,
        } => real(&common, micros(delay), slow_down, stop),
    }
}

fn real(common: &Common, delay: Duration, slow_down: u32, stop: &Stop) -> Result<()> {
    let plan = RealPlan {
        params: common.params(),
        periods: common.periods().collect(),
        duration: common.duration(),
        delay,
        slow_down,
    };
    let runs = run_real(loco_app::fabric("loco run -n 3 -- power run")?, &plan, stop)?;
    if runs.is_empty() {
        // This is a converter's node.
        return Ok(());
    }
    heading("missed")?;
    // Messages of real networks have no single delay. This is the radius for the model's delay alone.
    let delays = Delays {
        command: delay,
        feedback: delay,
        ..Delays::default()
    };
    for run in &runs {
        print(&plan.params, &delays, &run.run, &run.missed.to_string())?;
    }
    loco_app::print(format_args!(
        "A message takes {} us of the model's time each way (--delay), and what the network takes divided by {slow_down}.",
        delay.as_micros()
    ))?;
    let runs: Vec<Run> = runs.into_iter().map(|run| run.run).collect();
    common.write(&runs)
}

impl Common {
    fn params(&self) -> Params {
        let standard = Params::default();
        let each = standard.reference_volts / standard.converters as f64;
        Params {
            converters: self.converters as usize,
            reference_volts: each * f64::from(self.converters),
            ..standard
        }
    }

    fn periods(&self) -> impl Iterator<Item = Duration> + '_ {
        self.periods.iter().copied().map(micros)
    }

    fn duration(&self) -> Duration {
        Duration::from_millis(self.duration)
    }

    fn write(&self, runs: &[Run]) -> Result<()> {
        if let Some(path) = &self.csv {
            let mut out = BufWriter::new(File::create(path)?);
            output::write_csv(&mut out, runs)?;
            out.flush()?;
        }
        if let Some(path) = &self.svg {
            output::write_svg(path, runs)?;
        }
        Ok(())
    }
}

fn micros(us: u64) -> Duration {
    Duration::from_micros(us)
}

fn heading(last: &str) -> Result<(), OutputError> {
    loco_app::print(format_args!(
        "{:>12} {:>10} {:>12} {:>12} {last:>10}",
        "period (us)", "radius", "deviation", "overshoot"
    ))
}

fn print(params: &Params, delays: &Delays, run: &Run, last: &str) -> Result<(), OutputError> {
    // A period that is not a multiple of the converters' period is still run.
    let radius = stability::radius(params, run.controller_period, delays)
        .map_or_else(|_| "-".to_owned(), |radius| format!("{radius:.4}"));
    let period = run.controller_period.as_micros();
    let (deviation, overshoot) = (run.deviation() * 100.0, run.overshoot() * 100.0);
    loco_app::print(format_args!(
        "{period:>12} {radius:>10} {deviation:>10.3} % {overshoot:>10.1} % {last:>10}"
    ))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn numbers_beyond_all_reason_are_refused_by_every_option() {
        loco_testing::numbers::are_refused(&super::Args::command(), &["seed"]);
    }
}
