//! Compares loom, shuttle and loco-sim on small algorithms for one node, and prints a table.
//!
//! `benches/checkers/run.sh` builds and runs it. Each checker runs in a process of its own.

#![forbid(unsafe_code)]

mod algorithms;
mod tools;

use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use algorithms::{Algorithm, Size, Variant};
use clap::{Parser, ValueEnum};
use tools::{Answer, Tool};

/// Compare loom, shuttle and loco-sim on a ticket lock, Peterson's algorithm, a ring and a sequence lock.
#[derive(Parser)]
struct Args {
    /// Seconds that a checker gets for each row.
    #[arg(long, default_value_t = 30)]
    time: u64,
    /// Print one line of JSON for each cell.
    #[arg(long)]
    json: bool,
    /// Run one cell and print its answer as JSON: tool, algorithm, threads, rounds, variant.
    #[arg(long, num_args = 5, hide = true)]
    cell: Option<Vec<String>>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let result = match &args.cell {
        Some(cell) => run_cell(cell, args.time),
        None => table(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("checkers: {error}");
            ExitCode::from(2)
        }
    }
}

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn run_cell(cell: &[String], seconds: u64) -> Result<()> {
    let [tool, algorithm, threads, rounds, variant] = cell else {
        return Err("--cell takes a tool, an algorithm, threads, rounds and a variant".into());
    };
    let size = Size {
        threads: threads.parse()?,
        rounds: rounds.parse()?,
    };
    let (tool, algorithm) = (Tool::from_str(tool, true)?, Algorithm::from_str(algorithm, true)?);
    let answer = tools::run(
        tool,
        algorithm,
        size,
        Variant::from_str(variant, true)?,
        Duration::from_secs(seconds),
    );
    println!("{}", serde_json::to_string(&answer)?);
    Ok(())
}

fn name(value: impl ValueEnum) -> String {
    value
        .to_possible_value()
        .map_or_else(String::new, |value| value.get_name().to_owned())
}

fn ask(tool: Tool, algorithm: Algorithm, size: Size, variant: Variant, seconds: u64) -> Result<Answer> {
    let output = Command::new(std::env::current_exe()?)
        .args(["--time", &seconds.to_string(), "--cell"])
        .args([
            name(tool),
            name(algorithm),
            size.threads.to_string(),
            size.rounds.to_string(),
            name(variant),
        ])
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("{} on {}: {}", name(tool), name(algorithm), output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn table(args: &Args) -> Result<()> {
    if !args.json {
        println!(
            "{:<12} {:<7} {:<7} {:<16} {:>11} {:>9} {:>12}  answer",
            "algorithm", "size", "variant", "checker", "executions", "seconds", "a second"
        );
    }
    for &algorithm in Algorithm::value_variants() {
        for &size in algorithm.sizes() {
            for variant in [Variant::Right, Variant::Wrong] {
                for &tool in Tool::value_variants() {
                    let answer = ask(tool, algorithm, size, variant, args.time)?;
                    line(args, tool, algorithm, size, variant, &answer)?;
                }
            }
        }
    }
    Ok(())
}

fn line(
    args: &Args,
    tool: Tool,
    algorithm: Algorithm,
    size: Size,
    variant: Variant,
    answer: &Answer,
) -> Result<()> {
    if args.json {
        let line = serde_json::json!({"algorithm": algorithm, "size": size, "variant": variant, "tool": tool, "answer": answer});
        println!("{line}");
        return Ok(());
    }
    let says = match (answer.found, answer.complete) {
        (true, _) => "fails",
        (false, true) => "holds, complete",
        (false, false) => "nothing found",
    };
    println!(
        "{:<12} {:<7} {:<7} {:<16} {:>11} {:>9.3} {:>12.0}  {says}",
        name(algorithm),
        format!("{} x {}", size.threads, size.rounds),
        name(variant),
        name(tool),
        answer.executions,
        answer.seconds,
        answer.executions as f64 / answer.seconds.max(1e-9),
    );
    Ok(())
}
