//! The `power` command: the control loop in simulated time.
#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use loco_power::{Delays, Params, Result, output, simulate, stability};

#[derive(Parser)]
#[command(version, about = "A DC/DC converter control loop over network memory")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs the system in simulated time, once for each controller period.
    Simulate {
        /// Periods of the controller's loop, microseconds.
        #[arg(long, value_delimiter = ',', default_values_t = [10, 20, 40, 60, 80, 100])]
        periods: Vec<u64>,
        /// Number of converters.
        #[arg(long, default_value_t = loco_power::params::CONVERTERS)]
        converters: usize,
        /// Simulated time, milliseconds.
        #[arg(long, default_value_t = 20)]
        duration: u64,
        /// Delay of a message each way, microseconds.
        #[arg(long, default_value_t = 2)]
        delay: u64,
        /// Up to this much more delay, microseconds.
        #[arg(long, default_value_t = 0)]
        jitter: u64,
        /// Seed of the jitter.
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// Writes output voltage over time as CSV.
        #[arg(long)]
        csv: Option<PathBuf>,
        /// Writes a plot, one series a period.
        #[arg(long)]
        svg: Option<PathBuf>,
    },
}

fn main() -> ExitCode {
    match run(Args::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("power: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    let Command::Simulate {
        periods,
        converters,
        duration,
        delay,
        jitter,
        seed,
        csv,
        svg,
    } = command;
    let standard = Params::default();
    let each = standard.reference_volts / standard.converters as f64;
    let params = Params {
        converters,
        reference_volts: each * converters as f64,
        ..standard
    };
    let micros = Duration::from_micros;
    let delays = Delays {
        command: micros(delay),
        feedback: micros(delay),
        jitter: micros(jitter),
        seed,
    };
    let mut runs = Vec::new();
    println!(
        "{:>12} {:>10} {:>12} {:>12}",
        "period (us)", "radius", "deviation", "overshoot"
    );
    for period in periods {
        let run = simulate(&params, micros(period), &delays, Duration::from_millis(duration))?;
        let radius = stability::radius(&params, micros(period), &delays);
        // A period that is no multiple of the converters' is simulated all the same.
        let radius = radius.map_or_else(|_| "-".to_owned(), |radius| format!("{radius:.4}"));
        let (deviation, overshoot) = (run.deviation() * 100.0, run.overshoot() * 100.0);
        println!("{period:>12} {radius:>10} {deviation:>10.3} % {overshoot:>10.1} %");
        runs.push(run);
    }
    if let Some(path) = csv {
        let mut out = BufWriter::new(File::create(path)?);
        output::write_csv(&mut out, &runs)?;
        out.flush()?;
    }
    if let Some(path) = svg {
        output::write_svg(&path, &runs)?;
    }
    Ok(())
}
