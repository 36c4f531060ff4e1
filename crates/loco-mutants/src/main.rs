//! The command `loco-mutants`: reports which mutations of the shipped objects `loco check` finds.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use loco_mutants::{Mutation, Outcome, Tree, TreeError, all, groups};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use serde::Serialize;

/// Apply mutations to the shipped objects and climb the ladder of `loco check` with each.
///
/// Run in the root of the repository. Prints a line for each mutation and the share found by object. Survivors are listed at
/// the end. Mutations that are argued harmless are left out.
///
/// Exit status: 0 if at least --share percent of the mutations were found, each within --time, 1 if not, 2 if a mutation does
/// not fit the sources or the code as shipped does not build.
#[derive(Parser)]
struct Args {
    /// Objects whose mutations to try, as `loco check` names them; all if none is named.
    objects: Vec<String>,
    /// Try only the mutation of this name.
    #[arg(long)]
    name: Option<String>,
    /// Try so many mutations, drawn at random.
    #[arg(long, value_name = "N")]
    sample: Option<usize>,
    /// Seed of the draw.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Seconds that `loco check` gets for each mutation.
    #[arg(long, default_value_t = 60)]
    time: u64,
    /// Percentage of mutations that must be found.
    #[arg(long, default_value_t = 95)]
    share: u64,
    /// Folder for the copy of the workspace and what is built in it.
    #[arg(long, default_value = "target/mutants")]
    folder: PathBuf,
    /// Try those that are argued harmless, too; they do not count.
    #[arg(long)]
    harmless: bool,
    /// List the mutations and try none.
    #[arg(long)]
    list: bool,
    /// Print one line of JSON for each mutation.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Line<'a> {
    object: &'a str,
    name: &'a str,
    after_failure: bool,
    harmless: Option<&'a str>,
    outcome: &'a Outcome,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("loco-mutants: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &Args) -> Result<bool, TreeError> {
    let mut mutations: Vec<Mutation> = all()?
        .into_iter()
        .filter(|m| args.objects.is_empty() || args.objects.contains(&m.object))
        .filter(|m| args.name.as_ref().is_none_or(|name| *name == m.name))
        .collect();
    if let Some(sample) = args.sample {
        mutations.retain(|m| m.harmless.is_none());
        mutations.shuffle(&mut SmallRng::seed_from_u64(args.seed));
        mutations.truncate(sample);
    }
    if args.list {
        for m in &mutations {
            println!("{}/{}: {}", m.object, m.name, m.wrong);
        }
        return Ok(true);
    }
    if !args.harmless && args.name.is_none() {
        mutations.retain(|m| m.harmless.is_none());
    }
    let tree = Tree::copy(Path::new("."), &args.folder)?;
    tree.build_as_shipped()?;
    let mut tally: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    let mut survivors = Vec::new();
    let all: Vec<&Mutation> = mutations.iter().collect();
    let mut each = |mutation, outcome| judge(args, mutation, &outcome, &mut tally, &mut survivors);
    for group in groups(&all) {
        tree.check(&group, args.time, &mut each)?;
    }
    let (found, tried) = tally
        .values()
        .fold((0, 0), |(f, t), (found, tried)| (f + found, t + tried));
    if !args.json {
        for (object, (found, tried)) in &tally {
            println!("{object:16} {found:3} of {tried:3} found");
        }
        println!("{:16} {found:3} of {tried:3} found", "all");
        for survivor in survivors {
            println!(
                "survived: {}/{}: {}",
                survivor.object, survivor.name, survivor.wrong
            );
        }
    }
    Ok(found * 100 >= tried * args.share)
}

/// Shows an outcome, and counts it if the mutation does harm.
fn judge<'m>(
    args: &Args,
    mutation: &'m Mutation,
    outcome: &Outcome,
    tally: &mut BTreeMap<&'m str, (u64, u64)>,
    survivors: &mut Vec<&'m Mutation>,
) {
    show(args, mutation, outcome);
    if mutation.harmless.is_some() || *outcome == Outcome::DoesNotBuild {
        return;
    }
    let (found, tried) = tally.entry(&mutation.object).or_default();
    *tried += 1;
    match outcome {
        Outcome::Found { .. } => *found += 1,
        _ => survivors.push(mutation),
    }
}

fn show(args: &Args, mutation: &Mutation, outcome: &Outcome) {
    if args.json {
        let line = Line {
            object: &mutation.object,
            name: &mutation.name,
            after_failure: mutation.after_failure,
            harmless: mutation.harmless.as_deref(),
            outcome,
        };
        // The line has only strings, numbers and booleans, which always serialize.
        println!("{}", serde_json::to_string(&line).unwrap_or_default());
        return;
    }
    let what = match outcome {
        Outcome::Found { seconds, by } => format!("found in {seconds:.1} s by {by}"),
        Outcome::Survived { seconds } => format!("SURVIVED {seconds:.1} s"),
        Outcome::Hangs { seconds } => format!("SURVIVED, ended after {seconds:.1} s"),
        Outcome::DoesNotBuild => "DOES NOT BUILD".to_owned(),
    };
    let harmless = if mutation.harmless.is_some() {
        " (harmless)"
    } else {
        ""
    };
    println!("{}/{}: {what}{harmless}", mutation.object, mutation.name);
}
